"""What may be spent by turn, hour and day, how near to it a session is, and what follows for its next call.

Invariants: what was paid is counted once, in the hour in which it was told, whatever becomes of the answer; a stage follows from the
account, the limits and the clock, so that no clock that jumps holds one longer than the window it is measured in; a limit stops the next
call and never a turn half-way.

A step is a call of the mind itself, a call any call (summaries and other small ones too). One that never got through costs nothing and
counts nowhere. Hours and days are those of UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from . import effects as fx
from .layout import Shape
from .repair import without_thinking
from .spent import Spent
from .values import Answer, Outcome

if TYPE_CHECKING:
    from .session import Session

HOUR_S = 3_600.0
DAY_S = 86_400.0
#: Hours that an account remembers: more than a day's, so that a clock that was set wrong and right again has lost nothing.
HOURS = 72
#: A session that saves goes on until this much less than the soft share is spent: limits that are edited must not make it flicker.
HYSTERESIS = 0.1
#: A model that was switched to is kept for so long at least, in seconds: each switch pays for a whole cache anew.
MODEL_KEPT_S = 600.0
#: A session looks again at the latest after so many seconds, since clocks may be set forward.
LOOK_S = 1_800.0
SMALLEST_OUTPUT = 64


class Stage(StrEnum):
    """How near the limits a session is."""

    FREE = "free"
    SAVING = "saving"  # beyond the soft share of an hour or a day: wakes more rarely, answers shorter
    REFLEXES = "reflexes"  # an hour or a day is spent but for the reserve, which is kept for who addresses it


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an operator may set beside the caps that every session has (None: no limit).

    Attributes:
        seconds_per_step: how long one answer may take; then the model is taken to be away.
        output_per_step: tokens of one answer.
        dollars_per_turn: with the step that crosses it the turn ends.
        steps_per_hour, calls_per_hour, dollars_per_hour: of an hour by the clock.
        steps_per_day: of a day.
        soft_share: of an hour or a day; beyond it the session saves.
        reserve_share: the last part of an hour or a day, kept for those who address it.
        saving_gather_s: how long a session that saves gathers ambient news.
        saving_output: the share of its usual output tokens that it asks for.
    """

    seconds_per_step: float | None = None
    output_per_step: int | None = None
    dollars_per_turn: float | None = None
    steps_per_hour: int | None = None
    calls_per_hour: int | None = None
    dollars_per_hour: float | None = None
    steps_per_day: int | None = None
    soft_share: float = 0.8
    reserve_share: float = 0.05
    saving_gather_s: float = 10.0
    saving_output: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheaper:
    """Another model for a session that saves: how it is asked, and what one answer of it may have (None: no limit of its own)."""

    shape: Shape
    output_per_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What was spent, by hour since 1970, the newest entry last."""

    hours: Mapping[int, Spent] = field(default_factory=dict)

    def paid(self, now: float, spent: Spent) -> Account:
        """More was spent."""
        number = int(now // HOUR_S)
        hours = {n: s for n, s in self.hours.items() if n != number}
        hours[number] = self.hours.get(number, Spent()).plus(spent)
        return Account(hours=dict([*hours.items()][-HOURS:]))

    def seen(self, now: float) -> Account:
        """The account at this time. What was paid by a clock that has been set back since counts for today, once, and for no later hour."""
        number, today = int(now // HOUR_S), int(now // DAY_S) * 24
        ahead = [n for n in self.hours if n > number]
        if not ahead:
            return self
        moved = total(self.hours[n] for n in ahead)
        rest = {n: s for n, s in self.hours.items() if n <= number}
        return Account(hours={**rest, today: rest.get(today, Spent()).plus(moved)})

    def known(self, hours: Mapping[int, Spent]) -> Account:
        """Somebody else kept the same account: of each hour the greater figures are true, for payments are told, then stored."""
        both = {**self.hours, **{n: s.at_least(self.hours.get(n, Spent())) for n, s in hours.items()}}
        return Account(hours=dict(sorted(both.items())[-HOURS:]))

    def hour(self, now: float) -> Spent:
        """The hour of this time."""
        return self.hours.get(int(now // HOUR_S), Spent())

    def day(self, now: float) -> Spent:
        """The day of this time."""
        first = int(now // DAY_S) * 24
        return total(spent for n in range(first, first + 24) if (spent := self.hours.get(n)))


def total(several: Iterable[Spent]) -> Spent:
    """All of them together."""
    steps, calls, dollars = 0, 0, 0.0
    for spent in several:
        steps, calls, dollars = steps + spent.steps, calls + spent.calls, dollars + spent.dollars
    return Spent(steps, calls, dollars)


class Use(NamedTuple):
    """One limit, how much of it is used, and when it begins anew (unix seconds)."""

    what: str
    spent: float
    limit: float
    until: float

    @property
    def share(self) -> float:
        """Of the limit; of one that allows nothing all is used."""
        return self.spent / self.limit if self.limit > 0 else 1.0

    @property
    def words(self) -> str:
        """For people."""
        if "dollars" in self.what:
            return f"{self.what} (${self.spent:.4g} of ${self.limit:g})"
        return f"{self.what} ({self.spent:g} of {self.limit:g})"


def uses(session: Session, now: float) -> list[Use]:
    """Every limit of an hour or a day that there is."""
    limits, hour, day = session.settings.limits, session.account.hour(now), session.account.day(now)
    hour_ends, day_ends = (now // HOUR_S + 1) * HOUR_S, (now // DAY_S + 1) * DAY_S
    rows: tuple[tuple[str, float, float | None, float], ...] = (
        ("dollars of the day", day.dollars, session.settings.dollars_per_day, day_ends),
        ("steps of the day", day.steps, limits.steps_per_day, day_ends),
        ("dollars of the hour", hour.dollars, limits.dollars_per_hour, hour_ends),
        ("steps of the hour", hour.steps, limits.steps_per_hour, hour_ends),
        ("calls of the hour", hour.calls, limits.calls_per_hour, hour_ends),
    )
    return [Use(what, spent, limit, until) for what, spent, limit, until in rows if limit is not None]


# ------------------------------------------------------------ the account
def counts(outcome: Outcome) -> bool:
    """Whether a call counts: it was answered, or paid."""
    return isinstance(outcome, Answer) or bool(outcome.dollars)


def paid(session: Session, now: float, dollars: float, *, steps: int = 0, calls: int = 1) -> None:
    """Money went out. What stage that makes is looked at before the next call."""
    session.account = session.account.seen(now).paid(now, Spent(steps, calls, max(0.0, dollars)))


def returned(session: Session, now: float, outcome: Outcome, *, current: bool) -> None:
    """A call of the mind came back; paid is paid, whether anybody still waits for it or not."""
    if not counts(outcome):
        return
    paid(session, now, outcome.dollars or 0.0, steps=1)
    if current:
        session.called_at = now
        session.turn_dollars += outcome.dollars or 0.0


# ------------------------------------------------------------ the stage
def stage_of(session: Session, now: float) -> tuple[Stage, Use]:
    """The stage by what is known now, and the limit that makes it."""
    found = max(uses(session, now), key=lambda use: use.share)
    limits = session.settings.limits
    if found.share >= 1.0 - limits.reserve_share:
        return Stage.REFLEXES, found
    soft = limits.soft_share - (0.0 if session.stage is Stage.FREE else HYSTERESIS)
    return (Stage.SAVING if found.share >= soft else Stage.FREE), found


def settle(session: Session, now: float) -> Stage:
    """The stage now; one that is new is logged, and the operator told of the hard one."""
    limits, before = session.settings.limits, session.stage
    session.account = session.account.seen(now)
    stage, found = stage_of(session, now)
    if stage is not before:
        session.stage = stage
        hour, day = session.account.hour(now), session.account.day(now)
        sizes = {"hour": hour._asdict(), "day": day._asdict(), "limits": {use.what: use.limit for use in uses(session, now)}}
        session.log("stage", stage=str(stage), was=str(before), why=found.words, until=found.until, **sizes)
        if stage is Stage.REFLEXES:
            kept = f"the last {limits.reserve_share:.0%} is kept for who speaks to it, then " if may_ever_ask(session, now) else ""
            session.emit(fx.Page(text=f"nearly all is spent: {found.words}; {kept}it lives on reflexes until the next {_window(found)}"))
    absence(session, now)
    return stage


def _window(use: Use) -> str:
    return use.what.rpartition(" ")[2]


def may_ever_ask(session: Session, now: float) -> bool:
    """Whether something of every limit is left, if only of the reserve."""
    return all(use.share < 1.0 for use in uses(session, now))


def asks_at(session: Session, now: float, *, meant: bool) -> float:
    """When the next call may be made, as far as money goes: now at the earliest. `meant`: for somebody who addresses it."""
    if settle(session, now) is not Stage.REFLEXES:
        return now
    hard = 1.0 if meant else 1.0 - session.settings.limits.reserve_share
    if closed := [use.until for use in uses(session, now) if use.share >= hard]:
        return max(closed)
    return max(now, min(session.called_at, now) + session.settings.slow_s)


def refusal(session: Session, now: float) -> str:
    """Why the turn under way may make no further call, "" if it may."""
    most = session.settings.limits.dollars_per_turn
    if most is not None and session.turn_dollars >= most:
        return "out of money for one turn"
    if asks_at(session, now, meant=session.meant) > now:
        return "the budget is nearly spent, one answer at a time"
    return ""


# ------------------------------------------------------------ what a stage changes
def gather_s(session: Session) -> float:
    """How long ambient news gathers."""
    usual = session.settings.gather_s
    return usual if session.stage is Stage.FREE else max(usual, session.settings.limits.saving_gather_s)


def idle_s(session: Session) -> float:
    """How long nothing must have happened until it wakes by itself."""
    return session.idle_s if session.stage is Stage.FREE else max(session.idle_s, session.settings.idle_max_s)


def output(session: Session, usual: int) -> int:
    """Output tokens to ask for where they would usually be this many."""
    if session.stage is not Stage.FREE:
        usual = max(min(usual, SMALLEST_OUTPUT), int(usual * session.settings.limits.saving_output))
    return usual


def most_output(session: Session) -> int:
    """Output tokens that one step may have by its budget; 0: any number."""
    cheaper = session.settings.cheaper
    return (cheaper.output_per_step if session.cheap and cheaper else session.settings.limits.output_per_step) or 0


def choose_model(session: Session, now: float) -> None:
    """At a turn's start: the cheaper model while it saves, if there is one; back again later, and not at once."""
    kept = 0.0 <= now - session.switched_at < MODEL_KEPT_S
    cheap = session.settings.cheaper is not None and (session.stage is not Stage.FREE or (session.cheap and kept))
    if cheap is not session.cheap:
        switch(session, now, cheap=cheap)


