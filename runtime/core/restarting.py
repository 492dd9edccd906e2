"""A process takes up a stored session.

Invariants: what was under way is lost and its outcome unknown, what was known is kept; no operation id is ever given twice, even by a
process that died before it could store anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import spending
from .messages import uses_of
from .pending import close_calls
from .repair import UNKNOWN_OUTCOME, mended
from .turns import Cause, State

if TYPE_CHECKING:
    from .session import Session

GENERATION = 1_000_000  # operations that one process may begin before the next one's ids


def restarted(session: Session) -> None:
    """Begin anew from what was stored; the world is away until it says otherwise."""
    unfinished = session.state not in (State.IDLE, State.DETACHED)
    session.move(Cause.RESTARTED)
    session.op = session.op // GENERATION * GENERATION + GENERATION - 1
    session.next_op()
    repaired = 0
    if session.pending and session.messages and uses_of(session.messages[-1]):
        repaired = len(session.waiting_calls)
        close_calls(session, otherwise=UNKNOWN_OUTCOME, error=True)
    session.pending = {}
    whole = mended(session.messages, session.count)
    if whole != session.messages:
        session.edit(whole)
        repaired += 1
    session.linked, session.expects = False, ""
    session.under_way, session.away_since = {}, 0.0  # their ends come as news, from whoever asks the world
    session.resumed = session.resumed or unfinished
    if unfinished:
        session.broken_off = f"turn {session.turn} was broken off by a restart"
    session.unasked_since, session.gone = 0.0, False
    session.answers = session.outages = 0  # a key that is refused from now on was refused at the start
    session.stirred = session.stirred_urgent = session.drained = 0
    session.urgent_why = ""
    session.summary_op, session.summary_turn = 0, min(session.summary_turn, session.turn + 1)
    spending.absence(session, session.now)
    session.log("restart", unfinished=unfinished, repaired=repaired, messages=len(session.messages))
    session.move(Cause.LINK_LOST)
    session.checkpoint()
