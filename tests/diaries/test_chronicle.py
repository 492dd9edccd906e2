"""The entry that the runtime writes at a hard reset (D1, P7)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from diaries import CONTEXT_RESET
from diaries.chronicle import Happening, Reset, reset_entry

wild = st.lists(st.text(max_size=12) | st.sampled_from('"“”„«»「」 \n\x00\ud800'), max_size=40).map("".join)
happenings = st.lists(
    st.builds(Happening, kind=st.sampled_from(["heard", "said", "did", "saw"]), text=wild, who=wild, event=st.integers(0, 2**40)),
    max_size=30,
)
resets = st.builds(
    Reset,
    at=st.floats(0, 4e9),
    why=wild,
    context_tokens=st.integers(0, 10**9),
    window_tokens=st.integers(0, 10**9),
    doing=wild,
    place=wild,
    world_time=wild,
    kept=wild,
    epoch=wild,
)


def test_the_entry_tells_what_happened() -> None:
    """D1: why, how large the context was, what was being done, with whom, the last words heard and said; when, where, which events."""
    entry = reset_entry(
        Reset(
            at=1_900_000_000,
            why="nothing smaller made it fit.",
            context_tokens=10_412,
            window_tokens=10_000,
            doing="fetch flour for Oda.",
            place="the Gatehouse",
            world_time="dusk of day 12",
            kept="reset-7.json",
            epoch="e1",
        ),
        [
            Happening(kind="heard", who="Oda", text="Bring flour, would you?", event=120),
            Happening(kind="heard", who="Bram", text="The mill is shut!", event=131),
            Happening(kind="said", text="Then I wait.", event=140),
        ],
    )
    assert entry.text == (
        "I was in the middle of this: fetch flour for Oda. I had been speaking with Bram and Oda. The last words I heard came from Bram: "
        "“The mill is shut!” The last words I said were: “Then I wait.”\n\n"
        "Then I had to let go of everything that I held in mind because nothing smaller made it fit: my thoughts had come to 10,412 "
        "tokens, where 10,000 are what I can hold at once. I write this at the Gatehouse; the world's clock says dusk of day 12.\n\n"
        "All of it is kept as reset-7.json and stands in the log as events 120 to 140. I go on from what is before me now."
    )
    assert (entry.author, entry.tags, entry.events) == ("runtime", (CONTEXT_RESET,), (120, 140))
    assert (entry.at, entry.place, entry.world_time, entry.epoch) == (1_900_000_000, "the Gatehouse", "dusk of day 12", "e1")


def test_a_quiet_night_is_told_as_one() -> None:
    """D1: with no facts but the sizes there is still an entry, and it invents nothing."""
    entry = reset_entry(Reset(at=0, why="", context_tokens=9_000, window_tokens=10_000), [])
    assert entry.text == (
        "Nobody had spoken to me since I last wrote.\n\n"
        "Then I had to let go of everything that I held in mind: my thoughts had come to 9,000 tokens, where 10,000 are what I can hold at "
        "once.\n\n"
        "I go on from what is before me now."
    )
    assert entry.events is None


def test_a_crowd_is_counted_not_listed() -> None:
    crowd = [Happening(kind="heard", who=f"Guest {number}", text="Hail!") for number in range(40)]
    text = reset_entry(Reset(at=0, why="x", context_tokens=1, window_tokens=1), crowd).text
    assert "I had been speaking with Guest 39, Guest 38, Guest 37, Guest 36, Guest 35 and 35 others." in text


def test_deeds_and_sights_stand_in_for_words() -> None:
    """D1: an NPC that nobody spoke to tells what it did and saw instead."""
    deeds = [Happening(kind="did", text="walk north"), Happening(kind="did", text="open the door")]
    seen = [*deeds, Happening(kind="saw", text="A rat runs off.")]
    text = reset_entry(Reset(at=0, why="x", context_tokens=1, window_tokens=1), seen).text
    assert "The last thing I did was this: open the door." in text
    assert "The last thing I saw: “A rat runs off.”" in text


@settings(max_examples=80)
@given(resets, happenings)
def test_always_short_and_never_in_another_voice(reset: Reset, facts: list[Happening]) -> None:
    """D1, W5: at most 200 words whatever the facts, and nobody's words can close the marks that they stand between."""
    entry = reset_entry(reset, facts)
    assert len(entry.text.split()) <= 200
    assert len(entry.text) <= 2_000
    # Quotes open and close strictly in turn, and as often as we opened one.
    marks = [mark for mark in entry.text if mark in "“”"]
    assert marks == ["“", "”"] * entry.text.count(": “")
    assert len(marks) <= 6
    assert entry.text.count("\n\n") <= 2


def test_a_shout_of_a_megabyte_is_cut() -> None:
    """S1: a monster of a line does not make a monster of an entry."""
    loud = Happening(kind="heard", who="Troll " * 1_000, text="ROAR " * 200_000)
    text = reset_entry(Reset(at=0, why="x", context_tokens=1, window_tokens=1), [loud]).text
    assert "came from Troll Troll Troll…: “ROAR ROAR" in text
    assert len(text) < 1_000
