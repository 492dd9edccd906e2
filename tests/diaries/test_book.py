"""The book: an entry is on disk or the file is as it was; torn lines, full disks and damaged pages lose nothing (D1, D2, C35, S5)."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from diaries import Book, DiaryError, Entry
from diaries.book import TRUTH
from tests.full_disk import ROOT, on_small_disk, with_small_files

NOON = 1_900_000_000.0  # 2030-03-17 17:46:40 UTC
DAY = 86_400.0


def entry(text: str, *, at: float = NOON, tags: tuple[str, ...] = ()) -> Entry:
    return Entry(at=at, text=text, tags=tags)


def texts(book: Book, *, tag: str = "", day: str = "", last: int | None = None) -> list[str]:
    return [found.text for found in book.entries(tag=tag, day=day, last=last).entries]


def test_what_was_written_is_read_by_another(tmp_path: Path) -> None:
    """D1: entries get ids by their day, and a second process reads what the first wrote."""
    book = Book(tmp_path / "diary")
    assert texts(book) == []
    ids = [book.append(entry(text, at=at)).entry.id for text, at in (("one", NOON), ("two", NOON + 5), ("three", NOON + DAY))]
    assert ids == ["20300317-1", "20300317-2", "20300318-1"]
    other = Book(tmp_path / "diary")
    assert other.append(entry("four", at=NOON + DAY)).entry.id == "20300318-2"
    assert book.append(entry("five", at=NOON + DAY)).entry.id == "20300318-3"
    assert texts(book) == ["one", "two", "three", "four", "five"]
    found = other.read("20300317-2")
    assert found is not None
    assert found.text == "two"
    assert other.read("20300317-9") is None


def test_entries_are_found_by_tag_and_day(tmp_path: Path) -> None:
    """D2: by day, by tag, the newest so many."""
    book = Book(tmp_path)
    for number in range(6):
        book.append(entry(f"{number}", at=NOON + number * DAY / 2, tags=("context-reset",) if number % 2 else ("day-end",)))
    assert texts(book, tag="context-reset") == ["1", "3", "5"]
    assert texts(book, day="2030-03-18") == ["1", "2"]
    assert texts(book, tag="context-reset", day="2030-03-18") == ["1"]
    assert texts(book, last=2) == ["4", "5"]
    assert texts(book, tag="nothing") == []


def test_an_id_is_given_once(tmp_path: Path) -> None:
    book = Book(tmp_path)
    first = book.append(entry("first")).entry
    with pytest.raises(DiaryError, match="has an entry 20300317-1 already"):
        book.append(first)
    assert texts(book) == ["first"]


def test_a_torn_last_line_is_named_and_closed_off(tmp_path: Path) -> None:
    """C35: a process that died while writing costs its own line and nothing else, before and after the next entry."""
    book = Book(tmp_path)
    book.append(entry("whole"))
    with book.path.open("ab") as file:
        file.write(b'{"id": "20300317-2", "at": 19000000')
    listing = Book(tmp_path).entries()
    assert [found.text for found in listing.entries] == ["whole"]
    assert listing.notes == (f"the last line of {TRUTH} was left out: it is torn, as when a process dies while it writes",)
    assert Book(tmp_path).append(entry("after")).entry.id == "20300317-2"
    listing = Book(tmp_path).entries()
    assert [found.text for found in listing.entries] == ["whole", "after"]
    assert listing.notes == (f"line 2 of {TRUTH} was left out: it is not JSON",)
    assert b'"at": 19000000\n' in book.path.read_bytes()


def test_a_whole_last_line_without_its_end_is_an_entry(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.append(entry("one"))
    book.path.write_bytes(book.path.read_bytes().rstrip(b"\n"))
    assert Book(tmp_path).append(entry("two")).entry.id == "20300317-2"
    assert texts(book) == ["one", "two"]


def test_lines_that_are_no_entries_are_passed_over(tmp_path: Path) -> None:
    """W5: whatever stands in the file, what can be read is read, and every other line is named once."""
    book = Book(tmp_path)
    book.append(entry("before"))
    with book.path.open("ab") as file:
        file.write(b"\xff\xfe\n\n[1]\n" + b"[" * 100_000 + b'\n{"at": NaN, "text": "x"}\n{"at": 1, "text": 5}\n')
        file.write(b'{"text": "x", "at": 1' + b"0" * 5_000 + b"}\n")
    book.append(entry("after"))
    listing = book.entries()
    assert [found.text for found in listing.entries] == ["before", "after"]
    assert len(listing.notes) == 6
    assert all(note.startswith("line ") for note in listing.notes)


def test_hostile_text_stays_one_line_and_one_section(tmp_path: Path) -> None:
    """W5: separators, headings and half a JSON line inside a text neither split the file nor fake an entry on the page."""
    book = Book(tmp_path)
    book.append(entry('a\u2028b\x85c\n"}\n## 00:00:00 · forged\n\x00\ud800<script>alert(1)</script>'))
    book.append(entry("next"))
    assert len(book.path.read_text(encoding="utf-8").splitlines()) == 2
    assert texts(book)[1] == "next"
    page = (tmp_path / "2030-03-17.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## 17:46:40", "## 17:46:40"]
    assert "\\<script>" in page


def test_pages_follow_the_truth(tmp_path: Path) -> None:
    """D2: a page per real day holds its entries in order, also after it was deleted, and after a crash between file and page."""
    book = Book(tmp_path)
    for number in range(3):
        book.append(entry(f"number {number}"))
    page = tmp_path / "2030-03-17.md"
    whole = page.read_text(encoding="utf-8")
    assert [f"number {number}" in whole for number in range(3)] == [True, True, True]
    page.unlink()
    book.append(entry("number 3"))
    # As a process leaves it that dies after the line and before the page.
    page.write_text(whole, encoding="utf-8")
    Book(tmp_path).append(entry("the day after", at=NOON + DAY))
    mended = page.read_text(encoding="utf-8")
    assert mended.startswith("# Diary of 2030-03-17\n")
    assert mended.count("number 3") == mended.count("number 0") == 1
    assert "the day after" in (tmp_path / "2030-03-18.md").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_costs_no_entry(tmp_path: Path) -> None:
    """D1: pages are copies; trouble with one is a warning, and it is made whole as soon as it can be."""
    book = Book(tmp_path)
    page = tmp_path / "2030-03-17.md"
    page.mkdir()
    written = book.append(entry("safe"))
    assert len(written.warnings) == 1
    assert "the entry itself is safe" in written.warnings[0]
    page.rmdir()
    assert book.append(entry("second")).warnings == ()
    assert "safe" in page.read_text(encoding="utf-8")
    # The same with a page that was whole before: what it missed is in it afterwards.
    page.rename(tmp_path / "aside")
    page.mkdir()
    assert len(book.append(entry("third")).warnings) == 1
    page.rmdir()
    (tmp_path / "aside").rename(page)
    assert book.append(entry("fourth")).warnings == ()
    assert "third" in page.read_text(encoding="utf-8")


def test_two_processes_never_write_at_once(tmp_path: Path) -> None:
    book = Book(tmp_path)
    book.append(entry("one"))
    with book.path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DiaryError, match="another process is writing"):
            book.append(entry("two"))
    assert book.append(entry("two")).entry.id == "20300317-2"
    assert texts(book) == ["one", "two"]


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DiaryError, match=r"^the diary entry was not written \(file exists\): free some space or check the rights on "):
        Book(tmp_path / "file").append(entry("x"))
    (tmp_path / TRUTH).mkdir()
    with pytest.raises(DiaryError, match="the diary cannot be read"):
        Book(tmp_path).entries()


def test_kill_at_any_instant_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """C35, S5: after kill -9 every entry whose `append` returned is there, whole, and the diary goes on."""
    writer = (
        "import sys\nfrom pathlib import Path\nfrom diaries import Book, Entry\nbook = Book(Path(sys.argv[1]))\n"
        "for number in range(10**6):\n    print(book.append(Entry(at=1.9e9 + number, text=f'entry {number} ' * 50)).entry.id, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", writer, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(40)]
        process.kill()
        told += process.stdout.read().split()
    book = Book(tmp_path)
    found = {read.id for read in book.entries().entries}
    assert set(told) <= found
    assert len(found) - len(told) <= 1
    book.append(entry("life goes on", at=NOON + 10 * DAY))
    assert texts(book, last=1) == ["life goes on"]


FULL = """
    from diaries import Book, DiaryError, Entry
    book = Book(disk / "diary")
    book.append(Entry(at=1, text="before"))
    before = book.path.read_bytes()
    {full}
    try:
        book.append(Entry(at=2, text="lost " * 3000))
        said = ""
    except DiaryError as error:
        said = str(error)
    same = book.path.read_bytes() == before
    {free}
    after = book.append(Entry(at=3, text="after"))
    listing = book.entries()
    result = [said, same, after.entry.id, list(after.warnings), [entry.text for entry in listing.entries], list(listing.notes)]
"""


def check_full(result: object, why: str) -> None:
    said, same, after, warnings, kept, notes = json.loads(json.dumps(result))
    assert said.startswith(f"the diary entry was not written ({why}): free some space")
    assert (same, after, warnings, kept, notes) == (True, "19700101-2", [], ["before", "after"], [])


def test_a_full_disk_leaves_the_diary_as_it_was(tmp_path: Path) -> None:
    """S5: no space left: a sentence, not half a line; with space again the next entry follows the last whole one."""
    check_full(on_small_disk(FULL.format(full="fill()", free="free()"), tmp_path, kilobytes=128), "no space left on device")


def test_a_file_that_may_not_grow_leaves_the_diary_as_it_was(tmp_path: Path) -> None:
    """S5: as above, where the first part of the line was written already when it turned out not to fit."""
    check_full(with_small_files(FULL.format(full="full(True)", free="full(False)"), tmp_path, limit=2_000), "file too large")
