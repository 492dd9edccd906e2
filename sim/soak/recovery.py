"""What became of each fault, and how many turns it took until the NPC lived as before.

Invariant: pure. A turn is good if the model ended it having seen its line; a fault that is over must be followed by a good turn within two,
the one under way not counted. Whatever began has an end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sim.soak.catalogue import Strike

#: Turns that may pass after the end of a fault without a good one.
BOUND = 2


@dataclass(slots=True, kw_only=True)
class Blow:
    """One strike and what became of it. Times are virtual seconds since the life began.

    Attributes:
        hits: how often it touched something.
        ended: None while it goes on.
        good: when the next good turn after its end was complete; None while there was none.
        late: turns that began after its end and were not good, until a good one.
        how: in words, once it is known.
    """

    strike: Strike
    began: float
    hits: int = 0
    ended: float | None = None
    good: float | None = None
    late: int = 0
    how: str = ""

    @property
    def met(self) -> bool:
        """Whether it happened at all."""
        return self.hits > 0


@dataclass(slots=True)
class Recovery:
    """All blows of a life."""

    blows: list[Blow] = field(default_factory=list)
    longest: int = 0
    _open: list[Blow] = field(default_factory=list)

    def begins(self, strike: Strike, now: float) -> Blow:
        """A strike begins."""
        blow = Blow(strike=strike, began=now)
        self.blows.append(blow)
        self._open.append(blow)
        return blow

    def ends(self, blow: Blow, now: float) -> None:
        """It is over."""
        if blow.ended is None:
            blow.ended = now

    def active(self, since: float) -> list[Blow]:
        """Blows that went on at `since` or later."""
        return [b for b in self._open if b.met and (b.ended is None or b.ended >= since)]

    def struck(self, names: Collection[str], *, since: float) -> bool:
        """Whether one of these went on at that time or later."""
        return any(b.strike.fault in names and (b.ended is None or b.ended >= since) for b in self.blows[-40:])

    def turn(self, *, began: float, good_at: float | None) -> list[Blow]:
        """A turn is over: good at a time, or not at all. Gives the blows after which there was no good turn for too long."""
        wedged: list[Blow] = []
        weather = bool(self.active(began))  # another one may have cost the turn
        for blow in list(self._open):
            if blow.ended is None and good_at is None:
                continue
            if not blow.met and blow.ended is not None:
                blow.how = "not met"
            elif blow.ended is None or (good_at is not None and good_at < blow.ended):
                continue  # it goes on, or the turn was complete before it was over: the next one will tell
            elif good_at is not None:
                blow.good, blow.how = good_at, _in_words(blow, good_at, same=began < blow.ended)
            elif weather:
                continue  # it may have been lost to another one, or to this one if it was under way
            else:
                blow.late += 1
                self.longest = max(self.longest, blow.late)
                if blow.late <= BOUND:
                    continue
                blow.how = f"no good turn for {blow.late} turns"
                wedged.append(blow)
            self._open.remove(blow)
        return wedged

    def finish(self, now: float) -> None:
        """The life is over."""
        for blow in self._open:
            blow.ended = now if blow.ended is None else blow.ended
            blow.how = "at the end of the run" if blow.met else "not met"
        self._open.clear()


def _in_words(blow: Blow, good_at: float, *, same: bool) -> str:
    if blow.late:
        return f"a good turn after {blow.late} lost"
    seconds = good_at - (blow.ended or good_at)
    if same:
        return "the same turn was good" if seconds < 60 else "the same turn was good, late"
    return "the next turn was good"
