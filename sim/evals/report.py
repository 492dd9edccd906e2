"""The run of the cases, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sim.evals.baseline import Change
from sim.evals.suite import Outcome

#: How many problems of one case are told.
TOLD = 4


def table(outcome: Outcome) -> RenderableType:
    """One line a case, and under a failed one what did not hold."""
    out = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    several = any(result.runs > 1 for result in outcome.results)
    out.add_column("case", no_wrap=True)
    out.add_column("held" if several else "", no_wrap=True)
    for head in ("steps", "turns", "done in", "dollars", "seconds"):
        out.add_column(head, justify="right", no_wrap=True)
    for r in outcome.results:
        word = f"{r.passes} of {r.runs}" if several else "pass" if r.passed else "FAIL"
        done = f"{r.completion:.3g}" if r.completion is not None else "-"
        out.add_row(
            r.name, Text(word, "green" if r.passed else "bold red"), f"{r.steps:.3g}", f"{r.turns:.3g}", done, f"{r.dollars:.5f}",
            f"{r.seconds:.2f}",
        )  # fmt: skip
    wrong: list[RenderableType] = []
    for r in outcome.results:
        if not r.passed:
            wrong.append(Text.assemble(("\nFAIL ", "bold red"), (r.name, "bold")))
            wrong += [Text(f"     {problem}") for problem in r.problems[:TOLD]]
            if len(r.problems) > TOLD:
                wrong.append(Text(f"     and {len(r.problems) - TOLD} more", "dim"))
    styled = [Text(f"{r.name}: {line}", "dim") for r in outcome.results for line in r.style]
    return Group(out, *wrong, *([Text(""), *styled] if styled else []))


def summary(outcome: Outcome) -> RenderableType:
    """The figures beside success."""
    results = outcome.results
    passed = sum(r.passed for r in results)
    per = f"${outcome.dollars_per_resolved:.5f}" if outcome.dollars_per_resolved is not None else "none was resolved"
    turns = f"{outcome.turns_to_completion:.2f}" if outcome.turns_to_completion is not None else "-"
    lines = [
        f"{passed} of {len(results)} held, by {outcome.model}, in {sum(r.seconds * r.runs for r in results):.1f} s.",
        f"Cost per resolved task: {per}. Turns to completion: {turns}.",
    ]
    if runs := max((r.runs for r in results), default=1) - 1:
        lines.append("  ".join(f"pass^{k} {outcome.pass_hat(k):.1%}" for k in range(1, runs + 2)))
    if outcome.judge:
        lines.append(outcome.judge)
    return Group(*(Text(line) for line in lines))


def changes(found: Sequence[Change], *, tolerance: float) -> RenderableType:
    """What has changed since the baseline."""
    worse = [change for change in found if change.worse]
    if not found:
        return Text(f"Nothing has changed against the baseline (tolerance {tolerance:.0%}).", "green")
    out = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head in ("", "case", "what", "before", "now", "why"):
        out.add_column(head, no_wrap=head != "why", overflow="fold")
    for change in found:
        if change.worse or change.before != "new":
            mark = Text("worse", "bold red") if change.worse else Text("better", "green")
            out.add_row(mark, change.case, change.what, change.before, change.now, change.why)
    new = [change.case for change in found if change.before == "new" and not change.worse]
    if worse:
        one = "regression" if len(worse) == 1 else "regressions"
        title = Text(f"{len(worse)} {one} against the baseline (tolerance {tolerance:.0%}):", "bold red")
    else:
        title = Text("No regression against the baseline; what has changed:", "green")
    if len(new) == len(found):
        return Text(f"No regression against the baseline; not in it yet: {', '.join(new)}.", "green")
    return Group(title, out, *([Text(f"Not in it yet: {', '.join(new)}.")] if new else []))


def as_json(outcome: Outcome, found: Sequence[Change] | None) -> dict[str, Any]:
    """The whole run as one object."""
    runs = max((r.runs for r in outcome.results), default=1)
    return {
        "model": outcome.model,
        "cases": [{**asdict(r), "passed": r.passed} for r in outcome.results],
        "passed": sum(r.passed for r in outcome.results),
        "failed": sum(not r.passed for r in outcome.results),
        "dollars": round(outcome.dollars, 6),
        "dollars_per_resolved": outcome.dollars_per_resolved,
        "turns_to_completion": outcome.turns_to_completion,
        "pass_hat": {str(k): round(outcome.pass_hat(k), 4) for k in range(1, runs + 1)},
        "judge": outcome.judge,
        "changes": [asdict(change) for change in found] if found is not None else None,
        "regressions": sum(change.worse for change in found) if found is not None else None,
    }
