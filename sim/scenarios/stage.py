"""Scenarios and recordings in real time, for any NPC that attaches.

Invariant: each NPC hears the whole from the beginning, at its own pace, once it is there; while it is away nothing is told to it. The stage
decides nothing: what is told, when, and what actions bring comes from the script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from sim import actions
from sim.floods import Line, Result
from sim.scenarios.played import Played
from sim.scenarios.recording import TURN_S, Moment, Recording
from sim.stage import MAX_FRAME
from world_adapter.frames import Limits, Speaker
from world_adapter.server import ActFailed, Request, WorldServer

#: Lines that are told without letting anybody else have a word.
_AT_ONCE = 200


class Paced(Protocol):
    """A script in real time."""

    def turn_s(self) -> float:
        """Seconds of a turn."""

    def told(self, number: int) -> Iterable[Moment]:
        """Lines of turn `number`, each with the seconds since the turn's beginning; in order."""

    def undone(self, number: int) -> int:
        """How many turns an older save takes away before this one; 0 for none."""

    def result(self, number: int, name: str, args: dict[str, object]) -> Result:
        """See `floods.Script`."""


class PacedScenario:
    """Turns at the scenario's own pace, their lines spread over it."""

    def __init__(self, script: Played, *, speed: float) -> None:
        self.script, self.speed = script, speed

    def turn_s(self) -> float:
        """See `Paced`."""
        return self.script.pace_s / self.speed

    def told(self, number: int) -> list[Moment]:
        """See `Paced`."""
        lines = self.script.unstamped(number).lines
        return [Moment(at=n * self.turn_s() / len(lines), line=line) for n, line in enumerate(lines)]

    def undone(self, number: int) -> int:
        """See `Paced`."""
        return self.script.unstamped(number).undone

    def result(self, number: int, name: str, args: dict[str, object]) -> Result:
        """See `Paced`."""
        return self.script.result(number, name, args)


class PacedRecording:
    """A recording at so many times its speed, and nothing else: nobody speaks to the NPC who did not speak in it."""

    def __init__(self, script: Recording) -> None:
        self.script = script

    def turn_s(self) -> float:
        """See `Paced`."""
        return TURN_S

    def told(self, number: int) -> list[Moment]:
        """See `Paced`."""
        span = TURN_S * self.script.speed
        found = self.script.between(number * span, (number + 1) * span)
        return [Moment(at=moment.at / self.script.speed - number * TURN_S, line=moment.line) for moment in found]

    def undone(self, number: int) -> int:  # noqa: ARG002  (a recording has happened)
        """See `Paced`."""
        return 0

    def result(self, number: int, name: str, args: dict[str, object]) -> Result:
        """See `Paced`."""
        return self.script.result(number, name, args)


class ScriptStage:
    """`async with ScriptStage("siege", make) as stage:` listens on `stage.url` until the block ends.

    Args:
        world: its id.
        make: what is told to an NPC, by its id.
        port: 0 for any.
        watch: sees everything that is told and what NPCs do; never the NPC's path.
    """

    def __init__(
        self, world: str, make: Callable[[str], Paced], *, port: int = 0, watch: Callable[[str, Line | Request], None] | None = None
    ) -> None:
        self.url = ""
        self._make, self._port, self._watch = make, port, watch
        self._scripts: dict[str, Paced] = {}
        self._turns: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.server = WorldServer(
            world, on_act=self._act, on_attach=self._attached, actions=actions.specs(walking=False),
            limits=Limits(say_chars=actions.SAY_CHARS), max_frame=MAX_FRAME,
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        self.url = f"ws://127.0.0.1:{await self.server.listen('127.0.0.1', self._port)}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        faults = [task.exception() for task in self._tasks.values() if task.done() and not task.cancelled()]
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.server.close()
        fault = next((each for each in faults if each is not None), None)
        if fault is not None and value is None:
            raise fault  # a world that fell silent must not look like a quiet one

    def _attached(self, npc: str) -> None:
        if npc not in self._tasks:
            self._scripts[npc] = self._make(npc)
            self._turns[npc] = 0
            self._tasks[npc] = asyncio.create_task(self._live(npc, self._scripts[npc]))

    async def _live(self, npc: str, script: Paced) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        number = 0
        while True:
            self._turns[npc] = number
            if undone := script.undone(number):
                self.server.rollback(since=f"turn {max(0, number - undone)}")
            for n, moment in enumerate(script.told(number)):
                wait = begin + moment.at - loop.time()
                if wait > 0 or n % _AT_ONCE == _AT_ONCE - 1:
                    await asyncio.sleep(max(0.0, wait))
                begin += await self._back(npc)
                self._tell(npc, moment.line, number)
            begin += script.turn_s()
            await asyncio.sleep(max(0.0, begin - loop.time()))
            number += 1

    async def _back(self, npc: str) -> float:
        """Waits for an NPC that has gone; how many seconds it was away."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        if not self.server.attached(npc):
            await self.server.until_attached(npc)
        return loop.time() - since

    def _tell(self, npc: str, line: Line, number: int) -> None:
        if self._watch is not None:
            self._watch(npc, line)
        speaker = Speaker(id=line.player, name=line.player, kind=line.speaker) if line.player else None
        self.server.observe(
            npc, line.text, kind=line.kind, data=line.data, key=line.key, prio=line.prio, own=line.own, speaker=speaker,
            to=npc if line.to_npc else None, wt=f"turn {number}",
        )  # fmt: skip

    async def _act(self, request: Request) -> str:
        if self._watch is not None:
            self._watch(request.npc, request)
        script = self._scripts.get(request.npc)
        if script is None:
            raise ActFailed("nothing has happened yet", code="too_early")
        result = script.result(self._turns[request.npc], request.name, dict(request.args))
        if not result.ok:
            raise ActFailed(result.text, code="no_luck")
        return result.text


