"""Several lives at a time, one after the other in each of a few processes, and what they tell on the way.

Invariant: a life never shares a process with another one that goes on, since a full disk is the process's own. Whatever becomes of a
process, its life gets an end: one that says nothing for too long is ended and is a finding.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import multiprocessing
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sim.oracle import Finding
from sim.soak.script import Script

#: Seconds by the wall clock in which a process says something, or is taken for stuck.
SILENCE_S = 300.0
#: Turns of a life after which it is told how it goes.
EVERY = 4
#: Kinds of findings of one life that are shrunk.
MOST_SHRUNK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """How a life goes. Counts since it began; `faults` by name, those that were met."""

    npc: str
    worker: int
    turn: int
    turns: int
    total: int
    good: int
    weathered: int
    requests: int
    tokens: int
    cached: int
    dollars: float
    lag_s: float
    rss_mb: float
    findings: int
    rungs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    shrinking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A life is over. `replays`: files of scripts that fail."""

    npc: str
    worker: int
    outcome: Any
    replays: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How lives are to be lived.

    Attributes:
        record: keep figures for the report.
        shrink_s: seconds for shrinking one kind of finding; 0: not at all.
        out: where scripts of failing lives go.
        keep: write them at all.
    """

    record: bool = False
    shrink_s: float = 120.0
    out: Path = Path("soak-failures")
    keep: bool = True


def crew(scripts: Sequence[Script], orders: Orders, *, workers: int) -> Iterator[News | Done]:
    """Lives all of them, in so many processes; gives what they tell, and each end."""
    context = multiprocessing.get_context("spawn")
    news: Any = context.Queue()
    waiting = list(scripts)
    hands: dict[int, _Hand] = {}
    for number in range(min(workers, len(waiting))):
        hands[number] = _Hand(context, news, orders, number, waiting.pop(0))
    try:
        while hands:
            told: News | Done | None = None
            with contextlib.suppress(queue.Empty):
                told = news.get(timeout=1.0)
            if told is not None:
                hand = hands.get(told.worker)
                if hand is None or told.npc != hand.script.npc:
                    continue  # from a process that was given up
                hand.heard = time.monotonic()
                yield told
                if isinstance(told, Done):
                    _next(hands, told.worker, waiting)
                continue
            for number, hand in list(hands.items()):
                if why := hand.lost():
                    yield Done(npc=hand.script.npc, worker=number, outcome=_lost(hand.script, why))
                    hand.end()
                    del hands[number]
                    if waiting:
                        hands[number] = _Hand(context, news, orders, number, waiting.pop(0))
    finally:
        for hand in hands.values():
            hand.end()
        news.cancel_join_thread()
        news.close()


def _next(hands: dict[int, _Hand], number: int, waiting: list[Script]) -> None:
    if waiting:
        hands[number].take(waiting.pop(0))
    else:
        hands.pop(number).leave()


class _Hand:
    """One process, and the life it is at."""

    def __init__(self, context: Any, news: Any, orders: Orders, number: int, script: Script) -> None:
        self.heard = time.monotonic()
        self.script = script
        self._tasks: Any = context.Queue()
        self._process = context.Process(target=_work, args=(self._tasks, news, orders, number), daemon=True, name=f"soak {number}")
        self._process.start()
        self._tasks.put(script)

    def take(self, script: Script) -> None:
        self.script, self.heard = script, time.monotonic()
        self._tasks.put(script)

    def lost(self) -> str:
        """Why nothing more is to be hoped for, or ""."""
        if not self._process.is_alive():
            return f"its process ended with {self._process.exitcode}"
        if time.monotonic() - self.heard > SILENCE_S:
            return f"nothing was heard of it for {SILENCE_S:.0f} seconds"
        return ""

    def leave(self) -> None:
        self._tasks.put(None)
        self._process.join(10.0)
        self.end()

    def end(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5.0)
        self._tasks.cancel_join_thread()
        self._tasks.close()


def _lost(script: Script, why: str) -> Any:
    from sim.soak.trial import Outcome  # noqa: PLC0415 - the product is loaded where it is lived

    return Outcome(script=script, findings=[Finding(turn=-1, rule="P1", sentence=f"the life was lost: {why}")])


# -- in the process


def _work(tasks: Any, news: Any, orders: Orders, number: int) -> None:
    import structlog  # noqa: PLC0415 - as below

    faulthandler.enable()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL), logger_factory=_nowhere)
    while (script := tasks.get()) is not None:
        outcome, replays = lived(script, orders, news.put, worker=number)
        news.put(Done(npc=script.npc, worker=number, outcome=outcome, replays=tuple(map(str, replays))))


def _nowhere(*_: Any) -> Any:
    import structlog  # noqa: PLC0415

    return structlog.ReturnLogger()


def lived(script: Script, orders: Orders, tell: Callable[[News], None], *, worker: int = 0) -> tuple[Any, list[Path]]:
    """One life, and the short scripts of what was found in it."""
    from sim.soak.trial import live  # noqa: PLC0415

    def on_turn(trial: Any) -> None:
        if trial.outcome.turns % EVERY == 0 or trial.outcome.turns == len(script.turns):
            tell(_news(trial, worker))

    outcome = live(script, on_turn=on_turn, record=orders.record)
    if not outcome.findings or not orders.keep:
        return outcome, []
    if not orders.shrink_s:
        return outcome, [_written(script, outcome.findings[0], orders.out / f"{script.npc.lower()}-{script.seed}.json")]
    return outcome, _shrunk(script, outcome.findings, orders, lambda: tell(_still(script, worker)))


def _written(script: Script, finding: Finding, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(replace(script, found=(f"{finding.rule}: {finding.sentence}",)).text(), encoding="utf-8")
    return path


def _shrunk(script: Script, findings: Sequence[Finding], orders: Orders, alive: Callable[[], None]) -> list[Path]:
    from sim.soak.shrink import family, shrink  # noqa: PLC0415
    from sim.soak.trial import live  # noqa: PLC0415

    kinds: dict[str, Finding] = {}
    for finding in findings:
        kinds.setdefault(family(finding), finding)
    paths: list[Path] = []
    for kind, finding in list(kinds.items())[:MOST_SHRUNK]:

        def fails(candidate: Script, kind: str = kind) -> bool:
            alive()

            def look(trial: Any) -> None:
                if any(family(found) == kind for found in trial.oracle.findings):
                    raise _Seen

            try:
                return any(family(found) == kind for found in live(candidate, on_turn=look).findings)
            except _Seen:
                return True

        shortest = shrink(script, fails, last_turn=finding.turn, seconds=orders.shrink_s).script
        name = f"{script.npc.lower()}-{script.seed}-{finding.rule.lower()}-{len(paths) + 1}.json"
        paths.append(_written(shortest, finding, orders.out / name))
    return paths


class _Seen(Exception):  # noqa: N818 - reads as what happened
    """The life fails as expected; the rest of it does not matter."""


def _news(trial: Any, worker: int) -> News:
    from sim.soak.disk import resident_mb  # noqa: PLC0415

    out = trial.outcome
    return News(
        npc=out.script.npc, worker=worker, turn=trial.turn, turns=out.turns, total=len(out.script.turns), good=out.good,
        weathered=out.weathered, requests=out.requests, tokens=out.tokens, cached=out.cached, dollars=out.dollars,
        lag_s=max(out.late_s[-EVERY:], default=0.0), rss_mb=resident_mb(), findings=len(trial.oracle.findings), rungs=Counter(out.rungs),
        faults=Counter(blow.strike.fault for blow in out.blows if blow.met),
    )  # fmt: skip


def _still(script: Script, worker: int) -> News:
    return News(
        npc=script.npc, worker=worker, turn=-1, turns=len(script.turns), total=len(script.turns), good=0, weathered=0, requests=0, tokens=0,
        cached=0, dollars=0.0, lag_s=0.0, rss_mb=0.0, findings=1, shrinking=True,
    )  # fmt: skip
