"""A damaged file is set aside, loudly, and the NPC begins afresh (row T14 in its plain form; case F08)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from runtime.store.errors import StoreError
from runtime.store.journal import Journal


async def filled(path: Path, *, events: int = 400) -> None:
    async with await Journal.open(path) as journal:
        for n in range(events):
            journal.append("heard", {"n": n, "text": f"{n} " * 100})
            journal.remember(event=n, speaker="Mira", text=f"number {n}", terms=f"number n{n}")
        journal.checkpoint("session", "state " * 5000)


def overwrite(path: Path, *, at: int, seed: int, length: int = 4096) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(random.Random(seed).randbytes(length))


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob("session.db.damaged-*"))


async def test_a_page_overwritten_in_the_middle(tmp_path: Path) -> None:
    """Case F08: found at the start, moved aside, a fresh one with a loud event, ids still rising, and no loop of crashes."""
    path = tmp_path / "session.db"
    await filled(path)
    size = path.stat().st_size
    overwrite(path, at=size // 2 // 8192 * 8192, seed=1)
    with capture_logs() as logs:
        async with await Journal.open(path, clock=lambda: 0.0) as journal:
            events = await journal.events()
            assert [event.kind for event in events] == ["store-damaged"]
            assert events[0].data["kept_as"] == "session.db.damaged-19700101-000000"
            assert events[0].id > 1
    assert [log["log_level"] for log in logs] == ["error"]
    assert aside(path)[0].stat().st_size == size
    async with await Journal.open(path) as journal:
        assert [event.kind for event in await journal.events()] == ["store-damaged"]
    assert {kept.name.removesuffix("-wal").removesuffix("-shm") for kept in aside(path)} == {"session.db.damaged-19700101-000000"}


@pytest.mark.parametrize("seed", range(24))
async def test_damage_anywhere_is_never_a_crash(tmp_path: Path, seed: int) -> None:
    """Wherever 4,096 bytes are lost: the journal opens, can be read from end to end, and can be written."""
    path = tmp_path / "session.db"
    await filled(path, events=60)
    overwrite(path, at=random.Random(seed).randrange(path.stat().st_size - 4096), seed=seed)
    for _ in range(2):
        async with await Journal.open(path) as journal:
            for event in await journal.events(limit=10_000):
                assert event.kind
            saved = await journal.load_checkpoint("session")
            assert saved in {None, "state " * 5000}
            await journal.search(["number", "n7"])
            await journal.read(journal.append("on", {}))
            await journal.commit()


@pytest.mark.parametrize("contents", [b"not a database at all, " * 1000, b"SQLite format 3\x00" + b"\xff" * 20_000], ids=["text", "header"])
async def test_what_is_no_database_is_set_aside(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "session.db"
    path.write_bytes(contents)
    async with await Journal.open(path) as journal:
        assert journal.append("on", {}) == 2
    assert aside(path)[0].read_bytes() == contents


async def test_an_empty_file_is_a_beginning(tmp_path: Path) -> None:
    """What a crash right after the creation leaves."""
    path = tmp_path / "session.db"
    path.touch()
    async with await Journal.open(path) as journal:
        assert journal.append("on", {}) == 1
    assert aside(path) == []


async def test_damage_while_it_is_open(tmp_path: Path) -> None:
    """The NPC lives on: what is queued lands in a fresh file, and today's spending is not forgotten."""
    path = tmp_path / "session.db"
    await filled(path)
    journal = await Journal.open(path)
    journal.spend(day="2026-11-29", dollars=1.5)
    await journal.commit()
    await journal._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    await journal._database.rows("PRAGMA shrink_memory")
    for page in range(path.stat().st_size // 8192):
        overwrite(path, at=page * 8192 + (100 if page == 0 else 0), seed=page)
    event = journal.append("heard", {"text": "afterwards"})
    await journal.commit()
    assert [e.kind for e in await journal.events()] == ["heard", "store-damaged"]
    await journal.close()
    async with await Journal.open(path) as journal:
        read = await journal.read(event)
        assert read is not None
        assert read.data == {"text": "afterwards"}
        assert await journal.spent("2026-11-29") == 1.5
    assert aside(path) != []


async def test_a_reader_does_not_move_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "session.db"
    path.write_bytes(b"nothing" * 5000)
    with pytest.raises(StoreError, match="is damaged"):
        await Journal.open(path, read_only=True)
    assert path.exists()
