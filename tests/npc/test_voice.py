"""What a character says and hears of itself, between a real model client and a world."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from runtime.store.journal import Journal
from sim.messages_api import Reply
from sim.reading import Reading
from tests.npc.small_world import Life, oda, use, words
from world_adapter.frames import ActResult, ActState, Limits, Speaker

LONG = "The bridge is out. Take the ford now. Mind the stones."
PARTS = ["The bridge is out.", "Take the ford now.", "Mind the stones."]
MARA = Speaker(id="n2", name="Mara", kind="npc")


async def stored(path: Path, *kinds: str) -> list[Any]:
    """The events of a life that is over."""
    async with await Journal.open(path / "session.db", read_only=True) as journal:
        return await journal.events(kinds=kinds, limit=10_000)


def narrow(life: Life) -> None:
    """The world says that it takes no more than 20 characters at once."""
    life.world.limits = Limits(say_chars=20)
    life.world.attach()


def long_answer(reading: Reading) -> Reply | None:
    """A model that answers what it is asked about the bridge at length."""
    return use("say", LONG) if "bridge?" in reading.news and not reading.round else None


async def test_a_long_line_is_said_in_parts_in_time_and_is_one_call(tmp_path: Path) -> None:
    """W6: each part within the world's limit, an action of its own with an intent of its own, read before the next; one result."""
    async with oda(tmp_path) as house:
        house.brain.script = long_answer
        async with house.life() as life:
            narrow(life)
            begun = asyncio.get_running_loop().time()
            await life.world.tell("Oda, is there a bridge?")
            await life.until(lambda: life.saw("turn"))
            took = asyncio.get_running_loop().time() - begun
            assert life.world.said == PARTS
        assert took > 1.0
        ids = [e.data["action"] for e in await stored(house.home, "intent")]
        assert len(set(ids)) == 3
        last = house.requests()[-1]
        assert last.results == ("done [said in 3 parts]",)


