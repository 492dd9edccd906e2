"""An answer is the same however its bytes were cut (row C2)."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.model.incoming import LARGEST_ANSWER, EventBytes, GarbledError, Incoming, clean, mend
from tests.model.endpoint import event, start, stop, text, tool

SCRIPT = b"".join((start(), event("ping"), *text("Hällo ", "小雨 😂"), *tool('{"text": "\\u5c0f', ' rain"}', index=1), *stop("tool_use")))


def read(chunks: list[bytes]) -> Incoming:
    events, message = EventBytes(), Incoming()
    for chunk in chunks:
        for data in events.feed(chunk):
            message.take(json.loads(data))
    return message


@given(st.lists(st.integers(0, len(SCRIPT)), max_size=40), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_cut_of_the_bytes_gives_the_same_answer(cuts: list[int], newline: bytes) -> None:
    script = SCRIPT.replace(b"\n", newline)
    edges = [0, *sorted(cut * len(newline) for cut in cuts), len(script)]
    message = read([script[a:b] for a, b in itertools.pairwise(edges)])
    assert message.ended
    assert message.content() == [
        {"type": "text", "text": "Hällo 小雨 😂"},
        {"type": "tool_use", "id": "toolu_1", "name": "say", "input": {"text": "小 rain"}},
    ]


@given(st.integers(0, len(SCRIPT) - 1))
def test_an_answer_cut_anywhere_does_not_say_that_it_is_whole(cut: int) -> None:
    assert not read([SCRIPT[:cut]]).ended


@given(st.text() | st.text(st.characters(categories=["Cs"])))
def test_mended_text_can_always_be_sent(spoken: str) -> None:
    mended = mend(spoken)
    assert json.loads(json.dumps(mended, ensure_ascii=False).encode()) == mended
    if not any(0xD800 <= ord(character) < 0xE000 for character in spoken):
        assert mended == spoken


def test_keys_are_mended_too() -> None:
    assert clean({"\ud800": ["\ud83d\ude00", 1, None]}) == {"\ufffd": ["😀", 1, None]}


def test_an_endless_stream_is_ended() -> None:
    """It must not fill the memory of every other NPC in the process."""
    half = b":" * (LARGEST_ANSWER // 2 + 1)
    with pytest.raises(GarbledError):
        read([half, half])
