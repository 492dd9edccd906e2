"""What waits for a sink that hangs (W2, W3): bounded, in order, each observation once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from world_adapter.effects import ActionsChanged, Attached
from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation
from world_adapter.outbox import Outbox


class Ear:
    """A sink that writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[Observation] = []
        self.told: list[str] = []
        self.actions: tuple[str, ...] = ()

    async def observed(self, batch: Sequence[Observation], **_: Any) -> None:
        self.heard += batch
        self.told.append("observed")

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.actions = tuple(a.name for a in actions)
        self.told.append("actions")

    def attached(self, **_: Any) -> None:
        self.told.append("attached")

    def detached(self, *, why: str) -> None:
        self.told.append(f"detached {why}")

    def finished(self, result: ActResult) -> None:
        self.told.append(result.id)


async def test_a_game_that_changes_its_actions_all_day_takes_no_memory_while_the_sink_hangs() -> None:
    """W3: of many lists only the newest is told, behind what was observed; nothing observed is lost, and ends keep their place."""
    out = Outbox("mira", lambda: 1.0)
    out.put(Attached(npc="mira", world="game", epoch="e1", session="", resumed=False, lost=0, limits=Limits()))
    for n in range(3_000):
        out.observe(Observation(seq=0, t=0.0, kind="notice", text=f"word {n}"))
        out.put(ActionsChanged((ActionSpec(name=f"act{n}", description="", schema={}),)))
        if n == 1_500:
            out.put(ActResult(id="a1", state=ActState.DONE))
    assert len(out) < 200
    out.end()
    ear = Ear()
    await asyncio.wait_for(out.deliver(ear), 10)
    assert [o.text for o in ear.heard] == [f"word {n}" for n in range(3_000)]
    assert [o.seq for o in ear.heard] == list(range(1, 3_001))
    assert ear.actions == ("act2999",)
    assert ear.told.index("a1") > ear.told.index("observed")
    assert ear.told[-1] == "actions"
