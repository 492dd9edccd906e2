"""Plain observations that travel together (W2, W5): the quick way through the door gives what the careful way gives, or nothing."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from world_adapter import ops
from world_adapter.codec import JSON, MSGPACK, Codec
from world_adapter.frames import KINDS, SPEAKER_KINDS, Batch, Observation
from world_adapter.runs import Run

IDS = st.sampled_from(["p1", "mill:3", "", "x" * 128, "x" * 129, "two words", "naïve", "a\nb", "Ω"])
NAMES = st.sampled_from(["Bob", "Old Tom", "", "n" * 80, "n" * 81, 'a"b', "два слова", " x", "a\u200bb"])
TEXTS = st.text(max_size=12) | st.sampled_from(["plain", "tab\tand\nline", "nul\x00", "bell\x07", "c1\x85", "小雨", "😂", "x" * 5_000])
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXTS
SPEAKERS = st.fixed_dictionaries({"id": IDS, "name": NAMES, "kind": st.sampled_from([*sorted(SPEAKER_KINDS), "root"])}) | NAMES
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "wt": NAMES,
    "data": st.dictionaries(st.sampled_from(["x", "room", "k" * 200, "a\x00"]), SCALARS | st.lists(SCALARS, max_size=2), max_size=3),
    "key": IDS,
    "prio": st.integers(-1, 10) | st.just(2.0),
    "from": SPEAKERS,
    "to": IDS,
    "self": st.booleans() | st.integers(0, 1),
    "colour": st.just("red"),
}
ITEM = st.builds(
    lambda needed, more: {**needed, **more},
    st.fixed_dictionaries(
        {"t": st.floats(0, 2e9) | st.integers(0, 2**64 - 1) | st.floats(), "kind": st.sampled_from([*sorted(KINDS), "odd"]), "text": TEXTS},
    ),
    st.fixed_dictionaries({}, optional=OPTIONAL),
)
PLAIN = st.builds(
    lambda kind, text, key, speaker, data: {"t": 1.5, "kind": kind, "text": text, "key": key, "from": speaker, "data": data},
    st.sampled_from(sorted(KINDS)), st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20), st.sampled_from(["a", "b:2"]),
    st.just({"id": "p1", "name": "Bob", "kind": "player"}), st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 9), max_size=2),
)  # fmt: skip


def both(raw: Any) -> list[tuple[Codec, bytes]]:
    written = json.dumps(raw, default=str).encode()
    return [(MSGPACK, msgpack.packb(raw, unicode_errors="surrogatepass")), (JSON, written)]


def numbered(items: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    return [{"seq": n, **item} for n, item in enumerate(items, first)]


def assert_the_same(codec: Codec, data: bytes) -> bool:
    """Whether the quick way was taken; what it gave, the careful way gives too."""
    run = codec.plain(data)
    if run is None:
        return False
    careful = codec._decode(data, ops.FROM_WORLD)
    assert careful == Batch(items=tuple(run))
    assert isinstance(careful, Batch)
    assert [repr(o) for o in run] == [repr(o) for o in careful.items]  # 1 is not 1.0 and not True
    assert Run.of(careful.items).rows == run.rows
    return True


@settings(max_examples=80)
@given(st.lists(ITEM, min_size=1, max_size=3), st.integers(0, 3) | st.just(2**63 - 2), st.integers(0, 1))
@example([{"t": 1.0, "kind": "speech", "text": "x", "self": False}], 1, 0)
@example([{"t": 2**63, "kind": "speech", "text": "x"}], 1, 0)
def test_the_quick_way_gives_what_the_careful_way_gives(items: list[dict[str, Any]], first: int, gap: int) -> None:
    """W5: over anything that is almost plain, in both codecs, alone and together."""
    found = numbered(items, first)
    found[-1]["seq"] += gap
    for codec, data in [*both({"op": "batch", "items": found}), *both({"op": "obs", **found[0]})]:
        assert_the_same(codec, data)


@settings(max_examples=25)
@given(st.lists(PLAIN, min_size=1, max_size=8), st.integers(1, 1_000))
def test_plain_observations_take_the_quick_way(items: list[dict[str, Any]], first: int) -> None:
    """W2: what worlds send all day."""
    for codec, data in both({"op": "batch", "items": numbered(items, first)}):
        assert assert_the_same(codec, data)


@pytest.mark.parametrize("noise", [b"\xff", b"\xc1", b"\x00"])
def test_broken_bytes_are_for_the_careful_way(noise: bytes) -> None:
    """W5: invalid UTF-8, or half a character, is repaired where it always was."""
    item = {"seq": 1, "t": 1.5, "kind": "speech", "text": "12345678"}
    for codec, data in both({"op": "batch", "items": [item]}):
        broken = data.replace(b"12345678", noise + b"2345678")
        assert codec.plain(broken) is None
        frame = codec.decode_world(broken)
        assert isinstance(frame, Batch)
        assert frame.items[0].text in ("\ufffd2345678", "\u24002345678")


def test_runs_join_and_know_whether_their_numbers_rise() -> None:
    """W3: a gap between two messages is seen though each of them is whole."""
    one, two = (Run.of([Observation(seq=n, t=1.0, kind="speech", text="x") for n in numbers]) for numbers in ([1, 2], [3, 4]))
    assert Run.joined([one, two]).words.rise
    assert not Run.joined([two, one]).words.rise
    assert not Run.joined([one, Run.of([Observation(seq=4, t=1.0, kind="speech", text="x")])]).words.rise
    assert [o.seq for o in Run.joined([one, two])] == [1, 2, 3, 4]
    assert Run.joined([one, two])[1:3] == list(one)[1:] + list(two)[:1]
