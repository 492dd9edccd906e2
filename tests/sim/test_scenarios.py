"""Scenarios: small files, put together, seeded; and recordings of real servers as scenarios (S1, S5)."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim.cli import app
from sim.floods import Kind, Turn
from sim.scenarios import Played, ScenarioError, load, names
from sim.scenarios.recording import MOST_OF_A_TURN, read
from sim.scenarios.stage import PacedRecording, PacedScenario, ScriptStage
from tests.sim.test_stage import attached

SHIPPED = (
    "dense-library", "language-fair", "long-walk", "market-day", "mob-fight", "monster", "quiet-night", "siege", "spammer", "two-npcs",
    "world-rollback",
)  # fmt: skip


def played(name: str, *, seed: int = 7, window: int = 10_000) -> Played:
    return Played(scenarios=load(name), seed=seed, window=window)


def size(turn: Turn) -> int:
    return sum(len(line.text) for line in turn.lines)


@pytest.mark.parametrize("name", names())
def test_a_scenario_is_the_same_whenever_it_is_asked_for(name: str) -> None:
    """S1: pure in (seed, turn), each turn ends with a line for the NPC that stands nowhere else, facts are told and asked for."""
    script, again = played(name), played(name)
    turns = [script.turn(n) for n in range(104)]
    assert [again.turn(n) for n in (99, 3, 77)] == [turns[n] for n in (99, 3, 77)]
    assert sum(played(name, seed=8).turn(n).lines == turns[n].lines for n in range(20)) == 0
    assert all(turn.lines[-1].to_npc and turn.lines[-1].text.endswith(turn.stamp) for turn in turns)
    assert [t.number for t in turns if t.told] == [3, 53, 103]
    assert turns[100].asked is not None
    assert script.result(5, "look", {"target": "well"}) == again.result(5, "look", {"target": "well"})


def test_each_scenario_is_what_its_name_says() -> None:
    """S1: all that were asked for are there, and each is felt by the NPC in its own way."""
    assert set(SHIPPED) <= set(names())
    turns = {name: [played(name).turn(n) for n in range(40)] for name in names()}
    kinds = {name: Counter(turn.kind for turn in told) for name, told in turns.items()}
    assert kinds["mob-fight"][Kind.FIGHT] > 20
    assert kinds["long-walk"][Kind.WALK] > 30
    assert min(size(t) for t in turns["dense-library"]) > 3_000
    assert sum(size(t) > 10_000 * 3.6 for t in turns["monster"]) > 5, "larger than the window, in characters"
    assert max(size(t) for t in turns["quiet-night"]) < 500
    heard = "".join(line.text for t in turns["language-fair"] for line in t.lines)
    assert all(word in heard for word in ("Где", "橋", "السوق", "磨坊", "오늘"))
    spam = Counter(line.player for t in turns["spammer"] for line in t.lines)
    assert spam["xNightFoxx"] > 0.7 * spam.total()
    talkers = Counter(line.speaker for t in turns["two-npcs"] for line in t.lines if line.player)
    assert talkers["npc"] > talkers["player"] > 0
    assert [t.number for t in turns["world-rollback"] if t.undone] == [9, 21, 33]


def test_scenarios_are_told_at_the_same_time_or_one_after_another(tmp_path: Path) -> None:
    """S1: `siege,spammer` holds every line of both, each in its order; a file names others, beside itself too."""
    both = Played(scenarios=load("siege,spammer"), seed=7, window=10_000)
    alone = played("siege")
    bare = [line.text for line in both.unstamped(5).lines]
    order = [line.text for line in alone.unstamped(5).lines]
    assert [text for text in bare if text in set(order)] == order
    assert sum("BUY GOLD" in text or "first!!!1" in text or "Oda Oda" in text or "🎣" in text for text in bare) >= 15
    mine = 'about = "Mine."\n[[phase]]\nturns = 2\ntell = [{ what = "lines", lines = ["A bell for {npc}."] }]\n'
    (tmp_path / "mine.toml").write_text(mine, encoding="utf-8")
    (tmp_path / "day.toml").write_text(
        'about = "A day."\n[[part]]\nscenario = "mine.toml,quiet-night"\nturns = 3\n[[part]]\nscenario = "mob-fight"\nturns = 4\n',
        encoding="utf-8",
    )
    day = Played(scenarios=load(str(tmp_path / "day.toml")), seed=7, window=10_000)
    bells = [any("A bell for Oda." in line.text for line in day.turn(n).lines) for n in range(14)]
    assert bells == [True] * 3 + [False] * 4 + [True] * 3 + [False] * 4
    assert day.turn(5).kind is Kind.FIGHT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("about = 'x'", "has phases or parts"),
        ("about = ", "line 1: this is not TOML"),
        ("about = 'x'\n[[phase]]\nturns = 0", "phase.1.turns"),
        ("about = 'x'\n[[phase]]\nturns = 1\ntell = [{ what = 'dragons' }]", "phase.1.tell.1.what"),
        ("about = 'x'\n[[phase]]\nturns = 1\ntell = [{ what = 'blow', times = [9, 2] }]", "from the least to the most"),
        ("about = 'x'\n[[phase]]\nturns = 1\ntell = [{ what = 'lines' }]", "needs lines"),
        ("about = 'x'\n[[phase]]\nturns = 1\nsurprise = 1", "phase.1.surprise"),
        ("about = 'x'\n[[part]]\nscenario = 'own.toml'\nturns = 1", "leads back to itself"),
        ("about = 'x'\n[[part]]\nscenario = 'nowhere'\nturns = 1", "no scenario is called 'nowhere'"),
        ("a" + ".a" * 50_000 + " = 1", "1,000 full stops"),
        ("about = 'x'\npace_s = " + "[" * 5_000, "nested too deep|not TOML"),
    ],
)
def test_a_file_with_a_mistake_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """S1: operators bring their own: strict, and told where the mistake is, before anything runs."""
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=said) as caught:
        load(str(path))
    assert "\n" not in str(caught.value).split(": ", 1)[0]
    result = CliRunner().invoke(app, ["flood", "--turns", "2", "--scenario", str(path)])
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert CliRunner().invoke(app, ["world", "--scenario", str(path), "--port", "0"]).exit_code == 2


FRAMES: dict[str, list[object]] = {
    "evennia": [
        ["text", ['<span class="c">Carol</span> says, &quot;gold &amp; ale&quot;'], {"type": "say"}], ["logged_in", [], {"options": {}}],
    ],
    "neuro": [
        {"command": "context", "game": "g", "data": {"message": "You are playing.", "silent": True}},
        {"command": "actions/force", "game": "g", "data": {"state": "Your turn", "query": "Play.", "action_names": ["a"]}},
        {"command": "action/result", "game": "g", "data": {"id": "a1", "success": False, "message": "No."}},
    ],
    "minecraft": [
        *({"event": "entityMoved", "args": [{"id": 6, "pos": {"x": n, "y": 0, "z": 0}}]} for n in range(50)),
        {"event": "chat", "args": ["walker_5", "king sword", None]},
        {"seq": 9, "t": 1, "event": "chat", "data": {"from": "npc_one", "text": "Hello."}},
    ],
    "showdown": [">battle-1\n|\n|t:|1795976751\n|move|p2a: Articuno|Freeze-Dry|p1a: Alomomola", "|c:|1795976756| alpha99|spam | 0"],
    "nobody knows": [{"odd": [1, 2]}, 7, None, ["x"], {"_note": "connection 1"}, "x" * 200_000],
}


def record(path: Path, frames: list[object], *, every_s: float = 0.5) -> Path:
    rows = [{"t": 3.0 + n * every_s, "dir": "in", "frame": frame} for n, frame in enumerate(frames)]
    rows.insert(1, {"t": 3.1, "dir": "out", "frame": ["text", ["connect alice PASSWORD"], {}]})
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("format_", FRAMES)
def test_every_format_becomes_what_an_npc_can_hear(tmp_path: Path, format_: str) -> None:
    """S1, W8: words are words, moved entities are state, what is not understood is told as it is; the agent's own secrets are not told."""
    told = [moment.line for moment in read(record(tmp_path / "r.jsonl", FRAMES[format_])).moments]
    texts = [line.text for line in told]
    assert not any("PASSWORD" in text for text in texts)
    match format_:
        case "evennia":
            assert (told[0].kind, told[0].text, told[0].player) == ("speech", 'Carol says, "gold & ale"', "Carol")
        case "neuro":
            assert texts == ["You are playing.", "Your turn\nPlay.", "No."]
        case "minecraft":
            assert len({line.key for line in told if line.key}) == 1
            assert [line.player for line in told if line.kind == "speech"] == ["walker_5", "npc_one"]
        case "showdown":
            assert texts == [">battle-1", "move p2a: Articuno Freeze-Dry p1a: Alomomola", 'alpha99 says: "spam | 0"']
        case _:
            assert texts[0] == '{"odd":[1,2]}'
            assert max(map(len, texts)) <= 40_000


