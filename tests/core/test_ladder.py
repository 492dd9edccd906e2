"""The ladder over generated histories. Rows: P2, P3, P4, P5, P6, P7, P9, P10, P13."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.core.budget import Room
from runtime.core.ladder import Verdict, descend
from runtime.core.messages import Kind, Message, text_block
from runtime.core.rungs import LADDER, Goal, Parts, hard_reset

from .examples import examples
from .histories import FLOOR, RULE, assert_paired, assert_valid, count, histories, observed, parts_of, sent

MARKER = (
    "[context reset: number 12; earlier conversation removed, whole in the event log up to event 123456; "
    "your diary has an entry about it]"
)

limits = st.sampled_from((FLOOR, 150, 300, 700, 1_500, 4_000, 12_000, 40_000))


@st.composite
def rooms(draw: st.DrawFn) -> Room:
    limit = draw(limits)
    high = draw(st.sampled_from((0.3, 0.6, 0.9)))
    low = draw(st.sampled_from((0.05, 0.12, 0.25)))
    return Room(limit=limit, high=int(limit * high), low=int(limit * low), record=max(80, min(int(limit * 0.05), 600)))


def tails(parts: Parts) -> int:
    return sum(b.tokens for m in parts.messages if m.turn == parts.turn for b in m.blocks if b.kind is Kind.TAIL)


@examples(250)
@given(histories(), rooms(), st.booleans())
def test_a_pass_fits_or_asks_for_the_reset(parts: Parts, room: Room, opening: bool) -> None:
    """P9: one pass, each rung at most once and in order, every rung that is not a failure frees something; the request stays valid."""
    result = descend(parts, room, opening=opening)
    names = [c.rung for c in result.climbs]
    order = [name for name, _ in LADDER]
    assert names == [name for name in order if name in names]
    size = parts.tokens
    for climb in result.climbs:
        assert climb.before == size
        assert climb.failed or climb.after < climb.before
        size = climb.after
    assert result.parts.tokens == size <= parts.tokens
    assert (result.verdict is Verdict.RESET) == (size > room.limit)
    assert_paired(result.parts.messages)
    assert_valid(result.parts)


@examples(150)
@given(histories(), rooms(), st.booleans())
def test_below_the_mark_nothing_is_touched(parts: Parts, room: Room, opening: bool) -> None:
    """P10: the identity, object for object and byte for byte; above the mark the ladder runs."""
    result = descend(parts, room, opening=opening)
    mark = room.high if opening else room.limit
    assert (result.verdict is Verdict.UNTOUCHED) == (parts.tokens <= mark)
    if parts.tokens <= mark:
        assert result.parts is parts
        assert not result.climbs


@examples(150)
@given(histories(), rooms())
def test_what_the_current_turn_was_told_stays_whole(parts: Parts, room: Room) -> None:
    """P9: rungs 1 to 4 never touch an observation of the current turn."""
    result = descend(parts, room, opening=True)
    told = [b for m in parts.messages if m.turn == parts.turn for b in m.blocks if b.kind is Kind.OBSERVATION]
    kept = {id(b) for m in result.parts.messages for b in m.blocks}
    assert all(id(b) in kept for b in told)


@examples(150)
@given(histories(), rooms())
def test_after_a_pass_the_next_turn_is_left_alone(parts: Parts, room: Room) -> None:
    """P10, D09: what a pass brought down to is a fixed point: the same pass again changes nothing."""
    once = descend(parts, room, opening=True)
    if once.verdict is not Verdict.FITS:
        return
    again = descend(once.parts, room, opening=True)
    assert [c for c in again.climbs if not c.failed] == []
    assert again.parts.messages == once.parts.messages


def test_the_low_mark_is_meant_for_what_is_old() -> None:
    """P9, P10: a large observation that fits does not cost the turns before it: they come down to the low mark, and no further."""
    past = [m for number in range(1, 30) for m in built_turn(number)]
    now = Message("user", (observed(8_000, 900),), 30)
    parts = parts_of([*past, now], turn=30)
    room = Room(limit=parts.tokens - 10, high=2_600, low=600, record=80)
    after = descend(parts, room, opening=True).parts
    old = after.tokens - now.tokens
    assert 300 < old <= 600


def test_recall_is_shed_for_the_hard_limit_only() -> None:
    """P6: what the turn was given to think with stays, as long as it fits at all, even where the low mark is out of reach."""
    recalled = text_block(Kind.RECALLED, "you once met Bob", count)
    now = Message("user", (recalled, observed(4_000, 1)), 2)
    old = Message("user", (observed(2_000, 1),), 1)
    parts = parts_of([old, *built_turn(1)[1:], now], turn=2)
    room = Room(limit=parts.tokens - 20, high=500, low=10, record=80)
    assert recalled in descend(parts, room, opening=True).parts.messages[-1].blocks
    less = Room(limit=now.tokens - 2, high=500, low=10, record=80)
    assert recalled not in descend(parts, less, opening=True).parts.messages[-1].blocks


def built_turn(number: int) -> list[Message]:
    said = text_block(Kind.SAID, "Well met.", count)
    return [Message("user", (observed(200, number),), number), Message("assistant", (said,), number)]


@examples(250)
@given(histories(), limits)
def test_a_hard_reset_always_fits(parts: Parts, limit: int) -> None:
    """P7, P9: behind its marker only the current turn's observation stays; pending results become part of it; it fits whatever it held."""
    limit += tails(parts)
    step = hard_reset(parts, Goal(want=limit, limit=limit), marker=MARKER)
    after = step.parts
    assert after.tokens <= limit
    assert len(after.messages) == 1
    assert after.record_block is None
    first = after.messages[0].blocks[0]
    assert first.kind is Kind.MARKER
    assert first.text.startswith("[context reset: ")
    assert_valid(after)
    shown = "\n".join(b.text for b in after.messages[0].blocks)
    newest = [b for m in parts.messages[parts.current :] for b in m.blocks if b.kind is Kind.OBSERVATION][-1]
    assert newest.text in shown or "characters cut here" in shown, "the newest observation is neither whole nor cut by name"


@examples(100)
@given(histories(), limits)
def test_a_hard_reset_keeps_whole_what_fits(parts: Parts, limit: int) -> None:
    """P9: where all that the current turn was told fits behind the marker, nothing of it is cut."""
    limit += tails(parts)
    told = [b for m in parts.messages[parts.current :] for b in m.blocks if b.kind is Kind.OBSERVATION]
    results = [b for b in parts.messages[-1].blocks if b.kind is Kind.TOOL_RESULT]
    need = sum(b.tokens for b in told) + sum(b.tokens + 40 for b in results) + 60
    shown = [b.text for b in hard_reset(parts, Goal(want=limit, limit=limit), marker=MARKER).parts.messages[0].blocks]
    if need + tails(parts) <= limit:
        assert all(b.text in shown for b in told)
        assert all(any(b.text in t for t in shown) for b in results)


@examples(60)
@given(histories(), rooms())
def test_the_rule_stands_in_every_request(parts: Parts, room: Room) -> None:
    """T1: whatever the ladder does, the rule is there word for word."""
    result = descend(parts, room, opening=True)
    assert any(RULE in b["text"] for b in sent(result.parts)["system"])
