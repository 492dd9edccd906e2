"""Carries out the strikes of a script: at its moment each one does its harm, and its blow is told how often it touched something.

Invariant: a strike that waits for something to touch waits no longer than its turn; a kill that finds no occasion comes at the turn's end.
What stops the NPC in order starts it again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.oracle import Oracle
from sim.soak import disk
from sim.soak.books import Ledgers
from sim.soak.catalogue import CATALOGUE, Strike
from sim.soak.house import House
from sim.soak.recovery import Blow, Recovery
from sim.soak.stage import HEARTBEAT_S, Stage
from sim.soak.weather import Weather
from sim.soak.wire import FaultyWire

#: Virtual seconds after which both ends know that a connection is half open.
NOTICED_S = 2 * HEARTBEAT_S
#: Those that end by their own clock, and not with the turn.
_LASTING = frozenset({"outage", "disk_full", "locked", "new_epoch", "half_open"})
#: How many of the newest blows may still go on.
_RECENT = 40


@dataclass(slots=True, kw_only=True)
class Striker:
    """Of one life. `jump`: seconds by which the machine's clock is wrong."""

    loop: asyncio.AbstractEventLoop
    house: House
    stage: Stage
    wire: FaultyWire
    weather: Weather
    recovery: Recovery
    oracle: Oracle
    ledgers: Ledgers
    dice: random.Random
    told: Callable[[Strike], None]
    jump: float = 0.0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def begin(self, strikes: Sequence[Strike]) -> None:
        """The strikes of a turn: what needs a stopped NPC now, the others at their moments."""
        for strike in strikes:
            if strike.fault == "damaged_page":
                await self._damaged(self._blow(strike))
        for strike in strikes:
            if strike.fault != "damaged_page":
                self._spawn(self._struck(strike))
        await asyncio.sleep(0)

    def over(self) -> None:
        """The turn's time is over."""
        self.weather.clear()
        self.wire.clear()
        for blow in self.recovery.blows[-_RECENT:]:
            if blow.ended is None and blow.strike.fault not in _LASTING:
                if blow.strike.fault == "kill":
                    blow.hits += self.house.kill()
                self.recovery.ends(blow, self.loop.time())

    async def leave(self) -> None:
        """No more strikes; what was taken is given back."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _blow(self, strike: Strike) -> Blow:
        self.told(strike)
        return self.recovery.begins(strike, self.loop.time())

    async def _struck(self, strike: Strike) -> None:
        if strike.after_s:
            await asyncio.sleep(strike.after_s)
        blow = self._blow(strike)
        match CATALOGUE[strike.fault].domain:
            case "model":
                self._on_model(blow)
            case "world":
                await self._on_world(blow)
            case "disk":
                await self._on_disk(blow)
            case _:
                await self._on_process(blow)

    def _hit(self, blow: Blow) -> Callable[[bool], None]:
        def hit(last: bool) -> None:
            blow.hits += 1
            if last:
                self.recovery.ends(blow, self.loop.time())

        return hit

    def _on_model(self, blow: Blow) -> None:
        strike = blow.strike
        until = self.loop.time() + strike.seconds if strike.seconds else 0.0
        self.weather.begin(strike.fault, hits=strike.hits, until=until, hit=self._hit(blow))
        if until:
            self.loop.call_later(strike.seconds, lambda: self.recovery.ends(blow, self.loop.time()))

    async def _on_world(self, blow: Blow) -> None:
        strike = blow.strike
        match strike.fault:
            case "drop" | "delay" | "duplicate" | "reorder":
                self.wire.begin(strike.fault, hits=strike.hits, seconds=strike.seconds, hit=self._hit(blow))
                return
            case "half_open":
                blow.hits += self.wire.half_open()
                await asyncio.sleep(NOTICED_S)
            case "kick":
                for _ in range(strike.hits):
                    blow.hits += self.wire.kick()
                    await asyncio.sleep(1.0)
            case "malformed":
                blow.hits += strike.hits if self.wire.garbage(strike.hits) else 0
            case "oversize":
                self.stage.tell_too_much()
                blow.hits += 1
                await asyncio.sleep(5.0)
            case "new_epoch":
                blow.hits += 1
                self.oracle.forgets()
                await self.stage.die(away_s=strike.seconds)
            case _:
                blow.hits += 1
                self.oracle.forgets()
                self.stage.roll_back()
        self.recovery.ends(blow, self.loop.time())

    async def _on_disk(self, blow: Blow) -> None:
        strike = blow.strike
        if strike.fault == "disk_full":
            self.ledgers.excused += 1
            with disk.full():
                blow.hits += 1
                await asyncio.sleep(strike.seconds)
        elif holder := self.house.lock():
            blow.hits += 1
            try:
                await asyncio.sleep(strike.seconds)
            finally:
                holder.close()
        self.recovery.ends(blow, self.loop.time())

    async def _on_process(self, blow: Blow) -> None:
        strike = blow.strike
        match strike.fault:
            case "kill":
                self.ledgers.excused += 1
                self.house.kill_at(self._occasion(blow))
                return
            case "sigterm":
                blow.hits += 1
                await self._stopped()
                self.house.start()
            case "clock_forward":
                blow.hits += 1
                self.jump += strike.seconds
            case _:
                blow.hits += 1
                self.jump -= strike.seconds
        self.recovery.ends(blow, self.loop.time())

    def _occasion(self, blow: Blow) -> Callable[[str], bool]:
        left = blow.strike.hits

        def die(kind: str) -> bool:
            nonlocal left
            left -= kind == blow.strike.point
            if left > 0 or blow.ended is not None:
                return False
            blow.hits += 1
            self.recovery.ends(blow, self.loop.time())
            return True

        return die

    async def _stopped(self) -> None:
        if self.house.alive is not None and await self.house.stop() is None:
            self.oracle.find("P1", "the NPC did not end in order within two virtual minutes")
            self.house.kill()
            await self.house.buried()

    async def _damaged(self, blow: Blow) -> None:
        """Stopped, its books looked at, damaged, started."""
        await self._stopped()
        await self.ledgers.check()
        blow.hits += self.house.damage(blow.strike.hits, self.dice)
        self.ledgers.damaged()
        self.house.start()
        self.recovery.ends(blow, self.loop.time())