def switch(session: Session, now: float, *, cheap: bool) -> None:
    """Another model: what was learned of the one is not true of the other, its thinking is not taken by it, and no cache is warm."""
    session.cheap, session.switched_at = cheap, now
    learned = (session.calibration, session.ceiling, session.window_seen, session.output_seen, session.output_guess)
    session.calibration, session.ceiling, session.window_seen, session.output_seen, session.output_guess = session.other_learned
    session.other_learned = learned
    session.messages = without_thinking(session.messages)
    session.warm, session.unsaved = 0, True
    session.log("model", model=session.shape.model, stage=str(session.stage))


# ------------------------------------------------------------ whether there is a mind at all
class Absence(StrEnum):
    """For what the mind is not asked."""

    NONE = "none"
    AMBIENT = "ambient"  # for whatever is not addressed to it
    ALL = "all"


#: So many failures in a row, or failed turns in a row, are an absence however short they were.
FAILURES, FAILED_TURNS = 5, 3


def unreachable(session: Session, now: float, *, wait_s: float = 0.0) -> None:
    """The model could not be asked, or to no end, and is not asked again for `wait_s`."""
    session.unasked_since = min(session.unasked_since or now, now)
    gone = now + wait_s - session.unasked_since
    session.gone = session.gone or gone >= session.settings.absent_s or session.outages >= FAILURES or session.failed_turns >= FAILED_TURNS
    absence(session, now)


def reached(session: Session, now: float) -> None:
    """The model has answered."""
    session.unasked_since, session.gone = 0.0, False
    absence(session, now)


def absence_of(session: Session, now: float) -> tuple[Absence, str]:
    """For what the mind is not asked at this time, and why; nothing is changed."""
    return _absence(session, now, stage_of(session, now)[0])


def _absence(session: Session, now: float, stage: Stage) -> tuple[Absence, str]:
    if session.gone:
        return Absence.ALL, "the model cannot be reached"
    if stage is Stage.REFLEXES:
        return (Absence.AMBIENT if may_ever_ask(session, now) else Absence.ALL), "the budget is spent"
    return Absence.NONE, ""


def absence(session: Session, now: float) -> None:
    """Whoever lives here is told, once, when the mind is no longer asked, and when it is again."""
    level, why = _absence(session, now, session.stage)
    if level is session.absent:
        return
    session.absent = level
    session.log("reflexes", level=str(level), why=why)
    session.emit(fx.Absent(level=str(level), why=why))
