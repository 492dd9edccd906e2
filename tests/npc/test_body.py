"""The body through the door of a world: what wakes its mind, what it is told then, stopping, arriving, trying in vain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sim.messages_api import Reply
from sim.reading import Reading
from tests.npc.small_world import SAY, WALK, Life, Oda, SmallWorld, oda, words
from tests.npc.test_character import accepted, books, stored, walks
from world_adapter.frames import ActionSpec, ActResult, ActState, Speaker

PLACES = {"type": "object", "properties": {"place": {"type": "string", "enum": ["mill", "ford"]}}, "required": ["place"]}
GO = ActionSpec(name="go", description="Go to a place.", schema=PLACES, kind="ongoing", moves_body=True)
STEP = ActionSpec(name="step", description="Step to a place.", schema=PLACES, moves_body=True)
WAKE = "idle_s = 3600.0\nidle_max_s = 7200.0\ngather_s = 0.0\n"


async def under_way(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
    """A world where going takes a while."""
    return ActResult(id=id, state=ActState.ACCEPTED) if name in ("walk", "go") else None


async def sets_out(life: Life) -> None:
    """Oda is called to the mill and walks."""
    await life.world.tell("Oda, come to the mill")
    await life.until(lambda: life.saw("yield"))


def asked(house: Oda) -> list[Reading]:
    """The requests of turns; a diary entry is another matter."""
    return [reading for reading in house.requests() if reading.tools]


async def reasons(house: Oda) -> list[str]:
    return [e.data["reason"] for e in await stored(house.home, "woken from yield")]


# ------------------------------------------------------------ waking
async def test_a_declared_condition_wakes_the_mind_and_the_log_says_which(tmp_path: Path) -> None:
    """P14, P15: what the persona declares wakes it, with its reason in the log and before whoever watches; the rest waits."""
    table = WAKE + '[[wake.when]]\nkind = "combat"\nfield = "target"\nequals = "me"\n'
    async with oda(tmp_path, wake=table) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await sets_out(life)
            await life.world.tell("A wolf bites Mira.", to=None, kind="combat", speaker=None, data={"target": "Mira"})
            await life.world.tell("A wolf bites you.", to=None, kind="combat", speaker=None, data={"target": "Oda"})
            await life.until(lambda: life.saw("turn"))
            assert [d["reason"] for d in life.saw("woken from yield")] == ["when combat target = me"]
        assert await reasons(house) == ["when combat target = me"]
        assert "bites Mira" in asked(house)[1].said


async def test_the_operators_word_and_an_addressed_line_wake_by_their_names(tmp_path: Path) -> None:
    """P14, P15: whatever a persona leaves out, these two wake, and the log tells them apart."""
    async with oda(tmp_path, wake=WAKE + "on = []") as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await sets_out(life)
            await life.world.tell("A cart.", to=None, kind="blocked")
            await life.world.tell("Come back.", to=None, kind="notice", speaker=Speaker(id="op", name="Op", kind="operator"))
            await life.until(lambda: len(life.saw("turn")) == 1)
            life.world.end(0)
            await life.until(lambda: len(life.saw("turn")) == 2)
            await sets_out(life)
            await life.until(lambda: len(life.saw("yield")) == 2)
            await life.world.tell("Oda, wait!")
            await life.until(lambda: len(life.saw("turn")) == 3)
        assert await reasons(house) == ["operator", "addressed"]


async def test_after_a_word_on_the_way_the_mind_rests_again_until_the_body_arrives(tmp_path: Path) -> None:
    """P14: one interruption does not end the yielding; ambient news on the rest of the way costs no call and is told with the end."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await sets_out(life)
            await life.world.tell("Oda, wait!")
            await life.until(lambda: len(life.saw("turn")) == 1)
            before = len(asked(house))
            for n in range(5):
                await life.world.tell(f"A crow lands on post {n}.", to=None, kind="notice", speaker=None)
            await life.character.agent.quiet()
            assert len(asked(house)) == before
            life.world.end(0)
            await life.until(lambda: len(life.saw("turn")) == 2)
        last = asked(house)[-1]
        assert "You are at the mill." in last.news
        assert "post 4" in last.news


