"""A character between a real model client and a world: what wakes it, what it waits for, and what no trouble takes from it."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from npc.body import Body
from npc.company import Company
from npc.figures import figures
from npc.goals import Goals
from npc.hands import Hands
from npc.hearing import Ears
from npc.pairguard import PairGuard
from runtime.core.effects import Call
from runtime.store.journal import Journal
from sim.messages_api import KEY_REFUSED, OVERLOADED, SERVER_ERROR, FaultPlan, Late, Reply, Rule
from sim.reading import Reading
from tests.npc.small_world import SAY, Changes, Life, SmallWorld, oda, use, words
from world_adapter.frames import ActResult, ActState, Rollback


async def accepted(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
    """A world where walking takes a while."""
    return ActResult(id=id, state=ActState.ACCEPTED) if name == "walk" else None


def walks(reading: Reading) -> Reply | None:
    """A model that walks when it is called to the mill."""
    return use("walk", "mill") if "come to the mill" in reading.news and not reading.round else None


async def stored(path: Path, *kinds: str) -> list[Any]:
    """The events of a life that is over."""
    async with await Journal.open(path / "session.db", read_only=True) as journal:
        return await journal.events(kinds=kinds, limit=10_000)


async def books(path: Path) -> Any:
    """What became of all observations."""
    async with await Journal.open(path / "session.db", read_only=True) as journal:
        return (await figures(journal)).as_json()["observations"]


# ------------------------------------------------------------ waking
async def test_with_no_news_it_wakes_ever_more_rarely_and_each_wake_adds_next_to_nothing(tmp_path: Path) -> None:
    """P12: idle wakes back off to the longest wait; a wake is one call that adds a line or two."""
    async with oda(tmp_path, wake="idle_s = 0.05\nidle_max_s = 0.2\ngather_s = 0.0") as house:
        house.brain.script = lambda _: words("(I wait)")
        async with house.life() as life:
            await life.until(lambda: len(life.saw("turn")) >= 4)
        wakes = [e for e in await stored(house.home, "wake") if e.data["reason"] == "idle"][:4]
        gaps = [b.at - a.at for a, b in itertools.pairwise(wakes)]
        assert all(gap >= least for gap, least in zip(gaps, (0.1, 0.2, 0.2), strict=True))
        sizes = [len(json.dumps(r.body["messages"])) for r in house.requests()[:4]]
        assert all(b - a < 1_000 for a, b in itertools.pairwise(sizes))


async def test_a_line_that_comes_while_a_tool_runs_is_answered_without_another_one(tmp_path: Path) -> None:
    """P1, C34: what came between two steps is not taken for drained, and starts the next turn."""
    async with oda(tmp_path) as house:
        lives: list[Life] = []

        async def meanwhile(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            if len(lives[0].world.said) == 1:
                await lives[0].world.tell("Oda, and the second thing?")
            return None

        async with house.life(meanwhile) as life:
            lives.append(life)
            await life.world.tell("Oda, the first thing?")
            await life.until(lambda: len(life.world.said) == 2)
        assert "second thing" in house.requests()[2].news


# ------------------------------------------------------------ long actions
async def test_while_the_body_walks_no_call_is_made_and_its_end_wakes_the_mind(tmp_path: Path) -> None:
    """P14: the turn yields; ambient news waits for the end of the action and comes with its result."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.saw("yield"))
            before = len(house.requests())
            await life.world.tell("A crow lands.", to=None, kind="notice")
            life.world.here.finished(ActResult(id=life.world.acts[0][0], state=ActState.DONE, text="You are at the mill."))
            await life.until(lambda: life.saw("turn"))
        assert before == 1
        after = house.requests()[1]
        assert "You are at the mill." in after.said
        assert "A crow lands." in after.said


async def test_an_addressed_line_wakes_a_walking_mind_and_the_end_is_told_once_after(tmp_path: Path) -> None:
    """P14: the call is closed as under way; what became of it is told with the next news, under the tool's name, once."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.saw("yield"))
            await life.world.tell("Oda, wait!")
            await life.until(lambda: len(life.saw("turn")) == 1)
            assert "still under way" in house.requests()[1].said
            life.world.here.finished(ActResult(id=life.world.acts[0][0], state=ActState.DONE, text="You are at the mill."))
            await life.until(lambda: len(life.saw("turn")) == 2)
        last = house.requests()[-1]
        assert last.said.count("You are at the mill.") == 1
        assert "walk" in last.opening_text


@pytest.mark.parametrize("kind", ["blocked", "hurt"])
async def test_what_happens_to_a_walking_body_wakes_its_mind(tmp_path: Path, kind: str) -> None:
    """P14: blocked or hurt, it does not walk on for two minutes without a thought."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.saw("yield"))
            await life.world.tell("A cart stands in your way.", to=None, kind=kind)
            await life.until(lambda: life.saw("turn"))
        assert "A cart stands" in house.requests()[1].said


