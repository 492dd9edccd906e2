"""What can happen to a session. Time comes in with each event (`now`, unix seconds); an answer names the operation it answers."""

from __future__ import annotations

from dataclasses import dataclass

from .layout import Fixed
from .spent import Spent
from .values import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Something that was noticed, ready to be shown.

    Attributes:
        text: fenced and labelled.
        tokens: raw.
        event: its number in the event log, where it is durable already.
        urgent: it may start a turn at once, and is the last to be left out.
        priority: 0 to 9; lower ones are left out first when there is no room for all.
        gist: lines worth keeping when its turn is compacted.
    """

    text: str
    tokens: int
    event: int = 0
    urgent: bool = False
    priority: int = 5
    gist: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A recalled line. `text` is fenced and labelled."""

    text: str
    tokens: int
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    now: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached(_Event):
    """The world is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached(_Event):
    """The world is gone, for the moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted(_Event):
    """A process has taken up a stored session: whatever was under way is lost, its outcome unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stirred(_Event):
    """There is news outside; `n` counts such events, so that draining and stirring cannot miss each other. `why` is what made it urgent."""

    n: int
    urgent: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(_Event):
    """A timer that the session set has run out."""

    tag: str
    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(_Event):
    """What the next request is made of, read afresh.

    Attributes:
        fixed: tools, rules, persona.
        tail: trusted words only.
        tail_tokens: raw tokens of `tail`.
        standing: texts by name that the tail must hold, word for word.
        observations: the news that was drained, in order, the newest last (only where the effect asked for draining). What is handed
            over here is in the history from now on, unless the event is stale.
        recalled: memories that fit the news.
        notebook: the notebook as it is now; it is shown only where the history does not hold this very copy.
        through: number of the last `Stirred` that the draining has covered.
    """

    op: int
    fixed: Fixed
    tail: str = ""
    tail_tokens: int = 0
    standing: tuple[tuple[str, str], ...] = ()
    observations: tuple[Observation, ...] = ()
    recalled: tuple[Memory, ...] = ()
    notebook: str = ""
    through: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReturned(_Event):
    """A model call came back. `event` is the number under which the outcome was logged."""

    op: int
    outcome: Outcome
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(_Event):
    """A long action was accepted and runs; its end comes as `ToolFinished`."""

    op: int
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(_Event):
    """A tool has its result. `gist` are lines worth keeping of it (what was said aloud, what was decided).

    For a long action whose call was closed meanwhile (the mind woke before its end) the result is told with the next news, unless it is
    `told` already, by the result of another call. `denied`: it was not run, by our own rules.
    """

    op: int
    call: str
    text: str
    error: bool = False
    event: int = 0
    gist: tuple[str, ...] = ()
    told: bool = False
    denied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPersisted(_Event):
    """Session and diary entry are safe; `how` says on what (disk, a smaller dump, memory). `event` is the last one of the old session."""

    op: int
    how: str
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReady(_Event):
    """A background summary."""

    op: int
    text: str
    dollars: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFailed(_Event):
    """A background summary that is none."""

    op: int
    why: str
    dollars: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(_Event):
    """Money went out for one call beside the session's own; it counts for the hour and the day."""

    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(_Event):
    """What a store knows to have been spent, by hour since 1970: it may have been told of more than a session that was taken up again."""

    hours: tuple[tuple[int, Spent], ...]


Event = (
    Attached
    | Detached
    | Restarted
    | Stirred
    | TimerFired
    | Prepared
    | ModelReturned
    | ToolStarted
    | ToolFinished
    | SessionPersisted
    | SummaryReady
    | SummaryFailed
    | Paid
    | Known
)
