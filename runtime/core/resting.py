"""How a turn ends or is put off: done, out of its caps, waiting for a model that is away, or let go.

Invariant: after each of these a timer runs, unless the world is away (then its return sets one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import effects as fx
from . import spending, summaries, waking
from .messages import Kind, total
from .pending import KEPT, body_acts
from .record import Record
from .turns import Cause

if TYPE_CHECKING:
    from .session import Session

DONE = "done"
REFUSED = "nothing but refusals"
KEPT_SHARE = 4  # while the turn so far takes less than this part of its room, a retry takes what happened meanwhile along


def turn_is_over(session: Session, now: float) -> str:
    """Why a turn may not go on to another step; empty when it may."""
    if not session.linked:
        return "the world is away"
    if session.step >= session.settings.steps_per_turn:
        return "out of steps"
    if now - session.turn_started > session.settings.seconds_per_turn:
        return "out of time"
    return spending.refusal(session, now)


def end_turn(session: Session, now: float, why: str, *, failed: bool = False, unfinished: bool = False) -> None:
    """The turn is over. `unfinished`: the next idle wake comes soon."""
    session.move(Cause.TURN_ENDED)
    session.next_op()
    session.pending = {}
    session.away_since = now if body_acts(session, now) else 0.0
    session.resumed = unfinished
    if failed:
        times = f", {session.failed_turns} in a row" if session.failed_turns > 1 else ""
        session.broken_off = f"turn {session.turn} failed{times}: {why}"
    else:
        session.failed_turns = 0
        session.broken_off = "" if why == DONE else f"turn {session.turn} was ended: {why}"
    if session.turn_had_news and why != REFUSED:
        session.idle_s = session.settings.idle_s
    else:
        session.idle_s = min(session.settings.idle_max_s, session.idle_s * 2)
    seconds = round(now - session.turn_started, 3)
    session.log("turn", ended=why, failed=failed, seconds=seconds, dollars_today=round(session.dollars, 6))
    summaries.want(session)
    session.checkpoint()
    _rest(session, now)


def nothing(session: Session, now: float) -> None:
    """News was announced, and there is none after all (it was drained already): no call is made."""
    session.move(Cause.TURN_ENDED)
    session.next_op()
    session.log("nothing new")
    session.not_before = max(session.not_before, now + session.settings.gather_s)
    _rest(session, now)


def _rest(session: Session, now: float) -> None:
    if session.linked:
        waking.rest(session, now)
    else:
        session.move(Cause.LINK_LOST)


def wait(session: Session, now: float, seconds: float) -> None:
    """The model cannot be asked now: the turn stands still and is tried again."""
    session.move(Cause.MODEL_AWAY)
    session.next_op()
    session.away_since = now
    session.log("waiting", seconds=round(seconds, 1), outages=session.outages)
    session.checkpoint()
    session.timer_at("retry", now + seconds)
    spending.unreachable(session, now, wait_s=seconds)


def try_again(session: Session, now: float) -> None:
    """The wait is over. What happened meanwhile is taken along, as long as it does not pile up: a long outage must not fill the window."""
    waking.back(session, now)
    session.move(Cause.TRY_AGAIN)
    if why := spending.refusal(session, now):
        end_turn(session, now, why, unfinished=True)
        return
    so_far = total([m for m in session.messages if m.turn == session.turn])
    room = session.budget.usable / session.calibration.factor - session.fixed_raw
    session.ask("again", drain=so_far * KEPT_SHARE <= room)


def backoff(session: Session, times: int) -> float:
    """Seconds before the next try after `times` failures in a row."""
    return min(session.settings.outage_max_s, session.settings.outage_s * 2.0 ** min(10, times - 1))


def abandon(session: Session, now: float, why: str, *, forget: bool = False, carry: bool = False) -> None:
    """Let the turn go, and begin the next one a little later.

    What the turn was told stays once, to be read with the next news. If that fails too, the turns that failed leave the history; if they do
    not seem to be the cause, all of it does, as it does at once where the provider rejected the history itself (`forget`). Where it was
    only the size that was rejected, what the turn was told is carried over all the same (`carry`): it may never have been sent.
    """
    session.failed_turns += 1
    if forget or session.failed_turns > 3:
        if carry and session.failed_turns == 1:
            turn = [b for m in session.messages for b in m.blocks if m.turn == session.turn and b.event]
            session.late = (*session.late, *(b for b in turn if b.kind in (Kind.OBSERVATION, Kind.OUTCOME)))[-KEPT:]
        session.edit((), Record(), None)
    elif session.failed_turns > 1:
        session.edit(tuple(m for m in session.messages if m.turn <= session.turn - session.failed_turns))
    if session.failed_turns & (session.failed_turns - 1) == 0:  # the 1st, 2nd, 4th, 8th ... in a row
        text = f"turn {session.turn} failed ({why}), {session.failed_turns} in a row; going on with the next news"
        session.emit(fx.Page(text=text))
    session.not_before = now + backoff(session, session.failed_turns)
    spending.unreachable(session, now)
    end_turn(session, now, why, failed=True)
