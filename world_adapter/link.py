"""The agent's half of npc-world v1, sans-I/O: frames and time in, effects out. No loop, no clock, no socket.

Invariant: per (world, epoch) every observation leaves as `Deliver` once and in order, over any number of connections; nothing is
acknowledged before `stored` said that it is on disk; an action is sent at most once, and what became of it after a lost connection is
asked, never tried again. Nothing that a world sends raises.

The verbs of the shell:

    opened(codec, now)            a connection stands
    received(data, now)           a websocket message came (or `heard(frame, size, now)`, where it was decoded elsewhere)
    stored(seq, epoch, now)       everything delivered up to seq is durable
    act, cancel, query            what the NPC wants
    tick(now)                     `deadline` has passed
    closed(code, reason)          the connection is gone; answers whether to try again
    effects()                     what to do now, in order; to be called after each of the above

`now` is seconds on any clock that never goes back. One pass through a connection: hello, attach, welcome, then everything else.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from world_adapter import cleaning
from world_adapter.closing import Refused, Retry, verdict
from world_adapter.codec import Codec
from world_adapter.effects import ActionsChanged, Aside, Attached, Deliver, Detached, Effect, Hangup, Result, Send
from world_adapter.frames import (
    Ack,
    Act,
    Actions,
    ActProgress,
    ActResult,
    ActState,
    AgentFrame,
    Attach,
    Batch,
    Bye,
    Cancel,
    Close,
    Decoded,
    Gate,
    Hello,
    MalformedFrame,
    Observation,
    Ping,
    Pong,
    Query,
    Resume,
    Rollback,
    UnknownOp,
    Welcome,
)
from world_adapter.runs import Run
from world_adapter.sequence import Sequence as Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the link waits, and how much it holds.

    Attributes:
        greeting_s: seconds for the hello, and again for the welcome.
        gap_s: seconds that a missing number may stay away before a replay is asked for, by a new attach.
        gap_tries: how many replays may fail to bring a number before it is given up.
        stale_s: seconds for which a world may send nothing but what it told before, until it is asked anew where its numbers are.
        malformed: this many malformed frames within `malformed_s` seconds close the link.
        unstored: observations that may wait for the disk; what comes beyond is dropped and replayed later, so that reading never stops.
        unstored_chars: the same, in characters of text.
        outstanding: actions whose end is not known; the oldest is forgotten beyond.
    """

    greeting_s: float = 10.0
    gap_s: float = 2.0
    gap_tries: int = 3
    stale_s: float = 5.0
    malformed: int = 10
    malformed_s: float = 60.0
    unstored: int = 100_000
    unstored_chars: int = 33_554_432
    outstanding: int = 1_000


@dataclass(slots=True)
class Counters:
    """What went over this link since it was made; `duplicates` and `lost` are observations, the others frames."""

    delivered: int = 0
    duplicates: int = 0
    lost: int = 0
    deferred: int = 0
    malformed: int = 0
    unknown_ops: int = 0
    attaches: int = 0


@dataclass(slots=True)
class _Connection:
    """What is true of one connection only."""

    codec: Codec
    hello: Hello | None = None
    welcome: Welcome | None = None
    bye: Bye | None = None
    hung: str = ""  # why we hung up, once we did
    resumed_at: int = 0  # the number that our attach spoke of
    by: float | None = None  # when the greeting must have come
    heard_at: float = 0.0
    said_at: float = 0.0
    pinged_at: float = 0.0
    early: list[Decoded] = field(default_factory=list)  # what came between hello and welcome
    malformed: deque[float] = field(default_factory=deque)
    fills_gap: bool = False  # it was opened for a replay, which may bring what waits already
    told: bool = False  # something new
    stale_by: float | None = None  # when old numbers alone will have come for too long


_MAX_EARLY_FRAMES = 1_000
_MAX_FINISHED = 4_096
#: The longest that a world which repeats itself is left alone, in seconds.
LONGEST_STALE_S = 3_600.0


