"""Mending what a model, a crash or a trim broke. Rows: P13, C2, C3, C4. Cases: B02, B09, B12."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.core.layout import Shape, request
from runtime.core.messages import Block, Kind, Message, make_block, result_block, results_of, text_block, uses_of
from runtime.core.repair import CUT_SHORT, UNKNOWN_OUTCOME, blocks_of_answer, joined, mended, problems, without_thinking
from runtime.core.rungs import Parts

from .examples import examples
from .histories import count, fixed_part, histories


def use(use_id: str, name: str = "look") -> Block:
    return make_block(Kind.TOOL_USE, {"type": "tool_use", "id": use_id, "name": name, "input": {}}, count)


def result(use_id: str, text: str = "seen") -> Block:
    return result_block(use_id, text, count, event=5)


def text(words: str, kind: Kind = Kind.OBSERVATION) -> Block:
    return text_block(kind, words, count)


def thought() -> Block:
    return make_block(Kind.OTHER, {"type": "thinking", "thinking": "hm", "signature": "sig"}, count)


def problems_of(messages: tuple[Message, ...]) -> list[str]:
    return problems(request(Shape(model="m"), fixed_part(), None, messages, max_tokens=9)["messages"], prefill=True) if messages else []


_ids = st.sampled_from(("a", "b", "c"))
_blocks = st.one_of(
    st.builds(use, _ids),
    st.builds(result, _ids),
    st.builds(text, st.sampled_from(("hello", " ", "\n")), st.sampled_from((Kind.OBSERVATION, Kind.SAID))),
    st.builds(thought),
)
_messages = st.builds(
    Message,
    st.sampled_from(("user", "assistant")),
    st.lists(_blocks, max_size=4).map(tuple),
    st.integers(1, 3),
)


@examples(300)
@given(st.lists(_messages, max_size=10))
def test_whatever_was_broken_is_mended(messages: list[Message]) -> None:
    """P13: nothing that the API refuses is left, and mending twice changes nothing."""
    whole = mended(messages, count)
    assert problems_of(whole) == []
    assert mended(whole, count) == whole


@examples(100)
@given(histories(), st.binary(min_size=20, max_size=20))
def test_no_real_result_is_lost(parts: Parts, holes: bytes) -> None:
    """P13: of a history with holes, every result whose call is still there stays the very block that it was."""
    torn = []
    for n, message in enumerate(parts.messages):
        kept = [b for k, b in enumerate(message.blocks) if b.kind is not Kind.TOOL_RESULT or holes[(n + k) % 20] % 3]
        torn.append(message.having(kept))
    torn = [m for n, m in enumerate(torn) if m.blocks and (results_of(m) or n == 0 or holes[n % 20] % 5)]
    calls = {str(u.data["id"]) for m in torn for u in uses_of(m)}
    real = [b for m in torn for b in results_of(m) if str(b.data["tool_use_id"]) in calls]
    whole = mended(torn, count)
    kept_ids = {id(b) for m in whole for b in m.blocks}
    assert all(id(b) in kept_ids for b in real)
    assert problems_of(whole) == []


@examples(100)
@given(histories())
def test_what_is_whole_is_not_touched(parts: Parts) -> None:
    """P10: the very same objects, so that not a byte of the prefix moves."""
    assert all(a is b for a, b in zip(mended(parts.messages, count), parts.messages, strict=True))


def test_one_real_and_two_synthetic_results() -> None:
    """B02 (remote-swe-agents 420): of three parallel calls one has its result: it stays, two errors are made, all in call order."""
    calls = Message("assistant", (use("a"), use("b"), use("c")), 1)
    messages = [Message("user", (text("go"),), 1), calls, Message("user", (result("b"),), 1)]
    whole = mended(messages, count)
    answer = whole[2]
    assert [b.data["tool_use_id"] for b in answer.blocks] == ["a", "b", "c"]
    assert answer.blocks[1] is messages[2].blocks[0]
    assert [b.data.get("is_error") for b in answer.blocks] == [True, None, True]
    assert answer.blocks[0].text == UNKNOWN_OUTCOME


def test_results_behind_a_word_still_count() -> None:
    """P13: a result that came after other words of the user's is still the result of its call."""
    late = result("a")
    said = [Message("user", (text("go"),), 1), Message("assistant", (use("a"),), 1)]
    whole = mended([*said, Message("user", (text("wait"),), 1), Message("user", (late,), 1)], count)
    assert whole[2].blocks == (late,)
    assert [b.text for m in whole[3:] for b in m.blocks] == [CUT_SHORT, "wait"]


