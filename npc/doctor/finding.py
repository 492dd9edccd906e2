"""What the doctor says: findings, each with its fix.

Invariant: a finding that is not ok has a fix; every text is one line without control characters, since it may come from anyone's file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from diaries.text import clean_line
from runtime.core.budget import Part

#: The longest text of a finding, in characters.
LONGEST = 600


class Level(StrEnum):
    """How bad it is: nothing, something to be told, or a life that cannot begin or go on."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding: what was looked at, what was found, and in one sentence what to do about it. `code` is what `npc doctor` exits with."""

    level: Level
    check: str
    what: str
    fix: str = ""
    code: int = 1

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"level": str(self.level), "check": self.check, "what": self.what, "fix": self.fix}


def fine(check: str, what: str) -> Finding:
    """All is well."""
    return Finding(level=Level.OK, check=check, what=clean_line(what, LONGEST))


def warn(check: str, what: str, fix: str) -> Finding:
    """It works, but was perhaps not meant."""
    return Finding(level=Level.WARN, check=check, what=clean_line(what, LONGEST), fix=clean_line(fix, LONGEST))


def wrong(check: str, what: str, fix: str, *, code: int = 1) -> Finding:
    """It does not work."""
    return Finding(level=Level.ERROR, check=check, what=clean_line(what, LONGEST), fix=clean_line(fix, LONGEST), code=code)


def told(check: str, sentence: str, *, level: Level = Level.ERROR, code: int = 1) -> Finding:
    """One of our own sentences, which says what is wrong, a colon, and the way out."""
    what, colon, fix = sentence.rpartition(": ")
    if not colon:
        what, fix = sentence, "mend that"
    return Finding(level=level, check=check, what=clean_line(what, LONGEST), fix=clean_line(fix, LONGEST), code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings, and what has to fit into the window: its parts in tokens, as far as a persona could be read."""

    findings: tuple[Finding, ...]
    parts: tuple[Part, ...] = ()
    window: int = 0

    @property
    def errors(self) -> int:
        """How many."""
        return sum(f.level is Level.ERROR for f in self.findings)

    @property
    def warnings(self) -> int:
        """How many."""
        return sum(f.level is Level.WARN for f in self.findings)

    @property
    def exit_code(self) -> int:
        """0 without errors; 3 (rung 6) or 5 (a key that is refused) where that is all that is wrong; else 1."""
        return exit_code(self.findings)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "findings": [f.as_json() for f in self.findings],
            "window": self.window,
            "parts": [{"part": p.name, "tokens": p.tokens} for p in self.parts],
            "errors": self.errors,
            "warnings": self.warnings,
            "exit_code": self.exit_code,
        }


def exit_code(findings: Iterable[Finding]) -> int:
    """See `Report.exit_code`."""
    codes = {f.code for f in findings if f.level is Level.ERROR}
    return 0 if not codes else codes.pop() if len(codes) == 1 else 1
