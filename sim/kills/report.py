"""What a run of kills was, in figures and in words.

Invariant: pure. `as_json` has always all of its keys; a figure that was not measured is null, never zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from sim.kills.trial import Options, Outcome
from sim.report import SHOWN_FINDINGS, Line, percentile


class Report:
    """One run."""

    def __init__(self, options: Options, outcome: Outcome) -> None:
        self.options, self.outcome = options, outcome

    @property
    def held(self) -> bool:
        """Whether nothing was found."""
        return not self.outcome.verdict.findings

    def as_json(self) -> dict[str, Any]:
        """One object; times in milliseconds where the name says so, else in seconds."""
        out, verdict = self.outcome, self.outcome.verdict
        return {
            "kills": out.kills,
            "killed": {kind: out.killed.get(kind, 0) for kind in ("world", "npc", "both")},
            "kills_while_getting_up": out.hasty,
            "observations": {
                "told": verdict.told, "heard": verdict.heard, "lost": verdict.lost, "doubled": verdict.doubled,
                "out_of_order": verdict.disordered, "merged": verdict.merged, "left_out_with_a_note": verdict.left_out,
                "never_told_to_the_model": verdict.unseen,
            },
            "actions": {
                "asked": out.asked, "carried_out": verdict.executed, "repeated": verdict.repeated, "interrupted": verdict.interrupted,
            },
            "requests": out.requests,
            "world_back_to_next_action_ms": _spread(out.back_ms),
            "npc_start_to_attached_ms": _spread(out.attach_ms),
            "npc_start_to_first_action_ms": _spread(out.start_ms),
            "npc_attached_to_first_action_ms": _spread([b - a for a, b in zip(out.attach_ms, out.start_ms, strict=True)]),
            "within_s": self.options.within_s,
            "seconds": round(out.seconds, 1),
            "seed": self.options.seed,
            "findings": [dataclasses.asdict(f) for f in verdict.findings],
        }  # fmt: skip

    def lines(self) -> list[Line]:
        """The verdict, sentence by sentence."""
        j = self.as_json()
        seen, acts, rules = j["observations"], j["actions"], {f.rule for f in self.outcome.verdict.findings}
        back = j["world_back_to_next_action_ms"]
        return [
            Line(
                held=None,
                text=f"{j['kills']} processes were killed: {j['killed']['world']} times the world, {j['killed']['npc']} times the NPC, "
                f"{j['killed']['both']} times both; {j['kills_while_getting_up']} of them while somebody was still getting up.",
            ),
            Line(
                held=not (seen["lost"] or seen["doubled"] or seen["out_of_order"]) and "W3" not in rules,
                text=f"{seen['told']:,} observations were told, {seen['heard']:,} stand on the NPC's disk: {seen['lost']} lost, "
                f"{seen['doubled']} doubled, {seen['out_of_order']} out of order.",
            ),
            Line(
                held=not rules & {"W2", "C34"},
                text=f"Of these {seen['merged']:,} gave way to newer news of the same thing, "
                f"{seen['left_out_with_a_note']:,} found no room in a request, which counts them; "
                f"{seen['never_told_to_the_model']} others gave way to more urgent ones; all are counted.",
            ),
            Line(
                held=not rules & {"C29", "C35"},
                text=f"The model asked for {acts['asked']:,} actions, the world carried out {acts['carried_out']:,}: "
                f"{acts['repeated']} twice, {acts['interrupted']} broken off by its death.",
            ),
            Line(
                held=None if back is None else back["max"] <= 1e3 * self.options.within_s,
                text=f"After the world was back the next action was carried out within {_words(back)}.",
            ),
            Line(
                held=None,
                text=f"After its own death the NPC was attached within {_words(j['npc_start_to_attached_ms'])} of its start, "
                f"and acted within {_words(j['npc_attached_to_first_action_ms'])} of that.",
            ),
        ]

    def rendered(self) -> RenderableType:
        """For a terminal."""
        parts: list[RenderableType] = []
        for line in self.lines():
            mark, style = {True: ("held  ", "green"), False: ("BROKEN", "bold red"), None: ("      ", "dim")}[line.held]
            parts.append(Text.assemble((f"{mark}  ", style), line.text))
        findings = self.outcome.verdict.findings
        parts.append(Text(""))
        parts += [Text.assemble((f"{finding.rule}: ", "bold red"), finding.sentence) for finding in findings[:SHOWN_FINDINGS]]
        if len(findings) > SHOWN_FINDINGS:
            parts.append(Text(f"… and {len(findings) - SHOWN_FINDINGS} more findings (--json has them)"))
        verdict = "All of it held." if self.held else f"It did not hold: {len(findings)} findings."
        parts.append(Text(verdict, style="bold green" if self.held else "bold red"))
        return Group(*parts)


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    """Median, 99th percentile, greatest, and how many there are; None where nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    median, most = percentile(ordered, 0.5) or 0.0, percentile(ordered, 0.99) or 0.0
    return {"p50": median, "p99": most, "max": round(ordered[-1], 3), "of": len(ordered)}


def _words(spread: dict[str, float] | None) -> str:
    return "– ms" if spread is None else f"{spread['p50']:,.0f} ms (median), {spread['p99']:,.0f} ms (99 %), {spread['max']:,.0f} ms (most)"
