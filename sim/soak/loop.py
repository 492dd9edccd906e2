"""An event loop in virtual time: whatever sleeps, is overdue or times out in it does so without anybody waiting.

Invariant: time moves only when nothing can be done now: nothing is ready, nothing has arrived, no thread is at work for somebody in this
loop. Then it jumps to what is due next. Nothing is patched: it is a loop of its own, for `asyncio.Runner`, and what runs in it (timers,
time-outs, `asyncio.sleep`, threads of SQLite) is the product's own code as it is.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from sim.soak.network import MemoryServer, Network, Pipe

#: Seconds that a thread may be at work, by the wall clock, before it is looked at again; it wakes the loop by itself.
GLANCE_S = 0.05
#: So many rounds of the loop without any time passing are a life that runs in circles.
CIRCLES = 100_000
#: Seconds by the wall clock in which nothing is under way and nothing planned: nobody will ever wake this loop.
DEAD_S = 20.0
#: Futures that are made here are answered by a thread of SQLite's.
_THREADED = "aiosqlite.core"


class Standstill(RuntimeError):  # noqa: N818 - reads as what happened
    """Virtual time cannot go on: the life in this loop turns in circles, or waits for what never comes."""


class _Jumps(selectors.BaseSelector):
    """A selector that, instead of waiting, lets time pass."""

    def __init__(self) -> None:
        self.time = 0.0
        self.outside = 0  # errands that threads are at
        self._real = selectors.DefaultSelector()
        self._rounds = 0
        self._dead_since = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._rounds += 1
        if self._rounds > CIRCLES:
            self._rounds = 0
            raise Standstill(f"{CIRCLES:,} rounds of the event loop without any time passing")
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        if self.outside:
            return self._real.select(GLANCE_S)
        if events := self._real.select(0):
            return events
        if timeout is None:
            return self._nothing_planned()
        self.time += timeout
        self._rounds, self._dead_since = 0, 0.0
        return []

    def _nothing_planned(self) -> list[tuple[selectors.SelectorKey, int]]:
        now = time.monotonic()
        self._dead_since = self._dead_since or now
        if now - self._dead_since > DEAD_S:
            self._dead_since = 0.0
            raise Standstill("nothing is under way and nothing is planned: everybody waits for somebody else")
        return self._real.select(GLANCE_S)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.get_key(fileobj)

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `network` is all the network there is in it: connections are pipes in memory."""

    def __init__(self) -> None:
        self._jumps = _Jumps()
        self.network = Network(self)
        super().__init__(self._jumps)
        self._clock_resolution = 1e-6  # finer than the sum of many steps can be, far from zero

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumps.time

    def create_future(self) -> asyncio.Future[Any]:
        """As ever; time stands still until a thread of SQLite's has answered the ones that it owes."""
        future: asyncio.Future[Any] = super().create_future()
        if sys._getframe(1).f_globals.get("__name__") == _THREADED:  # noqa: SLF001 - who asks is the only sign that a thread will answer
            self._jumps.outside += 1
            future.add_done_callback(self._answered)
        return future

    def _answered(self, _: asyncio.Future[Any]) -> None:
        self._jumps.outside -= 1

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # noqa: ARG002 - the loop's signature
        """What would be done beside the loop is done at once: it takes no virtual time, and always comes in the same order."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does: whatever it raises belongs to whoever asked
            future.set_exception(error)
        return future

    async def create_connection(
        self, protocol_factory: Any, host: str | None = None, port: int | None = None, **_: Any  # noqa: ARG002 - there is one host
    ) -> tuple[Pipe, Any]:
        """To a server of this loop, through memory."""
        return self.network.connect(protocol_factory, int(port or 0))

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Any, host: Any = None, port: int | None = None, **_: Any  # noqa: ARG002 - there is one host
    ) -> MemoryServer:
        """A server that this loop alone can reach."""
        return self.network.listen(protocol_factory, int(port or 0))


def run(main: Callable[[], Any]) -> Any:
    """Runs a coroutine function to its end in a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())
