"""`npc replay`: an old life led once more, to prove what stood in every request."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from npc.errors import Misconfigured
from npc.home import Home, find_home
from npc.persona import load_persona
from runtime.store.errors import StoreError
from runtime.store.journal import Journal

if TYPE_CHECKING:
    from npc.replay import Report


def command(
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    since: Annotated[int, typer.Option("--from", min=0, help="Judge only requests from this event on.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Lead an old life through today's context builder, without a model, a world or a network, and judge every request.

    Exits with 0 only if no request lacks a fixed field (constitution, persona, tools, standing rules, gates), is over the window, or
    would be refused as invalid.

    Example: npc replay --home ./warden
    """
    place = find_home(home)
    report = asyncio.run(_run(place, since))
    if as_json:
        typer.echo(json.dumps({**asdict(report), "held": report.held}, ensure_ascii=False))
    else:
        show(Console(highlight=False), report)
    raise typer.Exit(0 if report.held else 1)


async def _run(home: Home, since: int) -> Report:
    if not await asyncio.to_thread(home.database_path.exists):
        raise Misconfigured(f"there is no event log at {home.database_path}: the NPC has never lived; start it with npc attach")
    from npc.replay import replay  # noqa: PLC0415 - the whole character and the provider's package: only this command pays for them
    from runtime.model.counting import Counter  # noqa: PLC0415

    persona = await asyncio.to_thread(load_persona, home.persona_path)
    try:
        async with await Journal.open(home.database_path, clock=time.time, read_only=True) as journal:
            return await replay(journal, persona, Counter.load().count, since=since, dumps=home.sessions_path)
    except StoreError as error:
        raise Misconfigured(str(error)) from error


def show(console: Console, report: Report) -> None:
    """For people."""
    if not report.requests and not report.dumps:
        console.print("There is no request to replay: the NPC has not asked its model anything.")
        return
    share = f"{(report.checked - _failed(report)) / report.checked:.1%} of them" if report.checked else "of none of them could this be told"
    console.print(f"{report.requests:,} requests in the log, {report.checked:,} judged as they were sent: every fixed field in {share}.",
                  soft_wrap=True)  # fmt: skip
    console.print(f"{report.replayed:,} made anew by today's code, {report.identical:,} of them with the same history byte for byte; "
                  f"the session had to be led {report.bent:,} times where today's code goes another way.", soft_wrap=True)  # fmt: skip
    if report.dumps:
        console.print(f"{report.dumps:,} kept sessions were taken up, and each made a request.", soft_wrap=True)
    for why, times in sorted(report.skipped.items(), key=lambda pair: -pair[1]):
        console.print(f"not replayed: {times:,} × {why}", markup=False, soft_wrap=True)
    for failing in report.failings:
        where = f"event {failing.event}, turn {failing.turn}" if failing.event else f"turn {failing.turn}"
        console.print(f"FAILED  {where}, {failing.which}: {failing.what}", markup=False, soft_wrap=True)
    if report.failed > len(report.failings):
        console.print(f"… and {report.failed - len(report.failings):,} more")
    if report.held:
        console.print("All of it held.")
    elif report.failed:
        console.print(f"It did not hold: {report.failed:,} findings, the first in {_first(report)}.", markup=False)
    else:
        console.print("It cannot be told: none of the requests says what it was made of.")


def _failed(report: Report) -> int:
    return min(report.checked, len({f.event for f in report.failings if f.which == "sent"}))


def _first(report: Report) -> str:
    first = report.failings[0]
    return f"event {first.event}" if first.event else first.which
