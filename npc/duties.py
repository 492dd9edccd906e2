"""What an NPC has to do by the clock, beside its mind: each duty in its own rhythm, for as long as the NPC lives.

Invariants: a duty never overlaps itself, and a slow one keeps no other waiting; one that fails is logged and has its turn again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger("npc")

#: Waits for so many seconds, as `asyncio.sleep` does.
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """Something that is done every `every_s` seconds."""

    name: str
    every_s: float
    work: Callable[[], Awaitable[object]]


class Duties:
    """The duties of one life. `alarm` tells of one that failed, in a sentence."""

    def __init__(self, *duties: Duty, sleep: Sleep = asyncio.sleep, alarm: Callable[[str], None]) -> None:
        self._duties, self._sleep, self._alarm = duties, sleep, alarm

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for duty in self._duties:
                group.create_task(self._keep(duty))

    async def _keep(self, duty: Duty) -> None:
        while True:
            await self._sleep(duty.every_s)
            try:
                await duty.work()
            except Exception as error:  # a duty that fails once must not end the others, nor its own next turn
                log.exception("a duty failed", duty=duty.name)
                self._alarm(f"{duty.name} failed: {error!r}"[:500])
