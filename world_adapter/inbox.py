"""What an NPC has heard and not yet taken in: bounded, merged, fair, and honest about what had to go. Pure.

Invariant: received = delivered + merged + omitted + waiting, always. An observation that is addressed to the NPC is never merged away and
never gives way to one that is not; it is omitted only when addressed lines alone exceed the hard cap. Among equally urgent ones it is the
source with the most waiting that loses its oldest, so nobody's flood pushes another's words out. What is drained is in the order in which
it came, each keyed state once, with its newest value at its newest place.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain

from world_adapter.frames import Observation, Speaker
from world_adapter.runs import Row, Run, Source, observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much may wait.

    Attributes:
        items: observations that are not addressed.
        chars: characters in them together.
        addressed_chars: the hard cap: characters in addressed observations together. Beyond it some go, counted by name.
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
        loudest: who caused more than half of what had to go, "" where nobody did.
        loudest_omitted: how many those were.
    """

    observations: tuple[Observation, ...] = ()
    merged: int = 0
    omitted: Mapping[str, int] = field(default_factory=dict)
    addressed_omitted: int = 0
    loudest: str = ""
    loudest_omitted: int = 0

    @property
    def note(self) -> str | None:
        """One line that names what is missing, None when nothing is."""
        total = sum(self.omitted.values())
        if not total:
            return None
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.omitted.items(), key=lambda pair: (-pair[1], pair[0])))
        loudest = f'; {self.loudest_omitted} of them from "{self.loudest}"' if self.loudest else ""
        addressed = f"; {self.addressed_omitted} of them were addressed to you" if self.addressed_omitted else ""
        return f"[{total} observation{'' if total == 1 else 's'} omitted: {kinds}{loudest}{addressed}]"


_ADDRESSED = 10  # the lane above every priority
_FEW = 8  # omitted ones that are too few for anybody to be the loudest
_NAMES = 1_000  # sources of omitted ones that are counted apart
_NAME_CHARS = 40
_GATHERED = 16_384  # observations of runs that are worth a choice
_GATHERED_CHARS = 4_000_000


def addressed_to(npc: str) -> Callable[[Observation], bool]:
    """What counts as addressed: said to this NPC by its id, or by the operator, and not by itself."""

    def addressed(o: Observation) -> bool:
        return not o.own and (o.to == npc or (o.speaker is not None and o.speaker.kind == "operator"))

    return addressed


class _Waiting:
    """One observation, or the row that it is, to be known by `seq`."""

    __slots__ = ("chars", "key", "kind", "lane", "name", "seq", "source", "what")

    def __init__(
        self, what: Observation | Row, seq: int, lane: int, source: str, name: str, kind: str, key: str | None, chars: int
    ) -> None:
        self.what, self.seq, self.lane, self.source, self.name = what, seq, lane, source, name
        self.kind, self.key, self.chars = kind, key, chars

    @property
    def observation(self) -> Observation:
        return self.what if isinstance(self.what, Observation) else observed(self.what, seq=self.seq)


class _Share:
    """What waits of one source in one lane: arrivals, oldest first, and their weight together."""

    __slots__ = ("arrivals", "weight")

    def __init__(self) -> None:
        self.arrivals: dict[int, None] = {}
        self.weight = 0


class _Lane:
    """What waits of one urgency, by source."""

    __slots__ = ("_heaviest", "shares", "size")

    def __init__(self) -> None:
        self.size = 0
        self.shares: dict[str, _Share] = {}
        # Weights as they were at some time, negative: what is on top is checked before it is believed.
        self._heaviest: list[tuple[int, int, str]] = []

    def add(self, source: str, arrival: int, weight: int) -> None:
        share = self.shares.get(source)
        if share is None:
            share = self.shares[source] = _Share()
        share.arrivals[arrival] = None
        share.weight += weight
        self.size += 1
        heapq.heappush(self._heaviest, (-share.weight, arrival, source))
        if len(self._heaviest) > 64 + 4 * self.size:
            self._heaviest = [(-s.weight, next(iter(s.arrivals)), name) for name, s in self.shares.items()]
            heapq.heapify(self._heaviest)

    def remove(self, source: str, arrival: int, weight: int) -> None:
        share = self.shares[source]
        del share.arrivals[arrival]
        share.weight -= weight
        self.size -= 1
        if share.arrivals:
            heapq.heappush(self._heaviest, (-share.weight, next(iter(share.arrivals)), source))
        else:
            del self.shares[source]

    def next_to_go(self) -> int:
        """The oldest of the source with the most waiting; the lane must not be empty."""
        while True:
            weight, _, source = self._heaviest[0]
            share = self.shares.get(source)
            if share is not None and share.weight == -weight:
                return next(iter(share.arrivals))
            heapq.heappop(self._heaviest)


