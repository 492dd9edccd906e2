"""The journal through its door: queued at once, durable when said, found again (rows P15, T8, C34, C35; case C12)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from runtime.store.memories import terms_of
from runtime.store.spend import Spend
from tests.store.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[Journal]:
    ticks = itertools.count(1000)
    async with await Journal.open(path, clock=lambda: float(next(ticks))) as journal:
        yield journal


async def test_an_event_has_its_id_at_once_and_is_read_back(journal: Journal) -> None:
    ids = [journal.append("heard", {"text": f"line {n}"}, turn=n) for n in range(3)]
    assert ids == [1, 2, 3]
    event = await journal.read(2)
    assert event is not None
    assert (event.id, event.at, event.turn, event.kind, event.data) == (2, 1001.0, 1, "heard", {"text": "line 1"})
    assert await journal.read(4) is None


async def test_events_by_kind_and_place(journal: Journal) -> None:
    for n in range(10):
        journal.append("even" if n % 2 == 0 else "odd", {"n": n})
    assert [event.id for event in await journal.events(after=3, kinds=("even",))] == [5, 7, 9]
    assert [event.id for event in await journal.events(limit=2)] == [1, 2]
    assert [event.id for event in await journal.events(limit=2, newest=True)] == [9, 10]
    assert [event.id for event in await journal.events(kinds=("odd",), limit=2, newest=True)] == [8, 10]
    assert await journal.events(kinds=()) == []


async def test_everything_survives_a_restart_and_ids_go_on(path: Path) -> None:
    """C34, C35: events, checkpoint, watermark and spend of one commit."""
    async with await Journal.open(path) as journal:
        journal.append("heard", {"text": "hello"})
        journal.checkpoint("session", "old")
        journal.checkpoint("session", "new")
        journal.watermark("ws://here", "e1", 7)
        journal.watermark("ws://here", "e1", 9)
        journal.spend(day="2026-11-29", dollars=0.25, input_tokens=10, output_tokens=3)
        await journal.commit()
    async with await Journal.open(path) as journal:
        assert journal.append("heard", {}) == 2
        assert await journal.load_checkpoint("session") == "new"
        assert await journal.load_checkpoint("other") is None
        assert await journal.last_watermark("ws://here") == ("e1", 9)
        assert await journal.last_watermark("ws://there") is None
        journal.spend(day="2026-11-29", dollars=0.5, input_tokens=1)
        assert await journal.spent("2026-11-29") == pytest.approx(0.75)
        assert journal.spend_of("2026-11-29") == Spend(2, 11, 0, 0, 3, 0.75)
        assert await journal.spent("2026-11-30") == 0.0


async def test_what_is_committed_can_be_seen_by_another_connection(path: Path, journal: Journal) -> None:
    """`npc log` reads while the NPC lives."""
    async with await Journal.open(path, read_only=True) as reader:
        journal.append("heard", {"text": "one"})
        assert await reader.events() == []
        await journal.commit()
        assert len(await reader.events()) == 1
        reader.append("forged", {})
        with pytest.raises(StoreError, match="reading only"):
            await reader.commit()
    await journal.commit()
    assert [event.kind for event in await journal.events()] == ["heard"]


async def test_what_nobody_commits_is_written_soon_all_the_same(path: Path, journal: Journal) -> None:
    """An ordinary append needs no await."""
    journal.append("heard", {"text": "one"})
    await until(lambda: journal._stored == journal._queued)
    async with await Journal.open(path, read_only=True) as reader:
        assert len(await reader.events()) == 1


async def test_callers_at_the_same_time_share_a_transaction(journal: Journal) -> None:
    flights: set[int] = set()

    async def caller(n: int) -> None:
        journal.append("heard", {"n": n})
        asyncio.get_running_loop().call_soon(lambda: flights.add(id(journal._flight)))
        await journal.commit()

    await asyncio.gather(*(caller(n) for n in range(100)))
    assert len(flights - {id(None)}) == 1
    assert len(await journal.events()) == 100


async def test_a_caller_that_is_cancelled_leaves_the_transaction_to_the_others(journal: Journal) -> None:
    journal.append("heard", {})
    first, second = asyncio.create_task(journal.commit()), asyncio.create_task(journal.commit())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert len(await journal.events()) == 1


async def test_a_commit_with_nothing_to_do_does_nothing(journal: Journal) -> None:
    await journal.commit()
    journal.append("heard", {})
    await journal.commit()
    before = await journal._database.rows("SELECT total_changes()")
    await journal.commit()
    assert await journal._database.rows("SELECT total_changes()") == before


async def test_closing_twice_and_using_it_afterwards(path: Path) -> None:
    journal = await Journal.open(path)
    journal.append("heard", {})
    await journal.close()
    await journal.close()
    journal.append("late", {})
    with pytest.raises(StoreError, match="closed"):
        await journal.commit()
    async with await Journal.open(path) as journal:
        assert [event.kind for event in await journal.events()] == ["heard"]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("shop\x00gold", "shop\x00gold"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("a pair \ud83d\ude00", "a pair 😀"),
        ("<|endoftext|> '); DROP TABLE events;--", "<|endoftext|> '); DROP TABLE events;--"),
        ("x" * 1_000_000, "x" * 1_000_000),
    ],
    ids=["nul", "lone surrogate", "pair", "sql", "megabyte"],
)
async def test_any_text_is_an_event_and_a_memory(journal: Journal, said: str, stored: str) -> None:
    """Case C12: a zero byte or half a character in chat can be stored, replayed and found."""
    event = journal.append("heard", {"text": said})
    journal.remember(event=event, speaker="Mira\ud800", text=said, terms=" ".join(terms_of(said)))
    journal.checkpoint("session", said)
    await journal.commit()
    read = await journal.read(event)
    assert read is not None
    assert read.data["text"] == stored
    json.dumps(read.data).encode()
    assert await journal.load_checkpoint("session") == said
    found = await journal.search([terms_of(said)[-1]])
    assert [memory.event for memory in found] == [event]
    assert found[0].text == stored.replace("\x00", "\ufffd")


@pytest.mark.parametrize(
    "data",
    [{"n": float("nan")}, {"b": b"\xff"}, {"s": {1}}, {1: 2}, {"o": object()}, {"big": 10**400}],
    ids=["nan", "bytes", "set", "key", "object", "big"],
)
async def test_any_data_is_an_event(journal: Journal, data: dict[str, Any]) -> None:
    """The loop is never stopped by what it wants to write down."""
    event = journal.append("odd", data)
    await journal.commit()
    read = await journal.read(event)
    assert read is not None
    assert list(read.data) == [str(key) for key in data]


async def test_endless_depth_and_a_circle_are_events(journal: Journal) -> None:
    circle: dict[str, Any] = {}
    circle["me"] = circle
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for data in (circle, {"deep": deep}):
        journal.append("odd", data)
    await journal.commit()
    assert len(await journal.events()) == 2


async def test_what_was_said_can_be_found_in_the_bytes_of_the_file(path: Path) -> None:
    """P15: an operator's `grep` finds it, in every script."""
    lines = ["Mira: my sister's name is Ysolde", "小雨: 你好,这里有人吗?", "Дарья: кто-нибудь видел волков?", "😂😂"]
    async with await Journal.open(path) as journal:
        journal.append("heard", {"text": "\n".join(lines)})
    assert all(line.encode() in _bytes(path) for line in lines)


async def test_a_number_beyond_what_the_file_can_hold_does_not_block_the_rest(journal: Journal) -> None:
    journal.watermark("ws://here", "e1", 2**80)
    await journal.commit()
    assert await journal.last_watermark("ws://here") == ("e1", 2**63 - 1)


async def test_a_file_of_a_newer_version_is_left_alone(path: Path) -> None:
    async with await Journal.open(path) as journal:
        await journal._database.rows("PRAGMA user_version = 99")
    before = _bytes(path)
    with pytest.raises(StoreError, match="newer version"):
        await Journal.open(path)
    assert _bytes(path) == before


async def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written: No such file or directory"):
        await Journal.open(tmp_path / "nowhere" / "session.db")
    with pytest.raises(StoreError, match="cannot be opened"):
        await Journal.open(tmp_path / "nothing.db", read_only=True)


def _bytes(path: Path) -> bytes:
    return path.read_bytes()
