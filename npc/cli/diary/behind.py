"""The events behind a diary entry, read from the event log of its NPC beside whoever writes it.

Invariant: only reading; a log that is missing, locked or damaged is a sentence on the page. What the runtime did to the conversation is
told apart from what happened in the world.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from diaries.reader.behind import Behind, Happened
from npc.told import from_journal

#: Events in one answer.
MOST = 120
#: Characters of an event's data that are read.
_LONGEST = 20_000
_KINDS = ("observation", "answer", "intent", "outcome", "reset", "rollback", "attached", "detached")
_SQL = (
    f"SELECT id, at, kind, substr(data, 1, {_LONGEST}) FROM events WHERE id BETWEEN ? AND ? "  # noqa: S608 (fixed text)
    f"AND kind IN ({', '.join('?' * len(_KINDS))}) ORDER BY id LIMIT {MOST + 1}"
)


class EventLogs:
    """The event logs of several NPCs; `home` finds the home folder by a diary's key."""

    def __init__(self, home: Callable[[str], Path | None]) -> None:
        self._home = home

    def look(self, key: str, first: int, last: int) -> Happened:
        """The events of this NPC between two numbers, the first of them if there are many."""
        home = self._home(key)
        path = home / "session.db" if home else None
        if path is None or not path.exists():
            return Happened(note="The event log that this entry speaks of is not here.")
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
                database.text_factory = lambda data: data.decode(errors="replace")
                rows = database.execute(_SQL, (first, last, *_KINDS)).fetchall()
        except sqlite3.Error as error:
            return Happened(note=f"The event log cannot be read just now ({error}); `npc log` says more.")
        more = rows[MOST][0] if len(rows) > MOST else None
        return Happened(events=tuple(_told(rows[:MOST])), more=more)


def _told(rows: list[tuple[int, float, str, str]]) -> Iterator[Behind]:
    events = [(number, at, kind, _data(data)) for number, at, kind, data in rows]
    spoken = {_words(data) for _, _, kind, data in events if kind == "intent"}
    for number, at, kind, data in events:
        for what, who, text in _one(kind, data, spoken):
            if text.strip():
                yield Behind(event=number, at=at, kind=what, who=who, text=text)


def _one(kind: str, data: Mapping[str, Any], spoken: set[str]) -> Iterator[tuple[Any, str, str]]:
    """What is told of one event: its kind there, who, the words."""
    match kind:
        case "observation":
            try:
                seen = from_journal(data)
            except (ValueError, TypeError):
                return
            if seen.own:
                return  # the echo of an own action, which is told already
            if seen.kind in ("speech", "whisper") and seen.speaker:
                yield "heard", seen.speaker.name, seen.text
            else:
                yield "saw", "", seen.text
        case "answer":
            blocks = data.get("content")
            texts = [block for block in blocks if isinstance(block, Mapping)] if isinstance(blocks, list) else []
            text = " ".join(str(block.get("text") or "") for block in texts if block.get("type") == "text").strip()
            if text not in spoken:
                yield "mind", "", f"thought: {text}" if text else ""
        case "intent":
            words, args = _words(data), data.get("args")
            if words:
                yield "said", "", words
            else:
                given = ", ".join(f"{name} {value}" for name, value in args.items()) if isinstance(args, Mapping) else ""
                yield "did", "", f"{data.get('name', '')}{f' ({given})' if given else ''}"
        case "outcome":
            if data.get("state") not in ("done", "accepted", "running"):
                yield "mind", "", f"that {data.get('state', 'ended')}: {data.get('text') or 'no more is known'}"
        case "reset":
            yield "mind", "", f"let go of everything in mind: {data.get('reason', '')}"
        case "rollback":
            yield "mind", "", "the world was set back to an earlier state"
        case "attached":
            yield "mind", "", f"came into the world {data.get('world', '')}"
        case "detached":
            yield "mind", "", "lost the way into the world"


def _words(data: Mapping[str, Any]) -> str:
    """The words of an action of speaking; "" for any other."""
    args = data.get("args")
    text = args.get("text") if isinstance(args, Mapping) and len(args) <= 2 else None
    return text.strip() if isinstance(text, str) else ""


def _data(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
