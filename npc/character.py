"""One character: a mind (the loop of `runtime`) in a body (a world of `world_adapter`), at home in a folder.

Invariants: an observation is in the journal before it is acknowledged to the world, and an action before it is sent; what the mind has taken
in is marked in the same checkpoint as the session, so that a crash delivers the rest again and nothing twice; an action is never repeated on
its own, after a crash the world is asked what became of it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from diaries import Entry
from diaries.chronicle import Happening, Reset, reset_entry
from npc.context import Context, tail
from npc.hearing import Ears
from npc.home import Home
from npc.memory import Recollection
from npc.persona import Persona
from npc.senses import notice, shown
from npc.tools import NOTE, RECALL, Toolbox, missing
from runtime.agent import Agent, TimedCount
from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core.events import Observation
from runtime.core.messages import Kind
from runtime.core.session import Settings
from runtime.host import Materials, Result
from runtime.model.client import ModelClient
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.errors import WorldError
from world_adapter.inbox import Inbox
from world_adapter.world import World

log = structlog.get_logger("npc")

Watcher = Callable[[str, Mapping[str, Any]], None]
ACT_TIMEOUT_S = 30.0
#: Words with which a mind marks a doubt or a promise; such lines go into its notebook by code.
_NOTEWORTHY = re.compile(r"\b(note to self|unverified|not verified|i promise|i promised|must not forget)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
EXIT_WORLD = 4


class Character:
    """The host of one agent, and the sink of one world. Build it, then `await live()`."""

    def __init__(
        self,
        *,
        persona: Persona,
        home: Home,
        journal: Journal,
        model: ModelClient,
        world: World,
        settings: Settings,
        count: TimedCount,
        clock: Callable[[], float] = time.time,
        watch: Watcher | None = None,
    ) -> None:
        self.persona, self.home, self.journal, self.world, self.count, self.clock = persona, home, journal, world, count, clock
        self._watcher = watch
        self.settings = settings
        self.ears = Ears(persona.names)
        self.context = Context(persona, count)
        self.toolbox = Toolbox()
        self._tools = self.toolbox.tools
        self._tools_version = 0
        self.me = persona.world.npc or persona.character.name
        self.inbox = Inbox(addressed=lambda o: self.ears.addressed(o, self.me))
        self.memory = Recollection(journal, count)
        self.agent = Agent(settings=settings, count=count, model=model, journal=journal, host=self, clock=clock)
        self.epoch = ""
        self.world_time = ""
        self.place = ""
        self.cursor = 0  # newest event that the mind has taken in
        self._calls: dict[str, str] = {}  # action id -> call id
        self._identity = ""
        self._diary_from = 0
        self._ready = asyncio.Event()

    # ------------------------------------------------------------ life
    async def live(self) -> fx.End:
        """Take up the stored session, attach, and live until something ends it."""
        await self._take_up()
        resume = await self._resume()
        body = asyncio.create_task(self._be(resume))
        try:
            return await self.agent.run()
        finally:
            await self.world.close()
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)

    def stop(self, why: str = "stopped by the operator") -> None:
        """End the life in order: the session is stored and can be taken up again."""
        self.agent.post(fx.End(code=0, message=why))

    async def _be(self, resume: frames.Resume | None) -> None:
        try:
            await self.world.run(self, resume)
        except WorldError as error:
            self.agent.post(fx.End(code=EXIT_WORLD, message=str(error)))
        except Exception as error:  # noqa: BLE001 (a fault of an adapter ends the process loudly, it is never swallowed)
            log.error("the link to the world failed", error=repr(error))
            self.agent.post(fx.End(code=1, message=f"the link to the world failed: {error!r}"[:500]))

    async def _take_up(self) -> None:
        saved = await self.agent.restore()
        self.cursor = int(saved.get("cursor", 0))
        self._diary_from = int(saved.get("diary_from", 0))
        identity = await self.journal.load_checkpoint("identity")
        if identity is None:
            identity = f"{int(self.clock() * 1000):x}"
            self.journal.checkpoint("identity", identity)
        self._identity = identity
        # Heard and acknowledged, but not taken in before the end of the last life.
        stored = await self.journal.events(after=self.cursor, kinds=("observation",), limit=100_000)
        again = [o for o in (replace(_from_journal(event.data), seq=event.id) for event in stored) if not o.own]
        self.inbox.put(again)
        if again:
            self.journal.append("redelivered", {"observations": len(again), "after": self.cursor})
            self.agent.stir(urgent=True)

    async def _resume(self) -> frames.Resume | None:
        mark = await self.journal.last_watermark(self.world.url)
        if mark is None:
            return None
        session = await self.journal.load_checkpoint("world session") or ""
        epoch, seq = mark
        return frames.Resume(session=session, epoch=epoch, seq=seq, world=self.world.url)

    # ------------------------------------------------------------ Sink: what the world tells
    async def observed(self, batch: Sequence[frames.Observation], *, world: str, epoch: str) -> None:
        """Store, remember, and only then let the link acknowledge; then wake the mind."""
        urgent = False
        news: list[frames.Observation] = []
        for observation in batch:
            event = self.journal.append("observation", _to_journal(observation), turn=self.agent.session.turn)
            if observation.wt:
                self.world_time = observation.wt
            if observation.kind in ("scene", "moved") and observation.data and isinstance(observation.data.get("room"), str):
                self.place = str(observation.data["room"])
            lines = self.ears.heard(observation, self.me)
            self.memory.keep(lines, event)
            if observation.own:
                continue
            # From here on the number of the event is what the observation is known by.
            news.append(replace(observation, seq=event))
            urgent = urgent or self.ears.addressed(observation, self.me)
        if batch:
            self.journal.watermark(self.world.url, epoch, batch[-1].seq)
        await self._durable()
        self.inbox.put(news)
        for observation in batch:
            self._tell("heard", kind=observation.kind, text=observation.text, speaker=_name_of(observation), own=observation.own)
        if news:
            self.agent.stir(urgent=urgent)

    async def _durable(self) -> None:
        """Wait for the disk, however long it takes: nothing is acknowledged that is not stored."""
        wait = 0.2
        while True:
            try:
                await self.journal.commit()
                return
            except StoreError as error:
                self.page(str(error))
                await asyncio.sleep(wait)
                wait = min(10.0, wait * 2)

    def actions_changed(self, actions: Sequence[frames.ActionSpec]) -> None:
        """The world's list of actions is replaced."""
        self.toolbox = Toolbox(actions)
        self._tools = self.toolbox.tools
        self._tools_version += 1
        self._ready.set()

    def attached(self, *, npc: str, world: str, epoch: str, resumed: bool, lost: int, limits: frames.Limits) -> None:
        """The link is up."""
        self.me, self.epoch = npc or self.me, epoch
        self.journal.append("attached", {"npc": npc, "world": world, "epoch": epoch, "resumed": resumed, "lost": lost})
        if lost:
            self._notice(f"{lost} observations were lost while you were away: the world could not keep them.")
        self._tell("attached", world=world, npc=npc, resumed=resumed, lost=lost)
        self.agent.post(ev.Attached(now=self.clock()))
        self.agent._spawn(self._ask_outcomes())  # noqa: SLF001 (its life ends with the agent's)

    def detached(self, *, why: str) -> None:
        """The link is down for the moment."""
        self.journal.append("detached", {"why": why})
        self._tell("detached", why=why)
        self.agent.post(ev.Detached(now=self.clock()))

    def finished(self, result: frames.ActResult) -> None:
        """An action's end that came after `act` had returned."""
        call = self._calls.pop(result.id, "")
        if call and self.agent.finished(call, _result(result)):
            self._tell("done", action=result.id, state=result.state, text=result.text)
            return
        # Nobody waits for it any more: the mind is told as news, by the number of the action.
        words = f"What became of your action {result.id}: {result.state}. {result.text or result.error_message or ''}".strip()
        self._notice(words)
        self.journal.append("outcome", {"action": result.id, "state": result.state, "text": result.text})
        self.agent.stir(urgent=False)

    def _notice(self, words: str) -> None:
        """News of the runtime itself, stored like the world's."""
        event = self.journal.append("observation", {"kind": "notice", "text": words, "seq": 0, "t": self.clock()})
        self.inbox.put([frames.Observation(seq=event, t=self.clock(), kind="notice", text=words)])

    async def _ask_outcomes(self) -> None:
        """After a crash: ask what became of actions whose end was never told."""
        open_: dict[str, str] = {}
        for event in await self.journal.events(after=max(0, self.cursor - 2_000), kinds=("intent", "outcome"), limit=10_000):
            if event.kind == "intent":
                open_[str(event.data.get("action"))] = str(event.data.get("name"))
            else:
                open_.pop(str(event.data.get("action")), None)
        for action in open_:
            if action not in self._calls:
                await self.world.query(action)

    # ------------------------------------------------------------ Host: what the mind asks
    async def prepare(self, asked: fx.Prepare) -> Materials:
        """Read everything afresh: constitution, state, news, memories."""
        if not self._ready.is_set():
            await self._first_actions()
        constitution = self.home.constitution()
        state = self.home.state()
        through, news = self.agent.stirs, ()
        drained: list[Observation] = []
        if asked.drain:
            drained = self._drain()
            if not drained and asked.reason == "idle":
                drained = [notice("Nothing new has happened. Time passes.", count=self.count)]
        news = tuple(drained)
        recalled = ()
        if news and self.persona.memory.recall:
            window = self._window_text()
            recalled = await self.memory.matching(self._heard_now, window=window, limit=self.persona.memory.max_lines)
        fixed = self.context.fixed(self._tools, self._tools_version, constitution)
        session = self.agent.session
        words = tail(
            constitution,
            gates=", ".join(f"{name}={gate.value}" for name, gate in sorted(state.gates.items())),
            step=asked.step,
            steps=self.settings.steps_per_turn,
            dollars=session.dollars,
            cap=self.settings.dollars_per_day,
            window=min(1.0, session.calibration.estimate(session.tokens + fixed.tokens) / self.settings.budget.window),
        )
        return Materials(
            fixed=fixed,
            tail=words,
            tail_tokens=self.count(words),
            observations=news,
            recalled=recalled,
            notebook=self._notebook(state.notes_for_future_self, state.open_questions),
            through=through,
        )

    async def _first_actions(self) -> None:
        """A world says what can be done right after the welcome; a slow one is waited for a moment."""
        try:
            await asyncio.wait_for(self._ready.wait(), 2.0)
        except TimeoutError:
            self._ready.set()

    def _drain(self) -> list[Observation]:
        drained = self.inbox.drain()
        self._heard_now = []
        out: list[Observation] = []
        newest = self.cursor
        for observation in drained.observations:
            newest = max(newest, observation.seq)
            self._heard_now += self.ears.heard(observation, self.me)
            out.append(shown(observation, event=observation.seq, ears=self.ears, me=self.me, count=self.count))
        if drained.note:
            out.insert(0, notice(drained.note, count=self.count))
        self.cursor = newest
        return out

    _heard_now: list[Any] = []  # noqa: RUF012 (set at every draining)

    def _window_text(self) -> str:
        return "\n".join(b.text for m in self.agent.session.messages for b in m.blocks if b.kind in (Kind.OBSERVATION, Kind.RECALLED))

    def _notebook(self, notes: Sequence[str], questions: Sequence[str]) -> str:
        lines = [f"- {n}" for n in notes] + [f"- open question: {q}" for q in questions]
        return "Your notebook:\n" + "\n".join(lines) if lines else ""

    async def run_tool(self, call: fx.Call, *, turn: int, step: int) -> Result:  # noqa: ARG002 (the seam gives both)
        """Run one tool: the runtime's own here, the world's over the link, its intent stored first."""
        if call.invalid is not None:
            return Result(text="[not run: the arguments were cut off or are no JSON object; call it again, shorter]", error=True)
        if call.name == RECALL["name"]:
            return await self.memory.answer(call.arguments)
        if call.name == NOTE["name"]:
            return self._note(call.arguments)
        action = self.toolbox.actions.get(call.name)
        if action is None:
            names = ", ".join([*self.toolbox.actions, str(RECALL["name"]), str(NOTE["name"])])
            return Result(text=f"[not run: there is no tool {call.name[:64]!r}; there are: {names}]"[:1_000], error=True)
        if lacking := missing(action.schema, call.arguments):
            return Result(text=f"[not run: {call.name} needs {', '.join(lacking)}]"[:500], error=True)
        return await self._act(action, call)

    async def _act(self, action: frames.ActionSpec, call: fx.Call) -> Result:
        event = self.journal.append("intent", {"call": call.id, "name": action.name, "args": call.arguments}, turn=self.agent.session.turn)
        act_id = f"{self._identity}-{event}"
        self.journal.append("intent", {"action": act_id, "call": call.id, "name": action.name})
        await self._durable()
        self._calls[act_id] = call.id
        self._tell("act", action=action.name, args=dict(call.arguments))
        result = await self.world.act(id=act_id, name=action.name, args=call.arguments, timeout_s=ACT_TIMEOUT_S)
        if result.state == "accepted":
            return Result(ongoing=True)
        self._calls.pop(act_id, None)
        if result.state != "unknown":
            self.journal.append("outcome", {"action": act_id, "state": result.state})
        self._tell("done", action=action.name, state=result.state, text=result.text)
        return self._spoken(action, call, _result(result))

    def _spoken(self, action: frames.ActionSpec, call: fx.Call, result: Result) -> Result:
        """Own words aloud are kept when the turn is compacted."""
        if action.name != self.persona.speech.say_action or result.error:
            return result
        words = next((v for v in call.arguments.values() if isinstance(v, str) and v.strip()), "")
        return Result(text=result.text, gist=(f"I said: {' '.join(words.split())}"[:220],) if words else ())

    def _note(self, arguments: Mapping[str, Any]) -> Result:
        text = arguments.get("text")
        if not isinstance(text, str) or not text.strip():
            return Result(text="[not noted: text is missing]", error=True)
        self.home.note(text)
        return Result(text="noted", gist=(f"I noted: {' '.join(text.split())}"[:220],))

    async def speak(self, text: str, *, turn: int) -> None:
        """The model's plain words: doubts and promises go to the notebook; spoken aloud where the persona allows it."""
        for sentence in _SENTENCE.split(text):
            if _NOTEWORTHY.search(sentence):
                self.home.note(" ".join(sentence.split()))
        self._tell("thought", text=text)
        say = self.toolbox.actions.get(self.persona.speech.say_action)
        if not self.persona.speech.plain_text_is_speech or say is None or not text.strip():
            return
        argument = next(iter((say.schema.get("properties") or {"text": {}}).keys()), "text")
        await self._act(say, fx.Call(id=f"plain-{turn}", name=say.name, arguments={argument: text.strip()}))

    async def reset(self, *, reason: str, tokens: int, snapshot: Mapping[str, Any]) -> str:
        """The whole session to disk, then the diary entry; both go down their own ladder of fallbacks if the disk is full."""
        happenings = await self._happenings()
        name = f"reset-{int(self.clock())}-turn-{self.agent.session.turn}"
        dump = await asyncio.to_thread(self.home.dump_session, name, json.dumps(snapshot, ensure_ascii=False))
        facts = Reset(
            at=self.clock(),
            why=reason,
            context_tokens=tokens,
            window_tokens=self.settings.budget.window,
            doing=self.home.state().next_action,
            place=self.place,
            world_time=self.world_time,
            kept=dump.path.name if dump.path else "",
            epoch=self.epoch,
        )
        entry: Entry = reset_entry(facts, happenings)
        kept = await asyncio.to_thread(self.home.keep_entry, entry)
        for alarm in (dump.alarm, kept.alarm):
            if alarm:
                self.page(alarm)
        if happenings:
            self._diary_from = happenings[-1].event
        self.journal.append("diary", {"entry": kept.entry.id, "tags": list(kept.entry.tags), "how": kept.how}, turn=self.agent.session.turn)
        self.home.append_log(f"Context reset: {reason}. The session is kept ({dump.how}), the diary has an entry.")
        self._tell("reset", reason=reason, tokens=tokens, entry=kept.entry.text)
        return dump.how

    async def _happenings(self) -> list[Happening]:
        try:
            events = await self.journal.events(after=self._diary_from, kinds=("observation", "answer"), limit=100_000)
        except StoreError:
            return []
        out: list[Happening] = []
        for event in events[-400:]:
            if event.kind == "answer":
                words = " ".join(str(b.get("text") or "") for b in event.data.get("content", ()) if b.get("type") == "text")
                if words.strip():
                    out.append(Happening(kind="said", text=words, event=event.id))
                continue
            observation = _from_journal(event.data)
            for heard in self.ears.heard(observation, self.me):
                out.append(Happening(kind="heard", text=heard.text, who=heard.speaker, event=event.id))  # noqa: PERF401 (two kinds in one loop)
        return out

    def saved(self) -> Mapping[str, Any]:
        """What belongs into the session's checkpoint."""
        return {"cursor": self.cursor, "diary_from": self._diary_from}

    def page(self, text: str) -> None:
        """Tell the operator: in the log of the process, in log.md, and to whoever watches."""
        log.warning("operator", text=text)
        self.home.append_log(f"For the operator: {text}")
        self._tell("alarm", text=text)

    def watch(self, effect: fx.Effect) -> None:
        """Pass on what people want to see of the loop."""
        if isinstance(effect, fx.Log) and effect.kind in ("rung", "turn", "wake", "yield", "request", "model failure", "waiting", "set aside"):
            self._tell(effect.kind, **{k: v for k, v in effect.data.items() if k != "kind"})

    def _tell(self, what: str, **data: Any) -> None:
        if self._watcher:
            self._watcher(what, data)


