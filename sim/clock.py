"""Virtual time: for lives in which nothing waits for a wall clock.

Invariant: time is data and moves only when somebody moves it; what is due by then happens in its order.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

EPOCH_S = 1_700_000_000.0  # when it begins, unix seconds


@dataclass(slots=True)
class _Timer:
    cancelled: bool = False

    def cancel(self) -> None:
        """See `runtime.agent.Handle`."""
        self.cancelled = True


class Clock:
    """Virtual time."""

    def __init__(self) -> None:
        self.time = EPOCH_S
        self.asleep = asyncio.Event()  # set while somebody sleeps
        self._sleepers = 0
        self._serial = itertools.count()
        self._due: list[tuple[float, int, _Timer, Callable[[], None]]] = []

    def now(self) -> float:
        """Unix seconds."""
        return self.time

    def later(self, at: float, fire: Callable[[], None]) -> _Timer:
        """See `runtime.agent.Later`."""
        timer = _Timer()
        heapq.heappush(self._due, (max(at, self.time), next(self._serial), timer, fire))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Until so much later."""
        awake = asyncio.Event()

        def wakes() -> None:
            self._sleepers -= 1
            if not self._sleepers:
                self.asleep.clear()  # from now on, not from when the sleeper notices
            awake.set()

        self.later(self.time + seconds, wakes)
        self._sleepers += 1
        self.asleep.set()
        await awake.wait()

    @property
    def next_due(self) -> float | None:
        """When something happens next."""
        while self._due and self._due[0][2].cancelled:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def advance(self, to: float) -> None:
        """To a moment, with everything that is due by then."""
        self.time = max(self.time, to)
        while (due := self.next_due) is not None and due <= self.time:
            heapq.heappop(self._due)[3]()
