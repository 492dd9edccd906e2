"""A world that tells more than anyone can take in, and a model beside it: two small processes that measure and decide nothing.

    python -m sim.crowd told OBSERVATIONS BATCH            as fast as they are taken
    python -m sim.crowd paced SECONDS RATE ADDRESSED NPC   so many a second, and so many lines a second that are for the NPC
    python -m sim.crowd model NPC                          the Messages API stand-in, which says when each line reached it

Invariant: each prints one JSON line when it can be reached (`port`) and one when it is done; frames are written before the clock starts.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import msgpack
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from sim.messages_api import MessagesAPI, Record, Reply

SUBPROTOCOL: Any = "npc-world.v1.msgpack"
TICK_S = 0.01
#: How long after its last word a world waits for what is still to be acknowledged.
LEAVE_S = 30.0
PEOPLE = 60
_LINES = (
    "Has anyone seen the red fox near the bridge?", "Flour is dear again, and it is not even winter.", "Mind the cart!",
    "They say the mill pond is frozen over.", "I would trade two hides for a good knife.", "Quiet now, the watch is coming.",
)  # fmt: skip
_SCENES = (
    "The square lies quiet; a cart rolls by and rain begins to fall on the roofs.", "Smoke rises from the bakery, somebody laughs.",
    "The gate stands open and the road beyond it is empty.",
)  # fmt: skip
_MARK = re.compile(r"line (\d+)\?")


def told(number: int, chance: random.Random) -> dict[str, Any]:
    """One observation of a busy square: mostly somebody moves, some talk, now and then the view changes."""
    person = chance.randrange(PEOPLE)
    source = {"id": f"p{person}", "name": f"Guest{person}", "kind": "player"}
    plain: dict[str, Any] = {"seq": number, "t": 1_800_000_000.25 + number / 1_000}
    share = chance.random()
    if share < 0.75:
        text = f"Guest{person} walks to the {chance.choice(('well', 'gate', 'mill', 'bridge'))}."
        return {**plain, "kind": "moved", "text": text, "key": f"at:p{person}", "prio": 2, "from": source}
    if share < 0.92:
        return {**plain, "kind": "speech", "text": f"{chance.choice(_LINES)} ({number})", "from": source}
    return {**plain, "kind": "scene", "text": chance.choice(_SCENES), "key": "view", "data": {"room": "square", "light": chance.random()}}


def frame(items: list[dict[str, Any]]) -> bytes:
    """One frame of the open protocol."""
    packed: bytes = msgpack.packb({"op": "batch", "items": items})
    return packed


class World:
    """The world's half, no more of it than a measurement needs."""

    def __init__(self) -> None:
        self.acked = 0
        self.acks = 0
        self.progress = asyncio.Event()

    async def greet(self, ws: ServerConnection) -> None:
        """Hello, attach, welcome."""
        hello = {"op": "hello", "world": "square", "epoch": f"{time.time_ns():x}", "heartbeat_s": 30.0, "max_frame": 1 << 20, "time": ""}
        await ws.send(msgpack.packb(hello))
        npc = msgpack.unpackb(await ws.recv())["npc"]
        await ws.send(msgpack.packb({"op": "welcome", "npc": npc, "session": "s", "resumed": False, "next_seq": 1, "lost": 0}))
        say = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        action = {"name": "say", "description": "Say something aloud.", "schema": say}
        await ws.send(msgpack.packb({"op": "actions", "version": "1", "actions": [action]}))

    async def listen(self, ws: ServerConnection) -> None:
        """Reads acknowledgements, answers what is asked."""
        try:
            while True:
                heard = msgpack.unpackb(await ws.recv())
                match heard["op"]:
                    case "ack":
                        self.acked = max(self.acked, heard["seq"])
                        self.acks += 1
                        self.progress.set()
                    case "ping":
                        await ws.send(msgpack.packb({"op": "pong", "n": heard["n"]}))
                    case "act":
                        await ws.send(msgpack.packb({"op": "act_result", "id": heard["id"], "state": "done", "text": "done"}))
        except ConnectionClosed:
            self.progress.set()

    async def until(self, number: int) -> None:
        """Waits, not for ever, until everything up to `number` is acknowledged."""
        try:
            async with asyncio.timeout(LEAVE_S):
                while self.acked < number:
                    self.progress.clear()
                    await self.progress.wait()
        except TimeoutError:
            return


async def _serve(handle: Any) -> None:
    done = asyncio.Event()

    async def once(ws: ServerConnection) -> None:
        await handle(ws)
        done.set()
        await ws.wait_closed()

    async with serve(once, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL], compression=None, max_size=None, ping_interval=None) as server:
        _print(port=next(iter(server.sockets)).getsockname()[1])
        await done.wait()


