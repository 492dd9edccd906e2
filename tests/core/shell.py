"""A shell for one session: it does what the effects say, and holds every effect and every state against what must hold.

It stands in for the event loop, the model, the tools, the disk and the world, and does nothing on its own: tests decide what happens next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core.budget import FLOOR, Budget
from runtime.core.fence import fenced
from runtime.core.fitting import room_of
from runtime.core.layout import Fixed, Shape, make_fixed
from runtime.core.repair import problems
from runtime.core.session import Session, Settings
from runtime.core.spending import DAY_S, Stage
from runtime.core.turns import State
from runtime.core.values import HISTORY_FAULTS, OPERATOR_FAULTS, Answer, Failure, Fault, Outcome, Stop, Usage

from .histories import RULE, bare, count, flat, print_of, prose

NOW = 1_700_000_000.0
TAIL = f"[standing rules] {RULE}\n[budget] step 1 of 8"
#: Log lines after which the next request need not extend the last one.
EDITS = frozenset({"set aside", "repair", "thinking dropped", "cut further", "model"})
#: Faults that say that this very request will not do.
REJECTIONS = HISTORY_FAULTS | {Fault.TOO_LONG, Fault.OUTPUT_LIMIT}
LONGEST_TIMER_S = 1_800.0


def settings_of(window: int = 4_000, *, tail_as_system: bool = True, **more: Any) -> Settings:
    """Settings for a small window."""
    return Settings(budget=Budget(window=window, output=256), shape=Shape(model="m", tail_as_system=tail_as_system), **more)


def fixed_of(extra: int = 0) -> Fixed:
    """A fixed part with the rule in it, larger by `extra` characters."""
    tool = {"name": "look", "description": "Look at something.", "input_schema": {"type": "object", "properties": {}}}
    texts = [("rules", prose(200 + extra, "doctrine")), ("persona", f"You are a guard.\n{RULE}")]
    return make_fixed(tools=[tool], system=texts, count=count)


class Shell:
    """See the module."""

    def __init__(self, settings: Settings, *, session: Session | None = None, factor: float = 1.4) -> None:
        self.settings = settings
        self.session = session or Session(settings, count)
        self.factor = factor  # the provider's tokens of one of ours
        self.now = NOW
        self.fixed = fixed_of()
        self.events = 100  # of the event log
        # what is owed
        self.asked: fx.Prepare | None = None
        self.call: fx.CallModel | None = None
        self.tools: dict[str, int] = {}
        self.persist: fx.PersistSession | None = None
        self.summary: fx.Summarise | None = None
        self.timers: dict[str, fx.SetTimer] = {}
        # the world's news
        self.stirs = 0
        self.inbox: list[ev.Observation] = []
        self.newest: ev.Observation | None = None
        self.aside = False
        # what happened
        self.stored: str | None = None
        self.end: fx.End | None = None
        self.logs: list[fx.Log] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.pages: list[str] = []
        self.absences: list[fx.Absent] = []
        self.spoken: list[str] = []
        self.rejected: set[str] = set()
        self.last: list[str] | None = None
        self.since_call: list[fx.Effect] = []
        self.turn = 0
        self.was_reset = False
        self.answered = False
        self.calls_of_turn = 0
        self.twin: Session | None = None
        self.broken = False

    # ------------------------------------------------------------ events in, effects out
    def feed(self, event: ev.Event) -> None:
        """One event into the session, and into its twin, which must do the same for ever."""
        self.broken = True  # until this has gone well: a failure is not to be hidden by the next one
        history = self.session.messages
        self.session.receive(event)
        effects = self.session.effects()
        if self.twin:
            self.twin.receive(event)
            assert self.twin.effects() == effects, "a restored session behaves otherwise"
        for effect in effects:
            self._take(effect, history)
        self.check()
        self.broken = False

    def _take(self, effect: fx.Effect, history: Sequence[Any]) -> None:
        self.since_call.append(effect)
        match effect:
            case fx.Log():
                self.logs.append(effect)
                self.aside = self.aside or effect.kind == "set aside"
                json.dumps(effect.data)
            case fx.Prepare():
                assert self.asked is None, "two requests are being prepared"
                assert self.call is None, "a request is prepared while one is under way"
                self.asked = effect
            case fx.CallModel():
                self._sent(effect)
            case fx.RunTools():
                ids = [c.id for c in effect.calls]
                assert len(set(ids)) == len(ids)
                self.tools |= dict.fromkeys(ids, effect.op)
            case fx.PersistSession():
                kept = {id(b) for m in self.session.messages for b in m.blocks}
                lost = [b for m in history for b in m.blocks if id(b) not in kept]
                assert not lost, "something of the session went before it was persisted"
                assert not self.was_reset, "two resets of the same history"
                self.was_reset = True
                self.persist = effect
            case fx.Summarise():
                assert effect.lines
                self.summary = effect
            case fx.SetTimer():
                assert effect.at <= self.now + LONGEST_TIMER_S, "a timer that is hardly ever"
                self.timers[effect.tag] = effect
            case fx.Checkpoint():
                self.stored = json.dumps(self.session.snapshot())
            case fx.Speak():
                assert effect.text.strip()
                self.spoken.append(effect.text)
            case fx.Page():
                self.pages.append(effect.text)
            case fx.Absent():
                self.absences.append(effect)
            case fx.End():
                assert effect.code in (3, 5)
                assert effect.code == 3 or not self.answered, "a key that was refused later ended the session"
                self.end = effect

    # ------------------------------------------------------------ what leaves
    def _sent(self, call: fx.CallModel) -> None:
        assert self.call is None
        session, body = self.session, call.body
        self.call = call
        self.bodies.append(body)
        assert problems(body["messages"], prefill=session.pauses > 0) == []
        assert print_of(body) not in self.rejected, "a rejected request is sent again"
        assert any(RULE in b["text"] for b in body["system"])
        assert json.dumps(body).count('"cache_control"') <= 4
        if self.session.shape.tail_as_system:
            tail = {"role": "system", "content": [{"type": "text", "text": TAIL}]}
            assert body["messages"][-1] == tail or body["messages"][-1]["role"] == "assistant"  # a paused answer goes back as it is
        self._sized(call)
        now = flat(body)
        if self.last is not None and not self._edited():
            assert now[: len(self.last)] == self.last, "the prefix moved though nothing was edited"
        self.last, self.since_call, self.was_reset = now, [], False
        self.calls_of_turn += 1
        assert self.calls_of_turn < 250, "a turn that goes on for ever"
        self._told(call)

    def _sized(self, call: fx.CallModel) -> None:
        session, body = self.session, call.body
        history = sum(count(_text(b)) for m in body["messages"] for b in m["content"])
        assert history <= call.raw, "more was sent than was counted"
        minimal = session.tokens <= session.floor
        assert minimal or call.estimate <= session.budget.usable
        assert minimal or call.estimate + body["max_tokens"] <= session.budget.window

    def _edited(self) -> bool:
        for effect in self.since_call:
            if isinstance(effect, fx.Log):
                data = effect.data
                freed = effect.kind == "rung" and not data.get("failed", True)
                failed = effect.kind == "turn" and data["failed"]
                repaired = effect.kind == "restart" and data["repaired"]
                if effect.kind in EDITS or freed or failed or repaired:
                    return True
        return False

    def _told(self, call: fx.CallModel) -> None:
        """The newest observation is there: whole, cut by name, or set aside by name."""
        if self.newest is None or self.aside:
            return
        shown = "\n".join(_text(b) for m in call.body["messages"] if m["role"] == "user" for b in m["content"])
        assert self.newest.text in shown or "characters cut here" in shown, "the newest observation is missing"

    # ------------------------------------------------------------ what must hold in every state
    def check(self) -> None:
        """The session is never stuck: an answer is owed, a timer runs, or the world is away."""
        session = self.session
        op, state = session.op, session.state
        live = {tag for tag, timer in self.timers.items() if timer.op == op}
        match state:
            case State.IDLE:
                assert "idle" in live, "idle without a timer"
                assert session.linked
                if session.stirred_urgent > session.drained:
                    assert "gather" in live, "urgent news and nothing will wake it"
                elif session.stirred > session.drained and session.stage is not Stage.REFLEXES:
                    assert "gather" in live, "news and nothing will wake it"
            case State.THINKING:
                owed = self.asked or self.call
                assert owed is not None
                assert owed.op == op, "thinking and no answer is owed"
                assert "watch" in live
            case State.ACTING:
                assert session.waiting_calls
                assert "tools" in live
            case State.YIELDED:
                assert any(p.started for p in session.pending.values())
                assert "yield" in live
            case State.WAITING:
                assert "retry" in live
            case State.RESETTING:
                assert self.persist is not None
                assert self.persist.op == op
                assert "watch" in live
            case State.DETACHED:
                assert not session.linked
            case State.ENDED:
                assert self.end is not None
        assert len(session.record.lines) <= 400
        assert session.floor >= FLOOR

    # ------------------------------------------------------------ what can happen
    def attach(self) -> None:
        self.feed(ev.Attached(now=self.now))

    def detach(self) -> None:
        self.feed(ev.Detached(now=self.now))

    def hear(self, size: int, *, urgent: bool = False, name: str = "") -> ev.Observation:
        """The world tells something of `size` characters."""
        self.events += 1
        text = fenced(prose(size, name or f"seen{self.events}"), event=self.events, kind="speech", source="Bob")
        gist = (f"Bob: line {self.events}",)
        heard = ev.Observation(text=text, tokens=count(text), event=self.events, urgent=urgent, gist=gist)
        self.inbox.append(heard)
        self.stirs += 1
        self.feed(ev.Stirred(now=self.now, n=self.stirs, urgent=urgent))
        return heard

    def prepare(self, *, recalled: int = 0, notebook: int = 0, extra: int | None = None) -> None:
        """Answer the effect that asks for a request's materials."""
        asked = self.asked
        assert asked is not None
        self.asked = None
        if extra is not None:
            self.fixed = fixed_of(extra)
        seen: tuple[ev.Observation, ...] = ()
        if asked.drain:
            seen, self.inbox = tuple(self.inbox), []
        begins, self.turn = asked.turn != self.turn, asked.turn
        if begins:
            self.newest, self.aside, self.calls_of_turn = None, False, 0
        if seen:
            self.newest = seen[-1]
        self.was_reset = self.was_reset and not seen and not begins
        self.feed(
            ev.Prepared(
                now=self.now,
                op=asked.op,
                fixed=self.fixed,
                tail=TAIL,
                tail_tokens=count(TAIL),
                observations=seen,
                recalled=(ev.Memory(text=prose(recalled, "memory"), tokens=count(prose(recalled, "memory")), event=3),) if recalled else (),
                notebook=prose(notebook, "notebook") if notebook else "",
                through=self.stirs if asked.drain else 0,
            )
        )
        if seen and self.call is not None:
            self._whole_where_it_fits(seen[-1])

    def _whole_where_it_fits(self, newest: ev.Observation) -> None:
        room = room_of(self.session)
        aside = 24 + (self.session.tail_raw and count(TAIL) + 8) + 60 + 40
        if newest.tokens + aside <= room.limit:
            assert self.call is not None
            texts = [_text(b) for m in self.call.body["messages"] for b in m["content"]]
            assert any(newest.text in t for t in texts), "the newest observation would fit and is not whole"

    def returned(self, outcome: Outcome) -> None:
        """The model call under way comes back."""
        call = self.call
        assert call is not None
        self.call = None
        self.events += 1
        if isinstance(outcome, Answer):
            self.answered = True
            self.rejected.clear()  # from here on the same words may come again in another life
        elif outcome.fault in REJECTIONS:
            self.rejected.add(print_of(call.body))
        elif outcome.fault is Fault.TRANSIENT or outcome.fault in OPERATOR_FAULTS:
            self.calls_of_turn = 0
        self.feed(ev.ModelReturned(now=self.now, op=call.op, outcome=outcome, event=self.events))

    def returned_late(self, dollars: float) -> None:
        """A call that is waited for no more comes back after all."""
        assert self.call
        outcome = Answer(content=({"type": "text", "text": "late"},), stop=Stop.END_TURN, usage=self.usage(), dollars=dollars)
        call, self.call = self.call, None
        self.feed(ev.ModelReturned(now=self.now, op=call.op, outcome=outcome))

    def usage(self, output: int = 20) -> Usage:
        """What the provider counts for the call under way."""
        assert self.call is not None
        return Usage(input_tokens=int(self.call.raw * self.factor), output_tokens=output)

    def answer(self, *content: Mapping[str, Any], stop: Stop = Stop.END_TURN, dollars: float = 0.001) -> None:
        """The model answers."""
        self.returned(Answer(content=content, stop=stop, usage=self.usage(), dollars=dollars))

    def say(self, text: str = "Well met.") -> None:
        """The model ends its turn with words."""
        self.answer({"type": "text", "text": text})

    def use(self, *ids: str, words: str = "") -> None:
        """The model calls a tool, once for each id."""
        said = [{"type": "text", "text": words}] if words else []
        self.answer(*said, *({"type": "tool_use", "id": i, "name": "look", "input": {"at": "gate"}} for i in ids), stop=Stop.TOOL_USE)

    def fail(self, fault: Fault, **more: Any) -> None:
        """The model call fails."""
        self.returned(Failure(fault=fault, message=f"{fault} it is", **more))

    def finish(self, call: str, size: int = 40, *, error: bool = False, denied: bool = False) -> None:
        """A tool has its result; `denied`: it was not run."""
        self.events += 1
        text = prose(size, f"result{self.events}")
        op = self.tools.pop(call)
        self.feed(ev.ToolFinished(now=self.now, op=op, call=call, text=text, error=error, event=self.events, denied=denied))

    def start(self, call: str) -> None:
        """A tool was accepted as a long action."""
        self.feed(ev.ToolStarted(now=self.now, op=self.tools[call], call=call))

    def persisted(self, *, logged: bool = True) -> None:
        """The session is safe."""
        persist = self.persist
        assert persist is not None
        self.persist = None
        self.events += 1
        self.feed(ev.SessionPersisted(now=self.now, op=persist.op, how="disk", event=self.events if logged else 0))

    def summarised(self, text: str) -> None:
        """A background summary comes."""
        summary = self.summary
        assert summary is not None
        self.summary = None
        self.feed(ev.SummaryReady(now=self.now, op=summary.op, text=text, dollars=0.001))

    def fire(self, tag: str) -> None:
        """A timer runs out at its time."""
        timer = self.timers.pop(tag)
        self.now = max(self.now, timer.at)
        if tag == "watch" and timer.op == self.session.op:
            self.asked = self.call = self.persist = None  # whoever owed that has died
        self.feed(ev.TimerFired(now=self.now, tag=tag, op=timer.op))

    def forget(self) -> None:
        """Everything that a process had under way is gone."""
        self.asked = self.call = self.persist = self.summary = None
        self.tools, self.timers, self.twin, self.stirs, self.answered, self.turn = {}, {}, None, 0, False, 0

    def crash(self) -> None:
        """The process dies; another one takes up what was stored last."""
        stored = self.stored
        self.forget()
        if stored is None:
            self.session = Session(self.settings, count)
            self.last = None
        else:
            self.session = Session.restore(json.loads(stored), self.settings, count)
        self.feed(ev.Restarted(now=self.now))
        if self.inbox:
            self.stirs += 1
            self.feed(ev.Stirred(now=self.now, n=self.stirs, urgent=True))

    def restored(self) -> Session:
        """The session as it comes back from its snapshot."""
        stored = self.session.snapshot()
        text = json.dumps(stored)
        assert json.loads(text) == stored, "the snapshot is not plain JSON"
        return Session.restore(json.loads(text), self.settings, count)

    # ------------------------------------------------------------ P1
    def fork(self) -> Shell:
        """The same world and the same session a second time."""
        other = Shell(self.settings, session=self.restored(), factor=self.factor)
        for name, value in vars(self).items():
            if name not in ("session", "settings", "twin"):
                setattr(other, name, value.copy() if isinstance(value, dict | list | set) else value)
        return other

    def prove_alive(self) -> None:
        """With a friendly world and model, whatever was before, an addressed line is answered within a bounded number of steps."""
        if self.session.state is State.ENDED:
            return
        if not self.session.linked:
            self.attach()
        if self.session.stage is Stage.REFLEXES:
            self.now = max(self.now, (self.now // DAY_S + 1) * DAY_S)  # what may be spent was spent: on the next day it is heard
        name = f"addressed{self.events}"
        self.hear(60, urgent=True, name=name)
        heard = False
        for _ in range(60):
            if self.call:
                heard = heard or name in print_of(self.call.body)
                self.say()
            elif heard and self.session.state is State.IDLE:
                return
            else:
                self.go_on()
        raise AssertionError(f"no answer within 60 steps: {self.session.state}, heard {heard}")

    def go_on(self) -> None:
        """One friendly step: whoever owes the session something gives it, or else the next timer runs out."""
        if self.asked:
            self.prepare()
        elif self.call:
            self.say()
        elif self.persist:
            self.persisted()
        elif waiting := [c for c in self.session.waiting_calls if c in self.tools]:
            self.finish(waiting[0])
        else:
            live = [t for t in self.timers.values() if t.op == self.session.op]
            assert live, f"stuck: {self.session.state} and nothing will ever happen"
            self.fire(min(live, key=lambda t: t.at).tag)


def _text(block: Mapping[str, Any]) -> str:
    match bare(block):
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "tool_result", "content": str(text)}:
            return text
        case {"type": "tool_result", "content": parts}:
            return "\n".join(p["text"] for p in parts)
        case {"type": "tool_use", "name": name, "input": arguments}:
            return f"{name} {json.dumps(arguments)}"
        case other:
            return json.dumps(other)
