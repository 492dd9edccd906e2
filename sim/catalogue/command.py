"""`npc sim bench tools`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def tools(
    actions: Annotated[int, typer.Option(min=1, max=600, help="Actions that the world offers besides speaking.")] = 300,
    tasks: Annotated[int, typer.Option(min=1, max=2_000, help="Errands, one in each turn.")] = 50,
    window: Annotated[int, typer.Option(min=4_000, help="The NPC's window in tokens.")] = 32_000,
    model: Annotated[str, typer.Option(help="Whose prices, sizes and tokenizer.")] = "claude-haiku-5-5",
    ways: Annotated[str, typer.Option(help="Which, with commas between: off (all shown), api, own.")] = "off,api,own",
    seed: Annotated[int, typer.Option(help="Other errands.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """What it costs to find the right one among hundreds of actions: all shown, by the provider's search, by our own.

    Exit status 1 if a search leaves more than 4 % of the errands undone or, in a window of 32,000 tokens or less with 300 actions or more,
    costs more than 60 % of what an errand costs where as many actions are shown as have room.

    Example: npc sim bench tools --actions 300 --tasks 50
    """
    from sim.catalogue.measure import WAYS, measure, rendered  # noqa: PLC0415 (it needs the product, which few commands here do)

    chosen = [way.strip() for way in ways.split(",") if way.strip()]
    if unknown := [way for way in chosen if way not in WAYS]:
        raise typer.BadParameter(f"there is no way {unknown[0]!r}; there are {', '.join(WAYS)}", param_hint="--ways")
    found = measure(number=actions, tasks=tasks, window=window, model=model, seed=seed, ways=chosen)
    if as_json:
        typer.echo(json.dumps(found.plain()))
    else:
        typer.echo(rendered(found))
        for missed in found.missed_bounds:
            typer.secho(f"missed: {missed}", fg=typer.colors.RED, err=True)
    raise typer.Exit(1 if found.missed_bounds else 0)
