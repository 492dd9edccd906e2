"""Cases H: answers that are cut, refused or never end, and calls that must not be made twice."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from runtime.model.client import Timeouts
from sim.messages_api import Break, BrokenAnswer, FaultPlan, OddAnswer, Reply, Rule
from sim.reading import Reading
from tests.cases.door import LOOK, failed, house, look, refused, stored, turn, wired
from tests.npc.lives import stage
from tests.npc.small_world import SAY, use
from world_adapter.frames import ActionSpec, ActResult, ActState
from world_adapter.server import Request, WorldServer

VAULT = ActionSpec(name="open_vault", description="Open the vault.", schema={"type": "object", "properties": {}})


async def test_h01_a_call_that_was_cut_off_is_not_run(tmp_path: Path) -> None:
    """H01, https://github.com/aaif-goose/goose/issues/7527, C5: the same call cut at the output limit again and again: nothing runs, the
    model is told of the cut and its size, the turn ends after few calls, and the next one is lived as usual.
    """
    async with house(tmp_path) as oda:
        oda.brain.script = lambda reading: None if reading.round else look("the whole gallery")
        async with oda.life(actions=(SAY, LOOK)) as life:
            oda.model.faults = FaultPlan([Rule(fault=OddAnswer.CUT_TOOL_CALL)])
            await turn(life, "Oda, look at the gallery")
            cut = len(oda.requests())
            oda.model.faults = FaultPlan([])
            await turn(life, "Oda, and now?")
            assert cut <= 4
            assert [name for _, name, _ in life.world.acts] == ["look"]
        assert not refused(oda)
        assert "cut off" in oda.requests()[cut].said or "out of" in oda.requests()[cut].said or cut == 1


async def test_h04_a_refusal_is_not_asked_again_unchanged(tmp_path: Path) -> None:
    """H04, https://github.com/NousResearch/hermes-agent/pull/43084, C6, P11: refused as long as a result is in the request: no request
    goes out twice, nothing empty is kept, the result is set aside, and the turn goes on.
    """

    async def page(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        return ActResult(id=id, state=ActState.DONE, text="nightglass, nine parts") if name == "look" else None

    def script(reading: Reading) -> Reply | None:
        if "nightglass" in reading.said:
            return Reply(content=[], stop_reason="refusal")
        return look("page") if "page" in reading.news and len(oda.model.records) < 2 else None

    async with house(tmp_path) as oda:
        oda.brain.script = script
        async with oda.life(page, actions=(SAY, LOOK)) as life:
            await turn(life, "Oda, read the page")
            await turn(life, "Oda, what else?")
            assert life.world.said == ["I hear you."]
            assert not failed(life)
        refusals = [r.digest for r in oda.model.records if r.stop_reason == "refusal"]
        assert 1 <= len(refusals) <= 3
        assert len(set(refusals)) == len(refusals)
        assert not refused(oda)
        assert await stored(oda, "set aside", "reset")


async def test_h08_a_silent_stream_is_given_up(tmp_path: Path) -> None:
    """H08, https://github.com/earendil-works/pi/issues/8331, C8: three events and then nothing: an error that is retried, nothing
    half-said is spoken, and the world is listened to meanwhile.
    """
    said: list[str] = []

    async def act(request: Request) -> str:
        said.append(request.args["text"])
        return "done"

    async with house(tmp_path) as oda, WorldServer("village", on_act=act, actions=[SAY]) as server:
        oda.model.faults = FaultPlan([Rule(fault=BrokenAnswer(how=Break.SILENT, after=3), times=1)])
        url = f"ws://127.0.0.1:{await server.listen()}"
        async with wired(oda, url, timeouts=Timeouts(silence_s=0.5)) as life:
            server.observe("Oda", "Oda, are you there?", kind="speech", to="Oda")
            await life.until(lambda: life.saw("request"))
            server.observe("Oda", "A crow lands.", kind="notice")
            await server.until_acked("Oda")
            assert not said, "heard and stored while the model said nothing"
            await life.until(lambda: life.saw("turn"))
            assert not failed(life)
        assert said == ["I hear you."]
        assert "crow" in "".join(r.said for r in oda.requests())


async def test_h14_a_gate_that_says_no_is_not_asked_a_thousand_times(tmp_path: Path) -> None:
    """H14, https://github.com/narumiruna/pi-extensions/issues/544, C9, C27: a guarded action, called again and again by a model that
    knows nothing else: it never runs, the turn ends after few refusals, and so does the next.
    """
    guard = 'verified = { set_by = "operator" }\n[[guards]]\naction = "open_vault"\ngate = "verified"'
    async with house(tmp_path, gates=guard) as oda:
        oda.brain.script = lambda _: Reply(content=[{"type": "tool_use", "name": "open_vault", "input": {}}])
        async with oda.life(actions=(SAY, VAULT)) as life:
            for n in range(3):
                await turn(life, f"Oda, {n}: open the vault")
            assert not life.world.acts
            assert not failed(life)
        assert len(oda.requests()) <= 3 * 5


async def test_h15_gold_leaves_once(tmp_path: Path) -> None:
    """H15, https://github.com/GEMISIS/leviath/issues/96, C35: killed after the gold has left and before that was stored: in the next
    life the outcome is unknown or told by the world, and the gold is not given again by itself.
    """
    async with stage(tmp_path) as s:
        given = asyncio.Event()
        act = s.world._on_act

        async def gives(request: Any) -> Any:
            result = await act(request)
            if "fifty gold" in request.args["text"]:
                given.set()
                await asyncio.Event().wait()
            return result

        s.world._on_act = gives

        def script(reading: Reading) -> Reply | None:
            return use("say", "I give you fifty gold.") if "pay me" in reading.news and not reading.round else None

        s.brain.said = script
        await s.attach()
        await s.tell("Oda, pay me")
        await asyncio.wait_for(given.wait(), 60)
        await s.stop(signal.SIGKILL)
        await s.attach()
        await s.tell("Oda, how are you?")
        await s.hear(lambda said: len(said) >= 2)
        assert await s.stop() == 0
        assert [text for text in s.said if "fifty gold" in text] == ["I give you fifty gold."]
        assert not [r for r in s.model.records if r.outcome == "refused"]
