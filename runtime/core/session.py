"""One perpetual session: `receive(event)`, `effects()`, `snapshot()`, `restore()`.

Invariants
    Every request fits the window or the session has ended with rung 6; nothing else ends it but the operator and a refused key at start.
    A request that was rejected is never sent again unchanged.
    An answer that names another operation than the one under way is logged and changes nothing.
    `restore(snapshot())` behaves like the original for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import effects as fx
from . import events as ev
from .budget import Budget, Part, Room, misfit
from .calibration import Calibration
from .fence import fenced
from .ladder import Verdict, descend
from .layout import Fixed, Shape, request
from .messages import Block, Count, Kind, Message, result_block, text_block, total, uses_of
from .opening import news, opening
from .record import Record
from .repair import blocks_of_answer, mended, problems
from .rungs import Goal, Parts, hard_reset
from .turns import Cause, State, follow
from .values import HISTORY_FAULTS, OPERATOR_FAULTS, Answer, Failure, Fault, Stop, Usage

DAY_S = 86_400.0
EXIT_MISCONFIGURED, EXIT_MODEL_REFUSED = 3, 5
UNDER_WAY = "[still under way; how it ends will be told]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator decides. Times in seconds, sizes in the provider's tokens."""

    budget: Budget
    shape: Shape
    steps_per_turn: int = 8
    seconds_per_turn: float = 180.0
    dollars_per_day: float = 5.0
    idle_s: float = 45.0
    idle_max_s: float = 900.0
    gather_s: float = 0.5
    yield_s: float = 120.0
    outage_s: float = 2.0
    outage_max_s: float = 60.0
    slow_s: float = 60.0
    summary_tokens: int = 0  # talk waiting for a summary that makes one worth its price; 0: local compaction only
    summary_output: int = 320


@dataclass(slots=True)
class _Pending:
    """A tool call under way: its result, once there is one; `started` for a long action that was accepted."""

    started: bool = False
    result: Block | None = None


