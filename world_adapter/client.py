"""The agent's shell around `link`: one NPC attached to an npc-world v1 server over websockets, for as long as it lives.

Invariant: reading never waits for the sink, so a slow disk never makes the link look dead; an observation is acknowledged only after
`Sink.observed` returned; what the link decides is carried out in order and nothing is added. A token is a header of the handshake and
stands in no URL, log line or error.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl as tls
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    NegotiationError,
    WebSocketException,
)

from world_adapter import cleaning
from world_adapter.addresses import is_loopback
from world_adapter.alarm import Alarm
from world_adapter.closing import Refused, Retry, backoff
from world_adapter.codec import CODECS, LARGE, Codec
from world_adapter.effects import ActionsChanged, Aside, Attached, Deliver, Detached, Hangup, Result, Send
from world_adapter.errors import WorldRefused, WorldUnreachable
from world_adapter.frames import ActProgress, ActResult, ActState, Batch, Close, Gate, MalformedFrame, Observation, Resume, Rollback
from world_adapter.link import AgentLink, Counters, Patience
from world_adapter.runs import Run
from world_adapter.world import Sink

_log = structlog.get_logger(__name__)
_quiet = logging.getLogger("world_adapter.websockets")
_quiet.addHandler(logging.NullHandler())

AGENT = "perpetual-npc/0.1"
OPEN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 1.0
FIRST_RECEIVE_LIMIT = 4_194_304  # bytes of one message; raised when a world proves to need more
LAST_RECEIVE_LIMIT = 16_777_216  # bytes; an observation that does not fit into this is given up
BACKOFF_BASE_S = 0.2
BACKOFF_CAP_S = 15.0
BACKOFF_CAP_LOOPBACK_S = 0.5  # nobody is hurt by asking one's own machine twice a second
STEADY_S = 5.0  # an attachment that lasted this long begins the back-off anew
MAX_DELIVERY = 4_096  # observations in one call of the sink; one message more may go with them
MAX_FLIGHTS = 4  # such calls that may wait for the disk at a time
MAX_BACKLOG = 16_384  # observations that wait for the sink, from which on reading waits for it too
STUCK_S = 1.0  # a sink that has taken nothing for so long is not waited for
GATHERED = 512  # observations of small messages that are heard as one
REST_AFTER_S = 0.005
MAX_OUTGOING = 10_000  # messages that may wait for a world that does not read

Event: TypeAlias = Attached | Detached | Deliver | ActionsChanged | Result | Aside


class WebsocketWorld:
    """`World` over ws:// or wss://.

    Args:
        url: ws://host:port/path or wss://…; user, password and query are refused, for they end up in logs.
        npc: the NPC's id in the world.
        token: sent as `Authorization: Bearer`; None for a world on loopback that asks for none.
        subprotocols: the codecs to offer, in order of preference; give one to force it.
        allow_insecure: let ws:// leave this machine, where everyone on the way can read and change it.
        attach_within_s: give up with WorldUnreachable if no attach succeeded within so many seconds of `run`; None tries for ever. Once
            attached, it tries for ever in any case.
        agent: name/version told to the world.
        ssl: for wss://; the system's default trust otherwise.
        on_aside: called with what a world says besides observations and results, in order with them.
        patience: limits of the link.

    Raises:
        WorldRefused: the URL cannot be used as it is.
    """

    def __init__(
        self,
        url: str,
        *,
        npc: str,
        token: str | None = None,
        subprotocols: Sequence[str] = tuple(CODECS),
        allow_insecure: bool = False,
        attach_within_s: float | None = 10.0,
        agent: str = AGENT,
        ssl: tls.SSLContext | None = None,
        on_aside: Callable[[Gate | Rollback | ActProgress], None] | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.url, loopback = _checked(url, allow_insecure=allow_insecure)
        self._agent = agent
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._subprotocols = [CODECS[name].subprotocol for name in subprotocols]
        self._loopback = loopback
        self._attach_within_s = attach_within_s
        self._ssl = ssl if ssl is not None or not url.startswith("wss:") else tls.create_default_context()
        self._on_aside = on_aside
        self._link = AgentLink(npc=npc, agent=agent, patience=patience)
        self._ws: ClientConnection | None = None
        self._alarm: Alarm | None = None
        self._outgoing: deque[bytes | Hangup] = deque()
        self._outgoing_ready = asyncio.Event()
        self._events: deque[Event] = deque()
        self._events_ready = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[ActResult]] = {}
        self._closing = asyncio.Event()
        self._receive_limit = FIRST_RECEIVE_LIMIT
        self._attached_at: float | None = None
        self._progress = asyncio.Event()  # the sink has taken something
        self._stuck = False  # it has not, for long

    @property
    def counters(self) -> Counters:
        """What went over the link so far."""
        return self._link.counters

    @property
    def resume(self) -> Resume | None:
        """Where a new life would go on; None before anything was stored."""
        return self._link.resume

    # World

    async def run(self, sink: Sink, resume: Resume | None) -> None:
        """See `World.run`.

        Raises:
            WorldRefused: final; the sentence says what would help.
            WorldUnreachable: no attach within `attach_within_s`.
        """
        if resume is not None:
            self._link.resume_from(resume)
        self._alarm = Alarm(self._ring)
        link = asyncio.create_task(self._stay_attached(), name="world link")
        feed = asyncio.create_task(self._feed(sink), name="world to sink")
        try:
            await asyncio.wait([link, feed], return_when=asyncio.FIRST_COMPLETED)
            if feed.done():
                # Closed from here (or the sink failed): acknowledgements that were earned still go out, then goodbye.
                self._closing.set()
                self._link.leave()
                self._pump()
                await asyncio.wait([link], timeout=2 * CLOSE_TIMEOUT_S)
        finally:
            link.cancel()
            feed.cancel()
            ends = await asyncio.gather(link, feed, return_exceptions=True)
            self._alarm.stop()
            self._abandon()
            self._last_words(sink)
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, asyncio.CancelledError):
                raise end

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the protocol's word
        """See `World.act`."""
        refused = self._link.act(id=id, name=name, args=args, now=_now())
        if refused is not None:
            return refused
        answer: asyncio.Future[ActResult] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        self._pump()
        try:
            await asyncio.wait([answer], timeout=timeout_s)
        finally:
            self._waiting.pop(id, None)
        if answer.done():
            return answer.result()
        self._link.query(id, now=_now())  # the end may have been told into a dying connection; it comes by Sink.finished
        self._pump()
        return ActResult(
            id=id, state=ActState.UNKNOWN, error_code="timeout", error_message=f"the world did not answer within {timeout_s:g} s",
        )

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's word
        """See `World.query`."""
        self._link.query(id, now=_now())
        self._pump()

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's word
        """See `World.cancel`."""
        self._link.cancel(id, now=_now())
        self._pump()

    async def close(self) -> None:
        """See `World.close`."""
        self._closing.set()
        self._events_ready.set()

    # The connection

    async def _stay_attached(self) -> None:
        """Connects, again and again, until closed; raises when trying again cannot help."""
        give_up_at = None if self._attach_within_s is None else _now() + self._attach_within_s
        attempt = -1
        while True:
            self._attached_at = None
            timeout = OPEN_TIMEOUT_S if give_up_at is None else min(OPEN_TIMEOUT_S, max(give_up_at - _now(), 0.1))
            verdict = await self._connection(timeout)
            if self._closing.is_set():
                return
            now = _now()
            if isinstance(verdict, Refused):
                raise WorldRefused(verdict.sentence, code=verdict.code)
            if self._link.counters.attaches:
                give_up_at = None
            attempt = 0 if self._steady(now) else attempt + 1
            cap = BACKOFF_CAP_LOOPBACK_S if self._loopback else BACKOFF_CAP_S
            delay = max(backoff(attempt, random.random(), base_s=BACKOFF_BASE_S, cap_s=cap), verdict.after_s)
            if give_up_at is not None and now + delay > give_up_at:
                raise WorldUnreachable(f"No world answered at {self.url} within {self._attach_within_s:g} s: {verdict.why}.")
            _log.info("world retry", url=self.url, why=verdict.why, in_s=round(delay, 2), attempt=attempt)
            await asyncio.sleep(delay)

    def _steady(self, now: float) -> bool:
        return self._attached_at is not None and now - self._attached_at >= STEADY_S

    async def _connection(self, open_timeout: float) -> Retry | Refused:
        """One connection from handshake to close."""
        try:
            ws = await _Connect(
                self.url, subprotocols=self._subprotocols, additional_headers=self._headers, compression=None,  # type: ignore[arg-type]
                open_timeout=open_timeout, close_timeout=CLOSE_TIMEOUT_S, ping_interval=None, max_size=self._receive_limit,
                max_queue=(1_024, 256), user_agent_header=self._agent, logger=_quiet, proxy=None if self._loopback else True, ssl=self._ssl,
            )
        except (OSError, WebSocketException) as error:
            return _handshake_verdict(error)
        codec = CODECS.get(ws.subprotocol or "")
        if codec is None:
            await ws.close()
            return Refused(f"The server at {self.url} does not speak npc-world v1: it chose none of {', '.join(self._subprotocols)}.", 0)
        self._ws = ws
        self._outgoing.clear()
        self._link.opened(codec, now=_now())
        self._pump()
        writer = asyncio.create_task(self._write(ws, codec), name="world writer")
        try:
            await self._read(ws, codec)
        except ConnectionClosed as closed:
            return self._closed(closed)
        except asyncio.CancelledError:
            self._link.closed(code=Close.NORMAL, reason="closed from here")
            self._pump()
            raise
        finally:
            self._ws = None
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await _leave(ws)

    async def _read(self, ws: ClientConnection, codec: Codec) -> NoReturn:
        """Reads until the connection ends, which is a ConnectionClosed."""
        loop = asyncio.get_running_loop()
        runs: list[Run] = []  # small frames that were there already: the link and the sink hear them as one

        def hear() -> None:
            if runs:
                gathered = Run.joined(runs)
                runs.clear()
                self._link.heard(Batch(items=gathered), now=loop.time())
                self._pump()

        rested_at = loop.time()
        size = 0
        try:
            while True:
                # While messages are queued `recv` does not suspend: without a rest a flood would keep everyone else from the loop.
                if loop.time() - rested_at > REST_AFTER_S:
                    await asyncio.sleep(0)
                    rested_at = loop.time()
                data = await ws.recv(decode=False)
                # The cleaning of a large frame takes longer than others should wait for the loop.
                frame = codec.decode_world(data) if len(data) <= LARGE else await asyncio.to_thread(codec.decode_world, data)
                if isinstance(frame, Batch) and isinstance(frame.items, Run):
                    if not runs:
                        loop.call_soon(hear)  # as soon as there is nothing more to read
                        size = 0
                    runs.append(frame.items)
                    size += len(frame.items)
                    if size < GATHERED:
                        continue
                hear()
                if not (isinstance(frame, Batch) and isinstance(frame.items, Run)):
                    if isinstance(frame, MalformedFrame):
                        _log.warning("malformed frame dropped", url=self.url, reason=frame.reason, bytes=frame.size)
                    self._link.heard(frame, now=loop.time())
                    self._pump()
                if self._link.unstored >= MAX_BACKLOG:
                    await self._ease()
                    rested_at = loop.time()
        finally:
            hear()

    async def _ease(self) -> None:
        """A disk that is slower than the world slows the reading down. One that takes nothing at all does not: reading never stops."""
        if self._stuck:
            return
        try:
            async with asyncio.timeout(STUCK_S):
                while self._link.unstored >= MAX_BACKLOG:
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            self._stuck = True

    async def _write(self, ws: ClientConnection, codec: Codec) -> None:
        try:
            while True:
                while self._outgoing:
                    message = self._outgoing.popleft()
                    if isinstance(message, Hangup):
                        await ws.close(message.code, message.reason)
                        return
                    await ws.send(message, text=codec.text)
                self._outgoing_ready.clear()
                await self._outgoing_ready.wait()
        except ConnectionClosed:
            return  # the reader tells

    def _closed(self, closed: ConnectionClosed) -> Retry | Refused:
        sent, rcvd = closed.sent, closed.rcvd
        ours = sent is not None and (rcvd is None or closed.rcvd_then_sent is False)
        close = sent if ours else rcvd
        if ours and sent is not None and sent.code == 1009:
            self._oversize_message()
        verdict = self._link.closed(code=close.code if close else 1006, reason=close.reason if close else "", ours=ours)
        self._pump()
        return verdict

    def _oversize_message(self) -> None:
        """A message over our receive limit. The same limit would end the next connection just so."""
        if self._receive_limit < LAST_RECEIVE_LIMIT:
            self._receive_limit = min(self._receive_limit * 4, LAST_RECEIVE_LIMIT)
            _log.warning("receive limit raised", url=self.url, bytes=self._receive_limit)
        else:
            seq = self._link.pass_over()
            _log.error("message too large to receive", url=self.url, limit=self._receive_limit, given_up=seq)

    def _ring(self) -> None:
        self._link.tick(now=_now())
        self._pump()

    def _pump(self) -> None:
        """Carries out what the link wants: to the socket, to who waits, to the sink."""
        for effect in self._link.effects():
            match effect:
                case Send():
                    self._outgoing.append(effect.data)
                    self._outgoing_ready.set()
                    if len(self._outgoing) > MAX_OUTGOING and self._ws is not None:
                        self._ws.transport.abort()  # a world that talks and never reads
                case Hangup(dead=True):
                    if self._ws is not None:
                        self._ws.transport.abort()
                case Hangup():
                    self._outgoing.append(effect)
                    self._outgoing_ready.set()
                case Result() if effect.result.id in self._waiting:
                    self._waiting.pop(effect.result.id).set_result(effect.result)
                case Result() if not effect.result.final:
                    pass  # accepted, but nobody waits any more: the end will tell
                case _:
                    if isinstance(effect, Attached):
                        self._attached_at = _now()
                    self._events.append(effect)
                    self._events_ready.set()
        if self._alarm is not None:
            self._alarm.set(self._link.deadline)

    # The sink

    async def _feed(self, sink: Sink) -> None:
        """Hands everything to the sink, in order, until closed.

        What follows an observation is handed on while that is still on its way to the disk: a line need not wait for the fsync of the lines
        before it. Acknowledged is in order all the same, and only what is stored.
        """
        flights: deque[asyncio.Task[None]] = deque()
        try:
            while not self._closing.is_set():
                while self._events and not self._closing.is_set():
                    if len(flights) >= MAX_FLIGHTS:
                        await flights.popleft()
                    event = self._events.popleft()
                    if isinstance(event, Deliver):
                        before = flights[-1] if flights else None
                        flight = asyncio.create_task(self._deliver(sink, self._with_followers(event), event, before), name="to the sink")
                        flight.add_done_callback(self._landed)
                        flights.append(flight)
                        await asyncio.sleep(0)  # it has begun, and with that has its place
                    else:
                        self._tell(sink, event)
                while flights and flights[0].done():
                    await flights.popleft()
                if not self._closing.is_set() and not self._events:
                    self._events_ready.clear()
                    await self._events_ready.wait()
            while flights:
                await flights.popleft()
        finally:
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    async def _deliver(self, sink: Sink, items: Sequence[Observation], what: Deliver, before: asyncio.Task[None] | None) -> None:
        await sink.observed(items, world=what.world, epoch=what.epoch)
        if before is not None and not before.done():
            await asyncio.wait([before])
        if before is not None and (before.cancelled() or before.exception() is not None):
            return  # what comes after a failure is not acknowledged: it is told again
        self._link.stored(items[-1].seq, what.epoch, now=_now())
        self._stuck = False
        self._progress.set()
        self._pump()

    def _landed(self, _: asyncio.Task[None]) -> None:
        self._events_ready.set()

    def _with_followers(self, first: Deliver) -> Sequence[Observation]:
        """What has gathered behind a delivery and can go with it: the slower the sink, the larger the batches."""
        if not self._events or not isinstance(self._events[0], Deliver):
            return first.items
        several, count = [first.items], len(first.items)
        while self._events and count < MAX_DELIVERY:
            following = self._events[0]
            if not isinstance(following, Deliver) or (following.world, following.epoch) != (first.world, first.epoch):
                break
            several.append(following.items)
            count += len(following.items)
            self._events.popleft()
        return Run.joined([items if isinstance(items, Run) else Run.of(items) for items in several])

    def _tell(self, sink: Sink, event: Event) -> None:
        match event:
            case Attached():
                _log.info("world attached", url=self.url, npc=event.npc, world=event.world, epoch=event.epoch, lost=event.lost)
                sink.attached(
                    npc=event.npc, world=event.world, epoch=event.epoch, session=event.session, resumed=event.resumed, lost=event.lost,
                    limits=event.limits,
                )
            case Detached():
                _log.warning("world detached", url=self.url, why=event.why)
                sink.detached(why=event.why)
            case ActionsChanged():
                sink.actions_changed(event.actions)
            case Result():
                sink.finished(event.result)
            case Aside() if self._on_aside is not None:
                self._on_aside(event.frame)

    def _abandon(self) -> None:
        """Whoever still waits for a result learns that none will come here."""
        waiting, self._waiting = self._waiting, {}
        for action, answer in waiting.items():
            if not answer.done():
                answer.set_result(
                    ActResult(id=action, state=ActState.UNKNOWN, error_code="link_lost", error_message="the link to the world has ended"),
                )

    def _last_words(self, sink: Sink) -> None:
        """Observations that the sink has not taken come again after the next attach; what else is waiting is told."""
        for event in self._events:
            if isinstance(event, Detached | Result):
                self._tell(sink, event)
        self._events.clear()


class _Connect(connect):
    """A redirect would carry the token to an address that nobody named: it is an answer like any other refusal."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _leave(ws: ClientConnection) -> None:
    """Closes politely if the peer still listens; never waits for long."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await ws.close()
    except TimeoutError:
        ws.transport.abort()


def _checked(url: str, *, allow_insecure: bool) -> tuple[str, bool]:
    """The URL as it will be used and shown, and whether it stays on this machine.

    Raises:
        WorldRefused: it cannot be used as it is.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise WorldRefused("This is no address of a world: write ws://HOST:PORT or wss://HOST:PORT.") from None
    if parts.scheme not in {"ws", "wss"} or not host:
        raise WorldRefused("This is no address of a world: write ws://HOST:PORT or wss://HOST:PORT.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise WorldRefused(
            f"The address {parts.scheme}://{host} must hold no user, password, query or fragment: "
            "a token belongs in the environment or in a file.",
        )
    loopback = is_loopback(host)
    if parts.scheme == "ws" and not loopback and not allow_insecure:
        raise WorldRefused(f"ws://{host} would send the token and every word in the clear: use wss://, or allow plain ws:// explicitly.")
    return url, loopback


