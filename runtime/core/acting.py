"""Tools: results coming in, the body busy, the step complete.

Invariants: a result counts once and only for the call it was made for, known by operation and id; results are kept as they come, so that a
crash loses none that was known; a tool that never answers has an unknown outcome after a while; a turn in which one step after another was
denied ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import events as ev
from . import resting, waking
from .messages import result_block
from .pending import close_calls, ended_late, key_of
from .turns import Cause, State

if TYPE_CHECKING:
    from .session import Session


DENIED_STEPS = 3  # in a row: a mind that is told no so often goes on asking


def tool(session: Session, event: ev.ToolStarted | ev.ToolFinished) -> None:
    """A call has begun a long action, or has its result."""
    pending = session.pending.get(event.call) if event.op == session.tools_op else None
    key = key_of(event.op, event.call)
    if isinstance(event, ev.ToolFinished) and key in session.under_way:
        if event.told:
            del session.under_way[key]
        else:
            ended_late(session, key, event.text, event.event, event.gist)
        session.checkpoint()
        if session.state is State.IDLE:
            waking.look(session, event.now)
        return
    if pending is None or pending.result is not None:
        session.log("stale", what="tool result", call=event.call, op=event.op, current=session.op, state=str(session.state))
        return
    pending.started = isinstance(event, ev.ToolStarted)
    if isinstance(event, ev.ToolFinished):
        pending.result = result_block(event.call, event.text, session.count, error=event.error, event=event.event, gist=event.gist)
        pending.denied = event.denied
        session.unsaved = True
    if session.state is State.YIELDED and not session.waiting_calls:
        waking.wake_mind(session, event.now, "finished")
    elif session.state is State.ACTING:
        _look(session, event.now)
    elif session.unsaved:
        session.checkpoint()


def overdue(session: Session, now: float) -> None:
    """The time for tools is over: what neither has a result nor was accepted as a long action has an unknown outcome."""
    late = [k for k, p in session.pending.items() if p.result is None and not p.started]
    session.log("tools overdue", calls=late)
    for call in late:
        text = f"[no result within {session.settings.act_s:.0f} s: the outcome of this action is unknown]"
        session.pending[call].result = result_block(call, text, session.count, error=True)
    _look(session, now)


def _look(session: Session, now: float) -> None:
    """Acting: wait on, yield to the body, or go on with the results."""
    if any(p.result is None and not p.started for p in session.pending.values()):
        if session.unsaved:
            session.checkpoint()
        return
    if session.settings.yields and any(p.started and p.result is None for p in session.pending.values()):
        session.move(Cause.BODY_BUSY)
        session.away_since = now
        session.log("yield", calls=list(session.waiting_calls))
        session.checkpoint()
        session.timer_at("yield", now + session.settings.yield_s)
        if session.stirred_urgent > session.drained:
            waking.wake_mind(session, now, session.urgent_why or "woke")
        return
    all_denied = all(p.denied for p in session.pending.values())
    session.denied_steps = session.denied_steps + 1 if all_denied else 0
    close_calls(session)
    if session.denied_steps >= DENIED_STEPS:
        resting.end_turn(session, now, resting.REFUSED)
        return
    if why := resting.turn_is_over(session, now):
        resting.end_turn(session, now, why, unfinished=not session.linked)
        return
    session.move(Cause.TOOLS_DONE)
    session.checkpoint()
    session.ask("tools", drain=False)
