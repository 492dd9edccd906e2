"""What the runtime writes about a day, and what of a model's words is taken for an entry (D1)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diaries.calendar import later
from diaries.chronicle import Happening, day_entry, own_words
from diaries.occasions import Occasion
from tests.diaries.test_chronicle import happenings, wild

occasions = st.builds(
    Occasion,
    kind=st.sampled_from(["day-end", "milestone", "shutdown", "rollback"]),
    through=st.integers(1, 2**40),
    at=st.floats(0, 4e9),
    world_time=wild,
    place=wild,
    what=st.lists(wild, max_size=5).map(tuple),
)


def test_it_tells_whom_i_met_what_i_did_where_and_what_i_promised() -> None:
    """D1: people, deeds, places, promises, in the first person; who wrote it, when, where and about which events."""
    entry = day_entry(
        Occasion(
            kind="milestone", through=140, at=1_900_000_000, world_time="day 12, 22:10", place="the Gatehouse", what=("sealed is True",)
        ),
        [
            Happening(kind="heard", who="Oda", text="Bring flour, would you?", event=120),
            Happening(kind="did", text="walk: the mill", event=125),
            Happening(kind="saw", text="A rat runs off.", event=126),
            Happening(kind="said", text="Then I wait.", event=140),
        ],
        events=(101, 140),
        epoch="e1",
        promises=["I promise to bring bread."],
        places=["the mill", "the Gatehouse"],
    )
    assert entry.text == (
        "Something has come about that I want to keep. This I mark: sealed is True.\n\n"
        "I had been speaking with Oda. The last words I heard came from Oda: “Bring flour, would you?” The last words I said were: "
        "“Then I wait.” I did 1 thing, the last was this: walk: the mill. The last thing I saw: “A rat runs off.”\n\n"
        "I was at the mill and the Gatehouse. I must not forget: “I promise to bring bread.”"
    )
    assert (entry.author, entry.tags, entry.events, entry.epoch) == ("runtime", ("milestone",), (101, 140), "e1")
    assert (entry.page, entry.place) == ("day 12", "the Gatehouse")


@settings(max_examples=80)
@given(occasions, happenings, st.lists(wild, max_size=8), st.lists(wild, max_size=8))
def test_always_short_and_never_in_another_voice(
    occasion: Occasion, facts: list[Happening], promises: list[str], places: list[str]
) -> None:
    """D1, W5: at most 200 words whatever the facts, and nobody's words can close the marks that they stand between."""
    entry = day_entry(occasion, facts, events=(1, max(1, occasion.through)), promises=promises, places=places)
    assert len(entry.text.split()) <= 200
    assert len(entry.text) <= 2_000
    marks = [mark for mark in entry.text if mark in "“”"]
    assert marks == ["“", "”"] * entry.text.count(": “")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        (" …\n", "empty"),
        ("# Day 3", "empty"),
        ("word " * 201, "longer"),
        ("词" * 2_001, "longer"),
        ('{"entry": "I kept the mill."}', "no prose"),
        ("```\nI kept the mill.\n```", "no prose"),
        ("I kept <talk>the mill", "no prose"),
        ("I call tool_use now.", "no prose"),
    ],
)
def test_what_is_no_entry(text: str, why: str) -> None:
    """D1: nothing, too much, or no prose."""
    assert why in own_words(text)[1]


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("I kept the mill.", "I kept the mill."),
        ("**Day 3, evening**\n\nI kept the mill.", "I kept the mill."),
        ("## Day 3\nI kept the mill, 3 < 4.\n\nSo be it.", "I kept the mill, 3 < 4.\n\nSo be it."),
        ("今天我守着磨坊。", "今天我守着磨坊。"),
        ("I \x1b[2Jkept it.", "I \N{REPLACEMENT CHARACTER}[2Jkept it."),
    ],
)
def test_what_is_an_entry(text: str, entry: str) -> None:
    """D1: prose in any script; a heading is left out, and no terminal obeys it."""
    assert own_words(text) == (entry, "")


@pytest.mark.parametrize(
    ("one", "other", "is_later"),
    [
        ("day 13, 06:40", "day 3, 12:00", True),
        ("day 3, 06:40", "day 3, 12:00", False),
        ("Day 3, 1:30 pm", "day 3, 12:40", True),
        ("day 4, 00:10", "day 3", True),
        ("day 3, 23:59", "day 3", False),
        ("day 3", "day 3, 12:00", True),
        ("2031-05-07 10:00", "2031-05-06", True),
        ("第13天 10:00", "第2天", True),
        ("turn 357", "turn 12", True),
        ("turn 12", "turn 357", False),
        ("3rd of Frost, 1042, 14:20", "3rd of Frost, 1042, 12:00", True),
        ("3rd of Frost, 1042, 14:20", "1st of Thaw, 1043, 12:00", None),
        ("turn 357", "day 3", None),
        ("", "day 3", None),
        ("late", "late", None),
    ],
)
def test_which_of_two_world_times_is_later(one: str, other: str, is_later: bool | None) -> None:
    """D4: days and clocks are compared as numbers; what cannot be compared is not guessed."""
    assert later(one, other) is is_later
