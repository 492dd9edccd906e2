"""The inbox (W2): bounded, merged by key, never silent, and never at the cost of a line that was addressed to the NPC."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from world_adapter.frames import Observation, Speaker
from world_adapter.inbox import Bounds, Inbox, addressed_to

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
