"""Our client against worlds that are not ours, and our server against agents that are not ours: over real sockets, with frames
written by hand (W1 to W3, W5, E02, E04, E05, E10, E15).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.world_adapter.peers import PATIENCE_S, RawConnection, RawWorld, RecordingSink, running
from world_adapter.client import FIRST_RECEIVE_LIMIT, LAST_RECEIVE_LIMIT, WebsocketWorld
from world_adapter.errors import WorldRefused
from world_adapter.frames import ActionSpec, ActState, Resume
from world_adapter.link import Patience
from world_adapter.server import Request, WorldServer


def client(world: RawWorld, **options: Any) -> WebsocketWorld:
    return WebsocketWorld(world.url, npc="mira", **options)


# Worlds


async def test_a_plain_json_world_that_never_pings_and_repeats_itself() -> None:
    """W1, W3: only JSON, actions after the welcome, version a number, everything sent again after a reconnect whatever was acked."""

    async def script(world: RawWorld, c: RawConnection) -> None:
        await c.greet(heartbeat_s=0.1, limits={"say_chars": 100_000, "acts_per_s": 10_000})
        await c.send("actions", version=1, actions=[{"name": "say", "description": "", "schema": {"type": "object"}}])
        await c.obs(1, 2, 3) if c.number == 1 else await c.obs(1, 2, 3, 4)
        while len(world.ops("ping")) < 3 * c.number:
            frame = await c.recv()
            if frame["op"] == "ping":
                await c.send("pong", n=frame["n"])
        if c.number == 1:
            c.ws.transport.abort()
        else:
            await c.listen()

    async with RawWorld(script).open() as world:
        sink = RecordingSink()
        async with running(client(world), sink):
            await sink.until(lambda: 4 in sink.seqs)
            await world.until(lambda: {"op": "ack", "seq": 4} in world.ops("ack"))
        assert sink.seqs == [1, 2, 3, 4]
        assert sink.actions == [["say"], ["say"]]
        assert world.ops("attach")[1]["resume"]["seq"] == 3
        assert len(sink.detached_why) == 2  # the abort, and our own close


async def test_a_gap_is_filled_by_resuming() -> None:
    """E10: 10, 13 on one connection; on the next 14, 15 before the replayed 11, 12, 13."""

    async def script(_world: RawWorld, c: RawConnection) -> None:
        attach = await c.greet(next_seq=10 if c.number == 1 else 11, resumed=True)
        if c.number == 1:
            await c.obs(10, 13)
        else:
            assert attach["resume"]["seq"] == 10
            await c.obs(14, 15, 11, 12, 13)
        await c.listen()

    async with RawWorld(script).open() as world:
        sink = RecordingSink()
        resume = Resume(session="s1", epoch="1", seq=9, world="raw")
        async with running(client(world, patience=Patience(gap_s=0.1)), sink, resume):
            await sink.until(lambda: 15 in sink.seqs)
        assert sink.seqs == [10, 11, 12, 13, 14, 15]


async def test_a_world_whose_numbers_begin_anew_unheard_is_heard_again() -> None:
    """W3: the frame that says so is lost on the way; nothing but old numbers for a while, and the next greeting tells of the new epoch."""

    async def script(world: RawWorld, c: RawConnection) -> None:
        if c.number == 1:
            await c.greet()
            await c.obs(1, 2, 3, 4, 5)
            while not world.connections > 1 and c.ws.close_code is None:
                await c.obs(1, 2, 3)
                await asyncio.sleep(0.05)  # as a world goes on
        else:
            await c.greet(epoch="2")
            await c.obs(1, 2, 3, 4)
            await c.listen()

    async with RawWorld(script).open() as world:
        sink = RecordingSink()
        async with running(client(world, patience=Patience(stale_s=0.2)), sink):
            await sink.until(lambda: sink.epochs[-4:] == ["2"] * 4)
        assert sink.seqs == [1, 2, 3, 4, 5, 1, 2, 3, 4]
        assert world.connections == 2


async def test_a_world_that_repeats_itself_for_ever_is_asked_anew_once() -> None:
    """W3: a habit is no reason to come and go."""

    async def script(world: RawWorld, c: RawConnection) -> None:
        await c.greet()
        await c.obs(1, 2, 3)
        for _ in range(40):
            await c.obs(1, 2, 3)
            await asyncio.sleep(0.02)  # as a world goes on
        await c.obs(4)
        await c.listen()

    async with RawWorld(script).open() as world:
        sink = RecordingSink()
        async with running(client(world, patience=Patience(stale_s=0.1)), sink):
            await sink.until(lambda: 4 in sink.seqs)
        assert sink.seqs == [1, 2, 3, 4]
        assert world.connections == 2


async def test_bad_frames_cost_themselves_and_ten_of_them_the_link() -> None:
    """E15, W5: the broken frame of the report, then a good one; then too many, and 4002."""
    normal = msgpack.packb({"op": "obs", "seq": 2, "t": 0.0, "kind": "notice", "text": "two"})

    async def script(world: RawWorld, c: RawConnection) -> None:
        hello = {"op": "hello", "world": "raw", "epoch": "1", "heartbeat_s": 60, "max_frame": 1 << 20}
        await c.ws.send(msgpack.packb(hello))
        await c.ws.recv()
        await c.ws.send(msgpack.packb({"op": "welcome", "npc": "mira", "session": "s", "resumed": False, "next_seq": 1, "lost": 0}))
        await c.ws.send(msgpack.packb({"op": "obs", "seq": 1, "t": 0.0, "kind": "notice", "text": "one"}))
        if c.number == 1:
            for bad in (b"\xa2\xff\xfe", b"", b"\xdd\xff\xff\xff\xff", b"\x91" * 2_000):
                await c.ws.send(bad)
            await c.ws.send("a text frame where none belongs \ud7ff")
            await c.ws.send(normal)
            for _ in range(5):
                await c.ws.send(b"\xc1")
        else:
            await c.ws.send(normal)
        async for _ in c.ws:
            pass

    async with RawWorld(script).open(["npc-world.v1.msgpack"]) as world:
        sink, ours = RecordingSink(), client(world)
        async with running(ours, sink):
            await sink.until(lambda: len(sink.attaches) == 2)
            await sink.until(lambda: len(sink.seqs) == 2)
        assert sink.seqs == [1, 2]
        assert ours.counters.malformed == 10
        assert world.closed_with[0] == 4002


async def test_bad_utf8_in_a_text_frame_is_repaired_and_not_a_reason_to_close() -> None:
    """W5: bytes that are no text, in a frame that says it is one."""

    async def script(_world: RawWorld, c: RawConnection) -> None:
        await c.greet()
        await c.ws.send(b'{"op":"obs","seq":1,"t":NaN,"kind":"speech","text":"sh\xffop\x00gold \\ud800"}', text=True)
        await c.ws.send(b'{"op":"obs","seq":2,"t":1e999,"kind":"speech","text":"shop\\u0000gold"}', text=True)
        await c.listen()

    async with RawWorld(script).open() as world:
        sink, ours = RecordingSink(), client(world)
        async with running(ours, sink):
            await sink.until_items(2)
        assert [item.text for item in sink.items] == ["sh�op␀gold �", "shop␀gold"]
        assert ours.counters.malformed == 0
        assert len(sink.attaches) == 1


@pytest.mark.parametrize("subprotocols", [None, ["something.else"]])
async def test_a_server_that_speaks_something_else_is_refused(subprotocols: list[str] | None) -> None:
    """W1: no subprotocol chosen, or none of ours offered: final, in one sentence."""

    async def script(_world: RawWorld, c: RawConnection) -> None:
        await c.hello()

    async with RawWorld(script).open(subprotocols) as world:
        with pytest.raises(WorldRefused) as refused:
            await client(world).run(RecordingSink(), None)
    assert "\n" not in str(refused.value)


async def test_http_answers_are_told_apart() -> None:
    """W3: 401 is final, 503 is tried again."""
    answers = [b"503 Busy", b"503 Busy", b"401 No"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + answers.pop(0) + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(WorldRefused, match="token") as refused:
            await WebsocketWorld(url, npc="mira", token="s3cret").run(RecordingSink(), None)
    assert answers == []
    assert "s3cret" not in str(refused.value)


async def test_a_redirect_does_not_get_the_token() -> None:
    """C18: whoever answers for the world cannot send our credential elsewhere."""
    seen: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(4096))
        writer.close()

    async def here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:{far_port}/\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    far, near = await asyncio.start_server(elsewhere, "127.0.0.1", 0), await asyncio.start_server(here, "127.0.0.1", 0)
    far_port = far.sockets[0].getsockname()[1]
    async with far, near:
        url = f"ws://127.0.0.1:{near.sockets[0].getsockname()[1]}"
        with pytest.raises(WorldRefused, match="HTTP 302"):
            await WebsocketWorld(url, npc="mira", token="s3cret").run(RecordingSink(), None)
    assert seen == []


async def test_a_world_that_closes_with_1009_never_sees_the_same_action_again() -> None:
    """E05: it told a larger limit than it keeps."""

    async def script(_world: RawWorld, c: RawConnection) -> None:
        await c.greet(max_frame=1 << 22)
        await c.listen()

    async with RawWorld(script, max_size=10_000).open() as world:
        sink, ours = RecordingSink(), client(world)
        async with running(ours, sink):
            await sink.until(lambda: sink.attaches)
            asking = asyncio.create_task(ours.act(id="a1", name="say", args={"text": "x" * 50_000}, timeout_s=PATIENCE_S))
            await sink.until(lambda: len(sink.attaches) == 2)
            await world.until(lambda: world.ops("query"))
            again = await ours.act(id="a2", name="say", args={"text": "x" * 50_000}, timeout_s=PATIENCE_S)
            assert (again.state, again.error_code) == (ActState.FAILED, "too_large")
        # Nobody answered the query: the end of the link ends the waiting, honestly.
        assert (await asking).state is ActState.UNKNOWN
        assert "1009" in sink.detached_why[0]
        assert world.connections == 2
        assert world.ops("query") == [{"op": "query", "id": "a1"}]
        assert world.ops("act") == []


async def test_a_snapshot_over_the_first_limit_is_received_after_all() -> None:
    """E05 (b): no endless loop of the same close; the limit goes up."""
    size = FIRST_RECEIVE_LIMIT + 100_000

    async def script(_world: RawWorld, c: RawConnection) -> None:
        await c.greet()
        await c.send("obs", seq=1, t=0, kind="scene", text="x" * 1000, data={"blob": "y" * size})
        await c.listen()

    async with RawWorld(script).open() as world:
        sink = RecordingSink()
        async with running(client(world), sink):
            await sink.until(lambda: sink.seqs == [1])
        assert world.connections == 2


async def test_an_observation_that_no_limit_can_hold_is_given_up() -> None:
    """E05: the NPC hears on."""
    monster = b'{"op":"obs","seq":1,"t":0,"kind":"scene","text":"' + b"x" * (LAST_RECEIVE_LIMIT + 10) + b'"}'

    async def script(_world: RawWorld, c: RawConnection) -> None:
        attach = await c.greet()
        if attach.get("resume", {}).get("seq", 0) < 1:
            await c.ws.send(monster, text=True)
        await c.obs(2)
        await c.listen()

    async with RawWorld(script).open() as world:
        sink, ours = RecordingSink(), client(world)
        async with running(ours, sink):
            await sink.until(lambda: sink.seqs == [2])
        assert ours.counters.lost == 1
        assert world.connections == 3  # the limit raised once, then given up


async def test_an_action_that_was_under_way_when_the_line_broke_is_asked_about() -> None:
    """C35: a query, no second act; and the caller gets the answer as if nothing had been."""

    async def script(world: RawWorld, c: RawConnection) -> None:
        await c.greet(resumed=c.number > 1)
        if c.number == 1:
            await c.expect("act")
            c.ws.transport.abort()
        else:
            await c.expect("query")
            await c.send("act_result", id="a1", state="done", text="it had happened")
            await c.send("act_result", id="a1", state="done", text="it had happened")
            await c.listen()

    async with RawWorld(script).open() as world:
        sink, ours = RecordingSink(), client(world)
        async with running(ours, sink):
            await sink.until(lambda: sink.attaches)
            result = await ours.act(id="a1", name="say", args={}, timeout_s=PATIENCE_S)
            assert (result.state, result.text) == (ActState.DONE, "it had happened")
        assert len(world.ops("act")) == 1
        assert sink.results == []


async def test_a_keepalive_close_is_survived() -> None:
    """E02: if a 1011 close comes anyway, the agent resumes from its watermark."""

    async def script(world: RawWorld, c: RawConnection) -> None:
        attach = await c.greet(next_seq=1 if c.number == 1 else 3, resumed=c.number > 1)
        if c.number == 1:
            await c.obs(1, 2)
            await c.expect("ack")
            while world.ops("ack")[-1]["seq"] < 2:
                await c.recv()
            await c.ws.close(1011, "keepalive ping timeout")
        else:
            assert attach["resume"]["seq"] == 2
            await c.obs(3)
            await c.listen()

    async with RawWorld(script).open() as world:
        sink = RecordingSink()
        async with running(client(world), sink):
            await sink.until(lambda: sink.seqs == [1, 2, 3])
        assert "1011" in sink.detached_why[0]


# Agents


class RawAgent:
    """A hand-written agent on one connection to our server."""

    def __init__(self, ws: ClientConnection) -> None:
        self.ws = ws

    async def send(self, op: str, **fields: Any) -> None:
        await self.ws.send(json.dumps({"op": op, **fields}))

    async def expect(self, op: str) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame: dict[str, Any] = json.loads(await self.ws.recv())
                if frame["op"] == "ping":
                    await self.send("pong", n=frame["n"])
                if frame["op"] == op:
                    return frame


@asynccontextmanager
async def harbour(**options: Any) -> AsyncIterator[tuple[WorldServer, list[Request], int]]:
    asked: list[Request] = []

    async def on_act(request: Request) -> str:
        asked.append(request)
        return f"done {request.id}"

    say = ActionSpec(name="say", description="", schema={"type": "object"})
    async with WorldServer("harbour", on_act=on_act, actions=[say], **options) as server:
        yield server, asked, await server.listen()


@asynccontextmanager
async def agent(port: int, *, attach: str | None = "mira", **resume: Any) -> AsyncIterator[RawAgent]:
    async with connect(f"ws://127.0.0.1:{port}", subprotocols=["npc-world.v1.json"], ping_interval=None) as ws:  # type: ignore[list-item]
        raw = RawAgent(ws)
        await raw.expect("hello")
        if attach is not None:
            await raw.send("attach", npc=attach, agent="raw/1", **({"resume": resume} if resume else {}))
        yield raw


async def closed_with(raw: RawAgent) -> int | None:
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await raw.ws.recv()
    return raw.ws.close_code


async def test_an_id_is_executed_once_over_all_connections() -> None:
    """C29, C35: sent again, on the same and on another connection: the known result, one execution."""
    async with harbour() as (_server, asked, port):
        for _ in range(2):
            async with agent(port) as raw:
                await raw.expect("welcome")
                for _ in range(2):
                    await raw.send("act", id="a1", name="say", args={})
                    assert (await raw.expect("act_result"))["text"] == "done a1"
                await raw.send("query", id="a1")
                assert (await raw.expect("act_result"))["state"] == "done"
                await raw.send("query", id="never")
                assert (await raw.expect("act_result"))["state"] == "unknown"
        assert len(asked) == 1


async def test_what_was_not_acknowledged_is_sent_again() -> None:
    """W3: rule 2, with an agent that resumes from an older number than it acked, and one that knows nothing."""
    async with harbour() as (server, _asked, port):
        for n in range(4):
            server.observe("mira", str(n))
        async with agent(port) as raw:
            assert (await raw.expect("welcome"))["next_seq"] == 1
            batch = await raw.expect("batch")
            assert [item["seq"] for item in batch["items"]] == [1, 2, 3, 4]
            await raw.send("ack", seq=2)
            await server.until_acked("mira", 2)
        async with agent(port) as raw:
            welcome = await raw.expect("welcome")
            assert (welcome["next_seq"], welcome["resumed"], welcome["lost"]) == (3, False, 0)
        async with agent(port, session="x", epoch=server.epoch, seq=3) as raw:
            welcome = await raw.expect("welcome")
            assert (welcome["next_seq"], welcome["resumed"], welcome["lost"]) == (4, True, 0)
            assert (await raw.expect("obs"))["seq"] == 4


async def test_last_words_that_were_lost_on_the_way_are_said_again() -> None:
    """W3: no successor will show that they are missing, so the world says them again after two heartbeats without an ack."""
    async with harbour(heartbeat_s=0.1) as (server, _asked, port), agent(port) as raw:
        await raw.expect("welcome")
        server.observe("mira", "last words")
        for _ in range(2):
            assert (await raw.expect("obs"))["seq"] == 1  # its pongs show it alive, and still it never got them
        await raw.send("ack", seq=1)
        await server.until_acked("mira")


async def test_what_strangers_send_harms_only_their_own_connection() -> None:
    """W5: no attach, bytes, too much, too large, wrong protocol; the world goes on for the others."""
    async with harbour(max_frame=10_000, heartbeat_s=30.0) as (server, asked, port), agent(port, attach="bob") as bob:
        await bob.expect("welcome")
        async with agent(port, attach=None) as raw:
            for _ in range(10):
                await raw.ws.send(b"\xff\x00")
            assert await closed_with(raw) == 4002
        async with agent(port, attach=None) as raw:
            for _ in range(10):
                await raw.send("act", id="a", name="say", args={})
            assert await closed_with(raw) == 4002
        async with agent(port) as raw:
            await raw.send("act", id="a", name="say", args={"text": "x" * 20_000})
            assert await closed_with(raw) == 1009
        with pytest.raises(InvalidStatus):
            await connect(f"ws://127.0.0.1:{port}", subprotocols=["chat"])  # type: ignore[list-item]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01 this is no http")
        writer.close()
        await writer.wait_closed()
        await bob.send("act", id="b", name="say", args={})
        assert (await bob.expect("act_result"))["text"] == "done b"
        assert len(asked) == 1
        assert server.attached("bob")


async def test_an_agent_that_falls_silent_is_let_go() -> None:
    """E04: the world's side of the half-open line."""
    gone = asyncio.Event()
    async with harbour(heartbeat_s=0.1, on_detach=lambda _npc: gone.set()) as (server, _asked, port), agent(port) as raw:
        await raw.expect("welcome")
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()
        assert not server.attached("mira")
        server.observe("mira", "kept for later")
        assert server.acked("mira") == 0


async def test_a_gate_is_told_again_until_someone_hears_it() -> None:
    """T3: the game's own word is not lost because the agent was away."""
    async with harbour() as (server, _asked, port):
        server.gate("mira", "verified", value=True, why="quest log")
        for _ in range(2):
            async with agent(port) as raw:
                assert (await raw.expect("gate"))["value"] is True


async def test_goodbye_says_when_to_come_back() -> None:
    """W3: an orderly close is announced."""
    async with harbour() as (server, _asked, port), agent(port) as raw:
        await raw.expect("welcome")
        closing = asyncio.create_task(server.close(retry_after_s=2.5))
        bye = await raw.expect("bye")
        assert (bye["code"], bye["retry_after_s"], bye["resumable"]) == (4005, 2.5, True)
        assert await closed_with(raw) == 4005
        await closing
