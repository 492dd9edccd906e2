"""What the NPC heard, one line each, found again by its rare words.

Invariant: the same text gives the same terms for ever, because the terms on disk were made by it. A line is kept once for each speaker,
with the newest time it was said.

Ranking is BM25 with each term counted once a line (chat lines hardly repeat a word). FTS5 gives the lists of lines for a term; its own
`bm25()` takes ten times as long, since it weighs every common word of every line.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

#: Lines that a search looks through at most, rarest terms first: some milliseconds.
_POSTINGS = 3000
_CANDIDATES = 256
_TERMS = 24
_K, _B = 1.2, 0.75

SCHEMA = """
CREATE TABLE memories(
    id INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, event INTEGER NOT NULL, at REAL NOT NULL, speaker TEXT NOT NULL,
    text TEXT NOT NULL, terms TEXT NOT NULL, words INTEGER NOT NULL, weight INTEGER NOT NULL
);;
CREATE INDEX memories_by_worth ON memories(weight, event);;
CREATE VIRTUAL TABLE memory_terms USING fts5(terms, content='memories', content_rowid='id', tokenize='ascii', detail='none');;
CREATE VIRTUAL TABLE memory_frequencies USING fts5vocab(memory_terms, 'row');;
CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN
    INSERT INTO memory_terms(rowid, terms) VALUES (new.id, new.terms);
END;;
CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN
    INSERT INTO memory_terms(memory_terms, rowid, terms) VALUES ('delete', old.id, old.terms);
END;;
CREATE TRIGGER memories_changed AFTER UPDATE OF terms ON memories WHEN old.terms IS NOT new.terms BEGIN
    INSERT INTO memory_terms(memory_terms, rowid, terms) VALUES ('delete', old.id, old.terms);
    INSERT INTO memory_terms(rowid, terms) VALUES (new.id, new.terms);
END;;
"""

ADD = """
INSERT INTO memories(key, event, at, speaker, text, terms, words, weight) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(key) DO UPDATE SET event = excluded.event, at = excluded.at, text = excluded.text, terms = excluded.terms,
    words = excluded.words, weight = max(weight, excluded.weight)
"""

# The oldest of the least weight go first.
PRUNE = "DELETE FROM memories WHERE id IN (SELECT id FROM memories ORDER BY weight, event LIMIT ?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One line that was heard.

    Attributes:
        id: its number in the store.
        event: the event that it was last heard in.
        at: when, in seconds since 1970.
        speaker: who said it.
        text: the line.
        terms: the words that it can be found by, with spaces between.
        score: how well it answers the search that found it; larger is better.
    """

    id: int
    event: int
    at: float
    speaker: str
    text: str
    terms: str
    score: float


def terms_of(text: str) -> list[str]:
    """The words that `text` can be found by, in their order, each once.

    Words are folded (case, accents, width, a possessive or plural s); the commonest English ones are left out; Chinese, Japanese and Korean
    give pairs of neighbouring characters; marks in parentheses that hold digits, like `(ab12cd34ef)`, are no words.
    """
    found: dict[str, None] = {}
    for word in _words().findall(_folded(text)):
        if _CJK.match(word):
            for run in _CJK_RUN.findall(word):
                found.update(dict.fromkeys(run[at : at + 2] for at in range(max(1, len(run) - 1))))
            for rest in _CJK_RUN.split(word):
                if rest:
                    found[_stem(rest)] = None
        elif word not in _COMMON:
            found[_stem(word)] = None
    return list(found)


def normal_form(text: str) -> str:
    """What of a line makes it the same line when it is said again: its words in order, without case, marks and punctuation."""
    return " ".join(_words().findall(_folded(text)))