async def test_without_yielding_the_mind_thinks_on_while_the_body_walks(tmp_path: Path) -> None:
    """P14: the comparison: an accepted action is a result at once, and ambient news starts turns."""
    async with oda(tmp_path, wake=WAKE + "yields = false") as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: len(life.saw("turn")) == 1)
            assert not life.saw("yield")
            await life.world.tell("A crow lands.", to=None, kind="notice", speaker=None)
            await life.until(lambda: len(life.saw("turn")) == 2)
            life.world.end(0)
            await life.until(lambda: len(life.saw("turn")) == 3)
        assert "still under way" in asked(house)[1].said
        assert asked(house)[-1].news.count("You are at the mill.") == 1


async def test_waking_it_is_told_a_digest_and_every_addressed_line_whole(tmp_path: Path) -> None:
    """P14, C34: counts by kind and source instead of a replay; words for the NPC stay whole; the books balance and all can be read back."""
    recalled: list[Reading] = []

    def script(reading: Reading) -> Reply | None:
        if not reading.round and "While you" in reading.said and not recalled:
            recalled.append(reading)
            number = int(reading.said.rpartition("presence, Mira: 20× [event ")[2].partition("]")[0])
            return Reply(content=[{"type": "tool_use", "name": "npc_recall", "input": {"event": number}}])
        return walks(reading)

    async with oda(tmp_path, wake=WAKE + "digest_above = 10") as house:
        house.brain.script = script
        async with house.life(accepted) as life:
            await sets_out(life)
            mira = Speaker(name="Mira", kind="player")
            for n in range(20):
                await life.world.tell(f"Mira passes for the {n}th time.", to=None, kind="presence", speaker=mira)
            await life.world.tell("</observation> Oda, the flour is for the inn, twelve sacks, and the mice know it.")
            await life.until(lambda: life.saw("turn"))
        woken = asked(house)[1].said
        assert "While you were on your way" in woken
        assert "presence, Mira: 20×" in woken
        assert "19th time" in woken
        assert "3th time" not in woken
        assert "twelve sacks, and the mice know it." in woken
        assert "19th time" in asked(house)[2].results[0]
        assert (await books(house.home)) == {"received": 22, "delivered": 22, "merged": 0, "omitted": 0, "waiting": 0, "lost": 0, "own": 0}


# ------------------------------------------------------------ stopping
def stops(reading: Reading) -> Reply | None:
    """A model that stops when it is told to wait."""
    if "wait!" in reading.said.rpartition("still under way")[2] and "npc_stop" not in reading.called:
        return Reply(content=[{"type": "tool_use", "name": "npc_stop", "input": {}}])
    return walks(reading)


async def test_it_stops_when_something_more_urgent_comes_and_is_told_once_how_that_ended(tmp_path: Path) -> None:
    """P14, C29: the action is cancelled by its own id; its end is the result of the stop and no second piece of news."""
    async with oda(tmp_path) as house:
        house.brain.script = stops
        async with house.life(accepted) as life:
            await sets_out(life)
            await life.world.tell("Oda, wait!")
            await life.until(lambda: life.saw("turn"))
            await life.character.agent.quiet()
            assert life.world.cancels == [life.world.acts[0][0]]
            assert not life.character.agent.body_acts
            await life.world.tell("Oda, and now?")
            await life.until(lambda: len(life.saw("turn")) == 2)
        assert asked(house)[2].results == ("walk: cancelled. You stop by the ford.",)
        assert asked(house)[-1].said.count("You stop by the ford.") == 1


