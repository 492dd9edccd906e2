"""Who talks with this NPC, and what it said itself: own words that come back, words said twice, talk that goes in circles.

Invariants: an echo is known by who said it or by its words, and never taken from somebody else who repeats them; nothing that is heard is
lost or changed here but for that mark; what is decided is told to whoever keeps the log.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from npc.hearing import TALK, Ears, Heard
from npc.pairguard import LONGEST_REST_S, OPEN, PEOPLE, PairGuard
from npc.speech import same
from world_adapter.frames import Observation

#: How long own words may take to come back, and how long they are not said again with nobody having spoken in between, in seconds.
ECHO_S = 15.0
REPEAT_S = 30.0
#: Own lines that are kept in mind.
LINES = 32
#: Kinds of observation that are one side of a conversation, and kinds that give it something new to be about.
_SIDES = TALK | {"emote"}
_SUBSTANCE = frozenset({"hurt", "blocked", "combat"})
_MARKS = " \t\"'“”„«»‘’.!?…"
_TELLING_CHARS = 200  # around the words of an echo
_SOON = 1.0  # waits longer than this are told in whole seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An observation as it was taken: marked as own where it is an echo.

    Attributes:
        observation: what to store.
        lines: the lines of talk in it.
        wait_s: seconds until it may start a turn; 0: as any other; None: it starts none.
        why: what was decided about it, for the log; None: nothing.
        notice: what the NPC is to be told about that, with the news.
    """

    observation: Observation
    lines: list[Heard]
    wait_s: float | None = 0.0
    why: Mapping[str, Any] | None = None
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """A line of ours: its words as they are compared, as they come back, to whom, when (unix seconds), how much had been heard before."""

    words: str
    plain: str
    to: str
    at: float
    heard: int


