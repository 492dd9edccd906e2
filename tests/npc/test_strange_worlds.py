"""Careless and hostile worlds, through the door of a world: the NPC lives on, hears what is meant for it, and is told the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.store.events import Event
from sim.messages_api import Reply
from sim.reading import Reading
from tests.npc.small_world import BOB, SAY, WALK, Life, oda, use, words
from tests.npc.test_body import GO, sets_out, under_way
from tests.npc.test_character import accepted, stored, walks
from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation, Speaker
from world_adapter.runs import Run


async def outcomes(home: Path) -> list[Event]:
    return list(await stored(home, "outcome"))


def settled(life: Life, turns: int) -> bool:
    return len(life.saw("turn")) == turns


# ------------------------------------------------------------ lists of actions
async def test_a_world_of_five_hundred_actions_leaves_room_to_live(tmp_path: Path) -> None:
    """W4, C01: what finds no room is told shorter or left out by name; the action for speaking stays, whatever stands beside it."""
    words_ = "Do one of the many things that this world offers to whoever has the time to read of them. " * 4
    many = [replace(WALK, name=f"act{n}", description=words_) for n in range(500)]
    flood = ActionSpec(name="flood", description="x" * 8_000, schema={"type": "object", "properties": {f"p{n}": {} for n in range(9_000)}})
    async with oda(tmp_path, tools='search = "off"') as house, house.life(actions=[*many, flood, SAY]) as life:
        await life.world.tell("Oda, are you there?")
        await life.until(lambda: settled(life, 1))
        assert life.world.said == ["I hear you."]
        [alarm] = [a["text"] for a in life.saw("alarm") if "left out" in a["text"]]
        assert "act141" in alarm
        tools = house.requests()[0].tools
        assert "say" in tools
        assert 20 < len(tools) < 500


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": 5},
        {"type": "object", "properties": ["text", {}], "required": [{}, "text", 5]},
        {"type": "object", "properties": {"text": {"type": "strange"}, "no such name!": 1}, "required": "text"},
        {"type": "object", "properties": {"text": {"$ref": "#/$defs/none"}}, "anyOf": [{"required": ["text"]}]},
        {"type": "array", "items": {"type": "string", "pattern": "(unbalanced", "minLength": -1}},
    ],
)
async def test_a_schema_that_no_endpoint_takes_does_not_silence_the_npc(tmp_path: Path, schema: dict[str, Any]) -> None:
    """W4, W5: every request holds the tools, so one bad schema would have each of them refused; and plain words need no schema at all."""
    async with oda(tmp_path, speech="plain_text_is_speech = true") as house:
        house.brain.script = lambda reading: None if "tool" in reading.news else words("Here I am.")
        async with house.life(actions=[replace(SAY, schema=schema), WALK]) as life:
            await life.world.tell("Oda, speak")
            await life.until(lambda: life.world.said == ["Here I am."])
            await life.world.tell("Oda, use your tool")
            await life.until(lambda: "I hear you." in life.world.said)
            assert not life.saw("model failure")


async def test_a_tool_that_goes_by_another_name_is_stopped_by_that_name(tmp_path: Path) -> None:
    """W4, P14: the model knows the names of tools, the world those of its actions."""
    far = replace(WALK, name="walk far away")

    def script(reading: Reading) -> Reply | None:
        [tool] = [t for t in reading.tools if t.startswith("walk_far_away")]
        if "stop" in reading.news.rpartition("still under way")[2]:
            return Reply(content=[{"type": "tool_use", "name": "npc_stop", "input": {"action": tool}}]) if not reading.round else None
        return use(tool, "on") if not reading.round else None

    async with oda(tmp_path) as house:
        house.brain.script = script

        async def walking(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            return ActResult(id=id, state=ActState.ACCEPTED) if name == far.name else None

        async with house.life(walking, actions=[SAY, far]) as life:
            await sets_out(life)
            await life.world.tell("Oda, stop!")
            await life.until(lambda: life.world.cancels)
            assert life.world.cancels == [life.world.acts[0][0]]


# ------------------------------------------------------------ quiet states
async def test_small_changes_of_others_start_no_turn_and_are_read_with_the_next(tmp_path: Path) -> None:
    """P14, C34: a keyed state of priority 2 or less waits, alone and in a crowd; one that is meant for the NPC, or counts, does not."""
    async with oda(tmp_path) as house, house.life() as life:
        cows = [
            Observation(seq=n, t=1.0, kind="moved", text=f"A cow is at {n}.", key=f"entity:{n % 7}", prio=1, data={"entity": n % 7})
            for n in range(1, 61)
        ]
        await life.world.here.observed(cows[:1], world="mill", epoch="e1")
        await life.world.here.observed(cows[1:20], world="mill", epoch="e1")
        await life.world.here.observed(Run.of(cows[20:]), world="mill", epoch="e1")
        await life.character.agent.quiet()
        assert not house.requests()
        await life.world.tell("The wheel stops.", to=None, kind="notice", speaker=None, prio=3, key="wheel")
        await life.until(lambda: settled(life, 1))
        assert "A cow is at 60." in house.requests()[0].news
        assert "A cow is at 1." not in house.requests()[0].news
        await life.world.tell("A cow treads on your foot.", kind="moved", speaker=None, prio=1, key="entity:3")
        await life.until(lambda: settled(life, 2))


async def test_a_small_change_that_the_persona_waits_for_wakes_all_the_same(tmp_path: Path) -> None:
    """P14: what is declared to wake it does, alone or among many."""
    table = 'idle_s = 3600.0\nidle_max_s = 7200.0\ngather_s = 0.0\n[[wake.when]]\nkind = "moved"\nfield = "near"\nequals = true\n'
    async with oda(tmp_path, wake=table) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await sets_out(life)
            wolf = Observation(seq=0, t=1.0, kind="moved", text="A wolf is near.", key="entity:9", prio=1, data={"near": True, "entity": 9})
            birds = [replace(wolf, seq=n, text="A bird.", key=f"entity:b{n}", data={"near": False, "entity": n}) for n in range(2, 60)]
            await life.world.here.observed([replace(birds[0], seq=2)], world="mill", epoch="e1")
            await life.character.agent.quiet()
            assert not life.saw("woken from yield")
            await life.world.here.observed(Run.of([replace(wolf, seq=30), *birds[29:]]), world="mill", epoch="e1")
            await life.until(lambda: life.saw("woken from yield"))


# ------------------------------------------------------------ where the body is
async def test_where_others_are_is_not_where_the_npc_is(tmp_path: Path) -> None:
    """P14: a cow's place speaks against no arrival, in one observation and among hundreds."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda reading: (
            Reply(content=[{"type": "tool_use", "name": "go", "input": {"x": 10, "z": 10}}])
            if not reading.round and "come to the mill" in reading.news
            else None
        )
        to = replace(GO, schema={"type": "object", "properties": {"x": {"type": "integer"}, "z": {"type": "integer"}}})
        async with house.life(under_way, actions=[SAY, to]) as life:
            await sets_out(life)
            here = life.world.here
            there = {"position": {"x": 10, "z": 10}}
            mine = Observation(seq=2, t=1.0, kind="moved", text="You are there.", key="self", own=True, prio=2, data=there)
            cow = replace(mine, text="A cow.", own=False, key="entity:4", data={"entity": 4, "position": {"x": 90, "z": 90}})
            guest = replace(cow, key=None, data={"x": 50, "z": 50}, speaker=Speaker(id="g", name="Guest", kind="player"))
            await here.observed([mine, replace(cow, seq=3), replace(guest, seq=4)], world="mill", epoch="e1")
            await here.observed(Run.of([replace(cow, seq=n) for n in range(5, 60)]), world="mill", epoch="e1")
            life.world.end(0, text="You have arrived.")
            await life.until(lambda: life.saw("turn"))
            assert not life.saw("contradicted")


