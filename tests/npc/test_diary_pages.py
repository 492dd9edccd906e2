"""The diary as pages: what they show, to whom, and that nothing an entry says is more than words (D1, D2, D4, W5)."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from diaries import CONTEXT_RESET, Book, Entry
from runtime.store.journal import Journal
from tests.diaries.sample import write_village
from tests.npc.diary_server import Served, diary_server

NOON = 1_900_000_000.0
HOSTILE = (
    '</p></article><script>alert(1)</script><img src=x onerror=alert(2)> & "q" \'s\' {{ 7*7 }} {% raw %}\n\n'
    "[a](javascript:alert(3)) \u2067\u2067 " + "\u0301" * 50 + " " + "W" * 5_000
)


class Reading(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words += data


async def write_log(home: Path) -> None:
    """An event log with what happened behind the first entry."""
    async with await Journal.open(home / "session.db") as journal:
        source = {"id": "p1", "name": "Ilse <b>", "kind": "player"}
        journal.append("attached", {"npc": "maren", "world": "Harrowmere"})
        journal.append("observation", {"seq": 1, "t": NOON, "kind": "speech", "text": "The grey <i>hat</i>!", "from": source})
        journal.append("answer", {"content": [{"type": "text", "text": "A hat, then."}]})
        journal.append("intent", {"action": "a-1", "name": "say", "args": {"text": "A hat, then."}})
        journal.append("intent", {"action": "a-2", "name": "go", "args": {"to": "mill", "fast": True}})
        journal.append("outcome", {"action": "a-2", "state": "failed", "text": "the door is shut"})
        journal.append("observation", {"seq": 2, "t": NOON, "kind": "notice", "text": "Snow falls.", "from": None})
        for number in range(150):
            journal.append("observation", {"seq": 3 + number, "t": NOON, "kind": "notice", "text": f"flake {number}"})


@pytest.fixture(scope="module")
def village(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("village")
    homes = write_village(root)
    strange = root / "strange"
    book = Book(strange / "diary")
    strange.mkdir()
    (strange / "persona.toml").write_text("[character\n", encoding="utf-8")
    book.append(Entry(at=NOON, text=HOSTILE, place='"><script>x', world_time="<b>day 1</b>, 10:00", tags=("a&b",), events=(1, 400)))
    for number in range(50):
        book.append(Entry(at=NOON + number, text=f"turn {number} of many", world_time="turn 5"))
    with book.path.open("ab") as file:
        file.write(b"<script>torn")
    asyncio.run(write_log(strange))
    (homes["oda"] / "session.db").write_text("this is no database, whatever it is called " * 50)
    return root


@pytest.fixture(scope="module")
def served(village: Path) -> Iterator[Served]:
    with diary_server(village) as server:
        yield server


def test_every_diary_has_its_pages(served: Served) -> None:
    """D2: several NPCs on one page; from there by day, with links to what was before and after, and to each entry for good."""
    assert served.npcs == ["林雨", "Maren", "Oda", "strange"]
    shelf = served.get("/")
    assert shelf.status == 200
    links = re.findall(r'href="(/npc/[^"]+)"', shelf.text)
    assert links == ["/npc/lin", "/npc/maren", "/npc/oda", "/npc/strange"]
    day = served.get("/npc/maren/day/day-13").text
    assert [re.search(rf'rel="{way}" href="([^"]+)"', day) is not None for way in ("prev", "next")] == [True, True]
    assert "10 May 2031" in day
    entry = re.search(r'class="permalink" href="([^"]+)"', day)
    assert entry
    alone = served.get(entry[1]).text
    assert "Read it within its day" in alone
    assert alone.count("<article") == 1
    contents = served.get("/npc/maren/contents").text
    assert re.findall(r'href="/npc/maren/day/([^"]+)"', contents) == [f"day-{number}" for number in (16, 15, 14, 13, 12, 11)]


def test_resets_and_undone_entries_are_marked(served: Served) -> None:
    """D1, D4: who wrote an entry, that the context was let go there, and what did not happen after all can be seen, not only by colour."""
    reset = served.get("/npc/maren/day/day-12").text
    assert reset.count("Context reset") == 1
    assert reset.count("Written by the runtime from the event log") == 1
    undone = served.get("/npc/maren/day/day-15").text
    assert undone.count("<strong>Undone.</strong>") == 2
    assert undone.count("the world was set back to the evening of day 14") == 2
    assert undone.count("<del>") == 3


def test_search_filters_and_marks(served: Served) -> None:
    """D2: by words, NPC, day and tag; the filters that were set are still set in the form."""
    hits = served.get(f"/search?q={quote('grey hat')}").text
    assert "<mark>hat</mark>" in hits
    assert hits.count("<li class=") == len(re.findall(r"<h2><a href=", hits)) >= 3
    assert served.get("/search?q=stones&npc=oda").text.count("<li class=") == 0
    tagged = served.get(f"/search?npc=maren&tag={CONTEXT_RESET}").text
    assert tagged.count("<li class=") == 2
    assert f"<option selected>{CONTEXT_RESET}</option>" in tagged
    for day in ("day+13", "DAY+13", "2031-05-10"):
        assert served.get(f"/search?q=bram&day={day}").text.count("<li class=") >= 1, day
    assert "No entry is like that." in served.get("/search?q=xylophone").text
    chinese = served.get(f"/search?q={quote('白石头')}").text
    assert "<mark>白石头</mark>" in chinese


def test_whatever_an_entry_says_is_words(served: Served) -> None:
    """W5: hostile text, place, world time, tags, notes and events add no element to a page and lose no character."""
    plain = served.get("/npc/maren/day/day-13").text
    known = set(Reading(plain).tags) | {"aside", "ul", "li", "mark", "ol", "select", "option", "strong", "q", "b"}
    day = served.get("/npc/strange/day/day-1")
    assert day.status == 200
    hits = served.get("/search?q=script").text
    behind = served.get("/npc/strange/behind/20300317-1").text
    for page in (day.text, hits, behind, served.get(f"/search?q={quote(HOSTILE[:200])}&tag=%22%3E%3Cscript%3E&day=%3Cb%3E1").text):
        read = Reading(page)
        assert set(read.tags) <= known, set(read.tags) - known
        assert read.tags.count("script") == 1
        assert not [name for name, _ in read.attributes if name.startswith("on")]
        ways = [value or "" for name, value in read.attributes if name in ("href", "src", "action")]
        assert not [way for way in ways if not way.startswith(("/", "#", "data:image/svg"))]
    assert "<script>alert(1)</script><img src=x onerror=alert(2)> & \"q\" 's' {{ 7*7 }} {% raw %}" in Reading(day.text).words
    assert "<script>torn" not in day.text


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(served: Served) -> None:
    """C35: a torn line, a broken persona, a log that is no database: a sentence each, and the diary all the same."""
    page = served.get("/npc/strange").text
    assert "the last line of entries.jsonl was left out: it is torn" in page
    assert "turn 49 of many" in page
    entry = re.search(r'href="(/npc/oda/behind/[^"]+)"', served.get("/npc/oda").text)
    assert entry
    broken = served.get(entry[1])
    assert broken.status == 200
    assert "The event log cannot be read just now" in broken.text
    assert "is not here" in served.get("/npc/maren/behind/20310509-1").text


def test_what_happened_behind_an_entry(served: Served) -> None:
    """D1: the events that an entry covers, told as what was heard, said, done and seen, a bounded part at a time."""
    part = served.get("/npc/strange/behind/20300317-1?part=1").text
    words = " ".join(Reading(part).words.split())
    assert "<html" not in part
    assert "Ilse <b> said: The grey <i>hat</i>!" in words
    assert words.count("A hat, then.") == 1
    assert "strange did: go (to mill, fast True)" in words
    assert "that failed: the door is shut" in words
    assert part.count("<li") <= 120
    more = re.search(r'class="more" href="([^"]+)"', part)
    assert more
    rest = served.get(more[1]).text
    assert "flake 149" in rest
    assert "flake 0<" not in rest


def test_a_long_day_comes_in_parts(served: Served) -> None:
    first = served.get("/npc/strange/day/2030-03-17").text
    assert (first.count("<article"), "Part 1 of 2" in first) == (40, True)
    newest = served.get("/npc/strange").text
    assert (newest.count("<article"), "Part 2 of 2" in newest) == (10, True)
    for page in ("0", "-1", "99", "x", "9" * 5_000, "%00"):
        assert served.get(f"/npc/strange/day/2030-03-17?page={page}").text.count("<article") in (10, 40)


def test_new_entries_are_given_to_an_open_page(served: Served, village: Path) -> None:
    """D2: what is written while a page is open is handed to it, the entries of its day as markup and the others by number."""
    book = Book(village / "lin" / "diary")
    last = book.entries().entries[-1].id
    assert '"count":0' in served.get(f"/npc/lin/new?after={last}&day=day-13").text
    book.append(Entry(at=NOON + 1e8, text="又下雪了。<b>", world_time="day 13, 23:00"))
    book.append(Entry(at=NOON + 1e8, text="新的一天。", world_time="day 14, 06:00"))
    told = served.get(f"/npc/lin/new?after={last}&day=day-13")
    assert told.headers["content-type"] == "application/json"
    assert ('"count":2' in told.text, '"elsewhere":1' in told.text, "又下雪了。&lt;b&gt;" in told.text) == (True, True, True)
    assert "新的一天" not in told.text


@pytest.mark.parametrize(
    "path",
    ["/npc/nobody", "/npc/maren/day/day-99", "/npc/maren/entry/..%2f..%2fetc", "/x", "/assets/..%2fapp.py", "/assets/x", "/npc/%00"],
)
def test_a_wrong_address_is_a_page_with_the_way_back(served: Served, path: str) -> None:
    answer = served.get(path)
    assert answer.status == 404
    assert 'href="/"' in answer.text


def test_only_reading_only_under_its_own_name(served: Served) -> None:
    """S3: no page under a foreign name can read along; nothing can be changed; a page may load nothing from elsewhere, framed nowhere."""
    assert served.get("/", host="evil.example").status == 421
    assert served.get("/", host="evil.example:8477").status == 421
    assert served.get("/", host="LOCALHOST:1").status == 200
    assert served.get("/", method="POST").status == 405
    for path in ("/", "/x", "/npc/maren", "/assets/book.js"):
        policy = served.get(path).headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
    port = int(served.url.rstrip("/").rsplit(":", 1)[1])
    for address in {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1", "127.0.1.1"}:
        with socket.socket() as outside:
            outside.settimeout(5)
            assert outside.connect_ex((str(address), port)) != 0