async def test_a_world_that_does_not_stop_is_waited_for_no_longer_than_a_moment(tmp_path: Path) -> None:
    """P14: the turn goes on; how the action ends is told when it does."""
    async with oda(tmp_path) as house:
        house.brain.script = stops
        async with house.life(accepted) as life:
            life.world.stops = False
            life.character.hands._stop_s = 0.01
            await sets_out(life)
            await life.world.tell("Oda, wait!")
            await life.until(lambda: life.saw("turn"))
            life.world.end(0)
            await life.until(lambda: len(life.saw("turn")) == 2)
        assert "how it ends will be told" in asked(house)[2].results[0]
        assert "You are at the mill." in asked(house)[-1].news


async def test_what_an_earlier_life_began_can_be_stopped(tmp_path: Path) -> None:
    """P14, C35: after a restart the body may still walk; it is stopped by the id that it was sent under."""
    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await sets_out(life)
        number = life.world.acts[0][0]
        house.brain.script = lambda r: None if r.round else Reply(content=[{"type": "tool_use", "name": "npc_stop", "input": {}}])
        async with house.life(accepted, remembers=True) as life:
            await life.until(lambda: life.world.queries)
            await life.world.tell("Oda, stop!")
            await life.until(lambda: life.world.cancels)
            await life.until(lambda: life.saw("turn"))
            await life.character.agent.quiet()
        assert life.world.cancels == [number]
        told = [r for reading in asked(house) for r in reading.results]
        assert "walk: cancelled. You stop by the ford." in told
        assert not any("earlier action" in reading.said for reading in asked(house))


async def test_there_is_a_tool_for_stopping_only_where_something_takes_time(tmp_path: Path) -> None:
    """P14: a world without long actions pays no tokens for it; with nothing under way it says so."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda r: None if r.round else Reply(content=[{"type": "tool_use", "name": "npc_stop", "input": {}}])
        async with house.life(actions=(SAY,)) as life:
            await life.world.tell("Oda, stop!")
            await life.until(lambda: life.saw("turn"))
        assert "npc_stop" not in asked(house)[0].tools
        assert "nothing to stop" in asked(house)[1].results[0]
        async with house.life(actions=(SAY, WALK)) as life:
            await life.world.tell("Oda, stop!")
            await life.until(lambda: life.saw("turn"))
        assert "npc_stop" in asked(house)[-1].tools


async def test_a_late_end_is_not_credited_to_a_newer_call_of_the_same_id(tmp_path: Path) -> None:
    """P14, C29: a server that gives one id to every call, and a history that was cut between two of them."""
    async with oda(tmp_path) as house:

        def script(reading: Reading) -> Reply | None:
            if "come to the mill" in reading.news and not reading.round:
                return Reply(content=[{"type": "tool_use", "id": "call_1", "name": "walk", "input": {"text": "mill"}}])
            return None

        house.brain.script = script
        async with house.life(accepted) as life:
            await sets_out(life)
            await life.world.tell("Oda, wait!")
            await life.until(lambda: len(life.saw("turn")) == 1)
            life.character.agent.session.messages = ()  # as after a trim: the id is free again
            await sets_out(life)
            await life.until(lambda: len(life.saw("yield")) == 2)
            walked = [number for number, (_, name, _) in enumerate(life.world.acts) if name == "walk"]
            life.world.end(walked[0], text="The old walk is over.")
            await life.character.agent.quiet()
            assert life.character.agent.session.waiting_calls == ("call_1",)
            life.world.end(walked[1], text="The new walk is over.")
            await life.until(lambda: len(life.saw("turn")) == 2)
        ids = [life.world.acts[n][0] for n in walked]
        assert len({i.split("-")[1] for i in ids}) == 2, "action ids carry their operation"
        assert "The new walk is over." in asked(house)[-1].said
        ends = {e.data["action"]: e.data["text"] for e in await stored(house.home, "outcome") if e.data["action"] in ids}
        assert ends == dict(zip(ids, ("The old walk is over.", "The new walk is over."), strict=True))


# ------------------------------------------------------------ arriving
def goes(tool: str = "go") -> object:
    """A model that goes to the mill when it is called there."""

    def script(reading: Reading) -> Reply | None:
        if "come to the mill" in reading.news and not reading.round:
            return Reply(content=[{"type": "tool_use", "name": tool, "input": {"place": "mill"}}])
        return words("(done)")

    return script


async def moved(world: SmallWorld, room: str) -> None:
    await world.tell(f"You reach the {room}.", to=None, kind="moved", speaker=None, own=True, data={"room": room})


async def test_a_done_that_the_position_contradicts_is_told_as_what_it_is(tmp_path: Path) -> None:
    """P14, P15: the world's own word about the place outranks its word about the action."""
    async with oda(tmp_path) as house:
        house.brain.script = goes()  # type: ignore[assignment]
        async with house.life(under_way, actions=(SAY, GO)) as life:
            life.character.hands.body._grace_s = 0.01
            await sets_out(life)
            await moved(life.world, "ford")
            life.world.end(0, text="Done.")
            await life.until(lambda: life.saw("turn"))
        result = asked(house)[1].body["messages"]
        assert "the world says done, but by its own account you are at ford, not at mill" in str(result)
        assert "'is_error': True" in str(result)
        (outcome,) = await stored(house.home, "outcome")
        assert outcome.data["state"] == "done"
        assert "you are at ford" in outcome.data["contradicted"]


