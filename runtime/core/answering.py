"""What a model call came back as, and what follows from it.

Invariants: nothing half-written is executed or spoken; what a request was rejected for is changed before the next one, by an ever stronger
remedy, and when there is none left the turn is let go; an answer wipes the slate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import effects as fx
from . import events as ev
from . import resting, searches, spending
from .asking import output_cap
from .fence import fenced
from .fitting import must_reset
from .messages import Block, Kind, Message, result_block, text_block, uses_of
from .pending import Pending
from .repair import THINKING, blocks_of_answer, unanswered, without_thinking
from .turns import Cause
from .values import HISTORY_FAULTS, OPERATOR_FAULTS, Answer, Failure, Fault, Stop

if TYPE_CHECKING:
    from .session import Session

EXIT_MODEL_REFUSED = 5
GIST_CHARS = 220
LONGEST_WAIT_S = 300.0  # however long the provider asks to stay away
PAUSES = 3
SMALLEST_WINDOW = 1024  # a provider's figure below this is a mistake of its own
SMALLEST_ANSWER = 32
RELAXED, FASTER, MOST_RELAXED = 0.03, 1.5, 0.5  # what the first answer adds to a learned ceiling, by what each next one adds more, at most
# What was tried against rejections of the history in a row, each stronger than the one before.
THINKING_DROPPED, SET_ASIDE, RESET = 1, 2, 3


def returned(session: Session, event: ev.ModelReturned) -> None:
    """The model call under way has ended."""
    outcome = event.outcome
    if isinstance(outcome, Failure):
        _failed(session, event.now, outcome)
        return
    if not any(searches.is_part(raw) for raw in outcome.content):  # then the provider read the request once more for each search
        session.calibration = session.calibration.measured(session.raw_sent, outcome.usage.total_input)
    session.answers += 1
    session.remedy = session.too_long = session.refused = session.outages = 0
    spending.reached(session, event.now)
    _relax(session)
    match outcome.stop:
        case Stop.MAX_TOKENS:
            _cut_off(session, event.now)
        case Stop.PAUSE_TURN:
            _paused(session, event.now, outcome, event.event)
        case _:
            _answered(session, event.now, outcome, event.event)


def _relax(session: Session) -> None:
    """A ceiling taught by rejections rises again with what is taken: the text may have been strange, not the window small.

    The longer nothing is rejected the faster it rises: an endpoint that was wrong about a size must not make an NPC live in a keyhole.
    """
    if session.ceiling:
        session.relaxing = min(MOST_RELAXED, session.relaxing * FASTER or RELAXED)
        session.ceiling = int(session.ceiling * (1 + session.relaxing)) + 1
        if session.ceiling * session.calibration.factor >= session.budget.usable:
            session.ceiling = 0


# ------------------------------------------------------------ answers
def _blocks(session: Session, answer: Answer, event: int) -> tuple[Block, ...]:
    taken = {str(u.data["id"]) for m in session.messages for u in uses_of(m)}
    blocks = blocks_of_answer(
        answer.content, taken, session.count, event=event, open_ids=searches.open_ids(session.messages),
        paused=answer.stop is Stop.PAUSE_TURN,
    )  # fmt: skip
    if session.shape.tail_as_system:
        # Thinking is bound to all that stood before it, and the tail that stood there is gone in the next request: it would be refused.
        blocks = tuple(b for b in blocks if b.data.get("type") not in THINKING)
    return tuple(replace(b, gist=(f"I: {' '.join(b.text.split())[:GIST_CHARS]}",)) if b.kind is Kind.SAID else b for b in blocks)


def _answered(session: Session, now: float, answer: Answer, event: int) -> None:
    blocks = _blocks(session, answer, event)
    if answer.stop is Stop.STOP_SEQUENCE:
        blocks = tuple(b for b in blocks if b.kind is not Kind.TOOL_USE)  # whatever stopped it may have stopped it half-way
    if any(b.kind is not Kind.OTHER for b in blocks):
        session.append(Message("assistant", blocks, session.turn))
    session.step += 1
    if uses := [b for b in blocks if b.kind is Kind.TOOL_USE]:
        _run_tools(session, now, uses, answer)
        return
    if spoken := "\n".join(b.text for b in blocks if b.kind is Kind.SAID):
        session.emit(fx.Speak(turn=session.turn, text=spoken, event=event))
    else:
        session.log("empty answer")
    resting.end_turn(session, now, resting.DONE)


def _run_tools(session: Session, now: float, uses: list[Block], answer: Answer) -> None:
    invalid = [raw.get("_invalid") for raw in answer.content if raw.get("type") == "tool_use"]
    calls = tuple(
        fx.Call(id=str(u.data["id"]), name=str(u.data["name"]), arguments=u.data["input"], invalid=bad)
        for u, bad in zip(uses, invalid, strict=True)
    )
    session.pending = {c.id: Pending() for c in calls}
    session.move(Cause.TOOLS_ASKED)
    session.tools_op = session.next_op()
    session.checkpoint()  # the intent is stored before anything runs
    session.emit(fx.RunTools(op=session.tools_op, turn=session.turn, step=session.step, calls=calls))
    session.timer_at("tools", now + session.settings.act_s)


def _cut_off(session: Session, now: float) -> None:
    """The answer hit its limit: nothing of it is used, one more try with twice the room, if there is any."""
    session.log("truncated", max_tokens=session.cap_sent, boosted=session.boosted)
    session.output_guess = 0  # it is too little, so look again how much there may be
    if output_cap(session, session.raw_sent, boosted=True) <= session.cap_sent:
        resting.end_turn(session, now, f"your answer was cut off at {session.cap_sent} tokens, be brief")
        return
    session.boosted = True
    session.ask("again", drain=False)


def _paused(session: Session, now: float, answer: Answer, event: int) -> None:
    """To be gone on with by sending it back as it is."""
    session.pauses += 1
    blocks = _blocks(session, answer, event)
    something = any(b.kind in (Kind.SAID, Kind.SERVED) for b in blocks)
    if session.pauses > PAUSES or not something or any(b.kind is Kind.TOOL_USE for b in blocks):
        resting.end_turn(session, now, "paused too often")
        return
    session.append(Message("assistant", blocks, session.turn))
    session.ask("again", drain=False)


# ------------------------------------------------------------ failures
def _failed(session: Session, now: float, failure: Failure) -> None:
    session.log("model failure", fault=str(failure.fault), message=failure.message, status=failure.status)
    fault = failure.fault
    if fault is Fault.TOO_LONG:
        _rejected_size(session, now, failure)
    elif fault in HISTORY_FAULTS:
        _rejected_content(session, now, fault)
    elif fault is Fault.OUTPUT_LIMIT:
        _rejected_cap(session, now, failure)
    elif fault in OPERATOR_FAULTS:
        _needs_operator(session, now, failure)
    elif fault is Fault.TRANSIENT:
        session.outages += 1
        resting.wait(session, now, max(resting.backoff(session, session.outages), _asked_to_wait(failure)))
    else:
        resting.abandon(session, now, str(fault))


def _asked_to_wait(failure: Failure) -> float:
    return min(LONGEST_WAIT_S, failure.retry_after_s or 0.0)


def _needs_operator(session: Session, now: float, failure: Failure) -> None:
    """A key that is refused at the start ends the session; later it waits for the operator, who is told once."""
    if not session.answers:
        session.emit(fx.End(code=EXIT_MODEL_REFUSED, message=failure.message))
        session.move(Cause.GIVEN_UP)
        return
    if not session.outages:
        session.emit(fx.Page(text=f"the model endpoint wants the operator: {failure.message}"))
    session.outages += 1
    resting.wait(session, now, max(session.settings.operator_s, _asked_to_wait(failure)))


def _rejected_size(session: Session, now: float, failure: Failure) -> None:
    """The provider outranks the estimate: learn, go a rung further, never the same request again."""
    usage = failure.usage
    actual = failure.prompt_tokens or (usage.total_input if usage else None)
    session.calibration = session.calibration.rejected(session.raw_sent, actual)
    # Input and output together reached the window: that is how large it is.
    limit = failure.limit or (usage.total_input + usage.output_tokens if usage else 0)
    if SMALLEST_WINDOW <= limit < session.budget.window:
        session.window_seen = limit
        session.log("window learned", tokens=limit)
    session.too_long += 1
    session.refused = session.tokens
    session.ceiling = int(session.raw_sent * (0.85 if session.too_long == 1 else 0.6))
    session.relaxing = 0.0
    session.checkpoint()
    if session.too_long > 2 and not session.bare:
        must_reset(session, "the provider says that it is too long, however it is cut")
    elif session.too_long > 3:
        resting.abandon(session, now, "too long, however small", forget=True, carry=True)
    else:
        session.ask("again", drain=False)


def _rejected_content(session: Session, now: float, fault: Fault) -> None:
    """Something in the history is not taken: drop thinking, set the newest item aside, reset, then let the turn go."""
    session.unsaved = True
    if session.remedy < THINKING_DROPPED:
        session.remedy = THINKING_DROPPED
        slim = without_thinking(session.messages)
        if slim is not session.messages:
            session.edit(slim)
            session.log("thinking dropped", why=str(fault))
            session.ask("again", drain=False)
            return
    if session.remedy < SET_ASIDE:
        session.remedy = SET_ASIDE
        if _set_aside(session, str(fault)):
            session.ask("again", drain=False)
            return
    if session.remedy < RESET:
        session.remedy = RESET
        must_reset(session, f"the provider rejects the conversation ({fault})")
        return
    resting.abandon(session, now, f"rejected even after a reset ({fault})", forget=True)


def _set_aside(session: Session, why: str) -> bool:
    """Replace what was not answered yet by neutral stubs that say where the whole of it is; whether there was anything to replace."""
    first = unanswered(session.messages)
    newest = session.messages[first:]
    slim = [m.having(_stubs(session, m)) for m in newest]
    if [b.data for m in slim for b in m.blocks] == [b.data for m in newest for b in m.blocks]:
        return False
    session.edit((*session.messages[:first], *(m for m in slim if m.blocks)))
    session.log("set aside", blocks=sum(len(m.blocks) for m in newest), why=why)
    return True


def _stubs(session: Session, message: Message) -> list[Block]:
    blocks: list[Block] = []
    for block in message.blocks:
        where = f"event {block.event}" if block.event else "the log"
        if block.kind is Kind.TOOL_RESULT:
            text = f"[this output was set aside, unread: {where}]"
            blocks.append(result_block(str(block.data["tool_use_id"]), text, session.count, error=True, event=block.event))
        elif block.kind in (Kind.OBSERVATION, Kind.OUTCOME):
            text = fenced("Set aside, unread.", event=block.event, kind="notice", source="runtime")
            blocks.append(text_block(block.kind, text, session.count, event=block.event))
        elif block.kind not in (Kind.RECALLED, Kind.NOTEBOOK):
            blocks.append(block)
    return blocks


def _rejected_cap(session: Session, now: float, failure: Failure) -> None:
    """The model cannot write that much at once: ask for less, for ever where it told its limit."""
    if failure.limit and SMALLEST_ANSWER <= failure.limit < session.cap_sent:
        session.output_seen = failure.limit
    elif session.cap_sent // 2 >= SMALLEST_ANSWER:
        session.output_guess = session.cap_sent // 2
    else:
        resting.abandon(session, now, str(failure.fault))
        return
    session.unsaved = True
    session.ask("again", drain=False)
