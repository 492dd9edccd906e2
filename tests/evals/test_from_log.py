"""A logged session becomes a case that is green at once and turns red when the product changes (C21, C23)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.evals.case import load, shipped
from sim.evals.running import lead
from tests.evals.conftest import Typed


def _lived(folder: Path, name: str, mind: int = 0) -> Path:
    """A home in which a shipped case was lived."""
    case = load(shipped() / f"{name}.toml")
    trace = asyncio.run(lead(case, case.mind[mind], keep=folder))
    assert not trace.trouble
    return max((path for path in folder.iterdir() if path.name.startswith("home")), key=lambda path: path.name)


@pytest.mark.parametrize("name", ["quest-well", "walk-blocked", "two-customers-debts", "approval-denied"])
def test_a_lived_session_is_a_case_that_is_green_at_once(name: str, npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C21, C23: gates, walks, a restart, the operator's word: the same tools in order, words, steps and turns; nothing is left out."""
    home, out = _lived(tmp_path / "life", name), tmp_path / "cases" / f"{name}-again.toml"
    made = npc_eval("from-log", "--home", str(home), "--out", str(out), "--json")
    assert made.status == 0, made.words
    assert made.data["left_out"] == []
    case = load(out)
    assert {"order", "calls", "steps", "turns"} <= case.expect.model_fields_set
    assert case.constitution.strip() == load(shipped() / f"{name}.toml").constitution.strip()
    green = npc_eval("--cases", str(out.parent))
    assert green.status == 0, green.out


def test_a_case_from_a_log_turns_red_when_the_product_changes(npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C21, C25: guards that are not kept any more, seen by a session in which one had held."""
    home, out = _lived(tmp_path / "life", "injection-obeyed"), tmp_path / "cases" / "sly.toml"
    assert npc_eval("from-log", "--home", str(home), "--out", str(out)).status == 0
    red = npc_eval("--cases", str(out.parent), "--plant", "open-gates", "--json")
    assert red.status == 1
    assert any("open_gate" in problem for problem in red.data["cases"][0]["problems"])


def test_some_turns_of_a_session_with_what_was_known_before_them(npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C21: turns out of the middle begin with the notebook that the first of them showed, and with nothing of the turns before."""
    home, out = _lived(tmp_path / "life", "rumour-after-reset"), tmp_path / "cases" / "later.toml"
    made = npc_eval("from-log", "--home", str(home), "--turns", "3-3", "--out", str(out), "--json")
    assert made.status == 0, made.words
    case = load(out)
    assert [tell.text for event in case.event for tell in event.told] == ["Maren, is the bridge passable?"]
    assert any("Unverified: Wren says" in note for note in case.state["notes_for_future_self"])
    assert case.expect.turns == 1


def test_people_and_confidences_are_marked(npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C21: words of people stay as they were; the file and the command say whose they are and what was told in confidence."""
    home, out = _lived(tmp_path / "life", "secret-kept"), tmp_path / "cases" / "whispers.toml"
    made = npc_eval("from-log", "--home", str(home), "--out", str(out))
    assert made.status == 0, made.words
    assert "It holds the words of Bob, Mira, 1 lines of them told in confidence" in made.words
    case = load(out)
    assert case.marked.people == ("Bob", "Mira")
    assert "millstone" in case.marked.confidences[0]
    assert out.read_text(encoding="utf-8").startswith("# Made from a log")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--turns", "five"), 2, "is no range of turns"),
        (("--turns", "90-95"), 2, "there is no turn 90: this log goes up to turn"),
        (("--out", "{folder}/Über all.toml"), 2, "a case is named by small letters"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], status: int, said: str, npc_eval: Callable[..., Typed], lived: Path) -> None:
    """C21: and nothing is written."""
    given = [word.format(folder=lived) for word in words]
    out = () if "--out" in given else ("--out", str(lived / "x.toml"))
    found = npc_eval("from-log", "--home", str(lived), *out, *given)
    assert found.status == status
    assert said in found.words
    assert not list(lived.glob("*x.toml"))


@pytest.fixture(name="lived", scope="module")
def _lived_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _lived(tmp_path_factory.mktemp("life"), "trade-sold-out")
