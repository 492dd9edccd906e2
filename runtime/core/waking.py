"""What wakes a session: news, timers, the world coming back.

Invariants: news that came after the last draining always has a turn or a timer ahead of it, and more news never puts that timer off; what a
clock that was set back left behind never holds longer than the longest wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import events as ev
from . import resting, spending
from .pending import body_acts, close_calls
from .spending import Stage
from .turns import Cause, State

if TYPE_CHECKING:
    from .session import Session


def stirred(session: Session, event: ev.Stirred) -> None:
    """There is news outside."""
    session.stirred = max(session.stirred, event.n)
    if event.urgent:
        session.stirred_urgent = max(session.stirred_urgent, event.n)
        session.urgent_why = event.why
    if session.state is State.IDLE:
        look(session, event.now)
    elif session.state is State.YIELDED and event.urgent:
        wake_mind(session, event.now, event.why or "woke")


def link(session: Session, event: ev.Attached | ev.Detached) -> None:
    """The world came or went. A turn under way goes on to its end."""
    session.linked = isinstance(event, ev.Attached)
    if session.linked and session.state is State.DETACHED:
        session.move(Cause.LINK_BACK)
        rest(session, event.now)
    elif not session.linked and session.state is State.IDLE:
        session.move(Cause.LINK_LOST)


def rest(session: Session, now: float) -> None:
    """Idle: set the timer that wakes without news, and see whether there is some."""
    spending.settle(session, now)
    wait = spending.idle_s(session)
    wait = min(spending.gather_s(session), wait) if session.resumed else wait
    session.gather_at = 0.0
    session.timer_at("idle", max(now + wait, earliest(session, now)))
    look(session, now)


def look(session: Session, now: float) -> None:
    """Idle: start a turn now, or set the timer that will, if there is news that may start one."""
    urgent = session.stirred_urgent > session.drained
    if not urgent and not _news(session):
        return
    asks_at = spending.asks_at(session, now, meant=urgent)
    if session.stage is Stage.REFLEXES and not urgent:
        return  # the idle timer looks again, and wakes once there is money
    wait = 0.0 if urgent else spending.gather_s(session)
    at = max(now + wait, earliest(session, now), min(asks_at, now + spending.LOOK_S))
    if not urgent and not session.late:
        at = max(at, body_until(session, now))
    if at <= now or (0 < session.gather_at <= now and asks_at <= now):
        wake(session, now, "news")
    elif not 0 < session.gather_at <= at:
        session.gather_at = at
        session.timer_at("gather", at)


def body_until(session: Session, now: float) -> float:
    """Until when the mind leaves a body alone that acts on after a turn has ended; 0: it does not act."""
    if not session.settings.yields or not body_acts(session, now):
        return 0.0
    return min(session.away_since, now) + session.settings.yield_s


def earliest(session: Session, now: float) -> float:
    """When the next turn may begin, after one that failed."""
    session.not_before = min(session.not_before, now + session.settings.outage_max_s)
    return session.not_before


def gathered(session: Session, now: float) -> None:
    """The time to gather ambient news is over."""
    session.gather_at = 0.0
    if not _news(session):
        return
    if spending.asks_at(session, now, meant=session.stirred_urgent > session.drained) <= now:
        wake(session, now, "news")
    else:
        look(session, now)


def _news(session: Session) -> bool:
    return session.stirred > session.drained or bool(session.late)


def idle(session: Session, now: float) -> None:
    """Nothing came for a while."""
    if (at := spending.asks_at(session, now, meant=False)) > now:
        session.timer_at("idle", min(now + spending.idle_s(session), at))
    elif (until := body_until(session, now)) > now:
        session.timer_at("idle", until)
    else:
        wake(session, now, "idle")


def wake(session: Session, now: float, reason: str) -> None:
    """Begin a turn."""
    session.move(Cause.WOKEN)
    session.turn += 1
    session.step = 0
    session.turn_started = now
    session.woken_by = reason
    session.resumed = session.turn_had_news = session.boosted = False
    session.denied_steps = 0
    session.pauses = session.remedy = session.too_long = session.refused = 0
    session.turn_dollars, session.meant = 0.0, session.stirred_urgent > session.drained
    spending.choose_model(session, now)
    away_s = round(max(0.0, now - session.away_since), 3) if session.away_since else 0.0
    why = session.urgent_why if session.stirred_urgent > session.drained else ""
    session.log("wake", reason=reason, **({"why": why} if why else {}), **({"away_s": away_s} if away_s else {}))
    session.ask(reason, drain=True, away_s=away_s)


def wake_mind(session: Session, now: float, reason: str) -> None:
    """The body is, or what happens around it wants, the mind: the turn goes on."""
    session.move(Cause.BODY_WOKE)
    session.log("woken from yield", reason=reason, after_s=round(now - session.away_since, 3))
    back(session, now)
    session.meant = session.meant or session.stirred_urgent > session.drained
    if why := spending.refusal(session, now):
        close_calls(session)
        resting.end_turn(session, now, why, unfinished=True)
        return
    session.ask("woke", drain=True, away_s=now - session.away_since)


def back(session: Session, now: float) -> None:
    """The clock of a turn stood still while the mind was away."""
    session.turn_started += max(0.0, now - session.away_since)
