"""A world that survives its process (W2, W3, C29, C35): the same epoch, the numbers go on, nothing is done twice.

That it survives kill -9 at any instant is proved with real processes, by `npc sim bench kills`; here is what it does when it is back.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.world_adapter.kept_worlds import MemoryStore
from tests.world_adapter.peers import PATIENCE_S, RecordingSink, running
from world_adapter.client import WebsocketWorld
from world_adapter.errors import WorldStoreError
from world_adapter.frames import Act, ActionSpec, ActResult, ActState, Gate, Resume, Speaker
from world_adapter.host import Host
from world_adapter.keeping import Kept, WorldStore
from world_adapter.keeping_sqlite import SqliteStore
from world_adapter.server import Request, WorldServer

ACTIONS = (
    ActionSpec(name="say", description="", schema={"type": "object"}),
    ActionSpec(name="walk", description="", schema={"type": "object"}, kind="ongoing"),
)


class Game:
    """Remembers what was begun; a walk goes on until the game ends it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.interrupted: list[str] = []
        self.walking = asyncio.Event()

    async def act(self, request: Request) -> str:
        self.begun.append(request.id)
        if request.name == "walk":
            self.walking.set()
            await asyncio.Event().wait()
        return "done"

    async def go_on(self, request: Request) -> str:
        self.interrupted.append(f"{request.id} {request.name} {request.args['to']}")
        return "You are there after all."


def world(store: WorldStore, game: Game, **options: object) -> WorldServer:
    return WorldServer("village", on_act=game.act, actions=ACTIONS, store=store, **options)  # type: ignore[arg-type]


def client(port: int) -> WebsocketWorld:
    return WebsocketWorld(f"ws://127.0.0.1:{port}", npc="mira")


async def test_the_numbers_go_on_and_what_was_not_acknowledged_is_told_again(tmp_path: Path) -> None:
    """W2, W3: two lives of a world over one file, the second with an agent that knows the first."""
    game, sink = Game(), RecordingSink()
    async with world(SqliteStore(tmp_path / "w.db"), game) as first:
        for n in range(3):
            first.observe("mira", f"first {n}", key="k" if n else None, speaker=Speaker(id="p", name="Bob", kind="player"), data={"n": [n]})
        first.gate("mira", "open", value=True, why="noon")
        port = await first.listen()
        agent = client(port)
        async with running(agent, sink):
            await first.until_acked("mira", 3)
        first.observe("mira", "nobody hears this")
        epoch, resume = first.epoch, agent.resume
    async with world(SqliteStore(tmp_path / "w.db"), game) as second:
        assert second.epoch == epoch
        assert second.observe("mira", "after") == 5
        later = RecordingSink()
        async with running(client(await second.listen()), later, resume):
            await later.until_items(2)
        assert [(o.seq, o.text) for o in later.items] == [(4, "nobody hears this"), (5, "after")]
        assert later.attaches[0]["resumed"]
        assert later.attaches[0]["lost"] == 0


@pytest.mark.parametrize("goes_on", [False, True])
async def test_an_action_that_the_death_broke_off_is_not_begun_again(goes_on: bool) -> None:
    """C29, C35: its agent learns that it may have happened, or the game goes on with it; the id is never begun a second time."""
    before, game = MemoryStore(), Game()
    async with world(before, game) as first:
        agent = client(await first.listen())
        sink = RecordingSink()
        async with running(agent, sink):
            await sink.until(lambda: sink.actions)
            assert (await agent.act(id="a1", name="say", args={}, timeout_s=PATIENCE_S)).state == "done"
            assert (await agent.act(id="a2", name="walk", args={"to": "pier"}, timeout_s=PATIENCE_S)).state == "accepted"
            async with asyncio.timeout(PATIENCE_S):
                await game.walking.wait()
            after = MemoryStore()
            after.kept = before.kept  # as the disk is when the process dies now
    async with world(after, game, **({"on_interrupted": game.go_on} if goes_on else {})) as second:
        agent = client(await second.listen())
        sink = RecordingSink()
        async with running(agent, sink):
            await sink.until(lambda: sink.actions)
            await agent.query("a2")
            await sink.until(lambda: any(r.final for r in sink.results))
            end = next(r for r in sink.results if r.final)
            assert (await agent.act(id="a1", name="say", args={}, timeout_s=PATIENCE_S)).text == "done", "what is known is answered"
    assert game.begun == ["a1", "a2"]
    if goes_on:
        assert (end.state, end.text) == (ActState.DONE, "You are there after all.")
        assert game.interrupted == ["a2 walk pier"]
    else:
        assert (end.state, end.error_code) == (ActState.FAILED, "interrupted")
        assert "may have happened" in end.text


async def test_nothing_is_told_or_begun_while_the_store_takes_nothing() -> None:
    """W2, C35: a full disk holds news and actions back, and neither is lost; the link stays alive."""
    store, game = MemoryStore(), Game()
    async with world(store, game, heartbeat_s=0.2) as server:
        agent, sink = client(await server.listen()), RecordingSink()
        async with running(agent, sink):
            server.observe("mira", "before")
            await server.until_acked("mira")
            store.refuse = True
            server.observe("mira", "meanwhile")
            acting = asyncio.create_task(agent.act(id="a1", name="say", args={}, timeout_s=PATIENCE_S))
            tries = store.refused
            async with asyncio.timeout(PATIENCE_S):
                while store.refused < tries + 5:
                    await asyncio.wait([acting], timeout=0.02)
            assert [o.text for o in sink.items] == ["before"]
            assert game.begun == []
            assert not acting.done()
            store.refuse = False
            assert (await acting).state == "done"
            await server.until_acked("mira")
            assert [o.text for o in sink.items] == ["before", "meanwhile"]
            assert len(sink.attaches) == 1


