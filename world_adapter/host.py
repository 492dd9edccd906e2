"""The world's half of npc-world v1, sans-I/O: frames, game events and time in, effects out. No loop, no clock, no socket.

Invariant: an observation has one number and is sent again until it is acknowledged; an action id is executed at most once, ever, over all
connections; one NPC has at most one guest, the newest. Nothing that an agent sends raises.

`Host` holds what outlives connections; each connection is one `Guest` of it. A guest's frames are pulled by `Guest.next_message`, so a
slow agent costs no memory beyond what is kept for replay anyway. After every call into a host, `Host.awake` names the guests with
something to do.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from world_adapter.codec import Codec
from world_adapter.effects import Hangup
from world_adapter.frames import (
    Ack,
    Act,
    Actions,
    ActionSpec,
    ActProgress,
    ActResult,
    ActState,
    Attach,
    Batch,
    Bye,
    Cancel,
    Close,
    Gate,
    Hello,
    Limits,
    MalformedFrame,
    Observation,
    Ping,
    Pong,
    Query,
    Rollback,
    UnknownOp,
    Welcome,
    WorldFrame,
)
from world_adapter.replay import Replay, resumable

MAX_BATCH = 256  # observations in one frame
MAX_BATCH_CHARS = 262_144  # characters of text in one frame; a larger observation travels alone
KNOWN_ACTS = 100_000  # action ids remembered per NPC, and their results
ATTACH_S = 10.0  # seconds that a connection may take to attach
MALFORMED, MALFORMED_S = 10, 60.0


@dataclass(frozen=True, slots=True)
class Execute:
    """Do this now, once; the end comes back by `Host.finish`."""

    npc: str
    act: Act
    ongoing: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop this action if it still runs; its end comes by `Host.finish` all the same."""

    npc: str
    id: str


@dataclass(frozen=True, slots=True)
class Arrived:
    """An agent attached as `npc`."""

    npc: str
    agent: str
    resumed: bool


@dataclass(frozen=True, slots=True)
class Left:
    """The agent of `npc` is gone, for now or for good."""

    npc: str


HostEffect: TypeAlias = Execute | Stop | Arrived | Left | Hangup


@dataclass(slots=True)
class _Life:
    """One NPC in this world, attached or not."""

    replay: Replay
    session: str
    guest: Guest | None = None
    acts: OrderedDict[str, ActResult | None] = field(default_factory=OrderedDict)  # None: an instant action that still runs
    gates: dict[str, Gate] = field(default_factory=dict)
    actions: Actions | None = None  # where they differ from the world's


