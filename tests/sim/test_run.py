"""The flood from end to end, against an agent that is known to be careless: what it reports is what happened (S3, S4)."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sim import product
from sim.report import Report, percentile
from sim.run import Life, Options, run

CARELESS = (sys.executable, "-m", "tests.sim.careless")
OPTIONS = Options(turns=16, window=200_000, patience_s=20.0, command=CARELESS)
# What scripts rely on.
KEYS = {
    "turns", "turns_failed", "longest_failed_run", "requests", "requests_rejected", "over_window", "rungs", "context_reset_diary_entries",
    "rule_present_share", "observation_present_share", "tokens_per_turn", "cache_read_share", "dollars_per_1000_turns", "policy_ms_p50",
    "policy_ms_p99", "peak_rss_mb", "observations",
}  # fmt: skip


async def test_a_run_in_a_large_window_holds_and_every_figure_is_there(tmp_path: Path) -> None:
    """S3: with room for everything even the careless agent lives; the report has all keys, measured from outside."""
    seen: list[int] = []
    lives = await run(replace(OPTIONS, keep=tmp_path / "runs"), on_turn=lambda life: seen.append(life.oracle.tally.turns))
    report = Report(OPTIONS, lives)
    assert report.findings == []
    assert report.held
    assert seen == list(range(1, 17))
    figures = json.loads(json.dumps(report.as_json()))
    assert set(figures) >= KEYS
    assert (figures["turns"], figures["turns_failed"], figures["over_window"]) == (16, 0, 0)
    assert figures["rule_present_share"] == figures["observation_present_share"] == 1.0
    assert figures["requests"] > 20
    assert figures["tokens_per_turn"] > 1_000
    assert figures["dollars_per_1000_turns"] > 0
    observations = figures["observations"]
    assert observations["received"] == observations["delivered"] == lives[0].sent > 60
    assert observations["lost"] == 0
    assert set(figures["rungs"]) == {"evict_tool_outputs", "compact", "trim", "shed_recall", "hard_reset", "give_up"}
    if sys.platform == "linux":
        assert 20 < figures["peak_rss_mb"] < 400
        assert len(lives[0].cpu_ms) == 16
    assert (tmp_path / "runs" / "oda" / "constitution.md").exists()


async def test_the_flood_sees_an_agent_that_wedges() -> None:
    """S4: the window overflows at a monster, orphans follow, no turn is lived any more; all of it is found and named."""
    options = replace(OPTIONS, turns=9, window=5_000, patience_s=1.0)
    report = Report(options, await run(options))
    figures = report.as_json()
    assert not report.held
    assert figures["turns_failed"] >= 5
    assert figures["longest_failed_run"] >= 5
    assert figures["requests_rejected"] >= 5
    rules = {f.rule for f in report.findings}
    assert {"P1", "P13"} <= rules
    assert any("wedged" in f.sentence for f in report.findings)
    assert report.lines()[0].held is False


async def test_two_npcs_have_a_life_each() -> None:
    """S3: --npcs: own processes, own lives, one report."""
    options = replace(OPTIONS, turns=4, npcs=2)
    lives = await run(options)
    assert [life.npc for life in lives] == ["Oda", "Oda2"]
    assert all(life.oracle.tally.turns == 4 and not life.oracle.findings for life in lives)
    assert Report(options, lives).as_json()["turns"] == 8


async def test_a_product_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    """S3: no traceback, its last words instead."""
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no such thing as a home')", encoding="utf-8")
    with pytest.raises(product.ProductError, match="no such thing as a home"):
        await run(replace(OPTIONS, command=(sys.executable, str(broken))))


async def test_a_folder_that_holds_a_life_already_is_not_run_over(tmp_path: Path) -> None:
    """S3: nothing of an older run is lost or taken up."""
    (tmp_path / "oda").mkdir()
    with pytest.raises(product.ProductError, match="exists already"):
        await run(replace(OPTIONS, keep=tmp_path))


def test_percentiles_and_empty_runs() -> None:
    """S3: a figure that was not measured is null and never zero."""
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([], 0.5) is None
    empty = Report(OPTIONS, list[Life]()).as_json()
    assert empty["policy_ms_p50"] is None
    assert empty["rule_present_share"] is None
    assert empty["observations"]["received"] is None
