"""Search and shelf: any words in any script find their entries, what is found is marked, and what changes on disk is seen (D2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diaries import Book, Entry
from diaries.search import Index, marked, snippet, terms_of
from diaries.shelf import Shelf, Source
from tests.diaries.sample import write_village

NOON = 1_900_000_000.0


@pytest.fixture(scope="module")
def village(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_village(tmp_path_factory.mktemp("village"))


def shelf_of(homes: dict[str, Path]) -> Shelf:
    return Shelf(lambda: [Source(key=key, name=key, folder=home / "diary") for key, home in homes.items()])


def found(shelf: Shelf, query: str) -> list[str]:
    return [f"{hit.volume.source.key}: {hit.entry.text[:24]}" for hit in shelf.search(terms_of(query)).hits]


def test_words_find_their_entries(village: dict[str, Path]) -> None:
    """D2: by beginnings, in any case, with or without accents, as phrases, without some; Chinese by one character, two or more."""
    shelf = shelf_of(village)
    assert found(shelf, "tomkin boy daily")[0] == "maren: It is Tomkin. Nine years"
    assert found(shelf, "SOURDOUGH") == found(shelf, "sourd") == ["oda: Up at three, as bread wa"]
    assert len(found(shelf, "grey hat")) > len(found(shelf, "grey hat -goose")) == len(found(shelf, "grey hat -GOO"))
    assert found(shelf, '"the hat and not"') == ["maren: Spoke to Ilse. She is su"]
    assert found(shelf, '"hat the and not"') == []
    for query in ("石", "头", "石头", "一块白石头", "春茶 白石头"):
        assert found(shelf, query) == ["lin: 今天天气好，河边的冰开始化了。早上来了三位客人，"], query
    assert found(shelf, "石茶") == []


def test_where_no_entry_has_all_words_some_are_found(village: dict[str, Path]) -> None:
    hits = shelf_of(village).search(terms_of("sourdough xylophone"))
    assert hits.some
    assert [hit.volume.source.key for hit in hits.hits] == ["oda"]
    hits = shelf_of(village).search(terms_of("sourdough apples"))
    assert not hits.some
    assert len(hits.hits) == 1


def test_what_was_found_is_marked_in_its_own_characters() -> None:
    text = "At the CAFÉ a stonecutter sat. " + "Nothing happened. " * 40 + "Then the stones fell. 一块白石头"
    pieces = marked(text, terms_of("cafe stone 石头"))
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.text for piece in pieces if piece.hit] == ["CAFÉ", "stonecutter", "stones", "石头"]
    parts = snippet(text, terms_of("stones fell"), 80)
    assert [piece.text for piece in parts if piece.hit] == ["stones", "fell"]
    assert parts[0].text == "… "
    assert sum(len(piece.text) for piece in parts) < 90


signs = st.sampled_from([*'"*-^:(){}“”石头 \x00\ud800', "AND", "NEAR(", "a", "é", "text:", "-", "ﬁ", "İ"])
wild = st.lists(signs | st.text(max_size=4), max_size=20).map("".join)


@settings(max_examples=150)
@given(wild, wild)
def test_any_text_is_a_query(text: str, query: str) -> None:
    """W5: nothing that a person types is an error or an operator of the index, and marking changes no character."""
    index = Index()
    index.add([(0, Entry(at=1, text=text + " x"))])
    terms = terms_of(query)
    index.search(terms)
    index.close()
    assert "".join(piece.text for piece in marked(text, terms)) == text
    snippet(text, terms, 40)


def test_a_word_of_an_entry_finds_it() -> None:
    index = Index()
    texts = ["The mill turned.", "Don't tell Ilse", "naïve Zoë", "हिन्दी में", "안녕하세요 세계", "ガラスの靴", "C3PO-unit", "Œuvre"]
    index.add((number, Entry(at=1, text=text)) for number, text in enumerate(texts))
    for number, text in enumerate(texts):
        for word in text.strip(".").split():
            assert number in index.search(terms_of(word)).numbers, word
            assert any(piece.hit for piece in marked(text, terms_of(word))), word
    index.close()


def test_the_shelf_sees_what_changes(tmp_path: Path) -> None:
    """D2, C35: appended, torn, edited by hand, undone, unreadable, gone: each look shows the diary as it is, and finds in it."""
    book = Book(tmp_path / "diary")
    shelf = shelf_of({"a": tmp_path})
    assert shelf.refresh()[0].entries == ()
    first = book.append(Entry(at=NOON, text="one heron", world_time="day 3, 10:00")).entry
    assert found(shelf, "heron") == ["a: one heron"]
    second = book.append(Entry(at=NOON + 5, text="two herons", world_time="day 4, 10:00")).entry
    assert found(shelf, "heron") == ["a: two herons", "a: one heron"]
    volume = shelf.refresh()[0]
    assert [(day.name, day.slug) for day in volume.days] == [("day 3", "day-3"), ("day 4", "day-4")]
    assert volume.after(first.id) == (second,)

    book.mark_undone([second.id], why="the world was set back", at=NOON + 6)
    volume = shelf.refresh()[0]
    assert [entry.undone for entry in volume.entries] == ["", "the world was set back"]

    with book.path.open("ab") as file:
        file.write(b'{"torn": ')
    assert "torn" in shelf.refresh()[0].notes[0]
    third = book.append(Entry(at=NOON + 7, text="three geese")).entry
    volume = shelf.refresh()[0]
    assert volume.entries[-1] == third
    assert volume.notes == ("line 3 of entries.jsonl was left out: it is not JSON",)

    book.path.write_text(book.path.read_text(encoding="utf-8").replace("one heron", "one swan"), encoding="utf-8")
    assert found(shelf, "swan") == ["a: one swan"]
    assert found(shelf, "heron") == ["a: two herons"]

    book.path.rename(tmp_path / "aside")
    book.path.mkdir()
    volume = shelf.refresh()[0]
    assert volume.unreadable
    assert len(volume.entries) == 3
    book.path.rmdir()
    assert shelf.refresh()[0].entries == ()
    (tmp_path / "aside").rename(book.path)
    assert len(shelf.refresh()[0].entries) == 3


def test_what_is_undone_is_marked_once_and_on_its_page(tmp_path: Path) -> None:
    """D4: the entries stay as they were written; every reader and the page of their day say so. Broken marks cost none."""
    book = Book(tmp_path)
    ids = [book.append(Entry(at=NOON + number, text=f"number {number}", world_time="day 9, 12:00")).entry.id for number in range(3)]
    truth = book.path.read_bytes()
    assert book.mark_undone(ids[1:], why="set back to day 8", at=NOON) == tuple(ids[1:])
    assert book.mark_undone(ids, why="set back again", at=NOON) == (ids[0],)
    assert book.path.read_bytes() == truth
    assert [entry.undone for entry in Book(tmp_path).entries().entries] == ["set back again", "set back to day 8", "set back to day 8"]
    assert (tmp_path / "day-9.md").read_text(encoding="utf-8").count("undone: set back to day 8") == 2
    with book.undone_path.open("ab") as file:
        file.write(b'[1]\n{"entry": "x"')
    listing = book.entries()
    assert [bool(entry.undone) for entry in listing.entries] == [True, True, True]
    assert len(listing.notes) == 2
    fourth = book.append(Entry(at=NOON + 9, text="after")).entry
    assert book.mark_undone([fourth.id], why="", at=NOON) == (fourth.id,)
    assert book.entries().entries[-1].undone == "the world was set back to an earlier state"
