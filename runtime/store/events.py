"""One event of an NPC's life, and how it is written down.

Invariant: anything can be written, and what was written can be read: a value that JSON cannot hold becomes text, a lone surrogate U+FFFD.
The JSON is kept readable (no escapes but the needed ones), so that a search through the bytes of the file finds what was said.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
