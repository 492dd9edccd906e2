"""Cases B: calls and results stay paired, and nothing that an endpoint refuses is kept, whatever tears in between."""

from __future__ import annotations

import asyncio
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from runtime.core.messages import Message, result_block
from runtime.core.rungs import Goal, trim
from sim.messages_api import FaultPlan, HttpError, Reply, Rule
from sim.reading import Reading
from tests.cases.door import LOOK, failed, house, look, refused, results, turn
from tests.core.histories import Source, assert_paired, assert_valid, count, exchange, observed, parts_of, prose
from tests.npc.lives import stage
from tests.npc.small_world import SAY, WALK, use, words
from world_adapter.frames import ActResult, ActState
from world_adapter.server import Request

THOUGHT = {"type": "thinking", "thinking": "Hm, the scales.", "signature": ""}


async def test_b02_a_crash_after_the_first_of_three_results_keeps_it(tmp_path: Path) -> None:
    """B02, https://github.com/aws-samples/remote-swe-agents/pull/420, P13, C3: killed with one of three results stored, the next life
    sends one message with three results, in call order, the real one among them.
    """
    async with stage(tmp_path) as s:
        three = [{"type": "tool_use", "name": "say", "input": {"text": f"{n}"}} for n in ("one", "two", "three")]
        second, never = asyncio.Event(), asyncio.Event()
        act = s.world._on_act

        async def waits(request: Request) -> Any:
            if request.args["text"] == "two" and not never.is_set():
                second.set()
                await never.wait()
            return await act(request)

        s.world._on_act = waits
        s.brain.said = lambda reading: Reply(content=three) if not reading.round else None
        await s.attach()
        await s.tell("Oda, count to three")
        await asyncio.wait_for(second.wait(), 60)
        await s.stop(signal.SIGKILL)
        never.set()
        await s.attach()
        await s.tell("Oda, are you well?")
        async with asyncio.timeout(60):
            while "are you well?" not in str(s.requests()[-1]["messages"]):  # noqa: ASYNC110 - the endpoint tells nobody
                await asyncio.sleep(0.02)
        assert await s.stop() == 0
        reading = Reading(s.requests()[-1])
        answered = [c for role, c in reading.messages if role == "user" and any(b.get("type") == "tool_result" for b in c)]
        found = [b for b in answered[0] if b.get("type") == "tool_result"]
        assert len(found) == 3
        assert "Everyone heard you." in str(found[0]["content"])
        assert not found[0].get("is_error")
        assert all(b.get("is_error") for b in found[1:])
        assert not [r for r in s.model.records if r.outcome == "refused"]


def test_b03_no_budget_cuts_between_a_call_and_its_result() -> None:
    """B03, https://github.com/zeroclaw-labs/zeroclaw/pull/5264, P5: 20 messages trimmed to every budget from 100 to 20,000 tokens."""
    source, messages = Source(bytes(range(200))), [Message("user", (observed(60, 1),), 1)]
    for size in (200, 20_000, 800, 8_000, 2_400, 400, 12_000, 1_600, 4_000, 6_000):
        call, result = exchange(source, 1, 1)
        text = prose(size, f"result{len(messages)}")
        messages += [call, result.having([result_block(str(result.blocks[0].data["tool_use_id"]), text, count, event=len(messages))])]
    for budget in range(100, 20_000, 37):
        after = trim(parts_of(messages, turn=1), Goal(want=budget, limit=budget)).parts
        assert_paired(after.messages)
        assert_valid(after)
        assert after.messages[0].role == "user"