async def test_an_action_that_ends_before_it_was_accepted_ends_once(tmp_path: Path) -> None:
    """P14: the end may overtake the word that it began; the turn goes on with one result."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        lives: list[Life] = []

        async def hasty(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            if name == "walk":
                lives[0].world.here.finished(ActResult(id=id, state=ActState.DONE, text="You are there already."))
            return await accepted(id, name)

        async with house.life(hasty) as life:
            lives.append(life)
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.saw("turn"))
        assert house.requests()[-1].said.count("You are there already.") == 1
        assert len(await stored(house.home, "tool_result")) == 1


async def test_an_action_without_an_end_is_asked_about_once_in_the_next_life(tmp_path: Path) -> None:
    """C35: unknown until the world tells; it is asked by its id and told by its name, and nothing of this life is asked about."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.saw("yield"))
        number = life.world.acts[0][0]
        async with house.life() as life:
            await life.until(lambda: life.saw("turn"))
            life.world.detach()
            life.world.attach()
            await life.world.tell("Oda?")
            await life.until(lambda: "I hear you." in life.world.said and len(life.saw("turn")) >= 2)
            assert life.world.queries == [number]
        assert any("earlier action walk: unknown. The world knows nothing" in r.said for r in house.requests())


# ------------------------------------------------------------ trouble
async def test_an_outage_of_the_model_is_waited_out_and_the_line_is_answered_once(tmp_path: Path) -> None:
    """C8, P1: a model that is away costs time, nothing else."""
    async with oda(tmp_path) as house:
        house.model.faults = FaultPlan([Rule(fault=OVERLOADED, times=3)])
        async with house.life() as life:
            await life.world.tell("Oda, are you there?")
            await life.until(lambda: life.saw("turn"))
            assert len(life.saw("waiting")) == 3
            assert life.world.said == ["I hear you."]


async def test_a_server_that_fails_at_this_history_alone_is_not_asked_for_ever(tmp_path: Path) -> None:
    """P1, P11: an error of the server that only this conversation brings about is found out by asking it something else, and let go."""
    cursed: Any = lambda body: "a cursed page" in str(body["messages"])  # noqa: E731 - a condition of the plan
    async with oda(tmp_path) as house:
        house.model.faults = FaultPlan([Rule(fault=SERVER_ERROR, where=cursed)])
        async with house.life() as life:
            await life.world.tell("Oda, here is a cursed page")
            await life.until(lambda: life.saw("turn"))
            await life.world.tell("Oda, are you there?")
            await life.until(lambda: life.world.said)
            assert len(life.saw("model failure")) < 20
            assert life.saw("set aside")


async def test_an_outage_with_the_same_error_costs_no_history(tmp_path: Path) -> None:
    """P1: where the server fails at everything it is waited for, and the line is answered afterwards, whole."""
    async with oda(tmp_path) as house:
        house.model.faults = FaultPlan([Rule(fault=SERVER_ERROR, times=25)])
        async with house.life() as life:
            await life.world.tell("Oda, the seventh lantern?")
            await life.until(lambda: life.saw("turn"))
            assert not life.saw("set aside")
        assert any("seventh lantern" in reading.news for reading in house.requests())


async def test_the_world_goes_while_it_thinks_and_the_turn_is_taken_up_when_it_is_back(tmp_path: Path) -> None:
    """W3, P1: an answer for a world that is gone is not lost work; after the attach the line is answered."""
    async with oda(tmp_path) as house:
        lives: list[Life] = []
        gone: list[bool] = []

        def goes(_: Reading) -> None:
            if not gone:
                gone.append(True)
                lives[0].world.detach()

        house.brain.script = goes
        async with house.life() as life:
            lives.append(life)
            await life.world.tell("Oda, are you there?")
            await life.until(lambda: life.saw("turn"))
            assert not life.world.said
            life.world.attach()
            await life.until(lambda: life.world.said)
        assert "are you there?" in house.requests()[-1].said


def refuses(times: int, left: list[int]) -> Any:
    """A model that refuses the first requests."""

    def script(_: Reading) -> Reply | None:
        left.append(1)
        return Reply(content=[], stop_reason="refusal") if len(left) <= times else None

    return script


