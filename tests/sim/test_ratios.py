"""Costs as ratios with a stored baseline (row S3): what is worse is said, and a file that is none is a mistake of whoever names it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from sim.cli import app
from sim.ratios.command import BASELINE
from sim.ratios.measure import Ratio


def test_a_ratio_is_worse_only_beyond_its_tolerance() -> None:
    """In its own direction."""
    cost = Ratio(name="ladder", value=2.9, tolerance=1.4, what="")
    assert not cost.worse(2.1)
    assert cost.worse(2.0)
    gain = Ratio(name="intake", value=0.2, tolerance=1.4, what="", less_is_better=False)
    assert not gain.worse(0.27)
    assert gain.worse(0.29)


def test_the_shipped_baseline_names_what_is_measured() -> None:
    """A ratio without a baseline could grow for ever."""
    known = json.loads(BASELINE.read_text(encoding="utf-8"))
    assert set(known) == {"ladder", "turn", "npcs_per_core", "bytes", "dollars", "start", "intake"}
    assert all(value > 0 for value in known.values())


def test_a_baseline_that_is_none_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """One sentence with the way out."""
    path = tmp_path / "figures.json"
    path.write_text("[1, 2", encoding="utf-8")
    result = CliRunner().invoke(app, ["bench", "ratios", "--baseline", str(path)], env={"COLUMNS": "400"})
    assert result.exit_code == 2
    assert "--update-baseline" in result.output
