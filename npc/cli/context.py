"""What `npc log --context STEP` shows: one request as it was sent, part by part, and what is not in it and why."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from npc.errors import Misconfigured
from npc.requests import Part, Sent, number_of, sent
from runtime.store.errors import StoreError
from runtime.store.events import Event
from runtime.store.journal import Journal

GLANCE = 60
LEAST = 12  # columns that are worth showing how a part begins
#: Events that a line names before it says that there are more.
NAMED = 8
#: What a terminal would obey is shown, not sent to it; --json has it as it was.
_INERT = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"}


async def read(path: Path, step: str) -> Sent:
    """The request that is meant by `step` in this event log. Raises `NpcError`."""
    try:
        async with await Journal.open(path, clock=time.time, read_only=True) as journal:
            return await sent(journal, await number_of(journal, step))
    except StoreError as error:
        raise Misconfigured(str(error)) from error


def as_json(request: Sent) -> dict[str, Any]:
    """Plain values."""
    return {
        "event": request.event.id,
        "at": request.event.at,
        "turn": request.event.turn,
        "step": int(request.data.get("step", 0)) + 1,
        "tokens": request.data.get("estimate"),
        "window": request.window,
        "exact": request.exact,
        "missing_events": list(request.missing),
        "lacking": list(request.lacking),
        "budgets": dict(request.budgets),
        "parts": [
            {"part": p.name, "source": p.source, "event": p.event, "turn": p.turn, "tokens": p.tokens, "text": p.text}
            for p in request.parts
        ],
        "left_out": [{"event": e.id, "kind": e.kind, "data": e.data} for e in request.why],
        "body": request.body,
    }


def show(console: Console, request: Sent, *, full: bool) -> None:
    """For people: a table, or with `full` every text."""
    moment = datetime.fromtimestamp(request.event.at, UTC)
    step, used = int(request.data.get("step", 0)) + 1, int(request.data.get("estimate") or 0)
    share = f", {used / request.window:.0%} of the window's {request.window:,}" if request.window else ""
    console.print(f"Request of turn {request.event.turn}, step {step} (event {request.event.id}, {moment:%Y-%m-%d %H:%M:%S} UTC): "
                  f"{used:,} tokens{share}", markup=False, soft_wrap=True)  # fmt: skip
    if full:
        _texts(console, request)
    else:
        console.print(_table(request, console.width))
    console.print("Room, in tokens: " + "; ".join(f"{name} {size:,}" for name, size in request.budgets.items()), markup=False)
    reasons = [line for event in request.why if (line := reason(event))]
    console.print("\nLeft out or changed since the request before:" if reasons else "\nNothing was left out since the request before.")
    for line in reasons:
        console.print(f"  {line}", markup=False)
    console.print(_verdict(request), markup=False)


def _verdict(request: Sent) -> str:
    fixed = f"MISSING in it: {', '.join(request.lacking)}." if request.lacking else "Every fixed field is in it, word for word."
    if request.missing:
        return f"{fixed} Not all of it can be shown: the log has lost {_numbers(request.missing)}."
    return f"{fixed} What is shown is {'what was sent' if request.exact else 'NOT exactly what was sent: an event was changed since'}."


def _table(request: Sent, width: int) -> Table:
    """One row for each part; how it begins where there is room for that."""
    heads = ("part", "turn", "tokens", "share", "source")
    rows = [
        (p.name, str(p.turn or ""), f"{p.tokens:,}", f"{p.tokens / request.window:.1%}" if request.window else "", p.source)
        for p in request.parts
    ]
    left = width - sum(max(map(len, column)) + 2 for column in zip(heads, *rows, strict=True))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in heads:
        table.add_column(name, justify="right" if name in ("turn", "tokens", "share") else "left", no_wrap=left >= LEAST)
    if left >= LEAST:
        table.add_column("begins", style="dim", no_wrap=True, overflow="ellipsis", width=min(left, GLANCE))
    for part, row in zip(request.parts, rows, strict=True):
        table.add_row(*(Text(cell) for cell in row), *([Text(_glance(part))] if left >= LEAST else []))
    return table


def _glance(part: Part) -> str:
    lines = [line for line in part.text.split("\n") if line.strip()]
    # A fence says what the other columns say.
    text = lines[1] if len(lines) > 1 and lines[0].startswith("<") else lines[0] if lines else ""
    return text[:GLANCE].translate(_INERT)


def _texts(console: Console, request: Sent) -> None:
    for part in request.parts:
        head = f"{part.name}, {part.tokens:,} tokens ({part.source})" if part.source else f"{part.name}, {part.tokens:,} tokens"
        console.print(f"\n── {head}", style="cyan", markup=False, soft_wrap=True)
        if part.name == "tools":
            for tool in request.body.get("tools") or ():
                console.print(json.dumps(tool, ensure_ascii=False), markup=False, soft_wrap=True)
        else:
            console.print(part.text.translate(_INERT), markup=False, soft_wrap=True)
    console.print()


def reason(event: Event) -> str:
    """One line about what an event took out of a request; "" if nothing."""
    data = event.data
    match event.kind:
        case "rung":
            rung = str(data.get("rung")).replace("_", " ")
            if "before" not in data:
                return f"event {event.id}: {rung}: nothing fits"
            sizes = f"{int(data['before']):,} to {int(data['after']):,} tokens"
            return f"event {event.id}: {rung}: {data.get('note')} ({sizes})" if not data.get("failed") else ""
        case "left out":
            return f"event {event.id}: {_left_out(data)}: {data.get('why')}"
        case "drained":
            gone = [f"{data[name]} {words}" for name, words in _DRAINED.items() if data.get(name)]
            return f"event {event.id}: of the news {', '.join(gone)}" if gone else ""
        case "set aside":
            return f"event {event.id}: {data.get('blocks')} unanswered parts were set aside ({data.get('why')})"
        case "reset":
            return f"event {event.id}: hard reset, the session was kept on {data.get('how')}: {data.get('reason')}"
        case "summary":
            return f"event {event.id}: a summary stands for {data.get('lines')} lines of the record"
        case "thinking dropped" | "repair" | "cut further":
            return f"event {event.id}: {event.kind} {json.dumps({k: v for k, v in data.items() if k not in ('turn', 'step')})}"
        case _:
            return ""


_DRAINED = {
    "merged": "were older values that a newer one replaced",
    "omitted": "had to go from the inbox for lack of room",
    "digested": "were summed up",
}


def _left_out(data: Mapping[str, Any]) -> str:
    out = [f"{kind} of event {event} cut from {size:,} to {given:,}" if event else f"{kind} cut from {size:,} to {given:,}"
           for kind, event, size, given in data.get("cut") or ()]  # fmt: skip
    for kind, gone in (data.get("omitted") or {}).items():
        numbers = _numbers([n for n in gone.get("events") or () if n])
        out.append(f"{gone['count']} × {kind} omitted ({gone['tokens']:,} of our tokens{', ' + numbers if numbers else ''})")
    return "; ".join(out)


def _numbers(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:NAMED]))
    return f"event{'s' if len(numbers) > 1 else ''} {shown}{' …' if len(numbers) > NAMED else ''}" if numbers else ""
