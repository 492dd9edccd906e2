"""Own words that come back, and words said twice."""

from __future__ import annotations

import pytest

from npc.company import ECHO_S, REPEAT_S, Company
from npc.hearing import Ears
from npc.pairguard import PairGuard
from world_adapter.frames import Observation, Speaker


class Clock:
    """Unix seconds, by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def company(clock: Clock, **more: bool) -> Company:
    names = ("Oda", "warden")
    return Company(names=names, ears=Ears(names), guard=PairGuard(rounds=2, rest_s=100.0), clock=clock, **more)


def heard(text: str, speaker: Speaker | None = None, kind: str = "speech", **more: str) -> Observation:
    return Observation(seq=1, t=0.0, kind=kind, text=text, speaker=speaker, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observation", "own"),
    [
        (heard("Well met, Bob!", Speaker(id="me", name="Oda", kind="npc")), True),
        (heard("Something else", Speaker(id="me", name="Oda", kind="npc")), True),
        (heard('Oda says: "Well met, Bob!"', Speaker(id="", name="Oda", kind="npc")), True),
        (heard('You say, "Well met, Bob!"', kind="notice"), True),
        (heard("Well met, Bob!"), True),
        (heard("Well met, Bob!", kind="notice"), False),
        (heard("You look at: the well met, Bob and others", kind="notice"), False),
        (heard("Well met, Bob!", Speaker(id="p1", name="Bob", kind="player")), False),
        (heard('Bob says: "Well met, Bob!"', kind="notice"), False),
        (heard("Other words", Speaker(id="", name="Oda", kind="player")), False),
        (heard("Well met, Bob!", to="me"), False),
        (heard("Well met, Bob!", Speaker(id="", name="", kind="operator")), False),
    ],
)
def test_an_echo_is_known_by_who_said_it_or_by_its_words(observation: Observation, *, own: bool) -> None:
    """W6: nobody else's words are taken for an echo, nor is a line that only holds the same words."""
    oda = company(Clock())
    oda.speaks("Well met, Bob!")
    taken = oda.take(observation, "me")
    assert taken.observation.own is own
    assert (taken.why is not None) is own
    assert not own or not taken.lines


def test_words_that_come_late_are_somebody_elses() -> None:
    """W6: an echo is quick."""
    clock = Clock()
    oda = company(clock)
    oda.speaks("Well met.")
    clock.now -= 1_000.0
    assert not oda.take(heard("Well met."), "me").observation.own, "a clock that was set back"
    clock.now += 1_000.0 + ECHO_S + 1
    assert not oda.take(heard("Well met."), "me").observation.own


def test_the_same_words_wait_until_somebody_speaks_or_a_while_has_passed() -> None:
    """W6: to the same one, in the same way; what the world refused was not said."""
    clock, bob = Clock(), Speaker(id="p1", name="Bob", kind="player")
    oda = company(clock)
    oda.speaks("Aye.", to="Bob")
    clock.now += 3
    assert oda.repeated("aye!", to="Bob") == 3
    assert oda.repeated("Aye.", to="Mara") is None
    oda.take(heard("And now?", bob), "me")
    assert oda.repeated("Aye.", to="Bob") is None
    oda.speaks("No.")
    oda.unsaid("No.")
    assert oda.repeated("No.") is None
    oda.speaks("Well.")
    clock.now += REPEAT_S + 1
    assert oda.repeated("Well.") is None


def test_of_several_who_speak_in_one_text_one_who_is_heard_at_once_is_enough() -> None:
    """W6: a player whose words stand beside a resting NPC's gets through."""
    clock = Clock()
    oda = company(clock, kinds_known=False)
    for n in range(14):
        oda.speaks("What is new?")
        clock.now += 0.5
        line = f"Mara says: nothing but line {'abcdefghijklmnop'[n] * 9}"
        taken = oda.take(heard(line, kind="notice"), "me")
    assert taken.wait_s is None
    clock.now += 8.0
    both = heard("Mara says: the same as ever\nBob says: hi", kind="notice")
    assert oda.take(both, "me").wait_s == 0
