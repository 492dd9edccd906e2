"""One planned pass down the ladder.

Invariants: total and finite (each rung at most once), strictly falling, the identity below the mark. Post-condition: the result fits
the hard limit, or the verdict asks for a hard reset, after which it always fits (`budget.misfit` has found out before whether it can).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .budget import Room
from .rungs import LADDER, Goal, Parts


class Verdict(StrEnum):
    """How a pass ended."""

    UNTOUCHED = "untouched"
    FITS = "fits"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """One rung that ran: what it was, sizes in raw tokens, and why."""

    rung: str
    before: int
    after: int
    note: str

    @property
    def failed(self) -> bool:
        """A rung that freed nothing has failed."""
        return self.after >= self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The outcome of a pass."""

    parts: Parts
    climbs: tuple[Climb, ...]
    verdict: Verdict


def descend(parts: Parts, room: Room, *, opening: bool) -> Pass:
    """Bring `parts` under the limit; at a turn's opening already when they are above the high mark.

    In the middle of a turn the prefix is warm and more of the same turn follows, so there only the hard limit starts the ladder.
    The low mark is meant for what is old: the current turn stays whole on top of it while the hard limit allows that.
    """
    size = parts.tokens
    if size <= (room.high if opening else room.limit):
        return Pass(parts=parts, climbs=(), verdict=Verdict.UNTOUCHED)
    fresh = sum(m.tokens for m in parts.messages[parts.current :])
    goal = Goal(want=min(room.limit, room.low + fresh), limit=room.limit)
    climbs: list[Climb] = []
    for name, rung in LADDER:
        # Rung 4 takes what the turn was given to think with: only for the hard limit, never for the low mark.
        if size <= (room.limit if name == "shed_recall" else goal.want):
            continue
        step = rung(parts, goal)
        now = step.parts.tokens
        climbs.append(Climb(rung=name, before=size, after=now, note=step.note))
        if now < size:
            parts, size = step.parts, now
    verdict = Verdict.FITS if size <= room.limit else Verdict.RESET
    return Pass(parts=parts, climbs=tuple(climbs), verdict=verdict)
