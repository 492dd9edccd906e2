"""The constitution: the few rules that hold at every step, from a file that the operator may edit at any time.

Invariant: once a constitution was read there always is one. A file that is missing, empty or damaged while the NPC runs leaves the last
good rules in force and says so. At the start a missing or damaged one ends in `Misconfigured`; an empty one is the operator's choice, and a
warning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from npc.errors import Misconfigured
from npc.files import WatchedFile

#: More rules than this are a warning: too many to be kept in mind, and each costs tokens at every step.
MAX_RULES = 15
#: The largest file, in bytes.
MAX_FILE = 500_000
#: The short form has at most this many words, and characters (for scripts that do without spaces).
SHORT_WORDS = 60
SHORT_CHARS = 420

_HEADING = re.compile(r"\s*#{1,6}(\s|$)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BULLET = re.compile(r"\s*(?:[-*+•]|\(?\d{1,3}[.):])\s+")
_SENTENCE = re.compile(r".+?(?:[.!?…]+[\"”')]*(?=\s+[^a-z\s]|\s*$)|[。！？]+|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constitution:
    """The rules in force.

    `text` is the file word for word, for the fixed part. `rules` are its rules one by one, without bullets. `short` is the terse form for
    the tail of the input: whole first sentences of the first rules, at most `SHORT_WORDS` words. `warnings` are sentences for the operator.
    """

    text: str
    rules: tuple[str, ...]
    short: str
    warnings: tuple[str, ...] = ()


def parse_constitution(text: str) -> Constitution:
    """The constitution in a text. Every line is a rule but blank ones, headings, comments and the indented rest of a list item."""
    text = text.replace("\r\n", "\n").strip()
    rules = _rules(text)
    warnings = []
    if not rules:
        warnings.append("the constitution holds no rules: write ten to fifteen, one a line")
    elif len(rules) > MAX_RULES:
        warnings.append(f"the constitution has {len(rules)} rules: more than {MAX_RULES} are hard to keep and cost tokens at every step")
    return Constitution(text=text, rules=rules, short=_short(rules), warnings=tuple(warnings))


class ConstitutionFile:
    """The constitution in a file, read afresh whenever it changed."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, limit=MAX_FILE)
        self._good: Constitution | None = None
        self._in_force: Constitution | None = None

    def read(self) -> Constitution:
        """The rules in force now; the same object as before when nothing changed, at the price of a microsecond or two.

        Raises `Misconfigured` only if no good version was ever read.
        """
        content = self._file.poll()
        if content is None and self._in_force is not None:
            return self._in_force
        if content is None or content.data is None:
            return self._fall_back(content.problem if content else "is missing")
        try:
            text = content.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return self._fall_back(f"is not UTF-8 text (byte {error.start})")
        constitution = parse_constitution(text)
        if not constitution.rules and self._good is not None and self._good.rules:
            return self._fall_back("holds no rules")  # as while an editor is writing it
        self._good = self._in_force = constitution
        return constitution

    def _fall_back(self, problem: str) -> Constitution:
        name = self._file.path
        if self._good is None:
            self._file.forget()
            raise Misconfigured(f"{name} {problem}: write ten to fifteen rules there, one a line, or remove it and a default one is made")
        warning = f"{name} {problem}: the rules read before stay in force until it is mended"
        self._in_force = replace(self._good, warnings=(warning, *self._good.warnings))
        return self._in_force


def _rules(text: str) -> tuple[str, ...]:
    rules: list[str] = []
    in_item = False
    for line in _COMMENT.sub("", text).split("\n"):
        bullet = _BULLET.match(line)
        if not line.strip() or _HEADING.match(line):
            in_item = False
        elif in_item and not bullet and line[0] in " \t":
            rules[-1] = f"{rules[-1]} {line.strip()}"
        else:
            rules.append(line[bullet.end() if bullet else 0 :].strip())
            in_item = bullet is not None
    return tuple(rule for rule in rules if rule)


def _short(rules: tuple[str, ...]) -> str:
    """First sentences, whole: half a rule may say the opposite of it. Only a first one that alone is too long is cut, visibly."""
    short = ""
    for rule in rules:
        found = _SENTENCE.match(rule)
        longer = f"{short} {found[0] if found else rule}".strip()
        if len(longer.split()) > SHORT_WORDS or len(longer) > SHORT_CHARS:
            break
        short = longer
    if short or not rules:
        return short
    return " ".join(rules[0].split()[:SHORT_WORDS])[: SHORT_CHARS - 1].rstrip() + "…"
