"""What the ladder's marks cost: dollars per 1,000 turns of a flood over a grid of high and low marks.

The context policy alone is measured: the core's session against the stand-in's endpoint, in this process, without sockets, disk or
recall, so that a grid takes minutes. Invariant: a row is a function of (seed, turns, window, marks, model).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from npc.context import DOCTRINE
from npc.hearing import Ears
from npc.notebook import own_tools
from npc.senses import shown
from npc.tools import Toolbox
from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core.budget import Budget
from runtime.core.layout import Fixed, Shape, make_fixed
from runtime.core.session import Session, Settings
from runtime.core.values import Answer, Failure, Fault, Outcome, Stop, Usage
from runtime.model.counting import Counter
from runtime.model.profiles import profile
from sim import actions
from sim.api.endpoint import Answered, Caller, Endpoint
from sim.brains import FloodBrain
from sim.floods import RULE, Flood
from world_adapter.frames import Observation, Speaker

TURN_S = 10.0
_NUMBER = re.compile(r"(\d+) tokens")
_CALLER = Caller(key="sim")
TAIL = f"[standing rules] {RULE}\n[budget] step 1 of 8; $0.01 of $1.00 today; window 40% full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One point of the grid. Sizes in the provider's tokens, money in dollars."""

    window: int
    high: float
    low: float
    dollars_per_1000_turns: float
    cache_read_share: float
    tokens_per_request: int
    rejected: int
    failed: int
    cuts: int
    policy_ms_p50: float
    policy_ms_p99: float


@dataclass(slots=True)
class _Run:
    """A session living one flood."""

    flood: Flood
    session: Session
    endpoint: Endpoint
    fixed: Fixed
    count: Counter
    ears: Ears
    now: float = 0.0
    event: int = 0
    stirs: int = 0
    requests: list[tuple[int, int, float]] = field(default_factory=list)  # input, read, dollars
    rejected: int = 0
    cuts: int = 0
    done: set[int] = field(default_factory=set)
    policy: list[float] = field(default_factory=list)

    def live(self, turn: int) -> None:
        self.now += TURN_S
        told = self.flood.turn(turn)
        waiting: list[ev.Observation] = []
        for line in told.lines:
            self.event += 1
            seen = Observation(
                seq=self.event,
                t=self.now,
                kind=line.kind,
                text=line.text,
                prio=line.prio,
                speaker=Speaker(name=line.player, kind="player") if line.player else None,
                to="me" if line.to_npc else None,
            )
            waiting.append(shown(seen, event=self.event, ears=self.ears, me="me", count=self.count.count))
        self.stirs += 1
        self._give(ev.Stirred(now=self.now, n=self.stirs, urgent=True))
        while effects := self.session.effects():
            for effect in effects:
                self._do(effect, turn, waiting)

    def _give(self, event: ev.Event) -> None:
        start = time.perf_counter()
        self.session.receive(event)
        if isinstance(event, ev.Prepared):
            self.policy.append(time.perf_counter() - start)

    def _do(self, effect: fx.Effect, turn: int, waiting: list[ev.Observation]) -> None:
        match effect:
            case fx.Prepare(op=op, drain=drain):
                news = tuple(waiting) if drain else ()
                if drain:
                    waiting.clear()
                tokens = self.count.count(TAIL)
                self._give(
                    ev.Prepared(
                        now=self.now, op=op, fixed=self.fixed, tail=TAIL, tail_tokens=tokens, observations=news, through=self.stirs
                    )
                )
            case fx.CallModel(op=op, body=body):
                self.event += 1
                self._give(ev.ModelReturned(now=self.now, op=op, outcome=self._ask(body), event=self.event))
            case fx.RunTools(op=op, calls=calls):
                for call in calls:
                    self.event += 1
                    result = self.flood.result(turn, call.name, call.arguments)
                    self._give(
                        ev.ToolFinished(now=self.now, op=op, call=call.id, text=result.text, error=not result.ok, event=self.event)
                    )
            case fx.PersistSession(op=op):
                self._give(ev.SessionPersisted(now=self.now, op=op, how="full", event=self.event))
            case fx.Log(kind="turn", data=data) if not data["failed"]:
                self.done.add(turn)
            case fx.Log(kind="rung", data=data) if data["rung"] == "evict_tool_outputs":
                self.cuts += 1
            case _:
                pass

    def _ask(self, body: Mapping[str, Any]) -> Outcome:
        outcome = self.endpoint.messages(body, _CALLER, request_id=self.endpoint.request_id(), at=self.now)
        if not isinstance(outcome, Answered):
            self.rejected += 1
            words = outcome.refusal.message
            found = _NUMBER.search(words)
            fault = Fault.TOO_LONG if found else Fault.INVALID
            return Failure(fault=fault, message=words[:300], prompt_tokens=int(found[1]) if found else None)
        self.endpoint.begin(outcome)
        record = outcome.record
        usage = Usage(
            input_tokens=record.usage.input_tokens,
            cache_read_tokens=record.usage.cache_read_tokens,
            cache_write_tokens=record.usage.cache_write_tokens,
            output_tokens=record.usage.output_tokens,
        )
        self.requests.append((usage.total_input, usage.cache_read_tokens, record.dollars))
        if outcome.output.stop_reason == "refusal":
            return Failure(fault=Fault.REFUSED, message="refused", usage=usage)
        return Answer(content=tuple(outcome.output.content), stop=Stop(outcome.output.stop_reason), usage=usage, dollars=record.dollars)