def key_of(speaker: str, text: str) -> int:
    """A number for a speaker's line, the same for every form of it."""
    digest = hashlib.blake2b(f"{speaker}\x00{normal_form(text)}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class Frequencies:
    """In how many lines each term stands, which is what makes it rare. FTS5 knows too, but takes longer to tell than a search may."""

    def __init__(self, lines: dict[str, int], keys: set[int], words: int) -> None:
        self._lines = Counter(lines)
        self._keys = keys
        self._words = words

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: int, terms: str) -> None:
        """A line that is now stored, or stored again."""
        if key not in self._keys:
            self._keys.add(key)
            words = terms.split()
            self._words += len(words)
            self._lines.update(set(words))

    def query(self, terms: Sequence[str], limit: int, before: int | None) -> tuple[str, list[object]] | None:
        """The SQL and its values that find the best lines for `terms`, or None where no line has any of them."""
        chosen: list[tuple[str, float]] = []
        postings = 0
        known = {term for term in terms if term in self._lines and not _UNSAFE.search(term)}
        for lines, term in sorted((self._lines[term], term) for term in known):
            if chosen and (postings + lines > _POSTINGS or len(chosen) == _TERMS):
                break
            chosen.append((term, math.log(1 + (len(self) - lines + 0.5) / (lines + 0.5))))
            postings += lines
        if not chosen:
            return None
        lists = " UNION ALL ".join(["SELECT rowid AS id, ? AS idf FROM memory_terms WHERE memory_terms MATCH ?"] * len(chosen))
        values: list[object] = [value for term, idf in chosen for value in (idf, f'"{term}"')]
        average = max(1.0, self._words / max(1, len(self)))
        found = f"SELECT id, sum(idf) AS idf FROM ({lists}) GROUP BY id ORDER BY idf DESC, id DESC LIMIT {_CANDIDATES}"  # noqa: S608 - fixed text
        score = f"idf * {_K + 1} / (1 + {_K} * ({1 - _B} + {_B} * words / ?))"
        best = f"FROM ({found}) JOIN memories USING (id) WHERE event < ? ORDER BY score DESC, event DESC LIMIT ?"
        sql = f"SELECT id, event, at, speaker, text, terms, {score} AS score {best}"
        return sql, [average, *values, 2**62 if before is None else before, limit]


def _folded(text: str) -> str:
    text = text.casefold()
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text.replace("’", "'").replace("\u200d", "").replace("\u200c", ""))
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", apart))
    return _POSSESSIVE.sub("", _MARK.sub(" ", text))


def _stem(word: str) -> str:
    """A plural s folded, by rules that only have to be the same on both sides."""
    if len(word) > 3 and word.endswith("s") and word.isascii() and not word.endswith(("ss", "us", "is")):
        if word.endswith("ies") and len(word) > 4:
            return word[:-3] + "y"
        if word.endswith(("xes", "ches", "shes", "sses", "zes")):
            return word[:-2]
        return word[:-1]
    return word


@cache
def _words() -> re.Pattern[str]:
    """Runs of letters and digits, with the vowel signs that belong to them and that a plain word pattern leaves out."""
    signs = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in {"Mn", "Mc"})
    return re.compile(rf"[^\W_][^\W_{signs}]*(?:[{signs}]+[^\W_]*)*")


_UNSAFE = re.compile(r"[\x00-/:-@\[-`{-\x7f]")  # FTS5's tokenizer would see two terms or none
_ACCENTS = re.compile("[\u0300-\u036f]+")
_MARK = re.compile(r"\((?=[^)]*\d)[0-9a-z_-]{6,}\)")
_POSSESSIVE = re.compile(r"'s\b")
_CJK_CLASS = "[\u1100-\u11ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
_CJK = re.compile(f".*{_CJK_CLASS}")
_CJK_RUN = re.compile(f"{_CJK_CLASS}+")

# Only words that carry nothing in any question; "not", "who" and the like stay.
_COMMON = frozenset(re.findall(r"\w+", """
    a an the and or but of to in on at by for with from as is am are was were be been do does did i me my you your he him his she her it
    its we us our they them their this that these those so if then there here have has had will would can could
"""))  # fmt: skip
