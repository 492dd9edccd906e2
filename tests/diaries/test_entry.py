"""Entries: clean from the start, whole in every form (D1, W5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from diaries import DiaryError, Entry
from diaries.entry import MAX_TEXT

# Everything that a player can type, and more: controls, lone surrogates, separators, Markdown, HTML.
marks = st.sampled_from([*"\x00\x1b\x85\u2028\u202e\ud800\r\n\t`*_[]<>&#-+=~|:!\\ 1.)a", "&amp;", "\n\n", "---|---", "__a__", "    "])
anything = st.lists(marks | st.text(max_size=6), max_size=60).map("".join)
entries = st.builds(
    Entry,
    at=st.floats(0, 4e9),
    text=anything.map(lambda text: text + "x"),
    id=anything,
    author=st.sampled_from(["agent", "runtime"]),
    world_time=anything,
    place=anything,
    tags=st.lists(anything, max_size=4).map(tuple),
    events=st.none() | st.tuples(st.integers(0, 10**6), st.integers(10**6, 10**9)),
    epoch=anything,
)


@settings(max_examples=60)
@given(entries)
def test_every_form_is_whole_and_harmless(entry: Entry) -> None:
    """D1: what comes back from the JSON form is the entry, and no form of it holds what a file or a terminal cannot take."""
    line = json.dumps(entry.to_json(), ensure_ascii=False)
    assert Entry.from_json(json.loads(line)) == entry
    assert len(line.encode().splitlines()) == len(line.splitlines()) == 1
    for text in (entry.text, entry.place, *entry.tags, entry.to_markdown()):
        assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c == "\u202e" for c in text)
    assert "\n" not in entry.place + entry.world_time + entry.id + entry.epoch + "".join(entry.tags)


@settings(max_examples=60)
@given(entries)
def test_markdown_renders_as_the_words(entry: Entry) -> None:
    """D2: no text can pass for a heading, a second entry, a link, an image or HTML on a page of the diary."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(entry.to_markdown())
    kinds = [token.type for token in tokens]
    assert set(kinds) == {"heading_open", "inline", "heading_close", "paragraph_open", "paragraph_close"}
    assert kinds.count("heading_open") == 1
    body = [token for token in tokens if token.type == "inline"][2:]
    for token in body:
        assert {child.type for child in token.children or []} <= {"text", "text_special", "hardbreak", "softbreak"}
    shown = "\n".join("".join(child.content or "\n" for child in token.children or []) for token in body)
    # Blanks at the edges of a line are layout; everything else is the entry's.
    assert "".join(shown.split()) == "".join(entry.text.split())


def test_a_hostile_entry_keeps_its_words() -> None:
    """W5: cleaning changes characters that are no words, and nothing else."""
    words = "Hail!\x1b[2J\r\n\ud83d \u202eolleh\u2028冒険 🙂 نعم\x00"
    entry = Entry(at=0, text=words, place="The\nMill\t Road", tags=("Context Reset!", "", "context-reset", "ñ"))
    assert entry.text == "Hail!\ufffd[2J\n\ufffd olleh\n冒険 🙂 نعم\ufffd"
    assert entry.place == "The Mill Road"
    assert entry.tags == ("context-reset", "ñ")


def test_a_long_text_is_cut_and_says_so() -> None:
    entry = Entry(at=0, text="word " * 10_000)
    assert len(entry.text) <= MAX_TEXT
    assert entry.text.endswith("more characters]")


def test_the_day_is_the_same_everywhere() -> None:
    before, after = Entry(at=86_399.9, text="x"), Entry(at=86_400, text="x")
    assert (before.day, before.clock, after.day, after.clock) == ("1970-01-01", "23:59:59", "1970-01-02", "00:00:00")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"at": float("nan")}, "unix seconds"),
        ({"at": 10**400}, "unix seconds"),
        ({"at": True}, "unix seconds"),
        ({"at": "now"}, "unix seconds"),
        ({"text": " \n\u2028 "}, "needs a text"),
        ({"text": 5}, "'text' must be a text"),
        ({"author": "a player"}, "'agent' or 'runtime'"),
        ({"tags": "context-reset"}, "list of texts"),
        ({"events": [5, 1]}, "first to the last"),
        ({"events": [1, 2, 3]}, "first and the last"),
        ({"events": [True, 2]}, "first and the last"),
    ],
)
def test_what_is_no_entry_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(DiaryError, match=says):
        Entry.from_json(Entry(at=1, text="x").to_json() | change)


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_only_an_object_is_an_entry(value: Any) -> None:
    with pytest.raises(DiaryError, match="JSON object"):
        Entry.from_json(value)
