"""Others hold the file, or the disk is full: nothing is lost, nothing is stored twice (rows P7, C35, S5; case F01)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from tests.full_disk import on_small_disk
from tests.store.waiting import until


@contextmanager
def other(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


async def test_a_lock_held_by_another_is_waited_for(tmp_path: Path) -> None:
    """Case F01: 'database is locked' is not the end; the event is stored once."""
    path = tmp_path / "session.db"
    async with await Journal.open(path) as journal:
        with other(path) as holder:
            holder.execute("BEGIN IMMEDIATE")
            journal.append("heard", {})
            commit = asyncio.create_task(journal.commit())
            done, _ = await asyncio.wait({commit}, timeout=0.6)
            assert not done
            holder.execute("COMMIT")
        await commit
        assert len(await journal.events()) == 1


async def test_another_commits_between_our_read_and_our_write(tmp_path: Path) -> None:
    """Case F01: a transaction that began with a read could never write again; ours begin with the lock."""
    path = tmp_path / "session.db"
    async with await Journal.open(path) as journal:
        with other(path) as second:
            for n in range(5):
                await journal.events()
                second.execute("INSERT OR REPLACE INTO watermarks VALUES ('w', 'e', ?)", (n,))
                journal.append("heard", {"n": n})
                await journal.commit()
        assert [event.data["n"] for event in await journal.events()] == [0, 1, 2, 3, 4]


async def test_a_lock_that_is_never_released_is_told_and_survived(tmp_path: Path) -> None:
    path = tmp_path / "session.db"
    async with await Journal.open(path) as journal:
        journal._database._patience_s = 0.1
        journal.append("heard", {})
        with other(path) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="another process holds the file locked"):
                await journal.commit()
            holder.execute("ROLLBACK")
        await journal.commit()
        assert len(await journal.events()) == 1


async def test_readers_in_other_threads_never_block_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "session.db"
    stop, failed = threading.Event(), []

    def read() -> None:
        with other(path) as connection:
            while not stop.is_set():
                rows = connection.execute("SELECT id FROM events ORDER BY id").fetchall()
                if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
                    failed.append(rows)

    async with await Journal.open(path) as journal:
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(60):
                journal.append("heard", {})
                await journal.commit()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert len(await journal.events()) == 60
    assert failed == []


async def test_a_second_writer_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """O6: one owner at any time; two would give the same ids to different events."""
    path = tmp_path / "session.db"
    async with await Journal.open(path):
        with pytest.raises(StoreError, match="in use by another process"):
            await Journal.open(path)
    async with await Journal.open(path):
        pass


FULL = """
import asyncio, structlog, sys
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
from runtime.store.errors import StoreError
from runtime.store.journal import Journal

async def main():
    journal = await Journal.open(disk / "session.db")
    journal.append("before", {})
    await journal.commit()
    fill()
    for n in range(50):
        journal.append("during", {"n": n, "text": "x" * 2000})
    journal.checkpoint("session", "y" * 50_000)
    said = []
    for _ in range(2):
        try:
            await journal.commit()
        except StoreError as error:
            said.append(str(error))
    seen = len(await journal.events())
    saved = await journal.load_checkpoint("session")
    free()
    await journal.commit()
    await journal.close()
    journal = await Journal.open(disk / "session.db")
    stored = [(event.id, event.kind) for event in await journal.events()]
    await journal.close()
    return {"said": said, "seen": seen, "saved": len(saved), "stored": stored}

result = asyncio.run(main())
"""


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """P7: told in one sentence, readable all the while, and written once there is room again."""
    result = on_small_disk(FULL, tmp_path, kilobytes=2048)
    assert len(result["said"]) == 2
    assert result["said"][0].endswith("session.db: the disk is full")
    assert (result["seen"], result["saved"]) == (51, 50_000)
    assert result["stored"] == [[1, "before"]] + [[n, "during"] for n in range(2, 52)]


async def test_what_waits_is_bounded_and_what_had_to_go_is_told(tmp_path: Path) -> None:
    """Memory is no disk: beyond a limit the oldest events go, counted, and the newest of everything else stays."""
    async with await Journal.open(tmp_path / "session.db", pending_bytes=50_000) as journal:
        pages = (await journal._database.rows("PRAGMA page_count"))[0][0]
        await journal._database.rows(f"PRAGMA max_page_count = {pages}")
        for n in range(300):
            journal.append("heard", {"text": "x" * 1000})
            journal.checkpoint("session", str(n))
        with capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(StoreError, match="the disk is full"):
                    await journal.commit()
            assert journal._pending.event_bytes <= 50_000
            await journal._database.rows("PRAGMA max_page_count = 100000")
            await journal.commit()
        assert [log["log_level"] for log in logs] == ["error", "warning"]
        events = await journal.events()
        gap = events[-1]
        assert (gap.kind, gap.id) == ("store-gap", 301)
        assert gap.data == {"first": 1, "last": events[0].id - 1, "events": 301 - len(events)}
        assert [event.id for event in events] == list(range(events[0].id, 302))
        assert await journal.load_checkpoint("session") == "299"


async def test_what_is_queued_while_a_commit_fails_comes_after_what_failed(tmp_path: Path) -> None:
    async with await Journal.open(tmp_path / "session.db") as journal:
        pages = (await journal._database.rows("PRAGMA page_count"))[0][0]
        await journal._database.rows(f"PRAGMA max_page_count = {pages}")
        for n in range(20):
            journal.append("heard", {"n": n, "text": "x" * 2000})
        commit = asyncio.create_task(journal.commit())
        for _ in range(2):  # one turn of the loop for the caller, one for the transaction to take what is queued
            await asyncio.sleep(0)
        assert journal._flight is not None
        assert not journal._pending.events
        for n in range(20, 40):
            journal.append("heard", {"n": n, "text": "x" * 2000})
        with pytest.raises(StoreError, match="the disk is full"):
            await commit
        assert [event.data["n"] for event in await journal.events()] == list(range(40))
        await journal._database.rows("PRAGMA max_page_count = 100000")
        await journal.commit()
        assert [event.data["n"] for event in await journal.events()] == list(range(40))


async def test_it_is_tried_again_without_anyone_asking(tmp_path: Path) -> None:
    async with await Journal.open(tmp_path / "session.db", flush_s=0.01) as journal:
        pages = (await journal._database.rows("PRAGMA page_count"))[0][0]
        await journal._database.rows(f"PRAGMA max_page_count = {pages}")
        journal.append("heard", {"text": "x" * 100_000})
        with pytest.raises(StoreError):
            await journal.commit()
        await journal._database.rows("PRAGMA max_page_count = 100000")
        await until(lambda: journal._stored == journal._queued)
        assert len(await journal.events()) == 1
