"""`npc diary`: what a person reads in the terminal, and what a program reads with --json (D2)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from diaries import CONTEXT_RESET, Book, Entry
from npc.cli.diary import app
from npc.errors import NpcError, Usage
from npc.home import Home

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


@pytest.mark.parametrize("command", ["list", "show"])
def test_help_has_an_example(command: str) -> None:
    result = run(command, "--help")
    assert f"Example: npc diary {command} " in result.stdout
    assert "--home" in result.stdout
    assert "--json" in result.stdout