class Host:
    """One world. `authorise(npc, token)` decides who may be the mind of whom; `npcs` None takes any id."""

    def __init__(
        self,
        *,
        world: str,
        epoch: str,
        authorise: Callable[[str, str], bool],
        npcs: Collection[str] | None = None,
        actions: Sequence[ActionSpec] = (),
        heartbeat_s: float = 30.0,
        max_frame: int = 1_048_576,
        limits: Limits | None = None,
        keep: int = 10_000,
    ) -> None:
        self.world = world
        self.epoch = epoch
        self.npcs = npcs
        self.time = ""
        self.heartbeat_s = heartbeat_s
        self.max_frame = max_frame
        self._limits = limits or Limits()
        self._authorise = authorise
        self._actions = Actions(version="1", actions=tuple(actions))
        self._keep = keep
        self._lives: dict[str, _Life] = {}
        self._connections = 0
        self._awake: dict[Guest, None] = {}
        Replay(keep=keep)  # refuses a window below the protocol's at once and not with the first NPC

    def guest(self, codec: Codec, token: str, *, now: float) -> Guest:
        """A new connection. Its hello is ready to be pulled."""
        self._connections += 1
        guest = Guest(self, codec, token, now, number=self._connections)
        guest.say(
            Hello(
                world=self.world, epoch=self.epoch, heartbeat_s=self.heartbeat_s, max_frame=self.max_frame, limits=self._limits,
                time=self.time,
            ),
        )
        return guest

    def awake(self) -> list[Guest]:
        """Takes the guests that have effects or messages since the last call."""
        taken = list(self._awake)
        self._awake.clear()
        return taken

    def observe(self, npc: str, **fields: Any) -> int:
        """Tells one NPC one thing, attached or not: the fields of an Observation but `seq`, which is given here and answered."""
        life = self.life(npc)
        seq = life.replay.newest + 1
        life.replay.add(Observation(seq=seq, **fields))
        if life.guest is not None:
            self._awake[life.guest] = None
        return seq

    def finish(self, npc: str, result: ActResult) -> bool:
        """What became of an action, for its agent and for every later question. A final result stands: False if there was one already."""
        life = self.life(npc)
        known = life.acts.get(result.id)
        if known is not None and known.final:
            return False
        life.acts[result.id] = result
        while len(life.acts) > KNOWN_ACTS:
            life.acts.popitem(last=False)
        self._tell(life, result)
        return True

    def progress(self, npc: str, progress: ActProgress) -> None:
        """How far an action is; nobody listening is fine."""
        self._tell(self.life(npc), progress)

    def gate(self, npc: str, gate: Gate) -> None:
        """Sets a gate of one NPC; kept by name and said again at every attach, so that it arrives."""
        life = self.life(npc)
        life.gates[gate.name] = gate
        self._tell(life, gate)

    def set_actions(self, actions: Sequence[ActionSpec], npc: str | None = None) -> None:
        """Replaces the actions of one NPC, or of all that have none of their own."""
        listed = Actions(version=str(int(self._actions.version) + 1), actions=tuple(actions))
        if npc is None:
            self._actions = listed
        else:
            self.life(npc).actions = listed
        for name, life in self._lives.items():
            if name == npc or (npc is None and life.actions is None):
                self._tell(life, listed)

    def rollback(self, epoch: str, since: str) -> None:
        """An older save was loaded: all streams start again under `epoch`. What actions were executed is still known."""
        self.epoch = epoch
        for life in self._lives.values():
            life.replay = Replay(keep=self._keep)
            life.gates.clear()
            if life.guest is not None:
                life.guest.restart(Rollback(epoch=epoch, since=since))

    def farewell(self, guest: Guest, *, retry_after_s: float) -> None:
        """Says goodbye to a guest: it may come again after so many seconds."""
        guest.say(Bye(code=Close.RETRY, reason="going away", retry_after_s=retry_after_s))
        guest.hang_up(Close.RETRY, "going away")

    def attached(self, npc: str) -> bool:
        """Whether an agent is attached as `npc` now."""
        life = self._lives.get(npc)
        return life is not None and life.guest is not None

    def acked(self, npc: str) -> int:
        """Up to which number the agent has everything on its disk."""
        return self.life(npc).replay.acked

    def newest(self, npc: str) -> int:
        """The number given last."""
        return self.life(npc).replay.newest

    # What guests ask of their host

    def life(self, npc: str) -> _Life:
        found = self._lives.get(npc)
        if found is None:
            found = self._lives[npc] = _Life(Replay(keep=self._keep), session=f"{self.epoch}/{npc}")
        return found

    def admit(self, guest: Guest, attach: Attach) -> None:
        """Decides on an attach and answers it."""
        npc = attach.npc
        # The token first: whoever has none learns not even which names exist.
        if not self._authorise(npc, guest.token):
            guest.hang_up(Close.UNAUTHORISED, "not authorised")
            return
        if self.npcs is not None and npc not in self.npcs:
            guest.hang_up(Close.UNKNOWN_NPC, "unknown npc")
            return
        life = self.life(npc)
        former = life.guest
        if former is not None and former.number > guest.number:
            # The attach of a connection whose agent has long come back by another: late, not newer.
            guest.hang_up(Close.REPLACED, "replaced by a newer attach")
            return
        life.guest = guest
        if former is not None and former is not guest:
            former.hang_up(Close.REPLACED, "replaced by a newer attach")
        seq = resumable(attach.resume, world=self.world, epoch=self.epoch)
        next_seq, lost = life.replay.begin(seq)
        welcome = Welcome(npc=npc, session=life.session, resumed=seq is not None, next_seq=next_seq, lost=lost)
        guest.enter(welcome, life.actions or self._actions, *life.gates.values())
        guest.want(Arrived(npc, attach.agent, seq is not None))

    def perform(self, guest: Guest, npc: str, act: Act) -> None:
        """Starts an action unless its id is known; then says what is known of it."""
        life = self.life(npc)
        if act.id in life.acts:
            known = life.acts[act.id]
            if known is not None:
                guest.say(known)
            return
        listed = {spec.name: spec for spec in (life.actions or self._actions).actions}
        spec = listed.get(act.name)
        if spec is None:
            why = f"this world has no action {act.name!r}"
            self.finish(npc, ActResult(id=act.id, state=ActState.FAILED, error_code="unknown_action", error_message=why))
            return
        life.acts[act.id] = None
        if spec.kind == "ongoing":
            self.finish(npc, ActResult(id=act.id, state=ActState.ACCEPTED))
        guest.want(Execute(npc, act, spec.kind == "ongoing"))

    def answer(self, guest: Guest, npc: str, action: str) -> None:
        """What became of an action."""
        acts = self.life(npc).acts
        if action not in acts:
            guest.say(ActResult(id=action, state=ActState.UNKNOWN))
        else:
            guest.say(acts[action] or ActResult(id=action, state=ActState.ACCEPTED))

    def depart(self, guest: Guest, npc: str) -> bool:
        """A guest's connection is gone; False if another had taken its place."""
        life = self.life(npc)
        if life.guest is not guest:
            return False
        life.guest = None
        return True

    def stir(self, guest: Guest) -> None:
        self._awake[guest] = None

    def _tell(self, life: _Life, frame: WorldFrame) -> None:
        if life.guest is not None:
            life.guest.say(frame)


