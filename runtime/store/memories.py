"""What is remembered, one line each, found again by its rare words, by those who may read it.

Invariants: the same text gives the same terms for ever, because the terms on disk were made by it. A line is kept once for each subject and
sensitivity, with the newest time it was said. No search gives a line that its reader may not see: another world's, an undone one, one
whose time is over, one of another purpose, or somebody else's private one; and what it may not see keeps no other line from it.

A line's score is relevance x recency x importance, and `_SCORE` is the one place that says so. Relevance is BM25 with each term counted
once a line (chat lines hardly repeat a word). FTS5 gives the lists of lines for a term; its own `bm25()` takes ten times as long, since it
weighs every common word of every line.
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
#: Of those the ones with the rarest words are looked at first, and all only if the reader may not see enough of them.
_CANDIDATES = 128
_TERMS = 24
_K, _B = 1.2, 0.75

#: The greatest weight that counts, and what a line of weight 0 is worth beside one of that.
HEAVIEST, _LIGHT = 2, 0.8
#: What a very old line is worth beside a new one, and after how many seconds it has lost half of that: a fact told once stays findable.
_OLD, _HALF_S = 0.75, 7 * 86_400.0
_SCORE = (
    f"idf * {_K + 1} / (1 + {_K} * ({1 - _B} + {_B} * words / ?))"
    f" * ({_OLD} + {1 - _OLD} / (1 + max(0, ? - at) / {_HALF_S}))"
    f" * ({_LIGHT} + {(1 - _LIGHT) / HEAVIEST} * min(weight, {HEAVIEST}))"
)

#: How much a line is to be guarded: anybody may hear it, it was confided aloud, it was told where nobody else could hear it.
PUBLIC, CONFIDED, WHISPERED = 0, 1, 2

SCHEMA = """
CREATE TABLE memories(
    id INTEGER PRIMARY KEY, key INTEGER NOT NULL UNIQUE, event INTEGER NOT NULL, at REAL NOT NULL, speaker TEXT NOT NULL,
    text TEXT NOT NULL, terms TEXT NOT NULL, words INTEGER NOT NULL, weight INTEGER NOT NULL,
    world TEXT NOT NULL DEFAULT '', epoch TEXT NOT NULL DEFAULT '', subject TEXT NOT NULL DEFAULT '',
    category TEXT NOT NULL DEFAULT 'heard', purpose TEXT NOT NULL DEFAULT 'talk', sensitivity INTEGER NOT NULL DEFAULT 2,
    expires REAL, undone INTEGER NOT NULL DEFAULT 0, first INTEGER NOT NULL DEFAULT 0
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

# What a line of the schema before was heard as is not known: it counts as told in confidence by nobody in particular.
UPGRADE = """
ALTER TABLE memories ADD COLUMN world TEXT NOT NULL DEFAULT '';;
ALTER TABLE memories ADD COLUMN epoch TEXT NOT NULL DEFAULT '';;
ALTER TABLE memories ADD COLUMN subject TEXT NOT NULL DEFAULT '';;
ALTER TABLE memories ADD COLUMN category TEXT NOT NULL DEFAULT 'heard';;
ALTER TABLE memories ADD COLUMN purpose TEXT NOT NULL DEFAULT 'talk';;
ALTER TABLE memories ADD COLUMN sensitivity INTEGER NOT NULL DEFAULT 2;;
ALTER TABLE memories ADD COLUMN expires REAL;;
ALTER TABLE memories ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;;
ALTER TABLE memories ADD COLUMN first INTEGER NOT NULL DEFAULT 0;;
UPDATE memories SET first = event;;
"""

ADD = """
INSERT INTO memories(
    key, event, at, speaker, text, terms, words, world, epoch, subject, category, purpose, sensitivity, expires, first, weight
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(key) DO UPDATE SET event = excluded.event, at = excluded.at, text = excluded.text, terms = excluded.terms,
    words = excluded.words, world = excluded.world, epoch = excluded.epoch, subject = excluded.subject, category = excluded.category,
    purpose = excluded.purpose, sensitivity = excluded.sensitivity,
    first = CASE WHEN undone THEN excluded.first ELSE first END, undone = 0, weight = max(weight, excluded.weight),
    expires = CASE WHEN expires IS NULL OR excluded.expires IS NULL THEN NULL ELSE max(expires, excluded.expires) END
"""

# What was first heard in a world (?1) between two events (?2, ?3) is undone; what was only heard again there is as old as it was before.
UNDO = (
    "UPDATE memories SET undone = 1 WHERE world = ?1 AND event > ?2 AND event <= ?3 AND (first > ?2 OR category = 'seen')",
    "UPDATE memories SET event = first WHERE world = ?1 AND undone = 0 AND event > ?2 AND event <= ?3 AND first <= ?2",
)

# What may go at once: undone, over, or the same words of the same subject again.
SPENT = """
SELECT id, CASE WHEN undone THEN 'undone' WHEN expires <= ? THEN 'expired' ELSE 'repeated' END FROM (
    SELECT id, undone, expires,
        row_number() OVER (PARTITION BY world, subject, sensitivity, terms, undone ORDER BY weight DESC, event DESC) AS copy FROM memories
) WHERE undone OR expires <= ? OR copy > 1
"""

# What has to go where there is too much: of the least weight, from whoever has the most lines of it, the oldest.
LEAST = f"""
SELECT id, CASE WHEN category <> 'heard' THEN category WHEN weight = 0 THEN 'overheard' WHEN weight < {HEAVIEST} THEN 'asked'
    ELSE 'told' END FROM (
    SELECT id, category, weight, event, row_number() OVER (PARTITION BY weight, subject ORDER BY event DESC) AS depth FROM memories
) ORDER BY weight, depth DESC, event LIMIT ?
"""  # noqa: S608 - fixed text

CONFIDENCES = (
    "SELECT id, event, at, speaker, text, terms, 0.0, subject, category, sensitivity FROM memories WHERE sensitivity > 0"
    " ORDER BY event DESC LIMIT ?"
)

DROP = "DELETE FROM memories WHERE id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a line is kept under: by these it is filtered when it is read.

    Attributes:
        world: that it was heard in.
        epoch: of that world's time.
        subject: whose it is, by an id that nobody else can take.
        category: how it is known.
        purpose: what it may be used for.
        sensitivity: PUBLIC, CONFIDED or WHISPERED.
        expires: seconds since 1970, None for never.
    """

    world: str = ""
    epoch: str = ""
    subject: str = ""
    category: str = "heard"
    purpose: str = "talk"
    sensitivity: int = PUBLIC
    expires: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who reads, and what for. The default is a stranger, who sees what is public.

    Attributes:
        world: only lines of this one, None for any.
        subjects: whose private lines may be read.
        purposes: only lines for one of these; empty for any.
    """

    world: str | None = None
    subjects: frozenset[str] = frozenset()
    purposes: frozenset[str] = frozenset()

    def where(self, now: float) -> tuple[str, list[object]]:
        """The condition in SQL, and its values. `now`: seconds since 1970."""
        mine, purposes = sorted(self.subjects), sorted(self.purposes)
        parts = ["undone = 0", "(expires IS NULL OR expires > ?)", f"(sensitivity = {PUBLIC} OR subject IN ({', '.join('?' * len(mine))}))"]
        values: list[object] = [now, *mine]
        if self.world is not None:
            parts.append("world = ?")
            values.append(self.world)
        if purposes:
            parts.append(f"purpose IN ({', '.join('?' * len(purposes))})")
            values += purposes
        return " AND ".join(parts), values


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One line that is remembered.

    Attributes:
        id: its number in the store.
        event: the event that it was last heard in.
        at: when, in seconds since 1970.
        speaker: who said it.
        text: the line.
        terms: the words that it can be found by, with spaces between.
        score: how well it answers the search that found it; larger is better.
        subject: whose it is.
        category: how it is known.
        sensitivity: PUBLIC, CONFIDED or WHISPERED.
    """

    id: int
    event: int
    at: float
    speaker: str
    text: str
    terms: str
    score: float
    subject: str = ""
    category: str = "heard"
    sensitivity: int = PUBLIC


def terms_of(text: str) -> list[str]:
    """The words that `text` can be found by, in their order, each once; see `content_words`."""
    return list(dict.fromkeys(content_words(text)))


def content_words(text: str) -> list[str]:
    """The words of `text` that carry something, in their order.

    Words are folded (case, accents, width, a possessive or plural s); the commonest English ones are left out; Chinese, Japanese and Korean
    give pairs of neighbouring characters; marks in parentheses that hold digits, like `(ab12cd34ef)`, are no words.
    """
    found: list[str] = []
    for word in _words().findall(_folded(text)):
        if _CJK.match(word):
            for run in _CJK_RUN.findall(word):
                found += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
            found += [_stem(rest) for rest in _CJK_RUN.split(word) if rest]
        elif word not in _COMMON:
            found.append(_stem(word))
    return found


def normal_form(text: str) -> str:
    """What of a line makes it the same line when it is said again: its words in order, without case, marks and punctuation."""
    return " ".join(_words().findall(_folded(text)))


def key_of(speaker: str, text: str, label: Label | None = None) -> int:
    """A number for a speaker's line, the same for every form of it; another world, subject or sensitivity makes it another line."""
    kept = f"\x00{label.world}\x00{label.subject}\x00{label.sensitivity}" if label else ""
    digest = hashlib.blake2b(f"{speaker}\x00{normal_form(text)}{kept}".encode("utf-8", "replace"), digest_size=8).digest()
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
        words = set(terms.split())
        if key in self._keys:
            words -= self._lines.keys()  # said in other words now; those that are gone from it are counted until the next time all are
        else:
            self._keys.add(key)
            self._words += len(words)
        self._lines.update(words)

    def query(
        self, terms: Sequence[str], limit: int, before: int | None, *, reader: Reader, now: float, thorough: bool = False
    ) -> tuple[str, list[object], bool] | None:
        """The SQL and its values that find the best lines for `terms` that `reader` may see, or None where no line has any of them.

        Last, whether it looks at the likeliest only: then, where it finds fewer than `limit`, a `thorough` one may find more.
        """
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
        allowed, more = reader.where(now)
        found = f"SELECT id, sum(idf) AS idf FROM ({lists}) GROUP BY id"  # noqa: S608 - fixed text
        candidates = max(_CANDIDATES, 2 * limit)
        hasty = not thorough and postings > candidates
        if hasty:
            found += f" ORDER BY idf DESC, id DESC LIMIT {candidates}"
        best = f"SELECT id, {_SCORE} AS score FROM ({found}) JOIN memories USING (id) WHERE event < ? AND {allowed}"  # noqa: S608 - fixed text
        columns = "id, event, at, speaker, text, terms, score, subject, category, sensitivity"
        sql = (
            f"SELECT {columns} FROM ({best} ORDER BY score DESC, event DESC LIMIT ?) JOIN memories USING (id)"  # noqa: S608 - fixed text
            " ORDER BY score DESC, event DESC"
        )
        return sql, [average, now, *values, 2**62 if before is None else before, *more, limit], hasty


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
