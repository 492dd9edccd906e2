"""`npc sim bench tools` in small (C20): the right one of many actions is found by words, each way, and nothing is rejected."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from sim.catalogue.manor import MOST, actions, errands
from sim.cli import app


def test_errands_are_for_one_action_each_and_name_none() -> None:
    """C20: what is measured is finding, so no errand may give the name away."""
    offered = {action.name for action in actions(MOST)}
    assert len(offered) == MOST
    asked = errands(200, actions=300, seed=1)
    assert all(errand.action in offered and errand.action not in errand.words for errand in asked)
    assert asked == errands(200, actions=300, seed=1)


def test_all_three_ways_do_their_errands() -> None:
    """C20, O: the command prints one JSON object; both searches do all errands with fewer tokens a request than showing everything."""
    words = ["bench", "tools", "--actions", "60", "--tasks", "4", "--window", "32000", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    rounds = {one["way"]: one for one in found["rounds"]}
    assert {way: one["done"] for way, one in rounds.items()} == {"off": 4, "api": 4, "own": 4}
    assert not any(one["rejected"] for one in rounds.values())
    assert rounds["own"]["largest_request"] < rounds["off"]["largest_request"]
    assert rounds["off"]["searches"] == 0 < rounds["api"]["searches"]
