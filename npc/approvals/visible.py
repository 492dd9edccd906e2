"""Texts of strangers as a person can trust to see them: what is invisible, turns the line round or moves the cursor is named instead.

Invariant: pure; what comes out is one line of visible characters that a terminal neither obeys nor hides, and two texts that differ look
different unless they differ in the shape of letters only.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

#: Characters that belong to letters or marks by their category and are yet not to be seen.
_SELECTORS = (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {chr(c) for c in _SELECTORS}
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
#: A name that cannot be taken for anything else; any other stands in quotes.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_SHORT: Mapping[str, str] = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
#: Marks that may stand over one letter; more of them paint over the lines around it.
_MARKS = 3
#: What is shown of a text before it is folded: all up to so many characters, else its head and its tail.
WHOLE, HEAD, TAIL = 400, 240, 80
#: Levels, and members of one level, that are shown of nested values before they are folded.
MEMBERS = 40


def visible(text: str) -> str:
    """A text of one line, with each character that would not be seen as what it is named as ‹U+202E›."""
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        odd_blank = category == "Zs" and character != " "
        if character in _SHORT:
            out.append(_SHORT[character])
        elif category in _HIDDEN or character in _BLANK or odd_blank or marks > _MARKS:
            out.append(f"‹U+{ord(character):04X}›")
        else:
            out.append(character)
    return "".join(out)


def folded(text: str, *, full: bool = False) -> str:
    """`visible`, and where it is long only its head and tail, with how much is left out and how much there is in all."""
    if full or len(text) <= WHOLE:
        return visible(text)
    left = len(text) - HEAD - TAIL
    return f"{visible(text[:HEAD])} [… {left:,} of {len(text):,} characters are folded …] {visible(text[-TAIL:])}"


def value(data: Any, *, full: bool = False) -> str:
    """An argument: texts in quotes, everything else as JSON has it."""
    if isinstance(data, str):
        return '"' + folded(data.replace("\\", "\\\\").replace('"', '\\"'), full=full) + '"'
    return folded(json.dumps(data, ensure_ascii=False, default=str), full=full)


def arguments(data: Mapping[str, Any], *, full: bool = False) -> list[tuple[str, str]]:
    """Names and values of all arguments; beyond `MEMBERS` the rest is counted."""
    items = list(data.items())
    shown = items if full else items[:MEMBERS]
    out = [(name if _PLAIN.fullmatch(name) else value(name, full=full), value(one, full=full)) for name, one in shown]
    if left := len(items) - len(shown):
        out.append(("…", f"{left:,} of {len(items):,} arguments are folded"))
    return out
