"""The grid of marks: the figures that the shipped marks were chosen by can be made again (C11, P10)."""

from __future__ import annotations

from dataclasses import replace

from sim.marks import measure, table


def test_a_point_of_the_grid_is_the_same_each_time_and_nothing_fails() -> None:
    """P1: whatever the marks, no turn fails and no request is refused; the figures do not depend on the machine."""
    one, two = (measure(window=10_000, high=0.6, low=0.06, turns=40) for _ in range(2))
    assert replace(one, policy_ms_p50=0.0, policy_ms_p99=0.0) == replace(two, policy_ms_p50=0.0, policy_ms_p99=0.0)
    assert (one.failed, one.rejected) == (0, 0)
    assert 0 < one.dollars_per_1000_turns < 10
    assert one.cuts > 0


def test_a_higher_mark_cuts_less_often_and_the_cheapest_is_bold() -> None:
    """P10: rare cuts keep the prefix: fewer of them, more read from cache."""
    low, high = measure(window=10_000, high=0.3, low=0.06, turns=60), measure(window=10_000, high=0.9, low=0.06, turns=60)
    assert low.cuts > high.cuts
    assert low.cache_read_share < high.cache_read_share
    assert table([low, high]).count("**") == 2
