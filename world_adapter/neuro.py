"""Games of the Neuro API as a `World`: `neuro+ws://HOST:PORT`. The game is the client, so this side listens.

Invariants: one game at a time plays with the NPC. What a game says is the sink's in the order in which it came, numbered from 1 in one
epoch for the life of this object; games keep nothing for those who are away, and the NPC is told for how long it heard nothing.

A second game while one plays: the same title is let in and the older link closed, for it is the game come back over a broken line or a
restart; another title is refused while the first still answers a ping, for a game that is being played is not to lose its player to one
that somebody opened beside it. Each further game takes an NPC and a port of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from world_adapter import cleaning, neuro_wire
from world_adapter.addresses import is_loopback
from world_adapter.alarm import Alarm
from world_adapter.effects import ActionsChanged, Attached, Deliver, Detached, Hangup, Result, Send
from world_adapter.errors import WorldRefused
from world_adapter.frames import ActResult, Resume
from world_adapter.neuro_force import Patience
from world_adapter.neuro_link import Counters, NeuroLink
from world_adapter.outbox import Outbox
from world_adapter.world import Sink

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
PING_S, PONG_S = 20.0, 40.0  # a game may stand still for a while when it loads
REPLACE_S = 2.0  # for an older link of the same game to close
DRAIN_S = 3.0
MAX_UNTOLD = 1_000  # events behind a sink that hangs; until it comes back no game is let in
MAX_UNSENT = 1_000  # frames for a game that does not read

#: Pages of other sites must not reach an NPC through the browser of whoever runs it; a game that runs in a browser here may.
_LOCAL_PAGE = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")

_log = structlog.get_logger(__name__)
_quiet = logging.getLogger("world_adapter.websockets")  # what strangers do to our port is no news
_quiet.addHandler(logging.NullHandler())


class NeuroWorld:
    """The server that a game of the Neuro API connects to, with one NPC behind it. See `World` for the contract of the methods.

    Args:
        url: `neuro+ws://[HOST[:PORT]]`, where to listen; 127.0.0.1:8000 by default, port 0 for a free one.
        npc: the NPC's name, told to the game.
        allow_insecure: listen where other machines, and pages of any site, reach the NPC: the protocol knows no password.
        patience: how long to wait for what.
        clock: unix seconds.

    Raises:
        WorldRefused: the address cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        npc: str,
        allow_insecure: bool = False,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._host, self._port = _address(url, allow_insecure=allow_insecure)
        self._any_page = allow_insecure
        self._npc = cleaning.ident(npc) or "npc"
        self._link = NeuroLink(
            npc=self._npc, display_name=cleaning.name(npc), epoch=f"{int(clock())}-{secrets.token_hex(4)}", patience=patience,
        )  # fmt: skip
        self._patience = patience or Patience()
        self._out = Outbox(self._npc, clock)
        self._waiting: dict[str, asyncio.Future[ActResult]] = {}
        self._connection: _Connection | None = None
        self._door = asyncio.Lock()
        self._listening = asyncio.Event()
        self._closing = asyncio.Event()
        self._fault: asyncio.Future[None] | None = None

    @property
    def url(self) -> str:
        return f"neuro+ws://{_netloc(self._host, self._port)}"

    @property
    def counters(self) -> Counters:
        """What games said in vain."""
        return self._link.counters

    async def listening(self) -> int:
        """Waits until games can connect; answers the port."""
        await self._listening.wait()
        return self._port

    async def run(self, sink: Sink, resume: Resume | None) -> None:  # noqa: ARG002 - games number nothing, there is nothing to resume
        """As `World.run`: lets games in, one at a time, until `close()`. `resume` is of no use, for games keep nothing.

        Raises:
            WorldRefused: the port cannot be had.
        """
        server = await self._open()
        self._fault = asyncio.get_running_loop().create_future()
        self._out.put(Detached(f"No game yet: waiting for one on ws://{_netloc(self._host, self._port)}."))
        out = asyncio.create_task(self._out.deliver(sink), name="neuro delivery")
        closing = asyncio.create_task(self._closing.wait(), name="neuro close")
        try:
            ends: set[asyncio.Future[Any]] = {out, closing, self._fault}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not out.done():
                server.close(close_connections=False)  # a game that we leave must not find us again
                await self._leave()
                # What was heard is still the sink's, but a sink that hangs does not keep us.
                self._out.end()
                await asyncio.wait({out}, timeout=DRAIN_S)
        finally:
            server.close()
            for task in (out, closing):
                task.cancel()
            await asyncio.gather(out, closing, return_exceptions=True)
            await server.wait_closed()
            if not self._fault.done():
                self._fault.cancel()
        for ended in (self._fault, out):
            if not ended.cancelled() and (exc := ended.exception()) is not None:
                raise exc

    async def close(self) -> None:
        self._closing.set()

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the protocol's own word
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ActResult] = loop.create_future()
        self._waiting[id] = answer
        self._link.act(tag=id, name=name, args=args, timeout_s=timeout_s, now=loop.time())
        self._pump()
        try:
            return await answer
        finally:
            self._waiting.pop(id, None)  # whoever stopped waiting hears of it by `finished`

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """Games keep no record of actions: the answer is always "unknown"."""
        self._link.query(id)
        self._pump()

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """Nothing to do: to a game an action is over once its result is there."""

    # The door

    async def _open(self) -> Server:
        # A page's origin is checked in the handshake; games that are no pages send none.
        origins = None if self._any_page else [None, _LOCAL_PAGE, "file://"]
        try:
            server = await serve(
                self._serve, self._host, self._port, origins=origins,  # type: ignore[arg-type]  # its Origin is a str
                max_size=neuro_wire.MAX_FRAME, compression=None, ping_interval=PING_S, ping_timeout=PONG_S, close_timeout=1.0,
                server_header=None, logger=_quiet,
            )  # fmt: skip
        except OSError as error:
            raise WorldRefused(
                f"Nobody can listen on {_netloc(self._host, self._port)} ({error.strerror or error}): end what uses that port, or name "
                "another one as neuro+ws://127.0.0.1:PORT and give the game the same (most read it from NEURO_SDK_WS_URL).",
            ) from error
        self._port = next(iter(server.sockets)).getsockname()[1]
        self._listening.set()
        return server

    async def _serve(self, ws: ServerConnection) -> None:
        try:
            first: str | bytes | None = None
            if self._connection is not None:
                # A frame says which game it is; one that only listens is told apart by nothing.
                try:
                    async with asyncio.timeout(self._patience.greet_s):
                        first = await ws.recv()
                except TimeoutError:
                    pass
            connection = _Connection(ws)
            async with self._door:
                if not await self._let_in(neuro_wire.read(first).game if first is not None else ""):
                    await ws.close(1013, _reason(f"{self._npc} already plays {self._link.game or 'a game'}"))
                    return
                self._connection = connection
                self._link.connected(secrets.token_hex(8), _now())
            await self._play(connection, first)
        except ConnectionClosed:
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours must end `run`, and not be a line in the library's log
            if self._fault is not None and not self._fault.done():
                self._fault.set_exception(error)

    async def _let_in(self, title: str) -> bool:
        """Makes room for a game that knocks; False if it has to stay outside."""
        if self._closing.is_set() or len(self._out) > MAX_UNTOLD:
            return False
        former = self._connection
        if former is None:
            return True
        if not (title and title == self._link.game) and await former.answers(self._patience.still_there_s):
            return False
        former.hangup = Hangup(1001, "the same game has connected again")
        former.wake.set()
        await former.end(REPLACE_S)
        return True

    async def _play(self, connection: _Connection, first: str | bytes | None) -> None:
        connection.alarm = Alarm(self._ring)
        writer = asyncio.create_task(connection.write(), name="neuro writer")
        why = "The game has closed the link."
        try:
            message = first
            while True:
                if message is not None:
                    self._link.received(message, _now())
                self._pump()
                message = await connection.ws.recv()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006
            why = "The game has closed the link." if code in (1000, 1001, 1005) else f"The link to the game broke (code {code})."
        finally:
            connection.alarm.stop()
            writer.cancel()
            self._connection = None
            self._link.closed("We left the game." if self._closing.is_set() else why, _now())
            self._pump()
            connection.done.set()

    async def _leave(self) -> None:
        """Says goodbye to the game; at most a few seconds."""
        connection = self._connection
        if connection is None:
            return
        self._closing.set()
        self._link.leave(_now())
        self._pump()
        await connection.end(DRAIN_S)

    # The link

    def _ring(self) -> None:
        self._link.tick(_now())
        self._pump()

    def _pump(self) -> None:
        """Carries out what the link wants."""
        connection = self._connection
        for effect in self._link.effects():
            match effect:
                case Send(data=data) if connection is not None:
                    connection.send(data)
                case Hangup() if connection is not None:
                    connection.hangup = effect
                    connection.wake.set()
                case Result(result=result):
                    answer = self._waiting.pop(result.id, None)
                    if answer is not None and not answer.done():
                        answer.set_result(result)
                    else:
                        self._out.put(result)
                case Deliver(items=items):
                    for observation in items:
                        self._out.observe(observation)
                case Attached():
                    _log.info("game attached", game=effect.world)
                    self._out.put(effect)
                case ActionsChanged() | Detached():
                    self._out.put(effect)
        if connection is not None and connection.alarm is not None:
            connection.alarm.set(self._link.deadline)