class AgentLink:
    """One NPC's link to one world, over as many connections as it takes. See the module's docstring for the verbs."""

    def __init__(self, *, npc: str, agent: str, resume: Resume | None = None, patience: Patience | None = None) -> None:
        if not npc or cleaning.ident(npc) != npc:
            raise ValueError(f"an NPC's id is one line of at most {cleaning.MAX_ID} plain characters")
        self.npc = npc
        self.agent = agent
        self.counters = Counters()
        self._patience = patience or Patience()
        self._effects: list[Effect] = []
        self._connection: _Connection | None = None
        self._resume: Resume | None = None
        self._world = ""
        self._epoch = ""
        self._stream = Stream()
        self._stream_counted = (0, 0)
        self._unstored: deque[tuple[str, int, int, int]] = deque()  # epoch, last seq, observations, characters
        self._unstored_items = 0
        self._unstored_chars = 0
        self._deferred = False  # something was dropped because too much waits for the disk
        self._gap_by: float | None = None
        self._stale_s = self._patience.stale_s
        self._gap_at = 0  # the number that was missing when a replay was last asked for
        self._gap_tries = 0
        self._outstanding: OrderedDict[str, int] = OrderedDict()  # action id: bytes sent and not answered on this connection
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._learned_max: int | None = None  # bytes; from a close with 1009

        if resume is not None:
            self.resume_from(resume)

    def resume_from(self, resume: Resume) -> None:
        """Goes on where an earlier life stopped. To be said before the first connection."""
        self._resume = resume
        self._begin_stream(resume.world, resume.epoch, Stream(next_seq=resume.seq + 1, fresh=False))

    # What the shell asks

    @property
    def attached(self) -> bool:
        c = self._connection
        return c is not None and c.welcome is not None and not c.hung

    @property
    def unstored(self) -> int:
        """Observations that were delivered and wait for the disk."""
        return self._unstored_items

    @property
    def resume(self) -> Resume | None:
        """Where a new life would go on: what `stored` has confirmed."""
        return self._resume

    @property
    def deadline(self) -> float | None:
        """When `tick` is wanted next, None while nothing can become due."""
        c = self._connection
        if c is None or c.hung:
            return None
        due = [moment for moment in (c.by, self._gap_by, c.stale_by) if moment is not None]
        if c.hello is not None:
            due += [self._ping_due(c, c.hello), c.heard_at + 2 * c.hello.heartbeat_s]
        return min(due)

    def effects(self) -> list[Effect]:
        """Takes what is to be done, in order."""
        taken, self._effects = self._effects, []
        return taken

    # The connection

    def opened(self, codec: Codec, *, now: float) -> None:
        """A new connection stands, speaking `codec`."""
        self._connection = _Connection(
            codec=codec, by=now + self._patience.greeting_s, heard_at=now, said_at=now, pinged_at=now, fills_gap=self._gap_tries > 0,
        )

    def received(self, data: bytes, *, now: float) -> None:
        """One websocket message as it came."""
        c = self._connection
        if c is not None:
            self.heard(c.codec.decode_world(data), now=now)

    def heard(self, frame: Decoded, *, now: float) -> None:
        """One decoded message."""
        c = self._connection
        if c is None or c.hung:
            return
        c.heard_at = now
        if isinstance(frame, Batch) and c.welcome is not None:
            self._observed(c, frame, now)
        elif isinstance(frame, MalformedFrame):
            self._malformed(c, now)
        elif isinstance(frame, UnknownOp):
            self.counters.unknown_ops += 1
        elif isinstance(frame, Ping):
            self._send(c, Pong(n=frame.n), now)
        elif isinstance(frame, Bye):
            c.bye = frame
        elif isinstance(frame, Hello):
            self._hello(c, frame, now)
        elif isinstance(frame, Welcome):
            self._welcome(c, frame, now)
        elif c.welcome is None:
            # A world that talks before it has welcomed us: kept in order, within reason.
            if c.hello is not None and len(c.early) < _MAX_EARLY_FRAMES:
                c.early.append(frame)
        elif isinstance(frame, Actions):
            self._effects.append(ActionsChanged(frame.actions))
        elif isinstance(frame, ActResult):
            self._result(frame)
        elif isinstance(frame, Rollback):
            self._rollback(frame)
        elif isinstance(frame, Gate | ActProgress):
            self._effects.append(Aside(frame))

    def tick(self, *, now: float) -> None:
        """Time has passed."""
        c = self._connection
        if c is None or c.hung:
            return
        if c.by is not None and now >= c.by:
            missing = "hello" if c.hello is None else "welcome"
            self._hang_up(c, Close.NORMAL, f"the world sent no {missing} within {self._patience.greeting_s:g} s")
            return
        if c.hello is not None:
            silence = now - c.heard_at
            if silence >= 2 * c.hello.heartbeat_s:
                self._hang_up(c, Close.GOING_AWAY, f"the world was silent for {silence:.1f} s", dead=True)
                return
            if now >= self._ping_due(c, c.hello):
                c.pinged_at = now
                self._send(c, Ping(n=int(now * 1000) & 0x7FFF_FFFF), now)
        if self._gap_by is not None and now >= self._gap_by:
            self._ask_for_replay(c)
        elif c.stale_by is not None and now >= c.stale_by:
            self._resync(c)

    def leave(self) -> None:
        """We are going: acknowledgements that were given still leave, then the connection is closed."""
        c = self._connection
        if c is not None and not c.hung:
            self._hang_up(c, Close.NORMAL, "closed from here")

    def closed(self, *, code: int, reason: str, ours: bool = False) -> Retry | Refused:
        """The connection is gone: is it worth another?

        Args:
            code: the websocket close code, 1006 where there was none.
            reason: the peer's words.
            ours: whether our side closed for a fault of the peer's (a message over our receive limit, a broken frame).
        """
        c, self._connection = self._connection, None
        self._gap_by = None
        if c is None:
            return Retry("the connection was never open")
        largest = max(self._outstanding.values(), default=0)
        self._outstanding = OrderedDict.fromkeys(self._outstanding, 0)
        end: Retry | Refused
        if c.hung:
            end = Retry(c.hung)
        elif ours:
            end = Retry(f"the world sent what we cannot take (closed with {code})")
        else:
            welcomed = c.welcome is not None
            end = verdict(npc=self.npc, code=code, reason=cleaning.name(reason, 200), bye=c.bye, welcomed=welcomed)
            if code == Close.TOO_BIG and largest:
                # It did not say what its limit is; what was too large once is refused here from now on.
                self._learned_max = max(min(self._learned_max or largest, largest) - 1, 1_024)
        if c.welcome is not None:
            self._effects.append(Detached(end.why if isinstance(end, Retry) else end.sentence))
        return end

    def pass_over(self) -> int | None:
        """The next observation came in a message that no limit of ours can hold: it is given up, so that what follows can be heard.

        Answers its number; None while something before it is not stored, for then a resume would bring it again.
        """
        if self._unstored or not self._epoch:
            return None
        seq = self._stream.next
        self._stream.pass_over()
        self._count_stream()
        self._keep(seq)
        return seq

    def stored(self, seq: int, epoch: str, *, now: float) -> None:
        """Everything delivered of `epoch` up to `seq` is durable."""
        while self._unstored and self._unstored[0][0] == epoch and self._unstored[0][1] <= seq:
            _, _, items, chars = self._unstored.popleft()
            self._unstored_items -= items
            self._unstored_chars -= chars
        if epoch != self._epoch:
            return  # of a past that the world has left: an ack carries no epoch, so it would be taken for the new one's
        self._keep(seq)
        c = self._connection
        if c is None or c.welcome is None or c.hung:
            return
        self._acknowledge(c, now)
        if self._deferred and not self._unstored:
            self._deferred = False
            self._hang_up(c, Close.NORMAL, "caught up with the disk; asking for what came meanwhile")

    # Actions

    def act(self, *, id: str, name: str, args: Mapping[str, Any], now: float) -> ActResult | None:  # noqa: A002 - the protocol's word
        """Asks for an action. None if it is on its way, else why it was not sent (state failed)."""
        c = self._connection
        if c is None or c.welcome is None or c.hello is None or c.hung:
            return _not_sent(id, "not_attached", "the link to the world is down")
        if cleaning.ident(id) != id or not id:
            return _not_sent(id, "bad_id", "the action's id is not one that can travel")
        if id in self._outstanding or id in self._finished:
            return _not_sent(id, "duplicate_id", "an action of this id was asked for before")
        data = c.codec.encode(Act(id=id, name=name, args=args))
        limit = c.hello.max_frame if self._learned_max is None else min(c.hello.max_frame, self._learned_max)
        if len(data) > limit:
            return _not_sent(id, "too_large", f"the action is {len(data)} bytes, the world takes at most {limit}")
        self._expect(id, len(data))
        c.said_at = now
        self._effects.append(Send(data))
        return None

    def query(self, id: str, *, now: float) -> None:  # noqa: A002 - the protocol's word
        """Asks what became of an action, now or at the next attach."""
        self._finished.pop(id, None)
        self._expect(id, 0)
        if self._connection is not None and self.attached:
            self._send(self._connection, Query(id=id), now)

    def cancel(self, id: str, *, now: float) -> None:  # noqa: A002 - the protocol's word
        """Asks to stop an ongoing action; nothing while the link is down."""
        if self._connection is not None and self.attached:
            self._send(self._connection, Cancel(id=id), now)

    # Inside

    def _hello(self, c: _Connection, hello: Hello, now: float) -> None:
        if c.hello is not None:
            return
        c.hello = hello
        c.by = now + self._patience.greeting_s
        if (hello.world, hello.epoch) != (self._world, self._epoch):
            if hello.world != self._world:
                self._resume = None  # another world's numbers say nothing here
            self._begin_stream(hello.world, hello.epoch)
        c.resumed_at = self._resume.seq if self._resume is not None and self._resume.epoch == self._epoch else 0
        self._send(c, Attach(npc=self.npc, agent=self.agent, resume=self._resume), now)

    def _welcome(self, c: _Connection, welcome: Welcome, now: float) -> None:
        if c.hello is None or c.welcome is not None:
            return
        c.welcome = welcome
        c.by = None
        self.counters.attaches += 1
        if self._resume is not None and self._resume.epoch == self._epoch:
            self._resume = Resume(session=welcome.session, epoch=self._epoch, seq=self._resume.seq, world=self._world)
        ready: Sequence[Observation] = ()
        given_up = 0
        if self._stream.gap and self._gap_tries > self._patience.gap_tries and self._gap_at == self._stream.next:
            before = self._stream.lost
            ready = self._stream.skip()
            given_up = self._stream.lost - before
        self._stream.begin(welcome.next_seq)
        self._deferred = False
        self._effects.append(
            Attached(
                npc=welcome.npc, world=self._world, epoch=self._epoch, session=welcome.session, resumed=welcome.resumed,
                lost=welcome.lost + given_up, limits=c.hello.limits,
            ),
        )
        if self._resume is not None and self._resume.seq > c.resumed_at:
            self._acknowledge(c, now)  # became durable between the attach and now
        self._deliver(ready)
        if self._stream.gap:
            self._gap_by = now + self._patience.gap_s
        for action in self._outstanding:
            self._send(c, Query(id=action), now)
        early, c.early = c.early, []
        for frame in early:
            self.heard(frame, now=now)

    def _observed(self, c: _Connection, batch: Batch, now: float) -> None:
        if batch.malformed:
            self._malformed(c, now)
            if c.hung:
                return
        if not batch.items:
            return
        if self._unstored_items >= self._patience.unstored or self._unstored_chars >= self._patience.unstored_chars:
            self._deferred = True
            self.counters.deferred += len(batch.items)
            return
        stream = self._stream
        before = stream.duplicates
        ready = stream.take(batch.items)
        self._deliver(ready)
        if stream.duplicates > before and not c.told:
            self._acknowledge(c, now)  # sent again at the beginning: an acknowledgement may have been lost on the way
        self._staleness(c, now, told=len(ready), again=stream.duplicates - before)
        if stream.gap:
            if self._gap_by is None:
                self._gap_by = now + self._patience.gap_s
            if stream.full:
                self._ask_for_replay(c)
        else:
            self._gap_by = None
            self._gap_tries = 0

    def _staleness(self, c: _Connection, now: float, *, told: int, again: int) -> None:
        """Old numbers after new ones: whatever said that they begin anew may be lost. If nothing new follows, a new greeting will tell."""
        if told:
            c.told, c.stale_by = True, None
        elif again and c.told and not c.fills_gap and c.stale_by is None:
            c.stale_by = now + self._stale_s

    def _resync(self, c: _Connection) -> None:
        """There are worlds that repeat themselves out of habit: each time it was in vain the next is longer in coming."""
        self._stale_s = min(LONGEST_STALE_S, 4 * self._stale_s)
        self._hang_up(c, Close.NORMAL, "nothing but observations of old numbers; asking anew where they are")

    def _acknowledge(self, c: _Connection, now: float) -> None:
        if self._resume is not None and self._resume.epoch == self._epoch:
            self._send(c, Ack(seq=self._resume.seq), now)

    def _deliver(self, items: Sequence[Observation]) -> None:
        self._count_stream()
        if not items:
            return
        chars = items.words.chars if isinstance(items, Run) else sum(len(item.text) for item in items)
        self._unstored.append((self._epoch, items[-1].seq, len(items), chars))
        self._unstored_items += len(items)
        self._unstored_chars += chars
        self.counters.delivered += len(items)
        self._effects.append(Deliver(items, self._world, self._epoch))

    def _ask_for_replay(self, c: _Connection) -> None:
        """A number stays away. The protocol's way to ask for it is to attach again and resume from what is stored."""
        missing = self._stream.next
        self._gap_tries = self._gap_tries + 1 if self._gap_at == missing else 1
        self._gap_at = missing
        self._hang_up(c, Close.NORMAL, f"observation {missing} is missing; asking for a replay")

    def _rollback(self, frame: Rollback) -> None:
        if frame.epoch == self._epoch:
            return
        self._begin_stream(self._world, frame.epoch)
        self._effects.append(Aside(frame))

    def _begin_stream(self, world: str, epoch: str, stream: Stream | None = None) -> None:
        self._count_stream()
        self._world, self._epoch = world, epoch
        self._stream = stream or Stream()
        self._stream_counted = (0, 0)
        self._gap_by = None
        self._gap_tries = 0
        self._stale_s = self._patience.stale_s

    def _count_stream(self) -> None:
        duplicates, lost = self._stream.duplicates, self._stream.lost
        self.counters.duplicates += duplicates - self._stream_counted[0]
        self.counters.lost += lost - self._stream_counted[1]
        self._stream_counted = (duplicates, lost)

    def _keep(self, seq: int) -> None:
        old = self._resume
        if old is not None and old.epoch == self._epoch and old.seq >= seq:
            return
        c = self._connection
        session = c.welcome.session if c is not None and c.welcome is not None else old.session if old is not None else ""
        self._resume = Resume(session=session, epoch=self._epoch, seq=seq, world=self._world)

    def _result(self, result: ActResult) -> None:
        if result.id in self._finished:
            return
        if result.final:
            self._outstanding.pop(result.id, None)
            self._finished[result.id] = None
            if len(self._finished) > _MAX_FINISHED:
                self._finished.popitem(last=False)
        elif result.id in self._outstanding:
            self._outstanding[result.id] = 0
        self._effects.append(Result(result))

    def _expect(self, action: str, size: int) -> None:
        self._outstanding[action] = size
        if len(self._outstanding) > self._patience.outstanding:
            self._outstanding.popitem(last=False)

    def _malformed(self, c: _Connection, now: float) -> None:
        self.counters.malformed += 1
        c.malformed.append(now)
        while c.malformed[0] <= now - self._patience.malformed_s:
            c.malformed.popleft()
        if len(c.malformed) >= self._patience.malformed:
            self._hang_up(c, Close.MALFORMED, f"{len(c.malformed)} malformed frames within {self._patience.malformed_s:g} s")

    def _ping_due(self, c: _Connection, hello: Hello) -> float:
        # After a heartbeat in which we said nothing (so that the world knows us alive) or heard nothing (so that it says something).
        return max(min(c.heard_at, c.said_at), c.pinged_at) + hello.heartbeat_s

    def _send(self, c: _Connection, frame: AgentFrame, now: float) -> None:
        c.said_at = now
        self._effects.append(Send(c.codec.encode(frame)))

    def _hang_up(self, c: _Connection, code: int, why: str, *, dead: bool = False) -> None:
        c.hung = why
        self._gap_by = None
        self._effects.append(Hangup(code, why[:120], dead))


def _not_sent(action: str, code: str, why: str) -> ActResult:
    return ActResult(id=action, state=ActState.FAILED, error_code=code, error_message=why)
