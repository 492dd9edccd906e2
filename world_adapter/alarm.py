"""One timer that follows a moving deadline: what a sans-I/O link needs of a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `ring` on the running loop once a deadline has passed.

    A deadline that moves later costs nothing: the timer goes off early, finds nothing due and follows. Only one that moves earlier sets the
    timer anew. So it may be set after every frame.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None

    def set(self, deadline: float | None) -> None:
        """Rings at `deadline`, on the loop's clock; never, if None."""
        self._deadline = deadline
        if deadline is None:
            self.stop()
        elif self._timer is None or self._timer.when() > deadline:
            self._arm(deadline)

    def stop(self) -> None:
        """Rings no more until it is set again."""
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._due)

    def _due(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._arm(self._deadline)
        else:
            self._ring()
