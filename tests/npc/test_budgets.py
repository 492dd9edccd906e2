"""What a character may spend, from its persona to what its model, operator and people see. Rows: C9, C15, C33, C36, P12, P15."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from npc.cli import app
from npc.errors import Misconfigured
from npc.living import settings_of
from npc.persona import parse_persona
from runtime.core.spending import HOUR_S, Account
from runtime.core.spent import Spent
from runtime.model.profiles import profile
from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.messages_api import FaultPlan, Late, Rule
from tests.core.examples import examples
from tests.npc.hours import Hours
from tests.npc.small_world import Life, Oda, oda, use

WHO = '[character]\nname = "Oda"\ndescription = "You keep the mill."\n'
FEW = "steps_per_hour = 10\nsoft_share = 0.4\nreserve_share = 0.4\nslow_s = 1.0"


def a_clock() -> Hours:
    """A clock that stands five minutes behind an hour, so that no test sees one end by chance."""
    hours = Hours()
    hours.go(HOUR_S - hours.clock() % HOUR_S + 300)
    return hours


def sent(house: Oda) -> list[dict[str, Any]]:
    """The mind's requests that were answered."""
    return [dict(r.body) for r in house.model.records if r.outcome == "answered" and r.body.get("tools")]


def meter(body: dict[str, Any]) -> str:
    """What a request says of the budget."""
    (line,) = re.findall(r"\[budget\][^\n\"\\]*", json.dumps(body["messages"][-2:], ensure_ascii=False))[-1:]
    return str(line)


async def events(house: Oda, *kinds: str) -> list[Event]:
    async with await Journal.open(house.home / "session.db", read_only=True) as journal:
        return await journal.events(kinds=kinds, limit=10_000)


async def spoken_to(life: Life, text: str = "Oda, hello!") -> None:
    """A line for her, and the turn that comes of it."""
    turns = len(life.saw("turn"))
    await life.world.tell(text)
    await life.until(lambda: len(life.saw("turn")) > turns)


# ------------------------------------------------------------ the file
@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("dollars_per_hour = 2.0", "dollars_per_hour (2) must not be more than dollars_per_day (1)"),
        ("dollars_per_turn = 0.5\ndollars_per_hour = 0.4", "dollars_per_turn (0.5) must not be more than dollars_per_hour (0.4)"),
        ("steps_per_turn = 20\nsteps_per_hour = 10", "steps_per_turn (20) must not be more than steps_per_hour (10)"),
        ("steps_per_hour = 50\nsteps_per_day = 40", "steps_per_hour (50) must not be more than steps_per_day (40)"),
        ("steps_per_hour = 50\ncalls_per_hour = 40", "steps_per_hour (50) must not be more than calls_per_hour (40)"),
        ("seconds_per_step = 200.0", "seconds_per_step (200) must not be more than seconds_per_turn (120)"),
        ("soft_share = 0.98", "soft_share (0.98) must leave room below the reserve: less than 0.95"),
        ("dollars_per_week = 1.0", "dollars_per_week"),
        ("steps_per_hour = 2.5", "steps_per_hour must be a whole number"),
        ("dollars_per_hour = 0.0", "dollars_per_hour must be"),
    ],
)
def test_limits_that_do_not_go_together_are_one_sentence_with_the_way_out(keys: str, complaint: str) -> None:
    """C9: named with both figures, before anything is spent."""
    with pytest.raises(Misconfigured) as told:
        parse_persona(f"{WHO}[budget]\n{keys}\n", where="oda.toml")
    assert complaint in str(told.value)
    assert "\n" not in str(told.value)


def test_what_a_step_may_cost_becomes_tokens_of_its_model() -> None:
    """C9: by the price of each model; a price that nobody knows, or one that pays for nothing, is said at the start."""
    who = parse_persona(f'{WHO}[budget]\ndollars_per_step = 0.0001\nsaving_model = "claude-haiku-4-5"\n')
    with pytest.raises(Misconfigured, match="write at least"):
        settings_of(who, profile(who.model.id))
    who = parse_persona(f'{WHO}[budget]\ndollars_per_step = 0.0005\nsaving_model = "claude-haiku-4-5"\n')
    settings = settings_of(who, profile(who.model.id))
    assert settings.limits.output_per_step == 1_000  # half a dollar for a million
    assert settings.cheaper
    assert settings.cheaper.output_per_step == 100  # five dollars for a million
    who = parse_persona(f'{WHO}[model]\nid = "local"\n[budget]\ndollars_per_step = 0.01\n')
    with pytest.raises(Misconfigured, match="no price is known for local"):
        settings_of(who, profile(who.model.id))


