"""What a soak shows while it runs: a live screen in a terminal, plain lines elsewhere.

Invariant: plain state, fed with news; drawing it changes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sim.soak.catalogue import CATALOGUE, DOMAINS
from sim.soak.crew import Done, News

_RUNGS = ("evict_tool_outputs", "compact", "trim", "shed_recall", "hard_reset")


@dataclass(slots=True, kw_only=True)
class View:
    """All that is known so far. `planned`: turns of all lives; `wanted`: names of faults."""

    npcs: int
    planned: int
    wanted: int = 0
    began: float = field(default_factory=time.monotonic)
    newest: dict[str, News] = field(default_factory=dict)
    ended: dict[str, bool] = field(default_factory=dict)
    shrinking: set[str] = field(default_factory=set)

    def take(self, told: News | Done) -> None:
        """Something was told."""
        if isinstance(told, Done):
            self.ended[told.npc] = not told.outcome.findings
            self.shrinking.discard(told.npc)
        elif told.shrinking:
            self.shrinking.add(told.npc)
        else:
            self.newest[told.npc] = told

    @property
    def turns(self) -> int:
        """Lived so far."""
        return sum(n.turns for n in self.newest.values())

    def left_s(self) -> float | None:
        """Seconds until the end, at the pace so far."""
        took = time.monotonic() - self.began
        return took * (self.planned - self.turns) / self.turns if self.turns else None

    def screen(self) -> RenderableType:
        """The whole of it."""
        news = list(self.newest.values())
        rungs, faults = sum((n.rungs for n in news), Counter[str]()), sum((n.faults for n in news), Counter[str]())
        tokens, cached = sum(n.tokens for n in news), sum(n.cached for n in news)
        found = sum(n.findings for n in news)
        head = Table.grid(padding=(0, 1), expand=True)
        head.add_column(ratio=1)
        head.add_column(justify="right")
        left = self.left_s()
        head.add_row(
            ProgressBar(total=self.planned, completed=self.turns),
            Text(f"{self.turns:,} of {self.planned:,} turns{f', {_span(left)} left' if left is not None else ''}"),
        )
        good = sum(n.good for n in news)
        rows = Table.grid(padding=(0, 2))
        rows.add_row("lived", f"{good:,} good turns, {sum(n.weathered for n in news):,} lost to a fault that went on, "
                     f"{len(self.ended)} of {self.npcs} lives over")  # fmt: skip
        rows.add_row("ladder", "  ".join(f"{name.replace('_', ' ')} {rungs[name]:,}" for name in _RUNGS))
        asked, share, dollars = sum(n.requests for n in news), cached / max(1, tokens), sum(n.dollars for n in news)
        rows.add_row("model", f"{asked:,} requests, {tokens:,} tokens in ({share:.0%} from cache), ${dollars:.2f}")
        for domain in DOMAINS:
            names = [name for name, kind in CATALOGUE.items() if kind.domain == domain and faults[name]]
            if names:
                rows.add_row(f"{domain} faults", "  ".join(f"{name.replace('_', ' ')} {faults[name]}" for name in names))
        rows.add_row("found", Text("nothing" if not found else f"{found} findings", style="green" if not found else "bold red"))
        return Panel(Group(head, Text(), self._alive(), Text(), rows), title="npc sim soak", border_style="blue")

    def _alive(self) -> Table:
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for name in ("living", "turn", "day", "lag, virtual s", "memory MB", "dollars", ""):
            table.add_column(name, justify="left" if name in ("living", "") else "right")
        for news in self.newest.values():
            if news.npc not in self.ended:
                state = "shrinking what was found" if news.npc in self.shrinking else f"{news.findings} findings" if news.findings else ""
                table.add_row(
                    news.npc, f"{news.turns}/{news.total}", f"{news.turns / 48:.1f}", f"{news.lag_s:.1f}", f"{news.rss_mb:.0f}",
                    f"{news.dollars:.3f}", Text(state, style="bold red" if state else ""),
                )  # fmt: skip
        return table

    def line(self, told: News | Done) -> str | None:
        """The same for a file: one line at the end of each virtual day, and at the end of a life."""
        if isinstance(told, Done):
            out = told.outcome
            fate = "nothing found" if not out.findings else f"{len(out.findings)} findings"
            return f"{told.npc}: {out.good} of {out.turns} turns good, {out.kills} kills, {out.seconds:.0f} s: {fate}"
        if told.shrinking or told.turns % 48 or not told.turns:
            return None
        return (
            f"{told.npc}: day {told.turns // 48}, {told.good} good turns, {told.faults.total()} faults, "
            f"{told.rungs['hard_reset']} hard resets, {told.tokens:,} tokens, ${told.dollars:.3f}, "
            f"{told.rss_mb:.0f} MB, {told.findings} findings"
        )


def verdict(lines: list[tuple[bool | None, str]], console: Console) -> None:
    """The sentences, each with its word."""
    for held, text in lines:
        word = Text("       ") if held is None else Text("held   ", style="green") if held else Text("BROKEN ", style="bold red")
        console.print(Text.assemble(word, text))


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
