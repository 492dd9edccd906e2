"""The rungs one by one, and the shares that they deal out. Rows: P3, P4, P5, P6, P7, P9, P13. Cases: A08, B03, D09."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.budget import Room
from runtime.core.ladder import Verdict, descend
from runtime.core.messages import Kind, Message, make_block, result_block, text_block
from runtime.core.rungs import Goal, Parts, compact, evict_tool_outputs, hard_reset, shed_recall, trim
from runtime.core.sharing import ceiling_for, shares
from runtime.core.tokens import clip

from .examples import examples
from .histories import FLOOR, Source, assert_paired, assert_valid, count, exchange, histories, observed, parts_of, prose

ALL = Goal(want=0, limit=0)


def turn_of(number: int, *, results: tuple[int, ...] = (), said: str = "Well met.") -> list[Message]:
    """A whole old turn: an observation, one exchange with these results, last words."""
    opening = Message("user", (observed(60, number * 10),), number)
    ids = [f"call_{number}_{n}" for n in range(len(results))]
    uses = [make_block(Kind.TOOL_USE, {"type": "tool_use", "id": i, "name": "look", "input": {}}, count) for i in ids]
    given_ = [
        result_block(i, prose(size, f"result{number}"), count, event=number * 10 + 1, gist=(f"looked {number}",))
        for i, size in zip(ids, results, strict=True)
    ]
    words = text_block(Kind.SAID, said, count, event=number * 10 + 2, gist=(f"I: {said}",))
    middle = [Message("assistant", tuple(uses), number), Message("user", tuple(given_), number)] if results else []
    return [opening, *middle, Message("assistant", (words,), number)]


def life(*turns: tuple[int, ...]) -> Parts:
    """Old turns with these results, and a current one that has just been told something."""
    past = [m for number, results in enumerate(turns, start=1) for m in turn_of(number, results=results)]
    now = len(turns) + 1
    return parts_of([*past, Message("user", (observed(60, now * 10),), now)], turn=now)


# ---------------------------------------------------------------- rung 1
def test_an_evicted_output_names_tool_size_and_event() -> None:
    """P3: the stub says what was there and where the whole of it is; what the turn was about stays for later compaction."""
    parts = life((4_000,), (30,))
    step = evict_tool_outputs(parts, ALL)
    stub = step.parts.messages[2].blocks[0]
    size = parts.messages[2].blocks[0].tokens
    assert stub.text == f"[output of look evicted: {size:,} tokens, event 11]"
    assert stub.gist == ("looked 1",)
    assert step.parts.messages[6] is parts.messages[6], "a small result is worth no stub"
    assert step.freed == size - stub.tokens


def test_a_stub_is_never_larger_than_what_it_replaces() -> None:
    """P3: a result just above the size of a stub, of a tool with a long name, stays; evicting twice changes nothing."""
    use = make_block(Kind.TOOL_USE, {"type": "tool_use", "id": "a", "name": "n" * 128, "input": {}}, count)
    old = [
        Message("user", (observed(60, 1),), 1),
        Message("assistant", (use,), 1),
        Message("user", (result_block("a", prose(180, "r"), count, event=2),), 1),
    ]
    parts = parts_of([*old, Message("user", (observed(60, 3),), 2)], turn=2)
    assert evict_tool_outputs(parts, ALL).freed == 0
    once = evict_tool_outputs(life((4_000,)), ALL).parts
    assert evict_tool_outputs(once, ALL).parts is once


def test_eviction_goes_down_to_the_low_mark_in_one_step() -> None:
    """P10, D09: with one more result a turn, the prefix stays on at least four turns of five; never one small eviction a turn."""
    room = Room(limit=4_000, high=2_400, low=480, record=120)
    parts, moved = life(), 0
    for number in range(1, 41):
        now = Message("user", (observed(60, 5_000 + number),), 99)
        parts = parts_of([*parts.messages[:-1], *turn_of(number, results=(900,)), now], turn=99)
        before, parts = parts, descend(parts, room, opening=True).parts
        moved += parts is not before
    assert moved <= 40 / 5


# ---------------------------------------------------------------- rung 2
def test_compaction_keeps_the_talk_and_its_events() -> None:
    """P4, T11: turns become a record that names the range of events and holds what was said; the newest old turn is left."""
    parts = life((4_000,), (4_000,), (4_000,))
    step = compact(parts, ALL)
    assert step.parts.record_block is not None
    text = step.parts.record_block.text
    assert "2 earlier turns, events 10 to 22" in text
    assert "I: Well met." in text
    assert [m.turn for m in step.parts.messages] == [3, 3, 3, 3, 4]


@examples(60)
@given(histories())
def test_the_record_stays_in_its_room(parts: Parts) -> None:
    """P4: however much is compacted, the record takes no more than its room."""
    block = compact(parts, ALL).parts.record_block
    assert block is None or block.tokens <= parts.record_room


# ---------------------------------------------------------------- rung 3
def test_trimming_never_cuts_an_exchange() -> None:
    """B03 (zeroclaw 5264): 20 messages of calls and results, trimmed to every budget from 100 to 20,000 in steps of 37."""
    source = Source(bytes(range(200)))
    sizes = (200, 20_000, 800, 8_000, 2_400, 400, 12_000, 1_600, 4_000, 6_000)  # characters: 50 to 5,000 tokens
    for one_turn in (True, False):
        messages: list[Message] = []
        for number, size in enumerate(sizes, start=1):
            turn = 1 if one_turn else number
            if number == 1 or not one_turn:
                messages.append(Message("user", (observed(60, number),), turn))
            call, result = exchange(source, turn, 1)
            text = prose(size, f"result{number}")
            result = result.having([result_block(str(result.blocks[0].data["tool_use_id"]), text, count, event=number)])
            messages += [call, result]
        parts = parts_of(messages, turn=1 if one_turn else len(sizes))
        for budget in range(100, 20_001, 37):
            after = trim(parts, Goal(want=budget, limit=budget)).parts
            assert_paired(after.messages)
            assert_valid(after)
            assert after.tokens <= max(budget, parts.tokens)


def test_parallel_results_share_one_budget() -> None:
    """A08 (open-webui 27599): three large results of one step are pressed together, the call and its order stay, the request fits."""
    ids = ["a", "b", "c"]
    uses = [make_block(Kind.TOOL_USE, {"type": "tool_use", "id": i, "name": "look", "input": {}}, count) for i in ids]
    results = [
        result_block(i, prose(size, f"r{i}"), count, event=n)
        for n, (i, size) in enumerate(zip(ids, (270_000, 210_000, 190_000), strict=True), start=5)
    ]
    messages = [Message("user", (observed(60_000, 1),), 1), Message("assistant", tuple(uses), 1), Message("user", tuple(results), 1)]
    room = Room(limit=120_000, high=72_000, low=14_000, record=600)
    done = descend(parts_of(messages, turn=1), room, opening=False)
    assert done.verdict is Verdict.FITS
    assert done.parts.tokens <= room.limit
    assert [b.data["tool_use_id"] for b in done.parts.messages[-1].blocks] == ids
    assert all("characters cut here; event" in b.text for b in done.parts.messages[-1].blocks)
    assert_valid(done.parts)


@examples(80)
@given(histories(), st.sampled_from((FLOOR, 400, 2_000, 9_000)))
def test_trim_keeps_pairs_and_the_current_turns_opening(parts: Parts, limit: int) -> None:
    """P5: whole turns and whole exchanges go; the current turn's opening and its newest exchange stay."""
    after = trim(parts, Goal(want=limit // 4, limit=limit)).parts
    assert_paired(after.messages)
    assert_valid(after)
    assert after.messages[after.current] is parts.messages[parts.current]
    assert after.messages[-1].role == parts.messages[-1].role


# ---------------------------------------------------------------- rung 4
def test_recall_is_shed_and_nothing_else() -> None:
    """P6: memories, notebook and record go; what was heard, said and done stays."""
    recalled, notes = text_block(Kind.RECALLED, "you once met Bob", count), text_block(Kind.NOTEBOOK, "notes", count)
    parts = parts_of([Message("user", (recalled, notes, observed(60, 3)), 1)], turn=1, record=True)
    after = shed_recall(parts, ALL).parts
    assert [b.kind for b in after.messages[0].blocks] == [Kind.OBSERVATION]
    assert after.record_block is None
    assert shed_recall(after, ALL).freed == 0


# ---------------------------------------------------------------- rung 5
def test_a_pending_result_becomes_part_of_the_observation() -> None:
    """P7: the call of a pending result is gone after a reset, what it said is not."""
    use = make_block(Kind.TOOL_USE, {"type": "tool_use", "id": "a", "name": "open_door", "input": {}}, count)
    messages = [
        Message("user", (observed(60, 1),), 1),
        Message("assistant", (use,), 1),
        Message("user", (result_block("a", "The door is locked.", count, event=2),), 1),
    ]
    after = hard_reset(parts_of(messages, turn=1), Goal(want=500, limit=500), marker="[context reset: test]").parts
    assert [b.kind for b in after.messages[0].blocks] == [Kind.MARKER, Kind.OBSERVATION, Kind.OUTCOME]
    told = '<observation event="2" kind="result, whose call is gone" source="open_door">\nThe door is locked.\n</observation>'
    assert after.messages[0].blocks[2].text == told
    again = hard_reset(after, Goal(want=60, limit=60), marker="[context reset: test]").parts
    assert again.messages[0].blocks[1].event == 1, "the observation is the last to go, also in a second cut"


# ---------------------------------------------------------------- shares
@examples(300)
@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=12), st.integers(1, 6_000), st.integers(8, 60), st.data())
def test_shares_fit_the_room(sizes: list[int], room: int, least: int, data: st.DataObject) -> None:
    """P9: shares sum to the room at most; the first is never left out, and whole if it fits; others are whole, cut to a least, or out."""
    order = data.draw(st.permutations(range(len(sizes))))
    given_ = shares(sizes, order, room, least=least)
    assert sum(given_) <= room
    first = order[0]
    assert given_[first] == sizes[first] or (sizes[first] > room and given_[first] >= min(least, room))
    assert all(g in (0, size) or g >= min(least, room) for g, size in zip(given_, sizes, strict=True))


@pytest.mark.parametrize(("sizes", "target", "ceiling"), [([10, 20, 900], 130, 100), ([500, 500], 200, 100), ([5, 6], 100, 6), ([], 10, 0)])
def test_one_ceiling_takes_from_the_large(sizes: list[int], target: int, ceiling: int) -> None:
    """P9: small ones stay whole, large ones share what is left."""
    assert ceiling_for(sizes, target, least=8) == ceiling


@examples(200)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=400), st.integers(1, 40), st.integers(40, 900))
def test_a_cut_is_named_and_fits(text: str, repeat: int, tokens: int) -> None:
    """P9: a clipped text is never larger than asked for, keeps head and tail and says where the rest is."""
    whole = text * repeat
    cut = clip(whole, tokens, count, event=7)
    assert count(cut) <= tokens
    if cut != whole:
        assert "characters cut here; event 7 has all of it" in cut
        head = cut.partition("\n[... ")[0]
        assert whole.startswith(head)
