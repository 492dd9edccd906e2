"""A world that NPCs attach to: the server half of npc-world v1 for a game author, over websockets.

A whole world, in which NPCs hear what is said and may answer:

    import asyncio
    from world_adapter.server import ActFailed, Request, WorldServer
    from world_adapter.frames import ActionSpec, Speaker

    SAY = ActionSpec(name="say", description="Say something aloud.",
                     schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})

    async def on_act(request: Request) -> str:
        if request.name != "say" or not request.args.get("text"):
            raise ActFailed("say what?", code="bad_args")
        print(f"{request.npc}: {request.args['text']}")
        return "Everyone heard you."

    async def main() -> None:
        async with WorldServer("harbour", on_act=on_act, actions=[SAY]) as server:
            await server.listen("127.0.0.1", 8765)
            while True:
                line = await asyncio.to_thread(input)
                server.observe("mira", line, kind="speech", speaker=Speaker(id="p1", name="You", kind="player"), to="mira")

    asyncio.run(main())

Invariant: `observe` never blocks and never fails because of an agent: each observation is kept until the NPC's agent has it on its disk
(at least the newest 1,000), whatever happens to the connection. An action id runs at most once. All methods are to be called on the loop
that `listen` was called on. What the two sides say to each other is in SPEC.md.

With `store=SqliteStore("harbour.db")` that holds over the death of this process too: see `keeping`. A number that `observe` answered is
told to the agent once it is stored (`until_stored` waits for it); where the game dies before, nobody has heard it, and the number is given
again. Actions that were under way when it died are given to `on_interrupted`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import ssl as tls
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from world_adapter.alarm import Alarm
from world_adapter.codec import CODECS, Codec
from world_adapter.effects import Hangup
from world_adapter.errors import WorldError
from world_adapter.frames import DEFAULT_PRIO, ActionSpec, ActProgress, ActResult, ActState, Gate, Limits, Speaker
from world_adapter.host import Arrived, Execute, Guest, Host, Left, Stop
from world_adapter.keeping import WorldStore

_log = logging.getLogger(__name__)  # the standard library's, so that a game needs nothing of ours but the wire
_quiet = logging.getLogger("world_adapter.websockets")  # what strangers do to our port is no news, and no traceback on anyone's terminal
_quiet.addHandler(logging.NullHandler())

CLOSE_STORE_S = 5.0  # seconds that a store may take when the world ends
STORE_AGAIN_S, STORE_AGAIN_MAX_S = 0.05, 5.0

Token: TypeAlias = str | Mapping[str, str] | None
OnAct: TypeAlias = "Callable[[Request], Awaitable[str | ActResult | None]]"


class ActFailed(WorldError):  # noqa: N818 - reads as what happened, as in the rest of the house
    """Raised by an action's handler: the action was refused or came to nothing. The message is told to the NPC, `code` to its code."""

    def __init__(self, message: str, *, code: str = "failed") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One action that an NPC asks for. The handler returns its outcome as text (or an ActResult, or nothing), or raises ActFailed.

    A handler of an ongoing action runs as long as the action does; if the NPC cancels it, the handler is cancelled.
    """

    npc: str
    id: str
    name: str
    args: Mapping[str, Any]
    progress: Callable[[str, float | None], None]  # (text, fraction 0 to 1 or None): tells the NPC how far it is


class WorldServer:
    """One world, many NPCs.

    Args:
        world: its id, stable over restarts.
        on_act: does what an NPC asks for; called once per action id, each call in a task of its own.
        actions: what every NPC can do; `set_actions` changes it.
        npcs: the ids that may attach; None takes any.
        token: what agents must bear: one for all, one per NPC, or None for a world that trusts its network.
        on_attach: called with the NPC's id when an agent has attached, and when it came back.
        on_detach: called with the NPC's id when its agent is gone.
        epoch: names this run of the world's time; by default the stored one, or a new one where there is no store, since numbers do not
            survive the process then. Another one than the stored begins all numbers anew; what actions were executed is still known.
        heartbeat_s: seconds of silence after which either side pings; twice that is death.
        max_frame: bytes that an agent may send in one frame.
        limits: what one NPC may do, told to its agent.
        keep: how many unacknowledged observations are kept for each NPC; 1,000 at least.
        subprotocols: the codecs to offer, in order of preference; both by default.
        clock: unix seconds for observations that bring no time of their own.
        store: where it is kept what must survive this process; the server closes it. None: with this process all is over.
        on_interrupted: as `on_act`, called once for each action that an earlier process had begun and not ended, when `listen` is called:
            it goes on with a walk, or looks up whether the sale was made. By default such an action has failed, and its agent is told that
            it may have happened all the same.

    Raises:
        WorldStoreError: what is stored cannot be used.
    """

    def __init__(
        self,
        world: str,
        *,
        on_act: OnAct,
        actions: Sequence[ActionSpec] = (),
        npcs: Collection[str] | None = None,
        token: Token = None,
        on_attach: Callable[[str], None] | None = None,
        on_detach: Callable[[str], None] | None = None,
        epoch: str | None = None,
        heartbeat_s: float = 30.0,
        max_frame: int = 1_048_576,
        limits: Limits | None = None,
        keep: int = 10_000,
        subprotocols: Sequence[str] = tuple(CODECS),
        clock: Callable[[], float] = time.time,
        store: WorldStore | None = None,
        on_interrupted: OnAct | None = None,
    ) -> None:
        self._on_act = on_act
        self._on_interrupted = on_interrupted or _interrupted
        self._on_attach = on_attach
        self._on_detach = on_detach
        self._token = token
        self._subprotocols = [CODECS[name] for name in subprotocols]
        self._clock = clock
        self._store = store
        kept = store.load(world) if store is not None else None
        self._host = Host(
            world=world, epoch=epoch or (kept.epoch if kept is not None else secrets.token_hex(6)), authorise=self._authorised, npcs=npcs,
            actions=actions, heartbeat_s=heartbeat_s, max_frame=max_frame, limits=limits, keep=keep, stored=store is not None, kept=kept,
        )
        self._listened = False
        self._keeper: asyncio.Task[None] | None = None
        self._to_keep = asyncio.Event()
        self._servers: list[Server] = []
        self._connections: dict[Guest, _Connection] = {}
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def listen(self, host: str = "127.0.0.1", port: int = 0, *, ssl: tls.SSLContext | None = None) -> int:
        """Opens the door; answers the port, which the system picks if `port` is 0.

        Raises:
            OSError: the address cannot be had.
        """
        server = await serve(
            self._serve, host, port, ssl=ssl, subprotocols=[codec.subprotocol for codec in self._subprotocols],  # type: ignore[misc]
            max_size=self._host.max_frame, compression=None, ping_interval=None, close_timeout=1.0, server_header=None,
            logger=_quiet,
        )
        self._servers.append(server)
        if self._store is not None and self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(self._store), name="world store")
        interrupted = [] if self._listened else self._host.unfinished()
        self._listened = True
        for effect in interrupted:
            self._start(effect, self._on_interrupted)
        found: int = next(iter(server.sockets)).getsockname()[1]
        return found

    async def close(self, *, retry_after_s: float = 1.0) -> None:
        """Says goodbye to all agents (they may come again after so many seconds), stops running actions, closes the door. Idempotent.

        What is not stored by then is waited for, a few seconds at most.
        """
        for guest in list(self._connections):
            self._host.farewell(guest, retry_after_s=retry_after_s)
        self._pump()
        handlers = [connection.done for connection in self._connections.values()]
        if handlers:
            await asyncio.wait(handlers, timeout=3.0)
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
            await server.wait_closed()
        store, self._store = self._store, None
        if store is not None:
            await self._last_kept()
            await store.close()

    async def _last_kept(self) -> None:
        """What has changed until now is stored, unless the store does not take it."""
        if self._keeper is None:
            return
        try:
            async with asyncio.timeout(CLOSE_STORE_S):
                await self._until(lambda: self._host.safe(self._host.mark))
        except TimeoutError:
            _log.error("the world ends with changes that its store has not taken")
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)

    # What the game tells

    def observe(
        self,
        npc: str,
        text: str,
        *,
        kind: str = "notice",
        data: Mapping[str, Any] | None = None,
        key: str | None = None,
        prio: int = DEFAULT_PRIO,
        speaker: Speaker | None = None,
        to: str | None = None,
        own: bool = False,
        wt: str | None = None,
        t: float | None = None,
    ) -> int:
        """Tells one NPC one thing, whether its agent is attached or not. Fields as in `frames.Observation`; answers its number."""
        seq = self._host.observe(
            npc, t=self._clock() if t is None else t, kind=kind, text=text, wt=wt, data=data, key=key, prio=prio, speaker=speaker, to=to,
            own=own,
        )
        self._pump()
        return seq

    def set_actions(self, actions: Sequence[ActionSpec], *, npc: str | None = None) -> None:
        """Replaces the actions of one NPC, or of all that have none of their own."""
        self._host.set_actions(actions, npc)
        self._pump()

    def gate(self, npc: str, name: str, value: Any, *, why: str = "") -> None:
        """Sets a gate field of one NPC's state, from the game's own rules. Said again at every attach, so that it arrives."""
        self._host.gate(npc, Gate(name=name, value=value, why=why))
        self._pump()

    def finish(self, npc: str, result: ActResult) -> bool:
        """Ends an action from outside its handler. A final result stands: False if there was one already."""
        ended = self._host.finish(npc, result)
        self._pump()
        return ended

    def rollback(self, *, since: str, epoch: str | None = None) -> str:
        """An older save was loaded: what happened after world time `since` is undone. Answers the new epoch."""
        self._host.rollback(epoch or secrets.token_hex(6), since)
        self._pump()
        return self._host.epoch

    def set_time(self, world_time: str) -> None:
        """The world's own time, told to agents when they attach."""
        self._host.time = world_time

    # What the game may ask

    @property
    def epoch(self) -> str:
        """The name of this run of the world's time."""
        return self._host.epoch

    def attached(self, npc: str) -> bool:
        """Whether an agent is attached as `npc` now."""
        return self._host.attached(npc)

    def acked(self, npc: str) -> int:
        """Up to which number the NPC's agent has everything on its disk."""
        return self._host.acked(npc)

    async def until_attached(self, npc: str) -> None:
        """Waits for an agent to attach as `npc`."""
        await self._until(lambda: self._host.attached(npc))

    async def until_acked(self, npc: str, seq: int | None = None) -> None:
        """Waits until the agent has everything up to `seq` on its disk; by default, all that was told so far."""
        wanted = self._host.newest(npc) if seq is None else seq
        await self._until(lambda: self._host.acked(npc) >= wanted)

    async def until_stored(self, npc: str, seq: int | None = None) -> None:
        """Waits until what was told up to `seq` would survive the death of this process; by default, all that was told so far."""
        wanted = self._host.newest(npc) if seq is None else seq
        await self._until(lambda: self._host.kept(npc) >= wanted)

    # Inside

    async def _keep(self, store: WorldStore) -> None:
        """Stores what has changed, as often as there is something; what gathers meanwhile goes together."""
        while True:
            changes = self._host.changes()
            if changes is None:
                self._to_keep.clear()
                await self._to_keep.wait()
                continue
            wait = STORE_AGAIN_S
            while True:
                try:
                    await store.keep(changes)
                    break
                except Exception:  # noqa: BLE001 - see the next line
                    # The store may be the game author's: whatever it raises, nothing is lost as long as this process lives.
                    _log.exception("what must survive the world cannot be stored; agents are told nothing until it can")
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, STORE_AGAIN_MAX_S)
            self._host.stored(changes)
            self._pump()
            self._changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _authorised(self, npc: str, token: str) -> bool:
        wanted = self._token.get(npc) if isinstance(self._token, Mapping) else self._token
        if wanted is None:
            return not isinstance(self._token, Mapping)
        return hmac.compare_digest(wanted.encode(), token.encode())

    async def _serve(self, ws: ServerConnection) -> None:
        codec = CODECS[str(ws.subprotocol)]
        scheme, _, token = (ws.request.headers.get("Authorization", "") if ws.request else "").partition(" ")
        loop = asyncio.get_running_loop()
        guest = self._host.guest(codec, token.strip() if scheme.lower() == "bearer" else "", now=loop.time())
        connection = _Connection(ws, guest, codec, pump=self._pump, ring=lambda: self._tick(guest))
        self._connections[guest] = connection
        writer = loop.create_task(connection.write())
        self._pump()
        try:
            while True:
                guest.received(await ws.recv(decode=False), now=loop.time())
                connection.alarm.set(guest.deadline)
                self._pump()
                self._changed.set()
        except ConnectionClosed:
            pass  # how it ended is the agent's business: it resumes, or it does not
        finally:
            connection.alarm.stop()
            writer.cancel()
            guest.closed()
            self._pump()
            del self._connections[guest]
            connection.done.set_result(None)
            self._changed.set()

    def _tick(self, guest: Guest) -> None:
        connection = self._connections.get(guest)
        if connection is not None:
            guest.tick(now=asyncio.get_running_loop().time())
            connection.alarm.set(guest.deadline)
            self._pump()

    def _pump(self) -> None:
        """Carries out what the host wants; a callback of the game's may make it want more."""
        while awake := self._host.awake():
            for guest in awake:
                connection = self._connections.get(guest)
                for effect in guest.effects():
                    match effect:
                        case Execute():
                            self._start(effect)
                        case Stop():
                            self._stop(effect)
                        case Arrived():
                            _log.info("npc attached: %s by %s%s", effect.npc, effect.agent, ", resumed" if effect.resumed else "")
                            self._changed.set()
                            self._tell_game(self._on_attach, effect.npc)
                        case Left():
                            _log.info("npc detached: %s", effect.npc)
                            self._tell_game(self._on_detach, effect.npc)
                        case Hangup() if connection is not None:
                            connection.hangup = effect
                            if effect.dead:
                                connection.ws.transport.abort()  # the writer may be stuck in a full buffer
                if connection is not None:
                    connection.wake.set()
                    connection.alarm.set(guest.deadline)
        self._to_keep.set()

    def _tell_game(self, callback: Callable[[str], None] | None, npc: str) -> None:
        if callback is None:
            return
        try:
            callback(npc)
        except Exception:  # noqa: BLE001 - see the next line
            # It is the game author's: whatever it raises, the agents that are told of next wait for their turn.
            _log.exception("a callback failed, about %s", npc)

    def _start(self, effect: Execute, handler: OnAct | None = None) -> None:
        key = (effect.npc, effect.act.id)
        task = asyncio.get_running_loop().create_task(self._perform(effect, handler or self._on_act))
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))

    def _stop(self, effect: Stop) -> None:
        task = self._running.get((effect.npc, effect.id))
        if task is not None:
            task.cancel()

    async def _perform(self, effect: Execute, handler: OnAct) -> None:
        npc, act = effect.npc, effect.act

        def progress(text: str, fraction: float | None = None) -> None:
            self._host.progress(npc, ActProgress(id=act.id, text=text, fraction=fraction))
            self._pump()

        try:
            outcome = await handler(Request(npc=npc, id=act.id, name=act.name, args=act.args, progress=progress))
        except asyncio.CancelledError:
            self.finish(npc, ActResult(id=act.id, state=ActState.CANCELLED, text="cancelled"))
            raise
        except ActFailed as failure:
            result = ActResult(id=act.id, state=ActState.FAILED, text=str(failure), error_code=failure.code, error_message=str(failure))
        except Exception:  # noqa: BLE001 - see the next line
            # The handler is the game author's: whatever it raises, the world goes on, the author sees the trace, the NPC an honest end.
            _log.exception("an action's handler failed: %s of %s, id %s", act.name, npc, act.id)
            result = ActResult(id=act.id, state=ActState.FAILED, error_code="internal", error_message="the world failed to do this")
        else:
            match outcome:
                case ActResult():
                    result = replace(outcome, id=act.id)
                case _:
                    result = ActResult(id=act.id, state=ActState.DONE, text=outcome or "")
        self.finish(npc, result)


