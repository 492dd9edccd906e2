"""One perpetual session: `receive(event)`, `effects()`, `snapshot()`, `restore()`.

Invariants
    Every request fits the window by our estimate, or holds no more than the smallest observation and leaves the verdict to the provider.
    A request that was rejected for what it holds is never sent again unchanged.
    An answer that names another operation than the one under way is logged and changes nothing.
    Whatever happens, a turn that began ends, and one that is due begins: an answer is owed, or a timer runs, or the world is away.
    Nothing ends a session but rung 6 and a key that is refused at the start.
    `restore(snapshot())` behaves like the original for ever.

Here are the state, the four verbs and who takes which event. What happens then: `waking` (news, timers), `asking` (the request), `fitting`
(the ladder and the reset), `answering` (what came back), `acting` (tools), `resting` (ends of turns), `restarting`, `summaries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import acting, answering, asking, fitting, restarting, resting, snapshot, spending, summaries, waking
from . import effects as fx
from . import events as ev
from .budget import FLOOR, Budget
from .calibration import Calibration
from .layout import Shape
from .messages import Block, Count, Message, total
from .pending import Pending, UnderWay, key_of
from .record import Record
from .repair import joined, without_thinking
from .spending import Absence, Account, Cheaper, Limits, Stage
from .turns import Cause, Owed, State, follow
from .values import Failure, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator decides. Times in seconds, sizes in the provider's tokens."""

    budget: Budget
    shape: Shape
    steps_per_turn: int = 8
    seconds_per_turn: float = 180.0  # of thinking and acting; waiting for a long action or an absent model does not count
    dollars_per_day: float = 5.0
    idle_s: float = 45.0
    idle_max_s: float = 900.0
    gather_s: float = 0.5
    yield_s: float = 120.0  # the longest that the mind stays away while the body acts
    yields: bool = True  # False: a long action counts as a result as soon as it is accepted, and ambient news starts turns meanwhile
    body_s: float = 1_800.0  # a long action whose end was not told by then keeps ambient news waiting no more
    act_s: float = 120.0  # a tool that has said nothing by then has an unknown outcome
    outage_s: float = 2.0
    outage_max_s: float = 60.0
    watch_s: float = 1_800.0  # longer than any request, call or reset takes: whoever owes an answer then is taken to have died
    operator_s: float = 300.0  # between tries while the endpoint wants the operator
    limits: Limits = field(default_factory=Limits)
    cheaper: Cheaper | None = None  # another model while it saves
    slow_s: float = 60.0  # between two calls once only the reserve is left
    absent_s: float = 30.0  # a model that cannot be asked for so long is away, and whoever lives here is told to do without
    summary_tokens: int = 0  # talk waiting for a summary that makes one worth its price; 0: local compaction only
    summary_output: int = 900