def measure(*, window: int, high: float, low: float, turns: int, seed: int = 7, model: str = "claude-haiku-5-5") -> Row:
    """One point of the grid."""
    count = Counter.load()
    facts = profile(model)
    flood = Flood(seed=seed, window=window)
    settings = Settings(
        budget=Budget(window=window, output=min(1_024, window // 8), high=high, low=low),
        shape=Shape(model=model, tail_as_system=facts.system_in_messages, thinking_off=facts.thinking_off is not None),
        dollars_per_day=1e9,
    )
    session = Session(settings, count.count)
    fixed = make_fixed(
        tools=Toolbox(actions.specs(), own=own_tools(window=window)).tools,
        system=[("world rules", DOCTRINE), ("persona and constitution", f"You are {flood.npc}, a miller.\n\n# Constitution\n{RULE}")],
        count=count.count,
    )
    run = _Run(
        flood=flood,
        session=session,
        endpoint=Endpoint(FloodBrain(npc=flood.npc, seed=seed), window=window),
        fixed=fixed,
        count=count,
        ears=Ears((flood.npc,)),
    )
    session.receive(ev.Attached(now=0.0))
    session.effects()
    for turn in range(turns):
        run.live(turn)
    tokens = sum(r[0] for r in run.requests)
    marks = quantiles(run.policy, n=100)
    return Row(
        window=window,
        high=high,
        low=low,
        dollars_per_1000_turns=1_000 * sum(r[2] for r in run.requests) / turns,
        cache_read_share=sum(r[1] for r in run.requests) / max(1, tokens),
        tokens_per_request=tokens // max(1, len(run.requests)),
        rejected=run.rejected,
        failed=turns - len(run.done),
        cuts=run.cuts,
        policy_ms_p50=marks[49] * 1e3,
        policy_ms_p99=marks[98] * 1e3,
    )


def table(rows: Sequence[Row]) -> str:
    """The grid as Markdown, the cheapest row of each window in bold."""
    names = ("window", "high", "low", "$ per 1,000 turns", "read from cache", "tokens per request", "cuts", "rejected", "failed")
    head = f"| {' | '.join(names)} |\n{'|---' * len(names)}|"
    best = {w: min(r.dollars_per_1000_turns for r in rows if r.window == w) for w in {r.window for r in rows}}
    lines = []
    for r in rows:
        money = f"{r.dollars_per_1000_turns:.3f}"
        money = f"**{money}**" if r.dollars_per_1000_turns == best[r.window] else money
        lines.append(
            f"| {r.window:,} | {r.high:.2f} | {r.low:.2f} | {money} | {r.cache_read_share:.0%} | {r.tokens_per_request:,} "
            f"| {r.cuts} | {r.rejected} | {r.failed} |"
        )
    return "\n".join([head, *lines])
