"""The world's day, from the world's own words (D1, D2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diaries import Entry
from diaries.calendar import clock_of, file_name, world_day


@pytest.mark.parametrize(
    ("words", "day", "clock", "file"),
    [
        ("day 13, 06:40", "day 13", "06:40", "day-13"),
        ("dusk of Day 013", "day 13", "dusk of Day 013", "day-13"),
        ("Tag 3, 08:15", "tag 3", "08:15", "tag-3"),
        ("1042-13-02 23:10", "1042-13-02", "23:10", "1042-13-02"),
        ("第 12 天 09:00", "第12天", "09:00", "第12天"),
        ("3rd of Frost, 1042, 2:20 pm", "3rd of Frost, 1042", "2:20 pm", "3rd-of-frost-1042"),
        ("turn 357", "", "turn 357", ""),
        ("06:40", "", "06:40", ""),
        ("late", "", "late", ""),
        ("", "", "", ""),
    ],
)
def test_the_day_that_a_time_names(words: str, day: str, clock: str, file: str) -> None:
    assert (world_day(words), clock_of(words)) == (day, clock)
    entry = Entry(at=1_900_000_000, text="x", world_time=words)
    assert entry.page == (day or "2030-03-17")
    assert file_name(entry.page) == (file or "2030-03-17")


@given(st.text(max_size=300) | st.text(alphabet="day 0123456789:-,./第天", max_size=40))
def test_any_words_name_a_file_that_stays_in_its_folder(words: str) -> None:
    """W5: a world's words never become a path."""
    name = file_name(Entry(at=1, text="x", world_time=words).page)
    assert name
    assert not set(name) & set("./\\\x00 \n")
    assert len(name.encode()) < 255
