"""The background summary of compacted talk.

Invariants: nothing ever waits for one; one that failed, is empty, looks like an error or is not clearly smaller than what it stands for
changes nothing, and the next is asked for ever more rarely; what is asked at once is never more than half of a window; one that was asked
for before a reset is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import effects as fx
from . import events as ev
from .messages import Count
from .record import Line
from .waking import spent

if TYPE_CHECKING:
    from .session import Session

CHARACTERS = 4  # of a token, roughly
FORGOTTEN_AFTER = 200  # turns: a summary that has not come by then is not waited for
PATIENCE = 8  # turns to wait after the first failure, doubled with each further one
SMALLEST = 64  # raw tokens that a summary may have whatever it stands for
NO_SUMMARY = ("error", "i cannot", "i can't", "i'm sorry", "<html", '{"type": "error"', '{"error')


def want(session: Session) -> None:
    """Ask for a summary if enough talk waits for one."""
    settings, lines = session.settings, session.record.lines
    if not settings.summary_tokens or session.turn < session.summary_turn:
        return
    if sum(len(x.text) for x in lines) < settings.summary_tokens * CHARACTERS:
        return
    chosen = _as_many_as_fit(session)
    session.summary_op = session.next_op()
    session.summary_turn = session.turn + FORGOTTEN_AFTER
    session.summary_through = max(x.event for x in chosen)
    session.emit(
        fx.Summarise(op=session.summary_op, narrative=session.record.narrative, lines=chosen, max_tokens=settings.summary_output)
    )


def _as_many_as_fit(session: Session) -> tuple[Line, ...]:
    """The oldest lines that leave half of a window to the narrative and the summary; the newer ones wait for the next one."""
    lines = session.record.lines
    left = session.budget.usable / session.calibration.factor / 2
    for n, line in enumerate(lines):
        left -= session.count(line.text) + 1
        if left < 0:
            return lines[: max(1, n)]
    return lines


def came(session: Session, event: ev.SummaryReady | ev.SummaryFailed) -> None:
    """A summary, or the news that there is none."""
    spent(session, event.now, event.dollars)
    if not session.summary_op or event.op != session.summary_op:
        session.log("stale", what="summary", op=event.op, current=session.summary_op)
        return
    session.summary_op = 0
    if isinstance(event, ev.SummaryFailed):
        _refuse(session, event.why)
        return
    covered = [x for x in session.record.lines if x.event <= session.summary_through]
    if why := unusable(event.text, session.record.narrative, covered, session.count):
        _refuse(session, why)
        return
    session.summary_failures, session.summary_turn = 0, session.turn
    session.record = session.record.summarised(event.text.strip(), through=session.summary_through)
    session.unsaved = True
    session.log("summary", characters=len(event.text), through=session.summary_through)


def _refuse(session: Session, why: str) -> None:
    session.summary_failures += 1
    session.summary_turn = session.turn + PATIENCE * 2 ** min(6, session.summary_failures - 1)
    session.log("summary refused", why=why, again_from_turn=session.summary_turn)


def unusable(text: str, narrative: str, lines: Sequence[Line], count: Count) -> str:
    """Why a summary is not taken; empty when it is. It must say something, and be clearly smaller than what it stands for."""
    plain = text.strip()
    if not plain:
        return "empty"
    if plain.lower().startswith(NO_SUMMARY):
        return "looks like an error"
    span = sum(count(x.text) for x in lines) + count(narrative)
    if count(plain) > max(SMALLEST, span // 2):
        return "not clearly smaller than what it stands for"
    return ""
