"""What a body does by itself while its mind is not asked: greet, flee, stay, say that it is tired.

Invariants: pure; what is said is the operator's own words, with at most the cleaned name of a person in them; nobody is told the same twice
within its while, and all of them together hear no more than so many lines a minute; what is remembered of people is bounded.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from npc.speech import cleaned
from npc.wake import Predicate
from world_adapter.frames import Observation, Speaker

Kind = Literal["greet", "tired", "flee", "stay"]
#: People that are remembered, the newest.
PEOPLE = 1_000
#: A body flees once in so many seconds at most: the world has its say in between.
FLEE_AGAIN_S = 20.0
#: Of its strength, as far as the world tells that as "12 of 40" or "12/40": with so much left it is weak.
WEAK = 0.35
MINUTE_S = 60.0
NAME_CHARS = 40

_STRENGTH = re.compile(r"(\d{1,9})(?:\.\d+)?\s*(?:of|/|out of)\s*(\d{1,9})")
_UNFIT = re.compile(r"[^\w .'’-]+")
_LEAVES = re.compile(r"\b(leaves?|left|gone|goes away|departs?|disconnect\w*|quits?|logs? (?:out|off)|vanish\w*)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the operator wrote, see `npc.persona.Reflexes`."""

    greet: str = ""
    greet_again_s: float = 3_600.0
    tired: str = ""
    tired_again_s: float = 1_800.0
    per_minute: int = 6
    flee: str = ""
    flee_with: Mapping[str, str | float | bool] = field(default_factory=dict)
    flee_when: tuple[Predicate, ...] = ()
    stay: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One thing to be done: words for a person, or an action. `key` is who that person is, `event` what it answers."""

    kind: Kind
    key: str = ""
    person: str = ""
    words: str = ""
    event: int = 0


@dataclass(slots=True, kw_only=True)
class _Person:
    seen: float = 0.0
    tired: float = 0.0


class Reflexes:
    """Of one NPC that goes by `names`. Times are unix seconds."""

    def __init__(self, rules: Rules, *, names: Iterable[str]) -> None:
        self.rules = rules
        self._selves = frozenset(name.casefold() for name in names)
        self._people: OrderedDict[str, _Person] = OrderedDict()
        self._lines: deque[float] = deque(maxlen=rules.per_minute)
        self._fled = 0.0

    def knows(self, kind: str, key: str, *, at: float) -> None:
        """Something of an earlier life."""
        if kind in ("greet", "tired") and key:
            person = self._person(key)
            person.seen = max(person.seen, at)
            if kind == "tired":
                person.tired = max(person.tired, at)

    def saw(self, observation: Observation, *, now: float) -> None:
        """Somebody was there while the mind was: whoever it had to do with is greeted no more."""
        if key := key_of(observation.speaker):
            self._person(key).seen = now

    def meets(self, observation: Observation, *, me: str, now: float, event: int = 0, addressed: bool, alone: bool) -> Deed | None:
        """What is done about an observation. `addressed`: it is meant for the NPC; `alone`: and no mind will answer it soon."""
        if self._weak(observation, me):
            if 0 <= now - self._fled < FLEE_AGAIN_S:
                return None
            self._fled = now
            return Deed(kind="flee", event=event)
        speaker = observation.speaker
        if not (key := key_of(speaker)) or speaker is None:
            return None
        person = self._people.get(key)
        kind: Kind | None = None
        if addressed and alone:
            again = person is None or not 0 <= now - person.tired < self.rules.tired_again_s
            kind = "tired" if self.rules.tired and again else None
        elif addressed or arrives(observation):
            again = person is None or not 0 <= now - person.seen < self.rules.greet_again_s
            kind = "greet" if self.rules.greet and again and not (addressed and not alone) else None
        if kind is None or not self._may_speak(now):
            return None
        person = self._person(key)
        person.seen = now
        if kind == "tired":
            person.tired = now
        name = name_of(speaker)
        words = filled(self.rules.greet if kind == "greet" else self.rules.tired, name)
        return Deed(kind=kind, key=key, person=name, words=words, event=event)

    def _may_speak(self, now: float) -> bool:
        full = len(self._lines) == self._lines.maxlen
        if full and 0 <= now - self._lines[0] < MINUTE_S:
            return False
        self._lines.append(now)
        return True

    def _weak(self, observation: Observation, me: str) -> bool:
        if not self.rules.flee or observation.own or observation.to not in (None, me):
            return False
        if self.rules.flee_when:
            selves = self._selves | {me.casefold()}
            return any(predicate.holds(observation, selves) for predicate in self.rules.flee_when)
        if observation.kind != "hurt":
            return False
        found = _STRENGTH.search(observation.text[:2_000])
        return found is not None and int(found[1]) <= WEAK * int(found[2])

    def _person(self, key: str) -> _Person:
        person = self._people.setdefault(key, _Person())
        self._people.move_to_end(key)
        while len(self._people) > PEOPLE:
            self._people.popitem(last=False)
        return person


def key_of(speaker: Speaker | None) -> str:
    """Who a person is, "" for what is none: neither NPCs nor beasts are spoken to without a mind."""
    if speaker is None or speaker.kind not in ("player", "operator") or not (speaker.id or speaker.name):
        return ""
    return f"id:{speaker.id}" if speaker.id else f"name:{speaker.name.casefold()}"


def arrives(observation: Observation) -> bool:
    """Whether somebody came, as far as words tell."""
    return observation.kind == "presence" and not observation.own and not _LEAVES.search(observation.text[:400])


def name_of(speaker: Speaker) -> str:
    """A name that can be said aloud: letters, figures, blanks and what names hold, of one line and short; "" if nothing is left."""
    return " ".join(_UNFIT.sub(" ", cleaned(speaker.name)).split())[:NAME_CHARS].strip()


def filled(words: str, name: str) -> str:
    """The operator's words with the name in its place; without one its comma goes too."""
    if name:
        return words.replace("{name}", name)
    return " ".join(re.sub(r",?\s*\{name\}", "", words).split())


def told(deeds: Mapping[str, Mapping[str, str]], *, why: str, minutes: float) -> str:
    """One line about what was done (by kind the people, key and name), for the mind; "" if nothing was."""
    parts = []
    some = list(dict.fromkeys(name for people in deeds.values() for name in people.values() if name))
    who = f" ({', '.join(some[:5])}{f' and {len(some) - 5} more' if len(some) > 5 else ''})" if some else ""
    words = {"greet": "greeted {}", "tired": "told {} that you are tired", "flee": "fled {}", "stay": "stopped where you were"}
    for kind, people in deeds.items():
        count = len(people)
        number = "once" if count == 1 else f"{count} times"
        if kind in ("greet", "tired"):
            number = "1 person" if count == 1 else f"{count:,} people"
        parts.append(words[kind].format(number))
    if not parts:
        return ""
    return f"For {minutes:.0f} min you lived on reflexes ({why}): by them you {', '.join(parts)}{who}."
