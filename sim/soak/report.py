"""What a soak came to: its verdict, its figures, its faults and how each ended.

Invariant: pure; a sentence that did not hold has a finding behind it, and nothing held if there is one.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sim.oracle import Finding
from sim.report.figures import Axis, Figures, Found, Sentence, clean
from sim.soak.catalogue import CATALOGUE
from sim.soak.recovery import BOUND
from sim.soak.trial import Outcome

#: What memory may grow after the first day: a share of it, and megabytes that any process may need more.
GROWTH, SLACK_MB = 0.10, 24.0
RUNGS = ("evict_tool_outputs", "compact", "trim", "shed_recall", "hard_reset", "give_up")
NOTES = (
    "Time is virtual: x is hours of the NPC's own days, lags are seconds that a player would have waited, and nothing waited for a clock.",
    "The model's answers take 0.8 to 4 virtual seconds. Dollars are today's prices of the model that the stand-in plays.",
    (
        "A kill copies the home's files at that instant and goes on from the copy: what kill -9 leaves. What a power cut may take besides, "
        "pages that the system had not written out, is not in it."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was run."""

    npcs: int
    days: float
    seed: int
    window: int
    faults: Mapping[str, float]
    workers: int


@dataclass(slots=True, kw_only=True)
class Summary:
    """All lives together."""

    asked: Asked
    outcomes: Sequence[Outcome]
    seconds: float = 0.0
    replays: Sequence[str] = field(default_factory=list)

    @property
    def findings(self) -> list[tuple[str, Finding]]:
        """With whose they are: those of the lives, and memory that grew."""
        found = [(o.script.npc, f) for o in self.outcomes for f in o.findings]
        return found + [(o.script.npc, f) for o in self.outcomes if (f := grown(o)) is not None]

    @property
    def held(self) -> bool:
        """Whether nothing was found."""
        return bool(self.outcomes) and not self.findings

    def faults(self) -> dict[str, dict[str, Any]]:
        """By name: how often it struck and how it ended."""
        out: dict[str, dict[str, Any]] = {}
        for name in self.asked.faults:
            blows = [b for o in self.outcomes for b in o.blows if b.strike.fault == name]
            met = [b for b in blows if b.met]
            out[name] = {
                "domain": CATALOGUE[name].domain,
                "times": len(met),
                "not_met": len(blows) - len(met),
                "touched": sum(b.hits for b in met),
                "ended": dict(Counter(b.how for b in met).most_common()),
                "turns_lost_after": max((b.late for b in met), default=0),
            }
        return out

    def lines(self) -> list[tuple[bool | None, str]]:
        """The verdict: held or not (None: a figure), and a sentence."""
        outs, faults = self.outcomes, self.faults()
        turns, good = sum(o.turns for o in outs), sum(o.good for o in outs)
        lost, weathered = [o for o in outs if o.turns < len(o.script.turns)], sum(o.weathered for o in outs)
        longest = max((o.longest for o in outs), default=0)
        times = [each["times"] for each in faults.values()]
        rules = Counter(f.rule for _, f in self.findings)
        wedged = sum("wedged" in f.sentence or "no good turn" in f.sentence or "not answered" in f.sentence for _, f in self.findings)
        grew = [g for o in outs if (g := growth(o)) is not None]
        lives, kills = sum(o.lives for o in outs), sum(o.kills for o in outs)
        lags = sorted(lag for o in outs for lag in o.late_s)
        out: list[tuple[bool | None, str]] = []

        def say(held: bool | None, *parts: str) -> None:
            out.append((held, " ".join(parts)))

        say(
            not lost,
            f"{turns:,} turns were told to {len(outs)} NPCs over {self.asked.days:g} virtual days; {good:,} were lived to their end,",
            f"{weathered:,} were lost while a fault went on, {turns - good - weathered:,} for no such reason.",
        )
        say(not wedged, f"{wedged} wedges. After a fault was over there was a good turn within {longest} turns (bound: {BOUND}).")
        found = ", ".join(f"{n} × {rule}" for rule, n in rules.most_common())
        say(not rules, f"The oracle found: {found}." if rules else "The oracle found nothing.")
        if times:
            say(
                None,
                f"{sum(times):,} faults of {len(times)} kinds, each at least {min(times)} times;",
                f"{lives} processes lived, {kills} of which were killed.",
            )
        if grew:
            most, middle = max(grew), statistics.median(grew)
            say(all(grown(o) is None for o in outs), f"Memory after the first day: {most:+.1f} MB at most, {middle:+.1f} MB in the middle.")
        tried, acts, opened = sum(o.tried for o in outs), sum(o.acts for o in outs), rules["T4"]
        say(
            not opened and not rules["C35"],
            f"{acts:,} actions were carried out, none twice by itself; the vault behind a shut gate was asked for {tried} times",
            f"and opened {opened} times.",
        )
        if lags:
            middle, most = _share(lags, 0.5), _share(lags, 0.99)
            say(None, f"From a line to the request that ends its turn: {middle:.1f} s in the middle, {most:.0f} s for 99 of 100 (virtual).")
        return out

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        outs = self.outcomes
        turns = max(1, sum(o.turns for o in outs))
        tokens = sum(o.tokens for o in outs)
        lags = sorted(lag for o in outs for lag in o.late_s)
        cpu = sum(o.cpu_s for o in outs)
        days = sum(o.turns for o in outs) / 48
        return {
            "held": self.held,
            "npcs": self.asked.npcs, "days": self.asked.days, "seed": self.asked.seed, "window": self.asked.window,
            "seconds": round(self.seconds, 1), "seconds_per_npc_day": round(sum(o.seconds for o in outs) / max(days, 0.02), 2),
            "cpu_ms_per_turn": round(1e3 * cpu / turns, 1),
            "turns": sum(o.turns for o in outs), "turns_good": sum(o.good for o in outs), "turns_weathered": sum(o.weathered for o in outs),
            "longest_without_good_turn": max((o.longest for o in outs), default=0),
            "requests": sum(o.requests for o in outs), "input_tokens": tokens,
            "cache_read_share": round(sum(o.cached for o in outs) / max(1, tokens), 4),
            "dollars": round(sum(o.dollars for o in outs), 6),
            "dollars_per_1000_turns": round(1_000 * sum(o.dollars for o in outs) / turns, 4),
            "observations": sum(o.told for o in outs), "actions": sum(o.acts for o in outs),
            "lives": sum(o.lives for o in outs), "kills": sum(o.kills for o in outs),
            "guarded_tried": sum(o.tried for o in outs),
            "rungs": {name: sum(o.rungs[name] for o in outs) for name in RUNGS},
            "lag_s_p50": round(_share(lags, 0.5), 2), "lag_s_p99": round(_share(lags, 0.99), 2),
            "memory_growth_mb": {o.script.npc: g for o in outs if (g := growth(o)) is not None},
            "rss_mb": {o.script.npc: o.rss_mb for o in outs},
            "faults": self.faults(),
            "findings": [{"npc": npc, "turn": f.turn, "rule": f.rule, "sentence": f.sentence} for npc, f in self.findings],
            "replays": list(self.replays),
        }  # fmt: skip

    def figures(self, *, command: str, now: datetime) -> Figures:
        """For the report."""
        summary = {name: value for name, value in self.as_json().items() if name not in ("findings", "rss_mb")}
        return Figures(
            kind="soak", made_at=now.isoformat(timespec="seconds"), command=command, axis=Axis(name="virtual time", unit="h"),
            options={"npcs": self.asked.npcs, "days": self.asked.days, "seed": self.asked.seed, "window": self.asked.window},
            summary=summary, verdict=tuple(Sentence(held=held, text=text) for held, text in self.lines()),
            findings=tuple(
                Found(turn=f.turn, rule=f.rule, sentence=clean(f"{npc}: {f.sentence}", 2_000)) for npc, f in self.findings[:1_000]
            ),
            lives=tuple(o.figures for o in self.outcomes if o.figures is not None), notes=NOTES,
        )  # fmt: skip


def growth(outcome: Outcome) -> float | None:
    """Megabytes from the end of the first day to the end of the last; None for a life of less than two."""
    return round(outcome.rss_mb[-1] - outcome.rss_mb[0], 1) if len(outcome.rss_mb) > 1 else None


def grown(outcome: Outcome) -> Finding | None:
    """The finding that memory grows from day to day."""
    more = growth(outcome)
    if more is None or more <= SLACK_MB + GROWTH * outcome.rss_mb[0]:
        return None
    days = ", ".join(f"{mb:.0f}" for mb in outcome.rss_mb)
    return Finding(turn=-1, rule="P1", sentence=f"memory grew by {more:.0f} MB after the first day: {days} MB at the end of each")


def _share(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))] if ordered else 0.0