def test_a_recording_is_played_at_one_to_a_hundred_times_its_speed(tmp_path: Path) -> None:
    """S1: a turn holds ten seconds of it, times the speed; nothing is told twice in one round, and at its end it begins anew."""
    frames: list[object] = [f"line {n}" for n in range(400)]
    path = record(tmp_path / "r.jsonl", frames, every_s=0.1)
    for speed in (1.0, 2.0):
        once = [line.text.rpartition(" ")[0] for n in range(int(4 / speed)) for line in read(path, speed=speed).turn(n).lines[:-1]]
        assert once == [f"line {n}" for n in range(400)]
    fast = read(path, speed=100.0).turn(3)
    assert len(fast.lines) == MOST_OF_A_TURN + 1, "a thousand seconds would be more than twenty rounds"
    assert read(path, speed=100.0).turn(3) == fast
    for speed in (0.0, 101.0, float("nan")):
        with pytest.raises(ScenarioError, match=r"0\.1 to 100 times"):
            read(path, speed=speed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds nothing"),
        ("{", "line 1: expected"),
        ('{"t": 1}', "line 1: expected"),
        ('{"t": 1, "dir": "in", "frame": "a"}\n[]', "line 2: expected"),
        ('{"t": -1, "dir": "in", "frame": "a"}', "no time"),
        ('{"t": NaN, "dir": "in", "frame": "a"}', "no time"),
    ],
)
def test_a_torn_recording_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """S1: with the line that is wrong."""
    path = tmp_path / "torn.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match=said):
        read(path)


