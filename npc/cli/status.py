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

from npc.errors import Misconfigured
from npc.figures import figures
from npc.home import find_home
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
        ("money", f"${data['dollars']:.4f} in all, ${data['dollars_per_1000_turns']:.3f} per 1,000 turns"),
        ("policy", f"{data['policy_ms_p50']} ms a step at the median, {data['policy_ms_p99']} ms at the 99th percentile"),
        ("alarms", str(data["alarms"])),
    ]
    for name, value in rows:
        table.add_row(f"[bold]{name}[/bold]", value)
    Console(highlight=False).print(table)


async def _read(path: Path) -> dict[str, Any]:
    if not await asyncio.to_thread(path.exists):
        raise Misconfigured(f"there is no event log at {path}: the NPC has never lived; start it with npc attach")
    try:
        async with await Journal.open(path, clock=time.time, read_only=True) as journal:
            return (await figures(journal)).as_json()
    except StoreError as error:
        raise Misconfigured(str(error)) from error
