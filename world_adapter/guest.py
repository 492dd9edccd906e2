"""One connection to a world's half of npc-world v1, sans-I/O: an agent's frames and time in, effects and frames out.

Invariant: frames leave in the order in which they were said, each after the observations that had come before it and after what it rests on
is stored; only signs of life wait for nothing. Nothing that an agent sends raises. No observation and no result makes a frame larger than
the world's own `max_frame`; an agent that asks for more than it reads is let go.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from world_adapter.cleaning import cut
from world_adapter.codec import Codec
from world_adapter.effects import Hangup
from world_adapter.frames import (
    Ack,
    Act,
    ActResult,
    Attach,
    Batch,
    Bye,
    Cancel,
    Close,
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

if TYPE_CHECKING:
    from world_adapter.host import Host

MAX_BATCH = 256  # observations in one frame
MAX_BATCH_CHARS = 262_144  # characters of text in one frame; a larger observation travels alone
SHORTEST = 200  # characters of a text that is cut; if not even that fits, only its number goes
MAX_UNSENT = 10_000  # answers and results for an agent that does not read
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
        # A frame, up to which number observations go before it, and which changes must be stored before it.
        self._out: deque[tuple[int, int, WorldFrame]] = deque()
        self._vital: deque[WorldFrame] = deque()  # signs of life, which wait for nothing
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
            self._live(Pong(n=frame.n))
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
            self._host.hold(self, Stop(self.npc, frame.id))  # never before its beginning

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
                self._live(Ping(n=int(now * 1000) & 0x7FFF_FFFF))
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
        data = self._codec.encode(frame)
        while len(data) > self._host.max_frame and isinstance(frame, Batch) and len(frame.items) > 1:
            frame = Batch(items=tuple(frame.items[: len(frame.items) // 2]))
            self._cursor = frame.items[-1].seq
            data = self._codec.encode(frame)
        return self._cut(frame, data)

    def _cut(self, frame: WorldFrame, data: bytes) -> bytes:
        """The frame's bytes; of a lone text that is too large the middle goes, and the cut is named; of large data for code all of it."""
        limit = self._host.max_frame
        whole = frame.items[0] if isinstance(frame, Batch) else frame
        room = len(whole.text) if isinstance(whole, Observation | ActResult) else 0
        while len(data) > limit and isinstance(whole, Observation | ActResult):
            if whole.data is not None and len(whole.text) < limit // 4:
                whole = replace(whole, data=None)
            else:
                room = int(room * 0.9 * limit / len(data))
                whole = replace(whole, text=cut(whole.text, room) if room > SHORTEST else "", data=None if room <= SHORTEST else whole.data)
            data = self._codec.encode(whole if isinstance(whole, ActResult) else Batch(items=(whole,)))
            if not whole.text:
                break
        return data

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
        if len(self._out) >= MAX_UNSENT:
            self.hang_up(Close.RETRY, "it asks for more than it reads", dead=True)
            return
        self._out.append((newest, self._host.mark, frame))
        self._host.stir(self)

    def want(self, effect: HostEffect) -> None:
        self._effects.append(effect)
        self._host.stir(self)

    def enter(self, welcome: Welcome, *greeting: WorldFrame) -> None:
        """Admitted. The welcome and what goes with it come before the replay; what is said from here on comes after it."""
        self.npc = welcome.npc
        self._cursor = welcome.next_seq - 1
        mark = self._host.mark
        earlier = ((self._cursor, before, frame) for _, before, frame in self._out)
        self._out = deque((*earlier, *((self._cursor, mark, frame) for frame in (welcome, *greeting))))

    def restart(self, rollback: Rollback) -> None:
        """Numbers begin again. What was not sent of the undone past never happened; results of actions did."""
        self._out = deque((0, mark, frame) for _, mark, frame in self._out)
        self._cursor = 0
        self.say(rollback)

    def hang_up(self, code: int, reason: str, *, dead: bool = False) -> None:
        if not self._hung:
            self._hung = True
            self.want(Hangup(code, reason, dead))

    # Inside

    def _live(self, frame: Ping | Pong) -> None:
        if len(self._vital) >= MAX_UNSENT:
            self.hang_up(Close.RETRY, "it asks for more than it reads", dead=True)
            return
        self._vital.append(frame)
        self._host.stir(self)

    def _next_frame(self, now: float) -> WorldFrame | None:
        host = self._host
        if self._vital:
            return self._vital.popleft()
        while self._hung and self._out and not host.safe(self._out[0][1]) and not isinstance(self._out[0][2], Bye):
            self._out.popleft()  # its agent asks again
        if self._out and (self._out[0][0] <= self._cursor or not self.npc or self._hung):
            if self._hung or host.safe(self._out[0][1]):
                return self._out.popleft()[2]
            host.wait(self)
            return None
        if not self.npc or self._hung:
            return None
        limit = min(self._out[0][0] - self._cursor, MAX_BATCH) if self._out else MAX_BATCH
        kept = host.kept(self.npc)
        if kept < host.newest(self.npc):
            host.wait(self)
            limit = max(min(limit, int(kept) - self._cursor), 0)
        chars = min(MAX_BATCH_CHARS, host.max_frame // 2)
        items = host.life(self.npc).replay.after(self._cursor, items=limit, chars=chars)
        if items is None:
            self.hang_up(Close.RETRY, "fell behind the replay window")
            return None
        if not items:
            return None
        if self._cursor == host.acked(self.npc):
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
