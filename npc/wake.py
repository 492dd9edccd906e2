"""What wakes a mind whose body acts: conditions that the persona declares, held against what the world tells.

Invariants: pure and total; nothing that a world tells is run, compared by code of its own, or searched deeper than a condition's field
says. The end of the action, a line that is meant for the NPC, the operator's word and the deadline always wake, whatever a persona says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from npc.hearing import TALK
from world_adapter.frames import Observation

#: What cannot be switched off.
ALWAYS = ("arrived", "addressed", "operator")
#: Words of the persona beside those: kinds of observations about the body, and speech in the same place that is meant for somebody else.
BODY = ("blocked", "hurt")
NEARBY = "nearby"
ME = "me"

Plain = str | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """One condition; all of it that is set must hold.

    Attributes:
        kind: of the observation.
        field: path into its data, dots between the names.
        equals: what stands there; the text "me" stands for the NPC itself, by its id or any of its names.
        at_least: the smallest number that may stand there.
        at_most: the largest.
        prio_at_least: the least priority.
    """

    kind: str | None = None
    field: str | None = None
    equals: Plain | None = None
    at_least: float | None = None
    at_most: float | None = None
    prio_at_least: int | None = None

    def holds(self, observation: Observation, selves: frozenset[str]) -> bool:
        """Whether an observation meets it; `selves` is all that "me" may stand for, casefolded."""
        if self.kind is not None and observation.kind != self.kind:
            return False
        if self.prio_at_least is not None and observation.prio < self.prio_at_least:
            return False
        if self.field is None:
            return True
        there, value = _found(observation.data, self.field)
        return there and self._fits(value, selves)

    def _fits(self, value: object, selves: frozenset[str]) -> bool:
        if self.equals == ME:
            return isinstance(value, str) and value.casefold() in selves
        if isinstance(self.equals, str):
            return isinstance(value, str) and value.casefold() == self.equals.casefold()
        if isinstance(self.equals, bool):
            return value is self.equals
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        if self.equals is not None:
            return number == self.equals
        if self.at_least is None and self.at_most is None:
            return bool(value)
        if number is None:
            return False
        return (self.at_least is None or number >= self.at_least) and (self.at_most is None or number <= self.at_most)

    @property
    def words(self) -> str:
        """The condition as a reason, for the log."""
        parts = [self.kind or ""]
        if self.field is not None:
            parts.append(self.field if self.equals is None else f"{self.field} = {self.equals}")
        parts += [f">= {self.at_least:g}"] if self.at_least is not None else []
        parts += [f"<= {self.at_most:g}"] if self.at_most is not None else []
        parts += [f"priority >= {self.prio_at_least}"] if self.prio_at_least is not None else []
        return f"when {' '.join(part for part in parts if part)}"


class Wakes:
    """The conditions of one persona. `names` are all that it answers to."""

    def __init__(self, *, on: Iterable[str] = BODY, when: Iterable[Predicate] = (), names: Iterable[str] = ()) -> None:
        words = set(on)
        self._plain = frozenset(words & set(BODY))
        self._nearby = NEARBY in words
        self._when = tuple(when)
        self._names = frozenset(name.casefold() for name in names)
        #: Kinds that may ever wake it, None for any: what is of another kind need not be asked about.
        self.kinds: frozenset[str] | None = None
        if all(p.kind is not None for p in self._when):
            self.kinds = self._plain | {p.kind for p in self._when if p.kind is not None} | (TALK if self._nearby else frozenset())

    def may(self, kind: str) -> bool:
        """Whether an observation of this kind can wake it at all."""
        return self.kinds is None or kind in self.kinds

    def reason(self, observation: Observation, *, me: str, place: str = "") -> str:
        """Why an observation wakes a mind whose body acts, "" if it does not. `me` is its id in the world, `place` where it is."""
        if observation.own or observation.to not in (None, me):
            return ""
        if observation.kind in self._plain:
            return observation.kind
        selves = self._names | {me.casefold()}
        for predicate in self._when:
            if predicate.holds(observation, selves):
                return predicate.words
        if self._nearby and observation.kind in TALK and _here(observation, place):
            return NEARBY
        return ""


def _here(observation: Observation, place: str) -> bool:
    """Whether it was said where the NPC is: a world that does not say where tells only what can be heard."""
    data = observation.data or {}
    said_in = next((data[name] for name in ("room", "place") if isinstance(data.get(name), str)), "")
    return not said_in or not place or said_in.casefold() == place.casefold()


def _found(data: Mapping[str, Any] | None, path: str) -> tuple[bool, object]:
    value: object = data
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False, None
        value = value[name]
    return True, value
