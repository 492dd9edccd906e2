"""Six minutes on the road, in virtual time."""

from __future__ import annotations

from sim.walking import BOUND
from sim.walking.measure import measure, rendered


async def test_yielding_saves_most_calls_and_misses_no_line() -> None:
    """P14: fewer model calls and dollars for the same walks, every line that was meant for it asked about at once and answered."""
    saving = await measure(minutes=6.0, seed=11)
    on, off = saving.on, saving.off
    assert on.walking_share > 0.6
    assert abs(on.walks - off.walks) <= 2, "not the same road"
    assert on.addressed >= 2
    assert (on.missed, off.missed) == (0, 0)
    assert saving.calls >= BOUND
    assert on.dollars < off.dollars
    assert on.wakes["addressed"] >= 1
    assert not off.wakes
    # As long as a call that is under way, and no longer.
    assert on.latency_max_s <= 5.0
    assert "| ordinary | 15 s |" in rendered([saving])
