"""Many events in one row of the journal (W2, C35): written together, read like any other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from runtime.store.errors import StoreError
from runtime.store.journal import Journal

#: The tables of the first version.
FIRST = """
CREATE TABLE events(id INTEGER PRIMARY KEY, at REAL NOT NULL, turn INTEGER NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL);;
CREATE INDEX events_by_kind ON events(kind);;
CREATE TABLE checkpoints(name TEXT PRIMARY KEY, at REAL NOT NULL, crc INTEGER NOT NULL, text BLOB NOT NULL) WITHOUT ROWID;;
CREATE TABLE watermarks(world TEXT PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;;
CREATE TABLE spend(
    day TEXT PRIMARY KEY, calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, dollars REAL NOT NULL
) WITHOUT ROWID;;
CREATE TABLE memories(
    id INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, event INTEGER NOT NULL, at REAL NOT NULL, speaker TEXT NOT NULL,
    text TEXT NOT NULL, terms TEXT NOT NULL, words INTEGER NOT NULL, weight INTEGER NOT NULL
);;
CREATE INDEX memories_by_worth ON memories(weight, event);;
CREATE VIRTUAL TABLE memory_terms USING fts5(terms, content='memories', content_rowid='id', tokenize='ascii', detail='none');;
CREATE VIRTUAL TABLE memory_frequencies USING fts5vocab(memory_terms, 'row');;
CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN
    INSERT INTO memory_terms(rowid, terms) VALUES (new.id, new.terms);
END;;
CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN
    INSERT INTO memory_terms(memory_terms, rowid, terms) VALUES ('delete', old.id, old.terms);
END;;
CREATE TRIGGER memories_changed AFTER UPDATE OF terms ON memories WHEN old.terms IS NOT new.terms BEGIN
    INSERT INTO memory_terms(memory_terms, rowid, terms) VALUES ('delete', old.id, old.terms);
    INSERT INTO memory_terms(rowid, terms) VALUES (new.id, new.terms);
END;;
INSERT INTO events VALUES (1, 1.0, 0, 'heard', '{"n": 0}');;
PRAGMA user_version = 1
"""


def parts(numbers: range, size: int = 4) -> Iterator[tuple[int, bytes]]:
    for start in range(numbers.start, numbers.stop, size):
        part = [{"n": n, "text": f"line {n}"} for n in range(start, min(start + size, numbers.stop))]
        yield len(part), msgpack.packb(part)


def ns(events: list[Any]) -> list[int]:
    return [event.data["n"] for event in events]


async def test_they_are_events_like_any_other(tmp_path: Path) -> None:
    """W2: by number, by kind, page by page, the newest, over a restart; numbers go on."""
    path = tmp_path / "session.db"
    async with await Journal.open(path, clock=lambda: 5.0) as journal:
        assert journal.append("other", {"n": -1}) == 1
        assert journal.append_run("heard", parts(range(10)), turn=3) == 2
        assert journal.append("other", {"n": -2}) == 12
        assert journal.append_run("heard", parts(range(10, 13))) == 13
        assert journal.last_id == 15
        await journal.commit()
    async with await Journal.open(path) as journal:
        assert journal.last_id == 15
        for n in range(10):
            event = await journal.read(2 + n)
            assert event is not None
            assert (event.id, event.at, event.turn, event.kind, event.data) == (2 + n, 5.0, 3, "heard", {"n": n, "text": f"line {n}"})
        assert [e.id for e in await journal.events()] == list(range(1, 16))
        assert ns(await journal.events(kinds=("heard",))) == list(range(13))
        assert ns(await journal.events(after=4, kinds=("heard",), limit=3)) == [3, 4, 5]
        assert ns(await journal.events(kinds=("heard",), limit=5, newest=True)) == [8, 9, 10, 11, 12]
        assert ns(await journal.events(after=12, kinds=("heard",), limit=50, newest=True)) == [10, 11, 12]
        seen, after = [], 0
        while page := await journal.events(after=after, limit=4):
            seen += [e.id for e in page]
            after = page[-1].id
        assert seen == list(range(1, 16))
        assert journal.append("on", {}) == 16


async def test_what_waits_for_the_disk_is_read_and_dropped_like_any_other(tmp_path: Path) -> None:
    """C35: a disk that takes nothing; memory stays bounded, what had to go is told by number."""
    async with await Journal.open(tmp_path / "session.db", pending_bytes=20_000) as journal:
        pages = (await journal._database.rows("PRAGMA page_count"))[0][0]
        await journal._database.rows(f"PRAGMA max_page_count = {pages}")
        long = [msgpack.packb([{"n": n, "text": "x" * 1_000} for n in range(at, at + 4)]) for at in range(0, 80, 4)]
        journal.append_run("heard", [(4, part) for part in long])
        with pytest.raises(StoreError, match="the disk is full"):
            await journal.commit()
        waiting = await journal.events()
        assert ns(waiting) == list(range(80 - len(waiting), 80))
        assert waiting[0].id == 81 - len(waiting)
        await journal._database.rows("PRAGMA max_page_count = 100000")
        await journal.commit()
        gap = (await journal.events(kinds=("store-gap",)))[0]
        assert gap.data == {"first": 1, "last": waiting[0].id - 1, "events": 80 - len(waiting)}


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x94\xc1\xc1", b"\x84\x00"], ids=["empty", "no value", "cut", "a map"])
async def test_a_damaged_row_is_told_and_costs_no_other(tmp_path: Path, damage: bytes) -> None:
    """C35: a row that no longer parses comes back as what is left of it."""
    path = tmp_path / "session.db"
    async with await Journal.open(path) as journal:
        journal.append_run("heard", parts(range(4)))
        journal.append_run("heard", parts(range(4, 8)))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE events SET data = ? WHERE id = 4", (damage,))
    connection.close()
    async with await Journal.open(path) as journal:
        events = await journal.events()
        assert "_damaged" in events[0].data
        assert [e.data["n"] for e in events if e.id > 4] == [4, 5, 6, 7]
        assert events[-5].id == 4


async def test_a_file_of_the_version_before_opens_and_an_older_program_leaves_it_alone_then(tmp_path: Path) -> None:
    """C35: no home is left behind; the number in the file says that it may hold rows of many events."""
    path = tmp_path / "session.db"
    connection = sqlite3.connect(path)
    with connection:
        for statement in FIRST.split(";;"):
            connection.execute(statement)
    connection.close()
    async with await Journal.open(path, read_only=True) as journal:
        assert ns(await journal.events()) == [0]
    async with await Journal.open(path) as journal:
        journal.append_run("heard", parts(range(1, 3)))
        assert ns(await journal.events()) == [0, 1, 2]
        assert (await journal._database.rows("PRAGMA user_version"))[0][0] > 1


async def test_what_was_said_can_be_found_in_the_bytes_of_the_file(tmp_path: Path) -> None:
    """P15: an operator's `grep` finds it there, too."""
    path = tmp_path / "session.db"
    async with await Journal.open(path) as journal:
        journal.append_run("heard", [(2, msgpack.packb([{"text": "小雨: 你好"}, {"text": "Дарья: волки"}]))])
    assert "小雨: 你好".encode() in path.read_bytes()
