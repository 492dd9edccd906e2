"""Bad weather at the model's end, by name, for floods.

Invariant: a plan is a function of its text and the seed. Faults here are such that a turn can still be lived: whatever happens, the
product is expected to come through.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.messages_api import OVERLOADED, SERVER_ERROR, Break, BrokenAnswer, Fault, FaultPlan, OddAnswer, Rule, rate_limited

PRESETS: Mapping[str, tuple[Fault, ...]] = {
    "overload": (OVERLOADED, rate_limited(0.05), SERVER_ERROR),
    "breaks": (BrokenAnswer(how=Break.CUT), BrokenAnswer(how=Break.CLEAN_END), BrokenAnswer(how=Break.ERROR_EVENT)),
    "oddities": (OddAnswer.CUT_TOOL_CALL, OddAnswer.GARBAGE_ARGUMENTS, OddAnswer.UNKNOWN_TOOL, OddAnswer.DOUBLED_IDS, OddAnswer.EMPTY),
}
DEFAULT_RATE = 0.01


def plan(text: str, *, seed: int) -> FaultPlan:
    """A plan such as `overload` or `overload:0.02,oddities`: names of presets, each with its share of requests.

    Raises:
        ValueError: a name or a share that is none.
    """
    rules: list[Rule] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, share = part.partition(":")
        if name not in PRESETS:
            raise ValueError(f"no faults are called {name!r}; there are {', '.join(PRESETS)}")
        rate = float(share) if share else DEFAULT_RATE
        if not 0 < rate <= 1:
            raise ValueError(f"the share of {name} must be above 0 and at most 1, not {share}")
        faults = PRESETS[name]
        rules += [Rule(fault=fault, rate=rate / len(faults)) for fault in faults]
    return FaultPlan(rules, seed=seed)
