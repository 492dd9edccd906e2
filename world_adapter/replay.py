"""What a world keeps for one NPC so that nothing is lost between its words and the agent's disk.

Invariant: numbers rise by one from 1 under one epoch; what is not acknowledged is kept, at least the newest `keep`, and what had to go is
counted as lost at the next `begin`. Whether it is kept over restarts as well is `keeping`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from world_adapter.frames import Observation, Resume

MIN_KEEP = 1_000  # the protocol's promise


class Replay:
    """The stream of one NPC under one epoch, seen from the world.

    Attributes:
        newest: the number given last, 0 before the first.
        acked: everything up to this number is safe with the agent.
    """

    __slots__ = ("_base", "_keep", "_kept", "acked", "newest")

    def __init__(self, *, keep: int) -> None:
        if keep < MIN_KEEP:
            raise ValueError(f"the protocol promises to keep the last {MIN_KEEP} observations, {keep} is less")
        self.newest = 0
        self.acked = 0
        self._keep = keep
        self._kept: list[Observation] = []
        self._base = 1  # the number of the first that is kept, or would be

    def add(self, observation: Observation) -> None:
        """Keeps the next observation; its number is `newest` + 1."""
        if observation.seq != self.newest + 1:
            raise ValueError(f"observation {observation.seq} after {self.newest}")
        self.newest = observation.seq
        self._kept.append(observation)
        # A tenth of slack, so that dropping the oldest is one cut in many additions.
        if len(self._kept) > self._keep + self._keep // 10:
            self._drop(len(self._kept) - self._keep)

    def restore(self, *, newest: int, acked: int, kept: Sequence[Observation]) -> None:
        """Goes on with what an earlier process stored; `kept` ends with `newest` and has no gap."""
        self.newest = newest
        self.acked = min(acked, newest)
        self._kept = list(kept)
        self._base = newest + 1 - len(self._kept)

    @property
    def first(self) -> int:
        """The oldest number that is kept, or would be."""
        return self._base

    def since(self, seq: int) -> Sequence[Observation]:
        """All that is kept of what came after `seq`."""
        return self._kept[max(seq + 1 - self._base, 0) :]

    def ack(self, seq: int) -> None:
        """Everything up to `seq` is safe; numbers that were never given are ignored."""
        if self.acked < seq <= self.newest:
            self.acked = seq
            self._drop(seq + 1 - self._base)

    def begin(self, seq: int | None) -> tuple[int, int]:
        """An agent attaches that has everything up to `seq` (None: it knows of nothing). Answers (next number, how many are lost)."""
        if seq is None:
            return self._base, self._base - 1 - self.acked
        if seq > self.newest:
            # We forgot, it did not: a world restarted under its old epoch. The numbers go on where the agent is.
            self._renumber(seq)
        self.ack(seq)
        return max(self._base, seq + 1), max(self._base - seq - 1, 0)

    def after(self, seq: int, *, items: int, chars: int) -> Sequence[Observation] | None:
        """The next observations after `seq`, at most so many and so large together, but at least one; None if the next is gone."""
        start = seq + 1 - self._base
        if start < 0:
            return None
        stop, room = start, chars
        end = min(len(self._kept), start + items)
        while stop < end and (stop == start or room >= 0):
            room -= len(self._kept[stop].text) + 64
            stop += 1
        return self._kept[start:stop]

    def _drop(self, count: int) -> None:
        if count > 0:
            del self._kept[:count]
            self._base += count

    def _renumber(self, seq: int) -> None:
        self._kept = [replace(o, seq=seq + n) for n, o in enumerate(self._kept, start=1)]
        self._base = seq + 1
        self.newest = seq + len(self._kept)
        self.acked = seq


def resumable(resume: Resume | None, *, world: str, epoch: str) -> int | None:
    """The number that an agent's `resume` speaks of, None where it is of another world or epoch."""
    if resume is None or resume.epoch != epoch or resume.world not in {"", world}:
        return None
    return resume.seq