async def test_two_refusals_reset_leave_dump_and_diary_and_it_acts_on(tmp_path: Path) -> None:
    """P7, P11, D1: the session is kept whole, the entry is tagged, the marker is in the next request, the NPC speaks."""
    async with oda(tmp_path) as house:
        house.brain.script = refuses(2, [])
        async with house.life() as life:
            await life.world.tell("Oda, something nobody may answer")
            await life.until(lambda: life.world.said)
            await life.until(lambda: life.saw("turn"))
        (dump,) = (house.home / "sessions").iterdir()
        assert "nobody may answer" in dump.read_text(encoding="utf-8") or json.loads(dump.read_text(encoding="utf-8"))["messages"]
        entry, last = await stored(house.home, "diary")
        assert (entry.data["tags"], last.data["tags"]) == (["context-reset"], ["shutdown"])
        assert last.data["events"][0] == entry.data["events"][1] + 1, "no event is told twice, none is left out"
        assert any("context-reset" in p.read_text(encoding="utf-8") for p in (house.home / "diary").iterdir() if p.is_file())
        assert "[context reset:" in house.requests()[-1].said


async def test_a_disk_that_takes_neither_dump_nor_diary_does_not_keep_it_from_a_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the dump goes elsewhere, the operator is told, the NPC acts."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    async with oda(tmp_path) as house:
        house.brain.script = refuses(2, [])
        async with house.life() as life:
            for name in ("sessions", "diary"):
                for file in (house.home / name).iterdir():
                    file.unlink()
                (house.home / name).rmdir()
                (house.home / name).write_text("no folder", encoding="utf-8")
            await life.world.tell("Oda, something nobody may answer")
            await life.until(lambda: life.world.said)
            assert any("free some space" in data["text"] for data in life.saw("alarm"))
        (reset,) = await stored(house.home, "reset")
        assert reset.data["how"] == "elsewhere"
        assert any("reset-" in path.name for path in elsewhere.rglob("*"))


async def test_stopped_between_draining_and_thinking_it_is_told_again_in_the_next_life(tmp_path: Path) -> None:
    """C34, C35: drained is not taken in; an orderly end at the worst moment loses no line and the books stay balanced."""
    async with oda(tmp_path) as house:
        async with house.life() as life:
            await life.world.tell("Oda, the first thing")
            await life.until(lambda: life.saw("turn"))
            other = sqlite3.connect(house.home / "session.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")  # whoever asks the memory now has to wait
            telling = asyncio.create_task(life.world.tell("Oda, remember the seventh lantern of the tower"))
            await life.until(lambda: len(life.saw("wake")) == 2)
            async with asyncio.timeout(5):
                while len(life.character.news.inbox):  # noqa: ASYNC110 - draining tells nobody
                    await asyncio.sleep(0)
            life.character.stop()
            other.execute("ROLLBACK")
            other.close()
            await telling
            await life.ended()
        assert len(house.requests()) == 2
        async with house.life() as life:
            await life.until(lambda: life.world.said)
            assert life.world.resume is not None
            assert (life.world.resume.world, life.world.resume.session, life.world.resume.seq) == ("mill", "s1", 2)
        assert "seventh lantern" in house.requests()[2].news
        assert (await books(house.home)) == {"received": 2, "delivered": 2, "merged": 0, "omitted": 0, "waiting": 0, "lost": 0, "own": 0}


async def test_after_a_refused_key_the_next_life_answers_what_the_last_one_heard(tmp_path: Path) -> None:
    """C8, P8: a life that ended for the operator's mistake can be taken up once that is mended."""
    async with oda(tmp_path) as house:
        house.model.faults = FaultPlan([Rule(fault=KEY_REFUSED)])
        async with house.life() as life:
            await life.world.tell("Oda, are you there?")
            assert (await life.ended()).code == 5
        house.model.faults = FaultPlan([])
        async with house.life() as life:
            await life.until(lambda: life.world.said)
        assert "are you there?" in house.requests()[0].said


async def test_stopped_while_the_model_thinks_it_ends_at_once_and_the_next_life_answers(tmp_path: Path) -> None:
    """C34, C35: nobody waits a minute for a model in order to stop, and the line under way is not lost."""
    async with oda(tmp_path) as house:
        house.model.faults = FaultPlan([Rule(fault=Late(seconds=60.0))])
        async with house.life() as life:
            await life.world.tell("Oda, are you there?")
            await life.until(lambda: life.saw("request"))
            life.character.stop()
            assert (await asyncio.wait_for(life.ended(), 5)).code == 0
        house.model.faults = FaultPlan([])
        async with house.life() as life:
            await life.until(lambda: life.world.said)
        assert "are you there?" in house.requests()[-1].said


