"""The worlds of the simulator on the wire: the village in real time, and the flood turn by turn.

Invariant: a stage decides nothing. What happens comes from `world` or `floods`; the stage owns the sockets, the clock and the tasks, and
gives each observation to `world_adapter.server` exactly once, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from sim import actions
from sim.floods import Line, Script, Turn
from sim.world import Ended, Told, Village
from world_adapter.frames import Limits, Speaker
from world_adapter.server import ActFailed, Request, WorldServer

#: Seconds that the village may lie still before it looks at its clock again.
_REST_S = 0.5
MAX_FRAME = 8 * 1024 * 1024


class VillageStage:
    """The village as a server that any NPC may attach to; an NPC's id is its name.

    `async with VillageStage(village) as stage:` listens on `stage.url` until the block ends.

    Args:
        village: at the moment 0; it is stepped with seconds since the block was entered.
        port: 0 for any.
        watch: sees everything that is told and what NPCs do, for a live view; never the NPC's path.
    """

    def __init__(self, village: Village, *, port: int = 0, watch: Callable[[Told | Request], None] | None = None) -> None:
        self.village = village
        self.url = ""
        self._port, self._watch = port, watch
        self._walking: dict[tuple[str, str], asyncio.Future[Ended]] = {}
        self._stirred = asyncio.Event()
        self._began = 0.0
        self._life: asyncio.Task[None] | None = None
        self.server = WorldServer(
            "tarnwick",
            on_act=self._act,
            on_attach=self._attached,
            actions=actions.specs(),
            limits=Limits(say_chars=actions.SAY_CHARS),
            max_frame=MAX_FRAME,
        )

    async def __aenter__(self) -> Self:
        self._began = asyncio.get_running_loop().time()
        self.url = f"ws://127.0.0.1:{await self.server.listen('127.0.0.1', self._port)}"
        self._life = asyncio.create_task(self._live())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._life is None:
            return
        fault = self._life.exception() if self._life.done() and not self._life.cancelled() else None
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        await self.server.close()
        if fault is not None and value is None:
            raise fault  # a village that stood still must not look like a quiet one

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    async def _live(self) -> None:
        while True:
            self._step()
            wait = min(max(self.village.next_due - self._now(), 0.0), _REST_S)
            self._stirred.clear()
            try:
                await asyncio.wait_for(self._stirred.wait(), wait)
            except TimeoutError:
                continue

    def _step(self) -> None:
        self.server.set_time(self.village.world_time)
        for event in self.village.step(self._now()):
            if isinstance(event, Ended):
                walk = self._walking.pop((event.npc, event.act), None)
                if walk is not None and not walk.done():
                    walk.set_result(event)
                continue
            if self._watch is not None:
                self._watch(event)
            self.server.observe(
                event.npc, event.text, kind=event.kind, data=event.data, key=event.key, prio=event.prio, to=event.to, own=event.own,
                wt=event.wt, speaker=Speaker(id=event.by.id, name=event.by.name, kind=_speaker_kind(event.by.kind)) if event.by else None,
            )  # fmt: skip

    def _attached(self, npc: str) -> None:
        self.village.enter(npc, npc)
        self._stirred.set()

    async def _act(self, request: Request) -> str:
        if self._watch is not None:
            self._watch(request)
        self._step()
        outcome = self.village.act(request.npc, request.id, request.name, request.args)
        self._stirred.set()
        if outcome.state == "failed":
            raise ActFailed(outcome.text, code=outcome.code)
        if outcome.state == "done":
            return outcome.text
        ending: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._walking[request.npc, request.id] = ending
        request.progress(outcome.text, None)
        try:
            ended = await ending
        except asyncio.CancelledError:
            self.village.cancel(request.npc, request.id)
            self._stirred.set()
            raise
        if ended.state != "done":
            raise ActFailed(ended.text, code=ended.state)
        return ended.text


def _speaker_kind(kind: str) -> str:
    return "world" if kind == "mob" else kind


class FloodStage:
    """A flood as a server: it tells a turn when it is asked to, and answers actions with what that turn holds for them.

    Args:
        floods: what is told to each NPC, by its id.
    """

    def __init__(self, floods: Mapping[str, Script]) -> None:
        self.url = ""
        self.told: dict[str, int] = dict.fromkeys(floods, 0)
        self.acts = 0
        self._floods = floods
        self._turns: dict[str, Turn] = {}
        self.server = WorldServer("flood", on_act=self._act, actions=actions.specs(walking=False), npcs=tuple(floods), max_frame=MAX_FRAME)

    async def __aenter__(self) -> Self:
        self.url = f"ws://127.0.0.1:{await self.server.listen()}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        await self.server.close()

    def tell(self, npc: str, turn: Turn) -> None:
        """Tells every line of a turn; from here on the NPC's actions bring what this turn holds."""
        self._turns[npc] = turn
        if turn.undone:
            self.server.rollback(since=f"turn {max(0, turn.number - turn.undone)}")
        for line in turn.lines:
            self._observe(npc, line, turn)

    def _observe(self, npc: str, line: Line, turn: Turn) -> None:
        speaker = Speaker(id=line.player, name=line.player, kind=line.speaker) if line.player else None
        self.server.observe(
            npc, line.text, kind=line.kind, data=line.data, key=line.key, prio=line.prio, own=line.own, speaker=speaker,
            to=npc if line.to_npc else None, wt=f"turn {turn.number}",
        )  # fmt: skip
        self.told[npc] += 1

    async def _act(self, request: Request) -> str:
        self.acts += 1
        turn = self._turns.get(request.npc)
        if turn is None:
            raise ActFailed("nothing has happened yet", code="too_early")
        result = self._floods[request.npc].result(turn.number, request.name, request.args)
        if not result.ok:
            raise ActFailed(result.text, code="no_luck")
        return result.text


__all__ = ["FloodStage", "VillageStage"]
