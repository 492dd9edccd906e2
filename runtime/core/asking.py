"""From what was prepared to the request that leaves.

Invariants: rung 6 is asked before every request; the news that was drained is in the history before anything can fail; a request that the
API would refuse is mended or not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import effects as fx
from . import events as ev
from . import fitting, resting, searches, spending
from .budget import Part, Room, misfit
from .calibration import START
from .fence import fenced
from .layout import lacking, request
from .messages import Kind, Message, total
from .opening import EACH, LEAST, NOTE, LeftOut, notebook_block, opening
from .pending import close_calls
from .repair import mended, problems
from .turns import Cause, Owed

if TYPE_CHECKING:
    from .session import Session

EXIT_MISCONFIGURED = 3


def prepared(session: Session, event: ev.Prepared) -> None:
    """Everything for the next request is there."""
    outside = session.shape.tail_as_system
    session.fixed_raw = event.fixed.tokens + (event.tail_tokens if outside else 0)
    session.tail_raw = 0 if outside else event.tail_tokens
    # A notice that nothing happened is no news: what counts is whether the world stirred.
    stirred = max(session.stirred, event.through) > session.drained
    session.meant = session.meant or (event.through > session.drained and session.stirred_urgent > session.drained)
    session.drained = max(session.drained, event.through)
    if session.woken_by == "news" and not (event.observations or session.late or session.pending or _begun(session)):
        resting.nothing(session, event.now)
        return
    session.turn_had_news = session.turn_had_news or bool(session.late) or (stirred and bool(event.observations))
    _fit_searches(session, event)
    fresh = _take_in(session, event, fitting.room_of(session))
    if why := spending.refusal(session, event.now):
        resting.end_turn(session, event.now, why, unfinished=True)
    elif parts := _too_big(session, event):
        _no_room(session, event.now, parts)
    elif gone := [name for name, text in event.standing if text not in event.tail]:
        _not_without(session, event.now, gone)
    elif fitting.fit(session, event.now, opening=fresh):
        if fresh or (session.bare and not session.warm):
            _show_notebook(session, event.notebook)
        _call(session, event)


# ------------------------------------------------------------ the news
def _begun(session: Session) -> bool:
    """Whether the current turn has an opening in the history."""
    return bool(session.messages) and session.messages[-1].turn == session.turn


def _take_in(session: Session, event: ev.Prepared, room: Room) -> bool:
    """Put what was drained into the history; whether this is a turn's opening."""
    late, session.late = session.late, ()
    if session.pending:
        close_calls(session)  # the mind was away while the body acted; what happened meanwhile follows
    begun = _begun(session)
    if begun and not event.observations and not late:
        return False
    limit = room.limit
    if begun:
        # What comes on top of the turn so far leaves that in place, unless the newest would have to be cut for it.
        left = room.limit - _of_turn(session)
        newest = event.observations[-1].tokens + 2 * EACH + NOTE if event.observations else 0
        limit = left if newest <= left else room.limit
    tail = "" if begun or session.shape.tail_as_system else event.tail
    left_out = LeftOut()
    blocks = opening(
        event.observations,
        event.recalled,
        "" if _shows(session, event.notebook) else event.notebook,
        tail,
        limit=limit,
        count=session.count,
        # This also makes every request after a failure another one, however little happened since.
        marker="" if begun or not session.broken_off else f"[{session.broken_off}]",
        late=late,
        left_out=left_out,
    )
    if lost := left_out.plain:
        session.log("left out", why=f"the turn's opening has room for {limit:,} tokens of ours", limit=limit, **lost)
    session.broken_off = session.broken_off if begun else ""
    session.append(Message("user", blocks, session.turn))
    return not begun


def _fit_searches(session: Session, event: ev.Prepared) -> None:
    """What the provider's tool search has left in the history agrees with the tools that are offered now, and has its true size."""
    messages, edited = searches.fitted(session.messages, event.fixed, session.count)
    if edited:
        session.log("searches fitted", why="not all tools that were found are offered any more")
        session.edit(messages)
    elif any(a is not b for a, b in zip(messages, session.messages, strict=True)):
        session.messages = messages
        session.unsaved = True


def _shows(session: Session, notebook: str) -> bool:
    """Whether the newest copy of the notebook in the history is this one."""
    copies = (b for m in reversed(session.messages) for b in m.blocks if b.kind is Kind.NOTEBOOK)
    newest = next(copies, None)
    return newest is not None and newest.text == fenced(notebook, tag="notebook")