async def test_another_epoch_forgets_the_numbers_and_no_action() -> None:
    """D4, C29: a game that begins its time anew over the same store."""
    store, game = MemoryStore(), Game()
    async with world(store, game, epoch="e1") as first:
        agent, sink = client(await first.listen()), RecordingSink()
        async with running(agent, sink):
            first.observe("mira", "long ago")
            await first.until_acked("mira")
            await agent.act(id="a1", name="say", args={}, timeout_s=PATIENCE_S)
    async with world(store, game, epoch="e2") as second:
        assert second.observe("mira", "a new day") == 1
        agent, sink = client(await second.listen()), RecordingSink()
        async with running(agent, sink, Resume(session="", epoch="e1", seq=1, world="village")):
            await sink.until_items(1)
            await agent.act(id="a1", name="say", args={}, timeout_s=PATIENCE_S)
        assert sink.seqs == [1]
    assert game.begun == ["a1"]
    assert store.kept is not None
    assert store.kept.epoch == "e2"
    assert [o.text for o in store.kept.lives[0].told] in ([], ["a new day"])


def _empty(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to look like something" * 100)


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE guests(name TEXT)")
    db.close()


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize("spoil", [_empty, _foreign, _newer])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """W2: one sentence, and nothing of it is changed."""
    path = tmp_path / "w.db"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(WorldStoreError, match="cannot keep a world") as told:
        SqliteStore(path)
    assert "\n" not in str(told.value)
    assert path.read_bytes() == before


async def test_one_world_in_one_process_has_a_file(tmp_path: Path) -> None:
    """W3: a second process would give the same numbers to other words; another world's file is nobody else's."""
    game = Game()
    async with world(SqliteStore(tmp_path / "w.db"), game) as server:
        await server.listen()
        server.observe("mira", "x")
        await server.until_stored("mira")
        with pytest.raises(WorldStoreError, match="another process has it"):
            SqliteStore(tmp_path / "w.db")
    store = SqliteStore(tmp_path / "w.db")
    try:
        with pytest.raises(WorldStoreError, match="keeps the world 'village', not 'harbour'"):
            store.load("harbour")
    finally:
        await store.close()


TEXT = st.text(st.characters(codec=None), max_size=12)
STEP = st.one_of(
    st.tuples(st.just("observe"), TEXT),
    st.tuples(st.just("ack"), st.integers(0, 5)),
    st.tuples(st.just("act"), st.sampled_from(["a", "b", "c", "d"])),
    st.tuples(st.just("finish"), st.sampled_from(["a", "b", "c", "d"])),
    st.tuples(st.just("gate"), TEXT),
    st.tuples(st.just("rollback"), st.just("")),
    st.tuples(st.just("keep"), st.just("")),
    st.tuples(st.just("restart"), st.just("")),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_the_file_brings_back_what_any_store_would(steps: list[tuple[str, object]]) -> None:
    """W3, C35: whatever a game does, a world from the file knows what a world from the plainest store knows."""

    async def play() -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "w.db"
            plain, file = MemoryStore(), SqliteStore(path, power_safe=False)
            host, epochs = _host(None, "e0"), 0

            async def keep() -> None:
                if changes := host.changes():
                    plain.write(changes)
                    await file.keep(changes)
                    await file.keep(changes)  # twice is once
                    host.stored(changes)

            for what, value in [*steps, ("keep", "")]:
                life = host.life("mira")
                match what:
                    case "observe":
                        host.observe("mira", t=1.5, kind="notice", text=value, data={"deep": [None, value]}, to="mira", own=bool(value))
                    case "ack":
                        life.replay.ack(life.replay.acked + int(str(value)))
                    case "act" if value not in life.acts:
                        life.begin(Act(id=str(value), name="walk", args={"to": "pier"}))
                        host.finish("mira", ActResult(id=str(value), state=ActState.ACCEPTED))
                    case "finish" if value in life.acts:
                        host.finish("mira", ActResult(id=str(value), state=ActState.DONE, text="\ud800", data={"n": 1}, error_code="c"))
                    case "gate":
                        host.gate("mira", Gate(name="g", value=value, why="\x00"))
                    case "rollback":
                        epochs += 1
                        host.rollback(f"e{epochs}", "noon")
                    case "keep":
                        await keep()
                    case "restart":
                        await file.close()
                        file = SqliteStore(path, power_safe=False)
                        assert _same(file.load("w"), plain.kept)
                        host = _host(file.load("w"), f"e{epochs}")
                        epochs = int(host.epoch[1:])
            assert _same(file.load("w"), plain.kept)
            await file.close()

    asyncio.run(play())


def _host(kept: Kept | None, epoch: str) -> Host:
    return Host(
        world="w", epoch=kept.epoch if kept else epoch, authorise=lambda _npc, _token: True, actions=ACTIONS, stored=True, kept=kept
    )


def _same(found: Kept | None, wanted: Kept | None) -> bool:
    assert found == wanted
    return True
