"""Words on their way out: cut to what a world takes at once, timed for who reads them, compared with what was said before.

Invariants: pure and total, in time linear in the text. The parts of a text are never empty, none is longer than the limit, and together
they are the text but for white space between them; what a reader sees as one character is not cut in two where the limit has room for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import regex

#: Characters a second that somebody reads along with, and the least and longest pause that comes of it, in seconds.
READ_CHARS_S = 25.0
LEAST_PAUSE_S = 0.6
LONGEST_PAUSE_S = 4.0
#: A world that wants acts to be rarer than this is not obeyed to the letter, and one that has to wait longer is not done, in seconds.
LONGEST_GAP_S = 5.0
LONGEST_WAIT_S = 30.0
#: So much of two texts is looked at when they are compared.
COMPARED_CHARS = 400
#: Two lines that share this much of their letters, in threes, say the same.
ALIKE = 0.7

_GRAPHEME = regex.compile(r"\X")
_LONE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PARAGRAPH = re.compile(r"\n\s*\n")
_SENTENCE = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|\Z)|[。！？｡]+[」』”’）】》]*|\n")
_CLAUSE = re.compile(r"[,;:–—]+(?=\s|\Z)|[、，；：]+")
#: Scripts that put no blanks between words: a line may break between any two of their characters, but not before closing marks or
#: after opening ones.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\u3000-\u303f\uff00-\uffef]")
_CLOSING = frozenset("、。，．！？：；）」』】》〉〕］｝”’…ー々ゝゞ・)]}!?,.;:")
_OPENING = frozenset("（「『【《〈〔［｛“‘([{")
#: A border of a weaker kind is taken only if one of a stronger kind would leave a part shorter than this share of the limit.
_SHARES = ((_PARAGRAPH, 0.5), (_SENTENCE, 0.33), (_CLAUSE, 0.5))
_WORDS = ("text", "message", "words", "line", "speech", "say", "content")


def cleaned(text: str) -> str:
    """A text that can be encoded and that obeys no terminal: half characters become U+FFFD, control characters go."""
    return _CONTROL.sub("", _LONE.sub("\ufffd", text.replace("\r\n", "\n"))).strip()


def size(text: str) -> int:
    """Length as the strictest of worlds counts it: in UTF-16 units, never less than in characters."""
    return len(text) + sum(c > "\uffff" for c in text)


def split(text: str, limit: int | None) -> tuple[str, ...]:
    """`text` in parts of at most `limit` (as `size` counts; None: as it is), at the end of a sentence, a clause or a word.

    The text is taken as `cleaned`. Blank text has no parts. Only where a single character that a reader sees as one is longer than the
    limit, it is cut.
    """
    text = cleaned(text)
    parts = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        end = _fitting(text, start, limit)
        if end < len(text):
            end = _border(text, start, end)
        if part := text[start:end].strip():
            parts.append(part)
        start = end
    return tuple(parts)


def _fitting(text: str, start: int, limit: int | None) -> int:
    """Where the longest part ends that begins at `start`."""
    if limit is None or len(text) - start <= limit // 2:
        return len(text)
    if text[start : start + max(1, limit) + 1].isascii():
        return min(len(text), start + max(1, limit))
    room, end = max(1, limit), start
    for grapheme in _GRAPHEME.finditer(text, start):
        taken = size(grapheme.group())
        if taken > room:
            # One that would not fit into a part of its own is cut wherever this one ends.
            return end if end > start else _cut(text, start, grapheme.end(), max(1, limit))
        room -= taken
        end = grapheme.end()
    return end


def _cut(text: str, start: int, end: int, limit: int) -> int:
    room, at = limit, start
    while at < end and (room := room - size(text[at])) >= 0:
        at += 1
    return max(at, start + 1)


def _border(text: str, start: int, end: int) -> int:
    """The best place to cut between `start` and `end`, which is where a part may end at the latest."""
    # The character behind tells whether a border stands at the very end.
    window = text[start : end + 1]
    for pattern, share in _SHARES:
        found = max((m.end() for m in pattern.finditer(window) if m.end() <= end - start), default=0)
        if found > share * (end - start):
            return start + found
    for at in range(end, start, -1):
        if text[at].isspace() or _breaks(text, at):
            return at
    return end


def _breaks(text: str, at: int) -> bool:
    """Whether a word of a script without blanks may end before `at`."""
    before, after = text[at - 1], text[at]
    if not (_UNSPACED.match(before) or _UNSPACED.match(after)) or after in _CLOSING or before in _OPENING:
        return False
    # A vowel sign, a joiner or a variation selector belongs to what stands before it.
    together = _GRAPHEME.match(text, at - 1)
    return together is None or together.end() == at


class Pace:
    """At most `per_s` acts a second, as many as that at once (None: any number). Pure: time comes in."""

    def __init__(self, per_s: float | None) -> None:
        self._gap = min(LONGEST_GAP_S, 1 / per_s) if per_s else 0.0
        self._spare = self._gap * (max(1, int(per_s)) - 1) if per_s else 0.0
        self._full_at = 0.0

    def wait_s(self, now: float, *, however_long: bool = False) -> float:
        """Seconds until the next act may begin; it counts as begun then, unless that is longer than `LONGEST_WAIT_S` away.

        `however_long`: it will be begun all the same.
        """
        full_at = max(self._full_at, now)
        wait = max(0.0, full_at - self._spare - now)
        if however_long or wait <= LONGEST_WAIT_S:
            self._full_at = full_at + self._gap
        return wait


def reading_s(text: str) -> float:
    """How long a reader is given for `text` before more follows, in seconds."""
    return min(LONGEST_PAUSE_S, max(LEAST_PAUSE_S, len(text) / READ_CHARS_S))


def field_of(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """The argument of a speaking action that holds the words; None where no text is given."""
    given = [name for name, value in arguments.items() if isinstance(value, str)]
    for name in _WORDS:
        if name in given:
            return name
    properties = schema.get("properties")
    declared = [name for name in properties if name in given] if isinstance(properties, Mapping) else []
    return next(iter(declared or given), None)


def limit_of(schema: Mapping[str, Any], field: str, say_chars: int | None) -> int | None:
    """The shorter of what a world takes in one act of speech and what an action's schema allows, in characters; None: any length."""
    properties = schema.get("properties")
    declared = properties.get(field) if isinstance(properties, Mapping) else None
    longest = declared.get("maxLength") if isinstance(declared, Mapping) else None
    limits = [n for n in (say_chars, longest) if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    return min(limits, default=None)


def same(text: str) -> str:
    """What two texts have in common that say the same words: no case, no blanks, no marks."""
    return "".join(c for c in text.casefold() if c.isalnum()) or "".join(text.split())


def shape(text: str) -> frozenset[str]:
    """The letters of a text in threes, without numbers, for `alike`."""
    plain = "".join(c for c in text[:COMPARED_CHARS].casefold() if c.isalpha())
    return frozenset(plain[n : n + 3] for n in range(max(1, len(plain) - 2)))


def alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two shapes are those of lines that say nearly the same."""
    together = len(one | other)
    return together > 0 and len(one & other) >= ALIKE * together
