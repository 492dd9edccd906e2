"""Cases D: what was sent stays as it was sent, so that it is paid for once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from sim.messages_api import Reply
from sim.reading import Reading
from tests.cases.door import LOOK, failed, house, look, refused, shared, turn
from tests.npc.hours import Hours
from tests.npc.small_world import SAY, WALK
from world_adapter.frames import ActionSpec, ActResult, ActState

DAY_S = 86_400.0


async def test_d01_a_clock_does_not_break_the_prefix(tmp_path: Path) -> None:
    """D01, https://github.com/goruck/home-generative-agent/issues/617, C10, C13: 14 seconds and a midnight later all that was sent is
    sent again byte for byte, and read from the cache.
    """
    async with house(tmp_path) as oda:
        oda.hours = Hours()
        async with oda.life() as life:
            for n in range(4):
                await turn(life, f"Oda, {n}?")
                oda.hours.go(DAY_S if n == 1 else 14.0)
            assert not failed(life)
        sent = [r.body for r in oda.requests()]
        assert len(sent) >= 8
        assert all(shared(a, b) for a, b in itertools.pairwise(sent))
        read = [r.usage.cache_read_tokens for r in oda.model.records if r.body.get("tools")]
        assert all(read[1:])


async def test_d03_tools_in_any_order_are_the_same_bytes(tmp_path: Path) -> None:
    """D03, https://github.com/librefang/librefang/issues/3765, W4, C13: a world that comes back with its actions in another order, and
    the keys of their schemas too, costs nothing of the cache.
    """
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    turned: dict[str, Any] = {"required": ["a"], "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "type": "object"}
    one, other = (ActionSpec(name="barter", description="Barter.", schema=s) for s in (schema, turned))
    async with house(tmp_path) as oda:
        async with oda.life(actions=(SAY, one, WALK)) as life:
            await turn(life, "Oda, one?")
            life.world.detach()
            life.world.actions = (WALK, other, SAY)
            life.world.attach()
            await turn(life, "Oda, two?")
        tools = {json.dumps(r.body["tools"]) for r in oda.requests()}
        assert len(tools) == 1
        assert len(oda.requests()) >= 4


async def test_d05_there_are_never_more_than_four_marks(tmp_path: Path) -> None:
    """D05, https://github.com/griffinmartin/opencode-claude-auth/issues/121, C13: counted over each request of a life with tools, resets
    of the history, recalled memories and a compacted record.
    """

    async def much(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        return ActResult(id=id, state=ActState.DONE, text="a shelf of old ledgers, " * 120) if name == "look" else None

    def script(reading: Reading) -> Reply | None:
        return look("shelf", "desk") if reading.round < 2 else None

    async with house(tmp_path, window=7_000) as oda:
        oda.brain.script = script
        async with oda.life(much, actions=(SAY, LOOK)) as life:
            for n in range(15):
                await turn(life, f"Oda, {n}, what of the ledgers of the mill? {'and the price of flour ' * 30}")
            assert life.saw("rung")
        assert not refused(oda)
        marks = [json.dumps(r.body).count('"cache_control"') for r in oda.model.records]
        assert max(marks) <= 4
        assert min(m for r, m in zip(oda.model.records, marks, strict=True) if r.body.get("tools")) >= 1


async def test_d09_old_results_go_rarely_and_many_at_once(tmp_path: Path) -> None:
    """D09, https://github.com/anomalyco/opencode/issues/32515, P10: one more large result every turn; on four of five turns the request
    begins with the one before it, byte for byte.
    """

    async def much(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        return ActResult(id=id, state=ActState.DONE, text=f"{id}: " + "a shelf of old ledgers, " * 60) if name == "look" else None

    async with house(tmp_path, window=16_000) as oda:
        oda.brain.script = lambda reading: None if reading.round else look("shelf")
        async with oda.life(much, actions=(SAY, LOOK)) as life:
            for n in range(40):
                await turn(life, f"Oda, {n}?")
            assert {told["rung"] for told in life.saw("rung")} >= {"evict_tool_outputs"}
        sent = [r.body for r in oda.requests()]
        openings = [n for n, r in enumerate(oda.requests()) if not r.round and n]
        kept = [shared(sent[n - 1], sent[n]) for n in openings]
        assert sum(kept) >= 0.8 * len(kept)
        assert all(shared(a, b) for n, (a, b) in enumerate(itertools.pairwise(sent), 1) if n not in openings)
