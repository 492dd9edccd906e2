"""How many examples a property gets: a bounded, repeatable number in every run, many and random ones with `HYPOTHESIS_PROFILE=deep`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
FACTOR = 40


def examples(number: int, *, steps: int = 50) -> settings:
    """Settings for one property; `steps` are those of a state machine."""
    return settings(
        max_examples=number * FACTOR if DEEP else number,
        stateful_step_count=steps * 2 if DEEP else steps,
        derandomize=not DEEP,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