def test_a_saving_model_with_a_smaller_window_is_said_at_the_start() -> None:
    """C9, P8: the history of the one must fit the other."""
    who = parse_persona(f'{WHO}[model]\nwindow = 400000\n[budget]\nsaving_model = "claude-haiku-4-5"\n')
    with pytest.raises(Misconfigured, match="200,000 tokens and window is 400,000"):
        settings_of(who, profile(who.model.id))


# ------------------------------------------------------------ a whole life
async def test_from_free_over_saving_to_reflexes_and_back_with_the_next_hour(tmp_path: Path) -> None:
    """C9, C15, C36, P15: the model reads how little is left, who speaks to it is heard, the operator is told once."""
    async with oda(tmp_path, budget=FEW) as house:
        house.hours = a_clock()
        async with house.life() as life:
            session = life.character.agent.session
            await spoken_to(life)
            await spoken_to(life)
            assert str(session.stage) == "saving"
            await spoken_to(life)
            full, half = sent(house)[0]["max_tokens"], sent(house)[4]["max_tokens"]
            assert half == full // 2
            assert meter(sent(house)[0]).count(";") == 2, "with money enough the meter is as short as ever"
            assert "little left: be brief" in meter(sent(house)[4])
            assert str(session.stage) == "reflexes"
            await life.world.tell("A cart rolls by.", to=None, kind="notice", speaker=None)
            for n in range(4):
                await spoken_to(life, f"Oda, once more {n}!")  # one call each, a second apart
            assert "one short answer" in meter(sent(house)[-1])
            assert len(sent(house)) == 10
            await life.world.tell("Oda?")
            await life.until(lambda: "I am tired, Bob. Come back later." in life.world.said)
            await life.character.agent.quiet()
            assert len(sent(house)) == 10
            status = await asyncio.to_thread(CliRunner().invoke, app, ["status", "--home", str(house.home)])
            assert "reflexes: steps of the hour (6 of 10)" in " ".join(status.output.split())
            house.hours.go(HOUR_S)
            await spoken_to(life, "Oda, good morning!")
            assert str(session.stage) == "free"
        stages = [e.data["stage"] for e in await events(house, "stage")]
        assert stages == ["saving", "reflexes", "free"]
        assert len([e for e in await events(house, "alarm") if "nearly all is spent" in e.data["text"]]) == 1
        heard = json.dumps(sent(house)[-2]["messages"])
        assert "told 1 person that you are tired (Bob)" in heard
        assert "Oda?" in heard


async def test_what_was_spent_is_known_to_the_next_life_whatever_was_stored_of_the_last(tmp_path: Path) -> None:
    """C9, C35: hour and day, steps and money; also where the session itself is lost."""
    async with oda(tmp_path, budget=FEW) as house:
        house.hours = a_clock()
        async with house.life() as life:
            for _ in range(3):
                await spoken_to(life)
            spent = life.character.agent.session.account.hour(house.hours.clock())
        assert spent.steps == 6
        for lost in (False, True):
            if lost:
                async with await Journal.open(house.home / "session.db") as journal:
                    journal.checkpoint("session", "{}")
            async with house.life() as life:
                await life.world.tell("A cart rolls by.", to=None, kind="notice", speaker=None)
                await life.character.agent.quiet()
                session = life.character.agent.session
                now = house.hours.clock()
                # What a lost session had heard is told again, and answered from the reserve.
                steps = len(sent(house))
                assert session.account.hour(now).steps == session.account.day(now).steps == steps
                assert session.dollars == pytest.approx(sum(r.dollars for r in house.model.records))
                assert str(session.stage) == "reflexes"
                assert steps == 6 + lost


