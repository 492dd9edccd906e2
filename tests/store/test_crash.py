"""Killed, torn, left behind: what was acknowledged is there, and nothing keeps a process alive (rows C35, S5; case F03)."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.store.database import Database
from runtime.store.journal import Journal

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import asyncio, sys
from pathlib import Path
from runtime.store.journal import Journal

async def main():
    journal = await Journal.open(Path(sys.argv[1]))
    while True:
        for _ in range(3):
            event = journal.append("observation", {"text": "x" * 700})
        journal.watermark("world", "epoch", event)
        journal.checkpoint("session", str(event))
        await journal.commit()
        print(event, flush=True)

asyncio.run(main())
"""

DIES = """
import asyncio, sys
from pathlib import Path
from runtime.store.journal import Journal

async def main():
    global journal
    journal = await Journal.open(Path(sys.argv[1]))
    journal.append("heard", {})
    raise RuntimeError("start-up failed")

asyncio.run(main())
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_killed_in_the_middle_of_writing(tmp_path: Path) -> None:
    """C35: kill -9 three times in one life; every acknowledged event is there, whole, with its watermark, and ids go on."""
    path = tmp_path / "session.db"
    acked = 0
    for acks in (3, 20, 7):
        with python(WRITER, path) as process:
            assert process.stdout is not None
            first = int(process.stdout.readline())
            assert first > acked
            for _ in range(acks):
                acked = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        async with await Journal.open(path) as journal:
            events = await journal.events(limit=10_000)
            assert [event.id for event in events] == list(range(1, len(events) + 1))
            assert len(events) >= acked
            assert all(event.data == {"text": "x" * 700} for event in events)
            mark = await journal.last_watermark("world")
            assert mark is not None
            assert mark[1] == len(events)
            assert await journal.load_checkpoint("session") == str(len(events))
            acked = len(events)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.5, 0.83, 0.999])
@pytest.mark.parametrize("how", ["cut", "zeroed", "flipped"])
async def test_a_torn_log_of_writes_costs_its_end_and_no_more(tmp_path: Path, share: float, how: str) -> None:
    """The last writes of a machine that lost power: what came before them is there."""
    path, copy = tmp_path / "session.db", tmp_path / "copy.db"
    async with await Journal.open(path) as journal:
        for n in range(40):
            journal.append("heard", {"n": n, "text": "y" * 500})
            await journal.commit()
        shutil.copy(path, copy)
        log = bytearray((tmp_path / "session.db-wal").read_bytes())
    at = int(len(log) * share)
    if how == "cut":
        del log[at:]
    elif how == "zeroed":
        log[at:] = bytes(len(log) - at)
    else:
        log[at] ^= 0xFF
    (tmp_path / "copy.db-wal").write_bytes(log)
    async with await Journal.open(copy) as journal:
        events = await journal.events()
        numbers = [event.data["n"] for event in events if event.kind == "heard"]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= int(40 * share) - 6  # the tables themselves are the first frames
        assert journal.append("on", {}) == len(events) + 1


def test_an_error_after_the_start_ends_the_process(tmp_path: Path) -> None:
    """Case F03: the library's worker thread would wait for a close that never comes."""
    with python(DIES, tmp_path / "session.db") as process:
        _, told = process.communicate(timeout=20)
    assert process.returncode == 1
    assert told.rstrip().endswith("RuntimeError: start-up failed")


async def test_a_cancelled_transaction_is_rolled_back_and_blocks_nobody(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "some.db", schema="CREATE TABLE things(n INTEGER)", version=1)
    try:
        for pause in range(6):
            task = asyncio.create_task(database.write([("INSERT INTO things VALUES (?)", [(n,) for n in range(20_000)])]))
            for _ in range(pause):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await database.write([("INSERT INTO things VALUES (?)", [(-1,)])])
        assert await database.rows("SELECT count(*) FROM things WHERE n >= 0") == [(0,)]
        assert await database.rows("SELECT count(*) FROM things") == [(6,)]
    finally:
        await database.close()