# ------------------------------------------------------------ ends of actions
async def test_what_the_world_knows_nothing_of_is_told_in_clear_words_and_is_the_end(tmp_path: Path) -> None:
    """C29, C35: an `unknown` in answer to a question stands in the log as the end, is one piece of news, and is asked no more."""
    async with oda(tmp_path) as house:

        async def silent(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            return ActResult(id=id, state=ActState.UNKNOWN, error_code="timeout", error_message="no answer in time")

        async with house.life(silent) as life:
            await life.world.tell("Oda, speak")
            await life.until(lambda: settled(life, 1))
            await life.world.query(life.world.acts[0][0])
            await life.until(lambda: settled(life, 2))
            assert house.requests()[-1].news.count("unknown. The world knows nothing of it: most likely it was never done") == 1
            assert len(life.world.acts) <= 2
            asked = list(life.world.queries)
        [end] = [e for e in await outcomes(house.home) if e.data["action"] == asked[0]]
        assert (end.data["state"], "never done" in end.data["text"]) == ("unknown", True)
        async with house.life() as life:
            await life.character.agent.quiet()
            assert asked[0] not in life.world.queries


async def test_a_link_that_is_down_says_nothing_about_a_goal(tmp_path: Path) -> None:
    """P14: a walk that was never sent has not failed; when the world is back it may be tried at once."""
    async with oda(tmp_path, acting="same_goal_tries = 2") as house:
        house.brain.script = lambda reading: use("walk", "to the mill") if reading.round < 3 and "mill" in reading.said else None

        async def away(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            state, code = ActState.FAILED, "not_attached"
            return ActResult(id=id, state=state, error_code=code, error_message="the link is down") if name == "walk" else None

        async with house.life(away) as life:
            await life.world.tell("Oda, go to the mill")
            await life.until(lambda: settled(life, 1))
            assert len([name for _, name, _ in life.world.acts if name == "walk"]) == 3
            assert not life.saw("goal refused")


async def test_a_part_of_a_speech_that_came_through_after_all_is_told(tmp_path: Path) -> None:
    """W6, C35: the mind was told that it is not known; when the world says at last that it was said, that is news."""
    async with oda(tmp_path) as house:

        async def mute(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            return ActResult(id=id, state=ActState.UNKNOWN, error_code="timeout") if name == "say" else None

        text = "First part of it. Second part of it."
        house.brain.script = lambda reading: use("say", text) if not reading.round and "speak" in reading.news else None
        async with house.life(mute) as life:
            life.world.here.attached(
                npc="Oda", world="mill", epoch="e1", session="s1", resumed=False, lost=0, limits=Limits(say_chars=20),
            )  # fmt: skip
            await life.world.tell("Oda, speak")
            await life.until(lambda: settled(life, 1))
            assert life.world.said == ["First part of it."]
            life.world.end(0, text="You said it.")
            await life.until(lambda: settled(life, 2))
            assert "You said it." in house.requests()[-1].news


# ------------------------------------------------------------ limits
@pytest.mark.parametrize("limits", [Limits(say_chars=1, acts_per_s=1e-9), Limits(say_chars=-5, acts_per_s=-1.0), Limits(acts_per_s=1e308)])
async def test_whatever_a_world_says_that_it_bears_the_npc_answers(tmp_path: Path, limits: Limits) -> None:
    """W1, W5: absurd limits make it terse at worst, and two attachments in a row change nothing."""
    async with oda(tmp_path) as house, house.life() as life:
        for _ in range(2):
            life.world.here.attached(npc="Oda", world="mill", epoch="e1", session="s1", resumed=False, lost=0, limits=limits)
        house.brain.script = lambda reading: use("say", "Y") if not reading.round else None
        await life.world.tell("Oda?")
        await life.until(lambda: life.world.said == ["Y"])


async def test_a_thousand_lines_at_once_of_a_kind_of_the_worlds_own_leave_the_loop_to_others(tmp_path: Path) -> None:
    """W2, C34: all of it is stored, in order, before it is acknowledged; the one line for the NPC is answered."""
    async with oda(tmp_path) as house, house.life() as life:
        lines = [
            Observation(seq=n, t=1.0, kind="gossip", text=f"Guest{n % 50} says: the flour, number {n}", data={"a": [n]})
            for n in range(1, 1_001)
        ]
        lines[400] = replace(lines[400], kind="speech", text="Oda, where is it?", speaker=BOB, to="Oda")
        await life.world.here.observed(lines, world="mill", epoch="e1")
        await life.until(lambda: "I hear you." in life.world.said)
        events = await stored(house.home, "observation")
        assert [e.data["seq"] for e in events if e.data["seq"]] == list(range(1, 1_001))
