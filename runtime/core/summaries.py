"""The background summary of compacted talk: findings, each with its sources.

Invariants: nothing ever waits for one; one that failed, is empty, is no such record or is not clearly smaller than what it stands for
changes nothing, and the next is asked for ever more rarely; what is asked at once is never more than half of a window; one that was asked
for before a reset is void.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import effects as fx
from . import events as ev
from . import spending
from .findings import MOST, Findings, read
from .messages import Count
from .record import Line

if TYPE_CHECKING:
    from .session import Session

CHARACTERS = 4  # of a token, roughly
FORGOTTEN_AFTER = 200  # turns: a summary that has not come by then is not waited for
PATIENCE = 8  # turns to wait after the first failure, doubled with each further one
SMALLEST = 64  # raw tokens that a summary may have whatever it stands for


def want(session: Session) -> None:
    """Ask for a summary if enough talk waits for one."""
    settings, lines = session.settings, session.record.lines
    if not settings.summary_tokens or session.turn < session.summary_turn or session.stage is spending.Stage.REFLEXES:
        return
    if sum(len(x.text) for x in lines) < settings.summary_tokens * CHARACTERS:
        return
    chosen = _as_many_as_fit(session)
    session.summary_op = session.next_op()
    session.summary_turn = session.turn + FORGOTTEN_AFTER
    session.summary_through = max(x.event for x in chosen)
    session.emit(
        fx.Summarise(op=session.summary_op, findings=session.record.findings, lines=chosen, max_tokens=settings.summary_output)
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
    if event.dollars or isinstance(event, ev.SummaryReady):
        spending.paid(session, event.now, event.dollars)
    if not session.summary_op or event.op != session.summary_op:
        session.log("stale", what="summary", op=event.op, current=session.summary_op)
        return
    session.summary_op = 0
    if isinstance(event, ev.SummaryFailed):
        _refuse(session, event.why)
        return
    covered = [x for x in session.record.lines if x.event <= session.summary_through]
    found = usable(event.text, session.record.findings, covered, session.count)
    if isinstance(found, str):
        _refuse(session, found)
        return
    session.summary_failures, session.summary_turn = 0, session.turn
    session.record = session.record.summarised(found, through=session.summary_through)
    session.unsaved = True
    kinds = {kind: len(found.of(kind)) for kind in MOST}
    session.log("summary", first=session.record.first, through=session.summary_through, lines=len(covered), **kinds)


def _refuse(session: Session, why: str) -> None:
    session.summary_failures += 1
    session.summary_turn = session.turn + PATIENCE * 2 ** min(6, session.summary_failures - 1)
    session.log("summary refused", why=why, again_from_turn=session.summary_turn)


def usable(text: str, before: Findings, lines: Sequence[Line], count: Count) -> Findings | str:
    """The findings of a summary, or why it is not taken. It must say something, and be clearly smaller than what it stands for."""
    if not text.strip():
        return "empty"
    sources: dict[int, str] = {}
    for line in lines:
        sources[line.event] = f"{sources[line.event]}\n{line.text}" if line.event in sources else line.text
    found = read(text, before=before, sources=sources)
    if isinstance(found, str):
        return found
    span = sum(count(x.text) for x in lines)
    added = _size(found, count) - _size(before, count)
    if added > max(SMALLEST, span // 2):
        return "not clearly smaller than what it stands for"
    return found


def _size(findings: Findings, count: Count) -> int:
    return sum(count(line) for _, lines in findings.lines() for line in lines)
