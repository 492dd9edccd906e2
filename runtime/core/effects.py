"""What a session wants done. Each effect that is answered carries an operation id; the answer names it, and a stale one changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .budget import Part
from .findings import Findings
from .record import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Gather what the next request is made of; answered by `Prepared`.

    `drain` asks for the news too. `reason` is why the turn goes on: news, idle, tools, again, woke. `away_s` are the seconds for which the
    body has acted without the mind until now, 0 where it did not.
    """

    op: int
    turn: int
    step: int
    reason: str
    drain: bool
    away_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallModel:
    """Send `body`; answered by `ModelReturned`. `raw` and `estimate` are its input tokens by our count and in the provider's."""

    op: int
    turn: int
    step: int
    body: Mapping[str, Any]
    raw: int
    estimate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool use. `invalid` holds the raw arguments where they did not parse."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    invalid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """Run the calls; each is answered by `ToolFinished`, a long one first by `ToolStarted`."""

    op: int
    turn: int
    step: int
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistSession:
    """Store the full session and write the diary entry, then answer with `SessionPersisted`, whatever the disk says."""

    op: int
    turn: int
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarise:
    """Ask for a summary in the background; answered by `SummaryReady` or `SummaryFailed`."""

    op: int
    findings: Findings
    lines: tuple[Line, ...]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Fire `TimerFired(tag, op)` at `at` (unix seconds). A newer timer of the same tag replaces it; one of an older operation is void."""

    tag: str
    op: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speak:
    """Words that the model wrote without a tool, at the end of a complete turn."""

    turn: int
    text: str
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One line for the event log."""

    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Store a snapshot, together with the events before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """From now on the mind is asked for nothing (`all`), only for what is addressed to it (`ambient`), or for everything again (`none`).

    Meant for whoever can act without it meanwhile.
    """

    level: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Tell the operator."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The session cannot go on: `code` is the exit code, `parts` the table of rung 6."""

    code: int
    message: str
    parts: tuple[Part, ...] = ()


Effect = Prepare | CallModel | RunTools | PersistSession | Summarise | SetTimer | Speak | Log | Checkpoint | Absent | Page | End
