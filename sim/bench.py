"""`npc sim bench …`: what is measured with a bound beside it, each by a command that anyone can run.

Invariant: a command prints ratios and percentiles of one run, and exits with 1 if a bound that it names is missed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sim.catalogue.command import tools
from sim.injection.command import injection
from sim.kills.command import kills
from sim.ratios.command import ratios
from sim.walking.command import walking

app = typer.Typer(no_args_is_help=True, help="Measurements, each with its bound.")
app.command()(kills)
app.command()(walking)
app.command()(tools)
app.command()(injection)
app.command()(ratios)


@app.command()
def intake(
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of the race against the bare loop; 0: none.")] = 5,
    count: Annotated[int, typer.Option(min=1_000, help="Observations of one round.")] = 200_000,
    batch: Annotated[int, typer.Option(min=1, help="Observations in one frame of it.")] = 100,
    seconds: Annotated[float, typer.Option(min=0, help="How long the flood goes on; 0: none.")] = 60.0,
    rate: Annotated[float, typer.Option(min=100, help="Observations a second.")] = 5_000.0,
    addressed: Annotated[float, typer.Option(min=0, help="Lines a second that are for the NPC.")] = 2.0,
    folder: Annotated[Path | None, typer.Option(help="Where the homes lie, if not with the temporary files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """What an NPC can be told: durable intake against a bare loop, and a flood with turns going on.

    Example: npc sim bench intake --rounds 5 --seconds 60
    """
    from sim.intake import measure, rendered  # noqa: PLC0415 (it needs the whole product, which no other command here does)

    found = measure(rounds=rounds, count=count, batch=batch, seconds=seconds, rate=rate, addressed=addressed, folder=folder)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "ratio": found.ratio}))
    else:
        console = Console()
        console.print(rendered(found))
        for missed in found.missed_bounds:
            console.print(f"missed: {missed}", style="bold red", markup=False)
    raise typer.Exit(1 if found.missed_bounds else 0)


@app.command()
def recall(
    memories: Annotated[int, typer.Option(min=100, help="Memories of the life in which it is asked.")] = 10_000,
    tries: Annotated[int, typer.Option(min=2, help="Facts that are told once and asked for once.")] = 100,
    days: Annotated[int, typer.Option(min=0, help="Virtual days of the life whose growth is looked at.")] = 10,
    lines_a_day: Annotated[int, typer.Option(min=10, help="Lines that are heard in each of them.")] = 4_000,
    bound: Annotated[int, typer.Option(min=100, help="Its setting `[memory] lines`.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Another seed is another life.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Whether a fact told once is found again among many memories, what a search takes, and how the memory grows over days.

    Example: npc sim bench recall --memories 10000 --tries 100
    """
    from sim.recollection import measure, rendered  # noqa: PLC0415 (it needs the product, which no other command here does)

    found = measure(memories=memories, tries=tries, days=days, lines_a_day=lines_a_day, bound=bound, seed=seed)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        console = Console()
        console.print(rendered(found), highlight=False)
        for missed in found.missed_bounds:
            console.print(f"missed: {missed}", style="bold red", markup=False)
    raise typer.Exit(1 if found.missed_bounds else 0)


@app.command()
def marks(
    turns: Annotated[int, typer.Option(min=50, help="Turns of each point of the grid.")] = 400,
    windows: Annotated[str, typer.Option(help="Windows in tokens, with commas between.")] = "10000,32000",
    high: Annotated[str, typer.Option(help="High marks.")] = "0.4,0.5,0.6,0.75,0.9",
    low: Annotated[str, typer.Option(help="Low marks.")] = "0.06,0.1,0.2",
    seed: Annotated[int, typer.Option(help="Another seed is another life.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """What the ladder's marks cost, in dollars per 1,000 turns, over a grid of them: the context policy alone, in this process.

    Example: npc sim bench marks --windows 10000 --turns 400
    """
    from sim.marks import measure, table  # noqa: PLC0415 (it needs the runtime, which no other command here does)

    grid = [(int(w), float(h), float(lo)) for w in windows.split(",") for h in high.split(",") for lo in low.split(",")]
    rows = []
    with Progress(TextColumn("marks"), BarColumn(), MofNCompleteColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("marks", total=len(grid))
        for window, upper, lower in grid:
            rows.append(measure(window=window, high=upper, low=lower, turns=turns, seed=seed))
            progress.advance(task)
    if as_json:
        typer.echo(json.dumps({"turns": turns, "seed": seed, "rows": [asdict(r) for r in rows]}))
    else:
        typer.echo(table(rows))
