"""When an entry is due (D1): ends of days, milestones, and how often at most."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from diaries.occasions import DAY_S, SETTLE_S, Occasions

NOON = 20_000 * DAY_S + 43_200.0


def test_the_end_of_a_world_day_is_due_with_that_days_last_time_and_events() -> None:
    """D1: the entry covers the events before the first of the new day, and bears the old day's time and place."""
    occasions = Occasions()
    occasions.noticed(at=NOON, event=4, world_time="day 3, 21:00", place="the mill")
    assert occasions.due(NOON) is None
    occasions.noticed(at=NOON + 1, event=9, world_time="day 4, 06:00", place="the ford")
    due = occasions.due(NOON + 1)
    assert due
    assert (due.kind, due.through, due.world_time, due.place) == ("day-end", 8, "day 3, 21:00", "the mill")
    occasions.written(8, now=NOON + 2)
    assert occasions.due(NOON + 10_000) is None


def test_days_that_fly_by_fold_into_one_entry() -> None:
    """D1: a world of two-minute days does not write every two minutes."""
    occasions = Occasions(least_s=300)
    entries = []
    for minute in range(0, 60, 2):
        now = NOON + 60 * minute
        occasions.noticed(at=now, event=10 * minute + 1, world_time=f"day {minute}, 06:00")
        if due := occasions.due(now):
            entries.append((occasions.through + 1, due.through, due.world_time))
            occasions.written(due.through, now=now)
    assert len(entries) == 10
    assert all(b[0] == a[1] + 1 for a, b in itertools.pairwise(entries))


def test_a_world_without_days_has_real_ones_and_its_entry_stands_on_the_page_of_its_day() -> None:
    """D1: at midnight UTC if anything happened, and only then."""
    occasions = Occasions()
    assert occasions.due(NOON) is None
    occasions.noticed(at=NOON, event=4, world_time="turn 357")
    midnight = (20_000 + 1) * DAY_S
    assert occasions.due(midnight - 1.0) is None
    due = occasions.due(midnight + 5.0)
    assert due
    assert (due.kind, due.through, due.at) == ("day-end", 4, midnight - 1)
    occasions.written(4, now=midnight + 5.0)
    assert occasions.due(midnight + DAY_S + 5.0) is None, "a day on which nothing happened"


def test_naming_the_first_day_ends_none() -> None:
    """D1: a world that begins to tell its time has not had a day yet."""
    occasions = Occasions()
    occasions.noticed(at=NOON, event=4)
    occasions.noticed(at=NOON, event=9, world_time="day 4, 06:00")
    assert occasions.due(NOON + DAY_S) is None


def test_milestones_settle_share_an_entry_and_are_few_a_day() -> None:
    """D1: what follows from a milestone is told with it; of many in a day a few make entries, the next day has its own."""
    occasions = Occasions(milestones=2, least_s=0)
    count = 0
    for hour in range(5):
        now = NOON + 3_600 * hour
        occasions.milestone(f"gate {hour}", at=now, event=10 * hour + 1)
        occasions.milestone(f"phase {hour}", at=now, event=10 * hour + 2)
        assert occasions.due(now) is None
        if due := occasions.due(now + SETTLE_S):
            assert due.what[-2:] == (f"gate {hour}", f"phase {hour}")
            occasions.written(due.through, now=now, kind=due.kind)
            count += 1
    assert count == 2
    due = occasions.due(NOON + DAY_S)
    assert due
    assert len(due.what) <= 5


def test_a_world_that_is_set_back_has_no_evening_of_the_day_that_never_was() -> None:
    """D4: back on day 3, day 13 does not end."""
    occasions = Occasions()
    occasions.noticed(at=NOON, event=4, world_time="day 13, 21:00")
    occasions.set_back("day 3, 12:00")
    occasions.noticed(at=NOON, event=9, world_time="day 3, 12:05")
    assert occasions.due(NOON + 10) is None


def test_it_goes_on_where_it_stopped_and_takes_nothing_for_granted() -> None:
    """C35: a snapshot brings all back; a broken one is as good as none."""
    occasions = Occasions()
    occasions.noticed(at=NOON, event=4, world_time="day 3, 21:00", place="the mill")
    occasions.written(4, now=NOON)
    again = Occasions()
    again.restore(occasions.snapshot())
    assert again.snapshot() == occasions.snapshot()
    again.noticed(at=NOON, event=7, world_time="day 3, 22:00")
    again.noticed(at=NOON, event=9, world_time="day 4, 06:00")
    due = again.due(NOON + 400)
    assert due
    assert (due.through, due.world_time) == (8, "day 3, 22:00")
    for broken in ({}, {"through": "x", "counted": 3, "world_time": None, "last_at": [], "real_day": 1.5}, {"counted": ["a", None]}):
        other = Occasions()
        other.restore(broken)
        assert other.through == 0
        assert other.due(NOON) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 2_000), st.integers(1, 9), st.sampled_from(["", "day 1", "day 2", "day 3, 10:00", "late", "turn 4"])),
        max_size=60,
    )
)
def test_entries_are_contiguous_and_apart_whatever_the_clock_says(steps: list[tuple[int, int, str]]) -> None:
    """D1: no event twice and none left out, and never two within five minutes, even where days come and go as they like."""
    occasions, now, event = Occasions(), NOON, 0
    last = -1.0
    for seconds, events, world_time in steps:
        now, event = now + seconds, event + events
        occasions.noticed(at=now, event=event, world_time=world_time)
        if due := occasions.due(now):
            assert occasions.through < due.through <= event
            assert last < 0 or now - last >= 300
            occasions.written(due.through, now=now)
            last = now
