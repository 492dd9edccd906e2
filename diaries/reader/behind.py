"""What happened in the world behind an entry, as its reader is told. Where it comes from is the business of whoever serves the pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from diaries.text import clean_line, clean_text

Kind = Literal["heard", "said", "did", "saw", "mind"]

#: Characters of one happening.
MAX_TEXT = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """One event: `heard` (from `who`), own words (`said`), an own action (`did`), a sight or notice (`saw`), what the runtime did (`mind`).

    `event` is its number in the log, `at` unix seconds. Texts are cleaned and cut to some lines.
    """

    event: int
    at: float
    kind: Kind
    text: str
    who: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean_text(self.text, MAX_TEXT))
        object.__setattr__(self, "who", clean_line(self.who, 80))


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Events in their order. `more` is the first event that was left for another look, `note` a sentence about what cannot be shown."""

    events: tuple[Behind, ...] = ()
    more: int | None = None
    note: str = ""


#: Looks up the events of the diary with this key, from the first to the last number. Blocks; must not raise.
Look = Callable[[str, int, int], Happened]
