"""The inbox (W2): bounded, merged by key, never silent, and never at the cost of a line that was addressed to the NPC."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from world_adapter.frames import Observation, Speaker
from world_adapter.inbox import Bounds, Inbox, addressed_to
from world_adapter.runs import Run

ME = "mira"
# Every kind of observation that matters here: size of text, kind, merge key, addressee, own, speaker.
SHAPES: list[tuple[int, str, str | None, str | None, bool, Speaker | None]] = [
    (3, "speech", None, ME, False, Speaker(kind="player")),
    (400, "speech", None, ME, False, None),
    (3, "speech", "a", ME, False, None),
    (3, "speech", None, ME, True, None),
    (3, "speech", None, "bob", False, Speaker(kind="npc")),
    (3, "notice", None, None, False, Speaker(kind="operator")),
    (3, "scene", "a", None, False, None),
    (300, "scene", "b", None, False, Speaker(kind="world")),
    (0, "combat", None, None, False, None),
    (90, "combat", None, None, False, None),
]


def obs(seq: int, text: str = "x", **fields: Any) -> Observation:
    return Observation(seq=seq, t=0.0, kind=fields.pop("kind", "notice"), text=text, **fields)


@st.composite
def streams(draw: st.DrawFn) -> list[Observation]:
    kinds = draw(st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(0, 9)), max_size=40))
    return [
        obs(n, "x" * size, kind=kind, key=key, prio=prio, to=to, own=own, speaker=speaker)
        for n, ((size, kind, key, to, own, speaker), prio) in enumerate(kinds, start=1)
    ]


BOUNDS = st.builds(Bounds, items=st.integers(0, 10), chars=st.integers(0, 2_000), addressed_chars=st.just(10**9))


@settings(max_examples=50)
@given(streams(), BOUNDS, st.lists(st.integers(0, 60), max_size=4).map(sorted))
def test_every_observation_is_accounted_for(stream: list[Observation], bounds: Bounds, drains: list[int]) -> None:
    """W2: received = delivered + merged + omitted + waiting; addressed lines all arrive; order is kept; the bounds hold."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=bounds)
    addressed = addressed_to(ME)
    got: list[Observation] = []
    omitted = merged = 0
    start = 0
    for stop in [*drains, len(stream)]:
        for o in stream[start:stop]:
            inbox.put([o])
            counts = inbox.counts
            assert counts.received == counts.delivered + counts.merged + counts.omitted + len(inbox)
        start = max(start, stop)
        drained = inbox.drain()
        assert sum(1 for o in drained.observations if not addressed(o)) <= bounds.items
        keys = [o.key for o in drained.observations if o.key is not None and not addressed(o)]
        assert len(keys) == len(set(keys))
        assert (drained.note is None) == (sum(drained.omitted.values()) == 0)
        got += drained.observations
        omitted += sum(drained.omitted.values())
        merged += drained.merged
    assert len(inbox) == 0
    assert [o for o in got if addressed(o)] == [o for o in stream if addressed(o)]
    assert [o.seq for o in got] == sorted({o.seq for o in got})
    assert len(stream) == len(got) + omitted + merged == inbox.counts.received


@settings(max_examples=50)
@given(streams())
def test_with_room_for_all_only_older_states_are_missing(stream: list[Observation]) -> None:
    """W2: nothing is omitted that the bounds do not force out; a key's newest value is there, at its own place."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=100, chars=10**9))
    inbox.put(stream)
    drained = inbox.drain()
    addressed = addressed_to(ME)
    expected = [
        o
        for n, o in enumerate(stream)
        if o.key is None or addressed(o) or not any(later.key == o.key for later in stream[n + 1 :])
    ]
    assert list(drained.observations) == expected
    assert drained.note is None


def test_the_least_urgent_and_oldest_goes_first_and_is_named() -> None:
    """W2: the note counts by kind what had to go."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=2))
    inbox.put([obs(1, kind="combat", prio=1), obs(2, kind="speech", prio=8), obs(3, kind="combat", prio=1), obs(4, kind="scene", prio=5)])
    drained = inbox.drain()
    assert [o.seq for o in drained.observations] == [2, 4]
    assert drained.note == "[2 observations omitted: 2 combat]"
    assert inbox.drain().note is None