async def tell_all(count: int, batch: int) -> None:
    """As fast as they are taken; the clock runs from the first frame to the last acknowledgement."""
    chance = random.Random(7)
    items = [told(n, chance) for n in range(1, count + 1)]
    frames = [frame(items[at : at + batch]) for at in range(0, count, batch)]
    del items

    async def handle(ws: ServerConnection) -> None:
        world = World()
        await world.greet(ws)
        listener = asyncio.create_task(world.listen(ws))
        begun = time.perf_counter()
        for one in frames:
            await ws.send(one)
        await world.until(count)
        _print(seconds=time.perf_counter() - begun, told=count, acked=world.acked, acks=world.acks, bytes=sum(map(len, frames)))
        await ws.close()
        await listener

    await _serve(handle)


async def tell_paced(seconds: float, rate: float, addressed: float, npc: str) -> None:
    """So many a second, in frames of a hundredth of a second; the lines for the NPC go by themselves, at uneven moments."""
    chance = random.Random(7)
    size = max(1, round(rate * TICK_S))

    def frames(numbers: Iterator[int]) -> Iterator[bytes]:
        while True:
            yield frame([told(next(numbers), chance) for _ in range(size)])

    async def handle(ws: ServerConnection) -> None:
        world = World()
        await world.greet(ws)
        listener = asyncio.create_task(world.listen(ws))
        numbers = itertools.count(1)
        stream = frames(numbers)
        sent: dict[int, float] = {}
        begun = time.perf_counter()
        last, line, due, ticks = 0, 0, 1.0, 0
        while (now := time.perf_counter() - begun) < seconds:
            while ticks * TICK_S <= now:
                await ws.send(next(stream))
                ticks += 1
            if addressed and now >= due:
                line += 1
                due += chance.uniform(0.5, 1.5) / addressed
                words = {"op": "obs", "seq": next(numbers), "t": time.time(), "kind": "speech", "text": f"{npc}, line {line}?", "prio": 5,
                         "from": {"id": "p1", "name": "Bob", "kind": "player"}, "to": npc}  # fmt: skip
                sent[line] = time.time()
                await ws.send(msgpack.packb(words))
            await asyncio.sleep(max(0.0, ticks * TICK_S - (time.perf_counter() - begun)))
        last = next(numbers) - 1
        await world.until(last)
        _print(told=last, acked=world.acked, acks=world.acks, seconds=time.perf_counter() - begun, sent=sent)
        await ws.close()
        await listener

    await _serve(handle)


class _Brief:
    """A model that answers every request at once, briefly."""

    def reply(self, request: Mapping[str, Any]) -> Reply:  # noqa: ARG002 - the seam
        return Reply(content=[{"type": "text", "text": "(I listen.)"}])


async def play_model() -> None:
    """Serves until standard input ends, then says when each line for the NPC was first in a request."""
    came: dict[int, float] = {}
    busy: list[tuple[float, float]] = []  # from when to when it thought
    requests = 0

    def heard(record: Record) -> None:
        nonlocal requests
        requests += 1
        busy.append((record.at, time.time()))
        newest = json.dumps(record.body.get("messages", ())[-2:])
        for number in _MARK.findall(newest):
            came.setdefault(int(number), record.at)

    async with MessagesAPI(_Brief(), 32_000, clock=time.time, on_request=heard, keep=1) as api:
        await _warm(api.base_url)
        busy.clear()
        requests = 0
        _print(port=int(api.base_url.rpartition(":")[2]))
        await asyncio.to_thread(sys.stdin.read)
        _print(came=came, requests=requests, busy=busy)


async def _warm(base_url: str) -> None:
    """A first request, in which the stand-in reads its vocabulary."""
    messages = [{"role": "user", "content": "Hm?"}]
    body = {"model": "claude-haiku-5-5", "max_tokens": 16, "thinking": {"type": "disabled"}, "messages": messages}
    async with httpx2.AsyncClient() as client:
        await client.post(f"{base_url}/v1/messages", json=body, headers={"x-api-key": "stand-in", "anthropic-version": "2023-06-01"})


def _print(**data: Any) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["told", count, batch]:
            asyncio.run(tell_all(int(count), int(batch)))
        case ["paced", seconds, rate, addressed, npc]:
            asyncio.run(tell_paced(float(seconds), float(rate), float(addressed), npc))
        case ["model"]:
            asyncio.run(play_model())
        case _:
            sys.exit(__doc__)
