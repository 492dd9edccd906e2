"""Virtual time for a whole character: its model calls, its timers and its duties.

Invariant: time moves only when nothing goes on but what waits for it, so a case goes the same way on a fast machine and on a busy one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from runtime.core.values import Failure, Outcome
from runtime.model.client import ModelClient
from sim.clock import Clock


class Naps:
    """`sleep` for a life's duties: virtual, and known to whoever waits until they are done. No nap is shorter than `least_s`."""

    def __init__(self, clock: Clock, *, least_s: float) -> None:
        self._clock, self._least_s = clock, least_s
        self._awake = 0
        self._rested = asyncio.Event()
        self._rested.set()

    async def sleep(self, seconds: float) -> None:
        """See `npc.duties.Sleep`."""
        if self._awake:
            self._awake -= 1
            if not self._awake:
                self._rested.set()
        waking = asyncio.Event()

        def wakes() -> None:
            self._awake += 1
            self._rested.clear()
            waking.set()

        timer = self._clock.later(self._clock.now() + max(seconds, self._least_s), wakes)
        try:
            await waking.wait()
        except asyncio.CancelledError:
            timer.cancel()
            raise

    @property
    def at_rest(self) -> bool:
        """Whether no duty is at work."""
        return not self._awake

    async def rested(self) -> None:
        """Returns once no duty is at work."""
        await self._rested.wait()


class Thinking:
    """The time that model calls take, virtual; `asleep` is set while somebody thinks. Whoever is stopped while he thinks thinks no more."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._thinkers = clock, 0
        self.asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Until so much later."""
        awake = asyncio.Event()

        def leaves() -> None:
            self._thinkers -= 1
            if not self._thinkers:
                self.asleep.clear()  # from now on, not from when the thinker notices
            awake.set()

        timer = self._clock.later(self._clock.now() + seconds, leaves)
        self._thinkers += 1
        self.asleep.set()
        try:
            await awake.wait()
        except asyncio.CancelledError:
            if not awake.is_set():
                timer.cancel()
                leaves()
            raise


class Paced(ModelClient):
    """A model client whose calls take virtual time.

    `ear` hears each call and its outcome, `arrived` each outcome of a turn's call when its time is over; `weather` may answer instead of
    the model.
    """

    thinking: Thinking
    think_s: float
    ear: Callable[[Mapping[str, Any], Outcome], None]
    weather: Callable[[Mapping[str, Any]], Failure | None]
    arrived: Callable[[Outcome], None]
    dead: Failure | None = None  # what a process that was killed is answered

    async def call(self, body: Mapping[str, Any], *, deadline_s: float | None = None) -> Outcome:
        """See `ModelClient.call`."""
        if self.dead:
            return self.dead
        outcome = self.weather(body) or await super().call(body, deadline_s=deadline_s)
        if self.dead:
            return self.dead
        self.ear(body, outcome)
        if body.get("tools"):
            await self.thinking.sleep(self.think_s)
            self.arrived(outcome)
        return outcome
