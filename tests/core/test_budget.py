"""The window as a budget, and the factor that is learned. Rows: P2, P8, P9, P10, P11. Case: C14."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.budget import FLOOR, SMALLEST_OBSERVATION, Budget, Part, misfit
from runtime.core.calibration import HIGHEST, LOWEST, START, Calibration

from .examples import examples

windows = st.integers(200, 300_000)
outputs = st.integers(1, 64_000)


@examples(200)
@given(windows, outputs, st.integers(0, 5_000), st.integers(0, 400), st.floats(LOWEST, HIGHEST))
def test_what_fits_the_room_fits_the_window(window: int, output: int, fixed: int, tail: int, factor: float) -> None:
    """P9: a history of `limit` raw tokens, with fixed part and tail, leaves the reserve; marks are shares of what can be evicted."""
    budget = Budget(window=window, output=output)
    room = budget.room(fixed=fixed, tail=tail, factor=factor)
    assert room.low <= room.high <= room.limit
    assert room.limit >= FLOOR
    if room.limit > FLOOR:
        estimate = Calibration(factor=factor).estimate(room.limit + fixed + tail)
        assert estimate <= budget.usable
        assert estimate + budget.reserve <= window


@examples(200)
@given(windows, outputs, st.integers(0, 300_000))
def test_rung_six_is_exact(window: int, output: int, fixed: int) -> None:
    """P8: it is given up if and only if fixed part, reserve, margin and the smallest observation exceed the window; every part is named."""
    budget = Budget(window=window, output=output)
    parts = misfit(budget, (Part(name="fixed", tokens=fixed),))
    assert (parts is None) == (fixed + SMALLEST_OBSERVATION <= budget.usable)
    if parts:
        assert sum(p.tokens for p in parts) > window
        assert parts[0] == Part(name="fixed", tokens=fixed)


def test_marks_must_make_sense() -> None:
    """P10: without a gap between the marks the ladder would run at every turn."""
    for low, high in ((0.5, 0.5), (0.0, 0.5), (0.2, 1.1)):
        with pytest.raises(ValueError, match="marks must satisfy"):
            Budget(window=10_000, low=low, high=high)


def test_a_smaller_window_of_the_providers_counts() -> None:
    """P11: a larger one does not."""
    budget = Budget(window=10_000)
    assert budget.within(4_000).window == 4_000
    assert budget.within(0) is budget
    assert budget.within(20_000) is budget


@examples(200)
@given(st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 400_000), st.sampled_from(("answer", "told", "blind"))), max_size=30))
def test_the_factor_stays_in_its_bounds(seen: list[tuple[int, int, str]]) -> None:
    """P11: up at once, down slowly, a rejection never lowers it, and small requests never raise it."""
    calibration = Calibration()
    for raw, actual, how in seen:
        before = calibration
        if how == "answer":
            calibration = calibration.measured(raw, actual)
            if not actual or (raw < 256 and actual / raw > before.factor):
                assert calibration is before
            elif actual / raw > before.factor:
                assert calibration.factor >= min(HIGHEST, actual / raw)
        else:
            calibration = calibration.rejected(raw, actual if how == "told" else None)
            assert calibration.factor >= before.factor
            assert how == "told" or calibration.factor > before.factor or before.factor == HIGHEST
        assert LOWEST <= calibration.factor <= HIGHEST


def test_the_factor_is_learned_within_three_answers() -> None:
    """C14 (litellm 37102): 1.8 at once; a lower one by half of the way at first, then slowly, since contents differ."""
    assert Calibration().measured(2_000, 3_600).factor >= 1.8
    calibration = Calibration()
    for _ in range(3):
        calibration = calibration.measured(2_000, 2_000)
    assert 1.0 < calibration.factor < START - 0.4
    old = Calibration(factor=1.6, learned=50)
    assert old.measured(2_000, 2_000).factor > 1.5