class Guest:
    """One connection to a host. Made by `Host.guest`; the shell calls the five verbs below the constructor."""

    def __init__(self, host: Host, codec: Codec, token: str, now: float, *, number: int) -> None:
        self.npc = ""  # once admitted
        self.number = number  # rises from connection to connection
        self.token = token
        self.malformed = 0
        self._host = host
        self._codec = codec
        self._effects: list[HostEffect] = []
        self._out: deque[tuple[int, WorldFrame]] = deque()  # a frame, and up to which number observations go before it
        self._cursor = 0  # the number sent last
        self._hung = False
        self._attach_by = now + ATTACH_S
        self._heard_at = now
        self._said_at = now
        self._pinged_at = now
        self._acked_at = now
        self._malformed_at: deque[float] = deque()

    # The verbs of the shell

    def received(self, data: bytes, *, now: float) -> None:
        """One websocket message as it came."""
        if self._hung:
            return
        self._heard_at = now
        frame = self._codec.decode_agent(data)
        if isinstance(frame, MalformedFrame):
            self._count_malformed(now)
        elif isinstance(frame, Ping):
            self.say(Pong(n=frame.n))
        elif isinstance(frame, Attach):
            if self.npc in {"", frame.npc}:
                self._host.admit(self, frame)
            else:
                self._count_malformed(now)
        elif isinstance(frame, Pong | UnknownOp):
            return
        elif not self.npc:
            self._count_malformed(now)
        elif isinstance(frame, Ack):
            self._host.life(self.npc).replay.ack(min(frame.seq, self._cursor))
            self._acked_at = now
        elif isinstance(frame, Act):
            self._host.perform(self, self.npc, frame)
        elif isinstance(frame, Query):
            self._host.answer(self, self.npc, frame.id)
        elif isinstance(frame, Cancel):
            self.want(Stop(self.npc, frame.id))

    def tick(self, *, now: float) -> None:
        """Time has passed."""
        if self._hung:
            return
        silence = now - self._heard_at
        if silence >= 2 * self._host.heartbeat_s:
            self.hang_up(Close.GOING_AWAY, f"silent for {silence:.1f} s", dead=True)
        elif not self.npc and now >= self._attach_by:
            self.hang_up(Close.NORMAL, f"no attach within {ATTACH_S:g} s")
        else:
            if now >= self._ping_due():
                self._pinged_at = now
                self.say(Ping(n=int(now * 1000) & 0x7FFF_FFFF))
            if now >= self._resend_due():
                # The last words before a pause have no successor by which their loss could be noticed.
                self._cursor = self._host.acked(self.npc)
                self._acked_at = now
                self._host.stir(self)

    def closed(self) -> None:
        """The connection is gone."""
        self._hung = True
        if self.npc and self._host.depart(self, self.npc):
            self.want(Left(self.npc))

    def next_message(self, *, now: float) -> bytes | None:
        """The next websocket message to send, None when there is nothing to say."""
        frame = self._next_frame(now)
        if frame is None:
            return None
        self._said_at = now
        return self._codec.encode(frame)

    def effects(self) -> list[HostEffect]:
        """Takes what is to be done, in order."""
        taken, self._effects = self._effects, []
        return taken

    @property
    def deadline(self) -> float | None:
        """When `tick` is wanted next."""
        if self._hung:
            return None
        due = min(self._ping_due(), self._heard_at + 2 * self._host.heartbeat_s, self._resend_due())
        return due if self.npc else min(due, self._attach_by)

    # What the host calls

    def say(self, frame: WorldFrame) -> None:
        newest = self._host.newest(self.npc) if self.npc else 0
        self._out.append((newest, frame))
        self._host.stir(self)

    def want(self, effect: HostEffect) -> None:
        self._effects.append(effect)
        self._host.stir(self)

    def enter(self, welcome: Welcome, *greeting: WorldFrame) -> None:
        """Admitted. The welcome and what goes with it come before the replay; what is said from here on comes after it."""
        self.npc = welcome.npc
        self._cursor = welcome.next_seq - 1
        self._out = deque((self._cursor, frame) for frame in (*(frame for _, frame in self._out), welcome, *greeting))

    def restart(self, rollback: Rollback) -> None:
        """Numbers begin again. What was not sent of the undone past never happened; results of actions did."""
        self._out = deque((0, frame) for _, frame in self._out)
        self._cursor = 0
        self.say(rollback)

    def hang_up(self, code: int, reason: str, *, dead: bool = False) -> None:
        if not self._hung:
            self._hung = True
            self.want(Hangup(code, reason, dead))

    # Inside

    def _next_frame(self, now: float) -> WorldFrame | None:
        if self._out and (self._out[0][0] <= self._cursor or not self.npc or self._hung):
            return self._out.popleft()[1]
        if not self.npc or self._hung:
            return None
        limit = min(self._out[0][0] - self._cursor, MAX_BATCH) if self._out else MAX_BATCH
        items = self._host.life(self.npc).replay.after(self._cursor, items=limit, chars=MAX_BATCH_CHARS)
        if items is None:
            self.hang_up(Close.RETRY, "fell behind the replay window")
            return None
        if not items:
            return None
        if self._cursor == self._host.acked(self.npc):
            self._acked_at = now
        self._cursor = items[-1].seq
        return Batch(items=tuple(items))

    def _ping_due(self) -> float:
        return max(min(self._heard_at, self._said_at), self._pinged_at) + self._host.heartbeat_s

    def _resend_due(self) -> float:
        """When what was sent and not acknowledged is sent again: after two heartbeats without any acknowledgement."""
        if not self.npc or self._cursor <= self._host.acked(self.npc):
            return math.inf
        return self._acked_at + 2 * self._host.heartbeat_s

    def _count_malformed(self, now: float) -> None:
        self.malformed += 1
        self._malformed_at.append(now)
        while self._malformed_at[0] <= now - MALFORMED_S:
            self._malformed_at.popleft()
        if len(self._malformed_at) >= MALFORMED:
            self.hang_up(Close.MALFORMED, "malformed frames")
