"""A clock that a test turns: hours pass in no time, and whoever slept through them wakes in order."""

from __future__ import annotations

import asyncio
import time


class Hours:
    """`clock` and `sleep` of a life; `go` lets time pass."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        """Unix seconds."""
        return time.time() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """See `npc.duties.Sleep`: until so much time has been let pass."""
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._ahead + seconds, waking))
        await waking

    def go(self, seconds: float) -> None:
        """Let time pass: each sleeper that is due wakes once."""
        self._ahead += seconds
        due = [waking for at, waking in self._sleepers if at <= self._ahead]
        self._sleepers = [(at, waking) for at, waking in self._sleepers if at > self._ahead]
        for waking in due:
            if not waking.done():
                waking.set_result(None)