def test_blank_text_is_dropped_and_nothing_empty_is_kept() -> None:
    """B09 (buzz 559): empty content, blank text beside a call, blank text alone: the next request is valid each time."""
    assert blocks_of_answer((), set(), count) == ()
    assert blocks_of_answer(({"type": "text", "text": " \n"},), set(), count) == ()
    empty, blank = (make_block(Kind.SAID, {"type": "text", "text": words}, count) for words in ("", " \n"))
    for blocks in ((), (empty, use("a")), (blank,)):
        messages = (Message("user", (text("go"),), 1), Message("assistant", blocks, 1), Message("user", (text("and now?"),), 2))
        assert problems_of(mended(messages, count)) == []


def test_signed_thinking_stays_as_it_came_or_goes_whole() -> None:
    """B12 (claude-code 63203): an answer that needs no edit is replayed byte for byte; where a block is cleaned, thinking goes."""
    signed = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "gate"}}
    whole = blocks_of_answer((signed, {"type": "text", "text": "I look."}, call), set(), count)
    assert [dict(b.data) for b in whole] == [signed, {"type": "text", "text": "I look."}, call]
    for content in ((signed, {"type": "text", "text": ""}, call), (signed, {**call, "input": "half"}), (signed, {**call, "id": "b"})):
        assert all(b.kind is not Kind.OTHER for b in blocks_of_answer(content, {"b"}, count))
    history = (Message("user", (text("go"),), 1), Message("assistant", whole, 1), Message("user", (result("a"),), 1))
    assert [b.kind for b in without_thinking(history)[1].blocks] == [Kind.SAID, Kind.TOOL_USE]
    plain = history[:1]
    assert without_thinking(plain) is plain


def test_ids_and_names_become_what_the_api_takes() -> None:
    """P13: missing, doubled and odd ids are renamed, odd names cleaned, arguments that are no object become empty."""
    content: list[dict[str, Any]] = [{"type": "tool_use", "id": i, "name": "odd name!", "input": None} for i in ("a", "a", "", "x:1", "a")]
    taken = {"a"}
    blocks = blocks_of_answer(content, taken, count)
    ids = [str(b.data["id"]) for b in blocks]
    assert len({*ids, "a"}) == 6
    assert all(i.replace("_", "").isalnum() for i in ids)
    assert {(b.data["name"], str(b.data["input"])) for b in blocks} == {("odd_name_", "{}")}


def test_words_never_follow_tool_results() -> None:
    """C3: a user message that follows results is kept apart from them by a placeholder; other messages simply follow."""
    history = (Message("user", (text("go"),), 1), Message("assistant", (use("a"),), 1), Message("user", (result("a"),), 1))
    after = joined(history, Message("user", (text("more"),), 2), count)
    assert [m.role for m in after] == ["user", "assistant", "user", "assistant", "user"]
    assert uses_of(after[3]) == []
    assert joined(history[:1], Message("user", (text("more"),), 2), count)[1:] == (Message("user", (text("more"),), 2),)


def test_the_last_look_finds_what_the_api_would_refuse() -> None:
    """P13: each kind of refusal is found."""
    ok = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "n", "input": {}}]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "y"}]}
    tail = {"role": "system", "content": [{"type": "text", "text": "t"}]}
    assert problems([ok, call, answer, tail]) == []
    hollow = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": " "}]}]}
    late = {"role": "user", "content": [*ok["content"], *answer["content"]]}
    broken: list[list[dict[str, Any]]] = [
        [], [call, answer], [ok, call], [ok, answer], [ok, call, ok], [ok, call, answer, call, answer], [ok, call, hollow],
        [ok, call, late], [ok, call, answer, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}], [tail],
        [{"role": "user", "content": []}],
        [{"role": "user", "content": [{"type": "text", "text": "\n"}]}], [{"role": "user", "content": [{"type": "thinking"}]}],
    ]  # fmt: skip
    assert [b for b in broken if not problems(b)] == []
