"""The compacted record: what is kept of turns that left the history.

Invariant: bounded, and never an authority: it names the events that it covers, so anyone can follow it back to the log.
It holds findings (from background summaries, and from own words that plainly promise or doubt) and the newest lines of talk that no
summary covers yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .fence import fenced
from .findings import Findings
from .messages import Block, Count, Kind, text_block

#: Lines waiting for a summary are bounded; what falls out stays in the event log.
LINES_KEPT = 160
LINE_CHARS = 240
MORE = 12  # raw tokens of the line that counts what was left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of talk with the event it came from."""

    text: str
    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Lines, findings (of all lines up to the event `found_through`), and the range of events they stand for."""

    findings: Findings = field(default_factory=Findings)
    found_through: int = 0
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
        leaving = kept[:-LINES_KEPT]
        return replace(
            self,
            findings=self.findings.taken_up((x.event, x.text) for x in leaving) if leaving else self.findings,
            lines=tuple(kept[-LINES_KEPT:]),
            first=self.first or first,
            last=max(self.last, last),
            turns=self.turns + turns,
        )

    def summarised(self, findings: Findings, *, through: int) -> Record:
        """The record after a summary of all lines up to event `through` came in."""
        return replace(self, findings=findings, found_through=through, lines=tuple(x for x in self.lines if x.event > through))

    def block(self, tokens: int, count: Count) -> Block:
        """The record as a block of at most `tokens` raw tokens: findings in up to two thirds of them, then the newest lines that fit."""
        head = f"[condensed: {self.turns} earlier turns, events {self.first} to {self.last}; the event log is the authority, this is not]"
        left = tokens - count(head) - 24
        found = _fitting(self.findings.lines(), left * 2 // 3 if self.lines else left, count)
        left -= sum(count(x) + 1 for x in found)
        chosen: list[str] = []
        for line in reversed(self.lines):
            left -= count(line.text) + 1
            if left < 0:
                break
            chosen.append(line.text)
        return text_block(Kind.RECORD, fenced("\n".join([head, *found, *reversed(chosen)]), tag="record"), count)


def _fitting(titled: Iterable[tuple[str, Sequence[str]]], room: int, count: Count) -> list[str]:
    """As many lines as fit under their titles, the kinds in their order of worth; what is left out is counted."""
    out: list[str] = []
    left, omitted = room - MORE, 0
    for title, lines in titled:
        head = f"{title}:"
        cost = count(head) + 1
        for line in lines:
            cost += count(line) + 1
            if omitted or cost > left:
                omitted += 1
                cost = 0
                continue
            out += [head, line] if head else [line]
            left, cost, head = left - cost, 0, ""
    return [*out, f"- and {omitted} more, older or lesser"] if omitted and out else out