@pytest.mark.skipif("NPC_STREAMS" not in os.environ, reason="NPC_STREAMS names no folder with recordings")
def test_recordings_of_real_servers_are_played() -> None:
    """S1: every one in the folder, at 1x and at 100x."""
    paths = sorted(Path(os.environ["NPC_STREAMS"]).glob("*.jsonl"))
    assert paths
    for path in paths:
        whole = read(path)
        assert len(whole.moments) > 10
        for speed in (1.0, 100.0):
            turns = [read(path, speed=speed).turn(n) for n in range(3)]
            assert all(1 < len(turn.lines) <= MOST_OF_A_TURN + 1 for turn in turns[:1])
            assert all(turn.lines[-1].to_npc for turn in turns)


async def test_a_world_plays_a_scenario_in_real_time() -> None:
    """S1: an NPC that attaches hears it from its beginning and at its pace; its actions are answered by the scenario."""
    script = Played(scenarios=load("siege"), seed=7, window=10_000)
    async with ScriptStage("siege", lambda npc: PacedScenario(replace(script, npc=npc), speed=50.0)) as stage:
        async with attached(stage.url) as (world, ear):
            told = [line.text for n in range(2) for line in script.unstamped(n).lines]
            await ear.until_heard(len(told))
            assert [one.text for one in ear.heard[: len(told)]] == told, "without the numbers that only an oracle needs"
            looked = await world.act(id="1", name="look", args={"target": "the wall"}, timeout_s=15.0)
            assert looked.text in {script.result(n, "look", {"target": "the wall"}).text for n in range(200)}
            count = len(ear.heard)
        async with attached(stage.url) as (_, again):
            await again.until_heard(3)
            assert again.heard[0].seq >= count, "it goes on where it was"


async def test_a_world_plays_a_recording_in_real_time(tmp_path: Path) -> None:
    """S1: at its speed, its own people only, again and again."""
    recording = read(record(tmp_path / "r.jsonl", FRAMES["evennia"], every_s=1.0), speed=20.0)
    async with ScriptStage("played", lambda npc: PacedRecording(replace(recording, npc=npc))) as stage, attached(stage.url) as (_, ear):
        begin = asyncio.get_running_loop().time()
        await ear.until_heard(6)
        assert asyncio.get_running_loop().time() - begin > 0.1, "two rounds of two seconds, twenty times as fast"
        assert [one.text for one in ear.heard[:4]] == ['Carol says, "gold & ale"', "logged in"] * 2
        assert (ear.heard[0].speaker and ear.heard[0].speaker.name, ear.heard[0].to) == ("Carol", None)
