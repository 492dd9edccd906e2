"""An old life can be led once more by today's code, and what is wrong in any of its requests is found."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from npc.cli import app
from npc.errors import Misconfigured
from npc.home import Home
from npc.persona import load_persona
from npc.replay import Report, replay
from runtime.core import effects as fx
from runtime.core.session import Session
from runtime.store.journal import Journal
from sim.messages_api import OVERLOADED, FaultPlan, Rule
from tests.npc.flooded import RULE, WINDOW, acting, events, mind, turns
from tests.npc.small_world import COUNT, Oda, oda


@pytest.fixture
def copied(house: Oda, tmp_path: Path) -> Path:
    """Oda's home, to be doctored."""
    shutil.copytree(house.home, tmp_path / "home")
    return tmp_path / "home"


def npc_replay(home: Path, *arguments: str) -> tuple[int, Mapping[str, Any]]:
    """Exit code and report."""
    result = CliRunner().invoke(app, ["replay", "--home", str(home), "--json", *arguments])
    return result.exit_code, json.loads(result.stdout)


async def replayed(home: Path, make: type[Session]) -> Report:
    """With another core."""
    async with await Journal.open(home / "session.db", read_only=True) as journal:
        return await replay(journal, load_persona(home / "persona.toml"), COUNT, make=make, dumps=home / "sessions")


def doctor(home: Path, kind: str, change: Callable[[dict[str, Any]], None], *, first: bool = False) -> int:
    """Change the data of events of a kind; the number of the first."""
    database = sqlite3.connect(home / "session.db")
    rows = database.execute("SELECT id, data FROM events WHERE kind = ? ORDER BY id", (kind,)).fetchall()
    for number, text in rows[: 1 if first else None]:
        data = json.loads(text)
        change(data)
        database.execute("UPDATE events SET data = ? WHERE id = ?", (json.dumps(data), number))
    database.commit()
    database.close()
    return int(rows[0][0])


def test_a_hard_life_of_two_processes_is_led_again_byte_for_byte(house: Oda) -> None:
    """T15: every request of a life with all rungs, resets and a restart is judged, made anew, and is the same as then."""
    code, report = npc_replay(house.home)
    requests = len(asyncio.run(events(house.home, "request")))
    assert code == 0
    assert (report["requests"], report["checked"], report["replayed"], report["identical"]) == (requests,) * 4
    assert (report["bent"], report["skipped"], report["failed"]) == (0, {}, 0)
    assert report["dumps"] == len(list((house.home / "sessions").iterdir())) > 0


async def test_a_model_that_takes_the_tail_in_the_opening(tmp_path: Path) -> None:
    """T15, C31: the same where rules and gates travel in the turn's opening, with outages and a walk in it."""
    async with oda(tmp_path) as house:
        house.persona = house.persona.adjusted(model="claude-haiku-4-5", window=WINDOW)
        house.brain.script = mind
        async with house.life(acting) as life:
            await turns(life, 5, 9)
            house.model.faults = FaultPlan([Rule(fault=OVERLOADED, times=3)])
            await turns(life, 9, 11)
    async with await Journal.open(house.home / "session.db", read_only=True) as journal:
        report = await replay(journal, house.persona, COUNT)
    assert report.held
    assert (report.bent, report.identical) == (0, report.requests)


def test_what_a_person_reads(house: Oda) -> None:
    """T15: figures in sentences, and the verdict."""
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["replay", "--home", str(house.home)])
    assert "every fixed field in 100.0% of them." in result.stdout
    assert result.stdout.rstrip().endswith("All of it held.")


def test_only_requests_from_an_event_on_are_judged(house: Oda) -> None:
    """T15: --from leads the whole life and judges the rest of it."""
    numbers = [event.id for event in asyncio.run(events(house.home, "request"))]
    code, report = npc_replay(house.home, "--from", str(numbers[-10]))
    assert (code, report["requests"], report["checked"], report["identical"]) == (0, 10, 10, 10)


def without_rule(data: dict[str, Any]) -> None:
    """As a request looks whose constitution was dropped."""
    data["system"] = [[name, text.replace(RULE, "")] for name, text in data["system"]]