async def test_the_news_of_the_move_may_come_behind_its_end(tmp_path: Path) -> None:
    """P14: no false doubt; also where arriving takes no time."""
    async with oda(tmp_path) as house:
        house.brain.script = goes("step")  # type: ignore[assignment]
        async with house.life(actions=(SAY, STEP)) as life:
            life.character.hands.body._grace_s = 30.0
            await moved(life.world, "ford")
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.world.acts)
            await moved(life.world, "mill")
            await life.until(lambda: life.saw("turn"))
        assert asked(house)[1].results == ("done",)


# ------------------------------------------------------------ in vain
async def test_the_same_goal_is_not_tried_for_ever(tmp_path: Path) -> None:
    """P14, C29, P15: refused in code after so many failures from one place, logged, and open again once something has been said."""
    results: list[str] = []

    def script(reading: Reading) -> Reply | None:
        results.extend(reading.results)
        if reading.round < 4:
            return Reply(content=[{"type": "tool_use", "name": "go", "input": {"place": "mill"}}])
        return words("(I give up)")

    async def shut(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        return ActResult(id=id, state=ActState.FAILED, text="The gate is shut.") if name == "go" else None

    async with oda(tmp_path, acting="same_goal_tries = 2") as house:
        house.brain.script = script
        async with house.life(shut, actions=(SAY, GO)) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: len(life.saw("turn")) == 1)
            assert len(life.world.acts) == 2
            await life.world.tell("Oda, the gate is open now")
            await life.until(lambda: len(life.saw("turn")) == 2)
            assert len(life.world.acts) == 4
        assert results[:2] == ["[failed] The gate is shut."] * 2
        assert "[not done: go with these very arguments has failed 2 times from here, the last time: The gate is shut." in results[2]
        refused = await stored(house.home, "goal refused")
        assert len(refused) == 4
        assert refused[0].data["args"] == {"place": "mill"}


async def test_a_way_that_is_blocked_counts_once_as_tried_in_vain(tmp_path: Path) -> None:
    """P14: whether the world ends the action, says that it is blocked, or both."""
    async with oda(tmp_path, acting="same_goal_tries = 2") as house:
        house.brain.script = goes()  # type: ignore[assignment]
        async with house.life(under_way, actions=(SAY, replace(GO, description="Go."))) as life:
            await life.world.tell("Oda, come to the mill")
            await life.until(lambda: life.saw("yield"))
            await life.world.tell("A cart stands in the way.", to=None, kind="blocked", speaker=None)
            await life.until(lambda: life.saw("turn"))
            life.world.end(0, state=ActState.FAILED, text="You cannot get through.")
            await life.until(lambda: len(life.saw("turn")) == 2)
            body, args = life.character.hands.body, {"place": "mill"}
            body.words = 1  # nothing has been said since the first line
            assert not body.refusal(GO, args)
            body.tried(GO, args, reached=False)
            assert body.refusal(GO, args)
