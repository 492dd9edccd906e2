"""The pair guard: who is answered, who waits, what is not said."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from npc.pairguard import LONGEST_REST_S, SPEAKERS, PairGuard

LINES = (
    "The mill stands still.", "Who took the rope?", "I was at the well.", "Bread is dear this year.", "My brother sails north.",
    "Did you hear the bell?", "A fox got the hens.", "Winter comes early.", "The bridge needs planks.", "Salt, not sugar.",
    "Old Tam limps again.", "Nine crowns for a goat!",
)  # fmt: skip


def talk(guard: PairGuard, rounds: int, *, now: float = 0.0, kind: str = "npc", same: bool = False, gap: float = 2.0) -> list[str]:
    """So many lines of Mara, each answered; the phases."""
    phases = []
    for n in range(rounds):
        line = "I hear you." if same else LINES[n % len(LINES)]
        phases.append(guard.heard("mara", line, kind=kind, now=now + n * gap).phase)
        guard.spoke(f"Indeed: {LINES[(n + 5) % len(LINES)]}", now=now + n * gap + 1.0)
    return phases


def test_a_talk_is_slowed_then_rests_after_one_goodbye() -> None:
    """W6: open, slower and slower, one last turn, rest; and words that could only go on with it are not said."""
    guard = PairGuard(rounds=3, rest_s=100.0)
    assert talk(guard, 9) == ["open"] * 3 + ["slow"] * 3 + ["goodbye", "rest", "rest"]
    guard.heard("mara", "Are you there?", kind="npc", now=19.0)
    assert guard.silent("", now=20.0) > 0
    assert guard.silent("Mara", now=20.0) > 0
    assert guard.silent("Bob", now=20.0) == 0


def test_each_wait_is_longer_than_the_one_before() -> None:
    """W6: slow means slower each time."""
    guard = PairGuard(rounds=1, rest_s=64.0)
    waits = []
    for n, line in enumerate(LINES[:7]):
        waits.append(guard.heard("mara", line, kind="npc", now=n * 2.0).wait_s)
        guard.spoke(f"So. {line[::-1]}", now=n * 2.0 + 1)
    assert waits == [0.0, 1.0, 2.0, 4.0, 4.0, None, None]


def test_a_goodbye_may_be_said_once() -> None:
    """W6: the rest begins with a word, not in the middle of one."""
    guard = PairGuard(rounds=1, rest_s=100.0)
    phase, n = "", 0
    while phase != "goodbye":
        phase, n = guard.heard("mara", LINES[n % 12], kind="npc", now=n * 2.0).phase, n + 1
        if phase != "goodbye":
            guard.spoke("hm", now=n * 2.0 - 1)
    assert guard.silent("", now=n * 2.0) == 0
    guard.spoke("Farewell.", now=n * 2.0)
    assert guard.heard("mara", "Farewell to you.", kind="npc", now=n * 2.0 + 1).wait_s is None
    assert guard.silent("", now=n * 2.0 + 1) > 0


def test_a_persons_word_ends_the_count_and_the_rest() -> None:
    """W6: never deaf to players, and what they bring up may be talked about."""
    guard = PairGuard(rounds=2, rest_s=100.0)
    assert talk(guard, 8)[-1] == "rest"
    assert guard.heard("p1", "Mara, ask Oda for the key.", kind="player", now=17.0).wait_s == 0.0
    assert guard.heard("mara", "Oda, the key?", kind="npc", now=18.0).phase == "open"
    assert guard.silent("mara", now=18.0) == 0


def test_a_player_is_never_held_back_however_much_and_fast_he_talks() -> None:
    """W6: people are not counted at all."""
    assert set(talk(PairGuard(rounds=1, rest_s=100.0), 200, kind="player", same=True, gap=1.1)) == {"open"}


def test_the_same_line_again_counts_double() -> None:
    """W6: a loop of pleasantries is found sooner than a talk about something."""
    varied, same = PairGuard(rounds=6, rest_s=100.0), PairGuard(rounds=6, rest_s=100.0)
    assert talk(same, 12, same=True).index("slow") < talk(varied, 12).index("slow")


def test_where_kinds_are_not_told_only_what_nobody_could_type_counts() -> None:
    """W6: answers within seconds, always; one typed line shows that it is a person, who is not held back."""
    fast = PairGuard(rounds=2, rest_s=100.0)
    phases = []
    for n in range(12):
        fast.spoke("What else is there to say?", now=n * 10.0)
        phases.append(fast.heard("mara", LINES[n], kind="", now=n * 10.0 + 1.0).phase)
    assert phases[-1] == "rest"
    typed = PairGuard(rounds=2, rest_s=100.0)
    phases = []
    for n in range(40):
        typed.spoke("What else is there to say?", now=n * 20.0)
        phases.append(typed.heard("bob", LINES[n % 12], kind="", now=n * 20.0 + 6.0).phase)
    assert set(phases) == {"open"}


def test_a_monologue_counts_too_but_less() -> None:
    """W6: one who speaks on without an answer costs turns as well."""
    guard = PairGuard(rounds=2, rest_s=100.0)
    phases = [guard.heard("mara", line, kind="npc", now=n * 1.0).phase for n, line in enumerate(LINES)]
    assert phases[:4] == ["open"] * 4
    assert "rest" in phases


def test_what_happens_to_us_is_something_to_talk_about_but_ends_no_rest() -> None:
    """W6: a world event of substance starts the count anew."""
    guard = PairGuard(rounds=3, rest_s=100.0)
    talk(guard, 4)
    guard.event(8.0)
    assert talk(guard, 3, now=8.0) == ["open"] * 3
    assert talk(guard, 9, now=14.0)[-1] == "rest"
    guard.event(33.0)
    assert guard.heard("mara", "Ouch?", kind="npc", now=33.0).phase == "rest"


def test_each_rest_is_twice_as_long_and_all_of_it_bounded() -> None:
    """W6: in a day of nothing but each other, turns grow with the logarithm of the time."""
    guard = PairGuard(rounds=4, rest_s=60.0)
    now, turns = 0.0, 0
    while now < 86_400.0:
        if guard.heard("mara", LINES[int(now) % 12], kind="npc", now=now).wait_s is not None:
            turns += 1
            guard.spoke(LINES[(int(now) + 4) % 12], now=now + 1)
        now += 5.0
    assert turns < 12 * 13
    assert LONGEST_REST_S >= 86_400.0


@given(st.lists(st.tuples(st.sampled_from("abcp"), st.sampled_from(LINES), st.floats(0.0, 30.0), st.booleans()), max_size=60))
def test_it_goes_on_after_a_restart_as_if_there_had_been_none(story: list[tuple[str, str, float, bool]]) -> None:
    """C34, W6: the state in the checkpoint is the whole of it, but for the lines it compares with."""
    one, now = PairGuard(rounds=3, rest_s=50.0), 1_000.0
    for who, line, gap, answered in story:
        now += gap
        one.heard(who, f"{line} {who}", kind="player" if who == "p" else "npc", now=now)
        if answered:
            one.spoke("Well, well.", now=now)
    other = PairGuard(rounds=3, rest_s=50.0)
    other.load(json.loads(json.dumps(one.dump())))
    assert other.dump() == one.dump()
    unheard = "zyx wvu tsr qpo"
    assert other.heard("a", unheard, kind="npc", now=now + 1).phase == one.heard("a", unheard, kind="npc", now=now + 1).phase


def test_a_crowd_and_a_torn_state_do_no_harm() -> None:
    """W5: bounded in speakers; nonsense in a stored state is left out."""
    guard = PairGuard(rounds=3, rest_s=50.0)
    for n in range(10 * SPEAKERS):
        guard.heard(f"n{n}", "hail", kind="npc", now=float(n))
    assert len(guard.dump()["pairs"]) == SPEAKERS
    states: list[Any] = [None, [], {"pairs": 3}, {"pairs": {"a": None, "b": {"rounds": "x", "until": 1e400, "rests": -1}}, "spoke": True}]
    for torn in states:
        guard = PairGuard(rounds=3, rest_s=50.0)
        guard.load(torn)
        assert guard.heard("b", "hail", kind="npc", now=5.0).phase == "open"


def test_nought_switches_it_off() -> None:
    """W6: an operator who wants his two NPCs to talk all day may have it."""
    assert set(talk(PairGuard(rounds=0, rest_s=1.0), 100, same=True)) == {"open"}
