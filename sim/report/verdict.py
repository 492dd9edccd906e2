"""What a flood run was, in figures and in words.

Invariant: pure. `as_json` has the keys that scripts rely on, always all of them; a figure that was not measured is null, never zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.oracle import Finding
from sim.product import RUNGS

if TYPE_CHECKING:
    from sim.run import Life, Options  # a run gathers figures while it goes on, so it stands on this package and not the other way round

SHOWN_FINDINGS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One sentence of the verdict, and whether it held (None: a figure without a judgement)."""

    held: bool | None
    text: str


class Report:
    """All lives of a run together."""

    def __init__(self, options: Options, lives: Sequence[Life]) -> None:
        self.options, self.lives = options, lives
        self._tallies = [life.oracle.tally for life in lives]
        self._ledgers = [life.ledger for life in lives if life.ledger is not None]

    @property
    def findings(self) -> list[Finding]:
        """Of all lives, in order."""
        return [f for life in self.lives for f in life.oracle.findings]

    @property
    def held(self) -> bool:
        """Whether the oracle found nothing."""
        return not self.findings

    def _sum(self, name: str) -> int:
        return sum(int(getattr(t, name)) for t in self._tallies)

    def _book(self, name: str) -> int | None:
        return sum(int(getattr(x.books, name)) for x in self._ledgers) if self._ledgers else None

    def as_json(self) -> dict[str, Any]:
        """One object; dollars, milliseconds, megabytes and shares from 0 to 1."""
        usage = [life.bill.usage for life in self.lives]
        input_tokens = sum(u.total_input for u in usage)
        lived = self._sum("turns") - self._sum("turns_failed")
        policy = sorted(x for ledger in self._ledgers for x in ledger.policy_ms)
        rungs = {name: sum(x.rungs[name] for x in self._ledgers) if self._ledgers else None for name in RUNGS}
        first, last = self._cpu_ends()
        return {
            "turns": self._sum("turns"),
            "turns_failed": self._sum("turns_failed"),
            "longest_failed_run": max((t.longest_failed_run for t in self._tallies), default=0),
            "requests": self._sum("requests"),
            "requests_rejected": self._sum("rejected"),
            "over_window": self._sum("over_window"),
            "rungs": rungs,
            "context_reset_diary_entries": self._book("reset_entries"),
            "rule_present_share": _share(self._sum("with_rule"), self._sum("main")),
            "observation_present_share": _share(self._sum("whole_turns"), self._sum("fitting_turns")),
            "tokens_per_turn": _rounded(_ratio(input_tokens, lived), 1),
            "cache_read_share": _share(sum(u.cache_read_tokens for u in usage), input_tokens),
            "dollars_per_1000_turns": _rounded(_ratio(1000 * sum(life.bill.dollars for life in self.lives), lived), 4),
            "policy_ms_p50": percentile(policy, 0.50),
            "policy_ms_p99": percentile(policy, 0.99),
            "peak_rss_mb": _rounded(max((life.peak_rss_mb for life in self.lives), default=0.0) or None, 1),
            "observations": self._observations(),
            # Beyond what scripts may rely on:
            "refusals": self._sum("refusals"),
            "keepsakes": self._sum("keepsakes"),
            "keepsakes_in_the_notebook": self._sum("kept"),
            "asked": self._sum("asked"),
            "asked_recalled_share": _share(self._sum("recalled"), self._sum("asked")),
            "asked_answered_share": _share(self._sum("answered"), self._sum("asked")),
            "observation_cut_named": self._sum("cut"),
            "requests_without_an_earlier_call_of_the_turn": self._sum("forgetful"),
            "cpu_ms_per_turn_first_tenth": first,
            "cpu_ms_per_turn_last_tenth": last,
            "policy_last_tenth_over_first": self._policy_drift(),
            "rss_mb_last_over_first_tenth": self._rss_drift(),
            "seconds": _rounded(max((life.seconds for life in self.lives), default=0.0), 1),
            "window": self.options.window,
            "seed": self.options.seed,
            "npcs": len(self.lives),
            "findings": [dataclasses.asdict(f) for f in self.findings],
        }

    def _observations(self) -> dict[str, int | None]:
        """News only: what the NPC itself caused comes back to it as an echo, and no mind is told of it."""
        seen = {name: self._book(name) for name in ("received", "delivered", "merged", "omitted", "lost")}
        return {**seen, "received": sum(x.books.received - x.books.own for x in self._ledgers) if self._ledgers else None}

    def _cpu_ends(self) -> tuple[float | None, float | None]:
        """Median CPU of a turn in the first and in the last tenth, start-up left out."""
        first = [x for life in self.lives for x in _tenth(life.cpu_ms, 0)]
        last = [x for life in self.lives for x in _tenth(life.cpu_ms, -1)]
        return percentile(sorted(first), 0.5), percentile(sorted(last), 0.5)

    def _policy_drift(self) -> float | None:
        first = sorted(x for ledger in self._ledgers for x in _tenth(ledger.policy_ms, 0))
        last = sorted(x for ledger in self._ledgers for x in _tenth(ledger.policy_ms, -1))
        return _rounded(_ratio(percentile(last, 0.5), percentile(first, 0.5)), 3)

    def _rss_drift(self) -> float | None:
        drifts = [_ratio(_mean(_tenth(life.rss_mb, -1)), _mean(_tenth(life.rss_mb, 0))) for life in self.lives]
        return _rounded(max((d for d in drifts if d is not None), default=None), 3)

    def lines(self) -> list[Line]:
        """The verdict, sentence by sentence."""
        j, rules = self.as_json(), {f.rule for f in self.findings}
        rungs, seen = j["rungs"], j["observations"]
        resets = rungs["hard_reset"]
        lines = [
            Line(
                held=not rules & {"P1", "P8"},
                text=f"{j['turns'] - j['turns_failed']:,} of {j['turns']:,} turns were lived to their end; "
                f"the longest run of failed turns is {j['longest_failed_run']}.",
            ),
            Line(
                held=not rules & {"P11", "P13"},
                text=f"{j['requests']:,} requests: {j['requests_rejected']} rejected, {j['over_window']} of them over the window; "
                f"{j['refusals']} refusals by the model, none answered with the same request again.",
            ),
            Line(
                held="T1" not in rules,
                text=f"The constitution's rule stood word for word in {_percent(j['rule_present_share'])} of them.",
            ),
            Line(
                held=not rules & {"P3", "P9", "P7"},
                text=f"The newest observation was whole in {_percent(j['observation_present_share'])} of the turns where it fits; "
                f"{j['observation_cut_named']} requests carried a cut one, with the cut named.",
            ),
            Line(
                held="D1" not in rules and resets is not None,
                text="The product's books could not be read."
                if resets is None
                else f"{resets} hard resets, {j['context_reset_diary_entries']} diary entries about them, every session persisted.",
            ),
        ]
        if seen["received"] is not None:
            text = (
                f"{seen['received']:,} observations: {seen['delivered']:,} delivered, {seen['merged']} merged, {seen['omitted']} omitted "
                f"with a note, {seen['lost']} lost."
            )
            lines.append(Line(held=not rules & {"W2", "W3"}, text=text))
        if j["keepsakes"]:
            kept = f"{j['keepsakes_in_the_notebook']} of {j['keepsakes']} doubts, promises and questions of the first turns"
            lines.append(Line(held="T6" not in rules, text=f"{kept} stand word for word in the notebook at the end."))
        if j["asked"]:
            text = (
                f"{j['asked']} times somebody asked for a fact told long ago: it was brought back by itself in "
                f"{_percent(j['asked_recalled_share'])}, there in the end in {_percent(j['asked_answered_share'])}."
            )
            lines.append(Line(held=None, text=text))
        return lines

    def rendered(self) -> RenderableType:
        """For a terminal."""
        j = self.as_json()
        parts: list[RenderableType] = []
        for line in self.lines():
            mark, style = {True: ("held  ", "green"), False: ("BROKEN", "bold red"), None: ("      ", "dim")}[line.held]
            parts.append(Text.assemble((f"{mark}  ", style), line.text))
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for column in ("cost", "", "ladder", "", "time and memory", ""):
            table.add_column(column, justify="left" if column else "right")
        costs = [
            ("input tokens a turn", _figure(j["tokens_per_turn"], ",.0f")),
            ("read from cache", _percent(j["cache_read_share"])),
            ("dollars per 1,000 turns", _figure(j["dollars_per_1000_turns"], ".2f")),
        ]
        rungs = [(name.replace("_", " "), _figure(count, ",d")) for name, count in j["rungs"].items()]
        figures = [
            ("ladder, median ms", _figure(j["policy_ms_p50"], ".2f")),
            ("ladder, 99 % ms", _figure(j["policy_ms_p99"], ".2f")),
            ("CPU ms a turn, first tenth", _figure(j["cpu_ms_per_turn_first_tenth"], ".1f")),
            ("CPU ms a turn, last tenth", _figure(j["cpu_ms_per_turn_last_tenth"], ".1f")),
            ("peak MB resident", _figure(j["peak_rss_mb"], ".0f")),
            ("seconds", _figure(j["seconds"], ".0f")),
        ]
        for n in range(max(len(costs), len(rungs), len(figures))):
            table.add_row(*(cell for group in (costs, rungs, figures) for cell in (group[n] if n < len(group) else ("", ""))))
        parts += [Text(""), table, Text("")]
        for finding in self.findings[:SHOWN_FINDINGS]:
            where = "run" if finding.turn < 0 else f"turn {finding.turn}"
            parts.append(Text.assemble((f"{where}, {finding.rule}: ", "bold red"), finding.sentence))
        if len(self.findings) > SHOWN_FINDINGS:
            parts.append(Text(f"… and {len(self.findings) - SHOWN_FINDINGS} more findings (--json has them)"))
        verdict = "All of it held." if self.held else f"It did not hold: {len(self.findings)} findings."
        parts.append(Text(verdict, style="bold green" if self.held else "bold red"))
        return Group(*parts)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which `share` of an ordered sequence lies; None for an empty one."""
    return _rounded(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) if ordered else None


def _tenth(values: Sequence[float], which: int) -> Sequence[float]:
    """The first (0) or last (-1) tenth; of the first, the very first few are left out, since they hold the start-up."""
    size = max(1, len(values) // 10)
    return values[-size:] if which else values[min(5, len(values) // 2) :][:size]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _share(part: float, whole: float) -> float | None:
    return _rounded(_ratio(part, whole), 4)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
