"""An NPC's diary: a folder with one JSON Lines file that is the truth, and a readable Markdown page per real day (UTC) made from it.

Invariant: `append` either returns with the entry on disk (one line, fsync'd) or raises with the file exactly as it was. A line that a dying
process left torn is closed off before the next one is written, kept, and named to whoever reads. Pages may be deleted or damaged; they are
made again from the truth. One process writes at a time, any number read.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diaries.entry import Entry
from diaries.errors import DiaryError

#: The name of the file that is the truth.
TRUTH = "entries.jsonl"

_PAGE_HEAD = "# Diary of {day}\n\nAll times are UTC. This page is made from `" + TRUTH + "`; what is changed here is lost.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An entry as it now stands in the book, with its id. `warnings` are sentences about pages that could not be brought up to date."""

    entry: Entry
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Entries, oldest first, and `notes`: one sentence for each line of the file that could not be read."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


class Book:
    """The diary in `folder`, which is made at the first entry. Methods block on the disk; they may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / TRUTH
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}  # the highest number given on a day, `20310507: 3`
        self._seen: tuple[int, int] = (0, 0)  # inode and size of the file when `_ids` was read from it
        self._fresh: set[str] = set()  # days whose page holds all that the truth holds

    def append(self, entry: Entry) -> Written:
        """Write one entry at the end; an entry without id gets one (`20310507-3`, the third of its day).

        Raises `DiaryError` when it could not be made durable (disk full, no rights, another process writing, an id that is taken).
        """
        with self._lock:
            try:
                entry, stale = self._append(entry)
            except OSError as error:
                raise DiaryError(
                    f"the diary entry was not written ({_reason(error)}): free some space or check the rights on {self.folder}"
                ) from error
            return Written(entry=entry, warnings=self._show(entry, stale))

    def entries(self, *, tag: str = "", day: str = "", last: int | None = None) -> Listing:
        """Entries with this tag and of this day (`2031-05-07`, UTC), the last `last` of them. A diary without a file is an empty one.

        Raises `DiaryError` if the file is there and cannot be read.
        """
        found: deque[Entry] = deque(maxlen=last)
        notes: list[str] = []
        for entry in self._read(notes):
            if (not tag or tag in entry.tags) and (not day or entry.day == day):
                found.append(entry)
        return Listing(entries=tuple(found), notes=tuple(notes))

    def read(self, entry_id: str) -> Entry | None:
        """The entry with this id, or None. Raises as `entries` does."""
        return next((entry for entry in self._read([]) if entry.id == entry_id), None)

    def _read(self, notes: list[str]) -> Iterator[Entry]:
        """Every entry that can be read, from the first line on; what cannot is named in `notes`."""
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.isspace():
                        continue
                    entry = _entry(line)
                    if isinstance(entry, Entry):
                        yield entry
                    elif line.endswith(b"\n"):
                        notes.append(f"line {number} of {TRUTH} was left out: {entry}")
                    else:
                        notes.append(f"the last line of {TRUTH} was left out: it is torn, as when a process dies while it writes")
        except FileNotFoundError:
            return
        except OSError as error:
            raise DiaryError(f"the diary cannot be read ({_reason(error)}): check the rights on {self.path}") from error

    def _append(self, entry: Entry) -> tuple[Entry, set[str]]:
        """Make the entry durable; also the days whose pages may lack something that another process, or a dead one, wrote."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._opened() as fd:
            stat = os.fstat(fd)
            stale = set()
            if (stat.st_ino, stat.st_size) != self._seen:
                listing = self.entries()
                self._ids, self._counts = {known.id for known in listing.entries}, {}
                for known in self._ids:
                    self._count(known)
                self._fresh.clear()
                stale = {known.day for known in listing.entries[-1:]}
            if not entry.id:
                entry = replace(entry, id=self._next_id(entry))
            elif entry.id in self._ids:
                raise DiaryError(f"the diary has an entry {entry.id} already: leave the id empty and the book gives one")
            line = json.dumps(entry.to_json(), ensure_ascii=False, allow_nan=False).encode() + b"\n"
            # A last line without its end was torn by a crash: it becomes a line of its own, which readers name and leave out.
            torn = stat.st_size > 0 and os.pread(fd, 1, stat.st_size - 1) != b"\n"
            if stat.st_size == 0:
                _sync_folder(self.folder)
                _sync_folder(self.folder.parent)
            _extend(fd, b"\n" + line if torn else line, size=stat.st_size)
            self._ids.add(entry.id)
            self._count(entry.id)
            self._seen = (stat.st_ino, os.fstat(fd).st_size)
        return entry, stale

    @contextmanager
    def _opened(self) -> Iterator[int]:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DiaryError(f"another process is writing in {self.path}: only one may at a time, try again") from error
            yield fd
        finally:
            os.close(fd)

    def _next_id(self, entry: Entry) -> str:
        day = entry.day.replace("-", "")
        return f"{day}-{self._counts.get(day, 0) + 1}"

    def _count(self, entry_id: str) -> None:
        day, _, number = entry_id.rpartition("-")
        if number.isdecimal():
            self._counts[day] = max(self._counts.get(day, 0), int(number))

    def _show(self, entry: Entry, stale: set[str]) -> tuple[str, ...]:
        """Bring the pages up to date. They are a copy, so trouble here is a warning and mends itself at the next entry."""
        warnings = []
        for day in sorted(stale | {entry.day}):
            try:
                if day in self._fresh and day == entry.day:
                    self._extend_page(entry)
                elif day not in self._fresh:
                    self._make_page(day)
            except (OSError, DiaryError) as error:
                self._fresh.discard(day)
                why = _reason(error) if isinstance(error, OSError) else str(error)
                warnings.append(f"the page {day}.md of the diary was not brought up to date ({why}); the entry itself is safe in {TRUTH}")
        return tuple(warnings)

    def _extend_page(self, entry: Entry) -> None:
        page = self.folder / f"{entry.day}.md"
        if not page.exists():
            self._make_page(entry.day)
            return
        with page.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"\n{entry.to_markdown()}")

    def _make_page(self, day: str) -> None:
        draft = self.folder / f".{day}.md.tmp"
        try:
            with draft.open("w", encoding="utf-8", newline="\n") as file:
                file.write(_PAGE_HEAD.format(day=day))
                for entry in self.entries(day=day).entries:
                    file.write(f"\n{entry.to_markdown()}")
            draft.replace(self.folder / f"{day}.md")
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._fresh.add(day)


def _entry(line: bytes) -> Entry | str:
    """The entry of one line, or what is wrong with the line."""
    try:
        data: Any = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return "it is not JSON"
    try:
        return Entry.from_json(data)
    except DiaryError as error:
        return str(error)


def _extend(fd: int, data: bytes, *, size: int) -> None:
    """Append all of `data` durably, or leave the file at `size` bytes and raise OSError."""
    try:
        written = 0
        while written < len(data):
            written += os.write(fd, data[written:])
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, size)
        raise


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
