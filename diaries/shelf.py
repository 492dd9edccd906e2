"""The diaries of several NPCs as they are now, for whoever reads: kept in memory, looked after again when a file changed.

Invariant: what is read is whole: a `Volume` never changes, a newer one takes its place. A diary that cannot be read is a volume with a
note, and the last good entries stay.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from diaries.book import Book, Mark
from diaries.calendar import file_name
from diaries.entry import Entry
from diaries.errors import DiaryError
from diaries.search import Index, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a diary lies: `key` stands for it in addresses and is its own, `name` is who wrote it, `folder` holds its files."""

    key: str
    name: str
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A page of the book: `name` as in `Entry.page`, `slug` what stands for it in addresses; its entries in the order of writing."""

    name: str
    slug: str
    entries: tuple[Entry, ...]

    @property
    def dates(self) -> tuple[str, str]:
        """The first and the last real day on which it was written."""
        days = [entry.day for entry in self.entries]
        return min(days), max(days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One NPC's diary: entries and days from the oldest on, and sentences about what could not be read."""

    source: Source
    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    unreadable: bool = False  # the file is there and nothing could be read now; the first note says why
    days: tuple[Day, ...] = ()
    tags: tuple[tuple[str, int], ...] = ()
    places: dict[str, int] = field(default_factory=dict)  # the place of an id in `entries`
    day_places: dict[str, int] = field(default_factory=dict)  # the place of a day's slug in `days`

    def entry(self, entry_id: str) -> Entry | None:
        """The entry with this id."""
        place = self.places.get(entry_id)
        return None if place is None else self.entries[place]

    def day(self, slug: str) -> Day | None:
        """The day of this slug."""
        place = self.day_places.get(slug)
        return None if place is None else self.days[place]

    def after(self, entry_id: str) -> tuple[Entry, ...]:
        """The entries written after that one; none if there is no such entry."""
        place = self.places.get(entry_id)
        return () if place is None else self.entries[place + 1 :]

    def around(self, slug: str, reach: int = 1) -> tuple[tuple[Day, ...], tuple[Day, ...]]:
        """Up to `reach` days before and after this one."""
        place = self.day_places.get(slug)
        if place is None:
            return (), ()
        return self.days[max(0, place - reach) : place], self.days[place + 1 : place + 1 + reach]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An entry that a search found, and whose it is."""

    volume: Volume
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """What a search found, the best first; `some` if no entry had all the words."""

    hits: tuple[Hit, ...]
    some: bool = False


class Shelf:
    """Diaries side by side. `find` says which there are; it is asked again with each `refresh`. Methods may be called from any thread."""

    def __init__(self, find: Callable[[], Iterable[Source]]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._marks: dict[str, Mark] = {}
        self._volumes: dict[str, Volume] = {}
        self._index: Index | None = None
        self._numbers: list[tuple[str, int]] = []  # the key and the place in `entries` behind each number of the index

    def refresh(self) -> tuple[Volume, ...]:
        """Look after what changed. Returns the volumes in the order of their sources."""
        with self._lock:
            sources = {source.key: source for source in self._find()}
            gone = self._volumes.keys() - sources.keys()
            for key in gone:
                self._volumes.pop(key)
                self._marks.pop(key, None)
            if gone:
                self._forget_index()
            for source in sources.values():
                self._look(source)
            self._volumes = {key: self._volumes[key] for key in sources}
            return tuple(self._volumes.values())

    def volume(self, key: str) -> Volume | None:
        """The newest volume under this key."""
        self.refresh()
        return self._volumes.get(key)

    def search(self, terms: Sequence[Term], keep: Callable[[Hit], bool] = lambda _: True) -> Hits:
        """Entries by their words; `keep` says which of them are meant. The first search takes in all entries."""
        self.refresh()
        with self._lock:
            if self._index is None:
                self._index = Index()
                for volume in self._volumes.values():
                    self._take_in(volume.source.key, volume.entries, 0)
            found, numbers, volumes = self._index.search(terms), self._numbers, dict(self._volumes)
        hits = []
        for number in found.numbers:
            key, place = numbers[number]
            hit = Hit(volume=volumes[key], entry=volumes[key].entries[place])
            if keep(hit):
                hits.append(hit)
        return Hits(hits=tuple(hits), some=found.some)

    def _look(self, source: Source) -> None:
        old = self._volumes.get(source.key)
        if old and old.source != source:
            self._marks.pop(source.key, None)
        try:
            news = Book(source.folder).news(self._marks.get(source.key))
        except DiaryError as error:
            self._marks.pop(source.key, None)
            self._volumes[source.key] = replace(volume_of(source, old.entries if old else (), (str(error),)), unreadable=True)
            return
        if news is None:
            return
        self._marks[source.key] = news.mark
        if news.afresh or old is None:
            self._volumes[source.key] = volume_of(source, news.entries, news.notes)
            if old is None or old.entries != news.entries:
                self._forget_index()
        else:
            self._volumes[source.key] = volume_of(source, old.entries + news.entries, old.notes + news.notes)
            if self._index is not None:
                self._take_in(source.key, news.entries, len(old.entries))

    def _take_in(self, key: str, entries: Sequence[Entry], first: int) -> None:
        """Index entries of which the first has this place in its volume."""
        if self._index is not None:
            self._index.add(enumerate(entries, start=len(self._numbers)))
            self._numbers.extend((key, first + place) for place in range(len(entries)))

    def _forget_index(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index, self._numbers = None, []


def volume_of(source: Source, entries: tuple[Entry, ...], notes: tuple[str, ...] = ()) -> Volume:
    """The volume that holds these entries, in this order."""
    by_day: dict[str, list[Entry]] = {}
    tags: Counter[str] = Counter()
    places: dict[str, int] = {}
    for place, entry in enumerate(entries):
        by_day.setdefault(file_name(entry.page), []).append(entry)
        tags.update(entry.tags)
        places.setdefault(entry.id, place)
    days = tuple(Day(name=found[0].page, slug=slug, entries=tuple(found)) for slug, found in by_day.items())
    return Volume(
        source=source,
        entries=entries,
        notes=notes,
        days=days,
        tags=tuple(tags.most_common()),
        places=places,
        day_places={day.slug: place for place, day in enumerate(days)},
    )
