"""Cases A: the cure for a full window must not need the room that it is to make, nor pass for one when it is none."""

from __future__ import annotations

import json
from pathlib import Path

from sim.messages_api import Reply
from sim.reading import Reading
from tests.cases.door import LOOK, failed, house, look, refused, results, stored, turn
from tests.npc.small_world import SAY, words
from world_adapter.frames import ActResult, ActState

CHAT = "the miller and the smith quarrel about the price of flour and who pays the toll on the bridge, and nobody gives way; "
SUMMARISES = 'summaries = "model"'


async def test_a01_a_summary_is_asked_for_in_slices_that_fit(tmp_path: Path) -> None:
    """A01, https://github.com/anthropics/claude-code/issues/23047, P4: no request is too long, whatever talk has piled up; the calls are
    bounded; the turns flow.
    """
    async with house(tmp_path, window=8_000, compaction=SUMMARISES, diary='written_by = "runtime"') as oda:
        oda.brain.aside = lambda _: words("They quarrelled about flour.")
        async with oda.life() as life:
            for n in range(60):
                await turn(life, f"Oda, {n}: {CHAT * 6}")
            assert not failed(life)
        assert not refused(oda)
        asked = oda.asides()
        assert asked, "no summary was asked for, so nothing was proved"
        assert len(asked) < 20


async def test_a02_a_pass_that_leaves_the_window_above_the_trigger_has_failed(tmp_path: Path) -> None:
    """A02, https://github.com/anomalyco/opencode/pull/48828, P9, P10: what cannot be removed fills 70 % of the window and the trigger
    stands below: ten turns, at most two summaries, each turn answered.
    """
    fixed = "You keep the mill and know each stone of it by name. " * 160
    async with house(
        tmp_path, window=8_000, description=fixed, compaction=f"high = 0.65\nlow = 0.3\n{SUMMARISES}", diary='written_by = "runtime"'
    ) as oda:
        oda.brain.aside = lambda reading: words(reading.said)
        async with oda.life() as life:
            for n in range(10):
                await turn(life, f"Oda, {n}: {CHAT}")
            assert not failed(life)
            assert len(life.world.said) == 10
        assert not refused(oda)
        assert len(oda.asides()) <= 2
        assert max(r.tokens for r in oda.model.records) > 0.65 * 8_000


async def test_a04_a_rung_that_frees_nothing_is_not_run_again_and_again(tmp_path: Path) -> None:
    """A04, https://github.com/OpenHands/OpenHands/issues/10873, P9, P11: 200,000 characters at once and a model that takes 16,000 tokens
    where 200,000 were promised: few rejections, then the line is answered with its cut named.
    """
    async with house(tmp_path, window=200_000, provider=16_000) as oda:
        async with oda.life() as life:
            await turn(life, f"Oda, hear this: {'a wall of ivy and stone, ' * 8_000}")
            assert life.world.said == ["I hear you."]
        assert len(refused(oda)) <= 3
        last = oda.requests()[-1]
        assert "Oda, hear this" in last.said
        assert "cut here" in last.said
        rungs = [(e.data["turn"], e.data["rung"]) for e in await stored(oda, "rung") if e.data["rung"] == "hard_reset"]
        assert len(rungs) <= 1


async def test_a08_parallel_results_share_one_budget_before_the_next_call(tmp_path: Path) -> None:
    """A08, https://github.com/open-webui/open-webui/issues/27599, P3, P13: 670,000 characters from three calls of one step; the call
    that follows is valid, and the stored session can be taken up.
    """
    sizes = iter((270_000, 210_000, 190_000))

    async def much(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        text = "a shelf of old ledgers, "
        return ActResult(id=id, state=ActState.DONE, text=text * (next(sizes) // len(text))) if name == "look" else None

    def script(reading: Reading) -> Reply | None:
        return look("shelf", "desk", "chest") if "look" in reading.news and not reading.round else None

    async with house(tmp_path, window=98_000) as oda:
        oda.brain.script = script
        async with oda.life(much, actions=(SAY, LOOK)) as life:
            await turn(life, "Oda, look around")
            assert not failed(life)
        async with oda.life(actions=(SAY, LOOK)) as life:
            await turn(life, "Oda, and now?")
        assert not refused(oda)
        assert [r.round for r in oda.requests()][:2] == [0, 1]
        assert len(results(oda.requests()[1])) == 3


async def test_a09_a_summary_that_is_no_smaller_is_thrown_away(tmp_path: Path) -> None:
    """A09, https://github.com/google-gemini/gemini-cli/issues/5432, P4: a summariser that gives back twice what it got; what was said
    stays or goes by the next rung, and no request grows by the "summary".
    """
    async with house(tmp_path, window=8_000, compaction=SUMMARISES, diary='written_by = "runtime"') as oda:
        oda.brain.aside = lambda reading: words(f"ECHO {reading.said} {reading.said}")
        async with oda.life() as life:
            for n in range(40):
                await turn(life, f"Oda, {n}: {CHAT * 6}")
            assert not failed(life)
        assert oda.asides()
        assert not refused(oda)
        assert not [r for r in oda.requests() if "ECHO" in json.dumps(r.body)]
