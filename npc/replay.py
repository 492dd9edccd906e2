"""An old life led once more by today's code, without a model, a world or a network, to prove what stood in its requests.

Invariants: the core is given what it was given then, in that order and at those times; it alone decides what a request holds; every request
is held against what may never be missing, twice: as it was sent, and as it would be sent today. What cannot be led again is counted.

The log is the script: the session asks, and the next fitting event of the log answers. Where today's code asks for something else than the
code of then, it is brought to where the log goes on, and that is counted as well (`Report.bent`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from npc.constitution import parse_constitution
from npc.context import Context, standing, tail
from npc.hearing import Ears
from npc.living import settings_of
from npc.persona import Persona
from npc.requests import DAMAGE, Texts, lacking, shape_of, standing_in
from npc.senses import notice, shown, taken
from npc.told import from_journal
from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core import provenance, snapshot
from runtime.core.layout import Fixed
from runtime.core.messages import Count, Kind
from runtime.core.provenance import Gap, Unfolding
from runtime.core.repair import problems
from runtime.core.session import Session, Settings
from runtime.core.spending import Limits
from runtime.core.turns import State
from runtime.core.values import Answer, Failure, Fault, Outcome, Stop, Usage
from runtime.model.profiles import profile
from runtime.store.events import Event
from runtime.store.journal import Journal

PAGE = 500
#: Failings that are told one by one; the others are counted.
TOLD = 20
#: What no fixed part may lack, by the names under which it is logged.
MUST = ("doctrine", "persona", "constitution")
#: Tries to bring the session to where the log goes on.
TRIES = 8
KINDS = frozenset(
    {
        "aside", "alarm", "answer", "attached", "detached", "failure", "fixed", "overdue", "prepared", "request", "reset", "restart",
        "standing", "summary refused", "summary_answer", "tool_result", "tools overdue", "wake", "woken from yield", "yield",
    }
)  # fmt: skip
MakeSession = Callable[[Settings, Count], Session]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A request with something wrong: its event, its turn, `sent` (as it was) or `replayed` (as it would be), and what."""

    event: int
    turn: int
    which: str
    what: str


@dataclass(slots=True, kw_only=True)
class Report:
    """What a replay found.

    Attributes:
        requests: in the log, from the event asked for on.
        checked: of them, as they were sent.
        replayed: of them, made anew by today's code.
        identical: of those, whose history is the same bytes as then.
        older: that an older version wrote down without what they were made of.
        bent: how often the session had to be brought to where the log goes on.
        dumps: kept sessions that were taken up, and made a request.
        skipped: what could not be led again, and why, with how often.
        failings: the first ones, and `failed` how many there are.
    """

    requests: int = 0
    checked: int = 0
    replayed: int = 0
    identical: int = 0
    older: int = 0
    bent: int = 0
    dumps: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    failings: list[Failing] = field(default_factory=list)
    failed: int = 0

    @property
    def held(self) -> bool:
        """Whether nothing is missing anywhere, and there was something to look at wherever there should have been."""
        return not self.failed and (self.checked > 0 or self.dumps > 0 or not self.requests)

    def skip(self, why: str) -> None:
        """Something could not be led again."""
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def failing(self, event: int, turn: int, which: str, what: str) -> None:
        """A request is not as it must be."""
        self.failed += 1
        if len(self.failings) < TOLD:
            self.failings.append(Failing(event=event, turn=turn, which=which, what=what))


async def replay(
    journal: Journal, persona: Persona, count: Count, *, since: int = 0, make: MakeSession = Session, dumps: Path | None = None
) -> Report:
    """Lead the life of a journal once more; requests are judged from the event `since` on. `dumps` is a folder of kept sessions.

    Raises:
        StoreError: the journal cannot be read.
    """
    led = _Replay(journal, persona, count, since=since, make=make)
    after = 0
    while page := await journal.events(after=after, kinds=KINDS, limit=PAGE):
        for event in page:
            try:
                await led.take(event)
            except DAMAGE as error:  # a damaged log or a fault of today's code: either way it did not hold here
                led.report.failing(event.id, event.turn, "replayed", f"today's code fails at it: {type(error).__name__}: {error}"[:300])
        after = page[-1].id
    if dumps:
        led.kept(dumps)
    return led.report


