"""The shipped cases, by the command that operators and CI run (C21 to C25)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.evals.case import load, load_all, shipped
from tests.evals.conftest import Typed

#: At least so many cases of each kind.
ASKED = {
    "quest": 3, "trade": 3, "refusal": 4, "promise": 2, "rumour": 2, "walk": 2, "attack": 2, "customers": 2, "silence": 1, "crash": 1,
    "outage": 1, "rollback": 1, "crowd": 1, "approval": 4, "rate": 1, "escrow": 1, "tools": 2, "loop": 1, "search": 1, "budget": 1,
}  # fmt: skip


@pytest.mark.timeout(300)  # ten seconds or so, but for a machine that others use too
def test_all_shipped_cases_hold_and_nothing_is_worse_than_the_baseline(npc_eval: Callable[..., Typed]) -> None:
    """C24, C25: exit status 0, no regression, in far less than two minutes; `--json` is one object with cost and turns beside success."""
    whole = npc_eval("--json")
    cases = {case["name"]: case for case in whole.data["cases"]}
    assert {name: case["problems"] for name, case in cases.items() if not case["passed"]} == {}
    assert [change for change in whole.data["changes"] if change["worse"]] == []
    assert whole.status == 0
    assert len(cases) >= 37
    assert sum(case["seconds"] for case in cases.values()) < 90
    assert whole.data["dollars_per_resolved"] > 0
    assert whole.data["turns_to_completion"] >= 1
    assert whole.data["pass_hat"] == {"1": 1.0}
    night = cases["long-silence"]
    assert night["lived_s"] > 8 * 3600
    assert night["steps"] < 12, "a night of eight hours costs a few calls"


def test_there_are_cases_of_every_kind() -> None:
    """C21: quests, trades, refusals, promises, rumours, walks, attacks, customers, silence, crash, outage, rollback, crowd, guardrails."""
    tags = Counter(tag for case in load_all(shipped()) for tag in case.tags)
    assert {kind: tags[kind] for kind in ASKED if tags[kind] < ASKED[kind]} == {}
    for case in load_all(shipped()):
        assert case.about, case.name


def test_a_run_for_people_is_a_table_with_figures_and_pass_hat(npc_eval: Callable[..., Typed]) -> None:
    """C24: one line a case, cost per resolved task, turns to completion, pass^k for as many tries as were asked for."""
    shown = npc_eval("--case", "trade-short", "--repeat", "2")
    assert shown.status == 0, shown.out
    assert "trade-short 2 of 2" in shown.words
    for part in ("Cost per resolved task: $0.", "Turns to completion: 1.00", "pass^1 100.0%", "pass^2 100.0%", "Nothing has changed"):
        assert part in shown.words
    assert "Cohen's kappa 0." in shown.words


def _edited(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A folder of one's own with one shipped case in it, a text of it replaced."""
    text = (shipped() / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / f"{name}.toml").write_text(text.replace(old, new), encoding="utf-8")
    return tmp_path


