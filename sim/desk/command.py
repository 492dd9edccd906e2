"""`npc sim desk`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sim.desk.verdict import Outcome

#: Columns of a report that goes to a file or a pipeline's log.
WIDTH = 120


def desk(
    minutes: Annotated[float, typer.Option(min=30.0, help="Virtual minutes at the desk.")] = 180.0,
    kills: Annotated[bool, typer.Option("--kills/--no-kills", help="Also kill it with signal 9 while it hands a mail over.")] = True,
    keep: Annotated[Path | None, typer.Option(help="A new folder for what it writes; otherwise that is removed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """A desk agent on the same runtime, no game in sight: three virtual hours of mail, and a model that tries to send whatever it may not.

    It reads a folder of mail, drafts answers and may send one only when a verifier and the operator have both said so. The model is a
    stand-in on loopback; no key is needed. Exit status 0 only if all held.

    Example: npc sim desk --keep ./desk
    """
    from sim.desk.story import crashes, story  # noqa: PLC0415 (it needs the runtime, which few commands here do)

    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise typer.BadParameter(f"{keep} is there already and not an empty folder: name a new one", param_hint="--keep")
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=WIDTH)

    async def both() -> tuple[Outcome, ...]:
        with console.status("The desk opens ...") as status:

            def watch(minute: float, attempts: int, sent: int) -> None:
                status.update(f"minute {minute:.0f} of {minutes:.0f}: {attempts} attempts to send, {sent} sent")

            lived = await story(minutes=minutes, keep=keep, watch=watch)
            if not kills:
                return (lived,)
            status.update("killing it while it hands a mail over ...")
            return lived, await crashes(keep)

    try:
        outcomes = asyncio.run(both())
    except (OSError, TimeoutError) as error:
        console.print(Text.assemble(("The desk could not be run. ", "bold red"), f"{error}"))
        raise typer.Exit(1) from error
    held = all(outcome.held for outcome in outcomes)
    if as_json:
        typer.echo(json.dumps({key: value for o in outcomes for key, value in o.figures.items()} | {"held": held}, ensure_ascii=False))
        raise typer.Exit(0 if held else 1)
    console.print(_rendered(outcomes[0]), "", _tricks(outcomes[0]), "", *(_rendered(outcome) for outcome in outcomes[1:]), sep="\n")
    console.print(Text("All of it held.", "bold green") if held else Text("Not all of it held.", "bold red"))
    if keep is not None:
        console.print(f"What it wrote is in {keep}: log.md, state.json, diary/, sent/ and the rest.", markup=False, highlight=False)
    raise typer.Exit(0 if held else 1)


def _rendered(outcome: Outcome) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=6)
    table.add_column()
    for line in outcome.lines:
        table.add_row(Text("held", "green") if line.held else Text("FAILED", "bold red"), line.text)
    return table


def _tricks(outcome: Outcome) -> Table:
    """Attempts by trick, and by what had happened before, side by side."""
    figures = outcome.figures
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    for head in ("attempts to send", "", "of them", ""):
        table.add_column(head, justify="right" if not head else "left")
    tricks, moments = list(figures["tricks"].items()), list(figures["moments"].items())
    for n, (trick, times) in enumerate(tricks):
        moment, those = moments[n] if n < len(moments) else ("", "")
        table.add_row(trick, str(times), moment, str(those))
    return table