async def test_an_action_that_cannot_be_written_down_is_not_sent_and_not_asked_about(tmp_path: Path) -> None:
    """C28, C35: with a disk that takes nothing the action fails; it does not happen an hour later, when there is room again."""
    changes = Changes()
    world = SmallWorld(changes)
    async with await Journal.open(tmp_path / "session.db") as journal:

        async def never() -> None:
            await asyncio.Event().wait()

        body = Body(goals=Goals(), clock=time.time)
        company = Company(names=("Oda",), ears=Ears(("Oda",)), guard=PairGuard(rounds=0, rest_s=1.0), clock=time.time)
        hands = Hands(journal=journal, world=world, durable=never, tell=changes.tell, say="say", body=body, company=company, store_s=0.01)
        hands.offer((SAY,))
        result = await hands.run(Call(id="c1", name="say", arguments={"text": "Hello"}), op=1, turn=1)
        assert result.error
        assert "not sent" in result.text
        assert not world.acts
        after = Hands(journal=journal, world=world, durable=journal.commit, tell=changes.tell, say="say", body=body, company=company)
        after.begun = journal.last_id
        await after.ask_outcomes()
        assert not world.queries


async def test_whoever_watches_and_fails_harms_nobody(tmp_path: Path) -> None:
    """O1, P1: a closed terminal is not the end of a life."""
    async with oda(tmp_path) as house, house.life() as life:
        life.told = None  # type: ignore[assignment]
        await life.world.tell("Oda?")
        await life.until(lambda: life.world.said)
        life.told = []


# ------------------------------------------------------------ memory and notebook
async def test_a_told_fact_comes_back_when_asked_for_and_earlier_questions_do_not(tmp_path: Path) -> None:
    """T10, T14: a session of another version is set aside, nothing is told twice for it, and the memory answers for it."""
    async with oda(tmp_path) as house:
        async with house.life() as life:
            for line in ("the code of the cellar door is 7341", "what was the code of the cellar door again?"):
                turns = len(life.saw("turn"))
                await life.world.tell(line)
                await life.until(lambda turns=turns: len(life.saw("turn")) > turns)  # type: ignore[misc]
        async with await Journal.open(house.home / "session.db") as journal:
            session = json.loads(await journal.load_checkpoint("session") or "")
            session["session"]["version"] = 99
            journal.checkpoint("session", json.dumps(session))
        before = len(house.requests())
        async with house.life() as life:
            await life.world.tell("tell me the code of the cellar door, please")
            await life.until(lambda: life.world.said)
        opening = house.requests()[before].opening_text
        assert "7341" in opening
        assert "again?" not in opening
        assert not await stored(house.home, "redelivered")


async def test_doubts_and_promises_in_own_words_reach_the_notebook_once(tmp_path: Path) -> None:
    """T6: thought, said beside a tool or aloud, they are in state.json and in what the next turn is given."""
    async with oda(tmp_path) as house:

        def doubts(reading: Reading) -> Reply:
            if reading.round:
                return words("(The bridge is unverified. All is well.)")
            text = {"type": "text", "text": "Note to self: ask Mira."}
            return Reply(content=[text, {"type": "tool_use", "name": "say", "input": {"text": "I promise to bring bread."}}])

        house.brain.script = doubts
        async with house.life() as life:
            for n in (1, 2):
                await life.world.tell("Oda, how is the bridge?")
                await life.until(lambda n=n: len(life.saw("thought")) == n)  # type: ignore[misc]
        state = json.loads((house.home / "state.json").read_text(encoding="utf-8"))
        kept = ["(The bridge is unverified.", "I promise to bring bread.", "Note to self: ask Mira."]
        assert sorted(state["notes_for_future_self"]) == kept
        assert "I promise to bring bread." in house.requests()[2].opening_text


async def test_a_rollback_is_told_as_news(tmp_path: Path) -> None:
    """D4, W3: the NPC hears that the past was undone, and it is logged."""
    async with oda(tmp_path) as house:
        async with house.life() as life:
            life.character.attachment.aside(Rollback(epoch="e2", since="day 3"))
            await life.until(lambda: life.saw("turn"))
        assert "after day 3 is undone" in house.requests()[0].news
        assert len(await stored(house.home, "rollback")) == 1
        assert not any((await books(house.home)).values()), "the runtime's own words are no observations of the world"