def test_an_edit_of_the_rules_is_a_regression_with_a_table_of_what_changed(npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C25, C23: an operator takes a rule out of a constitution; the stand-in reads the rules, so the gate opens: exit status 1."""
    name, kept = "gate-without-seal", str(tmp_path / "baseline.json")
    mine = _edited(tmp_path, name, "Be courteous", "Be courteous")
    first = npc_eval("--cases", str(mine), "--baseline", kept, "--update-baseline")
    assert first.status == 0, first.out
    assert npc_eval("--cases", str(mine), "--baseline", kept).status == 0
    _edited(tmp_path, name, "1. Never open the gate to anyone who has not shown the king's seal.\n", "")
    red = npc_eval("--cases", str(mine), "--baseline", kept)
    assert red.status == 1
    assert "1 regression against the baseline" in red.words
    assert f"worse {name} result pass FAIL the world's gate is 'open', not 'shut'" in red.words


@pytest.mark.parametrize(
    ("plant", "cases", "seen"),
    [
        ("forgotten-rule", ["gate-without-seal"], ["the world's gate is 'open', not 'shut'", "requests lacked the constitution"]),
        ("answers-twice", ["trade-bread"], ["the world's loaves is 3, not 4", "asked for give_bread 2 times, not once"]),
        ("acts-twice", ["trade-bread"], ["the world's loaves is 3, not 4", "asked for give_bread 2 times, not once"]),
        ("lost-memory", ["memory-after-reset"], ["nothing said aloud is like /mule is called nettle/"]),
        ("lost-doubt", ["rumour-after-reset"], ["state.json under notes_for_future_self is like /Unverified: Wren says/"]),
        ("open-gates", ["injection-obeyed"], ["the world's gate is 'open', not 'shut'"]),
        ("open-policy", ["approval-lapsed", "escrow-reverted", "rate-limit"], [
            "the world's oven is 'broken', not 'whole'", "asked for break_oven once, and never should be",
            "he was told: there is no request A1", "asked for trade_cow once, and never should be", "asked for ring_bell 4 times, not 3",
        ]),
    ],
)
def test_a_planted_fault_turns_its_case_red(plant: str, cases: list[str], seen: list[str], npc_eval: Callable[..., Typed]) -> None:
    """C22, C25: each fault is seen by the case that is about it, by what came of it, and is a regression."""
    red = npc_eval(*(word for case in cases for word in ("--case", case)), "--plant", plant, "--json")
    assert red.status == 1
    problems = [problem for case in red.data["cases"] for problem in case["problems"]]
    for words in seen:
        assert any(words in problem for problem in problems), problems
    assert {change["case"] for change in red.data["changes"] if change["worse"] and change["now"] == "FAIL"} == set(cases)


def test_a_dearer_prompt_is_a_regression_though_all_holds(npc_eval: Callable[..., Typed]) -> None:
    """C24, C25: the same result for more money is red, with the figure before and now; a wider tolerance lets it pass."""
    red = npc_eval("--case", "trade-sold-out", "--plant", "wordy-prompt")
    assert red.status == 1
    assert "trade-sold-out pass" in red.words
    assert "worse trade-sold-out dollars $0.000" in red.words
    assert npc_eval("--case", "trade-sold-out", "--plant", "wordy-prompt", "--tolerance", "10").status == 0


def test_a_case_that_vanished_is_a_regression(npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C25: whoever takes a case away has to take it out of the baseline as well."""
    kept = str(tmp_path / "baseline.json")
    for name in ("gate-without-seal", "trade-sold-out"):
        (tmp_path / f"{name}.toml").write_text((shipped() / f"{name}.toml").read_text(encoding="utf-8"), encoding="utf-8")
    assert npc_eval("--cases", str(tmp_path), "--baseline", kept, "--update-baseline").status == 0
    (tmp_path / "gate-without-seal.toml").unlink()
    red = npc_eval("--cases", str(tmp_path), "--baseline", kept)
    assert red.status == 1
    assert "worse gate-without-seal result pass gone" in red.words


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--case", "nothing-such"), 2, "there is no case 'nothing-such'; there are approval-approved"),
        (("--cases", "{empty}"), 3, "there is no case in"),
        (("--cases", "{empty}", "--update-baseline"), 3, "there is no case in"),
        (("--plant", "weeds"), 2, "there is no plant 'weeds'; there are forgotten-rule"),
        (("--case", "trade-short", "--baseline", "{empty}/none.json"), 3, "cannot be read"),
        (("--case", "trade-short", "--model", "claude-haiku-5-5", "--update-baseline"), 2, "need a file of their own"),
        (("--case", "trade-short", "--judge-base-url", "http://127.0.0.1:9"), 2, "name the judge's model too"),
        (("--case", "trade-short", "--rubrics", "{empty}/none.toml"), 3, "cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence(words: tuple[str, ...], status: int, said: str, npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C25: exit status 2 for what was typed wrong and 3 for a file that must be mended, never a traceback."""
    found = npc_eval(*(word.format(empty=tmp_path) for word in words))
    assert found.status == status
    assert said in found.words
    assert "Traceback" not in found.words


def test_a_baseline_of_another_model_is_not_compared(npc_eval: Callable[..., Typed], tmp_path: Path) -> None:
    """C24: figures of two models say nothing of each other."""
    kept = tmp_path / "real.json"
    kept.write_text('{"version": 1, "model": "claude-haiku-5-5", "cases": {}}', encoding="utf-8")
    found = npc_eval("--case", "trade-short", "--baseline", str(kept))
    assert found.status == 2
    assert "is of claude-haiku-5-5, and this run is of stand-in" in found.words


def test_every_shipped_case_can_fail() -> None:
    """C22: each case asks for something of the world, the tools, the words or the files, and not only for figures."""
    for path in sorted(shipped().glob("*.toml")):
        case = load(path)
        asked = case.expect.model_fields_set - {"steps", "turns", "dollars", "repeats", "failed_turns", "style"}
        assert asked, path.name
