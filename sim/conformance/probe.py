"""One connection to a world under examination: it says what it is told to and writes down all that comes.

Invariant: every frame that arrives is checked for what holds of any frame (encoding, fields, size, numbers), whichever rule is being
looked at. Written without the product's codec and link, which repair and forgive.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import msgpack
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError, WebSocketException

from sim.conformance import shapes
from sim.conformance.rules import Ledger
from sim.conformance.stream import Stream

_quiet = logging.getLogger("sim.conformance.websockets")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False

Frame: TypeAlias = Mapping[str, Any]

MSGPACK, JSON = "npc-world.v1.msgpack", "npc-world.v1.json"
OPEN_S = 10.0
CLOSE_S = 2.0
RECEIVE_LIMIT = 4_194_304  # bytes of one frame: what is packed tightly takes a hundred times that in memory
MAX_UNKNOWN = 50  # ops that are named
ORDERLY = frozenset({1000, 1001, 4005})
MAX_KEPT = 16_777_216  # bytes of frames that one connection may bring; what comes after that is not kept, so nothing more is found in it


@dataclass(frozen=True, slots=True)
class Shut:
    """No connection came about. `status`: HTTP status of a refusal, 0 where there was none; `negotiated`: it broke on the subprotocol."""

    why: str
    status: int = 0
    negotiated: bool = False


@dataclass(slots=True, kw_only=True)
class Facts:
    """What all connections of one check have in common."""

    ledger: Ledger
    stream: Stream
    send_s: float = 10.0  # a world that reads nothing for so long is let go
    world: str = ""
    epoch: str = ""
    finals: dict[str, list[Frame]] = field(default_factory=dict)  # by action id, every final state that came
    accepted: set[str] = field(default_factory=set)
    unknown_ops: set[str] = field(default_factory=set)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1_000))

    def meet(self, hello: Frame) -> None:
        """A hello of one more connection: the same world, in the same epoch unless it said otherwise."""
        for name in ("world", "epoch"):
            told, known = str(hello.get(name, "")), getattr(self, name)
            if known:
                self.ledger.check("hello", told == known, f"{name} was {shapes.shown(known)}, on a later connection {shapes.shown(told)}")
            setattr(self, name, told)


class Probe:
    """One connection. `open` first; frames then gather in `frames` until `close` or `cut`.

    Attributes:
        frames: all that came, in order.
        hello: the first hello.
        welcome: the first welcome.
        seqs: numbers of the observations, in order of arrival.
        code: the close code once the world has closed, 1006 where there was none.
    """

    def __init__(self, ws: ClientConnection, facts: Facts) -> None:
        self.frames: list[Frame] = []
        self.hello: Frame | None = None
        self.welcome: Frame | None = None
        self.seqs: list[int] = []
        self.code: int | None = None
        self._ws, self._facts, self._ledger = ws, facts, facts.ledger
        self._text = ws.subprotocol == JSON
        self._news = asyncio.Event()
        self._mute = False
        self._early: list[Frame] = []
        self._bytes = 0
        self._ours = False  # we closed, so how it ended says nothing
        self._reader = asyncio.create_task(self._read(), name="conformance reader")
        self._beat: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, facts: Facts, *, token: str | None, subprotocols: Sequence[str] = (MSGPACK, JSON)) -> Self | Shut:
        """Connects; what it offers is `subprotocols`."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            ws = await _Connect(
                url, subprotocols=list(subprotocols), additional_headers=headers, compression=None, open_timeout=OPEN_S,  # type: ignore[arg-type]
                close_timeout=CLOSE_S, ping_interval=None, max_size=RECEIVE_LIMIT, user_agent_header="npc-sim-conformance", logger=_quiet,
            )  # fmt: skip
        except InvalidStatus as error:
            return Shut(f"HTTP {error.response.status_code}", status=error.response.status_code)
        except NegotiationError:
            return Shut("it picked a subprotocol that was not offered", negotiated=True)
        except (OSError, WebSocketException) as error:
            return Shut(" ".join(str(error).split())[:200] or type(error).__name__)
        if ws.subprotocol is None:
            await ws.close()
            return Shut("it picked no subprotocol", negotiated=True)
        return cls(ws, facts)

    @property
    def subprotocol(self) -> str:
        return str(self._ws.subprotocol)

    # Saying

    async def send(self, op: str, **fields: Any) -> None:
        """One frame; silently nothing once the world has closed."""
        raw = {"op": op, **fields}
        await self.send_raw(json.dumps(raw).encode() if self._text else msgpack.packb(raw))

    async def send_raw(self, data: bytes) -> None:
        """Any bytes as one message, in the frame type of the subprotocol."""
        try:
            async with asyncio.timeout(self._facts.send_s):
                await self._ws.send(data, text=self._text)
        except TimeoutError:
            self._ws.transport.abort()
        except ConnectionClosed:
            pass

    def mute(self) -> None:
        """From here on nothing is said by itself: no pings, no pongs."""
        self._mute = True

    # Waiting

    async def after(self, mark: int, fits: Callable[[Frame], bool], within_s: float) -> Frame | None:
        """The first frame from number `mark` on that fits, None if none comes in time or the connection ends."""
        at = mark

        def found() -> bool:
            nonlocal at
            while at < len(self.frames):
                if fits(self.frames[at]):
                    return True
                at += 1
            return self.code is not None

        await self._until(found, within_s)
        return self.frames[at] if at < len(self.frames) else None

    async def alive(self, within_s: float) -> bool:
        """Whether a ping of a number never used comes back: everything said before has then been read."""
        number, mark = next(self._facts.numbers), len(self.frames)
        await self.send("ping", n=number)
        answer = await self.after(mark, lambda f: f["op"] == "pong" and f.get("n") == number, within_s)
        return answer is not None

    async def until_closed(self, within_s: float) -> int | None:
        """The world's close code, None if it does not close in time."""
        await self._until(lambda: self.code is not None, within_s)
        return self.code

    async def observed(self, count: int, within_s: float) -> None:
        """Waits until so many different observations came, or for so long."""
        await self._until(lambda: len(set(self.seqs)) >= count or self.code is not None, within_s)

    async def _until(self, ready: Callable[[], bool], within_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not ready():
                    self._news.clear()
                    await self._news.wait()
        return ready()

    # Ending

    async def close(self) -> None:
        """Leaves in order."""
        self._ours = True
        await self._ws.close()
        await self._end()

    async def cut(self) -> None:
        """Leaves as a broken line does: without a word."""
        self._ours = True
        self._ws.transport.abort()
        await self._end()

    async def _end(self) -> None:
        tasks = [self._reader]
        if self._beat is not None:
            self._beat.cancel()
            tasks.append(self._beat)
        await asyncio.gather(*tasks, return_exceptions=True)

    # Hearing

    async def _keep_alive(self, heartbeat_s: float) -> None:
        while not self._mute:
            await asyncio.sleep(max(0.02, heartbeat_s / 3))
            if not self._mute and self.welcome is not None:
                await self.send("ping", n=next(self._facts.numbers))

    async def _read(self) -> None:
        try:
            while True:
                message = await self._ws.recv()
                raw = self._decoded(message)
                if raw is not None:
                    await self._heard(raw)
                self._news.set()
        except ConnectionClosed:
            pass
        finally:
            self.code = self._ws.close_code or 1006
            if not self._ours and self.code in ORDERLY:
                said = any(frame["op"] == "bye" for frame in self.frames)
                self._ledger.check("bye", said, f"it closed with {self.code} and had said no bye")
            self._news.set()

    def _decoded(self, message: str | bytes) -> dict[str, Any] | None:
        size = len(message.encode()) if isinstance(message, str) else len(message)
        self._bytes += size
        limit = self.hello.get("max_frame") if self.hello else None
        if shapes.is_whole(limit):
            self._ledger.check("max-frame", size <= int(limit), f"a frame of {size:,} bytes where max_frame is {int(limit):,}")  # type: ignore[arg-type]
        if isinstance(message, str) is not self._text:
            kind = "text" if isinstance(message, str) else "binary"
            self._ledger.broken("encoding", f"a {kind} frame under {self.subprotocol}")
        try:
            raw = json.loads(message, parse_constant=_refused) if isinstance(message, str) else msgpack.unpackb(message)
        except (ValueError, RecursionError, msgpack.UnpackException) as error:
            self._ledger.broken("encoding", f"a frame that cannot be read ({type(error).__name__})")
            return None
        if not isinstance(raw, dict) or not isinstance(raw.get("op"), str):
            self._ledger.broken("encoding", f"a frame that is {shapes.shown(raw)}")
            return None
        self._ledger.holds("encoding")
        return raw

    async def _heard(self, raw: dict[str, Any]) -> None:
        op = raw["op"]
        if self._bytes >= MAX_KEPT:
            if op == "ping" and not self._mute:
                await self.send("pong", n=raw.get("n"))
            return
        self.frames.append(raw)
        if len(self.frames) == 1:
            self._ledger.check("hello", op == "hello", f"the first frame is {op}")
        if op not in shapes.FRAMES:
            if len(self._facts.unknown_ops) < MAX_UNKNOWN:
                self._facts.unknown_ops.add(shapes.shown(op))
            return
        faults = shapes.frame(raw)
        for fault in faults:
            self._ledger.broken(op if op in ("hello", "welcome", "actions") else "frames", fault)
        if not faults:
            self._ledger.holds("frames")
        match op:
            case "hello" if self.hello is None:
                self.hello = raw
                self._facts.meet(raw)
                beat = raw.get("heartbeat_s")
                every = float(beat) if shapes.is_number(beat) else 30.0  # type: ignore[arg-type]
                self._beat = asyncio.create_task(self._keep_alive(every), name="conformance heartbeat")
            case "welcome" if self.welcome is None:
                self.welcome = raw
                if shapes.is_whole(raw.get("next_seq")):
                    self._facts.stream.begin(self._facts.epoch, int(raw["next_seq"]))
                early, self._early = self._early, []
                for each in early:
                    self._observed(each)
            case "obs" | "batch":
                items = raw["items"] if op == "batch" and isinstance(raw.get("items"), list) else [raw] if op == "obs" else []
                for item in items:
                    if self.welcome is None:
                        self._early.append(item)
                    else:
                        self._observed(item)
            case "rollback" if isinstance(raw.get("epoch"), str):
                self._facts.epoch = raw["epoch"]
                self._facts.stream.begin(raw["epoch"], 1)
                self.seqs.clear()
            case "act_result" if isinstance(raw.get("id"), str):
                if raw.get("state") == "accepted":
                    self._facts.accepted.add(raw["id"])
                else:
                    self._facts.finals.setdefault(raw["id"], []).append(raw)
            case "ping" if not self._mute:
                await self.send("pong", n=raw.get("n"))

    def _observed(self, raw: Frame) -> None:
        if seq := self._facts.stream.take(raw):
            self.seqs.append(seq)


class _Connect(connect):
    """A redirect is a refusal: it would carry the token to an address that nobody named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")
