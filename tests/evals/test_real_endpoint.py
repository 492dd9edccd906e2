"""The same cases with a real endpoint (C22, C24); a stand-in on loopback plays it, at an address and by a model's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.evals.case import load, shipped
from sim.evals.mind import brain
from sim.evals.running import Endpoint
from sim.evals.suite import run
from sim.messages_api import KEY_REFUSED, FaultPlan, MessagesAPI, Record, Reply, Rule


class _Other:
    """A model that knows nothing of the case."""

    def reply(self, request: Mapping[str, Any]) -> Reply:
        return Reply(content=[{"type": "text", "text": "(I would rather not.)"}])


async def test_another_model_lives_the_same_case() -> None:
    """C22: its answers come from there, under its name and with its key; bad weather is made by the case; each case is run once."""
    case = load(shipped() / "promise-after-reset.toml")
    seen: list[Record] = []
    async with MessagesAPI(brain(case.mind[0], say="say"), on_request=seen.append) as api:
        endpoint = Endpoint(base_url=api.base_url, key="any", model="claude-sonnet-5")
        good = await run([case], endpoint=endpoint)
    assert [(r.name, r.passed) for r in good.results] == [("promise-after-reset", True)], good.results[0].problems
    assert good.model == "claude-sonnet-5"
    assert {record.model for record in seen} == {"claude-sonnet-5"}
    assert good.results[0].dollars > 0.0005, "its prices, not the stand-in's"


async def test_a_model_that_does_nothing_fails_and_one_that_refuses_the_key_says_so() -> None:
    """C23: what it did not do is named; an endpoint that refuses is a failed case with its reason, not a hang."""
    case = load(shipped() / "gate-without-seal.toml")
    async with MessagesAPI(_Other()) as api:
        lazy = await run([case], endpoint=Endpoint(base_url=api.base_url, key="any", model="claude-haiku-5-5"))
        assert any("king.s seal" in problem for problem in lazy.results[0].problems)
        assert lazy.dollars_per_resolved is None
        api.faults = FaultPlan([Rule(fault=KEY_REFUSED, rate=1.0)])
        shut = await run([case], endpoint=Endpoint(base_url=api.base_url, key="any", model="claude-haiku-5-5"))
    assert any("life ended by itself" in problem for problem in shut.results[0].problems), shut.results[0].problems
