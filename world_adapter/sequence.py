"""The order of one NPC's stream in one (world, epoch): whatever arrives, each number leaves once, in order.

Invariant: what `take` and `skip` have returned, laid end to end, is strictly rising; a number is missing from it only if the world said
that it is gone, or after `skip`, and then it is counted in `lost`.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

from world_adapter.frames import Observation
from world_adapter.runs import Run

# What may wait behind a gap. A newcomer beyond it is dropped: the world still has it and sends it again after a resume.
MAX_EARLY = 10_000
MAX_EARLY_CHARS = 16_777_216


class Sequence:
    """The numbers of one stream.

    Attributes:
        next: the number that leaves next.
        lost: how many numbers were given up.
        duplicates: how many observations came that had left, or were waiting, already.
        full: whether a newcomer had to be dropped since the last `begin`.
    """

    __slots__ = ("_chars", "_early", "_floor", "_fresh", "duplicates", "full", "lost", "next")

    def __init__(self, *, next_seq: int = 1, fresh: bool = True) -> None:
        self.next = next_seq
        self.lost = 0
        self.duplicates = 0
        self.full = False
        self._early: dict[int, Observation] = {}
        self._chars = 0
        # Nothing has left yet and nothing is known of an earlier life: the stream begins where the world begins it.
        self._fresh = fresh
        self._floor: int | None = None

    @property
    def gap(self) -> bool:
        """Whether something waits for an earlier number."""
        return bool(self._early)

    def begin(self, next_seq: int) -> None:
        """A world announced `next_seq` as the next number.

        What it announces above `next` is believed only once an observation at or above it arrives while `next` itself does not: some
        worlds announce the newest number and send the replay first all the same.
        """
        self.full = False
        if self._fresh and not self._early:
            self.next = next_seq
        self._floor = next_seq if next_seq > self.next else None

    def take(self, items: Items[Observation]) -> Items[Observation]:
        """What can leave now that `items` have come."""
        if not self._early and self._floor is None and self._follows(items):
            self.next += len(items)
            self._fresh = False
            return items
        ready: list[Observation] = []
        for item in items:
            self._place(item, ready)
        return ready

    def skip(self) -> Items[Observation]:
        """Gives up everything before the earliest that waits; returns what leaves."""
        ready: list[Observation] = []
        if self._early:
            self._jump(min(self._early), ready)
        return ready

    def pass_over(self) -> None:
        """Gives up the very next number: it can never be received."""
        self.next += 1
        self.lost += 1
        self._fresh = False

    def _follows(self, items: Items[Observation]) -> bool:
        if isinstance(items, Run) and items.words.rise:
            return items.rows[0].seq == self.next
        expected = self.next
        for item in items:
            if item.seq != expected:
                return False
            expected += 1
        return True

    def _place(self, item: Observation, ready: list[Observation]) -> None:
        seq = item.seq
        if seq < self.next and self._fresh and not self._early:
            self.next, self._floor = seq, None
        if self._floor is not None and seq >= self._floor:
            self._jump(self._floor, ready)
        if seq < self.next or seq in self._early:
            self.duplicates += 1
        elif seq == self.next:
            self._floor = None
            self._leave(item, ready)
            self._follow(ready)
        elif len(self._early) >= MAX_EARLY or self._chars + len(item.text) > MAX_EARLY_CHARS:
            self.full = True
        else:
            self._early[seq] = item
            self._chars += len(item.text)

    def _jump(self, to: int, ready: list[Observation]) -> None:
        """Goes on at `to`; whatever of the numbers before it waits still leaves, the others are lost."""
        self._floor = None
        for seq in sorted(seq for seq in self._early if seq < to):
            self.lost += seq - self.next
            self._leave(self._pop(seq), ready)
        self.lost += to - self.next
        self.next = to
        self._follow(ready)

    def _follow(self, ready: list[Observation]) -> None:
        while self.next in self._early:
            self._leave(self._pop(self.next), ready)

    def _pop(self, seq: int) -> Observation:
        item = self._early.pop(seq)
        self._chars -= len(item.text)
        return item

    def _leave(self, item: Observation, ready: list[Observation]) -> None:
        ready.append(item)
        self.next = item.seq + 1
        self._fresh = False
