"""The gate of long-term memory: what may be remembered, as what, for how long; and what is refused.

Invariant: pure and closed: only a candidate of a known category, with a source event and somebody whose it is, in words that claim nothing
(see `npc.claims`), is kept; anything else is refused with a reason. What is refused stays in the event log and is no memory. A model's own
inferences are never a category, whatever they are called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from npc.claims import claim
from runtime.store.memories import HEAVIEST, PUBLIC, Label

DAY_S = 86_400.0


class Category(StrEnum):
    """How something is known."""

    HEARD = "heard"  # talk that others could hear too
    CONFIDED = "confided"  # told where nobody else could hear, or with the wish to be kept
    SAID = "said"  # own words, spoken
    SEEN = "seen"  # what the world's own code showed, with data


#: What memories may be used for: to answer whoever talks, to know what oneself has said, to know places and things.
TALK, OWN, PLACES = "talk", "own words", "places"
_PURPOSES = {Category.HEARD: TALK, Category.CONFIDED: TALK, Category.SAID: OWN, Category.SEEN: PLACES}
_QUESTION = ("?", "？", "؟", ";")
#: Shares of a whole `overheard_s` that a question, which grows stale sooner, is kept.
_ASKED_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What might be remembered.

    Attributes:
        category: a word of `Category`; any other is refused.
        text: the words.
        speaker: who said it, by name.
        subject: whose it is, by an id.
        event: that it comes from.
        world: that it was in, with its `epoch`.
        sensitivity: see `runtime.store.memories`.
        addressed: whether it was meant for this NPC.
        authorised: whether its author may give orders.
    """

    category: str
    text: str
    speaker: str
    subject: str
    event: int
    world: str = ""
    epoch: str = ""
    sensitivity: int = PUBLIC
    addressed: bool = False
    authorised: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """It is remembered: with this label and weight."""

    label: Label
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """It is not, and why."""

    reason: str


def judged(
    candidate: Candidate, *, now: float, overheard_s: float, gates: Collection[str] = (), people: Collection[str] = ()
) -> Keep | Refuse:
    """Whether a candidate is remembered.

    Args:
        candidate: what might be.
        now: seconds since 1970.
        overheard_s: how long what was not told to this NPC is kept, in seconds; 0 for ever. What was told to it is kept for ever.
        gates: names of the NPC's gates.
        people: names that are known, see `npc.claims`.
    """
    if candidate.category not in _PURPOSES:
        return Refuse(reason="an inference" if candidate.category == "inferred" else "of no known category")
    category = Category(candidate.category)
    if candidate.event <= 0:
        return Refuse(reason="without a source")
    if not candidate.subject:
        return Refuse(reason="nobody's")
    if category is Category.CONFIDED and candidate.sensitivity == PUBLIC:
        return Refuse(reason="confided, and open to all")
    if not candidate.authorised:
        if why := claim(candidate.text, gates=gates, people=people, speaker=candidate.speaker):
            return Refuse(reason=why)
        if why := _by_name(candidate.speaker):
            return Refuse(reason=f"{why} by a name")
    weight, span = _worth(candidate, category, overheard_s)
    label = Label(
        world=candidate.world, epoch=candidate.epoch, subject=candidate.subject, category=category.value, purpose=_PURPOSES[category],
        sensitivity=candidate.sensitivity, expires=now + span if span else None,
    )  # fmt: skip
    return Keep(label=label, weight=weight)


@lru_cache(maxsize=4096)
def _by_name(speaker: str) -> str:
    return claim(f"{speaker}: ")


def _worth(candidate: Candidate, category: Category, overheard_s: float) -> tuple[int, float]:
    """Weight, and how long it is kept in seconds (0: for ever): what was told outlives what was overheard, an answer a question."""
    if category in (Category.HEARD, Category.CONFIDED) and candidate.addressed:
        return (1, overheard_s * _ASKED_SHARE) if asks(candidate.text) else (HEAVIEST, 0.0)
    return (1 if category is Category.SAID else 0), overheard_s


def asks(text: str) -> bool:
    """Whether a line is a question: those who ask again want what was told, not what was asked."""
    return any(mark in text for mark in _QUESTION[:3]) or text.rstrip().endswith(_QUESTION)


class Refusals:
    """What was refused, for the log: a few at a time word for word, and of a flood the number."""

    def __init__(self, *, at_once: int = 8, every_s: float = 30.0) -> None:
        self._at_once, self._every_s = at_once, every_s
        self._left, self._at = float(at_once), 0.0
        self._held: Counter[str] = Counter()

    def refused(self, candidate: Candidate, reason: str, *, now: float) -> Mapping[str, Any] | None:
        """The data of an event, None where this one is only counted. `now`: seconds."""
        self._left = min(float(self._at_once), self._left + max(0.0, now - self._at) / self._every_s)
        self._at = now
        if self._left < 1.0:
            self._held[reason] += 1
            return None
        self._left -= 1.0
        data = {"reason": reason, "category": candidate.category[:40], "speaker": candidate.speaker, "subject": candidate.subject}
        return {**data, "source": candidate.event, "text": candidate.text[:120], **self.besides()}

    def besides(self) -> Mapping[str, Any]:
        """How many more there were since, by reason; empty where there were none."""
        held, self._held = dict(self._held), Counter()
        return {"besides": held} if held else {}
