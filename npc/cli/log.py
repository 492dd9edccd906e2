"""`npc log`: the event log of an NPC, as people read it."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from npc.cli import context as context_view
from npc.errors import Misconfigured
from npc.home import find_home
from runtime.store.errors import StoreError
from runtime.store.events import Event
from runtime.store.journal import Journal

WIDTH = 200
_NEVER = "there is no event log at {}: the NPC has never lived; start it with npc attach"


def log(
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only events of this kind; may be given more than once.")] = None,
    after: Annotated[int, typer.Option(help="Only events after this number.")] = 0,
    last: Annotated[int, typer.Option(help="So many events at most.")] = 50,
    event: Annotated[int | None, typer.Option(help="One event, whole.")] = None,
    context: Annotated[
        str | None, typer.Option(help="What was in one request, and what was not: its event's number, TURN.STEP, or last.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="With --context: every text as it was sent.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show the event log: what was heard, asked, answered, done, and each rung of the ladder with its reason and sizes.

    Example: npc log --home ./warden --kind rung --last 20
    """
    place = find_home(home)
    if context is not None:
        _show_context(place.database_path, context, full=full, as_json=as_json)
        return
    events = asyncio.run(_read(place.database_path, kind, after, last, event))
    console = Console(highlight=False)
    for one in events:
        if as_json:
            typer.echo(json.dumps(_plain(one), ensure_ascii=False))
        else:
            moment = datetime.fromtimestamp(one.at, UTC)
            words = json.dumps(one.data, ensure_ascii=False)
            shown = words if event is not None or len(words) <= WIDTH else words[: WIDTH - 3] + "..."
            console.print(f"{one.id:>7}  {moment:%m-%d %H:%M:%S}  turn {one.turn:<5} {one.kind:<16} {shown}", markup=False, soft_wrap=True)
    if not events and not as_json:
        console.print("nothing matches")


def _show_context(path: Path, step: str, *, full: bool, as_json: bool) -> None:
    if not path.exists():
        raise Misconfigured(_NEVER.format(path))
    request = asyncio.run(context_view.read(path, step))
    if as_json:
        typer.echo(json.dumps(context_view.as_json(request), ensure_ascii=False))
    else:
        context_view.show(Console(highlight=False), request, full=full)


def _plain(event: Event) -> dict[str, Any]:
    return {"id": event.id, "at": event.at, "turn": event.turn, "kind": event.kind, "data": event.data}


async def _read(path: Path, kinds: list[str] | None, after: int, last: int, number: int | None) -> list[Event]:
    if not await asyncio.to_thread(path.exists):
        raise Misconfigured(_NEVER.format(path))
    try:
        async with await Journal.open(path, clock=time.time, read_only=True) as journal:
            if number is not None:
                found = await journal.read(number)
                return [found] if found else []
            return await journal.events(after=after, kinds=kinds or None, limit=last, newest=not after)
    except StoreError as error:
        raise Misconfigured(str(error)) from error
