"""`npc status`: how an NPC is, from its home folder, whether it runs or not."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from npc.approvals.records import Records
from npc.approvals.stored import Standing
from npc.errors import Misconfigured, NpcError
from npc.figures import figures
from npc.home import find_home
from runtime.core.spending import HOUR_S
from runtime.store.errors import StoreError
from runtime.store.journal import Journal


def status(
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how an NPC is: turns, rungs, tokens, money, the last sign of life.

    Example: npc status --home ./warden
    """
    place = find_home(home)
    data = asyncio.run(_read(place.database_path))
    data["home"] = str(place.path)
    data["waiting_for_you"] = waiting = _waiting(place.path)
    if as_json:
        typer.echo(json.dumps(data, ensure_ascii=False))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    ago = time.time() - data["last_event_at"] if data["last_event_at"] else None
    rows = [
        ("home", data["home"]),
        ("last event", "never" if ago is None else f"{ago:,.0f} s ago"),
        ("turns", f"{data['turns']:,} ({data['turns_failed']} failed, at most {data['longest_failed_run']} in a row)"),
        ("requests", f"{data['requests']:,} ({data['requests_rejected']} rejected, {data['refusals']} refused by the model)"),
        ("ladder", ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in data["rungs"].items() if v) or "never needed"),
        ("diary entries at resets", str(data["context_reset_diary_entries"])),
        ("input", f"{data['tokens_per_turn']:,} tokens a turn, {data['cache_read_share']:.0%} read from cache"),
        ("budget", _budget(data["budget"])),
        ("money", f"${data['dollars']:.4f} in all, ${data['dollars_per_1000_turns']:.3f} per 1,000 turns"),
        ("policy", f"{data['policy_ms_p50']} ms a step at the median, {data['policy_ms_p99']} ms at the 99th percentile"),
        ("waits for you", waiting if isinstance(waiting, str) else f"{waiting} requests, see npc approvals list" if waiting else "nothing"),
        ("alarms", str(data["alarms"])),
    ]
    for name, value in rows:
        table.add_row(f"[bold]{name}[/bold]", value)
    Console(highlight=False).print(table)


def _waiting(home: Path) -> int | str:
    """How many requests wait for the operator, or why nobody can say."""
    now = time.time()
    try:
        return sum(one.standing is Standing.OPEN and one.lapses_at > now for one in Records(home).all(live=True))
    except NpcError as error:
        return str(error)


async def _read(path: Path) -> dict[str, Any]:
    if not await asyncio.to_thread(path.exists):
        raise Misconfigured(f"there is no event log at {path}: the NPC has never lived; start it with npc attach")
    try:
        async with await Journal.open(path, clock=time.time, read_only=True) as journal:
            return {**(await figures(journal)).as_json(), "budget": await _stage(journal)}
    except StoreError as error:
        raise Misconfigured(str(error)) from error


async def _stage(journal: Journal) -> dict[str, Any]:
    """The newest stage and absence that the log tells, and what this hour and this day have cost."""
    hour = int(time.time() // HOUR_S)
    hours = journal.hours(since=hour // 24 * 24)
    told = {
        kind: events[0] if (events := await journal.events(kinds=(kind,), limit=1, newest=True)) else None for kind in ("stage", "reflexes")
    }
    stage, absent = told["stage"], told["reflexes"]
    here = [spent for n, spent in hours.items() if n == hour]
    return {
        "stage": str(stage.data.get("stage")) if stage else "free",
        "why": str(stage.data.get("why")) if stage else "",
        "mind": "away" if absent and absent.data.get("level") != "none" else "here",
        "mind_why": str(absent.data.get("why")) if absent else "",
        "dollars_hour": round(sum(spent.dollars for spent in here), 6),
        "dollars_day": round(sum(spent.dollars for n, spent in hours.items() if n <= hour), 6),
        "steps_hour": sum(spent.steps for spent in here),
    }


def _budget(told: dict[str, Any]) -> str:
    """The same in a line."""
    words = [f"{told['stage']}: {told['why']}" if told["stage"] != "free" else "free"]
    if told["mind"] == "away" and told["stage"] != "reflexes":
        words.append(f"on reflexes, {told['mind_why']}")
    words.append(f"${told['dollars_day']:.4f} today, ${told['dollars_hour']:.4f} and {told['steps_hour']:,} steps this hour")
    return "; ".join(words)
