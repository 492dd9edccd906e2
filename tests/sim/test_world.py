"""The village lives by its seed and by the time it is given, and by nothing else (S1)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.places import PLACES, route
from sim.world import Ended, Told, Village


def _life(seed: int, moments: list[float]) -> list[Told | Ended]:
    village = Village(seed=seed, monster_tokens=500)
    village.enter("oda", "Oda")
    out: list[Told | Ended] = []
    for moment in moments:
        out += village.step(moment)
    return out


@given(st.integers(0, 50), st.lists(st.floats(0, 90), max_size=12))
@settings(max_examples=25, deadline=None)
def test_one_long_step_tells_the_same_as_many_small_ones(seed: int, cuts: list[float]) -> None:
    """S1: seeded, repeatable, time is data."""
    assert _life(seed, [*sorted(cuts), 90.0]) == _life(seed, [90.0])


def test_a_minute_shows_what_there_is() -> None:
    """S1: talk in several scripts, a fight, a crowd, a text too long to read, facts told and asked, all within the first minute."""
    told = [e for e in _life(3, [60.0]) if isinstance(e, Told)]
    kinds = Counter(e.kind for e in told)
    assert {"speech", "combat", "scene", "presence", "time"} <= set(kinds)
    text = "\n".join(e.text for e in told)
    assert "annals" in text
    assert "crowded" in text
    assert "is called" in text
    assert "Do you still remember" in text
    assert any(ord(c) > 0x3000 for c in text)
    assert sum(e.to == "oda" for e in told) >= 12


def test_nights_are_quiet() -> None:
    """S1: quiet nights."""
    village = Village(seed=5, monster_tokens=200)
    village.enter("oda", "Oda")
    evening = len(village.step(60.0))
    assert village.night
    night = len(village.step(120.0))
    assert night < evening / 2


def test_a_walk_takes_time_and_leads_through_every_place_on_the_way() -> None:
    """S1: walking takes time; the body is where the walk has brought it, and the end is told once."""
    village = Village(seed=1, monster_tokens=200)
    village.enter("oda", "Oda")
    village.step(0.0)
    outcome = village.act("oda", "walk-1", "move_to", {"place": "mill"})
    assert outcome.state == "accepted"
    legs = route("inn", "mill")
    assert [p for p, _ in legs] == ["square", "bridge", "mill"]
    seconds = sum(s for _, s in legs)
    before = village.step(seconds - 0.5)
    assert not [e for e in before if isinstance(e, Ended)]
    assert [e.text for e in before if isinstance(e, Told) and e.kind == "moved"] == ["You reach the square.", "You reach the toll bridge."]
    after = village.step(seconds)
    assert [e for e in after if isinstance(e, Ended)] == [Ended(npc="oda", act="walk-1", state="done", text="You are in the mill.")]
    assert village.beings["oda"].place == "mill"


def test_a_walk_can_be_stopped_and_replaced() -> None:
    """S1: a cancelled walk ends as cancelled, a new one ends the old one, and neither arrives later."""
    village = Village(seed=1, monster_tokens=200)
    village.enter("oda", "Oda")
    village.act("oda", "a", "move_to", {"place": "pass"})
    village.act("oda", "b", "move_to", {"place": "market"})
    village.step(4.0)
    village.cancel("oda", "b")
    ends = [(e.act, e.state) for e in village.step(60.0) if isinstance(e, Ended)]
    assert ends == [("b", "cancelled")]
    assert village.beings["oda"].place == "square"
    village.cancel("oda", "b")
    assert not [e for e in village.step(61.0) if isinstance(e, Ended)], "an end is told once"


_NAMES = st.sampled_from(["take", "give", "say", "emote", "look", "attack", "inventory", "dance"])


@given(st.integers(0, 20), st.lists(st.tuples(_NAMES, st.text(max_size=12)), max_size=30))
@settings(max_examples=25, deadline=None)
def test_whatever_an_npc_tries_has_an_outcome_and_nothing_gets_lost(seed: int, tries: list[tuple[str, str]]) -> None:
    """S1: any action with any words is answered, and things change hands but never vanish or double."""
    village = Village(seed=seed, monster_tokens=200)
    village.enter("oda", "Oda")

    def things() -> Counter[str]:
        return Counter([x for b in village.beings.values() for x in b.carries] + [x for lying in village.loose.values() for x in lying])

    before = things()
    for n, (name, word) in enumerate(tries):
        item = "tin whistle" if n % 2 else word
        outcome = village.act("oda", f"act-{n}", name, {"item": item, "to": "Marisol", "text": word, "target": word})
        assert outcome.state in ("done", "failed")
        assert outcome.text
        assert (outcome.state == "failed") == bool(outcome.code)
    assert things() == before


def test_what_is_said_is_heard_in_the_same_place_only_and_by_the_speaker_as_the_own() -> None:
    """S1: two NPCs in one room hear each other; the own echo is marked."""
    village = Village(seed=2, monster_tokens=200)
    village.enter("oda", "Oda")
    village.enter("bram", "Bram")
    village.enter("iva", "Iva", place="mill")
    village.step(0.0)
    village.act("oda", "1", "say", {"text": "soup is ready", "to": "Bram"})
    heard = [e for e in village.step(0.0) if isinstance(e, Told) and "soup is ready" in e.text]
    assert [(e.npc, e.own, e.to) for e in heard] == [("oda", True, "bram"), ("bram", False, "bram")]


def test_every_place_can_be_reached_from_every_other_in_the_same_time_both_ways() -> None:
    """S1."""
    for start in PLACES:
        for goal in PLACES:
            there, back = route(start, goal), route(goal, start)
            assert sum(s for _, s in there) == sum(s for _, s in back)
            assert not there or there[-1][0] == goal
