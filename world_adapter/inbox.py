"""What an NPC has heard and not yet taken in: bounded, merged, and honest about what had to go. Pure.

Invariant: received = delivered + merged + omitted + waiting, always. An observation that is addressed to the NPC is never merged away and
never gives way to one that is not; it is omitted only when addressed lines alone exceed the hard cap. What is drained is in the order in
which it came, each keyed state once, with its newest value at its newest place.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from world_adapter.frames import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much may wait.

    Attributes:
        items: observations that are not addressed.
        chars: characters in them together.
        addressed_chars: the hard cap: characters in addressed observations together. Beyond it the oldest go, counted by name.
    """

    items: int = 500
    chars: int = 400_000
    addressed_chars: int = 8_388_608


@dataclass(slots=True)
class Counts:
    """Observations since the inbox was made."""

    received: int = 0
    delivered: int = 0
    merged: int = 0
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What waited, and what did not make it.

    Attributes:
        observations: in order of arrival.
        merged: how many older values of keyed states were replaced since the last drain.
        omitted: how many had to go since the last drain, by kind.
        addressed_omitted: how many of those were addressed to the NPC.
    """

    observations: tuple[Observation, ...] = ()
    merged: int = 0
    omitted: Mapping[str, int] = field(default_factory=dict)
    addressed_omitted: int = 0

    @property
    def note(self) -> str | None:
        """One line that names what is missing, None when nothing is."""
        total = sum(self.omitted.values())
        if not total:
            return None
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.omitted.items(), key=lambda pair: (-pair[1], pair[0])))
        addressed = f"; {self.addressed_omitted} of them were addressed to you" if self.addressed_omitted else ""
        return f"[{total} observation{'' if total == 1 else 's'} omitted: {kinds}{addressed}]"


@dataclass(slots=True)
class _Waiting:
    observation: Observation
    chars: int


_ADDRESSED = 10  # the lane above every priority


def addressed_to(npc: str) -> Callable[[Observation], bool]:
    """What counts as addressed: said to this NPC by its id, or by the operator, and not by itself."""

    def addressed(o: Observation) -> bool:
        return not o.own and (o.to == npc or (o.speaker is not None and o.speaker.kind == "operator"))

    return addressed


class Inbox:
    """The waiting room between what is durable and what the next turn reads."""

    def __init__(self, *, addressed: Callable[[Observation], bool], bounds: Bounds | None = None) -> None:
        self.counts = Counts()
        self._addressed = addressed
        self._bounds = bounds or Bounds()
        self._arrivals = 0
        # One lane per priority, each in order of arrival: the first of the lowest lane is the first to go.
        self._lanes: list[OrderedDict[int, _Waiting]] = [OrderedDict() for _ in range(_ADDRESSED + 1)]
        self._keys: dict[str, tuple[int, int]] = {}  # merge key: lane and arrival of its newest value
        self._items = 0
        self._chars = 0
        self._addressed_chars = 0
        self._merged = 0
        self._omitted: Counter[str] = Counter()
        self._addressed_omitted = 0

    def __len__(self) -> int:
        return self._items + len(self._lanes[_ADDRESSED])

    @property
    def urgent(self) -> bool:
        """Whether an addressed line waits."""
        return bool(self._lanes[_ADDRESSED])

    @property
    def top_prio(self) -> int:
        """The highest priority that waits, -1 when nothing does; an addressed line counts as 10."""
        return next((lane for lane in range(_ADDRESSED, -1, -1) if self._lanes[lane]), -1)

    def put(self, batch: Iterable[Observation]) -> None:
        """Takes observations in, in order; makes room as the bounds demand."""
        for observation in batch:
            self._put(observation)
        while self._items > self._bounds.items or self._chars > self._bounds.chars:
            self._omit(next(lane for lane in range(_ADDRESSED) if self._lanes[lane]))
        # The newest stays, whatever its size: it is what the next turn is about.
        while self._addressed_chars > self._bounds.addressed_chars and len(self._lanes[_ADDRESSED]) > 1:
            self._omit(_ADDRESSED)

    def drain(self) -> Drained:
        """Takes everything that waits, and the account of what does not any more."""
        waiting = {arrival: w.observation for lane in self._lanes for arrival, w in lane.items()}
        drained = Drained(
            observations=tuple(waiting[arrival] for arrival in sorted(waiting)),
            merged=self._merged,
            omitted=dict(self._omitted),
            addressed_omitted=self._addressed_omitted,
        )
        self.counts.delivered += len(waiting)
        for lane in self._lanes:
            lane.clear()
        self._keys.clear()
        self._omitted.clear()
        self._items = self._chars = self._addressed_chars = self._merged = self._addressed_omitted = 0
        return drained

    def _put(self, o: Observation) -> None:
        self.counts.received += 1
        self._arrivals += 1
        lane = _ADDRESSED if self._addressed(o) else min(max(o.prio, 0), _ADDRESSED - 1)
        if o.key is not None:
            self._merge(o.key, lane)
        chars = len(o.text) + 64
        if o.data is not None:
            chars += len(repr(o.data))
        self._lanes[lane][self._arrivals] = _Waiting(o, chars)
        if lane == _ADDRESSED:
            self._addressed_chars += chars
        else:
            self._items += 1
            self._chars += chars

    def _merge(self, key: str, lane: int) -> None:
        """A newer value of `key` has come: the older one goes, unless it was addressed; those count as events."""
        former = self._keys.pop(key, None)
        if former is not None:
            self._remove(*former)
            self.counts.merged += 1
            self._merged += 1
        if lane != _ADDRESSED:
            self._keys[key] = (lane, self._arrivals)

    def _omit(self, lane: int) -> None:
        """The oldest of a lane goes."""
        arrival = next(iter(self._lanes[lane]))
        gone = self._remove(lane, arrival).observation
        self.counts.omitted += 1
        self._omitted[gone.kind] += 1
        if lane == _ADDRESSED:
            self._addressed_omitted += 1
        elif gone.key is not None and self._keys.get(gone.key) == (lane, arrival):
            del self._keys[gone.key]

    def _remove(self, lane: int, arrival: int) -> _Waiting:
        waiting = self._lanes[lane].pop(arrival)
        if lane == _ADDRESSED:
            self._addressed_chars -= waiting.chars
        else:
            self._items -= 1
            self._chars -= waiting.chars
        return waiting
