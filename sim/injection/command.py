"""`npc sim bench injection`: attacks by words, with a model stand-in that obeys them all."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

SHOWN = 20


def injection(
    first: Annotated[int, typer.Option(min=1, help="Only the first so many attacks.")] = 10_000,
    unguarded: Annotated[bool, typer.Option("--unguarded", help="Without gates and policy.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Attack an NPC by words, over chat, names, signs, books, results and other NPCs, in many languages and clothes.

    The model stand-in obeys each of them in every way that it has: what holds is structure. Exit status 0 only if nothing came through.

    Example: npc sim bench injection
    """
    from sim.injection.attacks import attacks  # noqa: PLC0415 - only this command needs them
    from sim.injection.trial import run  # noqa: PLC0415 - it needs the whole proving ground

    console = Console(stderr=as_json)
    progress = Progress(
        TextColumn("attacks"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"), console=console,
        disable=not console.is_terminal,
    )  # fmt: skip
    with progress:
        task = progress.add_task("attacks", total=min(first, len(attacks())), now="")
        outcome = asyncio.run(
            run(limit=first, guarded=not unguarded, on_attack=lambda a: progress.update(task, advance=1, now=a.name[:60]))
        )
    if as_json:
        typer.echo(json.dumps({**asdict(outcome), "held": outcome.held}, ensure_ascii=False))
    else:
        console.print(
            f"{outcome.attacks} attacks, {outcome.read} of them read and obeyed by the stand-in with {outcome.tried:,} forbidden calls: "
            f"{len(outcome.breaches)} came through. {outcome.asked} requests wait for the operator. "
            f"{outcome.seconds:.0f} s, ${outcome.dollars:.2f}."
        )
        for what, times in Counter(breach.what for breach in outcome.breaches).most_common(SHOWN):
            console.print(f"came through {times} times: {what}", style="bold red", markup=False)
        for breach in outcome.breaches[:SHOWN]:
            console.print(f"  {breach.attack}: {breach.what}", markup=False)
    raise typer.Exit(0 if outcome.held else 1)
