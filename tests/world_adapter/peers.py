"""Stand-ins for the other side: a sink that remembers, a line that can fail, and a world that says exactly what a test tells it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from world_adapter.client import MAX_FLIGHTS, WebsocketWorld
from world_adapter.frames import ActionSpec, ActResult, Limits, Observation, Resume

PATIENCE_S = 10.0


class Waiter:
    """Waits for a condition on something that says when it changed."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def change(self) -> None:
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class RecordingSink(Waiter):
    """A sink that keeps everything; `gate` holds `observed` back while it is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.items: list[Observation] = []
        self.epochs: list[str] = []
        self.batches: list[int] = []
        self.attaches: list[dict[str, Any]] = []
        self.detached_why: list[str] = []
        self.actions: list[list[str]] = []
        self.results: list[ActResult] = []
        self.fail_with: Exception | None = None
        self._inside = 0

    @property
    def seqs(self) -> list[int]:
        return [item.seq for item in self.items]

    async def until_items(self, count: int) -> None:
        await self.until(lambda: len(self.items) >= count)

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        assert self._inside < MAX_FLIGHTS, "only so many at once"
        self._inside += 1
        try:
            await self.gate.wait()
            if self.fail_with is not None:
                raise self.fail_with
            self.items += batch
            self.epochs += [epoch] * len(batch)
            self.batches.append(len(batch))
        finally:
            self._inside -= 1
            self.change()

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.actions.append([action.name for action in actions])
        self.change()

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None:
        self.attaches.append(
            {"npc": npc, "world": world, "epoch": epoch, "session": session, "resumed": resumed, "lost": lost, "limits": limits},
        )
        self.change()

    def detached(self, *, why: str) -> None:
        self.detached_why.append(why)
        self.change()

    def finished(self, result: ActResult) -> None:
        self.results.append(result)
        self.change()


@asynccontextmanager
async def running(world: WebsocketWorld, sink: RecordingSink, resume: Resume | None = None) -> AsyncIterator[asyncio.Task[None]]:
    """`world.run` in the background; closed at the end, and whatever it raised is raised."""
    task = asyncio.create_task(world.run(sink, resume))
    task.add_done_callback(lambda _: sink.change())
    try:
        yield task
    finally:
        await world.close()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([task])
    await task


class Relay:
    """A TCP line between an agent and a world that can be cut, or go silent without a word to either side."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._all: list[asyncio.StreamWriter] = []
        self._frozen: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.port = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Relay]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            for pipe in list(self._pipes):
                pipe.cancel()
            await asyncio.gather(*self._pipes, return_exceptions=True)
            for writer in self._all:
                writer.transport.abort()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            await server.wait_closed()

    def cut(self) -> None:
        """Both sockets of every connection are gone."""
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self) -> None:
        """What stands now stays open and carries nothing any more; new connections are fine."""
        self._frozen |= self._writers

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._all.append(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._all.append(far_writer)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            pipe = asyncio.create_task(self._carry(source, target))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        self._writers.add(target)
        try:
            while data := await source.read(65_536):
                if target not in self._frozen:
                    target.write(data)
                    await target.drain()
            if target not in self._frozen:
                target.close()
        except OSError:
            target.transport.abort()
        finally:
            self._writers.discard(target)


Script = Callable[["RawWorld", "RawConnection"], Awaitable[None]]


class RawConnection:
    """One connection of a RawWorld: JSON in and out, or any bytes at all."""

    def __init__(self, world: RawWorld, ws: ServerConnection, number: int) -> None:
        self.ws = ws
        self.number = number
        self._world = world

    async def send(self, op: str, **fields: Any) -> None:
        await self.ws.send(json.dumps({"op": op, **fields}))

    async def obs(self, *seqs: int) -> None:
        for seq in seqs:
            await self.send("obs", seq=seq, t=0.0, kind="notice", text=f"n{seq}")

    async def hello(self, **fields: Any) -> None:
        await self.send("hello", **{"world": "raw", "epoch": "1", "heartbeat_s": 60, "max_frame": 1 << 22, **fields})

    async def recv(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(await self.ws.recv())
        self._world.heard.append((self.number, frame))
        self._world.change()
        return frame

    async def expect(self, op: str) -> dict[str, Any]:
        """The next frame of that op; others in between are remembered and passed over."""
        while (frame := await self.recv())["op"] != op:
            pass
        return frame

    async def greet(self, *, next_seq: int = 1, lost: int = 0, resumed: bool = False, **hello: Any) -> dict[str, Any]:
        """Hello, attach, welcome; answers the attach."""
        await self.hello(**hello)
        attach = await self.expect("attach")
        await self.send("welcome", npc=attach["npc"], session="s1", resumed=resumed, next_seq=next_seq, lost=lost)
        return attach

    async def listen(self) -> None:
        """Answers pings, remembers everything, until the agent goes."""
        while True:
            frame = await self.recv()
            if frame["op"] == "ping":
                await self.send("pong", n=frame["n"])


class RawWorld(Waiter):
    """A world that follows a script for each connection, written without any of the product's code."""

    def __init__(self, script: Script, *, max_size: int | None = 2**20) -> None:
        super().__init__()
        self.heard: list[tuple[int, dict[str, Any]]] = []
        self.closed_with: list[int | None] = []
        self.connections = 0
        self.port = 0
        self._script = script
        self._max_size = max_size

    def ops(self, op: str) -> list[dict[str, Any]]:
        return [frame for _, frame in self.heard if frame["op"] == op]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def open(self, subprotocols: Sequence[str] | None = ("npc-world.v1.json",)) -> AsyncIterator[RawWorld]:
        async with serve(
            self._serve, "127.0.0.1", 0, subprotocols=subprotocols, ping_interval=None, max_size=self._max_size, close_timeout=1,  # type: ignore[arg-type]
        ) as server:  # fmt: skip
            self.port = next(iter(server.sockets)).getsockname()[1]
            yield self

    async def _serve(self, ws: ServerConnection) -> None:
        self.connections += 1
        self.change()
        try:
            await self._script(self, RawConnection(self, ws, self.connections))
        except ConnectionClosed:
            pass
        finally:
            await ws.wait_closed()
            self.closed_with.append(ws.close_code)
            self.change()