def _show_notebook(session: Session, notebook: str) -> None:
    """A rung may just have taken the copy away: then this opening, which was not sent yet, gets another, if there is room.

    So does what a reset has left, which begins the history anew: as much of it as leaves half of the room to act in.
    """
    if not notebook.strip() or _shows(session, notebook):
        return
    opening_ = session.messages[-1]
    if any(b.kind is Kind.NOTEBOOK for b in opening_.blocks):
        return  # a clipped one
    block = notebook_block(notebook, session.budget.window, session.count)
    limit = fitting.room_of(session).limit
    left = limit - session.tokens - (limit // 2 if session.bare else 0)
    if session.bare and block.tokens > left >= 4 * LEAST:
        block = notebook_block(notebook, left, session.count)
    if block.tokens <= left:
        session.unsaved = True
        session.messages = (*session.messages[:-1], opening_.having((block, *opening_.blocks)))


def _of_turn(session: Session) -> int:
    """Raw tokens of the current turn so far."""
    return total([m for m in session.messages if m.turn == session.turn])


# ------------------------------------------------------------ rung 6
def _too_big(session: Session, event: ev.Prepared) -> tuple[Part, ...] | None:
    """The table of rung 6, if the fixed part leaves no room for the smallest observation.

    The factor that is assumed at the start decides, or a lower one that was learned. A higher one may come from a strange text; then the
    smallest request is made and the provider has the last word.
    """
    factor = min(session.calibration.factor, START)
    sizes = event.fixed.sizes or (("fixed part", event.fixed.tokens),)
    if event.tail_tokens:
        sizes = (*sizes, ("tail", event.tail_tokens))
    return misfit(session.budget, tuple(Part(name=name, tokens=int(raw * factor) + 1) for name, raw in sizes))


def _no_room(session: Session, now: float, parts: tuple[Part, ...]) -> None:
    """At the start: give up. Later something was edited: no call is made until it fits again, and the operator is told."""
    session.log("rung", rung="give_up", parts={p.name: p.tokens for p in parts})
    need, window = sum(p.tokens for p in parts), session.budget.window
    text = f"nothing fits: fixed parts, reserve and the smallest observation need {need:,} tokens, the window has {window:,}"
    if session.answers:
        most = max(parts, key=lambda p: p.tokens)
        _stand_still(session, now, f"{text} (most of it: {most.name}, {most.tokens:,}); no call is made until that is mended")
        return
    session.emit(fx.Page(text=text))
    session.emit(fx.End(code=EXIT_MISCONFIGURED, message=text, parts=parts))
    session.move(Cause.GIVEN_UP)


def _not_without(session: Session, now: float, names: list[str]) -> None:
    """Something is missing that no request may lack: no call is made."""
    session.log("fixed field missing", names=names)
    _stand_still(session, now, f"no call is made without its fixed fields, and these are missing: {', '.join(names)}")


def _stand_still(session: Session, now: float, text: str) -> None:
    if not session.outages:
        session.emit(fx.Page(text=text))
    session.outages += 1
    resting.wait(session, now, session.settings.outage_max_s)


# ------------------------------------------------------------ the request
def _call(session: Session, event: ev.Prepared) -> None:
    body = _body(session, event, session.messages)
    if found := _problems(session, body):
        session.log("repair", problems=found[:5])
        whole = mended(session.messages, session.count)
        if _problems(session, _body(session, event, whole)):
            why = "the conversation could not be mended"
            if session.bare:
                resting.abandon(session, event.now, why, forget=True)
            else:
                fitting.must_reset(session, why)
            return
        session.edit(whole)
        body = _body(session, event, whole)
    if gone := lacking(body, event.fixed):
        _not_without(session, event.now, gone)
        return
    raw, warm = session.fixed_raw + session.tokens, session.warm
    session.warm = sum(len(m.blocks) for m in session.messages) + (1 if session.record_block else 0)
    session.raw_sent, session.cap_sent = raw, int(body["max_tokens"])
    estimate, room = session.calibration.estimate(raw), fitting.room_of(session)
    sizes = {"high": room.high, "limit": room.limit, "record_room": room.record, "cap": session.cap_sent, "warm": warm}
    session.log("request", raw=raw, estimate=estimate, history=session.tokens, **sizes)
    if session.unsaved:
        session.checkpoint()
    session.emit(fx.CallModel(op=session.next_op(), turn=session.turn, step=session.step, body=body, raw=raw, estimate=estimate))
    session.expect(Owed.ANSWER)


def _problems(session: Session, body: Mapping[str, Any]) -> list[str]:
    return problems(body["messages"], prefill=session.pauses > 0)


def _body(session: Session, event: ev.Prepared, messages: tuple[Message, ...]) -> dict[str, Any]:
    return request(
        session.shape,
        event.fixed,
        session.record_block,
        messages,
        max_tokens=output_cap(session, session.fixed_raw + session.tokens, boosted=session.boosted),
        tail=event.tail,
        warm=session.warm,
    )


def output_cap(session: Session, raw: int, *, boosted: bool) -> int:
    """Output tokens to ask for beside `raw` tokens of input; twice as many as usual after an answer that was cut off."""
    cap = spending.output(session, session.budget.reserve)
    if boosted:
        cap = min(cap * 2, max(cap, session.budget.window - session.calibration.estimate(raw)))
    return min(n for n in (cap, session.output_seen, session.output_guess, spending.most_output(session)) if n)
