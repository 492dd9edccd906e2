"""A flood's lives as figures.

Invariant: pure; nothing is measured here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sim.report.figures import Axis, Figures, Found, Life, Scalar, Sentence, clean
from sim.report.verdict import Report

#: Findings that a file holds at most.
MOST_FINDINGS = 1_000
#: Options that say nothing about the run, or something about the machine.
_UNSAID = frozenset({"record", "command", "keep"})
NOTES = (
    (
        "What the context is made of is counted by the stand-in's tokenizer in each request as it was received; the rungs' sizes are in "
        "the product's own count, which is smaller and which a learned factor makes up for."
    ),
    (
        "The prompt cache lives by a clock of ten seconds a turn, a real server's pace, however fast the flood runs. Dollars are today's "
        "prices of the model that the stand-in plays."
    ),
    "The stand-in answers at once: times are the product's own and this machine's, not a model's.",
)


def collect(report: Report, *, command: str, now: datetime, axis: Axis | None = None) -> Figures:
    """The figures of a run that was recorded.

    Args:
        report: of it.
        command: what made it.
        now: when it ended.
        axis: what x is.
    """
    summary = {name: value for name, value in report.as_json().items() if name != "findings"}
    untold = [f"{life.npc}: the product's own log could not be read: {clean(life.untold, 500)}" for life in report.lives if life.untold]
    findings = report.findings
    if len(findings) > MOST_FINDINGS:
        untold.append(f"There were {len(findings)} findings; the first {MOST_FINDINGS} are here.")
    return Figures(
        kind="flood",
        made_at=now.isoformat(timespec="seconds"),
        command=command,
        axis=axis or Axis(),
        options={f.name: _scalar(getattr(report.options, f.name)) for f in dataclasses.fields(report.options) if f.name not in _UNSAID},
        summary=summary,
        verdict=tuple(Sentence(held=line.held, text=line.text) for line in report.lines()),
        findings=tuple(Found(turn=f.turn, rule=f.rule, sentence=clean(f.sentence, 2_000)) for f in findings[:MOST_FINDINGS]),
        lives=tuple(_life(report.lives)),
        notes=(*NOTES, *untold),
    )


def _life(lives: Sequence[Any]) -> list[Life]:
    return [life.recorder.life(exit_status=life.exit_status) for life in lives if life.recorder is not None]


def _scalar(value: Any) -> Scalar:
    if isinstance(value, Path):
        return value.name  # folders are this machine's
    return value if value is None or isinstance(value, bool | int | float | str) else " ".join(map(str, value))