class _Connection:
    """One game's websocket, and the writing side of it."""

    def __init__(self, ws: ServerConnection) -> None:
        self.ws = ws
        self.alarm: Alarm | None = None
        self.hangup: Hangup | None = None
        self.wake = asyncio.Event()
        self.done = asyncio.Event()
        self._unsent: deque[bytes] = deque()

    def send(self, data: bytes) -> None:
        """Queues one frame; a game that reads nothing is let go of."""
        self._unsent.append(data)
        if len(self._unsent) > MAX_UNSENT:
            self.ws.transport.abort()
        self.wake.set()

    async def answers(self, within_s: float) -> bool:
        """Whether somebody is at the other end."""
        try:
            async with asyncio.timeout(within_s):
                await (await self.ws.ping())
        except (TimeoutError, ConnectionClosed):
            return False
        return True

    async def end(self, within_s: float) -> None:
        """Waits until it is over; whoever does not hang up in time is cut off."""
        try:
            async with asyncio.timeout(within_s):
                await self.done.wait()
        except TimeoutError:
            self.ws.transport.abort()
            await self.done.wait()

    async def write(self) -> None:
        """Sends what is queued, in order, until the connection ends."""
        try:
            while True:
                while self._unsent:
                    await self.ws.send(self._unsent.popleft(), text=True)
                if self.hangup is not None:
                    await self.ws.close(self.hangup.code, self.hangup.reason)
                    return
                self.wake.clear()
                await self.wake.wait()
        except ConnectionClosed:
            return


def _now() -> float:
    return asyncio.get_running_loop().time()


def _reason(text: str) -> str:
    """As much of a text as a close frame holds."""
    return text.encode()[:120].decode(errors="ignore")


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(url: str, *, allow_insecure: bool) -> tuple[str, int]:
    """Host and port to listen on.

    Raises:
        WorldRefused: it is no such address, or others would reach it.
    """
    how = "Name where to listen as neuro+ws://127.0.0.1:PORT (a game of the Neuro API connects to us)."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or DEFAULT_HOST, DEFAULT_PORT if parts.port is None else parts.port
    except ValueError:
        raise WorldRefused(how) from None
    if parts.scheme != "neuro+ws" or parts.username or parts.password or parts.query or parts.path not in {"", "/"}:
        raise WorldRefused(how)
    if not (allow_insecure or is_loopback(host)):
        raise WorldRefused(
            f"Whoever reaches {host}:{port} could play with this NPC, for the Neuro API knows no password: listen on 127.0.0.1, or allow "
            "insecure links explicitly.",
        )
    return host, port
