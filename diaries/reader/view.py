"""What the templates are given: entries and days in the words and addresses of a page.

Invariant: pure. Everything is text that the templates escape; addresses hold no character that could end them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from urllib.parse import quote, urlencode

from diaries.calendar import clock_of, file_name
from diaries.entry import CONTEXT_RESET, Entry
from diaries.search import Piece, Term, marked
from diaries.shelf import Day, Volume

#: A text of more paragraphs than this has its rest in one: ten thousand elements would stop a phone.
PARAGRAPHS = 120

# A large initial is for scripts that have them.
_INITIAL = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿͰ-ϿЀ-ӿ]")

# English as the rest of the page, whatever the locale of the machine.
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """One entry on a page."""

    entry: Entry
    anchor: str
    href: str
    day_href: str
    clock: str
    written: str
    iso: str
    reset: bool
    initial: bool
    paragraphs: tuple[tuple[Piece, ...], ...]
    tags: tuple[tuple[str, str], ...]
    behind: str
    name: str


def view_entry(volume: Volume, entry: Entry, terms: Sequence[Term] = (), *, behind: bool = True) -> EntryView:
    """An entry for the page; what the terms find in it is marked."""
    key = volume.source.key
    blocks = re.split(r"\n[ \t]*\n", entry.text)
    if len(blocks) > PARAGRAPHS:
        blocks = [*blocks[: PARAGRAPHS - 1], "\n".join(blocks[PARAGRAPHS - 1 :])]
    return EntryView(
        entry=entry,
        anchor=anchor(entry),
        href=entry_href(key, entry),
        day_href=f"{day_href(key, volume, entry)}#{anchor(entry)}",
        clock=clock_of(entry.world_time) if entry.world_time else entry.clock[:5],
        written=f"{date_words(entry.day)}, {entry.clock[:5]} UTC",
        iso=f"{entry.day}T{entry.clock}Z",
        reset=CONTEXT_RESET in entry.tags,
        initial=entry.author == "agent" and not entry.undone and len(entry.text) > 200 and bool(_INITIAL.match(entry.text)),
        paragraphs=tuple(marked(block.strip("\n"), terms) for block in blocks if block.strip()),
        tags=tuple((tag, tag_href(key, tag)) for tag in entry.tags),
        behind=path("npc", key, "behind", entry.id) if behind and entry.events and entry.id else "",
        name=volume.source.name,
    )


def anchor(entry: Entry) -> str:
    """What stands for an entry within a page."""
    return "e-" + re.sub(r"[^\w-]+", "-", entry.id)


def path(*parts: str) -> str:
    """An address on this server."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def entry_href(key: str, entry: Entry) -> str:
    """The address of an entry for good."""
    return path("npc", key, "entry", entry.id)


def day_href(key: str, volume: Volume, entry: Entry, size: int = 40) -> str:
    """The address of the page on which an entry stands among those of its day."""
    day = volume.day(file_name(entry.page))
    return path("npc", key, "day", day.slug) + page_query(day, entry, size) if day else path("npc", key)


def page_query(day: Day, entry: Entry, size: int) -> str:
    """What names the part of a long day that an entry stands in."""
    if len(day.entries) <= size:
        return ""
    number = next((place for place, known in enumerate(day.entries) if known.id == entry.id), 0) // size + 1
    return f"?page={number}" if number > 1 else ""


def tag_href(key: str, tag: str) -> str:
    """The address of all entries with a tag."""
    return f"/search?{urlencode({'npc': key, 'tag': tag})}"


def day_title(name: str) -> str:
    """The name of a day as a heading: `Day 13`, `Monday, 5 May 2031`."""
    return date_words(name, weekday=True) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", name) else name[:1].upper() + name[1:]


def date_words(day: str, *, weekday: bool = False) -> str:
    """A date in words; anything else as it is."""
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return day
    words = f"{found.day} {_MONTHS[found.month - 1]} {found.year}"
    return f"{_WEEKDAYS[found.weekday()]}, {words}" if weekday else words


def dates_words(day: Day) -> str:
    """The real dates of a world day in words; empty where the day is a real one itself."""
    first, last = day.dates
    if day.name == first == last:
        return ""
    return date_words(first, weekday=True) if first == last else span_words(first, last)


def span_words(first: str, last: str) -> str:
    """From one real day to another, in words, with what they share said once."""
    begin, end = date_words(first).split(" "), date_words(last).split(" ")
    while len(begin) > 1 and begin[-1] == end[len(begin) - 1]:
        begin.pop()
    return f"{' '.join(begin)} to {' '.join(end)}" if first != last else " ".join(end)


def clock_words(at: float) -> str:
    """The time of day of an event, in UTC."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return ""


def count_words(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many}"


def month_words(month: str) -> str:
    """A month such as `2031-05` in words."""
    return f"{_MONTHS[int(month[5:]) - 1]} {int(month[:4])}"