def test_only_the_hard_cap_makes_addressed_lines_go_and_it_says_so() -> None:
    """W2: a flood of addressed megabytes is bounded too; the newest stays whatever its size."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=5, addressed_chars=1_000))
    inbox.put([obs(n, "x" * 400, kind="speech", to=ME) for n in range(1, 5)])
    inbox.put([obs(5, "y" * 5_000, kind="speech", to=ME)])
    assert inbox.urgent
    drained = inbox.drain()
    assert [o.seq for o in drained.observations] == [5]
    assert drained.note == "[4 observations omitted: 4 speech; 4 of them were addressed to you]"
    assert drained.addressed_omitted == 4


def test_an_addressed_state_is_an_event() -> None:
    """W2: a merge key never makes words to the NPC disappear."""
    inbox = Inbox(addressed=addressed_to(ME))
    inbox.put([obs(1, "first", key="chat", to=ME), obs(2, "second", key="chat", to=ME), obs(3, "third", key="chat")])
    assert [o.text for o in inbox.drain().observations] == ["first", "second", "third"]


def test_own_echoes_are_never_urgent() -> None:
    """W6: what the NPC said itself does not count as addressed, even if it talks to itself."""
    inbox = Inbox(addressed=addressed_to(ME))
    inbox.put([obs(1, to=ME, own=True, prio=3)])
    assert not inbox.urgent
    assert inbox.top_prio == 3
    inbox.put([obs(2, speaker=Speaker(kind="operator"))])
    assert inbox.urgent


def test_memory_stays_bounded_over_a_long_flood() -> None:
    """W2: twenty thousand observations with nobody draining."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=100))
    for n in range(1, 20_001):
        inbox.put([obs(n, key=f"k{n % 2000}" if n % 3 else None, prio=n % 10)])
    assert len(inbox) == 100
    assert len(inbox._keys) <= 100
    drained = inbox.drain()
    assert sum(drained.omitted.values()) + drained.merged + 100 == 20_000


# Fairness


BOB, EVE = Speaker(id="p1", name="Bob", kind="player"), Speaker(id="p2", name="Eve", kind="player")


@pytest.mark.parametrize("to", [None, ME], ids=["overheard", "addressed"])
@pytest.mark.parametrize("size", [10, 2_000], ids=["many lines", "long lines"])
@pytest.mark.parametrize("as_run", [False, True], ids=["one by one", "as a run"])
def test_a_flood_of_one_does_not_push_out_what_another_said(to: str | None, size: int, as_run: bool) -> None:
    """W2: Bob shouts for ever, Eve said three things before; Eve's words are there, and the note names Bob."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=50, chars=40_000, addressed_chars=40_000))
    words = [obs(n, f"eve {n}", kind="speech", speaker=EVE, to=to) for n in range(1, 4)]
    shouts = [obs(n, "x" * size, kind="speech", speaker=BOB, to=to) for n in range(4, 904)]
    if as_run:
        run = Run.of([*words, *shouts])
        inbox.put_run(run, first=1, addressed=set(range(len(run))) if to else ())
    else:
        inbox.put([*words, *shouts])
    drained = inbox.drain()
    assert [o.text for o in drained.observations[:3]] == ["eve 1", "eve 2", "eve 3"]
    assert drained.observations[-1].seq == 903
    assert drained.loudest == "Bob"
    assert drained.note is not None
    assert f'{drained.loudest_omitted} of them from "Bob"' in drained.note


@settings(max_examples=60)
@given(streams(), BOUNDS, st.lists(st.integers(0, 60), max_size=4).map(sorted))
def test_runs_are_accounted_for_like_all_else(stream: list[Observation], bounds: Bounds, cuts: list[int]) -> None:
    """W2: received = delivered + merged + omitted; addressed lines all arrive; order, bounds and the newest value of each key."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=bounds)
    addressed = addressed_to(ME)
    start = 0
    for stop in [*cuts, len(stream)]:
        part = stream[start:stop]
        if part:
            run = Run.of(part)
            own = {n for n, o in enumerate(part) if o.own}
            inbox.put_run(run, first=part[0].seq, addressed={n for n, o in enumerate(part) if addressed(o)}, besides=own)
        start = max(start, stop)
    news = [o for o in stream if not o.own]
    drained = inbox.drain()
    assert len(news) == len(drained.observations) + drained.merged + sum(drained.omitted.values()) == inbox.counts.received
    assert [o for o in drained.observations if addressed(o)] == [o for o in news if addressed(o)]
    assert [o.seq for o in drained.observations] == sorted({o.seq for o in drained.observations})
    assert sum(1 for o in drained.observations if not addressed(o)) <= bounds.items
    assert all(o in news for o in drained.observations)
    same = Inbox(addressed=addressed, bounds=Bounds(items=1_000, chars=10**9))
    run = Run.of(stream)
    if stream:
        same.put_run(
            run, first=1, addressed={n for n, o in enumerate(stream) if addressed(o)}, besides={n for n, o in enumerate(stream) if o.own},
        )  # fmt: skip
    other = Inbox(addressed=addressed, bounds=Bounds(items=1_000, chars=10**9))
    other.put(news)
    assert same.drain() == other.drain()


def test_nothing_is_omitted_from_a_run_that_has_room() -> None:
    """W2: one speaker alone may fill the room."""
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=100))
    inbox.put_run(Run.of([obs(n, speaker=BOB, kind="speech") for n in range(1, 151)]), first=1, addressed=())
    drained = inbox.drain()
    assert [o.seq for o in drained.observations] == list(range(51, 151))