def _handshake_verdict(error: Exception) -> Retry | Refused:
    """Why no connection came about. Refused is what no second try can change."""
    match error:
        case InvalidStatus():
            status = error.response.status_code
            if status in {408, 425, 429} or status >= 500:
                after = _retry_after(error.response.headers.get("Retry-After"))
                return Retry(f"the server answered the handshake with HTTP {status}", after)
            if status in {401, 403}:
                return Refused(f"The server refused the handshake with HTTP {status}: check the token.", status)
            return Refused(f"The server answered the handshake with HTTP {status}: there is no world at this address.", status)
        case NegotiationError():
            return Refused("The server does not speak npc-world v1: it chose a subprotocol that was not offered.", 0)
        case InvalidMessage() if isinstance(error.__cause__, EOFError | OSError):
            return Retry("the server hung up during the handshake")
        case InvalidHandshake() | InvalidURI():
            return Refused(f"The server does not speak websockets as it should ({type(error).__name__}).", 0)
        case tls.SSLCertVerificationError():
            return Refused(f"The server's certificate is not trusted: {cleaning.name(error.verify_message, 120)}.", 0)
        case TimeoutError():
            return Retry(f"no answer within {OPEN_TIMEOUT_S:g} s")
        case OSError():
            return Retry(cleaning.name(error.strerror or str(error), 160) or "no connection")
        case _:
            return Retry(type(error).__name__)


def _retry_after(value: str | None) -> float:
    return min(float(value), 600.0) if value is not None and value.isdecimal() and len(value) < 6 else 0.0
