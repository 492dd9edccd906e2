"""Words on their way out: cut, timed, compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.speech import LONGEST_GAP_S, Pace, alike, cleaned, field_of, limit_of, reading_s, same, shape, size, split

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
PIECES = (
    "Well met. ", "the mill; ", "3.5 crowns, ", "我今天去了市场。", "「はい」と", "สวัสดีครับ", FAMILY, "e\u0301" * 4, "\ud83d", "\x00",
    "\n\n", "https://x.test/a?b=c",
)  # fmt: skip
TEXTS = st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def bare(text: str) -> str:
    return "".join(text.split())


@given(TEXTS, st.integers(min_value=2, max_value=80))
def test_the_parts_are_the_text_and_each_fits(text: str, limit: int) -> None:
    """W6: nothing is lost or added but white space, no part is empty or longer than the world takes, none is half a character."""
    parts = split(text, limit)
    assert bare("".join(parts)) == bare(cleaned(text))
    assert all(part and part == part.strip() and size(part) <= limit for part in parts)
    assert all(part.encode() for part in parts)


@given(TEXTS)
def test_without_a_limit_a_text_is_one_part(text: str) -> None:
    """W6: a world that takes any length gets the words as they are, but for what cannot be sent."""
    assert split(text, None) == ((cleaned(text),) if cleaned(text) else ())


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("Hello there. How are you? I am well, thank you.", 30, ("Hello there. How are you?", "I am well, thank you.")),
        ("The road is long, and the night is cold", 30, ("The road is long,", "and the night is cold")),
        ("one two three four", 9, ("one two", "three", "four")),
        ("我今天去了市场，买了三个苹果。然后回家了！", 10, ("我今天去了市场，", "买了三个苹果。", "然后回家了！")),
        ("see https://example.test/a/very/long/way now", 33, ("see", "https://example.test/a/very/long/", "way now")),
        (FAMILY * 2, 10, (FAMILY, FAMILY)),
        ("First.\n\nSecond, which is long", 20, ("First.", "Second, which is", "long")),
    ],
)
def test_it_is_cut_where_a_speaker_would_breathe(text: str, limit: int, parts: tuple[str, ...]) -> None:
    """W6: at the end of a paragraph, a sentence, a clause or a word, in scripts with and without blanks."""
    assert split(text, limit) == parts


def test_one_character_that_is_longer_than_the_limit_is_cut_all_the_same() -> None:
    """W6, W5: a letter under a tower of accents does not get past a limit, nor keep anything from being said."""
    parts = split("a" + "\u0301" * 50, 8)
    assert "".join(parts) == "a" + "\u0301" * 50
    assert all(len(part) <= 8 for part in parts)


def test_the_words_are_found_and_the_strictest_limit_holds() -> None:
    """W6: an action's own limit counts as the world's does, whatever its argument is called; nonsense is no limit."""
    schema = {"properties": {"to": {"type": "string"}, "message": {"type": "string", "maxLength": 50}}}
    assert field_of(schema, {"to": "Bob", "message": "hello"}) == "message"
    assert field_of({}, {"n": 1}) is None
    assert limit_of(schema, "message", 400) == 50
    assert limit_of(schema, "to", 400) == 400
    assert limit_of({"properties": {"text": {"maxLength": -1}}}, "text", None) is None


def test_a_reader_gets_time_but_not_for_ever() -> None:
    """W6: a longer line is given longer, within bounds."""
    assert 0.5 <= reading_s("Yes.") < reading_s("x" * 60) < reading_s("x" * 10_000) <= 5.0


def test_lines_that_say_the_same_are_known() -> None:
    """W6: case, marks and numbers do not make another line; other words do."""
    assert same("Well met, friend!") == same("well  met friend")
    assert same("...") != same("?!")
    assert alike(shape("I hear you, friend, for the 12th time."), shape("I hear you, friend, for the 13th time!"))
    assert not alike(shape("The mill is closed today."), shape("Bring me the white stone."))


def test_acts_keep_the_worlds_pace() -> None:
    """W6: as many at once as it takes in a second, then one by one; an absurd limit does not silence for ever."""
    pace = Pace(2.0)
    assert [pace.wait_s(100.0) for _ in range(4)] == [0.0, 0.0, 0.5, 1.0]
    assert pace.wait_s(110.0) == 0.0
    slow = Pace(1e-9)
    assert [slow.wait_s(0.0), slow.wait_s(0.0)] == [0.0, LONGEST_GAP_S]
    assert [Pace(None).wait_s(0.0) for _ in range(3)] == [0.0] * 3


def test_an_act_that_would_wait_too_long_takes_nobody_elses_place() -> None:
    """W6: what is refused for want of room does not count."""
    pace = Pace(0.2)
    waits = [pace.wait_s(0.0) for _ in range(20)]
    assert max(waits) == waits[-1] == waits[7]
