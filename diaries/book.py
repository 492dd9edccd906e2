"""An NPC's diary: a folder with one JSON Lines file that is the truth, and a readable Markdown page per world day made from it.

Where the world's time names no day, the real day (UTC) has the page. What no longer happened, since the world was set back, is named in a
second file of the same kind: no line that was written is ever changed.

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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from diaries.calendar import file_name
from diaries.entry import Entry
from diaries.errors import DiaryError
from diaries.text import markdown_line

#: The name of the file that is the truth.
TRUTH = "entries.jsonl"
#: The name of the file that says which entries are undone: `{"entry": "20310507-3", "why": "...", "at": 1936000000.0}`, one a line.
UNDONE = "undone.jsonl"

_LONGEST = 1 << 20  # bytes: the longest entry has a tenth of that; what is longer is no entry and must not fill the memory
_EDGE = 128  # bytes that are compared to tell growth from change
_SET_BACK = "the world was set back to an earlier state"
_PAGE_HEAD = "# Diary of {day}\n\nReal times are UTC. This page is made from `" + TRUTH + "`; what is changed here is lost.\n"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How far a book was read. `edge` are the last bytes before `size`: if they changed, so did what was read."""

    inode: int
    size: int
    changed: tuple[int, int]
    lines: int
    edge: bytes
    whole: bool  # the file ended with the end of a line


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a book holds beyond a mark. With `afresh` it holds all there is, since more changed than its end."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]
    afresh: bool
    mark: Mark


_NOTHING = Mark(inode=0, size=0, changed=(0, 0), lines=0, edge=b"", whole=True)


