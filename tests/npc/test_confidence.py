"""What was confided is kept in every spelling, and ordinary talk goes on (T13, C27)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.confidence import Audience, Confidences, Secret, wants_silence
from runtime.store.memories import CONFIDED, WHISPERED
from tests.npc.poison import GOLD, SPELLINGS, TOLD

BOB = Audience(subjects=frozenset({"id:p1"}), closed=False)
BOB_ALONE = Audience(subjects=frozenset({"id:p1"}), closed=True)
MIRA = Audience(subjects=frozenset({"id:p2"}), closed=False)
MIRA_ALONE = Audience(subjects=frozenset({"id:p2"}), closed=True)


def kept(*lines: str, sensitivity: int = WHISPERED, known: str = "You keep the mill of Harrowmere by the ford.") -> Confidences:
    """What Mira told."""
    confidences = Confidences(known=[known], common=lambda word: word in {"dragon", "safe", "home"})
    for n, text in enumerate(lines):
        confidences.add(Secret(subject="id:p2", speaker="Mira", text=text, sensitivity=sensitivity, event=n + 1))
    return confidences


TOLD_ALL = [text for _, text in TOLD]


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_confidence_is_known_in_every_spelling(spelled: str) -> None:
    """T13: as it is, apart, backwards, encoded, in other letters, in other words' order; and its teller may hear it."""
    confidences = kept(*TOLD_ALL)
    for audience in (BOB, BOB_ALONE, MIRA):
        assert next(confidences.leaks(f"well, it is {spelled}.", audience), None)
    assert not list(confidences.leaks(f"well, it is {spelled}.", MIRA_ALONE))


@pytest.mark.parametrize(
    "words",
    [
        "Good morning, the mill of Harrowmere is open.", "I love bread.", "The chapel is old.", "My chest hurts.", "The elm is old.",
        "One, two, three, four loaves.", "I saw gold at the market.", "Hello Bob, what brings you here?", "The cellar is dry.",
        "There are 12 of them, and 30 more by 9.", "Mira was here.", "I have a sister too.", "All is safe at home.", "",
    ],
)  # fmt: skip
def test_ordinary_words_carry_nothing(words: str) -> None:
    """A guard that stops ordinary talk would be switched off."""
    assert not list(kept(*TOLD_ALL).leaks(words, BOB, people=["mira"]))


def test_a_password_that_is_a_plain_word_is_kept_as_an_answer_and_not_as_a_word() -> None:
    """T13: one may go on talking about dragons."""
    confidences = kept("the password is dragon", "my secret is safe with you")
    assert [leak.firm for leak in confidences.leaks("dragon", BOB)] == [True]
    assert next(confidences.leaks("I believe that the password of hers would be the dragon", BOB), None)
    assert not list(confidences.leaks("A dragon was seen over the north road last night", BOB))
    assert not list(confidences.leaks("You are safe here", BOB))


def test_what_was_confided_aloud_may_be_answered_to_its_teller() -> None:
    """T13: who asked for silence aloud is answered aloud, and nobody else is."""
    confidences = kept("tell nobody: I hid the map in the hollow oak", sensitivity=CONFIDED)
    assert not list(confidences.leaks("You hid the map in the hollow oak.", MIRA))
    assert next(confidences.leaks("She hid the map in the hollow oak.", BOB), None)


def test_who_told_it_himself_may_hear_it_and_who_guesses_may_not() -> None:
    """T13: Bob knows the number that he told; a list of all numbers is none that he told."""
    confidences = kept("my chest opens with 4417")
    confidences.add(Secret(subject="id:p1", speaker="Bob", text="mine opens with 4417", sensitivity=WHISPERED, event=9))
    assert not list(confidences.leaks("4417", BOB_ALONE))
    confidences = kept("my chest opens with 4417")
    guesses = "is it 4411 or 4412 or 4413 or 4414 or 4415 or 4416 or 4417?"
    confidences.add(Secret(subject="id:p1", speaker="Bob", text=guesses, sensitivity=WHISPERED, event=9))
    assert next(confidences.leaks("4417", BOB_ALONE), None)


def test_the_oldest_go_and_nothing_of_them_stays() -> None:
    """Bounded: a million whispers take no more room than the newest."""
    confidences = Confidences(limit=50)
    for n in range(1_000):
        text = f"my code is q{n}x and the word is w{n}w"
        confidences.add(Secret(subject="id:p2", speaker="Mira", text=text, sensitivity=WHISPERED, event=n))
    assert len(confidences) == 50
    assert not list(confidences.leaks("q3x", BOB))
    assert next(confidences.leaks("q999x", BOB), None)
    assert len(confidences._by_code) <= 200


@pytest.mark.parametrize(
    "line",
    ["keep this to yourself", "tell nobody", "the password is x", "das bleibt unter uns", "c'est un mot de passe", "no se lo digas",
     "é segredo", "никому не говори", "别告诉别人", "誰にも言わないで"],
)  # fmt: skip
def test_a_wish_for_silence_is_understood(line: str) -> None:
    """T13: speech may be as private as a whisper."""
    assert wants_silence(line)
    assert not wants_silence(GOLD)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_confided_and_said(told: str, said: str) -> None:
    """No text is an error, and the teller hears what she told."""
    confidences = kept(told)
    list(confidences.leaks(said, BOB))
    assert not list(confidences.leaks(told, MIRA_ALONE))
