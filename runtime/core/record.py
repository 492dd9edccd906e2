"""The compacted record: what is kept of turns that left the history.

Invariant: bounded, and never an authority: it names the events that it covers, so anyone can follow it back to the log.
It holds a narrative (from a background summary, if there is one) and the newest lines of talk that no summary covers yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .fence import fenced
from .messages import Block, Count, Kind, text_block
from .tokens import clip

#: Lines waiting for a summary are bounded; what falls out stays in the event log.
LINES_KEPT = 160
LINE_CHARS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of talk with the event it came from."""

    text: str
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Lines, narrative, and the range of events they stand for."""

    narrative: str = ""
    narrative_through: int = 0
    lines: tuple[Line, ...] = ()
    first: int = 0
    last: int = 0
    turns: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.turns

    def folded(self, lines: Iterable[Line], *, first: int, last: int, turns: int) -> Record:
        """The record after more turns were compacted into it; a line said twice in a row is kept once."""
        kept = list(self.lines)
        for line in lines:
            if not kept or kept[-1].text != line.text:
                kept.append(Line(text=line.text[:LINE_CHARS], event=line.event))
        return replace(
            self,
            lines=tuple(kept[-LINES_KEPT:]),
            first=self.first or first,
            last=max(self.last, last),
            turns=self.turns + turns,
        )

    def summarised(self, narrative: str, *, through: int) -> Record:
        """The record after a summary of all lines up to event `through` came in."""
        return replace(self, narrative=narrative, narrative_through=through, lines=tuple(x for x in self.lines if x.event > through))

    def block(self, tokens: int, count: Count) -> Block:
        """The record as a block of at most `tokens` raw tokens: narrative clipped to half of them, then the newest lines that fit."""
        head = f"[condensed: {self.turns} earlier turns, events {self.first} to {self.last}; the event log is the authority, this is not]"
        left = tokens - count(head) - 24
        parts = [head]
        if self.narrative:
            story = clip(self.narrative, max(32, left // 2), count)
            parts.append(story)
            left -= count(story)
        chosen: list[str] = []
        for line in reversed(self.lines):
            left -= count(line.text) + 1
            if left < 0:
                break
            chosen.append(line.text)
        parts += reversed(chosen)
        return text_block(Kind.RECORD, fenced("\n".join(parts), tag="record"), count)