class Session:
    """See the module. Not thread-safe, never waits, raises only on faults of its own."""

    def __init__(self, settings: Settings, count: Count) -> None:
        self.settings = settings
        self.count = count
        self.state = State.DETACHED
        self.turn = 0
        self.step = 0
        self.op = 0
        self.messages: tuple[Message, ...] = ()
        self.record = Record()
        self.record_block: Block | None = None
        self.calibration = Calibration()
        self.warm = 0
        self.raw_sent = 0
        self.pending: dict[str, _Pending] = {}
        self.stirred = self.stirred_urgent = self.drained = 0
        self.turn_started = 0.0
        self.turn_had_news = False
        self.idle_s = settings.idle_s
        self.answers = self.rejections = self.too_long = self.outages = self.pauses = 0
        self.failed_turns = 0
        self.boosted = False
        self.output_cap = settings.budget.reserve
        self.ceiling = 0  # raw tokens that a rejected request taught; 0: none
        self.not_before = 0.0
        self.day, self.dollars = 0, 0.0
        self.summary_op = self.summary_through = 0
        self.resets = 0
        self.linked = False
        self._effects: list[fx.Effect] = []

    # ------------------------------------------------------------ the four verbs
    def receive(self, event: ev.Event) -> None:
        """Take one event in."""
        if self.state is State.ENDED:
            return
        match event:
            case ev.Stirred():
                self._stirred(event)
            case ev.TimerFired():
                self._timer(event)
            case ev.Attached():
                self.linked = True
                if self.state is State.DETACHED:
                    self._move(Cause.LINK_BACK)
                    self._rest(event.now)
            case ev.Detached():
                self.linked = False
                if self.state is State.IDLE:
                    self._move(Cause.LINK_LOST)
            case ev.Restarted():
                self._restarted()
            case ev.SummaryReady() | ev.SummaryFailed():
                self._summary(event)
            case ev.ToolStarted() | ev.ToolFinished():
                self._tool(event)
            case ev.Prepared():
                if self._current(event.op, State.THINKING, "prepared"):
                    self._prepared(event)
            case ev.ModelReturned():
                if self._current(event.op, State.THINKING, "model answer"):
                    self._returned(event)
            case ev.SessionPersisted():
                if self._current(event.op, State.RESETTING, "session persisted"):
                    self._persisted(event)

    def effects(self) -> list[fx.Effect]:
        """What is to be done now, in order; asked once, it is gone."""
        out, self._effects = self._effects, []
        return out

    def snapshot(self) -> dict[str, Any]:
        """The session as plain JSON values."""
        from .snapshot import dump  # noqa: PLC0415 (the two know each other)

        return dump(self)

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any], settings: Settings, count: Count) -> Session:
        """The session of a snapshot.

        Raises:
            ValueError: the snapshot is not one.
        """
        from .snapshot import load  # noqa: PLC0415

        return load(snapshot, settings, count)

    # ------------------------------------------------------------ small helpers
    def _emit(self, effect: fx.Effect) -> None:
        self._effects.append(effect)

    def _log(self, kind: str, **data: Any) -> None:
        self._emit(fx.Log(kind=kind, data={"turn": self.turn, "step": self.step, **data}))

    def _move(self, cause: Cause) -> None:
        self.state = follow(self.state, cause)

    def _next_op(self) -> int:
        self.op += 1
        return self.op

    def _current(self, op: int, state: State, what: str) -> bool:
        if op == self.op and self.state is state:
            return True
        self._log("stale", what=what, op=op, current=self.op, state=str(self.state))
        return False

    def _timer_at(self, tag: str, at: float) -> None:
        self._emit(fx.SetTimer(tag=tag, op=self.op, at=at))

    @property
    def waiting_calls(self) -> tuple[str, ...]:
        """Ids of the calls that still owe a result."""
        return tuple(k for k, p in self.pending.items() if p.result is None)

    @property
    def tokens(self) -> int:
        """Raw tokens of the history."""
        return total(self.messages) + (self.record_block.tokens if self.record_block else 0)

    # ------------------------------------------------------------ waking
    def _stirred(self, event: ev.Stirred) -> None:
        self.stirred = max(self.stirred, event.n)
        if event.urgent:
            self.stirred_urgent = max(self.stirred_urgent, event.n)
        if self.state is State.IDLE:
            self._look(event.now)
        elif self.state is State.YIELDED and event.urgent:
            self._wake_mind(event.now, "woke")

    def _look(self, now: float) -> None:
        """Idle: start a turn now, or set the timer that will."""
        urgent = self.stirred_urgent > self.drained
        if not urgent and self.stirred <= self.drained:
            return
        wait = 0.0 if urgent else self.settings.gather_s
        if self._over_budget(now):
            wait = max(wait, self.settings.slow_s)
            if not urgent:
                return
        at = max(now + wait, self.not_before)
        if at <= now:
            self._wake(now, "news")
        else:
            self._timer_at("gather", at)

    def _over_budget(self, now: float) -> bool:
        self._new_day(now)
        return self.dollars >= self.settings.dollars_per_day

    def _new_day(self, now: float) -> None:
        if (day := int(now // DAY_S)) != self.day:
            self.day, self.dollars = day, 0.0

    def _timer(self, event: ev.TimerFired) -> None:
        if event.op != self.op:
            return
        now = event.now
        if event.tag == "gather" and self.state is State.IDLE:
            if self.stirred > self.drained:
                self._wake(now, "news")
        elif event.tag == "idle" and self.state is State.IDLE:
            if self._over_budget(now):
                self._rest(now)
            else:
                self._wake(now, "idle")
        elif event.tag == "retry" and self.state is State.WAITING:
            self._move(Cause.TRY_AGAIN)
            self._prepare("again", drain=True)
        elif event.tag == "yield" and self.state is State.YIELDED:
            self._wake_mind(now, "deadline")

    def _wake(self, now: float, reason: str) -> None:
        self._move(Cause.WOKEN)
        self.turn += 1
        self.step = 0
        self.turn_started = now
        self.boosted = False
        self.rejections = self.too_long = self.pauses = 0
        self._log("wake", reason=reason)
        self._prepare(reason, drain=True)

    def _wake_mind(self, now: float, reason: str) -> None:
        self._move(Cause.BODY_WOKE)
        self._log("woken from yield", reason=reason, after_s=round(now - self.turn_started, 3))
        self._prepare("woke", drain=True)

    def _prepare(self, reason: str, *, drain: bool) -> None:
        self._emit(fx.Prepare(op=self._next_op(), turn=self.turn, step=self.step, reason=reason, drain=drain))

    # ------------------------------------------------------------ the request
    def _prepared(self, event: ev.Prepared) -> None:
        budget, factor = self.settings.budget, self.calibration.factor
        sizes = [Part(name=name, tokens=int(raw * factor) + 1) for name, raw in event.fixed.sizes]
        if event.tail_tokens:
            sizes.append(Part(name="tail", tokens=int(event.tail_tokens * factor) + 1))
        if parts := misfit(budget, tuple(sizes)):
            self._give_up(parts)
            return
        self.drained = max(self.drained, event.through)
        room = budget.room(fixed=event.fixed.tokens, tail=event.tail_tokens, factor=factor)
        if self.ceiling:
            room = room.tightened(max(64, self.ceiling - event.fixed.tokens - event.tail_tokens))
        fresh = self._take_in(event, room)
        if not self._fit(room, opening=fresh):
            return
        self._call(event, room)

    def _take_in(self, event: ev.Prepared, room: Room) -> bool:
        """Put what was drained into the history; whether this is a turn's opening."""
        tail = "" if self.settings.shape.tail_as_system else event.tail
        if self.pending:
            # The mind was away while the body acted: what happened since then is the world's text and comes with the results.
            texts = [b.text for b in news(event.observations, limit=int(room.limit * 0.6), count=self.count)] if event.observations else []
            self.turn_had_news = self.turn_had_news or bool(event.observations)
            self._append_results(texts, tuple(g for o in event.observations for g in o.gist))
            return False
        begun = any(m.turn == self.turn for m in self.messages)
        if begun and not event.observations:
            return False
        self.turn_had_news = (begun and self.turn_had_news) or bool(event.observations)
        if not begun:
            self.messages = mended(self.messages, self.count)
        blocks = opening(event.observations, event.recalled, event.notebook, "" if begun else tail, limit=room.limit, count=self.count)
        self.messages = (*self.messages, Message("user", blocks, self.turn))
        if begun:
            self.messages = mended(self.messages, self.count)
        return not begun

    def _append_results(self, extra: list[str], gist: tuple[str, ...]) -> None:
        message = self.messages[-1]
        blocks = []
        for use in uses_of(message):
            use_id = str(use.data["id"])
            pending = self.pending.get(use_id)
            blocks.append((pending and pending.result) or result_block(use_id, UNDER_WAY, self.count))
        if extra and blocks:
            last = blocks[-1]
            blocks[-1] = result_block(
                str(last.data["tool_use_id"]),
                [last.text, *extra],
                self.count,
                error=bool(last.data.get("is_error")),
                event=last.event,
                gist=(*last.gist, *gist),
            )
        self.pending = {}
        self.messages = (*self.messages, Message("user", tuple(blocks), self.turn))

    def _parts(self, room: Room) -> Parts:
        return Parts(
            messages=self.messages,
            turn=self.turn,
            record=self.record,
            record_block=self.record_block,
            count=self.count,
            record_room=room.record,
        )

    def _fit(self, room: Room, *, opening: bool) -> bool:
        """Run the ladder; False when a hard reset has to come first."""
        result = descend(self._parts(room), room, opening=opening)
        for climb in result.climbs:
            factor = self.calibration.factor
            self._log(
                "rung",
                rung=climb.rung,
                before=int(climb.before * factor),
                after=int(climb.after * factor),
                failed=climb.failed,
                note=climb.note,
            )
        if result.verdict is not Verdict.UNTOUCHED:
            self._adopt(result.parts)
        if result.verdict is Verdict.RESET:
            self._must_reset("nothing smaller would fit the window")
            return False
        return True

    def _adopt(self, parts: Parts) -> None:
        if parts.messages is not self.messages or parts.record_block is not self.record_block:
            self.warm = 0
        self.messages, self.record, self.record_block = parts.messages, parts.record, parts.record_block

    def _call(self, event: ev.Prepared, room: Room) -> None:
        raw = event.fixed.tokens + event.tail_tokens + self.tokens
        body = self._body(event.fixed, event.tail)
        if found := problems(body["messages"], prefill=self.pauses > 0):
            self.messages = mended(self.messages, self.count)
            self.warm = 0
            self._log("repair", problems=found[:5])
            body = self._body(event.fixed, event.tail)
            if problems(body["messages"], prefill=self.pauses > 0):
                self._must_reset("the conversation could not be mended")
                return
        self.warm = sum(len(m.blocks) for m in self.messages) + (1 if self.record_block else 0)
        self.raw_sent = raw
        self._log("request", raw=raw, estimate=self.calibration.estimate(raw), history=self.tokens, high=room.high, limit=room.limit)
        op = self._next_op()
        self._emit(
            fx.CallModel(op=op, turn=self.turn, step=self.step, body=body, raw=raw, estimate=self.calibration.estimate(raw))
        )

    def _body(self, fixed: Fixed, tail: str) -> dict[str, Any]:
        cap = self.output_cap
        if self.boosted:
            cap = min(cap * 2, max(cap, self.settings.budget.window - self.calibration.estimate(self.raw_sent)))
        return request(
            self.settings.shape, fixed, self.record_block, self.messages, max_tokens=cap, tail=tail, warm=self.warm
        )

    def _give_up(self, parts: tuple[Part, ...]) -> None:
        self._log("rung", rung="give_up", parts={p.name: p.tokens for p in parts})
        need, window = sum(p.tokens for p in parts), self.settings.budget.window
        text = f"nothing fits: fixed parts, reserve and the smallest observation need {need:,} tokens, the window has {window:,}"
        self._emit(fx.Page(text=text))
        self._emit(fx.End(code=EXIT_MISCONFIGURED, message=text, parts=parts))
        self._move(Cause.GIVEN_UP)

    # ------------------------------------------------------------ the answer
    def _returned(self, event: ev.ModelReturned) -> None:
        outcome = event.outcome
        self._spent(event.now, outcome.dollars or 0.0)
        if isinstance(outcome, Failure):
            self._failed(event.now, outcome)
            return
        self._learn(outcome.usage)
        self.answers += 1
        self.rejections = self.too_long = self.outages = self.ceiling = 0
        match outcome.stop:
            case Stop.MAX_TOKENS:
                self._cut_off(event.now)
            case Stop.PAUSE_TURN:
                self._paused(event.now, outcome, event.event)
            case _:
                self._answered(event.now, outcome, event.event)

    def _spent(self, now: float, dollars: float) -> None:
        self._new_day(now)
        self.dollars += dollars

    def _learn(self, usage: Usage) -> None:
        self.calibration = self.calibration.measured(self.raw_sent, usage.total_input)

    def _answered(self, now: float, answer: Answer, event: int) -> None:
        taken = {str(u.data["id"]) for m in self.messages for u in uses_of(m)}
        blocks = blocks_of_answer(answer.content, taken, self.count, event=event)
        blocks = tuple(replace(b, gist=(f"I: {' '.join(b.text.split())[:220]}",)) if b.kind is Kind.SAID else b for b in blocks)
        uses = [b for b in blocks if b.kind is Kind.TOOL_USE]
        if answer.stop is Stop.STOP_SEQUENCE and uses:
            blocks = tuple(b for b in blocks if b.kind is not Kind.TOOL_USE)
            uses = []
        if any(b.kind is not Kind.OTHER for b in blocks):
            self.messages = (*self.messages, Message("assistant", blocks, self.turn))
        self.step += 1
        if uses:
            invalid = [raw.get("_invalid") for raw in answer.content if raw.get("type") == "tool_use"]
            calls = tuple(
                fx.Call(id=str(u.data["id"]), name=str(u.data["name"]), arguments=u.data["input"], invalid=bad)
                for u, bad in zip(uses, invalid, strict=True)
            )
            self.pending = {c.id: _Pending() for c in calls}
            self._move(Cause.TOOLS_ASKED)
            self._emit(fx.Checkpoint())
            self._emit(fx.RunTools(op=self._next_op(), turn=self.turn, step=self.step, calls=calls))
            return
        if spoken := "\n".join(b.text for b in blocks if b.kind is Kind.SAID):
            self._emit(fx.Speak(turn=self.turn, text=spoken, event=event))
        else:
            self._log("empty answer")
        self._end_turn(now, "done")

    def _cut_off(self, now: float) -> None:
        """The answer hit its limit: nothing of it is used, one more try with twice the room."""
        self._log("truncated", max_tokens=self.output_cap, boosted=self.boosted)
        if self.boosted:
            self._end_turn(now, "answer cut off twice")
            return
        self.boosted = True
        self._prepare("again", drain=False)

    def _paused(self, now: float, answer: Answer, event: int) -> None:
        self.pauses += 1
        taken = {str(u.data["id"]) for m in self.messages for u in uses_of(m)}
        blocks = blocks_of_answer(answer.content, taken, self.count, event=event)
        if self.pauses > 3 or not blocks or any(b.kind is Kind.TOOL_USE for b in blocks):
            self._end_turn(now, "paused too often")
            return
        self.messages = (*self.messages, Message("assistant", blocks, self.turn))
        self._prepare("again", drain=False)

    def _failed(self, now: float, failure: Failure) -> None:
        self._log("model failure", fault=str(failure.fault), message=failure.message, status=failure.status)
        fault = failure.fault
        if fault is Fault.TOO_LONG:
            self._rejected_size(failure)
        elif fault in HISTORY_FAULTS:
            self._rejected_content(now, fault)
        elif fault is Fault.OUTPUT_LIMIT and self.output_cap > 64:
            self.output_cap = max(64, min(failure.limit or self.output_cap, self.output_cap // 2))
            self.boosted = False
            self._prepare("again", drain=False)
        elif fault in OPERATOR_FAULTS:
            if not self.answers:
                self._emit(fx.End(code=EXIT_MODEL_REFUSED, message=failure.message))
                self._move(Cause.GIVEN_UP)
                return
            self._emit(fx.Page(text=f"the model endpoint wants the operator: {failure.message}"))
            self._wait(now, max(300.0, failure.retry_after_s or 0.0))
        elif fault is Fault.TRANSIENT:
            self.outages += 1
            backoff = min(self.settings.outage_max_s, self.settings.outage_s * 2 ** min(10, self.outages - 1))
            self._wait(now, max(backoff, min(300.0, failure.retry_after_s or 0.0)))
        else:
            self._abandon(now, str(fault))

    def _wait(self, now: float, seconds: float) -> None:
        self._move(Cause.MODEL_AWAY)
        self._next_op()
        self._log("waiting", seconds=round(seconds, 1), outages=self.outages)
        self._emit(fx.Checkpoint())
        self._timer_at("retry", now + seconds)

    def _rejected_size(self, failure: Failure) -> None:
        """The provider outranks the estimate: learn, go a rung further, never the same request again."""
        actual = failure.prompt_tokens or (failure.usage.total_input if failure.usage else None)
        self.calibration = self.calibration.rejected(self.raw_sent, actual)
        self.too_long += 1
        self.ceiling = int(self.raw_sent * (0.85 if self.too_long == 1 else 0.6))
        if self.too_long > 2:
            self._must_reset("the provider says that it is too long, however it is cut")
        else:
            self._prepare("again", drain=False)

    def _rejected_content(self, now: float, fault: Fault) -> None:
        """Something in the history is not taken: set the newest item aside, then reset, then let the turn go."""
        self.rejections += 1
        if self.rejections == 1 and self._set_aside(str(fault)):
            self._prepare("again", drain=False)
        elif self.rejections <= 2:
            self.rejections = 2
            self._must_reset(f"the provider rejects the conversation ({fault})")
        else:
            self._emit(fx.Page(text=f"requests are rejected even after a reset ({fault}); going on with the next news"))
            self._abandon(now, str(fault))

    def _set_aside(self, why: str) -> bool:
        """Replace the newest item by a neutral stub that says where the whole of it is."""
        if not self.messages or self.messages[-1].role != "user":
            return False
        newest = self.messages[-1]
        blocks: list[Block] = []
        aside = 0
        for block in newest.blocks:
            where = f"event {block.event}" if block.event else "the log"
            if block.kind is Kind.TOOL_RESULT:
                text = f"[this output was set aside, unread: {where}]"
                blocks.append(result_block(str(block.data["tool_use_id"]), text, self.count, error=True, event=block.event))
            elif block.kind is Kind.OBSERVATION:
                text = fenced("Set aside, unread.", event=block.event, kind="notice", source="runtime")
                blocks.append(text_block(Kind.OBSERVATION, text, self.count, event=block.event))
            elif block.kind is Kind.RECALLED:
                continue
            else:
                blocks.append(block)
                continue
            aside += 1
        if not aside:
            return False
        self.messages = (*self.messages[:-1], newest.having(blocks))
        self.warm = 0
        self._log("set aside", blocks=aside, why=why)
        return True

    def _abandon(self, now: float, why: str) -> None:
        """Let the turn go: its messages leave the history, and the next one waits a little."""
        self.failed_turns += 1
        if self.rejections:
            self.messages, self.record, self.record_block = (), Record(), None
        else:
            self.messages = tuple(m for m in self.messages if m.turn != self.turn)
        self.warm = 0
        backoff = min(self.settings.outage_max_s, self.settings.outage_s * 2 ** min(10, self.failed_turns - 1))
        self.not_before = now + backoff
        self._end_turn(now, why, failed=True)

    # ------------------------------------------------------------ rung 5
    def _must_reset(self, reason: str) -> None:
        self._move(Cause.MUST_RESET)
        self._emit(
            fx.PersistSession(op=self._next_op(), turn=self.turn, reason=reason, tokens=self.calibration.estimate(self.tokens))
        )

    def _persisted(self, event: ev.SessionPersisted) -> None:
        before = self.tokens
        budget, factor = self.settings.budget, self.calibration.factor
        # The fixed part is measured again when the request is prepared; here half of the window is certain to be enough.
        limit = max(64, min(self.ceiling or before, int(budget.usable / factor)) // 2)
        marker = f"[context reset: {self.last_reset_reason(event)}]"
        parts = self._parts(Room(limit=limit, high=limit, low=limit, record=80))
        step = hard_reset(parts, Goal(want=limit, limit=limit), marker=marker)
        after = step.parts if step.freed else replace(parts, messages=_bare(parts, marker), record=Record(), record_block=None)
        self._adopt(after)
        self.warm = 0
        self.resets += 1
        self._log(
            "rung",
            rung="hard_reset",
            before=int(before * factor),
            after=int(self.tokens * factor),
            failed=False,
            note=f"session persisted ({event.how}); {step.note}",
        )
        self._move(Cause.PERSISTED)
        self._emit(fx.Checkpoint())
        self._prepare("again", drain=False)

    def last_reset_reason(self, event: ev.SessionPersisted) -> str:
        """The words behind the marker: what the model is told about the cut."""
        where = f", whole in the event log up to event {event.event}" if event.event else ""
        return f"earlier conversation removed{where}; your diary has an entry about it"

    # ------------------------------------------------------------ tools
    def _tool(self, event: ev.ToolStarted | ev.ToolFinished) -> None:
        pending = self.pending.get(event.call)
        if pending is None or pending.result is not None or self.state not in (State.ACTING, State.YIELDED):
            self._log("stale", what="tool result", call=event.call, op=event.op, current=self.op, state=str(self.state))
            return
        if isinstance(event, ev.ToolStarted):
            pending.started = True
        else:
            pending.started = False
            pending.result = result_block(
                event.call, event.text, self.count, error=event.error, event=event.event, gist=event.gist
            )
        if self.state is State.YIELDED:
            if not self.waiting_calls:
                self._wake_mind(event.now, "finished")
            return
        if any(p.result is None and not p.started for p in self.pending.values()):
            return
        if any(p.started for p in self.pending.values()):
            self._move(Cause.BODY_BUSY)
            self._log("yield", calls=list(self.waiting_calls))
            self._emit(fx.Checkpoint())
            self._timer_at("yield", event.now + self.settings.yield_s)
            if self.stirred_urgent > self.drained:
                self._wake_mind(event.now, "woke")
            return
        self._append_results([], ())
        over = self._turn_is_over(event.now)
        if over:
            self._end_turn(event.now, over)
            return
        self._move(Cause.TOOLS_DONE)
        self._emit(fx.Checkpoint())
        self._prepare("tools", drain=False)

    def _turn_is_over(self, now: float) -> str:
        if self.step >= self.settings.steps_per_turn:
            return "out of steps"
        if now - self.turn_started > self.settings.seconds_per_turn:
            return "out of time"
        return ""

    # ------------------------------------------------------------ resting
    def _end_turn(self, now: float, why: str, *, failed: bool = False) -> None:
        self._move(Cause.TURN_ENDED)
        self._next_op()
        self.pending = {}
        if not failed:
            self.failed_turns = 0
        if self.turn_had_news:
            self.idle_s = self.settings.idle_s
        else:
            self.idle_s = min(self.settings.idle_max_s, self.idle_s * 2)
        self._log("turn", ended=why, failed=failed, seconds=round(now - self.turn_started, 3), dollars_today=round(self.dollars, 6))
        self._want_summary()
        self._emit(fx.Checkpoint())
        if not self.linked:
            self._move(Cause.LINK_LOST)
            return
        self._rest(now)

    def _rest(self, now: float) -> None:
        self._timer_at("idle", max(now + self.idle_s, self.not_before))
        self._look(now)

    def _restarted(self) -> None:
        unfinished = self.state not in (State.IDLE, State.DETACHED)
        self._move(Cause.RESTARTED)
        self._next_op()
        self.pending = {}
        self.summary_op = 0
        self.linked = False
        self.answers = 0  # a key that is refused from now on was refused at start
        self.stirred = self.stirred_urgent = self.drained = 0
        before = self.messages
        self.messages = mended(self.messages, self.count)
        if self.messages and self.messages[-1].role == "assistant" and uses_of(self.messages[-1]):
            self.messages = mended((*self.messages, Message("user", (), self.turn)), self.count)
        self._log("restart", unfinished=unfinished, repaired=self.messages != before, messages=len(self.messages))
        self._move(Cause.LINK_LOST)
        if unfinished:
            self.idle_s = self.settings.gather_s

    # ------------------------------------------------------------ background summary
    def _want_summary(self) -> None:
        settings = self.settings
        if not settings.summary_tokens or self.summary_op or not self.record.lines:
            return
        lines = self.record.lines
        if sum(len(x.text) for x in lines) < settings.summary_tokens * 4:
            return
        self.summary_op = self._next_op()
        self.summary_through = lines[-1].event
        self._emit(
            fx.Summarise(
                op=self.summary_op, narrative=self.record.narrative, lines=lines, max_tokens=settings.summary_output
            )
        )

    def _summary(self, event: ev.SummaryReady | ev.SummaryFailed) -> None:
        self._spent(event.now, event.dollars)
        if event.op != self.summary_op:
            self._log("stale", what="summary", op=event.op, current=self.summary_op)
            return
        self.summary_op = 0
        why = event.why if isinstance(event, ev.SummaryFailed) else unusable(event.text, self.record, self.count)
        if why or isinstance(event, ev.SummaryFailed):
            self._log("summary refused", why=why)
            return
        self.record = self.record.summarised(event.text.strip(), through=self.summary_through)
        self._log("summary", characters=len(event.text), through=self.summary_through)


def unusable(text: str, record: Record, count: Count) -> str:
    """Why a summary is not taken; empty when it is. It must say something, and be clearly smaller than what it stands for."""
    plain = text.strip()
    if not plain:
        return "empty"
    if plain.lower().startswith(("error", "i cannot", "i can't", "i'm sorry", "<html", '{"type": "error"', '{"error')):
        return "looks like an error"
    span = sum(count(x.text) for x in record.lines) + count(record.narrative)
    if count(plain) > max(64, span // 2):
        return "not clearly smaller than what it stands for"
    return ""


def _bare(parts: Parts, marker: str) -> tuple[Message, ...]:
    """The current turn behind the marker, for a history that was already too small to free anything."""
    shown = [b for m in parts.messages[parts.current :] for b in m.blocks if b.kind in (Kind.OBSERVATION, Kind.TAIL)]
    return (Message("user", (text_block(Kind.MARKER, marker, parts.count), *shown), parts.turn),)
