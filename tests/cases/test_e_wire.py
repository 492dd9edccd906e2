"""Cases E: a whole NPC on a real websocket that breaks: it comes back, hears each thing once and in order, and repeats nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgpack
from websockets.asyncio.server import ServerConnection, serve

from runtime.store.journal import Journal
from sim.messages_api import Reply
from sim.reading import Reading
from tests.cases.door import failed, house, refused, stored, wired
from tests.npc.small_world import SAY, use
from tests.world_adapter.peers import RawConnection, RawWorld, Relay
from world_adapter.client import FIRST_RECEIVE_LIMIT
from world_adapter.link import Patience
from world_adapter.server import Request, WorldServer

ACTIONS = [{"name": "say", "description": "Say something.", "schema": dict(SAY.schema)}]


async def heard(oda_home: Path) -> list[int]:
    """The numbers of all that is on disk, in its order."""
    async with await Journal.open(oda_home / "session.db", read_only=True) as journal:
        return [int(e.data["seq"]) for e in await journal.events(kinds=("observation",), limit=10_000) if e.data.get("seq")]


async def answered(c: RawConnection) -> None:
    """Every action is done at once."""
    while True:
        act = await c.expect("act")
        await c.send("act_result", id=act["id"], state="done", text="done")


async def test_e02_thinking_does_not_keep_it_from_answering_pings(tmp_path: Path) -> None:
    """E02, https://github.com/python-websockets/websockets/issues/625, W2: a server that gives up after half a second without a pong,
    and four megabytes to be counted and cut; the link stays. When a 1011 comes all the same, it resumes where it was.
    """
    connections: list[int] = []
    attaches: list[dict[str, object]] = []
    done, thought = asyncio.Event(), asyncio.Event()

    async def script(ws: ServerConnection) -> None:
        connections.append(1)
        c = RawConnection(RawWorld(lambda *_: asyncio.sleep(0)), ws, len(connections))
        attaches.append(await c.greet(next_seq=1 if len(connections) == 1 else 7, resumed=len(connections) > 1))
        await c.send("actions", version=1, actions=ACTIONS)
        if len(connections) == 1:
            for seq in range(1, 6):
                await c.send("obs", seq=seq, t=0.0, kind="scene", text=f"{seq} " + "a wall of ivy, and a stone. " * 30_000)
            await c.send("obs", seq=6, t=0.0, kind="speech", text="Oda, did you see the wall?", to="Oda")
            answering = asyncio.create_task(answered(c))
            await asyncio.wait_for(thought.wait(), 30)
            answering.cancel()
            await ws.close(1011, "keepalive ping timeout")
        else:
            done.set()
            await c.listen()

    async with (
        house(tmp_path) as oda,
        serve(
            script, "127.0.0.1", 0, subprotocols=["npc-world.v1.json"], ping_interval=0.3, ping_timeout=0.5, max_size=None  # type: ignore[list-item]
        ) as server,
    ):
        port = next(iter(server.sockets)).getsockname()[1]
        async with wired(oda, f"ws://127.0.0.1:{port}") as life:
            await life.until(lambda: any("did you see the wall" in r.said for r in oda.requests()))
            thought.set()
            await asyncio.wait_for(done.wait(), 30)
            assert len(connections) == 2, "the first link ended by the 1011 and by nothing else"
        assert await heard(oda.home) == [1, 2, 3, 4, 5, 6]
        resume = attaches[1]["resume"]
        assert isinstance(resume, dict)
        assert resume["seq"] == 6


async def test_e04_a_half_open_line_is_noticed(tmp_path: Path) -> None:
    """E04, https://github.com/signalbot-org/signalbot/issues/287, W3: a line that carries nothing and never ends is given up after two
    heartbeats, with one event; what was told meanwhile is heard.
    """
    async with house(tmp_path) as oda, WorldServer("village", on_act=_done, actions=[SAY], heartbeat_s=0.2) as server:
        async with Relay(await server.listen()).open() as relay, wired(oda, f"ws://127.0.0.1:{relay.port}") as life:
            await life.until(lambda: life.saw("attached"))
            relay.freeze()
            begun = asyncio.get_running_loop().time()
            server.observe("Oda", "Oda, are you there?", kind="speech", to="Oda")
            await life.until(lambda: len(life.saw("attached")) == 2)
            assert asyncio.get_running_loop().time() - begun < 2 * 0.2 + 1.0 + 0.5
            await life.until(lambda: life.saw("turn"))
        lost = [e for e in await stored(oda, "detached") if "silent" in str(e.data)]
        assert len(lost) == 1
        assert "are you there?" in oda.requests()[0].news


async def test_e05_what_is_too_big_is_not_sent_again_and_again(tmp_path: Path) -> None:
    """E05, https://github.com/cube-js/cube/pull/10246, W3: (a) speech beyond what the server takes in one frame is an error for the
    model and the link stays; (b) a snapshot larger than the first limit is received after all.
    """

    def script(reading: Reading) -> Reply | None:
        if reading.round:
            return None
        return use("say", "hear me! " * 300) if "shout" in reading.news else use("say", "Well met.")

    async def world(_world: RawWorld, c: RawConnection) -> None:
        await c.greet(max_frame=2_000, next_seq=1, resumed=c.number > 1)
        await c.send("actions", version=1, actions=ACTIONS)
        await c.send("obs", seq=1, t=0.0, kind="scene", text="a wall", data={"blob": "y" * (FIRST_RECEIVE_LIMIT + 100_000)})
        await c.send("obs", seq=2, t=0.0, kind="speech", text="Oda, shout!", to="Oda")
        await answered(c)

    async with house(tmp_path) as oda, RawWorld(world, max_size=None).open() as raw:
        oda.brain.script = script
        async with wired(oda, raw.url, patience=Patience(gap_s=0.1)) as life:
            await life.until(lambda: any("[failed]" in text for r in oda.requests() for text in r.results) and life.saw("turn"))
            assert not failed(life)
        assert not [f for f in raw.ops("act") if len(json.dumps(f)) > 2_000]
        assert set(await heard(oda.home)) == {1, 2}
        assert raw.connections <= 3
        assert not refused(oda)


async def test_e10_what_comes_while_a_gap_is_filled_is_heard_once_and_in_order(tmp_path: Path) -> None:
    """E10, https://github.com/ReviewStage/luke/pull/757, W3, C34: 10 and 13, then 14 and 15 before the replayed 11 to 13: ten to
    fifteen.
    """

    async def world(_world: RawWorld, c: RawConnection) -> None:
        await c.greet(next_seq=10 if c.number == 1 else 11, resumed=True)
        if c.number == 1:
            await c.obs(10, 13)
        else:
            await c.obs(14, 15, 11, 12, 13)
            await c.send("obs", seq=16, t=0.0, kind="speech", text="Oda?", to="Oda")
        await c.listen()

    async with house(tmp_path) as oda, RawWorld(world).open() as raw:
        async with wired(oda, raw.url, patience=Patience(gap_s=0.1)) as life:
            await life.until(lambda: life.saw("turn"))
        assert await heard(oda.home) == [10, 11, 12, 13, 14, 15, 16]
        news = "".join(r.news for r in oda.requests() if r.round == 0)
        assert [news.count(f">n{n}<") + news.count(f"n{n}\n") for n in range(10, 16)] == [1] * 6


async def test_e15_a_broken_frame_costs_itself_only(tmp_path: Path) -> None:
    """E15, https://github.com/msgpack/msgpack-python/issues/462, W5: bad UTF-8 in one frame, and the next one is heard."""

    async def world(_world: RawWorld, c: RawConnection) -> None:
        pack = msgpack.packb
        await c.ws.send(pack({"op": "hello", "world": "raw", "epoch": "1", "heartbeat_s": 60, "max_frame": 1 << 20}))
        await c.ws.recv()
        await c.ws.send(pack({"op": "welcome", "npc": "Oda", "session": "s", "resumed": False, "next_seq": 1, "lost": 0}))
        await c.ws.send(b"\xa2\xff\xfe")
        await c.ws.send(pack({"op": "obs", "seq": 1, "t": 0.0, "kind": "speech", "text": "Oda, hello?", "to": "Oda"}))
        async for _ in c.ws:
            pass

    async with house(tmp_path) as oda, RawWorld(world).open(["npc-world.v1.msgpack"]) as raw:
        async with wired(oda, raw.url) as life:
            await life.until(lambda: life.saw("turn"))
            assert raw.connections == 1
        assert "Oda, hello?" in oda.requests()[0].news


async def _done(_request: Request) -> str:
    return "done"