class Session:
    """See the module. Not thread-safe, never waits, raises only on faults of its own.

    All attributes but settings, count, `now` and the effects not yet taken are part of a snapshot. Sizes: raw tokens; times: unix seconds.
    """

    def __init__(self, settings: Settings, count: Count) -> None:
        self.settings = settings
        self.count = count
        self.now = 0.0  # of the event that is being taken in
        self._effects: list[fx.Effect] = []
        # where it is
        self.state = State.DETACHED
        self.linked = False
        self.turn = 0
        self.step = 0
        self.op = 0  # the operation under way; an answer to an older one is stale
        self.expects = ""  # whose answer it is that is owed
        # the history
        self.messages: tuple[Message, ...] = ()
        self.record = Record()
        self.record_block: Block | None = None
        self.bare = False  # the history is what a reset left, nothing came since
        self.unsaved = False  # the history has changed since the last checkpoint
        self.warm = 0  # history blocks that the previous request ended with
        self.resets = 0
        # sizes
        self.calibration = Calibration()
        self.fixed_raw = 0  # of the last prepared request: fixed part, and a tail that travels outside the history
        self.tail_raw = 0  # a tail that stands in the history
        self.raw_sent = 0
        self.cap_sent = 0  # output tokens that were asked for
        self.ceiling = 0  # what a whole request may have, as rejected ones taught; 0: nothing was taught
        self.relaxing = 0.0  # by which share the ceiling rises with the next answer; 0: it was taught just now
        self.window_seen = 0  # the provider's own window where it is smaller than the one that was set
        self.output_seen = 0  # the provider's own limit of an answer, where it told one
        self.output_guess = 0  # the same where it did not
        # tools
        self.pending: dict[str, Pending] = {}
        self.tools_op = 0  # the operation of the calls in `pending`
        self.under_way: dict[str, UnderWay] = {}  # calls that were closed before they ended, by operation and id
        self.late: tuple[Block, ...] = ()  # to be told with the next news: how such calls ended, what a turn that failed was told
        # news
        self.stirred = self.stirred_urgent = self.drained = 0
        self.urgent_why = ""  # of the newest urgent one
        self.gather_at = 0.0  # when a timer will start the next turn; 0: none
        self.not_before = 0.0
        self.idle_s = settings.idle_s
        self.resumed = False  # something is unfinished: the next idle wake comes soon
        # this turn
        self.turn_started = 0.0
        self.away_since = 0.0  # since when the body acts without the mind, or a model that is away is waited for
        self.woken_by = ""
        self.turn_had_news = False
        self.boosted = False
        self.denied_steps = 0  # in a row: nothing that was called was run
        self.pauses = 0
        self.remedy = 0  # what was tried against rejections in a row, see `answering`
        self.too_long = 0
        self.refused = 0  # size of the history that was too long
        # many turns
        self.answers = 0  # since the process began
        self.outages = 0
        self.failed_turns = 0  # in a row
        self.broken_off = ""  # what the next turn is told about a last one that did not come to its end
        self.unasked_since = 0.0  # since when the model gave no answer; 0: it does
        self.gone = False  # it is away, and not for a moment
        self.absent = Absence.NONE  # as whoever lives here was told
        # money
        self.account = Account()
        self.stage = Stage.FREE
        self.called_at = 0.0  # when the newest call was answered or paid
        self.turn_dollars = 0.0
        self.meant = False  # this turn is for somebody who addresses it
        self.cheap = False  # it thinks with the cheaper model
        self.switched_at = 0.0
        self.other_learned = (Calibration(), 0, 0, 0, 0)  # of the other model: calibration, ceiling, window, output limit, a guess at it
        # background summary
        self.summary_op = self.summary_through = self.summary_turn = self.summary_failures = 0

    # ------------------------------------------------------------ the four verbs
    def receive(self, event: ev.Event) -> None:
        """Take one event in."""
        if self.state is State.ENDED:
            return
        self.now = event.now
        match event:
            case ev.Stirred():
                waking.stirred(self, event)
            case ev.TimerFired():
                self._timer(event)
            case ev.Attached() | ev.Detached():
                waking.link(self, event)
            case ev.Restarted():
                restarting.restarted(self)
            case ev.SummaryReady() | ev.SummaryFailed():
                summaries.came(self, event)
            case ev.Paid():
                spending.paid(self, event.now, event.dollars)
            case ev.Known():
                self.account = self.account.known(dict(event.hours))
            case ev.ToolStarted() | ev.ToolFinished():
                acting.tool(self, event)
            case ev.Prepared():
                if self._current(event.op, Owed.MATERIALS):
                    asking.prepared(self, event)
            case ev.ModelReturned():
                current = self._current(event.op, Owed.ANSWER)
                spending.returned(self, event.now, event.outcome, current=current)
                if current:
                    answering.returned(self, event)
            case ev.SessionPersisted():
                if self._current(event.op, Owed.STORED):
                    fitting.persisted(self, event)

    def effects(self) -> list[fx.Effect]:
        """What is to be done now, in order; asked once, it is gone."""
        out, self._effects = self._effects, []
        return out

    def snapshot(self) -> dict[str, Any]:
        """The session as plain JSON values. Effects not yet taken are no part of it: take them first."""
        return snapshot.dump(self)

    @classmethod
    def restore(cls, stored: Mapping[str, Any], settings: Settings, count: Count) -> Session:
        """The session of a snapshot.

        Raises:
            ValueError: the snapshot is not one.
        """
        session = cls(settings, count)
        snapshot.load(session, stored)
        return session

    def _timer(self, event: ev.TimerFired) -> None:
        if event.op != self.op:
            return
        match event.tag, self.state:
            case "gather", State.IDLE:
                waking.gathered(self, event.now)
            case "idle", State.IDLE:
                waking.idle(self, event.now)
            case "tools", State.ACTING:
                acting.overdue(self, event.now)
            case "yield", State.YIELDED:
                waking.wake_mind(self, event.now, "deadline")
            case "retry", State.WAITING:
                resting.try_again(self, event.now)
            case "watch", State.THINKING | State.RESETTING:
                self._overdue(event.now)

    def _overdue(self, now: float) -> None:
        """Nobody answered, for longer than any answer takes: go on as if the worst had happened."""
        self.log("overdue", what=self.expects)
        step_s = self.settings.limits.seconds_per_step
        if step_s is None or self.expects != Owed.ANSWER:
            self.emit(fx.Page(text=f"nobody answered for {self.settings.watch_s:.0f} s ({self.expects}); going on without"))
        if self.expects == Owed.MATERIALS:
            self.ask("again", drain=True)
        elif self.expects == Owed.ANSWER:
            message = f"no answer within {step_s:g} s" if step_s else "the call never came back"
            failure = Failure(fault=Fault.TRANSIENT, message=message)
            answering.returned(self, ev.ModelReturned(now=now, op=self.op, outcome=failure))
        else:
            fitting.persisted(self, ev.SessionPersisted(now=now, op=self.op, how="nobody knows"))

    def _current(self, op: int, what: Owed) -> bool:
        if op == self.op and self.expects == what and self.state in (State.THINKING, State.RESETTING):
            return True
        self.log("stale", what=str(what), op=op, current=self.op, state=str(self.state))
        return False

    # ------------------------------------------------------------ what can be read
    @property
    def waiting_calls(self) -> tuple[str, ...]:
        """Ids of the calls that still owe a result."""
        return tuple(k for k, p in self.pending.items() if p.result is None)

    def owes(self, call: str, op: int) -> bool:
        """Whether a result of this call, made in this operation, is still waited for, by the turn or by later news."""
        return (op == self.tools_op and call in self.waiting_calls) or key_of(op, call) in self.under_way

    @property
    def tokens(self) -> int:
        """Raw tokens of the history."""
        return total(self.messages) + (self.record_block.tokens if self.record_block else 0)

    @property
    def shape(self) -> Shape:
        """How the model is asked that it thinks with now."""
        return self.settings.cheaper.shape if self.cheap and self.settings.cheaper else self.settings.shape

    @property
    def dollars(self) -> float:
        """What today has cost, as of the last event."""
        return self.account.day(self.now).dollars

    @property
    def budget(self) -> Budget:
        """The operator's budget, in the provider's window where that is smaller."""
        return self.settings.budget.within(self.window_seen)

    @property
    def floor(self) -> int:
        """What the history is never denied."""
        return FLOOR + self.tail_raw

    # ------------------------------------------------------------ what the modules beside this one do to it
    def emit(self, effect: fx.Effect) -> None:
        """One more effect."""
        self._effects.append(effect)

    def log(self, kind: str, **data: Any) -> None:
        """One line for the event log."""
        self.emit(fx.Log(kind=kind, data={"turn": self.turn, "step": self.step, **data}))

    def move(self, cause: Cause) -> None:
        """To the next state, by the table."""
        self.state = follow(self.state, cause)

    def next_op(self) -> int:
        """A new operation: from now on answers to all older ones are stale, and their timers void."""
        self.op += 1
        self.gather_at = 0.0
        return self.op

    def ask(self, reason: str, *, drain: bool, away_s: float = 0.0) -> None:
        """Have the next request prepared."""
        away_s = round(max(0.0, away_s), 3)
        self.emit(fx.Prepare(op=self.next_op(), turn=self.turn, step=self.step, reason=reason, drain=drain, away_s=away_s))
        self.expect(Owed.MATERIALS)

    def expect(self, what: Owed) -> None:
        """Someone outside owes an answer to the operation that has just begun, and not for ever."""
        self.expects = str(what)
        step_s = self.settings.limits.seconds_per_step if what is Owed.ANSWER else None
        self.timer_at("watch", self.now + min(self.settings.watch_s, step_s or self.settings.watch_s))

    def timer_at(self, tag: str, at: float) -> None:
        """A timer that is void as soon as another operation begins."""
        self.emit(fx.SetTimer(tag=tag, op=self.op, at=at))

    def checkpoint(self) -> None:
        """Have a snapshot stored."""
        self.unsaved = False
        self.emit(fx.Checkpoint())

    def append(self, message: Message) -> None:
        """One more message; everything before it stays the same bytes."""
        self.messages = joined(self.messages, message, self.count)
        self.bare = False
        self.unsaved = True

    def edit(self, messages: tuple[Message, ...], record: Record | None = None, block: Block | None = None) -> None:
        """Another history: the cached prefix is gone, and so is thinking that was bound to it. Without a record the old one stays."""
        self.messages = without_thinking(messages)
        if record is not None:
            self.record, self.record_block = record, block
            if not record.turns:
                self.summary_op = 0  # what was asked about is gone
        self.warm = 0
        self.unsaved = True
