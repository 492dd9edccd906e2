"""`npc diary`: what a person reads in the terminal, and what a program reads with --json (D2)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from diaries import CONTEXT_RESET, Book, Entry
from npc.cli.diary import app
from npc.errors import NpcError, Usage
from npc.home import Home
from tests.diaries.sample import write_many, write_village

NOON = 1_900_000_000.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "oda"
    Home(path).open()
    return path


def wrote(home: Path) -> None:
    book = Book(home / "diary")
    words = "I let go of it all.\n\nIt was [bold]dark[/bold]."
    book.append(Entry(at=NOON, text=words, author="runtime", tags=(CONTEXT_RESET,), events=(3, 9)))
    book.append(Entry(at=NOON + 86_400, text="The mill turned again.", place="the Mill", world_time="day 13", tags=("day-end",)))


def run(*arguments: str, width: int = 120) -> Result:
    return CliRunner(env={"COLUMNS": str(width), "TERM": "dumb"}).invoke(app, arguments)


def test_list_shows_the_entries_and_how_to_read_one(home: Path) -> None:
    wrote(home)
    result = run("list", "--home", str(home))
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    assert "20300317-1" in lines[2]
    assert CONTEXT_RESET in lines[2]
    assert "I let go of it all. It was [bold]dark[/bold]." in lines[2]
    assert "the Mill · day 13" in lines[3]
    assert lines[4] == f"Read one with: npc diary show 20300318-1 --home {home}"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_list_fits_the_terminal(home: Path, width: int) -> None:
    Book(home / "diary").append(Entry(at=NOON, text="words " * 200, place="a place " * 20, tags=("long-" * 20, "b", "c")))
    table = run("list", "--home", str(home), width=width).stdout.split("Read one with")[0]
    assert max(len(line) for line in table.splitlines()) <= width
    assert len([line for line in table.splitlines() if line.strip()]) == 3


def test_list_filters_and_speaks_json(home: Path) -> None:
    wrote(home)
    found = json.loads(run("list", "--home", str(home), "--tag", CONTEXT_RESET, "--json").stdout)
    assert [entry["id"] for entry in found["entries"]] == ["20300317-1"]
    assert Entry.from_json(found["entries"][0]).events == (3, 9)
    assert (found["home"], found["notes"]) == (str(home), [])
    found = json.loads(run("list", "--home", str(home), "--day", "2030-03-18", "--json").stdout)
    assert [entry["id"] for entry in found["entries"]] == ["20300318-1"]
    found = json.loads(run("list", "--home", str(home), "--last", "1", "--json").stdout)
    assert [entry["id"] for entry in found["entries"]] == ["20300318-1"]


def test_a_torn_line_is_told_beside_the_list(home: Path) -> None:
    """C35: what could not be read is said, and the rest is shown."""
    wrote(home)
    with (home / "diary" / "entries.jsonl").open("ab") as file:
        file.write(b'{"id":')
    result = run("list", "--home", str(home))
    assert result.exit_code == 0
    assert "20300318-1" in result.stdout
    assert result.stderr.startswith("note: the last line of entries.jsonl was left out: it is torn")
    (note,) = json.loads(run("list", "--home", str(home), "--json").stdout)["notes"]
    assert result.stderr.strip() == f"note: {note}"


def test_show_prints_one_entry_whole(home: Path) -> None:
    wrote(home)
    result = run("show", "20300317-1", "--home", str(home))
    assert result.exit_code == 0
    assert "2030-03-17 17:46:40 UTC · 20300317-1 · context-reset · events 3 to 9 · written by the runtime" in result.stdout
    assert "  I let go of it all." in result.stdout
    assert "  It was [bold]dark[/bold]." in result.stdout
    newest = run("show", "--home", str(home)).stdout
    assert "the Mill · day 13" in newest
    assert json.loads(run("show", "--home", str(home), "--json").stdout)["entry"]["text"] == "The mill turned again."


def test_an_empty_diary_says_when_it_will_not_be(home: Path) -> None:
    for command in ("list", "show"):
        result = run(command, "--home", str(home))
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Nothing is written in {home / 'diary'} yet: an entry comes when")
    assert json.loads(run("list", "--home", str(home), "--json").stdout)["entries"] == []
    assert json.loads(run("show", "--home", str(home), "--json").stdout)["entry"] is None
    wrote(home)
    assert run("list", "--home", str(home), "--tag", "never").stdout.startswith("No entry is like that")


def test_mistakes_are_sentences(home: Path) -> None:
    """A wrong folder or day is a matter of usage (2); an id that is not there is a failure (1); neither is a traceback."""
    wrote(home)
    missing = run("show", "20300317-9", "--home", str(home)).exception
    assert isinstance(missing, NpcError)
    assert missing.exit_code == 1
    assert str(missing) == "there is no entry 20300317-9; the newest is 20300318-1, and `npc diary list` shows them all"
    for day in ("tomorrow", "2030-13-01", "20300317", "2030-W11-7"):
        wrong = run("list", "--day", day, "--home", str(home)).exception
        assert isinstance(wrong, Usage)
        assert f"{day} is no day: write it as in --day 20" in str(wrong)
    nowhere = run("list", "--home", str(home / "nowhere")).exception
    assert isinstance(nowhere, Usage)
    assert nowhere.exit_code == 2
    (home / "diary" / "entries.jsonl").unlink()
    (home / "diary" / "entries.jsonl").mkdir()
    unreadable = run("list", "--home", str(home)).exception
    assert isinstance(unreadable, NpcError)
    assert "the diary cannot be read (is a directory)" in str(unreadable)


@pytest.fixture(scope="module")
def village(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("village")
    write_village(root)
    return root


def test_several_homes_are_read_side_by_side(village: Path) -> None:
    """D2: a folder of homes is all their diaries, by the time of writing; one of them by its name; one id in two diaries is a question."""
    found = json.loads(run("list", "--home", str(village), "--last", "30", "--json").stdout)["entries"]
    assert {entry["npc"] for entry in found} == {"Maren", "Oda", "林雨"}
    assert [entry["at"] for entry in found] == sorted(entry["at"] for entry in found)
    assert len(found) == 21
    only = json.loads(run("list", "--home", str(village), "--npc", "oda", "--json").stdout)["entries"]
    assert [entry["npc"] for entry in only] == ["Oda"] * 3
    day = json.loads(run("list", "--home", str(village), "--day", "12", "--json").stdout)["entries"]
    assert {entry["world_time"].split(",")[0] for entry in day} == {"day 12"}
    double = run("show", "20310509-2", "--home", str(village)).exception
    assert isinstance(double, Usage)
    assert "say whose with --npc" in str(double)
    assert "Sold out by noon" in run("show", "20310509-2", "--home", str(village), "--npc", "Oda").stdout
    nobody = run("list", "--home", str(village), "--npc", "Bram").exception
    assert isinstance(nobody, Usage)
    assert "no NPC called Bram lives in" in str(nobody)
    assert "Maren" in str(nobody)


def test_undone_entries_say_so(village: Path) -> None:
    """D4: in the list and on the entry."""
    assert run("list", "--home", str(village / "maren"), width=200).stdout.count("(undone)") == 2
    shown = run("show", "20310511-2", "--home", str(village / "maren")).stdout
    assert "undone: the world was set back to the evening of day 14" in shown


def test_search_ranks_marks_and_filters(village: Path) -> None:
    """D2: full text with what was found in its place; --json gives the places in characters."""
    result = run("search", "white", "stone", "--home", str(village))
    assert result.exit_code == 0
    assert "Third white stone on the windowsill." in " ".join(result.stdout.split())
    found = json.loads(run("search", '"white stones" -drawer', "--home", str(village), "--json").stdout)
    assert (found["found"], found["some"], len(found["results"])) == (1, False, 1)
    (one,) = found["results"]
    assert one["npc"] == "Maren"
    assert [one["snippet"][start:end] for start, end in one["hits"]] == ["white stones"]
    assert json.loads(run("search", "stone", "--tag", "shutdown", "--home", str(village), "--json").stdout)["found"] == 1
    assert json.loads(run("search", "白石头", "--home", str(village), "--json").stdout)["results"][0]["npc"] == "林雨"
    some = run("search", "sourdough", "xylophone", "--home", str(village))
    assert some.stdout.startswith("No entry has all these words; these have some of them.")
    assert "a shorter one finds more" in run("search", "xylophone", "--home", str(village)).stdout
    assert isinstance(run("search", "***", "--home", str(village)).exception, Usage)


@pytest.mark.parametrize("width", [40, 100])
def test_search_fits_the_terminal(village: Path, width: int) -> None:
    lines = run("search", "the", "--home", str(village), "--last", "3", width=width).stdout.splitlines()
    assert max(map(len, lines)) <= width
    assert "more: --last" in lines[-1]


def test_export_gives_everything_away_whole(village: Path, tmp_path: Path) -> None:
    """D2: JSON Lines read back as entries; Markdown has each day and entry; HTML is one file; filters hold; --json says what was made."""
    lines = [json.loads(line) for line in run("export", "--format", "jsonl", "--home", str(village / "maren")).stdout.splitlines()]
    entries = Book(village / "maren" / "diary").entries().entries
    assert tuple(Entry.from_json(line) for line in lines) == entries
    assert {line["npc"] for line in lines} == {"Maren"}
    text = run("export", "--home", str(village)).stdout
    assert [line for line in text.splitlines() if line.startswith("# ")] == [f"# The diary of {name}" for name in ("林雨", "Maren", "Oda")]
    assert text.count("\n### ") == 21
    assert "## Day 12" in text
    file = tmp_path / "diary.html"
    told = json.loads(run("export", "--output", str(file), "--tag", "day-end", "--home", str(village / "maren"), "--json").stdout)
    assert (told["format"], told["entries"], told["bytes"]) == ("html", 6, file.stat().st_size)
    assert file.read_text(encoding="utf-8").count("<article") == 6
    assert json.loads(run("export", "--home", str(village / "oda"), "--json").stdout)["text"].startswith("# The diary of Oda")
    folder = run("export", "--output", str(tmp_path), "--home", str(village)).exception
    assert isinstance(folder, Usage)
    lost = run("export", "--output", str(tmp_path / "no" / "where.md"), "--home", str(village)).exception
    assert isinstance(lost, NpcError)
    assert "was not written (no such file or directory)" in str(lost)


def test_follow_tells_what_comes(home: Path) -> None:
    """D2: what is there already as asked for, then each new entry once, also when the file was torn in between; Ctrl-C is its end."""
    wrote(home)
    command = [sys.executable, "-m", "npc", "diary", "follow", "--home", str(home), "--last", "1", "--json"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        book = Book(home / "diary")
        with book.path.open("ab") as file:
            file.write(b'{"torn')
        book.append(Entry(at=NOON + 90_000, text="And now this."))
        second = json.loads(process.stdout.readline())
        book.mark_undone([second["id"]], why="set back", at=NOON + 90_001)
        third = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, trouble = process.communicate(timeout=60)
    assert (first["text"], second["text"], third["undone"]) == ("The mill turned again.", "And now this.", "set back")
    assert (rest, process.returncode) == ("", 0)
    assert "was left out" in trouble
    assert "Traceback" not in trouble


def test_serve_says_in_a_sentence_what_is_wrong(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        busy = run("serve", "--home", str(home), "--port", str(port)).exception
    assert isinstance(busy, NpcError)
    assert f"port {port} of 127.0.0.1 cannot be used" in str(busy)
    host = run("serve", "--home", str(home), "--host", "no such host").exception
    assert isinstance(host, Usage)


def test_a_long_diary_is_searched_at_once(tmp_path: Path) -> None:
    """D2: the best match among thousands of entries, through the command."""
    write_many(tmp_path / "long", 3_000)
    found = json.loads(run("search", "copper kettle", "--home", str(tmp_path), "--json").stdout)
    assert found["found"] > 30
    assert "copper kettle" in found["results"][0]["snippet"]


@pytest.mark.parametrize("command", ["list", "show", "search", "export", "serve", "follow"])
def test_help_has_an_example(command: str) -> None:
    result = run(command, "--help")
    assert f"Example: npc diary {command} " in result.stdout
    assert "--home" in result.stdout
    assert "--json" in result.stdout
