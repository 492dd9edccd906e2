"""One event of an NPC's life, and how it is written down.

Invariant: anything can be written, and what was written can be read: a value that JSON cannot hold becomes text, a lone surrogate U+FFFD.
The JSON is kept readable (no escapes but the needed ones), so that a search through the bytes of the file finds what was said.

Events of one kind that came together may lie in one row, as one MessagePack array of their data (readable as well). Such a row goes by the
number of its last event, the ones before it have the numbers before that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

_DEPTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the append-only log.

    Attributes:
        id: its number, from 1, rising over restarts too.
        at: when, in seconds since 1970 by the journal's clock.
        turn: the turn that it belongs to, 0 for none.
        kind: what happened, by the words of whoever appended it.
        data: the rest of it.
    """

    id: int
    at: float
    turn: int
    kind: str
    data: Mapping[str, Any]


def written(data: Mapping[str, Any]) -> str:
    """`data` as JSON text that SQLite takes. Never raises for any data."""
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(_plain(data, _DEPTH), ensure_ascii=False, separators=(",", ":"))
    return storable(text)


def read(text: str) -> Mapping[str, Any]:
    """The data that was written; text that no longer parses comes back under `_damaged`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {"_damaged": text}
    return data if isinstance(data, dict) else {"_damaged": text}


def many(data: str | bytes) -> int:
    """How many events a row holds."""
    if isinstance(data, str) or not data:
        return 1
    match data[0]:
        case 0xDC:
            found = int.from_bytes(data[1:3], "big")
        case 0xDD:
            found = int.from_bytes(data[1:5], "big")
        case head:
            found = head & 0x0F if head & 0xF0 == 0x90 else 1
    return max(found, 1)


def of_row(number: int, at: float, turn: int, kind: str, data: str | bytes) -> list[Event]:
    """The events of one row, in their order. A row that is damaged gives as many as it should, with what is left of it."""
    if isinstance(data, str):
        return [Event(id=number, at=at, turn=turn, kind=kind, data=read(data))]
    try:
        found = msgpack.unpackb(data, strict_map_key=False, unicode_errors="replace")
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        found = None
    if not isinstance(found, list) or not found:
        left = {"_damaged": data.decode("utf-8", "replace")}
        found = [left] * min(many(data), number)
    first = number + 1 - len(found)
    return [
        Event(id=first + n, at=at, turn=turn, kind=kind, data=item if isinstance(item, dict) else {"_damaged": str(item)})
        for n, item in enumerate(found)
    ]


def storable(text: str) -> str:
    """`text` without lone surrogates and zero bytes: U+FFFD stands for them."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")  # SQLite would keep it, but its own functions end there
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _plain(value: Any, depth: int) -> Any:
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)