class _Replay:
    """The shell of one replay: it answers the session out of the log."""

    def __init__(self, journal: Journal, persona: Persona, count: Count, *, since: int, make: MakeSession) -> None:
        self.report = Report()
        self._journal, self._persona, self._count, self._since, self._make = journal, persona, count, since, make
        # Whether a call was within the budget was decided then, by what had been spent.
        lived = settings_of(persona, profile(persona.model.id))
        self._settings = replace(lived, dollars_per_day=1e12, limits=Limits(), cheaper=None)
        self._ears, self._me = Ears(persona.names), persona.world.npc or persona.character.name
        self._texts = Texts(journal, window=self._settings.budget.window)
        self._unfolding = Unfolding()
        # the fixed part: as it was sent, and as today's code makes it of the same
        self._then: Fixed | None = None
        self._now: Fixed | None = None
        self._standing: tuple[tuple[str, str], ...] = ()
        self._standing_now: tuple[tuple[str, str], ...] = ()
        self._opening_standing: tuple[tuple[str, str], ...] = ()
        self._tail_given = ""
        self._constitution = parse_constitution("")
        self._notebook = ""
        self._begin()

    def _begin(self, session: Session | None = None) -> None:
        """A process begins."""
        self.session = session or self._make(self._settings, self._count)
        self._stirs = 0
        self._asked: fx.Prepare | None = None
        self._call: fx.CallModel | None = None
        self._persist: fx.PersistSession | None = None
        self._summary: fx.Summarise | None = None
        self._timers: dict[str, fx.SetTimer] = {}
        self._stored: Mapping[str, Any] | None = None

    # ------------------------------------------------------------ the session
    def _feed(self, event: ev.Event) -> None:
        self.session.receive(event)
        for effect in self.session.effects():
            match effect:
                case fx.Prepare():
                    self._asked = effect
                case fx.CallModel():
                    self._call = effect
                case fx.PersistSession():
                    self._persist = effect
                case fx.Summarise():
                    self._summary = effect
                case fx.SetTimer(tag=tag):
                    self._timers[tag] = effect
                case fx.Checkpoint():
                    self._stored = self.session.snapshot()
                case _:
                    pass

    def _fire(self, tag: str, now: float) -> None:
        if timer := self._timers.get(tag):
            self._feed(ev.TimerFired(now=max(now, timer.at), tag=tag, op=timer.op))

    def _stir(self, now: float, *, why: str) -> None:
        self._stirs += 1
        self._feed(ev.Stirred(now=now, n=self._stirs, urgent=bool(why), why=why))

    # ------------------------------------------------------------ the log
    async def take(self, event: Event) -> None:
        """The next event of the log."""
        now, data = event.at, event.data
        match event.kind:
            case "attached":
                self._me = str(data.get("npc") or self._me)
                self._feed(ev.Attached(now=now))
            case "detached":
                self._feed(ev.Detached(now=now))
            case "fixed" | "standing":
                self._fixed_part(event)
            case "wake":
                self._wake(now, str(data.get("reason")), str(data.get("why") or ""))
            case "prepared":
                await self._prepared(event, str(data.get("tail") or ""), data)
            case "request":
                await self._request(event)
            case "answer" | "failure":
                self._returned(event)
            case "tool_result":
                self._finished(event)
            case "yield":
                self._started(now)
            case "woken from yield":
                self._woken(now, str(data.get("reason")))
            case "reset":
                self._kept(now, how=str(data.get("how")), event=event.id)
            case "summary_answer" | "summary refused":
                self._summarised(event)
            case "aside":
                self._feed(ev.Paid(now=now, dollars=float(data.get("dollars") or 0.0)))
            case "tools overdue":
                self._fire("tools", now)
            case "overdue":
                self._fire("watch", now)
            case "restart":
                self._restart(event)
            case "alarm" if "starting afresh" in str(data.get("text")):
                self._begin()
            case _:
                pass

    def _fixed_part(self, event: Event) -> None:
        if event.kind == "standing":
            self._standing = standing_in(event.data)
        else:
            try:
                self._then = provenance.fixed_in(event.data)
                shape = shape_of(event.data)
                budget = replace(self._settings.budget, window=int(event.data["window"]))
            except (Gap, KeyError, ValueError, TypeError):
                self._then = self._now = None
                self.report.skip("a fixed part that cannot be read")
                return
            self._settings = replace(self._settings, shape=shape, budget=budget)
            self.session.settings = self._settings
            self._texts = Texts(self._journal, window=budget.window)
        if self._then is None:
            return
        must = dict(self._then.must)
        self._constitution = parse_constitution(must.get("constitution", ""))
        tools = [dict(tool) for tool in self._then.tools]
        self._now = Context(_as_then(self._persona, must.get("persona", "")), self._count).fixed(tools, event.id, self._constitution)
        gates = dict(self._standing).get("gates", "").removeprefix("[gates] ")
        self._standing_now = standing(self._constitution, gates=gates)

    def _wake(self, now: float, reason: str, why: str) -> None:
        if self.session.state is State.DETACHED:
            self._feed(ev.Attached(now=now))
        if self.session.state is not State.IDLE:
            self._bend(now, to=State.IDLE)
        if reason == "idle":
            self._fire("idle", now)
        else:
            self._stir(now, why=why)
            if self.session.state is State.IDLE:
                self._fire("gather", now)
        if self._asked is None:
            self._bend(now)

    async def _prepared(self, event: Event, tail_then: str, given: Mapping[str, Any]) -> None:
        """Answer the question for materials as it was answered then, with the fixed part and the tail that today's code makes."""
        if self._now is None:
            return
        if self._asked is None:
            self._started(event.at)  # a long action that the mind did not wait for
        if self._asked is None and self.session.state is State.WAITING:
            self._fire("retry", event.at)
        if self._asked is None:
            self._bend(event.at)
        if self._asked is None:
            return
        asked, self._asked = self._asked, None
        words = self._tail_given = self._tail(asked, tail_then)
        if "notebook" in given:
            self._notebook = str(given["notebook"])
        observations = await self._observations(given.get("observations") or ())
        if not any(message.turn == self.session.turn for message in self.session.messages[-1:]):
            self._opening_standing = self._standing_now
        memories = ((int(number), str(text)) for number, text in given.get("recalled") or ())
        self._feed(
            ev.Prepared(
                now=event.at,
                op=asked.op,
                fixed=self._now,
                tail=words,
                tail_tokens=self._count(words),
                standing=self._standing_now,
                observations=observations,
                recalled=tuple(ev.Memory(text=text, tokens=self._count(text), event=number) for number, text in memories),
                notebook=self._notebook,
                through=self._stirs if asked.drain else 0,
            )
        )

    def _tail(self, asked: fx.Prepare, then: str) -> str:
        """As today's code makes it, with the meter of then: that counts seconds and cents which nobody can count again."""
        today = tail(
            self._constitution, gates=dict(self._standing_now).get("gates", "").removeprefix("[gates] "), step=asked.step,
            steps=self._settings.steps_per_turn, dollars=0.0, cap=0.0, window=0.0,
        )  # fmt: skip
        return "\n".join([*today.split("\n")[:-1], then.rsplit("\n", maxsplit=1)[-1]])

    async def _observations(self, given: Any) -> tuple[ev.Observation, ...]:
        out: list[ev.Observation] = []
        for first, second in given:
            if isinstance(first, str):
                out.append(ev.Observation(text=first, tokens=self._count(first), priority=int(second)))
                continue
            for stored in await self._journal.events(after=first - 1, kinds=("observation",), limit=second - first + 1):
                if stored.id <= second:
                    told = taken(from_journal(stored.data), event=stored.id, limit=self._texts.limit)
                    out.append(shown(told, event=stored.id, ears=self._ears, me=self._me, count=self._count))
        return tuple(out)

    async def _request(self, event: Event) -> None:
        data, judged = event.data, event.id >= self._since
        self.report.requests += judged
        if "blocks" not in data:
            self.report.older += judged
            self.report.skip("requests of an older version, which did not write down what they were made of")
            return
        try:
            makeup = self._unfolding.take(event.id, data)
        except Gap as gap:
            self.report.skip(str(gap) if judged else "requests before those that were asked for")
            return
        if judged:
            self._judge_sent(event, makeup.tail)
        call = await self._made(event, makeup.tail, data.get("given") or {})
        if call is None:
            self.report.skip("requests that today's code does not make at that place")
        elif judged:
            self.report.replayed += 1
            self._judge(event, call, makeup.sum)

    async def _made(self, event: Event, tail_then: str, given: Mapping[str, Any]) -> fx.CallModel | None:
        """The request that today's code makes where one was made then."""
        if self._call:
            self._bend(event.at)  # of the last one nothing came back
        await self._prepared(event, tail_then, given)
        for _ in range(TRIES):
            if self._call or not (self._asked or self._persist):
                break
            # Today's code resets where the code of then did not.
            self.report.bent += 1
            self._kept(event.at, how="replayed")
            if self._asked:
                await self._prepared(event, tail_then, {})
        return self._call

    # ------------------------------------------------------------ verdicts
    def _judge_sent(self, event: Event, tail_then: str) -> None:
        """As it was sent, as far as that can be told without its texts."""
        then, failing = self._then, self.report.failing
        self.report.checked += 1
        if then is None:
            failing(event.id, event.turn, "sent", "it had no fixed part that can be read")
            return
        must = dict(then.must)
        gone = [name for name in MUST if name != "constitution" and name not in must]
        # An empty constitution is its operator's choice, and was told then; one that is in force stands in the tail too.
        if "constitution" not in must and dict(self._standing).get("standing rules", "").removeprefix("[standing rules]").strip():
            gone.append("constitution")
        gone += [name for name, text in then.must if not any(text in part for part in then.system)]
        gone += [] if then.tools else ["tools"]
        gone += [name for name, text in self._standing if text not in tail_then]
        gone += [] if "standing rules" in dict(self._standing) else ["standing rules"]
        if gone:
            failing(event.id, event.turn, "sent", f"missing: {', '.join(dict.fromkeys(gone))}")
        tokens, cap, window = (int(n or 0) for n in (event.data.get("estimate"), event.data.get("cap"), self._settings.budget.window))
        if tokens + cap > window and int(event.data.get("history") or 0) > self.session.floor:
            failing(event.id, event.turn, "sent", f"over the window: {tokens:,} tokens and {cap:,} for the answer in {window:,}")

    def _judge(self, event: Event, call: fx.CallModel, sum_then: str) -> None:
        """As today's code makes it."""
        for what in self._wrong(call):
            self.report.failing(event.id, event.turn, "replayed", what)
        session = self.session
        blocks = (*([session.record_block] if session.record_block else []), *(b for m in session.messages for b in m.blocks))
        self.report.identical += provenance.summed(provenance.checked(block.data) for block in blocks) == sum_then

    def _wrong(self, call: fx.CallModel) -> list[str]:
        """What is wrong with a request that today's code makes."""
        body, session = call.body, self.session
        out: list[str] = []
        if self._now:
            inside = session.settings.shape.tail_as_system
            # Where the tail is a part of the turn's opening, it is as old as that.
            told = (b.text for m in reversed(session.messages) for b in m.blocks if b.kind is Kind.TAIL)
            words, lines = (self._tail_given, self._standing_now) if inside else (next(told, ""), self._opening_standing)
            if gone := lacking(body, self._now, words, lines):
                out.append(f"missing: {', '.join(gone)}")
        out += [f"invalid: {found}" for found in problems(body["messages"], prefill=session.pauses > 0)[:3]]
        window = session.budget.window
        if call.estimate + int(body["max_tokens"]) > window and session.tokens > session.floor:
            out.append(f"over the window: {call.estimate:,} tokens and {body['max_tokens']:,} for the answer in {window:,}")
        return out

    # ------------------------------------------------------------ what came back
    def _returned(self, event: Event) -> None:
        if self._call is None:
            self.report.skip("answers to requests that were not replayed")
            return
        call, self._call = self._call, None
        self._feed(ev.ModelReturned(now=event.at, op=call.op, outcome=_outcome(event), event=event.id))

    def _finished(self, event: Event) -> None:
        data, session = event.data, self.session
        call = str(data.get("call"))
        late = (int(key.partition("/")[0]) for key in session.under_way if key.partition("/")[2] == call)
        op = session.tools_op if call in session.waiting_calls else next(late, session.tools_op)
        self._feed(
            ev.ToolFinished(
                now=event.at, op=op, call=call, text=str(data.get("text")), error=bool(data.get("error")), event=event.id,
                gist=tuple(str(line) for line in data.get("gist") or ()), told=bool(data.get("told")),
                denied=bool(data.get("denied")),
            )
        )

    def _started(self, now: float) -> None:
        if self.session.state is State.ACTING:
            for call in self.session.waiting_calls:
                self._feed(ev.ToolStarted(now=now, op=self.session.tools_op, call=call))

    def _woken(self, now: float, reason: str) -> None:
        if self.session.state is not State.YIELDED:
            return
        if reason == "deadline":
            self._fire("yield", now)
        else:
            self._stir(now, why=reason)

    def _kept(self, now: float, *, how: str, event: int = 0) -> None:
        if self._persist:
            asked, self._persist = self._persist, None
            self._feed(ev.SessionPersisted(now=now, op=asked.op, how=how, event=event))

    def _summarised(self, event: Event) -> None:
        if self._summary is None:
            return
        asked, self._summary = self._summary, None
        if event.kind == "summary_answer":
            dollars = float(event.data.get("dollars") or 0.0)
            self._feed(ev.SummaryReady(now=event.at, op=asked.op, text=str(event.data.get("text")), dollars=dollars))
        else:
            self._feed(ev.SummaryFailed(now=event.at, op=asked.op, why=str(event.data.get("why"))))

    def _restart(self, event: Event) -> None:
        """The session as it was stored: at the end of a life that ended in order, or at the last checkpoint of one that did not."""
        stored = self._stored
        for kept in (self.session.snapshot(), stored):
            if kept is None:
                continue
            self._begin(self._restored(kept))
            found: list[Mapping[str, Any]] = []
            self.session.receive(ev.Restarted(now=event.at))
            for effect in self.session.effects():
                if isinstance(effect, fx.Log) and effect.kind == "restart":
                    found.append(effect.data)
                elif isinstance(effect, fx.SetTimer):
                    self._timers[effect.tag] = effect
            if found and all(found[0].get(name) == event.data.get(name) for name in ("unfinished", "repaired", "messages", "turn")):
                return
        self.report.bent += 1

    def _restored(self, stored: Mapping[str, Any]) -> Session:
        session = self._make(self._settings, self._count)
        snapshot.load(session, stored)
        return session

    def _bend(self, now: float, *, to: State | None = None) -> None:
        """Bring the session to where it asks for materials, or to the state `to`."""
        self.report.bent += 1
        for _ in range(TRIES):
            if self.session.state is to or (to is None and self._asked):
                return
            match self.session.state:
                case State.DETACHED:
                    self._feed(ev.Attached(now=now))
                case State.IDLE:
                    self._stir(now, why="replay")
                    self._fire("gather", now + 3_600.0)
                case State.WAITING:
                    self._fire("retry", now)
                case State.YIELDED:
                    self._fire("yield", now)
                case State.ACTING:
                    self._fire("tools", now)
                case State.RESETTING:
                    self._kept(now, how="replayed")
                case State.THINKING if self._call:
                    call, self._call = self._call, None
                    failure = Failure(fault=Fault.LOCAL if to else Fault.TRANSIENT, message="the log does not say what came back")
                    self._feed(ev.ModelReturned(now=now, op=call.op, outcome=failure))
                case _:
                    self._fire("watch", now)

    # ------------------------------------------------------------ kept sessions
    def kept(self, folder: Path) -> None:
        """Take each kept session up and have it make a request."""
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            if path.suffix != ".json":
                self.report.skip("kept sessions that are not whole (packed or cut)")
                continue
            if self._now is None:
                self.report.skip("kept sessions without a fixed part in the log")
                continue
            try:
                self._begin(self._restored(json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.report.skip(f"kept sessions that cannot be taken up ({type(error).__name__})")
                continue
            self._one_request(path.name)

    def _one_request(self, name: str) -> None:
        now = max(self.session.turn_started, 1.0)
        self._feed(ev.Restarted(now=now))
        self._wake(now, "news", "replay")
        words = tail(
            self._constitution, gates=dict(self._standing_now).get("gates", "").removeprefix("[gates] "), step=0, steps=1, dollars=0.0,
            cap=0.0, window=0.0,
        )  # fmt: skip
        for _ in range(TRIES):
            if self._asked and self._now:
                asked, self._asked = self._asked, None
                self._tail_given = words
                self._opening_standing = self._standing_now
                told = (notice("Nothing new has happened. Time passes.", count=self._count),) if asked.drain else ()
                self._feed(
                    ev.Prepared(
                        now=now, op=asked.op, fixed=self._now, tail=words, tail_tokens=self._count(words), standing=self._standing_now,
                        observations=told, through=self._stirs,
                    )
                )
            self._kept(now, how="replayed")
        if self._call is None:
            self.report.skip("kept sessions that made no request")
            return
        self.report.dumps += 1
        for what in self._wrong(self._call):
            self.report.failing(0, self.session.turn, f"kept in {name}", what)


def _as_then(persona: Persona, told: str) -> Persona:
    """The persona with the name and description of then."""
    name = persona.character.name
    if not told.startswith(f"{name}. "):
        name = told.partition(". ")[0]
    description = told[len(name) + 2 :]
    if not name or not description:
        return persona
    return persona.model_copy(update={"character": persona.character.model_copy(update={"name": name, "description": description})})


def _outcome(event: Event) -> Outcome:
    data = event.data
    usage = Usage(
        input_tokens=int(data.get("input") or 0), cache_read_tokens=int(data.get("read") or 0),
        cache_write_tokens=int(data.get("written") or 0), output_tokens=int(data.get("output") or 0),
    )  # fmt: skip
    dollars = float(data["dollars"]) if data.get("dollars") is not None else None
    try:
        if event.kind == "answer":
            return Answer(content=tuple(data.get("content") or ()), stop=Stop(data["stop"]), usage=usage, dollars=dollars)
        return Failure(
            fault=Fault(data["fault"]), message=str(data.get("message")), status=data.get("status"), dollars=dollars,
            prompt_tokens=data.get("prompt_tokens"), limit=data.get("limit"), retry_after_s=data.get("retry_after_s"),
            usage=usage if "input" in data else None,
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        return Failure(fault=Fault.LOCAL, message=f"the log says nothing that can be read ({error})")
