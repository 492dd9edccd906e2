"""Many observations at once: which of them are looked at one by one, and which are stored, counted and wait unread.

Invariants: whatever may be meant for this NPC, may be its own voice, or may wake it, is always looked at. Of what is merely overheard
each speaker's newest comes first and the rest as far as the allowance goes; what is passed over is stored and waits like all else, only it
is not among what is remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from npc.hearing import TALK, Ears
from world_adapter.runs import Run

#: From how many on they are a crowd.
MANY = 32
#: Overheard observations that are looked at in a second, and how many of them may gather for one moment: more than anybody can read.
A_SECOND = 100.0
AT_ONCE = 100
#: Kinds that are one side of a conversation, and kinds that change what it is about.
_SIDES = TALK | {"emote"}
_SUBSTANCE = frozenset({"hurt", "blocked", "combat"})
#: A text without any of these tells no line of talk.
_TELLING = re.compile(r":|[Ss]ay|[Ww]hisper|[Aa]sk|[Ss]hout|[Yy]ell|[Tt]ell")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Positions in a run.

    Attributes:
        close: to be looked at one by one, rising.
        addressed: meant for this NPC.
        own: caused by itself.
    """

    close: list[int]
    addressed: set[int]
    own: set[int]


class Allowance:
    """How many overheard observations may be looked at now. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float], *, a_second: float = A_SECOND, at_once: int = AT_ONCE) -> None:
        self._clock, self._a_second, self._at_once = clock, a_second, at_once
        self._left, self._at = float(at_once), clock()

    def take(self, wanted: Iterable[int]) -> list[int]:
        """As many of `wanted` as may be, the first ones."""
        now = self._clock()
        self._left = min(float(self._at_once), self._left + max(0.0, now - self._at) * self._a_second)
        self._at = now
        taken = list(islice(wanted, int(self._left)))
        self._left -= len(taken)
        return taken


def look(run: Run, *, ears: Ears, me: str, waking: Callable[[str], bool] | None, allowance: Allowance) -> Look:
    """Which is which. `me` is the NPC's id; `waking` says of a kind whether it may wake it now, None if nothing needs waking."""
    rows = run.rows
    own = {n for n, row in enumerate(rows) if row.own} if run.words.owned else set()
    kinds = run.words.kinds
    close: set[int] = set()
    if me in run.words.tos:
        close.update([n for n, row in enumerate(rows) if row.to == me])
    sides: list[int] = []
    if not kinds.isdisjoint(_SIDES):
        sides = [n for n, kind in enumerate(run.kinds) if kind in _SIDES]
    if "whisper" in kinds:
        close.update([n for n in sides if rows[n].kind == "whisper"])
    close.update(_special(run, ears, me))
    if sides:
        close.update([n for n in sides if (speaker := rows[n].speaker) is None or not speaker.name])
        if ears.named("\n".join([rows[n].text for n in sides])):
            close.update([n for n in sides if ears.named(rows[n].text)])
    addressed = {n for n in close if ears.addressed(run.at(n), me)}
    if waking is not None:
        wanted = {kind for kind in kinds if waking(kind)}
        close.update([n for n, row in enumerate(rows) if row.kind in wanted])
    if not kinds.isdisjoint(_SUBSTANCE):
        close.add(max([n for n, row in enumerate(rows) if row.kind in _SUBSTANCE]))
    close.update(allowance.take(n for n in _overheard(run, sides) if n not in close))
    return Look(close=sorted(close - own), addressed=addressed, own=own)


def _special(run: Run, ears: Ears, me: str) -> list[int]:
    """What the operator says, and what may be the NPC's own voice."""
    sources = [source for source in run.words.speakers if source is not None]
    names = {name for name in {source.name for source in sources} if name and ears.named(name)}
    if not names and not any(source.kind == "operator" or source.id == me for source in sources):
        return []
    return [
        n
        for n, row in enumerate(run.rows)
        if (s := row.speaker) is not None and (s.kind == "operator" or s.id == me or s.name in names)
    ]


def _overheard(run: Run, sides: list[int]) -> Iterable[int]:
    """What may be worth remembering, in the order of its worth: the newest of each speaker, the newest, and then what was narrated."""
    rows = run.rows
    later: list[int] = []
    heard: set[str] = set()
    for n in reversed(sides):
        if rows[n].kind not in TALK:
            continue
        speaker = rows[n].speaker
        who = "" if speaker is None else speaker.id or speaker.name
        if who in heard:
            later.append(n)
        else:
            heard.add(who)
            yield n
    yield from later
    for n in range(len(rows) - 1, -1, -1):
        if rows[n].kind not in TALK and _TELLING.search(rows[n].text):
            yield n