def _name_of(observation: frames.Observation) -> str:
    return observation.speaker.name if observation.speaker else ""


def _result(result: frames.ActResult) -> Result:
    text = result.text
    if result.state == "done":
        return Result(text=text or "done")
    if result.state == "unknown":
        return Result(text=f"[the outcome is unknown: {result.error_message or 'no answer in time'}]", error=True)
    return Result(text=f"[{result.state}] {text or result.error_message or result.error_code or ''}".strip(), error=True)


def _to_journal(o: frames.Observation) -> dict[str, Any]:
    data: dict[str, Any] = {"seq": o.seq, "t": o.t, "kind": o.kind, "text": o.text, "prio": o.prio}
    if o.speaker:
        data["from"] = {"id": o.speaker.id, "name": o.speaker.name, "kind": o.speaker.kind}
    for name, value in (("wt", o.wt), ("data", o.data), ("key", o.key), ("to", o.to), ("self", o.own)):
        if value:
            data[name] = value
    return data


def _from_journal(data: Mapping[str, Any]) -> frames.Observation:
    source = data.get("from")
    return frames.Observation(
        seq=int(data.get("seq", 0)),
        t=float(data.get("t", 0.0)),
        kind=str(data.get("kind", "notice")),
        text=str(data.get("text", "")),
        wt=data.get("wt"),
        data=data.get("data"),
        key=data.get("key"),
        prio=int(data.get("prio", 5)),
        speaker=frames.Speaker(**source) if isinstance(source, Mapping) else None,
        to=data.get("to"),
        own=bool(data.get("self", False)),
    )