class Book:
    """The diary in `folder`, which is made at the first entry. Methods block on the disk; they may be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / TRUTH
        self.undone_path = folder / UNDONE
        self._lock = threading.Lock()
        self._ids: set[str] = set()
        self._counts: dict[str, int] = {}  # the highest number given on a day, `20310507: 3`
        self._seen: tuple[int, int] = (0, 0)  # inode and size of the file when `_ids` was read from it
        self._fresh: set[str] = set()  # pages (by the name of their file) whose file holds all that the truth holds

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

    def mark_undone(self, ids: Iterable[str], *, why: str, at: float) -> tuple[str, ...]:
        """Say of these entries that what they tell did not happen after all: the world was set back. Returns those not yet so marked.

        `why` is a sentence for readers, `at` unix seconds. The entries stay as they are, and are shown as undone. Raises as `append` does.
        """
        with self._lock:
            known = self._undone([])
            fresh = tuple(entry_id for entry_id in dict.fromkeys(ids) if entry_id not in known)
            marks = [json.dumps({"entry": entry_id, "why": why or _SET_BACK, "at": at}, allow_nan=False) for entry_id in fresh]
            if not marks:
                return ()
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                with self._opened(self.undone_path) as fd:
                    size = os.fstat(fd).st_size
                    torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
                    _extend(fd, ("\n" * torn + "".join(f"{mark}\n" for mark in marks)).encode(), size=size)
                    _sync_folder(self.folder)
            except OSError as error:
                raise DiaryError(
                    f"the diary's entries were not marked undone ({_reason(error)}): free some space or check the rights on {self.folder}"
                ) from error
            for page in {file_name(entry.page) for entry in self.entries().entries if entry.id in fresh}:
                try:
                    self._make_page(page)
                except (OSError, DiaryError):
                    self._fresh.discard(page)  # made with the next entry of that day
            return fresh

    def entries(self, *, tag: str = "", day: str = "", last: int | None = None) -> Listing:
        """Entries with this tag and of this day, real or the world's (`2031-05-07`, `day 13`), the last `last` of them.

        A diary without a file is an empty one. Raises `DiaryError` if the file is there and cannot be read.
        """
        found: deque[Entry] = deque(maxlen=last)
        notes: list[str] = []
        for entry in self._read(notes):
            if (not tag or tag in entry.tags) and (not day or day in (entry.day, entry.page)):
                found.append(entry)
        return Listing(entries=tuple(found), notes=tuple(notes))

    def read(self, entry_id: str) -> Entry | None:
        """The entry with this id, or None. Raises as `entries` does."""
        return next((entry for entry in self._read([]) if entry.id == entry_id), None)

    def news(self, mark: Mark | None = None) -> News | None:
        """What was written since `mark` (None: everything), or None where nothing was. For whoever keeps the entries. Raises as `entries`.

        A book that only grew costs what it grew by.
        """
        try:
            with self.path.open("rb") as file:
                stat = os.fstat(file.fileno())
                changed = (stat.st_mtime_ns, _changed(self.undone_path))
                if mark and (stat.st_ino, stat.st_size, changed) == (mark.inode, mark.size, mark.changed):
                    return None
                grown = mark if mark and self._only_grew(file, mark, (stat.st_ino, stat.st_size), changed) else None
                notes: list[str] = []
                numbered = _Lines(grown.lines if grown else 0)
                undone = self._undone(notes if grown is None else [])
                file.seek(grown.size if grown else 0)
                entries = tuple(_marked(entry, undone) for entry in _parsed(numbered.of(file), notes))
                size = file.tell()
                file.seek(max(0, size - _EDGE))
                edge = file.read(min(size, _EDGE))
        except FileNotFoundError:
            return None if mark and mark.size == 0 else News(entries=(), notes=(), afresh=True, mark=_NOTHING)
        except OSError as error:
            raise self._unreadable(error) from error
        read = Mark(
            inode=stat.st_ino, size=size, changed=changed, lines=numbered.last, edge=edge, whole=not edge or edge.endswith(b"\n")
        )
        return News(entries=entries, notes=tuple(notes), afresh=grown is None, mark=read)

    def _only_grew(self, file: BinaryIO, mark: Mark, now: tuple[int, int], changed: tuple[int, int]) -> bool:
        """Whether all that was read up to the mark is as it was, as far as can be told without reading it again."""
        inode, size = now
        if not (mark.whole and mark.size > 0 and inode == mark.inode and size > mark.size and changed[1] == mark.changed[1]):
            return False
        file.seek(mark.size - len(mark.edge))
        return file.read(len(mark.edge)) == mark.edge

    def _read(self, notes: list[str]) -> Iterator[Entry]:
        """Every entry that can be read, from the first line on; what cannot is named in `notes`."""
        try:
            with self.path.open("rb") as file:
                undone = self._undone(notes)
                for entry in _parsed(_Lines(0).of(file), notes):
                    yield _marked(entry, undone)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreadable(error) from error

    def _undone(self, notes: list[str]) -> dict[str, str]:
        """Why each undone entry is so. A line that cannot be read is named; a file that cannot marks nothing, and is named."""
        found: dict[str, str] = {}
        try:
            with self.undone_path.open("rb") as file:
                for number, line in _Lines(0).of(file):
                    try:
                        data: Any = json.loads(line)
                        found[str(data["entry"])] = str(data.get("why") or "") or _SET_BACK
                    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
                        notes.append(f"line {number} of {UNDONE} was left out: it does not name an undone entry")
        except FileNotFoundError:
            pass
        except OSError as error:
            notes.append(f"{UNDONE} cannot be read ({_reason(error)}): what is undone is not marked")
        return found

    def _unreadable(self, error: OSError) -> DiaryError:
        return DiaryError(f"the diary cannot be read ({_reason(error)}): check the rights on {self.path}")

    def _append(self, entry: Entry) -> tuple[Entry, set[str]]:
        """Make the entry durable; also the days whose pages may lack something that another process, or a dead one, wrote."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._opened(self.path) as fd:
            stat = os.fstat(fd)
            stale = set()
            if (stat.st_ino, stat.st_size) != self._seen:
                listing = self.entries()
                self._ids, self._counts = {known.id for known in listing.entries}, {}
                for known in self._ids:
                    self._count(known)
                self._fresh.clear()
                stale = {file_name(known.page) for known in listing.entries[-1:]}
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
    def _opened(self, path: Path) -> Iterator[int]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DiaryError(f"another process is writing in {path}: only one may at a time, try again") from error
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
        own = file_name(entry.page)
        for page in sorted(stale | {own}):
            try:
                if page in self._fresh and page == own:
                    self._extend_page(entry)
                elif page not in self._fresh:
                    self._make_page(page)
            except (OSError, DiaryError) as error:
                self._fresh.discard(page)
                why = _reason(error) if isinstance(error, OSError) else str(error)
                warnings.append(f"the page {page}.md of the diary was not brought up to date ({why}); the entry itself is safe in {TRUTH}")
        return tuple(warnings)

    def _extend_page(self, entry: Entry) -> None:
        page = self.folder / f"{file_name(entry.page)}.md"
        if not page.exists():
            self._make_page(page.stem)
            return
        with page.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"\n{entry.to_markdown()}")

    def _make_page(self, page: str) -> None:
        entries = [entry for entry in self.entries().entries if file_name(entry.page) == page]
        draft = self.folder / f".{page}.md.tmp"
        try:
            with draft.open("w", encoding="utf-8", newline="\n") as file:
                file.write(_PAGE_HEAD.format(day=markdown_line(entries[0].page) if entries else page))
                for entry in entries:
                    file.write(f"\n{entry.to_markdown()}")
            draft.replace(self.folder / f"{page}.md")
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self._fresh.add(page)


class _Lines:
    """The lines of a file that are not blank, with their numbers; `last` is the number of the newest."""

    def __init__(self, before: int) -> None:
        self.last = before

    def of(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        # `readline` and not iteration, which would make `tell` say nothing.
        while line := file.readline(_LONGEST):
            self.last += 1
            if len(line) == _LONGEST:
                while len(rest := file.readline(_LONGEST)) == _LONGEST:
                    pass
                line = line[:-1] + rest[-1:]  # no JSON any more, with the end that it has
            if not line.isspace():
                yield self.last, line


def _parsed(lines: Iterable[tuple[int, bytes]], notes: list[str]) -> Iterator[Entry]:
    """The entries of numbered lines; what is none is named in `notes`."""
    for number, line in lines:
        entry = _entry(line)
        if isinstance(entry, Entry):
            yield entry
        elif line.endswith(b"\n"):
            notes.append(f"line {number} of {TRUTH} was left out: {entry}")
        else:
            notes.append(f"the last line of {TRUTH} was left out: it is torn, as when a process dies while it writes")


def _marked(entry: Entry, undone: Mapping[str, str]) -> Entry:
    return replace(entry, undone=undone[entry.id]) if entry.id in undone else entry


def _changed(path: Path) -> int:
    """When a file was changed, in nanoseconds; 0 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


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
