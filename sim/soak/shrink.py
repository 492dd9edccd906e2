"""A failing life made as short as it can be: delta debugging over its strikes, its turns, and the numbers in its strikes.

Invariant: what comes out fails in the same way as what went in, or is what went in; every step was lived to see that. Bounded in tries and
in seconds, and whatever was reached by then is the answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sim.oracle import Finding
from sim.soak.catalogue import Strike
from sim.soak.script import Script

T = TypeVar("T")
#: Whether a script still fails in the same way.
Fails = Callable[[Script], bool]
_NUMBERS = re.compile(r"#?\d[\d,.]*")


def family(finding: Finding) -> str:
    """What two findings of one kind have in common: the row, and the sentence without its numbers and what is in brackets."""
    words = re.sub(r"[(\[].*?[)\]]|'[^']*'|/\S+", "", finding.sentence)
    return f"{finding.rule} {_NUMBERS.sub('N', words)[:60]}"


class _Spent(Exception):  # noqa: N818 - reads as what happened
    """No more tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The shortest script that was found, and how many lives it took."""

    script: Script
    tries: int


def shrink(script: Script, fails: Fails, *, last_turn: int, tries: int = 120, seconds: float = 300.0) -> Shrunk:
    """The shortest that can be reached.

    Args:
        script: fails.
        fails: lives a script.
        last_turn: in which it was found; -1 for at the end of the life.
        tries: lives at most.
        seconds: after which no other life is begun.
    """
    spent, until = 0, time.monotonic() + seconds
    best = script
    known = {script.text(): True}  # the same question comes up again and again

    def holds(candidate: Script) -> bool:
        nonlocal spent, best
        if (asked := candidate.text()) in known:
            return known[asked]
        if spent >= tries or time.monotonic() > until:
            raise _Spent
        spent += 1
        known[asked] = fails(candidate)
        if known[asked]:
            best = candidate
        return known[asked]

    try:
        if last_turn >= 0:
            _suffix(script, holds, last_turn)
        reduced(best.strikes, lambda strikes: holds(replace(best, strikes=tuple(strikes))))
        reduced(best.turns, lambda turns: bool(turns) and holds(replace(best, turns=tuple(turns)).without_strikes_out_of_turn()))
        reduced(best.strikes, lambda strikes: holds(replace(best, strikes=tuple(strikes))))
        _plainer(lambda: best, holds)
    except _Spent:
        pass
    return Shrunk(script=best, tries=spent)


def _suffix(script: Script, holds: Fails, last_turn: int) -> None:
    """What was found came up in one turn: perhaps the few before it suffice. Short lives are cheap, so the shortest comes first."""
    upto = tuple(t for t in script.turns if t <= last_turn)
    few = 1
    while few < len(upto):
        if holds(replace(script, turns=upto[-few:]).without_strikes_out_of_turn()):
            return
        few *= 2
    holds(replace(script, turns=upto).without_strikes_out_of_turn())


def reduced(items: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """A part of `items`, in order, for which `holds` is true and of which no single item can be left out (Zeller's ddmin)."""
    kept, parts = list(items), 1  # the first try: nothing at all
    while kept:
        size = max(1, len(kept) // parts)
        for begin in range(0, len(kept), size):
            rest = kept[:begin] + kept[begin + size :]
            if holds(rest):
                kept, parts = rest, max(parts - 1, 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept


def _plainer(best: Callable[[], Script], holds: Fails) -> None:
    """Each strike with plainer numbers, one after the other."""
    for place in range(len(best().strikes)):
        for plainer in _plainer_strikes(best().strikes[place]):
            strikes = list(best().strikes)
            strikes[place] = plainer
            if holds(replace(best(), strikes=tuple(strikes))):
                break


def _plainer_strikes(strike: Strike) -> Iterable[Strike]:
    if strike.after_s and strike.hits > 1:
        yield replace(strike, after_s=0.0, hits=1)
    if strike.after_s:
        yield replace(strike, after_s=0.0)
    if strike.hits > 1:
        yield replace(strike, hits=1)
