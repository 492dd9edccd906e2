"""What the cases came to before, in a file, and what has become worse since.

Invariant: only a person moves the baseline (`--update-baseline`); a case that held and does not any more, one that has vanished, and one
that takes more steps, turns or dollars than the tolerance allows are regressions, each with the figure before and the figure now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npc.errors import Misconfigured
from npc.files import replace_file
from sim.evals.suite import Outcome, Result

VERSION = 1
#: How much dearer a case may become: steps, turns and dollars by this share of what they were.
TOLERANCE = 0.10
FIGURES = ("steps", "turns", "dollars")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One case, one figure, before and now; `worse` is a regression. `why` is a sentence for one that failed."""

    case: str
    what: str
    before: str
    now: str
    worse: bool
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The figures of one run, by case."""

    model: str
    cases: Mapping[str, Mapping[str, Any]]


def shipped() -> Path:
    """The baseline of the cases that ship with the product."""
    return Path(__file__).with_name("baseline.json")


def load(path: Path) -> Baseline:
    """The baseline in a file. Raises `Misconfigured`."""
    remedy = "write a new one with --update-baseline"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"the baseline {path} cannot be read ({error.strerror or error}): {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"the baseline {path} is no JSON: {remedy}") from error
    cases = data.get("cases") if isinstance(data, dict) and data.get("version") == VERSION else None
    if not isinstance(cases, dict) or not all(isinstance(case, dict) and set(FIGURES) <= case.keys() for case in cases.values()):
        raise Misconfigured(f"the baseline {path} is none of this version: {remedy}")
    return Baseline(model=str(data.get("model")), cases=cases)


def store(path: Path, outcome: Outcome, *, kept: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Write what a run came to; `kept` are cases that were not run and stay as they were. Raises `Misconfigured`."""
    cases = {**(kept or {}), **{result.name: _figures(result) for result in outcome.results}}
    data = {"version": VERSION, "model": outcome.model, "cases": dict(sorted(cases.items()))}
    try:
        replace_file(path, (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        why = error.strerror or error
        raise Misconfigured(f"the baseline {path} cannot be written ({why}): name another with --baseline FILE") from error


def _figures(result: Result) -> dict[str, Any]:
    return {
        "passed": result.passed, "steps": round(result.steps, 2), "turns": round(result.turns, 2), "dollars": round(result.dollars, 6),
    }  # fmt: skip


def compare(before: Baseline, outcome: Outcome, *, tolerance: float = TOLERANCE, whole: bool = True) -> list[Change]:
    """What has changed, regressions first. `whole`: all cases were run, so that one which is not there is gone."""
    changes: list[Change] = []
    for result in outcome.results:
        old = before.cases.get(result.name)
        if old is None:
            changes.append(Change(case=result.name, what="result", before="new", now=_word(result.passed), worse=not result.passed,
                                  why=_why(result)))  # fmt: skip
            continue
        if bool(old.get("passed")) != result.passed:
            changes.append(Change(case=result.name, what="result", before=_word(bool(old.get("passed"))), now=_word(result.passed),
                                  worse=not result.passed, why=_why(result)))  # fmt: skip
        now = _figures(result)
        for what in FIGURES:
            was, there = float(old[what]), float(now[what])
            dearer, cheaper = there > was * (1 + tolerance) + 1e-9, there < was * (1 - tolerance) - 1e-9
            if dearer or (cheaper and result.passed):  # what failed early is not cheap
                form = "${:.5f}" if what == "dollars" else "{:.4g}"
                changes.append(Change(case=result.name, what=what, before=form.format(was), now=form.format(there), worse=dearer))
    if whole:
        there_now = {result.name for result in outcome.results}
        changes += [
            Change(case=name, what="result", before=_word(bool(old.get("passed"))), now="gone", worse=True)
            for name, old in before.cases.items() if name not in there_now
        ]  # fmt: skip
    return sorted(changes, key=lambda change: (not change.worse, change.case, change.what != "result"))


def _word(passed: bool) -> str:
    return "pass" if passed else "FAIL"


def _why(result: Result) -> str:
    return result.problems[0] if result.problems else ""
