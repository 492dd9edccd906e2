"""Two runs side by side: each figure of both, how far it moved, and whether that is better or worse.

Invariant: pure. A verdict is given only for figures whose direction is known, and only where the runs differ by more than a hair; words say
it, colour only helps. What one of the runs has not measured is shown as missing, never as zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.report.figures import Figures, Scalar

Judgement = Literal["better", "worse", "same", ""]
#: Shares of change below which a figure counts as the same: what comes out of a seeded run, and what a busy machine's clock says.
HAIR, CLOCK_HAIR = 0.002, 0.10
#: Figures that are better the lower they are, and those that are better the higher; others have no direction.
LOWER = frozenset(
    {
        "findings", "turns_failed", "longest_failed_run", "requests_rejected", "over_window", "tokens_per_turn", "dollars_per_1000_turns",
        "policy_ms_p50", "policy_ms_p99", "peak_rss_mb", "observations.omitted", "observations.lost", "observation_cut_named",
        "requests_without_an_earlier_call_of_the_turn", "cpu_ms_per_turn_first_tenth", "cpu_ms_per_turn_last_tenth",
        "policy_last_tenth_over_first", "rss_mb_last_over_first_tenth", "seconds", "rungs.hard_reset", "rungs.give_up",
    }
)  # fmt: skip
HIGHER = frozenset(
    {
        "rule_present_share", "observation_present_share", "cache_read_share", "asked_recalled_share", "asked_answered_share",
        "keepsakes_in_the_notebook",
    }
)  # fmt: skip
#: Those of them that grow with a run, and say nothing where one run was longer than the other.
GROWING = frozenset(
    {"observation_cut_named", "requests_without_an_earlier_call_of_the_turn", "seconds", "rungs.hard_reset", "keepsakes_in_the_notebook"}
)
#: What a run was asked for, and is not its outcome.
ASKED = frozenset({"window", "seed", "npcs"})
#: Series whose medians are compared as well, all better the lower they are.
MEDIANS = ("lag_ms", "turn_ms", "request_ms")
_TIMES = ("_ms", "ms_", "seconds", "rss", "policy_last")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of both runs; `change` is the share by which it rose, None where there is none to speak of."""

    name: str
    before: float | None
    after: float | None
    change: float | None
    judgement: Judgement

    @property
    def words(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ").replace(".", ": ")


def rows(before: Figures, after: Figures) -> list[Row]:
    """All figures of either run, in the order in which they come."""
    a, b = _numbers(before), _numbers(after)
    silent = GROWING if a.get("turns") != b.get("turns") else frozenset()
    return [_row(name, a.get(name), b.get(name), silent=name in silent) for name in dict.fromkeys([*a, *b]) if name not in ASKED]


def differing(before: Figures, after: Figures) -> list[tuple[str, Scalar, Scalar]]:
    """Options in which the runs differ: a comparison of two lives is one of two programs only if there are none."""
    a, b = before.options, after.options
    return [(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b]) if a.get(name) != b.get(name) and name != "keep"]


def verdict(found: list[Row]) -> str:
    """One sentence."""
    better, worse = (sum(row.judgement == word for row in found) for word in ("better", "worse"))
    if not better and not worse:
        return "No figure that has a direction moved by more than a hair."
    return f"{better} {'figure is' if better == 1 else 'figures are'} better, {worse} {'is' if worse == 1 else 'are'} worse."


def rendered(before: Figures, after: Figures, *, names: tuple[str, str] = ("before", "after")) -> RenderableType:
    """For a terminal."""
    found = rows(before, after)
    parts: list[RenderableType] = []
    if options := differing(before, after):
        parts.append(Text("The runs were asked for different things:", style="bold"))
        parts += [Text(f"  {name}: {_plain(a)} and {_plain(b)}") for name, a, b in options]
        parts.append(Text(""))
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("change", justify="right")
    table.add_column("")
    styles = {"better": "green", "worse": "bold red", "same": "dim", "": "dim"}
    for row in found:
        cells = [Text(shown(row.before)), Text(shown(row.after)), Text(changed(row)), Text(row.judgement, style=styles[row.judgement])]
        table.add_row(Text(row.words), *cells)
    parts += [table, Text(""), Text(verdict(found), style="bold")]
    return Group(*parts)


def shown(value: float | None) -> str:
    """A figure with as many digits as tell something."""
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


def changed(row: Row) -> str:
    """By how much, in per cent."""
    if row.change is None:
        return "" if row.before is None or row.after is None or row.before == row.after else f"{row.after - row.before:+,g}"
    return f"{row.change:+.1%}" if row.change else "0%"


def _plain(value: Scalar) -> str:
    return "not given" if value is None or value == "" else str(value)


def _numbers(figures: Figures) -> Mapping[str, float]:
    return {"findings": float(len(figures.findings)), **figures.numbers(), **dict(_medians(figures))}


def _medians(figures: Figures) -> Iterator[tuple[str, float]]:
    """Of each series the mean of the lives' medians."""
    for name in MEDIANS:
        found = [s.median for life in figures.lives if (s := life.series.get(name)) is not None and s.median is not None]
        if found:
            yield f"{name}_median", sum(found) / len(found)


def _row(name: str, before: float | None, after: float | None, *, silent: bool = False) -> Row:
    if before is None or after is None:
        return Row(name=name, before=before, after=after, change=None, judgement="")
    change = (after - before) / abs(before) if before else None
    hair = CLOCK_HAIR if any(word in name for word in _TIMES) else HAIR
    moved = after != before and (change is None or abs(change) > hair)
    judgement: Judgement = ""
    if not silent and (name in LOWER or name in HIGHER or name.removesuffix("_median") in MEDIANS):
        judgement = "same" if not moved else "better" if (after > before) == (name in HIGHER) else "worse"
    return Row(name=name, before=before, after=after, change=0.0 if after == before else change, judgement=judgement)
