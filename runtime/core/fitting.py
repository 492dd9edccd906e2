"""The history made to fit: the ladder's pass, and the hard reset.

Invariants: the full session is persisted before anything of it goes by a reset; a reset happens at most once on the same history, what it
leaves is only cut further; a history that was too long for the provider gets smaller before it is sent again, or the turn is let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import effects as fx
from . import events as ev
from . import resting
from .budget import Room
from .ladder import Verdict, descend
from .messages import Kind
from .opening import CUT_SHARE
from .rungs import Goal, Parts, hard_reset
from .turns import Cause, Owed

if TYPE_CHECKING:
    from .session import Session


def room_of(session: Session) -> Room:
    """The room that the last prepared request leaves to the history."""
    room = session.budget.room(fixed=session.fixed_raw, factor=session.calibration.factor, floor=session.floor)
    return room.tightened(max(session.floor, session.ceiling - session.fixed_raw)) if session.ceiling else room


def fit(session: Session, now: float, *, opening: bool) -> bool:
    """Run the ladder; False when the request has to wait for a reset, or is not made at all."""
    room = room_of(session)
    parts = _parts(session, room)
    result = descend(parts, room, opening=opening)
    for climb in result.climbs:
        _log_rung(session, climb.rung, climb.before, climb.after, failed=climb.failed, note=climb.note)
    if result.verdict is Verdict.RESET and not session.bare:
        must_reset(session, "nothing smaller would fit the window")
        return False
    if session.refused and result.parts.tokens >= session.refused and not session.bare:
        must_reset(session, "the provider says that it is too long, and no rung makes it smaller")
        return False
    if result.verdict is Verdict.RESET:
        _cut_further(session, room)
    elif result.parts is not parts:
        session.edit(result.parts.messages, result.parts.record, result.parts.record_block)
    if session.refused and session.tokens >= session.refused:
        resting.abandon(session, now, "too long, however small", forget=True, carry=True)
        return False
    return True


def must_reset(session: Session, reason: str) -> None:
    """Have the session persisted; the reset follows."""
    session.move(Cause.MUST_RESET)
    tokens = session.calibration.estimate(session.tokens)
    session.emit(fx.PersistSession(op=session.next_op(), turn=session.turn, reason=reason, tokens=tokens))
    session.expect(Owed.STORED)


def persisted(session: Session, event: ev.SessionPersisted) -> None:
    """The session is safe: reset, and go on with the turn."""
    before, room = session.tokens, room_of(session)
    session.resets += 1
    where = f", whole in the event log up to event {event.event}" if event.event else ""
    marker = f"[context reset: number {session.resets}; earlier conversation removed{where}; your diary has an entry about it]"
    _reset(session, _parts(session, room), room.limit, marker)
    _log_rung(session, "hard_reset", before, session.tokens, failed=False, note=f"session persisted ({event.how})")
    session.move(Cause.PERSISTED)
    session.checkpoint()
    session.ask("again", drain=False)


def _cut_further(session: Session, room: Room) -> None:
    """What a reset left is too big all the same (the fixed part grew, the factor rose): it is safe already, so only the size changes."""
    before = session.tokens
    marker = next((b.text for m in session.messages for b in m.blocks if b.kind is Kind.MARKER), "[context reset: again]")
    _reset(session, _parts(session, room), room.limit, marker.partition("\n")[0])
    session.log("cut further", before=before, after=session.tokens)


def _reset(session: Session, parts: Parts, limit: int, marker: str) -> None:
    after = hard_reset(parts, Goal(want=int(limit * CUT_SHARE), limit=limit), marker=marker).parts
    session.edit(after.messages, after.record, after.record_block)
    session.bare = True


def _parts(session: Session, room: Room) -> Parts:
    return Parts(
        messages=session.messages,
        turn=session.turn,
        record=session.record,
        record_block=session.record_block,
        count=session.count,
        record_room=room.record,
    )


def _log_rung(session: Session, rung: str, before: int, after: int, *, failed: bool, note: str) -> None:
    factor = session.calibration.factor
    session.log("rung", rung=rung, before=int(before * factor), after=int(after * factor), failed=failed, note=note)
