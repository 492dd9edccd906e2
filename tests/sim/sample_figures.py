"""Figures of a made-up life: every plot has something to draw, and every text of others is hostile."""

from __future__ import annotations

from dataclasses import replace

from sim.messages_api import OVERLOADED, Record, Usage
from sim.report.figures import Figures, Sentence
from sim.report.recorder import Recorder

HOSTILE = (
    "</p></article><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\"> $\\frac{a}{b}$ 葵 {{ 7 * 7 }}"
)


def sample(*, npc: str = "Oda", turns: int = 40, seconds: float = 0.01, resets: int = 2, dearer: float = 1.0, **summary: float) -> Figures:
    """A life with faults and resets. `dearer` multiplies what a turn costs, `seconds` is how long one takes."""
    now = [1_000.0]
    recorder = Recorder(npc, limit=10_000, clock=lambda: now[0], wall=lambda: now[0])
    events: list[dict[str, object]] = []
    for n in range(turns):
        recorder.begins(n, n, stamp=f"#{n}.0.")
        at = now[0]
        usage = Usage(input_tokens=3_000 + 10 * n, cache_read_tokens=2_000, output_tokens=90)
        asked = Record(number=n, at=at, request_id="", model="m", body={}, stream=True)
        if n % 10 == 5:
            recorder.request(replace(asked, outcome="failed", faults=(OVERLOADED,)))
        recorder.request(replace(asked, usage=usage, dollars=0.001 * dearer, stop_reason="end_turn"))
        now[0] += seconds
        recorder.ends(cpu_ms=30.0 + n % 7, rss_mb=150.0 + n / 10)
        events += [
            {"kind": "request", "at": at, "data": {"policy_ms": 1.5 + n % 3}},
            {"kind": "answer", "at": at, "data": {"seconds": 0.02}},
            {"kind": "rung", "at": at, "data": {"rung": "trim", "before": 4_000, "after": 3_000, "failed": n % 4 == 0}},
        ]
    for n in range(resets):
        at = 1_000.0 + seconds * (n + 1) * turns / (resets + 1)
        events += [
            {"kind": "diary", "at": at, "data": {"entry": f"day-{n}", "tags": ["context-reset"], "author": "agent"}},
            {"kind": "reset", "at": at, "data": {"reason": HOSTILE, "tokens": 5_000, "how": "full"}},
            {"kind": "rung", "at": at, "data": {"rung": "hard_reset", "before": 5_000, "after": 2_000}},
        ]
    recorder.log(events)
    recorder.entries([{"id": f"day-{n}", "text": f"{n}: {HOSTILE} \ud800"} for n in range(resets)])
    return Figures(
        made_at="2031-05-07T10:00:00+00:00",
        command=f"npc sim flood --turns {turns}",
        options={"turns": turns, "window": 10_000, "seed": 7},
        summary={
            "turns": turns, "tokens_per_turn": 5_000.0, "dollars_per_1000_turns": 1.0 * dearer, "rungs": {"hard_reset": resets}, **summary,
        },
        verdict=(Sentence(held=True, text="All turns were lived."), Sentence(held=None, text=HOSTILE)),
        lives=(recorder.life(exit_status=0),),
    )  # fmt: skip