async def test_a_part_that_is_refused_ends_it_and_the_mind_is_told_how_much_was_heard(tmp_path: Path) -> None:
    """W6, C4: partly said is told with what was left out."""
    async with oda(tmp_path) as house:
        house.brain.script = long_answer
        lives: list[Life] = []

        async def once(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            full = len(lives[0].world.said) == 2
            return ActResult(id=id, state=ActState.FAILED, text="the crowd shouts you down") if full else None

        async with house.life(once) as life:
            lives.append(life)
            narrow(life)
            await life.world.tell("Oda, is there a bridge?")
            await life.until(lambda: life.saw("turn"))
            assert life.world.said == PARTS[:2]
        said = house.requests()[-1].said
        assert "said 1 of 3 parts, then stopped: failed] the crowd shouts you down" in said
        assert "not said: Take the ford now. Mind the stones." in said


async def test_while_it_speaks_a_player_is_answered_and_newer_words_end_the_old_ones(tmp_path: Path) -> None:
    """W6, P14: a speech is no reason to be deaf; what was not said any more is told."""
    async with oda(tmp_path) as house:

        def script(reading: Reading) -> Reply | None:
            return use("say", "Fire? Where?") if "fire!" in reading.news and not reading.round else long_answer(reading)

        house.brain.script = script
        async with house.life() as life:
            narrow(life)
            await life.world.tell("Oda, is there a bridge?")
            await life.until(lambda: life.world.said)
            await life.world.tell("Oda, fire!")
            await life.until(lambda: "Fire? Where?" in life.world.said)
            assert life.world.said == [PARTS[0], "Fire? Where?"]
            await life.until(lambda: "you spoke anew" in house.requests()[-1].said)


async def test_stopped_in_the_middle_no_part_is_said_later_and_none_twice(tmp_path: Path) -> None:
    """W6, C29: the end of a life is the end of its speech; a mind that says all of it again in the next one is not heard twice."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda reading: None if reading.round else use("say", LONG)
        async with house.life() as life:
            narrow(life)
            await life.world.tell("Oda, is there a bridge?")
            await life.until(lambda: life.world.said)
        assert life.world.said == PARTS[:1]
        house.brain.script = lambda reading: use("say", LONG) if "say" not in reading.called[-1:] else words("(done)")
        async with house.life() as life:
            narrow(life)
            await life.until(lambda: PARTS[2] in life.world.said)
            assert life.world.said == PARTS[1:]


async def test_the_same_words_are_not_said_twice_unless_somebody_spoke(tmp_path: Path) -> None:
    """W6: the tool says so; an answer that is the same to another question is heard."""
    async with oda(tmp_path) as house:
        block = {"type": "tool_use", "name": "say", "input": {"text": "Aye."}}
        house.brain.script = lambda reading: words("(done)") if reading.round else Reply(content=[block, block])
        async with house.life() as life:
            await life.world.tell("Oda, do you keep the mill?")
            await life.until(lambda: life.saw("turn"))
            assert life.world.said == ["Aye."]
            assert "not said again" in house.requests()[-1].said
            await life.world.tell("Oda, and do you like it?")
            await life.until(lambda: len(life.saw("turn")) == 2)
            assert life.world.said == ["Aye.", "Aye."]


async def test_an_echo_without_a_mark_is_known_and_the_words_stand_once(tmp_path: Path) -> None:
    """W6: own words that come back start no turn; they stay in the history as they were said. A parrot is somebody else."""
    async with oda(tmp_path) as house, house.life() as life:
        await life.world.tell("Oda, are you there?")
        await life.until(lambda: life.saw("turn"))
        await life.world.tell('You say, "I hear you."', to=None, speaker=None)
        await life.world.tell('Oda says: "I hear you."', to=None, speaker=None, kind="notice")
        await life.world.tell("I hear you.", to=None, speaker=Speaker(id="Oda", name="Oda", kind="npc"))
        assert [heard["own"] for heard in life.saw("heard")] == [False, True, True, True]
        await life.world.tell("I hear you.", to=None, speaker=MARA)
        await life.until(lambda: len(life.saw("turn")) == 2)
        assert [heard["own"] for heard in life.saw("heard")][4:] == [False]
        assert house.requests()[-2].said.count("I hear you.") == 2  # said by Oda, then heard from Mara
        assert len(life.saw("wake")) == 2


async def test_plain_words_that_the_world_refuses_are_told_with_the_next_news_and_start_nothing(tmp_path: Path) -> None:
    """W6: a model that ignores tools learns that nobody heard it, and a world that refuses all words costs no turn of its own."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda _: words("Hail and well met.")

        async def deaf(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            return ActResult(id=id, state=ActState.FAILED, text="You are gagged.")

        async with house.life(deaf) as life:
            await life.world.tell("Oda, are you there?")
            await life.until(lambda: len(life.character.news.inbox))
            assert len(house.requests()) == 1
            await life.world.tell("Oda?")
            await life.until(lambda: len(life.saw("turn")) == 2)
        assert len(house.requests()) == 2
        assert "You are gagged." in house.requests()[1].news


async def test_a_cut_off_answer_says_nothing(tmp_path: Path) -> None:
    """C5: words and calls of an answer that hit its limit are not heard, whichever way they would have been said."""
    async with oda(tmp_path) as house:
        half = {"type": "tool_use", "name": "say", "input": {"text": "I shall never give the key to"}}
        text = {"type": "text", "text": "I shall never"}
        house.brain.script = lambda _: Reply(content=[text, half], stop_reason="max_tokens")
        async with house.life() as life:
            await life.world.tell("Oda, the key?")
            await life.until(lambda: life.saw("turn"))
            assert not life.world.acts


async def test_two_long_lines_in_one_step_leave_the_mind_free_and_end_together_when_it_stops(tmp_path: Path) -> None:
    """W6, P14: the second waits for the first without the mind, in its order; a stop silences both, and each call has its result."""
    texts = (LONG, "One more thing. And another one. The last.")
    two = Reply(content=[{"type": "tool_use", "name": "say", "input": {"text": text}} for text in texts])

    def script(reading: Reading) -> Reply | None:
        if "enough!" in reading.news:
            return None if reading.round else Reply(content=[{"type": "tool_use", "name": "npc_stop", "input": {}}])
        return two if "bridge?" in reading.news and not reading.round else None

    async with oda(tmp_path) as house:
        house.brain.script = script
        async with house.life() as life:
            narrow(life)
            await life.world.tell("Oda, is there a bridge?")
            await life.until(lambda: life.saw("yield"))
            assert life.world.said == PARTS[:1]
            await life.world.tell("Oda, enough!")
            await life.until(lambda: any("you fall silent" in r for reading in house.requests() for r in reading.results))
            await life.character.agent.quiet()
            assert len(life.world.said) < 3
            await life.world.tell("Oda, are you done?")
            await life.until(lambda: "I hear you." in life.world.said)
            assert "then stopped: you stopped" in house.requests()[-1].said
            assert "[not said: you stopped]" in house.requests()[-1].said


async def test_what_is_said_in_one_step_comes_in_its_order(tmp_path: Path) -> None:
    """W6: long or short, one after the other."""
    texts = ("Good morning.", LONG, "Off you go.")
    three = Reply(content=[{"type": "tool_use", "name": "say", "input": {"text": text}} for text in texts])
    async with oda(tmp_path) as house:
        house.brain.script = lambda reading: three if "bridge?" in reading.news and not reading.round else None
        async with house.life() as life:
            narrow(life)
            await life.world.tell("Oda, is there a bridge?")
            await life.until(lambda: life.saw("turn"))
            assert life.world.said == ["Good morning.", *PARTS, "Off you go."]
            assert len(house.requests()[-1].results) == 3
