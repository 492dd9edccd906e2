"""`npc sim compare`: two runs side by side (S3, C36)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sim.cli import app
from sim.report.figures import Figures
from tests.sim.sample_figures import sample


def _compare(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, words)], terminal_width=160)


def _kept(folder: Path, name: str, figures: Figures) -> Path:
    path = folder / f"{name}.json"
    figures.write(path)
    return path


def test_better_and_worse_are_said_in_words(tmp_path: Path) -> None:
    """S3, C36: dearer is worse, quicker is better, what has no direction is only shown, what one run lacks is no zero."""
    before = _kept(tmp_path, "before", sample(seconds=0.2, policy_ms_p50=2.0, cache_read_share=0.7, refusals=3))
    after = _kept(tmp_path, "after", sample(seconds=0.05, dearer=1.25, policy_ms_p50=2.1, cache_read_share=0.6))
    result = _compare(before, after)
    assert result.exit_code == 0
    rows = {m[1]: m[2] for row in result.output.splitlines() if (m := re.match(r"(\S.*?\S)\s{2,}(.+)", row))}
    assert rows["dollars per 1000 turns"].split() == ["1", "1.25", "+25.0%", "worse"]
    assert rows["cache read share"].split() == ["0.7", "0.6", "-14.3%", "worse"]
    assert rows["turn ms median"].split() == ["200", "50", "-75.0%", "better"]
    assert rows["policy ms p50"].split()[-1] == "same", "five per cent of a time is a busy machine"
    assert rows["refusals"].split() == ["3", "–"]
    assert "asked for different things" not in result.output
    assert "1 figure is better, 2 are worse." in result.output


def test_runs_of_different_length_are_not_judged_by_what_grows(tmp_path: Path) -> None:
    """S3: more hard resets in a longer life are no worse; the difference of the options is named."""
    result = _compare(_kept(tmp_path, "short", sample(turns=20, resets=1)), _kept(tmp_path, "long", sample(turns=60, resets=4)))
    assert "turns: 20 and 60" in result.output
    assert "worse" not in result.output.replace("is worse", "").replace("are worse", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1, 2]", "holds no figures of a run"),
        ('{"turns": 5}', "holds no figures of a run"),
        (json.dumps({"format": "perpetual-npc figures", "version": 9}), "figures of version 9"),
        (json.dumps({"format": "perpetual-npc figures", "version": 1, "lives": [{"npc": "Oda"}]}), "of another shape: lives.0.turns"),
        (json.dumps({"format": "perpetual-npc figures", "version": 1, "surprise": 1}), "of another shape: surprise"),
        (
            sample(turns=4).model_dump_json(exclude_none=True).replace('"x":[0.0,1.0,', '"x":[1.0,1.0,', 1),
            "x must rise",
        ),
        ('{"format": "perpetual-npc figures", "version": 1, "lives": [{"npc": "O", "turns": 1, "dollars": Infinity}]}', "of another shape"),
    ],
)
def test_a_file_of_another_shape_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """S3: exit status 2, and what is wrong with which file; never half a table."""
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    result = _compare(_kept(tmp_path, "good", sample(turns=4)), path)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "odd.json" in result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    missing = _compare(tmp_path / "none.json", path)
    assert "none.json cannot be read: No such file" in missing.stderr


def test_the_page_lays_both_runs_over_one_another(tmp_path: Path) -> None:
    """S3: --html: every figure, every plot with both runs in it, told apart by dashes; names of files are words and never markup."""
    hostile = "<b>&$x_1$"
    files = [_kept(tmp_path, name, sample(turns=30, dearer=n + 1.0)) for n, name in enumerate((hostile, "after"))]
    result = _compare(*files, "--html", tmp_path / "both.html")
    assert result.exit_code == 0, result.output
    text = (tmp_path / "both.html").read_text("utf-8")
    assert "<script" not in text
    assert "<b>" not in text
    drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawn) == 2 * 3, "cost, time and process, wide and narrow; no window was seen in this life"
    assert all("&lt;b&gt;&amp;$x_1$" in svg and "stroke-dasharray" in svg for svg in drawn)
    assert _compare(*files, "--html", tmp_path / "no" / "both.html").exit_code == 2
