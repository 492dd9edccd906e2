"""`npc sim bench …`: what is measured with a bound beside it, each by a command that anyone can run.

Invariant: a command prints ratios and percentiles of one run, and exits with 1 if a bound that it names is missed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

app = typer.Typer(no_args_is_help=True, help="Measurements, each with its bound.")


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
