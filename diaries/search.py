"""Full-text search over diary entries, for people.

Words are found by their beginnings, in any case and with or without accents; Chinese, Japanese and Korean by any neighbouring characters;
`"words between quotation marks"` as they stand; `-word` leaves entries out. Where no entry has all the words, those with some are found.

Invariant: any text is a query, and none is an error. What is found is marked in the entry's own characters: no word of it is changed.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from diaries.entry import Entry

#: Sizes of a query.
MAX_QUERY = 500
MAX_TERMS = 24
#: Characters of an entry that are looked through for what to mark.
MARKED_CHARS = 20_000

_CJK = "[\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
_CJK_RUN = re.compile(f"{_CJK}+")
_TERM = re.compile(r"(?P<no>(?<!\S)-)?(?:[\"“”„«»](?P<phrase>[^\"“”„«»]+)[\"“”„«»]|(?P<word>[^\s\"“”„«»]+))")
_TABLE = "CREATE VIRTUAL TABLE entries USING fts5(text, place, tags, content='', tokenize='unicode61 remove_diacritics 2')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A part of a query: a word (found by its beginning) or a phrase; `wanted` or to be left out."""

    text: str
    phrase: bool = False
    wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The numbers of entries, the best first; `some` if no entry had all the words and these have some."""

    numbers: tuple[int, ...]
    some: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a text; `hit` if it is what was searched for."""

    text: str
    hit: bool = False


class Index:
    """Entries by the words in them, in memory. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(_TABLE)

    def add(self, entries: Iterable[tuple[int, Entry]]) -> None:
        """Take in entries, each under a number of its own."""
        rows = ((number, _spaced(entry.text), _spaced(entry.place), _spaced(" ".join(entry.tags))) for number, entry in entries)
        with self._lock:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT INTO entries(rowid, text, place, tags) VALUES (?, ?, ?, ?)", rows)
            self._database.execute("COMMIT")

    def search(self, terms: Sequence[Term]) -> Found:
        """The entries that have all the words, or else some of them; none for a query without words."""
        wanted = [_match(term) for term in terms if term.wanted]
        if not wanted:
            return Found(numbers=())
        without = "".join(f" NOT {_match(term)}" for term in terms if not term.wanted)
        numbers = self._matching(f"({' AND '.join(wanted)}){without}")
        if numbers or len(wanted) == 1:
            return Found(numbers=numbers)
        numbers = self._matching(f"({' OR '.join(wanted)}){without}")
        return Found(numbers=numbers, some=bool(numbers))

    def close(self) -> None:
        """Let go of it."""
        with self._lock:
            self._database.close()

    def _matching(self, query: str) -> tuple[int, ...]:
        # A word in the place's name or a tag says more than one in the text.
        sql = "SELECT rowid FROM entries WHERE entries MATCH ? ORDER BY bm25(entries, 1.0, 2.0, 2.0), rowid DESC"
        with self._lock:
            return tuple(number for (number,) in self._database.execute(sql, (query,)))


def terms_of(query: str) -> tuple[Term, ...]:
    """What a person's query asks for. Signs that no word is made of ask for nothing."""
    found = []
    for part in _TERM.finditer(query[:MAX_QUERY]):
        text = part["phrase"] or part["word"] or ""
        if any(char.isalnum() for char in text):
            found.append(Term(text=text, phrase=part["phrase"] is not None, wanted=part["no"] is None))
    return tuple(dict.fromkeys(found))[:MAX_TERMS]


def marked(text: str, terms: Sequence[Term]) -> tuple[Piece, ...]:
    """The whole of `text` in pieces, what the terms find in it among them."""
    spans = _spans(text, terms)
    pieces, at = [], 0
    for start, end in spans:
        pieces += [Piece(text=text[at:start]), Piece(text=text[start:end], hit=True)]
        at = end
    pieces.append(Piece(text=text[at:]))
    return tuple(piece for piece in pieces if piece.text)


def snippet(text: str, terms: Sequence[Term], width: int = 240) -> tuple[Piece, ...]:
    """The part of a text, about `width` characters of one line, where most of what was searched for stands; ellipses mark the cuts."""
    text = " ".join(text[:MARKED_CHARS].split())
    spans = _spans(text, terms)
    start = 0
    if spans and len(text) > width:
        margin = width // 4
        starts = [max(0, begin - margin) for begin, _ in spans]
        start = max(starts, key=lambda at: (len({text[b:e].casefold() for b, e in spans if at <= b and e <= at + width}), -at))
        start = min(start, max(0, len(text) - width))
        if start and (space := text.find(" ", start, start + 24)) >= 0:
            start = space + 1
    end = min(len(text), start + width)
    if end < len(text) and (space := text.rfind(" ", max(start, end - 24), end)) > start:
        end = space
    # A hit that the cut would break goes with it whole.
    end = max((e for b, e in spans if b < end < e), default=end)
    pieces = marked(text[start:end], terms)
    before = (Piece(text="… "),) if start else ()
    after = (Piece(text=" …"),) if end < len(text) else ()
    return (*before, *pieces, *after)


def _match(term: Term) -> str:
    """The term in the words of FTS5. A string there cannot be broken out of, and is split into words as the texts were."""
    words = _pairs(_storable(term.text), last=False).replace('"', " ")
    single = term.phrase and not _ends_in_single(term.text)
    return f'"{words}"' if single else f'"{words}" *'


def _ends_in_single(text: str) -> bool:
    """Whether a text ends with one character of a script without spaces: it was indexed as the beginning of a pair."""
    runs = _CJK_RUN.findall(text)
    return bool(runs) and len(runs[-1]) == 1 and text.rstrip().endswith(runs[-1])


def _spaced(text: str) -> str:
    return _pairs(_storable(text), last=True)


def _pairs(text: str, *, last: bool) -> str:
    """Runs of scripts without spaces as pairs of neighbours: `天气好` is `天气 气好`, and with `last` also `好`."""
    return _CJK_RUN.sub(lambda run: f" {' '.join(_parts(run.group(), last=last))} ", text) if not text.isascii() else text


def _parts(run: str, *, last: bool) -> list[str]:
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return [*pairs, run[-1]] if last or not pairs else pairs


def _storable(text: str) -> str:
    return text.replace("\x00", " ").encode("utf-8", "replace").decode()


def _spans(text: str, terms: Sequence[Term]) -> list[tuple[int, int]]:
    """Where the terms stand in the first characters of a text: in order, without overlaps."""
    patterns = [pattern for term in terms if term.wanted for pattern in [_pattern(term)] if pattern]
    if not patterns:
        return []
    plain = "".join(map(_plain, text[:MARKED_CHARS]))
    return [match.span() for match in re.finditer("|".join(patterns), plain) if match.group()]


def _pattern(term: Term) -> str:
    """What to look for in a text of plain characters."""
    words = re.findall(r"\w+", "".join(map(_plain, term.text)))
    joined = r"\W+".join(map(re.escape, words))
    if not joined:
        return ""
    begin = "" if _CJK_RUN.match(words[0]) else r"(?<!\w)" if not _CJK_RUN.search(joined) else ""
    end = "" if _CJK_RUN.search(words[-1]) else r"(?!\w)" if term.phrase else r"\w*"
    return begin + joined + end


@lru_cache(maxsize=8192)
def _plain(char: str) -> str:
    """A character without case and accents; still one character, so that places in the text stay what they are."""
    return (unicodedata.normalize("NFKD", char)[:1].casefold()[:1] or char) if char.isalnum() else char
