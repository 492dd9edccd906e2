"""A body whose mind is not asked: what it does by itself, and what it never does. Rows: C9, C36, P12, P15, W6."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.reflexes import Reflexes, Rules, arrives, filled, name_of
from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.messages_api import OVERLOADED, FaultPlan, Reply, Rule
from sim.reading import Reading
from tests.core.examples import examples
from tests.npc.small_world import BOB, SAY, WALK, Life, Oda, oda, use
from world_adapter.frames import ActionSpec, ActResult, ActState, Observation, Speaker

NOW = 1_700_000_000.0
AWAY = FaultPlan([Rule(fault=OVERLOADED)])
RULES = Rules(greet="Well met, {name}.", tired="I am tired, {name}. Come back later.", flee="flee")
FLEE = ActionSpec(name="flee", description="Run away.", schema={"type": "object", "properties": {"to": {"type": "string"}}})


def person(number: int, name: str = "") -> Speaker:
    return Speaker(id=f"p{number}", name=name or f"Player{number}", kind="player")


def line(speaker: Speaker, kind: str = "speech", text: str = "Oda?") -> Observation:
    return Observation(seq=1, t=NOW, kind=kind, text=text, speaker=speaker)


async def events(house: Oda, *kinds: str) -> list[Event]:
    async with await Journal.open(house.home / "session.db", read_only=True) as journal:
        return await journal.events(kinds=kinds, limit=10_000)


async def gone(life: Life) -> None:
    """The model does not answer, and this is known."""
    await life.until(lambda: life.character.instinct.level == "all")


def heard(house: Oda) -> str:
    """All that the mind read in requests that were answered."""
    return "\n".join(str(r.body["messages"]) for r in house.model.records if r.outcome == "answered" and r.body.get("tools"))


# ------------------------------------------------------------ rules
@examples(60)
@given(st.text(max_size=200))
def test_a_name_said_aloud_is_words_of_one_line(name: str) -> None:
    """W5: whatever somebody calls himself, it is no markup, no braces, no second line, and short; without a name the words are whole."""
    clean = name_of(Speaker(id="x", name=name, kind="player"))
    assert len(clean) <= 40
    assert not set(clean) & set('{}[]<>"\n\r\t\0:;*`\\/')
    said = filled("I am tired, {name}. Come back later.", clean)
    assert said == (f"I am tired, {clean}. Come back later." if clean else "I am tired. Come back later.")


@examples(40)
@given(st.lists(st.tuples(st.integers(0, 30), st.floats(-5_000, 5_000), st.sampled_from(["speech", "presence", "hurt"])), max_size=120))
def test_however_many_come_few_lines_are_said_and_nobody_hears_the_same_soon(steps: list[tuple[int, float, str]]) -> None:
    """C9, W6: in any order, with a clock that jumps: at most six lines in a minute, each person once in half an hour of a steady clock."""
    reflexes = Reflexes(RULES, names=["Oda"])
    now = NOW
    said: list[float] = []
    tired: dict[int, float] = {}
    for who, seconds, kind in steps:
        now += seconds
        if seconds < 0:
            said, tired = [], {}  # nothing of before is nearer than it was
        deed = reflexes.meets(line(person(who), kind), me="oda", now=now, addressed=kind == "speech", alone=True)
        if deed and deed.kind in ("greet", "tired"):
            said.append(now)
            assert len([at for at in said if now - at < 60]) <= 6
            if deed.kind == "tired":
                assert now - tired.get(who, -1e9) >= 1_800
                tired[who] = now


def test_people_and_nobody_else_are_spoken_to() -> None:
    """W6: an NPC, a beast and the world itself get no words from a body without a mind: two such bodies would not stop."""
    reflexes = Reflexes(RULES, names=["Oda"])
    for kind in ("npc", "world"):
        assert reflexes.meets(line(Speaker(id="n", name="Guard", kind=kind)), me="oda", now=NOW, addressed=True, alone=True) is None


def test_who_leaves_is_not_greeted() -> None:
    assert arrives(line(person(1), "presence", "Bob comes in."))
    assert not arrives(line(person(1), "presence", "Bob leaves towards the market."))


def test_who_was_there_with_the_mind_is_not_greeted_without_it() -> None:
    """C9: greeted is whoever is new."""
    reflexes = Reflexes(RULES, names=["Oda"])
    reflexes.saw(line(BOB), now=NOW)
    assert reflexes.meets(line(BOB, "presence", "Bob comes in."), me="oda", now=NOW + 60, addressed=False, alone=False) is None
    deed = reflexes.meets(line(person(2), "presence", "Player2 comes in."), me="oda", now=NOW + 60, addressed=False, alone=False)
    assert deed
    assert (deed.kind, deed.words) == ("greet", "Well met, Player2.")


@pytest.mark.parametrize(
    ("text", "flees"),
    [("The wolf hurts you: 9 of 40 left.", True), ("The wolf hurts you: 31 of 40 left.", False), ("You are hurt.", False), ("6/20", True)],
)
def test_the_weak_flee_and_once_at_a_time(text: str, flees: bool) -> None:
    """C9: only as far as the world tells how weak it is; and not with every blow."""
    reflexes = Reflexes(RULES, names=["Oda"])
    hurt = Observation(seq=1, t=NOW, kind="hurt", text=text, speaker=Speaker(id="m1", name="wolf", kind="world"))
    deed = reflexes.meets(hurt, me="oda", now=NOW, addressed=False, alone=True)
    assert (deed is not None) == flees
    assert reflexes.meets(hurt, me="oda", now=NOW + 1, addressed=False, alone=True) is None


# ------------------------------------------------------------ a whole life
async def test_during_an_outage_it_says_that_it_is_tired_and_the_mind_hears_of_it(tmp_path: Path) -> None:
    """C9, P15: once to each; the log says from when to when; the first request that is answered holds what was done and what was said."""
    async with oda(tmp_path) as house:
        async with house.life() as life:
            house.model.faults = AWAY
            await life.world.tell("Oda, is the mill open?")
            await gone(life)
            await life.until(lambda: life.world.said)
            await life.world.tell("Oda? Oda!")
            await life.world.tell("Oda, and I?", speaker=person(2, "Ann"))
            await life.until(lambda: len(life.world.said) == 2)
            assert life.world.said == ["I am tired, Bob. Come back later.", "I am tired, Ann. Come back later."]
            house.model.faults = FaultPlan()
            await life.until(lambda: len(life.world.said) == 3)
            await life.until(lambda: life.saw("turn"))
        asked = heard(house)
        assert "you lived on reflexes (the model cannot be reached): by them you told 2 people that you are tired (Bob, Ann)." in asked
        assert asked.count("and I?") >= 1
        log = (house.home / "log.md").read_text(encoding="utf-8")
        assert log.index("Living on reflexes from now on: the model cannot be reached.") < log.index("The mind is back after")
        assert [e.data["level"] for e in await events(house, "reflexes")] == ["all", "none"]
        intents = await events(house, "intent")
        assert [e.data["args"]["text"] for e in intents][:2] == life.world.said[:2]


async def test_hundreds_of_lines_in_an_outage_are_answered_by_few_and_none_is_lost_silently(tmp_path: Path) -> None:
    """C9, W2: 800 lines of 200 people: three of them hear a word, everything is stored, and the mind is told what it could not be."""
    async with oda(tmp_path, reflexes="per_minute = 3") as house:
        async with house.life() as life:
            house.model.faults = AWAY
            await life.world.tell("Oda?")
            await gone(life)
            await asyncio.gather(*(life.world.tell(f"Oda, it is I, number {n}.", speaker=person(n % 200)) for n in range(800)))
            await life.until(lambda: len(life.world.said) == 3)
            house.model.faults = FaultPlan()
            await life.until(lambda: life.saw("turn") and not life.character.news.inbox)
            assert len([text for text in life.world.said if text.startswith("I am tired")]) == 3
        told = await events(house, "observation")
        assert sum("it is I" in str(e.data) for e in told) == 800
        drained = await events(house, "drained")
        assert sum(e.data["delivered"] + e.data["merged"] + e.data["omitted"] for e in drained) >= 800
        assert len(await events(house, "reflex")) == 3


async def test_what_it_says_by_itself_starts_no_turn_and_is_said_once_over_a_restart(tmp_path: Path) -> None:
    """C9, C35, W6: the echo wakes nobody; the next life knows whom the last one told."""
    async with oda(tmp_path, budget="dollars_per_day = 0.0") as house:
        async with house.life() as life:
            await life.world.tell("Oda, hello!")
            await life.until(lambda: life.world.said)
            await life.world.tell(life.world.said[0], to=None, speaker=Speaker(id="Oda", name="Oda", kind="npc"))
        async with house.life() as life:
            await life.world.tell("Oda, hello again!")
            await life.world.tell("Oda, hello!", speaker=person(2, "Ann"))
            await life.until(lambda: life.world.said)
            assert life.world.said == ["I am tired, Ann. Come back later."]
        assert not house.requests()


async def test_it_stops_walking_when_nobody_is_at_home(tmp_path: Path) -> None:
    """C9: stay; the walk is stopped by the same hands, and the mind is told."""

    async def accepted(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        return ActResult(id=id, state=ActState.ACCEPTED) if name == "walk" else None

    def walks(reading: Reading) -> Reply | None:
        return use("walk", "mill") if "walk" in reading.news and not reading.round else None

    async with oda(tmp_path) as house:
        house.brain.script = walks
        async with house.life(accepted) as life:
            await life.world.tell("Oda, walk to the mill")
            await life.until(lambda: life.saw("yield"))
            house.model.faults = AWAY
            await life.world.tell("Oda, wait!")
            await life.until(lambda: life.world.cancels)
            house.model.faults = FaultPlan()
            await life.until(lambda: "lived on reflexes" in heard(house))
        assert "stopped where you were" in heard(house)


async def test_it_flees_by_the_action_that_its_persona_names_and_by_its_gates(tmp_path: Path) -> None:
    """C9, T4, C27: a reflex goes through the same checks as any act: what is guarded is not done by it either."""
    for guarded in (False, True):
        guard = '\n[gates]\nbrave = { set_by = "operator" }\n[[guards]]\naction = "flee"\ngate = "brave"' if guarded else ""
        reflexes = f'flee = "flee"\nflee_with = {{ to = "the gate" }}{guard}'
        async with oda(tmp_path / str(guarded), budget="dollars_per_day = 0.0", reflexes=reflexes) as house:
            assert await _fled(house) == ([] if guarded else [{"to": "the gate"}])


async def _fled(house: Oda) -> list[Any]:
    """The arguments with which a wolf made her flee."""
    async with house.life(actions=(SAY, WALK, FLEE)) as life:
        await life.world.tell("Oda?")
        await life.until(lambda: life.world.said)
        await life.world.tell("The wolf hurts you: 3 of 40 left.", kind="hurt", speaker=Speaker(id="m1", name="wolf", kind="world"))
        await life.until(lambda: any(data["kind"] == "flee" for data in life.saw("reflex")))
        return [args for (_, name, _), args in zip(life.world.acts, life.world.arguments, strict=True) if name == "flee"]


async def test_switched_off_it_does_nothing_by_itself(tmp_path: Path) -> None:
    """C9: an operator may want a body that is silent without its mind."""
    async with oda(tmp_path, budget="dollars_per_day = 0.0", reflexes="on = false") as house:
        async with house.life() as life:
            await life.world.tell("Oda, hello!")
            await life.until(lambda: life.character.instinct.level == "all")
            await life.character.agent.quiet()
            assert life.world.acts == []
        assert not house.requests()