class Company:
    """For one NPC that goes by `names`; `kinds_known`: whether its world tells people from NPCs. `clock` gives unix seconds."""

    def __init__(
        self, *, names: Iterable[str], ears: Ears, guard: PairGuard, clock: Callable[[], float], kinds_known: bool = True
    ) -> None:
        self.guard = guard
        self._ears, self._clock, self._kinds_known = ears, clock, kinds_known
        self._names = frozenset(n.casefold() for n in names)
        called = "|".join(sorted((re.escape(n) for n in self._names), key=len, reverse=True))
        self._telling = re.compile(rf"(?:you|{called})\b[^\n]{{0,60}}[:,\"“„«]\s*[\"“„«']?", re.IGNORECASE)
        self._said: deque[_Said] = deque(maxlen=LINES)
        self._heard = 0

    # ------------------------------------------------------------ what comes in
    def take(self, o: Observation, me: str) -> Taken:
        """An observation comes in; `me` is the NPC's own id in the world. To be called once for each, in order."""
        if o.own:
            return Taken(observation=o, lines=[])
        if (o.kind in _SIDES or not (o.speaker and o.speaker.name)) and self._echoes(o, me):
            return Taken(observation=replace(o, own=True), lines=[], why={"decided": "own echo"})
        lines = self._ears.heard(o, me)
        if not lines and o.kind not in _SIDES:
            self._looked(o, me)
            return Taken(observation=o, lines=lines)
        self._heard += 1
        now = self._clock()
        heard = self._speakers(o, lines)
        verdicts = [(self.guard.heard(key, text, kind=kind, now=now, name=name), name) for key, name, text, kind in heard]
        # Where several speak in one text, one of them who is to be heard at once is enough.
        verdict, who = min(verdicts, key=lambda v: LONGEST_REST_S if v[0].wait_s is None else v[0].wait_s, default=(OPEN, ""))
        if verdict.phase == "open":
            return Taken(observation=o, lines=lines)
        why = {"decided": verdict.phase, "speaker": who, "rounds": verdict.rounds}
        if verdict.wait_s is not None:
            why["wait_s"] = round(verdict.wait_s, 3)
        if verdict.rest_s:
            why["rest_s"] = round(verdict.rest_s, 3)
        notice = ""
        if verdict.phase == "goodbye":
            notice = (
                f"You and {who} have talked for long with nobody else. Say goodbye once, if you like: then this talk rests for "
                f"{_spell(verdict.rest_s)}, and what {who} says meanwhile does not wake you."
            )
        return Taken(observation=o, lines=lines, wait_s=verdict.wait_s, why=why, notice=notice)

    def heard(self, o: Observation) -> None:
        """Something that was heard in an earlier life."""
        if not o.own and (o.to is not None or o.kind in _SIDES or self._ears.heard(o, "")):
            self._heard += 1

    def _looked(self, o: Observation, me: str) -> None:
        """What is no talk: somebody is there, or something happens that changes what there is to say."""
        if o.to == me:
            self._heard += 1
        if o.speaker and o.speaker.kind in PEOPLE:
            self.guard.noticed(o.speaker.id or o.speaker.name, now=self._clock())
        if o.kind in _SUBSTANCE:
            self.guard.event(self._clock())

    def _speakers(self, o: Observation, lines: list[Heard]) -> list[tuple[str, str, str, str]]:
        """Who speaks in it: key, name, words, kind. Lines of a text that several told may have several."""
        if o.speaker and (key := o.speaker.id or o.speaker.name):
            if o.kind not in _SIDES:
                return []
            known = self._kinds_known or o.speaker.kind == "npc"
            return [(key, o.speaker.name or key, o.text, o.speaker.kind if known else "")]
        return [(line.speaker.casefold(), line.speaker, line.text, "") for line in lines]

    def _echoes(self, o: Observation, me: str) -> bool:
        """Whether these are own words that come back without being marked as such."""
        speaker = o.speaker
        if speaker and speaker.id and speaker.id == me:
            return True
        if not self._said or self._clock() - self._said[-1].at > ECHO_S or (me and o.to == me):
            return False  # what is said to this NPC is said by another, whatever the words
        if speaker and speaker.kind == "operator":
            return False
        if speaker and speaker.name and speaker.name.casefold() not in self._names:
            return False
        recent = [said.plain for said in self._said if said.plain and 0 <= self._clock() - said.at <= ECHO_S]
        if len(o.text) > max(map(len, recent), default=0) + _TELLING_CHARS:
            return False
        text = _plain(o.text)
        return any(text.endswith(said) and self._introduces(text[: len(text) - len(said)], o.kind) for said in recent)

    def _introduces(self, before: str, kind: str) -> bool:
        """Whether what stands before own words makes them an echo: nothing, where it is talk, or such as `You say, "`."""
        return bool(self._telling.fullmatch(before)) if before else kind in TALK

    # ------------------------------------------------------------ what goes out
    def speaks(self, text: str, *, to: str = "", at: float | None = None) -> None:
        """Words leave: from now on they may come back. `at`: unix seconds, now by default."""
        self._said.append(_Said(words=same(text), plain=_plain(text), to=to, at=self._clock() if at is None else at, heard=self._heard))
        if at is None:
            self.guard.spoke(text, now=self._clock())

    def unsaid(self, text: str) -> None:
        """The world refused these words: they may be said again."""
        words = same(text)
        newest = next((said for said in reversed(self._said) if said.words == words), None)
        if newest:
            self._said.remove(newest)

    def repeated(self, text: str, *, to: str = "", but: Collection[str] = ()) -> float | None:
        """How many seconds ago the same words were said to the same one, with nobody having spoken since; None: they were not.

        `but`: lines that belong to what is being said now, and may hold the same words again.
        """
        if text in but:
            return None
        now, words = self._clock(), same(text)
        said = (now - s.at for s in self._said if s.words == words and s.to == to and s.heard == self._heard)
        return next((ago for ago in said if 0 <= ago <= REPEAT_S), None)

    def silent(self, to: str) -> float:
        """How many seconds words have to wait because they could only go on with a talk that rests; 0: they need not."""
        return self.guard.silent(to, now=self._clock())


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(_MARKS)


def _spell(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds" if seconds >= _SOON else "a moment"
