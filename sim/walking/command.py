"""`npc sim bench walking`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer

from sim.walking import DENSITIES


def walking(
    roads: Annotated[str, typer.Option(help=f"Which roads, with commas between: {', '.join(DENSITIES)}.")] = ",".join(DENSITIES),
    minutes: Annotated[float, typer.Option(min=1.0, help="Virtual minutes of each life.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Another seed is another hour.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """What an NPC that yields while it walks saves in model calls and dollars: a walking-heavy hour in virtual time, with and without.

    Exit status 1 if a line that was meant for it was missed, or an ordinary road saves less than 60 % of the calls.

    Example: npc sim bench walking --roads ordinary
    """
    from sim.walking.measure import THINK_S, measure, rendered  # noqa: PLC0415 (it needs the runtime, which few commands here do)

    chosen = [road.strip() for road in roads.split(",") if road.strip()]
    if unknown := [road for road in chosen if road not in DENSITIES]:
        raise typer.BadParameter(f"there is no road {unknown[0]!r}; there are {', '.join(DENSITIES)}", param_hint="--roads")
    savings = [asyncio.run(measure(road=road, seed=seed, minutes=minutes)) for road in chosen]
    if as_json:
        rows = [{**asdict(s), "calls_saved": round(s.calls, 4), "dollars_saved": round(s.dollars, 4)} for s in savings]
        typer.echo(json.dumps({"minutes": minutes, "seed": seed, "think_s": THINK_S, "roads": rows}))
    else:
        typer.echo(rendered(savings))
    raise typer.Exit(0 if all(s.held for s in savings) else 1)