async def test_b09_empty_answers_are_neither_kept_nor_sent_back(tmp_path: Path) -> None:
    """B09, https://github.com/block/buzz/pull/559, P13, C2: nothing at all, blanks, and blanks beside a call; also after a restart the
    requests are valid and the roles alternate.
    """
    blank = {"type": "text", "text": " \n"}
    answers = iter([Reply(content=[]), Reply(content=[blank]), Reply(content=[blank, *look("door").content])])
    async with house(tmp_path) as oda:
        oda.brain.script = lambda _: next(answers, None)
        async with oda.life(actions=(SAY, LOOK)) as life:
            for n in range(3):
                await turn(life, f"Oda, {n}?")
            assert not failed(life)
        async with oda.life(actions=(SAY, LOOK)) as life:
            await turn(life, "Oda, still there?")
            assert life.world.said[-1] == "I hear you."
        assert not refused(oda)
        for reading in oda.requests():
            roles = [m["role"] for m in reading.body["messages"] if m["role"] != "system"]
            assert all(a != b for a, b in pairwise(roles))


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-fable-5-2"])
async def test_b12_signed_thinking_goes_back_whole_or_not_at_all(tmp_path: Path, model: str) -> None:
    """B12, https://github.com/anthropics/claude-code/issues/63203, P11, C2: where the history only grows it goes back as it came, and a
    refusal for it is answered by one request without any; where the words before it change, it is never sent and never refused.
    """
    complaint = HttpError(
        status=400, error_type="invalid_request_error",
        message="messages.1.content.0: `thinking` blocks in the latest assistant message cannot be modified.",
    )  # fmt: skip
    carries: Any = lambda body: "Hm, the scales." in str(body["messages"])  # noqa: E731 - a condition of the plan
    async with house(tmp_path) as oda:
        oda.persona = oda.persona.adjusted(model=model)
        oda.brain.script = lambda reading: None if reading.round else Reply(content=[THOUGHT, *look("scales").content])
        async with oda.life(actions=(SAY, LOOK)) as life:
            await turn(life, "Oda, the scales?")
            assert not refused(oda)
            kept = [r for r in oda.model.records if carries(r.body)]
            assert bool(kept) is (model == "claude-sonnet-5")
            oda.model.faults = FaultPlan([Rule(fault=complaint, where=carries)])
            await turn(life, "Oda, and the scales?")
            await turn(life, "Oda, once more?")
            assert not failed(life)
        received = next(b for r in oda.model.records for b in r.content if b["type"] == "thinking")
        for record in kept:
            assert received in [b for m in record.body["messages"] if m["role"] == "assistant" for b in m["content"]]
        assert len([r for r in oda.model.records if r.outcome == "failed"]) <= 3, "what an answer brought is let go once"


async def test_b13_a_movement_that_is_interrupted_has_its_result(tmp_path: Path) -> None:
    """B13, https://github.com/langchain-ai/langgraph/issues/6726, P13, P14: interrupted by a player and then by the end of the process
    in the middle of a tool, each request that follows is valid, and stopping is not swallowed.
    """
    hangs = asyncio.Event()

    async def never(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        if name == "walk":
            return ActResult(id=id, state=ActState.ACCEPTED)
        if name == "look":
            hangs.set()
            await asyncio.Event().wait()
        return None

    def script(reading: Reading) -> Reply | None:
        if reading.round:
            return None
        if "walk" in reading.news.rpartition("Oda,")[2]:
            return use("walk", "to the ford")
        return look("well") if "look" in reading.news.rpartition("Oda,")[2] else None

    async with house(tmp_path) as oda:
        oda.brain.script = script
        async with oda.life(never, actions=(SAY, LOOK, WALK)) as life:
            await life.world.tell("Oda, walk to the ford")
            await life.until(lambda: life.saw("yield"))
            await turn(life, "Oda, wait!")
            assert "still under way" in str(results(oda.requests()[1]) or oda.requests()[1].said)
            await life.world.tell("Oda, look into the well")
            await asyncio.wait_for(hangs.wait(), 10)
            life.character.stop()
            assert (await life.ended()).code == 0
        oda.brain.script = lambda reading: words("(I am well)") if reading.round else None
        async with oda.life(actions=(SAY, LOOK, WALK)) as life:
            await turn(life, "Oda, are you well?")
        assert not refused(oda)
        assert "look" in oda.requests()[-1].said


