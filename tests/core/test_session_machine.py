"""A session driven by a hostile world, model and process, for as long as hypothesis likes.

Rows: P1, P2, P9, P11, P12, P13, P14, C1 to C7, C35, T1. The invariants are in `shell`; this is what may happen, in any order.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from runtime.core import events as ev
from runtime.core.layout import Shape
from runtime.core.session import Session
from runtime.core.spending import Cheaper, Limits
from runtime.core.turns import State
from runtime.core.values import Fault, Stop

from .examples import examples
from .shell import Shell, settings_of

SIZES = (40, 1, 200, 900, 3_000, 9_000, 36_000)
sizes = st.sampled_from(SIZES)
urgency = st.booleans()
IDS = ("call_1", "call_2", "call_1", "", "odd id!", "call_3")
ENDS = ("result", "error", "denied", "denied", "large", "long", "open")
TAGS = ("idle", "gather", "retry", "yield", "tools", "watch", "unheard of")
FAULTS = tuple(f for f in Fault if f is not Fault.TOO_LONG)

HARD_LIMITS = Limits(
    seconds_per_step=30.0, output_per_step=200, dollars_per_turn=0.003, steps_per_hour=9, calls_per_hour=9, soft_share=0.4,
    reserve_share=0.3,
)  # fmt: skip
CHEAPER = Cheaper(shape=Shape(model="small", tail_as_system=False))


class Life(RuleBasedStateMachine):
    """One session's life."""

    @initialize(
        window=st.sampled_from((4_000, 1_400, 2_400, 9_000)),
        tail_as_system=st.booleans(),
        factor=st.sampled_from((1.4, 0.9, 2.6)),
        summary_tokens=st.sampled_from((0, 30)),
        dollars=st.sampled_from((5.0, 0.01)),
        limits=st.sampled_from((Limits(), Limits(), HARD_LIMITS)),
        cheaper=st.sampled_from((None, CHEAPER)),
        hurry=st.sampled_from((True, True, False)),
    )
    def begin(
        self, window: int, tail_as_system: bool, factor: float, summary_tokens: int, dollars: float, limits: Limits,
        cheaper: Cheaper | None, hurry: bool,
    ) -> None:  # fmt: skip
        self.hurry = hurry
        more = {"summary_tokens": summary_tokens, "dollars_per_day": dollars, "steps_per_turn": 4, "limits": limits, "cheaper": cheaper}
        settings = settings_of(window, tail_as_system=tail_as_system, **more)
        self.shell = Shell(settings, factor=factor)
        self.shell.attach()

    @property
    def session(self) -> Session:
        return self.shell.session

    # ------------------------------------------------------------ the world
    @rule(many=st.lists(sizes, min_size=1, max_size=4), urgent=urgency)
    def news(self, many: list[int], urgent: bool) -> None:
        for size in many:
            self.shell.hear(size, urgent=urgent and size == many[-1])
        self._hurry()

    @rule(what=st.sampled_from(("up", "down", 1.0, 40.0, 90_000.0, -4_000.0)))
    def link_or_clock(self, what: str | float) -> None:
        if isinstance(what, float):
            self.shell.now += what
        elif what == "up":
            self.shell.attach()
        else:
            self.shell.detach()
        self._hurry()

    def _hurry(self) -> None:
        """Where materials are always at hand, the interesting things happen at the model and the tools."""
        if self.hurry and self.shell.asked:
            self.shell.prepare()

    @rule(steps=st.integers(1, 5))
    def go_on(self, steps: int) -> None:
        """Everyone is friendly for a moment."""
        for _ in range(steps):
            if self.session.state not in (State.DETACHED, State.ENDED):
                self.shell.go_on()
        self._hurry()

    # ------------------------------------------------------------ materials
    @precondition(lambda self: self.shell.asked)
    @rule(recalled=st.sampled_from((0, 80, 4_000)), notebook=st.sampled_from((0, 80, 4_000)))
    def materials(self, recalled: int, notebook: int) -> None:
        self.shell.prepare(recalled=recalled, notebook=notebook)

    @precondition(lambda self: self.shell.asked)
    @rule(extra=st.sampled_from((0, 300, 900)))
    def edited_constitution(self, extra: int) -> None:
        self.shell.prepare(extra=extra)

    # ------------------------------------------------------------ the model
    @precondition(lambda self: self.shell.call)
    @rule(size=st.sampled_from((20, 300, 2_000)))
    def words(self, size: int) -> None:
        self.shell.say("word " * (size // 5))
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule(ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=4), words=st.sampled_from(("", "I look.")), thinks=st.booleans())
    def tools(self, ids: list[str], words: str, thinks: bool) -> None:
        said = [{"type": "text", "text": words}]
        thought = [{"type": "thinking", "thinking": "hm", "signature": "s" * 40}] if thinks else []
        uses: list[dict[str, Any]] = [{"type": "tool_use", "id": i, "name": "look", "input": {"n": n}} for n, i in enumerate(ids)]
        self.shell.answer(*thought, *(said if words or thinks else []), *uses, stop=Stop.TOOL_USE)
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule(ends=st.lists(st.sampled_from(ENDS), min_size=1, max_size=4), reverse=st.booleans())
    def exchange(self, ends: list[str], reverse: bool) -> None:
        """A step with tools: each ends at once, becomes a long action, or stays open."""
        ids = [f"step_{self.session.op}_{n}" for n in range(len(ends))]
        self.shell.use(*ids, words="I act.")
        calls = list(zip(ids, ends, strict=True))
        for call, end in reversed(calls) if reverse else calls:
            if end == "long":
                self.shell.start(call)
            elif end != "open":
                self.shell.finish(call, 9_000 if end == "large" else 300, error=end in ("error", "denied"), denied=end == "denied")
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule(
        content=st.sampled_from(
            (
                (),
                ({"type": "text", "text": " \n"},),
                ({"type": "thinking", "thinking": "", "signature": "s"},),
                ({"type": "tool_use", "id": "x", "name": "no such tool!", "input": "half", "_invalid": "half"},),
                ({"type": "server_tool_use", "id": "y"}, {"type": "text", "text": "odd"}),
            )
        ),
        stop=st.sampled_from(tuple(Stop)),
    )
    def odd_answer(self, content: tuple[dict[str, Any], ...], stop: Stop) -> None:
        self.shell.answer(*content, stop=stop)
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule()
    def cut_off(self) -> None:
        self.shell.answer({"type": "tool_use", "id": "z", "name": "look", "input": {}, "_invalid": '{"at"'}, stop=Stop.MAX_TOKENS)
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule()
    def pause(self) -> None:
        self.shell.answer({"type": "text", "text": "Let me see."}, stop=Stop.PAUSE_TURN)
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule(fault=st.sampled_from(FAULTS), limit=st.sampled_from((None, 40, 100)), after=st.sampled_from((None, 5.0, 90_000.0)))
    def failure(self, fault: Fault, limit: int | None, after: float | None) -> None:
        self.shell.fail(fault, limit=limit if fault is Fault.OUTPUT_LIMIT else None, retry_after_s=after)
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule(share=st.sampled_from((None, 0.5, 0.9, 3.0)), told=st.booleans())
    def too_long(self, share: float | None, told: bool) -> None:
        """Without figures, with the size alone, or with size and limit."""
        if share is None:
            self.shell.fail(Fault.TOO_LONG)
            self._hurry()
            return
        size = self.shell.usage().total_input
        self.shell.fail(Fault.TOO_LONG, prompt_tokens=size, limit=int(size * share) if told else None)
        self._hurry()

    @precondition(lambda self: self.shell.call)
    @rule()
    def window_exceeded(self) -> None:
        self.shell.fail(Fault.TOO_LONG, usage=self.shell.usage(output=30))
        self._hurry()

    # ------------------------------------------------------------ tools
    @precondition(lambda self: self.shell.tools)
    @rule(which=st.integers(0, 3), size=sizes, error=st.booleans())
    def result(self, which: int, size: int, error: bool) -> None:
        calls = sorted(self.shell.tools)
        self.shell.finish(calls[which % len(calls)], size, error=error)
        self._hurry()

    @precondition(lambda self: self.shell.tools)
    @rule(which=st.integers(0, 3))
    def long_action(self, which: int) -> None:
        calls = sorted(self.shell.tools)
        self.shell.start(calls[which % len(calls)])
        self._hurry()

    # ------------------------------------------------------------ the process
    @precondition(lambda self: self.shell.persist)
    @rule(logged=st.booleans())
    def safe(self, logged: bool) -> None:
        self.shell.persisted(logged=logged)
        self._hurry()

    @precondition(lambda self: self.shell.summary)
    @rule(text=st.sampled_from(("Bob came by.", "", "Error: overloaded", "long " * 9_000)))
    def summary(self, text: str) -> None:
        self.shell.summarised(text)

    @precondition(lambda self: self.shell.timers)
    @rule(which=st.integers(0, 9))
    def timer(self, which: int) -> None:
        tags = sorted(self.shell.timers)
        self.shell.fire(tags[which % len(tags)])
        self._hurry()

    @rule(back=st.integers(1, 3), what=st.integers(0, 8))
    def stale(self, back: int, what: int) -> None:
        now, op = self.shell.now, self.session.op - back
        call = next(iter(self.session.pending), "call_1")
        stale: list[ev.Event] = [
            ev.Prepared(now=now, op=op, fixed=self.shell.fixed),
            ev.SessionPersisted(now=now, op=op, how="disk"),
            ev.ToolFinished(now=now, op=self.session.tools_op - back, call=call, text="late"),
            ev.ToolStarted(now=now, op=self.session.tools_op - back, call=call),
            ev.ToolFinished(now=now, op=op, call="nobody's", text="late"),
            ev.SummaryReady(now=now, op=self.session.summary_op - back, text="late"),
            ev.SummaryFailed(now=now, op=self.session.summary_op - back, why="late"),
            *(ev.TimerFired(now=now, tag=tag, op=op) for tag in TAGS),
        ]
        self._changes_nothing(stale[(what + 7 * back) % len(stale)])

    def _changes_nothing(self, event: ev.Event) -> None:
        before = self.session.snapshot()
        self.shell.feed(event)
        assert {**self.session.snapshot(), "account": 0} == {**before, "account": 0}

    @rule(what=st.sampled_from(("twin", "twin", "crash", "restarted")))
    def process(self, what: str) -> None:
        """A twin is restored and lives on beside it; or the process dies; or it takes up its own session again."""
        if self.session.state is State.ENDED:
            self.shell = Shell(self.shell.settings, factor=self.shell.factor)  # the operator mends the key and starts it again
            self.shell.attach()
        elif what == "twin":
            self.shell.twin = self.shell.restored()
        elif what == "crash":
            self.shell.crash()
            self.shell.attach()
        else:
            self.shell.forget()
            self.shell.feed(ev.Restarted(now=self.shell.now))
        self._hurry()

    # ------------------------------------------------------------ P1
    def teardown(self) -> None:
        if hasattr(self, "shell") and not self.shell.broken:
            self.shell.prove_alive()


TestLife = Life.TestCase
TestLife.settings = examples(100, steps=40)
