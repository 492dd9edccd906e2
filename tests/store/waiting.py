"""Waiting for what happens by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], *, within_s: float = 10.0) -> None:
    """Returns once the condition holds, fails when it has not within the time."""
    loop = asyncio.get_running_loop()
    holds = loop.create_future()

    def look() -> None:
        if holds.done():
            return
        if condition():
            holds.set_result(None)
        else:
            loop.call_later(0.01, look)

    look()
    await asyncio.wait_for(holds, within_s)
