"""What was in a request can be seen, word for word, with where it came from, what was left out, and why."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from npc.cli import app
from npc.errors import Usage
from npc.requests import sent
from runtime.store.journal import Journal
from sim.messages_api import Reply
from tests.npc.flooded import RULE, WINDOW, events, received
from tests.npc.small_world import Oda, oda, words


def run(house: Oda, *arguments: str, width: int = 130) -> Result:
    environment = {"COLUMNS": str(width), "TERM": "dumb"}
    return CliRunner(env=environment).invoke(app, ["log", "--home", str(house.home), *arguments], catch_exceptions=True)


async def test_every_request_is_read_back_as_it_was_sent(house: Oda) -> None:
    """T9, C31: the log gives back every request of a life with all rungs in it, byte for byte as the endpoint received it."""
    numbers = [event.id for event in await events(house.home, "request")]
    bodies = received(house)
    assert len(numbers) == len(bodies) > 120
    async with await Journal.open(house.home / "session.db", read_only=True) as journal:
        for number, body in zip(numbers, bodies, strict=True):
            request = await sent(journal, number)
            assert request.exact
            assert not request.lacking
            assert json.dumps(request.body, sort_keys=True) == json.dumps(body, sort_keys=True), number
    rungs = {event.data["rung"] for event in await events(house.home, "rung") if not event.data["failed"]}
    assert {"evict_tool_outputs", "compact", "trim", "hard_reset"} <= rungs, "the life was not hard enough to prove anything"


async def test_the_log_keeps_differences_not_copies(house: Oda) -> None:
    """T9: what a request was made of takes a small part of what it holds, also in a window that is always full."""
    requests = await events(house.home, "request")
    written = sum(len(json.dumps(event.data, ensure_ascii=False)) for event in requests)
    held = sum(len(json.dumps(body["messages"], ensure_ascii=False)) for body in received(house))
    assert written < held / 4  # the window is always full here: nearly every request begins its history anew
    assert len(await events(house.home, "fixed")) == 2, "once for each process"


def test_a_person_sees_parts_sources_sizes_and_the_verdict(house: Oda) -> None:
    """T9: in rendered order, with tokens and their share; the fixed part comes first."""
    result = run(house, "--context", "last")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert f"of the window's {WINDOW:,}" in lines[0]
    order = [line.split("  ")[0].strip() for line in lines[2:6]]
    assert order[:3] == ["tools", "world rules", "persona and constitution"]
    assert "Every fixed field is in it, word for word. What is shown is what was sent." in result.stdout
    assert max(map(len, lines[:-4])) <= 130


def test_the_same_step_by_its_number_by_turn_and_as_json(house: Oda) -> None:
    """T9, T10: a step is found by event, by turn and step; each part of the history names its event."""
    found = json.loads(run(house, "--context", "12.1", "--json").stdout)
    assert (found["turn"], found["step"], found["exact"]) == (12, 1, True)
    again = json.loads(run(house, "--context", str(found["event"]), "--json").stdout)
    assert again == found
    assert all(p["event"] for p in found["parts"] if p["part"] in ("observation", "said", "tool_use", "tool_result"))
    assert found["tokens"] <= found["window"]


def test_full_prints_every_text(house: Oda) -> None:
    """T9: with --full the rule, the tools and the news can be read as they were sent."""
    result = run(house, "--context", "12.1", "--full")
    assert f"1. {RULE}\n2. Be kind." in result.stdout
    assert '"name": "npc_recall"' in result.stdout
    assert "how goes it, 11" in result.stdout


def test_a_terminal_is_not_obeyed_from_within_a_request(house: Oda) -> None:
    """T9: what a model or a player wrote cannot move the cursor of whoever reads it; --json has it as it was."""
    for arguments in (("--full",), ()):
        shown = run(house, "--context", "2.2", *arguments).stdout
        assert "\x1b" not in shown
    assert "\\x1b[2J" in run(house, "--context", "2.2", "--full").stdout
    assert any("\x1b[2J" in part["text"] for part in json.loads(run(house, "--context", "2.2", "--json").stdout)["parts"])


def test_what_was_left_out_is_said_with_the_reason(house: Oda) -> None:
    """T9, P15: rungs, resets and cuts stand below the request that they changed, each with its event and sizes."""
    lines = asyncio.run(events(house.home, "rung", "left out", "request"))
    requests = [event.id for event in lines if event.kind == "request"]
    reset = next(event for event in lines if event.data.get("rung") == "hard_reset")
    shown = run(house, "--context", str(next(n for n in requests if n > reset.id))).stdout
    assert f"event {reset.id}: hard reset: session persisted" in shown
    cut = next(event for event in lines if event.kind == "left out")
    after = next(n for n in requests if n > cut.id)
    shown = " ".join(run(house, "--context", str(after), width=400).stdout.split())
    assert f"event {cut.id}: " in shown
    assert "the turn's opening has room for" in shown


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("soon", "is no step: give the number of a request's event, TURN.STEP such as 12.1, or last"),
        ("1", "and no request: npc log --kind request lists them"),
        ("99999999999999999999", "is not there"),
        ("4000.1", "there is no request 4000.1"),
        ("3.", "is no step"),
    ],
)
def test_a_step_that_is_none_is_one_sentence(house: Oda, step: str, why: str) -> None:
    """T9: a wrong step ends in one sentence with the way out, exit code 2."""
    error = run(house, "--context", step).exception
    assert isinstance(error, Usage)
    assert why in str(error)


async def test_a_constitution_that_grows_too_large_stops_the_calls_until_it_is_mended(tmp_path: Path) -> None:
    """T9, P8: no request without the rules: there is an alarm that names what is too large, no call, and life goes on when it is mended."""
    async with oda(tmp_path) as house, house.life() as life:
        path = house.home / "constitution.md"
        await life.world.tell("Oda, good morning")
        await life.until(lambda: life.saw("turn"))
        small, calls = path.read_text(encoding="utf-8"), len(house.model.records)
        path.write_text("1. Be kind to everyone at the mill, and say so in so many words.\n" * 1_200, encoding="utf-8")
        await life.world.tell("Oda, are you there?")
        await life.until(lambda: any("no call is made until" in str(data.get("text")) for data in life.saw("alarm")))
        alarm = str(life.saw("alarm")[-1]["text"])
        assert "persona and constitution" in alarm
        assert not [r for r in list(house.model.records)[calls:] if r.body.get("tools")]
        path.write_text(small, encoding="utf-8")
        await life.until(lambda: len(life.saw("turn")) > 1)
        assert all(small.strip() in str(r.body["system"][-1]["text"]) for r in house.model.records if r.body.get("tools"))


async def looked_up(tmp_path: Path, name: str, arguments: dict[str, Any]) -> str:
    async with oda(tmp_path) as house:
        call = Reply(content=[{"type": "tool_use", "name": name, "input": arguments}])
        house.brain.script = lambda reading: words("(done)") if reading.round else call
        async with house.life() as life:
            await life.world.tell("Oda, do you know?")
            await life.until(lambda: life.saw("turn"))
        (result,) = await events(house.home, "tool_result")
        return str(result.data["text"])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("npc_recall", {"words": "zeppelin"}),
        ("npc_recall", {"event": 999_999}),
        ("npc_recall", {}),
        ("npc_read_diary", {"words": "zeppelin"}),
        ("npc_read_diary", {}),
    ],
)
async def test_no_evidence_is_said_as_such(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    """T10: every tool that retrieves says INSUFFICIENT_EVIDENCE where it has none."""
    assert (await looked_up(tmp_path, name, arguments)).startswith("INSUFFICIENT_EVIDENCE")


async def test_what_is_retrieved_names_its_event_and_time(house: Oda) -> None:
    """T10: what was recalled by words comes with the event that it was heard in, and when."""
    results = [str(e.data["text"]) for e in await events(house.home, "tool_result") if "Halvard Moss" in str(e.data["text"])]
    line = next(line for line in results[0].splitlines() if "Halvard Moss" in line)
    number = int(line.partition("[event ")[2].partition(",")[0])
    (told,) = [e for e in await events(house.home, "observation") if e.id == number]
    assert "Halvard Moss" in told.data["text"]
    assert time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(told.at)) in line
