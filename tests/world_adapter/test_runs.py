"""Plain observations that travel together (W2, W5): the quick way through the door gives what the careful way gives, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npc.told import from_journal
from runtime.store import events
from world_adapter import cleaning, ops
from world_adapter.codec import JSON, MSGPACK, Codec
from world_adapter.frames import KINDS, SPEAKER_KINDS, Batch, Observation
from world_adapter.runs import KEPT, PART, Run

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
    assert_kept(run, careful.items)
    return True


def assert_kept(run: Run, items: Sequence[Observation]) -> None:
    """What goes to the disk, as it came or written anew, is read back as the same."""
    stored = [(number, events.of_row(10**6, 0.0, 0, "observation", data)) for number, data in run.parts()]
    assert [number for number, _ in stored] == [len(row) for _, row in stored]
    read = [from_journal(event.data) for _, row in stored for event in row]
    assert [repr(o) for o in read] == [repr(o) for o in items]
    assert run.parts() == run.parts()


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


def plain(first: int, number: int) -> list[dict[str, Any]]:
    return [{"seq": n, "t": n, "kind": "speech", "text": f"line {n}", "from": None, "self": False} for n in range(first, first + number)]


@pytest.mark.parametrize("sizes", [[1] * 100, [15, 16, 17], [47, 1, 300, 2], [100, 100], [65_536], [192, 193]])
def test_what_came_packed_is_kept_as_it_came_whatever_the_sizes(sizes: list[int]) -> None:
    """W2: frames of any size, joined, cut and marked, are on disk what they were on the wire."""
    runs, first = list[Run](), 1
    for size in sizes:
        frame = MSGPACK.decode_world(msgpack.packb({"op": "batch", "items": plain(first, size)}))
        assert isinstance(frame, Batch)
        assert isinstance(frame.items, Run)
        runs.append(frame.items)
        first += size
    other = Run.of([Observation(seq=first, t=1.0, kind="notice", text="x")])
    run = Run.joined([Run.joined(runs[:2]), *runs[2:], other])
    assert_kept(run, list(run))
    assert all(1 <= number <= KEPT + PART for number, _ in run.parts())
    assert sum(1 for number, _ in run.parts() if number < PART) <= 1 + len(sizes)
    cut = run[1:-1]
    assert_kept(cut, list(cut))
    marked = run.owned([0, len(run) - 1])
    assert_kept(marked, list(marked))
    assert [o.own for o in marked] == [True, *[False] * (len(run) - 2), True]


@pytest.mark.parametrize("text", ["plain", "tab\t\r\n", *map(chr, [*range(32), 0x7F, 0x80, 0x9F, 0xA0, 0x2028, 0x1F602])])
def test_what_is_said_to_be_untouched_is(text: str) -> None:
    """W5: the look at a whole text, and the cleaning of it, agree about each character."""
    assert cleaning.untouched(f"a{text}b") == (cleaning.text(f"a{text}b") == f"a{text}b")
