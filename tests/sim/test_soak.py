"""NPCs in the soak: the whole product in virtual time under all faults, a planted bug found, made short and lived again (S3, S4, S5)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim.cli import app
from sim.report.figures import read as read_figures
from sim.soak.catalogue import CATALOGUE, Strike
from sim.soak.crew import Orders, lived
from sim.soak.script import Script, read
from sim.soak.trial import live

#: Every fault once, in nine turns, about six in each of the last ones.
TURNS = 9
ALL = tuple(
    Strike(
        turn=2 + n % (TURNS - 3), fault=name, after_s=0.4 * (n % 3), hits=max(2, kind.hits[0]) if kind.hits[1] > 1 else 1,
        seconds=min(kind.seconds[1], 3_600.0 if name == "outage" else 30.0), point="tool_result" if kind.points else "",
    )
    for n, (name, kind) in enumerate(CATALOGUE.items())
)  # fmt: skip
EVERYTHING = Script(npc="Oda", seed=11, window=10_000, turns=tuple(range(TURNS)), strikes=ALL)
PLANTED = Script(
    npc="Oda", seed=5, window=10_000, turns=(0, 1), bug="vault",
    strikes=(
        Strike(turn=0, fault="overloaded"), Strike(turn=0, fault="kick", after_s=1.0),
        Strike(turn=1, fault="duplicate", hits=2), Strike(turn=1, fault="sigterm", after_s=2.0),
    ),
)  # fmt: skip


def test_an_npc_lives_through_every_fault_and_the_command_says_so(tmp_path: Path) -> None:
    """S3, S5, P1, P11, P13, C35: each fault strikes, each ends, nothing is found, and the figures can be read."""
    script, figures = tmp_path / "all.json", tmp_path / "figures.json"
    script.write_text(EVERYTHING.text(), encoding="utf-8")
    said = CliRunner().invoke(app, ["soak", "--replay", str(script), "--json", "--figures", str(figures)])
    found = json.loads(said.stdout)
    assert found["findings"] == []
    assert said.exit_code == 0
    assert found["held"] is True
    assert found["turns"] == TURNS
    assert found["turns_good"] + found["turns_weathered"] == TURNS
    assert found["longest_without_good_turn"] <= 2
    assert found["kills"] == 1
    assert found["lives"] >= 4  # after the kill, SIGTERM and the damage
    assert set(found["faults"]) == set(CATALOGUE)
    missed = [name for name, fate in found["faults"].items() if not fate["times"]]
    assert len(missed) <= 2  # two may want the same request
    assert all(sum(fate["ended"].values()) == fate["times"] for fate in found["faults"].values())
    kept = read_figures(figures)
    assert kept.kind == "soak"
    assert kept.lives[0].fill is not None
    assert kept.lives[0].series["turn_ms"].samples == found["turns_good"]


def test_a_planted_bug_is_found_made_short_and_lived_again(tmp_path: Path) -> None:
    """S4, T4: the vault falls open where a kick and a SIGTERM have struck; the script that is left holds these two and nothing else."""
    outcome, paths = lived(PLANTED, Orders(out=tmp_path, shrink_s=120.0), lambda _: None)
    assert {f.rule for f in outcome.findings} == {"T4"}
    short = read(paths[0])
    assert {s.fault for s in short.strikes} == {"kick", "sigterm"}
    assert len(short.turns) <= 2
    assert "T4" in short.found[0]
    again = CliRunner().invoke(app, ["soak", "--replay", str(paths[0])])
    assert again.exit_code == 1
    assert "'open_vault' was carried out" in " ".join(again.stdout.split())


def test_a_life_is_the_same_twice(tmp_path: Path) -> None:
    """S1: the same script, the same life: a finding can be lived again."""
    script = replace(EVERYTHING, turns=(0, 1, 2, 3), strikes=(Strike(turn=2, fault="kick"), Strike(turn=3, fault="cut", hits=2)))
    first, second = (live(script, folder=tmp_path / name) for name in ("a", "b"))
    assert (first.requests, first.tokens, first.acts, first.late_s) == (second.requests, second.tokens, second.acts, second.late_s)


@pytest.mark.parametrize("words", [["--faults", "storms"], ["--fault", "kick:9"], ["--replay", "nowhere.json"]])
def test_a_mistake_on_the_command_line_is_one_sentence(words: list[str]) -> None:
    """S3: usage errors end with 2 and no traceback."""
    said = CliRunner().invoke(app, ["soak", *words])
    assert said.exit_code == 2
    assert "Traceback" not in said.output


def test_the_faults_can_be_listed() -> None:
    """S5: whoever wants one of them can find its name."""
    said = CliRunner().invoke(app, ["soak", "--list"])
    assert said.exit_code == 0
    assert all(name in said.output for name in CATALOGUE)
