"""One diary entry.

Invariant: an `Entry` is clean from the moment it exists (see `diaries.text`), whoever wrote it; so every form of it is safe to store, to
print and to render, and `Entry.from_json(entry.to_json()) == entry`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from diaries.calendar import world_day
from diaries.errors import DiaryError
from diaries.text import clean_line, clean_text, markdown_line, markdown_text

Author = Literal["agent", "runtime"]

#: The tag of an entry written at a hard reset.
CONTEXT_RESET = "context-reset"

#: Sizes in characters.
MAX_TEXT = 20_000
MAX_LINE = 200
MAX_TAG = 40
MAX_TAGS = 12
#: Event numbers are SQLite row ids.
MAX_EVENT = 2**63 - 1
#: The last second of the year 9999, where calendars end.
MAX_AT = 253_402_300_799


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one NPC wrote at one time.

    `id` is empty until a book has given one. `at` is unix seconds, `world_time` the world's own words for its time, `events` the first and
    last event of the log that the entry covers, `epoch` the world's save that it belongs to. `undone` says why what the entry tells did not
    happen after all (the world was set back to an older save); it is empty for an entry that stands. Raises `DiaryError` for values that
    no entry can have (no text, a time outside the calendar, a range of events that runs backwards).
    """

    at: float
    text: str
    id: str = ""
    author: Author = "agent"
    world_time: str = ""
    place: str = ""
    tags: tuple[str, ...] = ()
    events: tuple[int, int] | None = None
    epoch: str = ""
    undone: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.at) and 0 <= self.at <= MAX_AT):
            raise DiaryError(f"an entry's time must be unix seconds between 0 and the year 9999, not {self.at!r}")
        if self.author not in get_args(Author):
            raise DiaryError(f"an entry's author is 'agent' or 'runtime', not {clean_line(str(self.author), 40)!r}")
        if self.events is not None and not 0 <= self.events[0] <= self.events[1] <= MAX_EVENT:
            raise DiaryError(f"the events of an entry run from the first to the last, not {self.events[0]} to {self.events[1]}")
        cleaned = {
            "at": float(self.at),
            "text": clean_text(self.text, MAX_TEXT),
            "id": clean_line(self.id, MAX_LINE),
            "world_time": clean_line(self.world_time, MAX_LINE),
            "place": clean_line(self.place, MAX_LINE),
            "tags": _tags(self.tags),
            "epoch": clean_line(self.epoch, MAX_LINE),
            "undone": clean_line(self.undone, MAX_LINE),
        }
        if not cleaned["text"]:
            raise DiaryError("an entry needs a text")
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)

    @property
    def day(self) -> str:
        """The real day in UTC, as `2031-05-07`: the same instant has the same day wherever it is read."""
        return f"{datetime.fromtimestamp(self.at, UTC):%Y-%m-%d}"

    @property
    def clock(self) -> str:
        """The real time of day in UTC, as `14:03:12`."""
        return f"{datetime.fromtimestamp(self.at, UTC):%H:%M:%S}"

    @property
    def page(self) -> str:
        """The page of the book that the entry stands on: the world's day where its time names one (`day 13`), else the real day."""
        return world_day(self.world_time) or self.day

    def to_json(self) -> dict[str, Any]:
        """A JSON object with every field, always in the same order."""
        return {
            "id": self.id,
            "at": self.at,
            "world_time": self.world_time,
            "place": self.place,
            "tags": list(self.tags),
            "author": self.author,
            "text": self.text,
            "events": list(self.events) if self.events else None,
            "epoch": self.epoch,
            "undone": self.undone,
        }

    @classmethod
    def from_json(cls, data: Any) -> Entry:
        """The entry of a JSON value; keys that it does not know are left alone. Raises `DiaryError` naming what is wrong."""
        if not isinstance(data, Mapping):
            raise DiaryError("an entry is a JSON object")
        at, events = data.get("at"), data.get("events")
        if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at <= MAX_AT:
            raise DiaryError("'at' must be unix seconds")
        texts = {name: data.get(name, "") for name in ("id", "text", "author", "world_time", "place", "epoch", "undone")}
        for name, value in texts.items():
            if not isinstance(value, str):
                raise DiaryError(f"'{name}' must be a text")
        tags = data.get("tags", [])
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise DiaryError("'tags' must be a list of texts")
        span: tuple[int, int] | None = None
        if events is not None:
            if not (isinstance(events, list) and len(events) == 2 and all(type(number) is int for number in events)):
                raise DiaryError("'events' must be the first and the last event number")
            span = (events[0], events[1])
        return cls(at=float(at), tags=tuple(tags), events=span, **texts)

    def to_markdown(self) -> str:
        """The entry as a section of its day's page; whatever its words are, they render as words."""
        real = f"{self.day} {self.clock}" if self.page != self.day else self.clock
        heading = " · ".join(part for part in (markdown_line(self.world_time), markdown_line(self.place), real) if part)
        facts = [f"`{_code(self.id)}`"] if self.id else []
        facts += [f"written by the {self.author}", *(markdown_line(tag) for tag in self.tags)]
        if self.events:
            facts.append(f"events {self.events[0]} to {self.events[1]}")
        if self.epoch:
            facts.append(f"epoch {markdown_line(self.epoch)}")
        if self.undone:
            facts.append(f"undone: {markdown_line(self.undone)}")
        return f"## {heading}\n\n{' · '.join(facts)}\n\n{markdown_text(self.text)}\n"


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags in their normal form (`Context Reset!` is `context-reset`), each once, in the order given."""
    normal = (re.sub(r"[^\w-]+", "-", clean_line(tag, MAX_LINE).casefold()).strip("-")[:MAX_TAG].strip("-") for tag in tags)
    return tuple(dict.fromkeys(tag for tag in normal if tag))[:MAX_TAGS]


def _code(text: str) -> str:
    """A text that can stand between back-ticks."""
    return text.replace("`", "'")
