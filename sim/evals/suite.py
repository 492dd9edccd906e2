"""Many cases, each with each of its minds, as often as is asked for; and what they come to together.

Invariant: cases run one after another in one process (imports are paid once, figures do not depend on neighbours), and one that goes wrong
harms no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sim.evals.case import Case, Mind
from sim.evals.checks import always, problems
from sim.evals.judge import Judge
from sim.evals.running import Endpoint, Parts, lead
from sim.evals.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one case went with one mind, over `runs` tries.

    Attributes:
        name: of the case, with `/mind` behind it where there are several.
        passes: tries in which all held.
        problems: of the first try that did not hold.
        steps, turns, dollars, seconds: means of one try; seconds are of the wall clock, `lived_s` virtual.
        resolved: tries in which the goal was reached and all held.
        completion: turns to completion, mean of those.
        style: what a judge said, a sentence each; not counted where the judge is not to be trusted.
    """

    name: str
    tags: tuple[str, ...]
    runs: int
    passes: int
    problems: tuple[str, ...]
    steps: float
    turns: float
    dollars: float
    seconds: float
    lived_s: float
    resolved: int
    completion: float | None
    style: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every try held."""
        return self.passes == self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A whole run."""

    results: tuple[Result, ...]
    model: str
    judge: str = ""

    @property
    def dollars(self) -> float:
        """All tries of all cases."""
        return sum(r.dollars * r.runs for r in self.results)

    @property
    def resolved(self) -> int:
        """Tries that reached their goal and held."""
        return sum(r.resolved for r in self.results)

    @property
    def dollars_per_resolved(self) -> float | None:
        """What one resolved task costs, the failed tries included."""
        return self.dollars / self.resolved if self.resolved else None

    @property
    def turns_to_completion(self) -> float | None:
        """Of the resolved ones, the mean."""
        known = [(r.completion, r.resolved) for r in self.results if r.completion is not None]
        return sum(turns * times for turns, times in known) / sum(times for _, times in known) if known else None

    def pass_hat(self, k: int) -> float:
        """pass^k: the chance that `k` tries of a case all hold, the mean over the cases."""
        shares = [math.comb(r.passes, k) / math.comb(r.runs, k) for r in self.results if r.runs >= k]
        return sum(shares) / len(shares) if shares else 0.0


Watcher = Callable[[str, int, int], None]


async def run(
    cases: Sequence[Case], *, repeat: int = 1, endpoint: Endpoint | None = None, parts: Parts | None = None, judge: Judge | None = None,
    watch: Watcher | None = None,
) -> Outcome:  # fmt: skip
    """Run the cases. With an `endpoint` each runs once for all its minds, since the mind is real then."""
    pairs = [(case, mind) for case in cases for mind in (case.mind[:1] if endpoint else case.mind)]
    results = []
    for number, (case, mind) in enumerate(pairs):
        name = case.name if endpoint or len(case.mind) == 1 else f"{case.name}/{mind.name}"
        if watch:
            watch(name, number, len(pairs))
        results.append(await _one(name, case, mind, repeat=repeat, endpoint=endpoint, parts=parts, judge=judge))
    return Outcome(results=tuple(results), model=endpoint.model if endpoint else "stand-in", judge=judge.verdict if judge else "")


async def _one(
    name: str, case: Case, mind: Mind, *, repeat: int, endpoint: Endpoint | None, parts: Parts | None, judge: Judge | None
) -> Result:
    traces: list[tuple[Trace, list[str]]] = []
    style: list[str] = []
    for _ in range(repeat):
        trace = await lead(case, mind, endpoint=endpoint, parts=parts)
        wrong = problems(case.expect, trace)
        if not endpoint:  # a stand-in's own expectations say nothing of another mind
            wrong += [one for one in problems(mind.expect, trace) if one not in wrong]
        wrong += always(trace)
        if judge and case.expect.style:
            said = await judge.look(case.expect.style, trace.said)
            style += [one.text for one in said]
            wrong += [one.text for one in said if one.counts and not one.held]
        traces.append((trace, wrong))
    done = [trace for trace, wrong in traces if not wrong and (case.goal.done is None or trace.resolved_at)]
    completion = [trace.resolved_at[0] if trace.resolved_at else trace.turns for trace in done]
    return Result(
        name=name, tags=case.tags, runs=repeat, passes=sum(not wrong for _, wrong in traces),
        problems=next((tuple(wrong) for _, wrong in traces if wrong), ()),
        steps=_mean([t.steps for t, _ in traces]), turns=_mean([t.turns for t, _ in traces]),
        dollars=_mean([t.dollars for t, _ in traces]), seconds=_mean([t.wall_s for t, _ in traces]),
        lived_s=_mean([t.seconds for t, _ in traces]), resolved=len(done),
        completion=_mean(completion) if completion else None, style=tuple(dict.fromkeys(style)),
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def only(outcome: Outcome, names: Sequence[str]) -> Outcome:
    """The same of some cases."""
    return replace(outcome, results=tuple(r for r in outcome.results if r.name.split("/")[0] in names))
