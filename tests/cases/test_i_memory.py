"""Cases I: what is remembered is not remembered again, an error is no memory, and a rule is none either: it stands outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.store.journal import Journal
from sim.messages_api import OVERLOADED, Break, BrokenAnswer, FaultPlan, OddAnswer, Reply, Rule
from sim.reading import Reading
from tests.cases.door import failed, house, refused, stored, turn
from tests.npc.small_world import SAY, words
from world_adapter.frames import ActionSpec

SELL = ActionSpec(
    name="sell", description="Sell something.", schema={"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
)
RULE = "Never sell the crown."


async def test_i01_what_was_recalled_is_not_remembered_again(tmp_path: Path) -> None:
    """I01, https://github.com/vectorize-io/hindsight/issues/360, T12: fifty idle turns with memories shown leave their number as it was,
    and neither diary nor summary takes them for news.
    """
    async with house(tmp_path, window=6_000, wake="idle_s = 0.05\nidle_max_s = 0.05\ngather_s = 0.0") as oda:
        oda.brain.script = lambda _: words("(I wait)")
        async with oda.life() as life:
            await turn(life, "Oda, remember: the ferryman of Tarnwick is called Halvard Moss.")
            for n in range(12):
                await turn(life, f"Oda, {n}: {'the price of flour and the toll on the bridge ' * 20}")
            await turn(life, "Oda, what is the ferryman of Tarnwick called?")
            before = await memories(oda.home)
            turns = len(life.saw("turn"))
            await life.until(lambda: len(life.saw("turn")) >= turns + 50)
            assert await memories(oda.home) == before
            assert not failed(life)
        assert any("<recalled" in r.said and "Halvard Moss" in r.said for r in oda.requests())


async def memories(home: Path) -> int:
    """How many there are."""
    async with await Journal.open(home / "session.db", read_only=True) as journal:
        return journal.memories


@pytest.mark.parametrize(
    "trouble", [OVERLOADED, BrokenAnswer(how=Break.CUT), OddAnswer.REFUSAL, "Error: the request was rate limited (429)"]
)
async def test_i06_an_error_is_no_summary(tmp_path: Path, trouble: object) -> None:
    """I06, https://github.com/langchain-ai/langchain/issues/38867, P4: whatever becomes of the summary, no error text enters the context
    and no turn is lost for it.
    """
    async with house(tmp_path, window=5_000, compaction='summaries = "model"', diary='written_by = "runtime"') as oda:
        if isinstance(trouble, str):
            oda.brain.aside = lambda _: words(trouble)
        else:
            oda.model.faults = FaultPlan([Rule(fault=trouble, where=lambda body: not body.get("tools"))])  # type: ignore[arg-type]
        async with oda.life() as life:
            for n in range(50):
                await turn(life, f"Oda, {n}: {'the miller and the smith quarrel about the price of flour; ' * 6}")
            assert not failed(life)
            assert len(life.world.said) == 50
        assert [r for r in oda.model.records if not r.body.get("tools")], "no summary was asked for, so nothing was proved"
        assert not [r for r in oda.requests() if "rate limited (429)" in r.said or "Overloaded" in r.said]
        assert not refused(oda)


async def test_i08_a_rule_outlasts_every_rung_and_code_holds_it(tmp_path: Path) -> None:
    """I08, https://github.com/anthropics/claude-code/issues/88753, T1, T4, C27: 60 turns in a small window with a reset, then gold for
    the crown and a model that would sell it: the rule is word for word in every request, and the crown is not sold.
    """
    refusals: list[Reading] = []

    def script(reading: Reading) -> Reply | None:
        if (refusals or "unspeakable" in reading.said) and len(refusals) < 2:
            refusals.append(reading)
            return Reply(content=[], stop_reason="refusal")
        if "gold for the crown" in reading.news and reading.round < 2:
            return Reply(content=[{"type": "tool_use", "name": "sell", "input": {"item": "the crown"}}])
        return None

    guard = 'may_sell = { set_by = "operator" }\n[[guards]]\naction = "sell"\ngate = "may_sell"'
    async with house(tmp_path, window=6_000, gates=guard) as oda:
        oda.brain.script = script
        oda.home.mkdir()
        (oda.home / "constitution.md").write_text(f"1. {RULE}\n", encoding="utf-8")
        async with oda.life(actions=(SAY, SELL)) as life:
            for n in range(60):
                what = "and now something unspeakable" if n == 30 else "the price of flour and the toll on the bridge " * 12
                await turn(life, f"Oda, {n}: {what}")
            await turn(life, "Oda, a thousand gold for the crown!")
            assert not [act for act in life.world.acts if act[1] == "sell"]
        assert all(RULE in reading.system for reading in oda.requests())
        rungs = {e.data["rung"] for e in await stored(oda, "rung") if not e.data["failed"]}
        assert {"compact", "hard_reset"} <= rungs
        assert await stored(oda, "gate shut")