async def test_the_store_tells_an_hour_from_a_day_and_old_files_are_taken_along(tmp_path: Path) -> None:
    """C35: what was counted by day before hours were counted still counts for its day."""
    path, hour = tmp_path / "j.db", int(time.time() // HOUR_S)
    async with await Journal.open(path) as journal:
        journal.spend(day="2026-11-29", dollars=0.5, hour=hour - 3, steps=1)
        journal.spend(day="2026-11-29", dollars=0.25, hour=hour, steps=1)
        journal.spend(day="2026-11-29", dollars=0.25, hour=hour)
    async with await Journal.open(path) as journal:
        assert journal.hours(since=hour) == {hour: (1, 2, 0.5)}
        assert sum(spent.dollars for spent in journal.hours(since=0).values()) == await journal.spent("2026-11-29")
        await journal._database.write([("DROP TABLE spend_hours", [()]), ("PRAGMA user_version = 3", [()])])
    async with await Journal.open(path) as journal:
        assert [tuple(spent) for spent in journal.hours(since=0).values()] == [(3, 3, 1.0)]


async def test_a_cheaper_model_lives_on_with_the_same_history_and_gives_it_back(tmp_path: Path) -> None:
    """C9, C33, P13: where one takes the tail as a system message and the other does not, a strict endpoint takes every request of both."""
    async with oda(tmp_path, budget=f'{FEW}\nsaving_model = "claude-haiku-4-5"') as house:
        house.hours = a_clock()
        async with house.life() as life:
            for n in range(3):
                await spoken_to(life, f"Oda, line {n}")
            house.hours.go(HOUR_S)
            await spoken_to(life, "Oda, line 3")
        models = [body["model"] for body in sent(house)]
        assert models == ["claude-haiku-5-5"] * 4 + ["claude-haiku-4-5"] * 2 + ["claude-haiku-5-5"] * 2
        assert not [r for r in house.model.records if r.outcome != "answered"]
        for n in range(4):
            assert f"line {n}" in json.dumps(sent(house)[-1]["messages"])
        shapes = [e.data["shape"]["model"] for e in await events(house, "fixed")]
        assert shapes == ["claude-haiku-5-5", "claude-haiku-4-5", "claude-haiku-5-5"]


async def test_a_turn_that_would_go_on_for_ever_is_ended_by_its_money(tmp_path: Path) -> None:
    """C9, P13: in order; the next line is answered, by a request that a strict endpoint takes."""
    async with oda(tmp_path, budget="steps_per_turn = 50\ndollars_per_turn = 0.0004") as house:
        house.brain.script = lambda reading: use("say", f"Word {reading.round}.") if "for ever" in reading.news else None
        async with house.life() as life:
            await spoken_to(life, "Oda, talk for ever")
            (turn,) = life.saw("turn")
            assert turn["ended"] == "out of money for one turn"
            assert 1 <= len(sent(house)) < 40
            assert "of $0.0004 this turn" in meter(sent(house)[-1])
            await spoken_to(life, "Oda, good night")
            assert life.saw("turn")[-1]["ended"] == "done"
        assert not [r for r in house.model.records if r.outcome != "answered"]


async def test_a_step_that_takes_too_long_does_not_hold_the_npc(tmp_path: Path) -> None:
    """C9: the answer that is not waited for is tried again, and paid when it comes."""
    async with oda(tmp_path, budget="seconds_per_step = 1.0") as house:
        house.model.faults = FaultPlan([Rule(fault=Late(seconds=2.0), on=(1,))])
        async with house.life() as life:
            await spoken_to(life)
            assert life.saw("waiting")
            assert life.world.said == ["I hear you."]
            await life.until(lambda: len(sent(house)) == 3)
            await life.character.agent.quiet()
            assert life.character.agent.session.dollars == pytest.approx(sum(r.dollars for r in house.model.records))


calls = st.tuples(st.integers(0, 30), st.integers(0, 1), st.sampled_from([0.0, 0.25, 1.0]), st.booleans())


@examples(12)
@given(st.lists(calls, max_size=25))
def test_the_store_counts_each_call_once_over_any_restart(made: list[tuple[int, int, float, bool]]) -> None:
    """C9, C35: by hour, whenever it was closed and opened again in between, and as the session's own account has it."""

    async def count(path: Path) -> None:
        account, journal = Account(), await Journal.open(path)
        try:
            for hour, steps, dollars, again in made:
                now = (480_000 + hour) * HOUR_S
                journal.spend(day=time.strftime("%Y-%m-%d", time.gmtime(now)), dollars=dollars, hour=480_000 + hour, steps=steps)
                account = account.paid(now, Spent(steps, 1, dollars))
                if again:
                    await journal.close()
                    journal = await Journal.open(path)
            assert Account().known({n: Spent(*s) for n, s in journal.hours(since=480_000).items()}).hours == account.hours
        finally:
            await journal.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(count(Path(folder) / "j.db"))
