"""The simulator's worlds on the wire, attached to as any agent would (S1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from sim.floods import Flood, Kind
from sim.stage import FloodStage, VillageStage
from sim.world import Village
from world_adapter.client import WebsocketWorld
from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation

PATIENCE_S = 15.0


class Ear:
    """A sink that keeps everything, and wakes whoever waits for something."""

    def __init__(self) -> None:
        self.heard: list[Observation] = []
        self.actions: list[ActionSpec] = []
        self.ends: list[ActResult] = []
        self._changed = asyncio.Event()

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        self.heard += batch
        self._changed.set()

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.actions = list(actions)
        self._changed.set()

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None: ...

    def detached(self, *, why: str) -> None: ...

    def finished(self, result: ActResult) -> None:
        self.ends.append(result)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_heard(self, count: int) -> None:
        await self.until(lambda: len(self.heard) >= count)


@asynccontextmanager
async def attached(url: str, npc: str = "Oda") -> AsyncIterator[tuple[WebsocketWorld, Ear]]:
    """An agent without a mind, attached."""
    world, ear = WebsocketWorld(url, npc=npc), Ear()
    link = asyncio.create_task(world.run(ear, None))
    try:
        await ear.until(lambda: bool(ear.actions))
        yield world, ear
    finally:
        await world.close()
        await asyncio.gather(link, return_exceptions=True)


async def test_the_village_lives_in_real_time() -> None:
    """S1: people speak to the NPC, what it says is heard by itself as its own, what it cannot do fails with a reason."""
    async with VillageStage(Village(seed=3, bustle=20.0, monster_tokens=300)) as stage, attached(stage.url) as (world, ear):
        assert {"look", "say", "move_to", "take", "give", "emote", "inventory", "attack"} == {a.name for a in ear.actions}
        await ear.until(lambda: any(o.to == "Oda" and o.speaker and o.speaker.kind == "player" for o in ear.heard))
        said = await world.act(id="1", name="say", args={"text": "soup is ready"}, timeout_s=PATIENCE_S)
        assert said.state is ActState.DONE
        await ear.until(lambda: any(o.own and "soup is ready" in o.text for o in ear.heard))
        failed = await world.act(id="2", name="take", args={"item": "the moon"}, timeout_s=PATIENCE_S)
        assert failed.state is ActState.FAILED
        assert failed.error_code == "not_here"
        assert [o.seq for o in ear.heard] == list(range(1, len(ear.heard) + 1))


async def test_a_walk_is_accepted_takes_its_time_and_ends_once() -> None:
    """S1, P14: ongoing on the wire; the arrival comes as the end of the action, a second walk ends the first."""
    async with VillageStage(Village(seed=3, monster_tokens=300)) as stage, attached(stage.url) as (world, ear):
        spec = next(a for a in ear.actions if a.name == "move_to")
        assert (spec.kind, spec.moves_body) == ("ongoing", True)
        far = await world.act(id="far", name="move_to", args={"place": "pass"}, timeout_s=PATIENCE_S)
        near = await world.act(id="near", name="move_to", args={"place": "square"}, timeout_s=PATIENCE_S)
        assert far.state is near.state is ActState.ACCEPTED
        start = asyncio.get_running_loop().time()
        await ear.until(lambda: {"far", "near"} <= {e.id for e in ear.ends})
        ends = {e.id: e.state for e in ear.ends}
        assert ends == {"far": ActState.FAILED, "near": ActState.DONE}
        assert asyncio.get_running_loop().time() - start > 2.0
        assert any(o.kind == "moved" and "square" in o.text for o in ear.heard)


async def test_a_walk_can_be_cancelled() -> None:
    """S1: the world stops the body and says so."""
    async with VillageStage(Village(seed=3, monster_tokens=300)) as stage, attached(stage.url) as (world, ear):
        await world.act(id="far", name="move_to", args={"place": "pass"}, timeout_s=PATIENCE_S)
        await world.cancel("far")
        await ear.until(lambda: bool(ear.ends))
        assert (ear.ends[0].id, ear.ends[0].state) == ("far", ActState.CANCELLED)
        assert stage.village.beings["Oda"].place == "inn"


async def test_a_turn_of_the_flood_is_told_whole_and_in_order_and_answers_by_its_own_results() -> None:
    """S1: monsters and hostile texts cross the wire; counted as told."""
    flood = Flood(seed=7, window=10_000)
    monster = next(t for t in map(flood.turn, range(3_000)) if t.kind is Kind.MONSTER)
    async with FloodStage({"Oda": flood}) as stage, attached(stage.url) as (world, ear):
        too_early = await world.act(id="0", name="look", args={}, timeout_s=PATIENCE_S)
        assert too_early.state is ActState.FAILED
        for turn in (monster, flood.turn(3)):
            before = len(ear.heard)
            stage.tell("Oda", turn)
            await ear.until_heard(before + len(turn.lines))
            assert [o.text for o in ear.heard[before:]] == [x.text for x in turn.lines]
            assert ear.heard[-1].to == "Oda"
        look = await world.act(id="1", name="look", args={"target": "well"}, timeout_s=PATIENCE_S)
        assert look.text == flood.result(3, "look", {"target": "well"}).text
        assert stage.told["Oda"] == len(ear.heard)
        await asyncio.wait_for(stage.server.until_acked("Oda"), PATIENCE_S)