async def _interrupted(request: Request) -> str:
    """What has become of an action that the death of an earlier process broke off, if the game does not know it."""
    raise ActFailed(f"The world stopped while this was being done ({request.name}); it may have happened all the same.", code="interrupted")


class _Connection:
    """The writing side of one connection."""

    def __init__(
        self, ws: ServerConnection, guest: Guest, codec: Codec, *, pump: Callable[[], None], ring: Callable[[], None],
    ) -> None:
        self.ws = ws
        self.guest = guest
        self.codec = codec
        self.pump = pump
        self.alarm = Alarm(ring)
        self.wake = asyncio.Event()
        self.done = asyncio.get_running_loop().create_future()
        self.hangup: Hangup | None = None

    async def write(self) -> None:
        """Sends what the guest has to say, as fast as its agent reads, until the connection ends."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while (message := self.guest.next_message(now=loop.time())) is not None:
                    await self.ws.send(message, text=self.codec.text)
                self.pump()
                if self.hangup is not None:
                    await self.ws.close(self.hangup.code, self.hangup.reason)
                    return
                await self.wake.wait()
                self.wake.clear()
        except ConnectionClosed:
            return
        except Exception:  # noqa: BLE001 - see the next line
            # A value of the game's that no codec takes: an agent that hears nothing more for ever would be worse than one that comes back.
            _log.exception("what %s was to be told cannot be sent", self.guest.npc or "somebody")
            self.ws.transport.abort()
