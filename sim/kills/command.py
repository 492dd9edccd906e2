"""`npc sim bench kills`: the crash proof as a command."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sim.product import ProductError

#: Columns of a report that goes to a file or a pipeline's log.
WIDTH = 120


def kills(
    kills: Annotated[int, typer.Option(min=1, help="How many processes are killed.")] = 200,
    seed: Annotated[int, typer.Option(help="Another seed kills at other instants.")] = 7,
    within: Annotated[float, typer.Option(min=0.05, help="Seconds in which the NPC must act again once the world is back.")] = 1.0,
    keep: Annotated[Path | None, typer.Option(help="A folder for what both write to disk; otherwise it is removed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Kill the NPC and its world with signal 9 at random instants, and compare what was told with what was heard and done.

    Both run in processes of their own, on loopback; no key is needed. Exit status 0 only if nothing was lost, doubled or repeated.

    Example: npc sim bench kills --kills 200 --seed 7
    """
    from sim.kills.report import Report  # noqa: PLC0415 (the servers that it needs are no part of the command line's start)
    from sim.kills.trial import Options, Outcome, run  # noqa: PLC0415

    options = Options(kills=kills, seed=seed, within_s=within, keep=keep)
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=WIDTH)
    progress = Progress(
        TextColumn("kills"), BarColumn(), MofNCompleteColumn(), TextColumn("· {task.fields[news]}"), TimeRemainingColumn(),
        console=console, disable=as_json and not console.is_terminal,
    )  # fmt: skip
    try:
        with progress:
            task = progress.add_task("kills", total=kills, news="starting")

            def on_kill(outcome: Outcome) -> None:
                last = f"{outcome.back_ms[-1]:.0f} ms to the last action after the world was back" if outcome.back_ms else "…"
                progress.update(task, completed=outcome.kills, news=last)

            outcome = asyncio.run(run(options, on_kill=on_kill))
    except ProductError as error:
        console.print(f"[bold red]It could not be run.[/] {error}")
        raise typer.Exit(1) from error
    report = Report(options, outcome)
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        console.print(report.rendered())
    raise typer.Exit(0 if report.held else 1)
