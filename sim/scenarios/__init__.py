"""Scenarios: what happens to an NPC, as small files and as recordings of real game servers.

Invariant: a scenario is data. What it tells is a pure function of (seed, turn), so that a flood, its oracle and a person speak of the same.
"""

from sim.scenarios.files import Scenario, ScenarioError, load, names
from sim.scenarios.played import Played
from sim.scenarios.recording import Recording

__all__ = ["Played", "Recording", "Scenario", "ScenarioError", "load", "names"]