def nothing_said(data: dict[str, Any]) -> None:
    """As a version writes it down that does not even know that there is a constitution."""
    without_rule(data)
    data["must"] = [pair for pair in data["must"] if pair[0] != "constitution"]


@pytest.mark.parametrize("change", [without_rule, nothing_said])
def test_a_home_in_which_the_constitution_was_dropped_is_reported(copied: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """T15, T9: requests that were sent without the constitution are found, with the event of the first one."""
    fixed = doctor(copied, "fixed", change)
    code, report = npc_replay(copied)
    first = report["failings"][0]
    number = next(event.id for event in asyncio.run(events(copied, "request")) if event.id > fixed)
    assert (code, report["held"], first["event"], first["which"]) == (1, False, number, "sent")
    assert "constitution" in first["what"]
    assert report["failed"] >= report["requests"]


def test_a_missing_gate_or_rule_in_the_tail_is_reported(copied: Path) -> None:
    """T15, T2: what must stand in the tail is looked for in every request."""
    doctor(copied, "standing", lambda data: data["texts"].append(["gates", "[gates] seal_shown=False"]))
    code, report = npc_replay(copied)
    assert code == 1
    assert report["failings"][0]["what"] == "missing: gates"


class Forgetful(Session):
    """A core that drops the last system text when it is in a hurry."""

    def effects(self) -> list[fx.Effect]:
        """Without the constitution at the second step of a turn."""
        return [
            replace(e, body={**e.body, "system": e.body["system"][:-1]}) if isinstance(e, fx.CallModel) and e.step == 1 else e
            for e in super().effects()
        ]


class Careless(Session):
    """A core that loses the results of tools."""

    def effects(self) -> list[fx.Effect]:
        """Results are dropped from each request."""
        return [replace(e, body={**e.body, "messages": self._without(e)}) if isinstance(e, fx.CallModel) else e for e in super().effects()]

    def _without(self, call: fx.CallModel) -> list[Any]:
        kept = [{**row, "content": [b for b in row["content"] if b["type"] != "tool_result"]} for row in call.body["messages"]]
        return [row for row in kept if row["content"]]


async def test_a_core_that_drops_the_constitution_is_reported(house: Oda) -> None:
    """T15: the old life proves today's code: a builder that forgets the constitution now and then is found out."""
    report = await replayed(house.home, Forgetful)
    assert not report.held
    assert report.failings[0].which == "replayed"
    assert "constitution" in report.failings[0].what
    steps = [event for event in await events(house.home, "request") if event.data["step"] == 1]
    assert report.failed == len(steps)


async def test_a_core_that_makes_invalid_requests_is_reported(house: Oda) -> None:
    """T15, P6: what the provider would refuse is found as well."""
    report = await replayed(house.home, Careless)
    assert not report.held
    assert any("do not answer the tool uses" in failing.what for failing in report.failings)


def test_requests_of_an_older_version_are_counted_not_guessed(copied: Path) -> None:
    """T15: a log that does not say what its requests were made of proves nothing, and the report says so."""

    def older(data: dict[str, Any]) -> None:
        for name in ("blocks", "tail", "given", "sum"):
            data.pop(name, None)

    doctor(copied, "request", older)
    shutil.rmtree(copied / "sessions")
    code, report = npc_replay(copied)
    assert (code, report["checked"], report["replayed"], report["older"]) == (1, 0, 0, report["requests"])
    assert "older version" in next(iter(report["skipped"]))


def test_lost_events_are_counted_and_the_rest_is_led_on(copied: Path) -> None:
    """T15: a log with holes is replayed around them, and what is left out is named."""
    database = sqlite3.connect(copied / "session.db")
    numbers = [row[0] for row in database.execute("SELECT id FROM events WHERE kind = 'request' ORDER BY id")]
    database.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", (numbers[40], numbers[50]))
    database.commit()
    database.close()
    code, report = npc_replay(copied)
    assert code == 0
    assert report["replayed"] < report["requests"]
    assert any("has lost event" in why for why in report["skipped"])


def test_a_home_without_a_life(tmp_path: Path) -> None:
    """T15: one sentence."""
    Home(tmp_path / "home").open()
    result = CliRunner().invoke(app, ["replay", "--home", str(tmp_path / "home")])
    assert isinstance(result.exception, Misconfigured)
    assert "has never lived" in str(result.exception)
