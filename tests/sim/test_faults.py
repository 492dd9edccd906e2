"""Bad weather by name (S5)."""

from __future__ import annotations

from collections import Counter

import pytest

from sim.faults import PRESETS, plan
from sim.messages_api import label


def _weather(text: str, requests: int = 4_000) -> Counter[str]:
    made = plan(text, seed=3)
    return Counter(label(fault) for n in range(1, requests) for fault in made.pick(n, {}, 0.0))


def test_a_preset_has_its_share_of_the_requests_and_all_its_faults() -> None:
    """S5: `overload:0.1` is about every tenth request, spread over what it stands for."""
    seen = _weather("overload:0.1")
    assert 300 < sum(seen.values()) < 500
    assert len(seen) == len(PRESETS["overload"])
    assert _weather("overload:0.1") == seen


def test_presets_add_up_and_none_is_fair_weather() -> None:
    """S5."""
    assert not _weather("")
    both = _weather("oddities:0.05, breaks:0.05")
    assert len(both) > len(_weather("oddities:0.05"))


@pytest.mark.parametrize("text", ["rain", "overload:2", "overload:0", "overload:x"])
def test_what_is_no_weather_is_said_to_be_none(text: str) -> None:
    """S5."""
    with pytest.raises(ValueError, match=r"."):
        plan(text, seed=0)