class Inbox:
    """The waiting room between what is durable and what the next turn reads."""

    def __init__(self, *, addressed: Callable[[Observation], bool], bounds: Bounds | None = None) -> None:
        self._counts = Counts()
        self._gathered: list[tuple[list[Row], Sequence[str | None], int, Collection[int], Collection[int]]] = []
        self._gathered_items = self._gathered_chars = 0
        self._addressed = addressed
        self._bounds = bounds or Bounds()
        # What one observation weighs besides its characters, so that many short ones weigh as much as few long ones that fill the room.
        self._base = self._bounds.chars // max(self._bounds.items, 1)
        self._arrivals = 0
        self._waiting: dict[int, _Waiting] = {}  # in order of arrival
        self._lanes = [_Lane() for _ in range(_ADDRESSED + 1)]
        self._keys: dict[str, int] = {}  # merge key: arrival of its newest value
        self._items = 0
        self._chars = 0
        self._addressed_chars = 0
        self._merged = 0
        self._omitted: Counter[str] = Counter()
        self._omitted_of: Counter[str] = Counter()
        self._addressed_omitted = 0

    def __len__(self) -> int:
        self._settle()
        return len(self._waiting)

    @property
    def counts(self) -> Counts:
        """Observations since the inbox was made."""
        self._settle()
        return self._counts

    @property
    def urgent(self) -> bool:
        """Whether an addressed line waits."""
        self._settle()
        return bool(self._lanes[_ADDRESSED].size)

    @property
    def top_prio(self) -> int:
        """The highest priority that waits, -1 when nothing does; an addressed line counts as 10."""
        self._settle()
        return next((lane for lane in range(_ADDRESSED, -1, -1) if self._lanes[lane].size), -1)

    def put(self, batch: Iterable[Observation]) -> None:
        """Takes observations in, in order; makes room as the bounds demand."""
        self._settle()
        for o in batch:
            self._counts.received += 1
            lane = _ADDRESSED if self._addressed(o) else min(max(o.prio, 0), _ADDRESSED - 1)
            if o.key is not None:
                self._replace(o.key)
            source, name = _source_of(o.speaker, o.kind)
            self._wait(_Waiting(o, o.seq, lane, source, name, o.kind, o.key, _chars(o.text, o.data)))
        self._make_room()

    def put_run(self, run: Run, *, first: int, addressed: Collection[int], besides: Collection[int] = ()) -> None:
        """The same as `put` for the observations of a run, known by the numbers from `first` on, but for the positions `besides`.

        `addressed` are the positions that are. What may wait is worked out when somebody asks, or when enough has gathered that most of it
        may not: in a flood that is a look at each and a choice among few.
        """
        self._gathered.append((run.rows, run.keys, first, addressed, besides))
        self._gathered_items += len(run)
        self._gathered_chars += run.words.chars
        if self._gathered_items >= _GATHERED or self._gathered_chars >= _GATHERED_CHARS:
            self._settle()

    def _settle(self) -> None:
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        self._gathered_items = self._gathered_chars = 0
        rows = [*chain.from_iterable([one[0] for one in gathered])]
        keys = [*chain.from_iterable([one[1] for one in gathered])]
        starts = [*accumulate([len(one[0]) for one in gathered], initial=0)]
        addressed = {at + n for at, one in zip(starts, gathered, strict=False) for n in one[3]}
        besides = {at + n for at, one in zip(starts, gathered, strict=False) for n in one[4]}
        addressed -= besides
        if besides:
            positions: Sequence[int] = [n for n in range(len(rows)) if n not in besides]
            last = {keys[n]: n for n in positions}
        else:
            positions = range(len(rows))
            last = dict(zip(keys, positions, strict=True))
        last.pop(None, None)
        newest: dict[str, int] = last  # type: ignore[assignment]  # None is gone
        for key in newest:
            self._replace(key)
        others = [n for n, key in enumerate(keys) if key is None]
        if besides:
            others = [n for n in others if n not in besides]
        others = sorted([*others, *newest.values()])
        if addressed:
            others = [n for n in others if n not in addressed]
        merged = len(positions) - len(others) - len(addressed)
        self._counts.received += len(positions)
        self._counts.merged += merged
        self._merged += merged
        for n in sorted(addressed.union(self._hopeful(rows, others))):
            row = rows[n]
            lane = _ADDRESSED if n in addressed else row.prio
            source, name = _source_of(row.speaker, row.kind)
            one = bisect_right(starts, n) - 1
            number = gathered[one][2] + n - starts[one]
            self._wait(_Waiting(row, number, lane, source, name, row.kind, row.key, _chars(row.text, row.data)))
        self._make_room()

    def _hopeful(self, rows: Sequence[Row], candidates: list[int]) -> list[int]:
        """Those of the candidates that may stay, and some; what has enough newer ones of its own source before it never waits at all."""
        left = self._bounds.items
        if len(candidates) <= left:
            return candidates
        several: defaultdict[tuple[int | str, ...], list[int]] = defaultdict(list)
        for n in candidates:
            row = rows[n]
            who = row.speaker
            several[(row.prio, row.kind) if who is None else (row.prio, who.id, who.name)].append(n)
        lanes: dict[int, dict[tuple[str, str], list[int]]] = {}
        for group in several.values():
            row = rows[group[0]]
            groups, source = lanes.setdefault(row.prio, {}), _source_of(row.speaker, row.kind)
            groups[source] = sorted([*groups[source], *group]) if source in groups else group
        kept: list[int] = []
        for lane in sorted(lanes, reverse=True):
            groups = lanes[lane]
            most = _level([len(group) for group in groups.values()], left)
            for (_, name), group in groups.items():
                here = group[-most:] if most else []
                kept += here
                left -= len(here)
                for kind, count in Counter([rows[n].kind for n in group[: len(group) - len(here)]]).items():
                    self._account(kind, name, count)
            left = max(left, 0)
        return kept

    def drain(self) -> Drained:
        """Takes everything that waits, and the account of what does not any more."""
        self._settle()
        name, most = max(self._omitted_of.items(), key=lambda pair: pair[1], default=("", 0))
        loud = bool(name) and most >= _FEW and 2 * most > sum(self._omitted.values())
        drained = Drained(
            observations=tuple([w.observation for w in self._waiting.values()]),
            merged=self._merged,
            omitted=dict(self._omitted),
            addressed_omitted=self._addressed_omitted,
            loudest=name[:_NAME_CHARS] if loud else "",
            loudest_omitted=most if loud else 0,
        )
        self._counts.delivered += len(self._waiting)
        self._waiting = {}
        self._lanes = [_Lane() for _ in range(_ADDRESSED + 1)]
        self._keys.clear()
        self._omitted.clear()
        self._omitted_of.clear()
        self._items = self._chars = self._addressed_chars = self._merged = self._addressed_omitted = 0
        return drained

    # Inside

    def _wait(self, w: _Waiting) -> None:
        self._arrivals += 1
        arrival = self._arrivals
        self._waiting[arrival] = w
        self._lanes[w.lane].add(w.source, arrival, w.chars + self._base)
        if w.lane == _ADDRESSED:
            self._addressed_chars += w.chars
        else:
            self._items += 1
            self._chars += w.chars
            if w.key is not None:
                self._keys[w.key] = arrival

    def _replace(self, key: str) -> None:
        """A newer value of `key` comes: the older one goes, unless it was addressed; those count as events."""
        former = self._keys.pop(key, None)
        if former is not None:
            self._remove(former)
            self._counts.merged += 1
            self._merged += 1

    def _make_room(self) -> None:
        bounds, lanes = self._bounds, self._lanes
        lane = 0
        while self._items > bounds.items or self._chars > bounds.chars:
            while not lanes[lane].size:
                lane += 1
            self._omit(lanes[lane].next_to_go())
        # The newest stays, whatever its size: it is what the next turn is about.
        addressed = lanes[_ADDRESSED]
        while self._addressed_chars > bounds.addressed_chars and addressed.size > 1:
            self._omit(addressed.next_to_go())

    def _account(self, kind: str, name: str, count: int) -> None:
        """So many had to go."""
        self._counts.omitted += count
        self._omitted[kind] += count
        if name:
            self._omitted_of[name] += count
            if len(self._omitted_of) > _NAMES:
                self._omitted_of = Counter(dict(self._omitted_of.most_common(_NAMES // 2)))

    def _omit(self, arrival: int) -> None:
        gone = self._remove(arrival)
        self._account(gone.kind, gone.name, 1)
        if gone.lane == _ADDRESSED:
            self._addressed_omitted += 1
        elif gone.key is not None and self._keys.get(gone.key) == arrival:
            del self._keys[gone.key]

    def _remove(self, arrival: int) -> _Waiting:
        w = self._waiting.pop(arrival)
        self._lanes[w.lane].remove(w.source, arrival, w.chars + self._base)
        if w.lane == _ADDRESSED:
            self._addressed_chars -= w.chars
        else:
            self._items -= 1
            self._chars -= w.chars
        return w


def _level(counts: list[int], room: int) -> int:
    """How many of each source, at most, may matter where `room` is shared fairly: the fair share, and two more for those of light ones."""
    used = 0
    for done, count in enumerate(sorted(counts)):
        if count * (len(counts) - done) > room - used:
            share = (room - used) // (len(counts) - done)
            return share + 2 if room else 0
        used += count
    return max(counts)


def _source_of(speaker: Speaker | Source | None, kind: str) -> tuple[str, str]:
    """Whose share an observation counts for, and under what name. What nobody caused counts by its kind."""
    if speaker is None:
        return f"kind {kind}", ""
    name = speaker.name or speaker.id
    return f"from {speaker.id or name}", name


def _chars(text: str, data: Mapping[str, object] | None) -> int:
    return len(text) + 64 + (0 if data is None else len(repr(data)))
