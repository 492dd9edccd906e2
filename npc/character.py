"""One character: a mind (the loop of `runtime`) in a body (a world of `world_adapter`), at home in a folder.

Invariants: an observation is in the journal before it is acknowledged to the world; what the mind has taken in is marked in the same
checkpoint as the session, so that a crash delivers the rest again and nothing twice; what was drained counts as taken in only once the
session has it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from diaries.chronicle import Reset
from npc.chronicler import Chronicler
from npc.context import Context, tail
from npc.hands import Hands, arguments_text, news_of, result_of
from npc.hearing import Ears, Heard
from npc.home import Home
from npc.memory import Recollection
from npc.persona import Persona
from npc.senses import notice, shown, taken
from npc.told import from_journal, to_journal
from npc.tools import NOTE, RECALL
from runtime.agent import Agent, TimedCount
from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core.events import Memory, Observation
from runtime.core.messages import Kind
from runtime.core.session import Settings
from runtime.host import Materials, Result
from runtime.model.client import ModelClient
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.errors import WorldError
from world_adapter.inbox import Bounds, Inbox
from world_adapter.world import World

log = structlog.get_logger("npc")

Watcher = Callable[[str, Mapping[str, Any]], None]
SHOWN = frozenset({"rung", "turn", "wake", "yield", "request", "model failure", "waiting", "set aside"})
#: Words with which a mind marks a doubt or a promise; such lines go into its notebook by code.
_NOTEWORTHY = re.compile(r"\b(note to self|unverified|not verified|i promise|i promised|must not forget)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
NOTE_CHARS = 500
#: What wakes a mind whose body acts, besides being spoken to.
STOPPING = frozenset({"blocked", "hurt"})
EXIT_WORLD = 4
#: How long the world may take to be left in order.
LEAVE_S = 4.0
#: Observations that are read at a time when a life begins.
PAGE = 2_000


@dataclass(slots=True, kw_only=True)
class Offer:
    """What was drained for the operation `op` and is the session's only once that has moved on; `newest` is its last event."""

    op: int
    newest: int
    news: list[Observation] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)


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
        cacheable: int = 1_024,
    ) -> None:
        self.persona, self.home, self.journal, self.world, self.count, self.clock = persona, home, journal, world, count, clock
        self._watcher = watch
        self.settings = settings
        self.ears = Ears(persona.names)
        self.context = Context(persona, count)
        self.hands = Hands(journal=journal, world=world, durable=self._durable, tell=self._tell, say=persona.speech.say_action)
        self.chronicler = Chronicler(home=home, journal=journal, ears=self.ears, page=self.page)
        self.me = persona.world.npc or persona.character.name
        # Longer texts fit no window; the whole of them is in the journal.
        self._longest = max(40_000, settings.budget.window * 6)
        bounds = Bounds(chars=max(400_000, 3 * self._longest))
        self.inbox = Inbox(addressed=lambda o: self.ears.addressed(o, self.me), bounds=bounds)
        self.memory = Recollection(journal, count)
        self.agent = Agent(
            settings=settings, count=count, model=model, journal=journal, host=self, clock=clock, cacheable=cacheable
        )
        self.epoch = ""
        self.world_time = ""
        self.place = ""
        self.cursor = 0  # newest event that the mind has taken in
        self._offer: Offer | None = None
        self._disk_fault = ""  # what keeps the journal from being written now
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
            await asyncio.wait([body], timeout=LEAVE_S)  # last acknowledgements, a goodbye
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)

    def stop(self, why: str = "stopped by the operator") -> None:
        """End the life in order: the session is stored and can be taken up again."""
        self.agent.post(fx.End(code=0, message=why))

    async def _be(self, resume: frames.Resume | None) -> None:
        try:
            await self.world.run(self, resume)
            self.agent.post(fx.End(code=1, message="the link to the world has ended by itself"))  # after `close` nobody reads it
        except WorldError as error:
            self.agent.post(fx.End(code=EXIT_WORLD, message=str(error)))
        except Exception as error:
            log.exception("the link to the world failed")
            self.agent.post(fx.End(code=1, message=f"the link to the world failed: {error!r}"[:500]))

    async def _take_up(self) -> None:
        saved = await self.agent.restore()
        self.cursor = int(saved.get("cursor", 0))
        self.chronicler.told_through = int(saved.get("told_through", 0))
        identity = await self.journal.load_checkpoint("identity")
        if identity is None:
            identity = f"{int(self.clock() * 1000):x}"
            self.journal.checkpoint("identity", identity)
        self.hands.identity, self.hands.begun = identity, self.journal.last_id
        # Heard and acknowledged, but not taken in before the end of the last life.
        after, again = self.cursor, 0
        while stored := await self.journal.events(after=after, kinds=("observation",), limit=PAGE):
            told = ((from_journal(event.data), event.id) for event in stored)
            news = [taken(o, event=number, limit=self._longest) for o, number in told if not o.own]
            self.inbox.put(news)
            after, again = stored[-1].id, again + len(news)
        if again:
            self.journal.append("redelivered", {"observations": again, "after": self.cursor})
            self.agent.stir(urgent=True)

    async def _resume(self) -> frames.Resume | None:
        mark = await self.journal.last_watermark(self.world.url)
        name = await self.journal.load_checkpoint(f"world at {self.world.url}")
        if mark is None or name is None:
            return None
        epoch, seq = mark
        return frames.Resume(session="", epoch=epoch, seq=seq, world=name)

    # ------------------------------------------------------------ Sink: what the world tells
    async def observed(self, batch: Sequence[frames.Observation], *, world: str, epoch: str) -> None:  # noqa: ARG002 (the seam gives both)
        """Queue for the disk, tell the mind, and return once it is stored: only then the link acknowledges.

        The mind need not wait for the disk: its checkpoint, and the intent of whatever it does about this, are stored after this or not at
        all. And nothing of a later number may be taken in before this, for the cursor would pass over it.
        """
        urgent = False
        news: list[frames.Observation] = []
        for observation in batch:
            event = self.journal.append("observation", to_journal(observation), turn=self.agent.session.turn)
            if observation.wt:
                self.world_time = observation.wt
            if observation.kind in ("scene", "moved"):
                self.place = _place(observation) or self.place
            lines = self.ears.heard(observation, self.me)
            self.memory.keep(lines, event)
            if observation.own:
                continue
            # From here on the number of the event is what the observation is known by.
            news.append(taken(observation, event=event, limit=self._longest))
            urgent = urgent or self.ears.addressed(observation, self.me) or self._stops(observation)
        if batch:
            self.journal.watermark(self.world.url, epoch, batch[-1].seq)
        self.inbox.put(news)
        for observation in batch:
            self._tell("heard", kind=observation.kind, text=observation.text, speaker=_name_of(observation), own=observation.own)
        if news:
            self.agent.stir(urgent=urgent)
        await self._durable()

    def _stops(self, observation: frames.Observation) -> bool:
        """Whether it concerns the body that is under way just now, so that the mind must not wait for the end of that."""
        return observation.kind in STOPPING and observation.to in (None, self.me) and bool(self.agent.session.waiting_calls)

    async def _durable(self) -> None:
        """Wait for the disk, however long it takes: nothing is acknowledged that is not stored."""
        wait = 0.2
        while True:
            try:
                await self.journal.commit()
            except StoreError as error:
                if not self._disk_fault:  # told once, not by everyone who waits and at every try
                    self.page(str(error))
                self._disk_fault = str(error)
                await asyncio.sleep(wait)
                wait = min(10.0, wait * 2)
            else:
                if self._disk_fault:
                    self._disk_fault = ""
                    self.page("the journal is written again")
                return

    def actions_changed(self, actions: Sequence[frames.ActionSpec]) -> None:
        """The world's list of actions is replaced."""
        self.hands.offer(tuple(actions))
        self._ready.set()

    def attached(
        self,
        *,
        npc: str,
        world: str,
        epoch: str,
        resumed: bool,
        lost: int,
        limits: frames.Limits,  # noqa: ARG002 (limits of speech are the adapter's business)
    ) -> None:
        """The link is up."""
        self.me, self.epoch = npc or self.me, epoch
        self.journal.checkpoint(f"world at {self.world.url}", world)  # numbers of another world at this address would say nothing
        self.journal.append("attached", {"npc": npc, "world": world, "epoch": epoch, "resumed": resumed, "lost": lost})
        if lost:
            self._notice(f"{lost} observations were lost while you were away: the world could not keep them.")
        self._tell("attached", world=world, npc=npc, resumed=resumed, lost=lost)
        self.agent.post(ev.Attached(now=self.clock()))
        self.agent.spawn(self.hands.ask_outcomes())

    def detached(self, *, why: str) -> None:
        """The link is down for the moment."""
        self.journal.append("detached", {"why": why})
        self._tell("detached", why=why)
        self.agent.post(ev.Detached(now=self.clock()))

    def finished(self, result: frames.ActResult) -> None:
        """An action's end that came after `act` had returned."""
        sent = self.hands.ended(result)
        if not (sent.call and self.agent.finished(sent.call, result_of(result))):
            self._notice(news_of(result, sent.name))

    def aside(self, frame: frames.Gate | frames.Rollback | frames.ActProgress) -> None:
        """What a world says besides. A gate is logged and not obeyed: no policy gives one to a world yet."""
        match frame:
            case frames.Rollback():
                self.journal.append("rollback", {"epoch": frame.epoch, "since": frame.since})
                since = f" What happened after {frame.since} is undone." if frame.since else " Some of what happened is undone."
                self._notice(f"The world was set back to an earlier state.{since} Look again before you rely on what you remember.")
                self._tell("alarm", text=f"the world was rolled back to an earlier state (since {frame.since or 'unknown'})")
            case frames.Gate():
                self.journal.append("gate refused", {"name": frame.name, "value": frame.value, "why": frame.why})
            case frames.ActProgress():
                pass

    def _notice(self, words: str) -> None:
        """News of the runtime itself, stored like the world's; it is for this NPC, so it never gives way to what is not."""
        told = frames.Observation(seq=0, t=self.clock(), kind="notice", text=words, to=self.me)
        event = self.journal.append("observation", to_journal(told))
        self.inbox.put([replace(told, seq=event)])
        self.agent.stir(urgent=False)

    # ------------------------------------------------------------ Host: what the mind asks
    async def prepare(self, asked: fx.Prepare) -> Materials:
        """Read everything afresh: constitution, state, news, memories."""
        if not self._ready.is_set():
            await self._first_actions()
        constitution = self.home.constitution()
        state = self.home.state()
        fixed = self.context.fixed(self.hands.tools, self.hands.version, constitution)
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
        through = 0
        news: list[Observation] = []
        heard: list[Heard] = []
        if asked.drain:
            # Together: what stirs after this is not in it, and nothing counts as drained that was not.
            through, (news, heard) = self.agent.stirs, self._drain(asked.op)
            if not news and asked.reason == "idle":
                news = [notice("Nothing new has happened. Time passes.", count=self.count)]
        recalled = await self._recall(heard)
        return Materials(
            fixed=fixed,
            tail=words,
            tail_tokens=self.count(words),
            observations=tuple(news),
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

    async def _recall(self, heard: Sequence[Heard]) -> tuple[Memory, ...]:
        if not heard or not self.persona.memory.recall:
            return ()
        try:
            return await self.memory.matching(heard, window=self._window_text(), limit=self.persona.memory.max_lines)
        except StoreError as error:  # a memory that cannot be searched is worse than none, but no reason to be silent
            self.journal.append("alarm", {"text": f"nothing was recalled: {error}"}, turn=self.agent.session.turn)
            return ()

    def _settle(self) -> None:
        """The session has what it was offered as soon as its operation has moved on."""
        if self._offer and self.agent.session.op != self._offer.op:
            self.cursor, self._offer = max(self.cursor, self._offer.newest), None

    def _drain(self, op: int) -> tuple[list[Observation], list[Heard]]:
        """The news for an operation; asked again for the same one, it gives what it gave before and what has come since."""
        self._settle()
        offer = self._offer = self._offer or Offer(op=op, newest=self.cursor)
        drained = self.inbox.drain()
        out: list[Observation] = []
        newest = offer.newest
        for observation in drained.observations:
            newest = max(newest, observation.seq)
            offer.heard += self.ears.heard(observation, self.me)
            out.append(shown(observation, event=observation.seq, ears=self.ears, me=self.me, count=self.count))
        counts = {"delivered": len(drained.observations), "merged": drained.merged, "omitted": sum(drained.omitted.values())}
        if any(counts.values()):
            self.journal.append("drained", {**counts, "through": newest}, turn=self.agent.session.turn)
        if drained.note:
            out.insert(0, notice(drained.note, count=self.count))
        offer.newest = newest
        offer.news += out
        return offer.news, offer.heard

    def _window_text(self) -> str:
        return "\n".join(b.text for m in self.agent.session.messages for b in m.blocks if b.kind in (Kind.OBSERVATION, Kind.RECALLED))

    def _notebook(self, notes: Sequence[str], questions: Sequence[str]) -> str:
        lines = [f"- {n}" for n in notes] + [f"- open question: {q}" for q in questions]
        return "Your notebook:\n" + "\n".join(lines) if lines else ""

    async def run_tool(self, call: fx.Call, *, turn: int, step: int) -> Result:  # noqa: ARG002 (the seam gives both)
        """Run one tool: the runtime's own here, the world's by the hands."""
        if call.invalid is not None:
            return Result(text="[not run: the arguments were cut off or are no JSON object; call it again, shorter]", error=True)
        if call.name == RECALL["name"]:
            return await self.memory.answer(call.arguments)
        if call.name == NOTE["name"]:
            text = arguments_text(call.arguments, "text")
            if not text:
                return Result(text="[not noted: text is missing]", error=True)
            await asyncio.to_thread(self.home.note, text)
            return Result(text="noted", gist=(f"I noted: {text}"[:220],))
        return await self.hands.run(call, turn=turn)

    async def speak(self, text: str, *, turn: int) -> None:
        """The model's plain words: doubts and promises go to the notebook; spoken aloud where the persona allows it."""
        await self._keep_doubts(text)
        self._tell("thought", text=text)
        if self.persona.speech.plain_text_is_speech:
            await self.hands.say(text, turn=turn)

    async def _keep_doubts(self, text: str) -> None:
        for sentence in _SENTENCE.split(text):
            if _NOTEWORTHY.search(sentence):
                await asyncio.to_thread(self._note_once, " ".join(sentence.split())[:NOTE_CHARS])

    def _note_once(self, words: str) -> None:
        if words not in self.home.state().notes_for_future_self:
            self.home.note(words)

    async def reset(self, *, reason: str, tokens: int, snapshot: Mapping[str, Any]) -> str:
        """The whole session to disk, then the diary entry."""
        facts = Reset(
            at=self.clock(),
            why=reason,
            context_tokens=tokens,
            window_tokens=self.settings.budget.window,
            doing=self.home.state().next_action,
            place=self.place,
            world_time=self.world_time,
            epoch=self.epoch,
        )
        how, entry = await self.chronicler.reset(facts, snapshot, turn=self.agent.session.turn, me=self.me)
        self._tell("reset", reason=reason, tokens=tokens, entry=entry)
        return how

    def saved(self) -> Mapping[str, Any]:
        """What belongs into the session's checkpoint."""
        self._settle()
        return {"cursor": self.cursor, "told_through": self.chronicler.told_through}

    def page(self, text: str) -> None:
        """Tell the operator: in the log of the process, in log.md, and to whoever watches."""
        log.warning("operator", text=text)
        self.home.append_log(f"For the operator: {text}")
        self._tell("alarm", text=text)

    def watch(self, effect: fx.Effect) -> None:
        """Pass on what people want to see of the loop, and keep doubts that were uttered beside or by a tool."""
        if isinstance(effect, fx.RunTools):
            said = [b.text for b in self.agent.session.messages[-1].blocks if b.kind is Kind.SAID]
            aloud = [c for c in effect.calls if c.name == self.persona.speech.say_action]
            said += [v for c in aloud for v in c.arguments.values() if isinstance(v, str)]
            if _NOTEWORTHY.search(words := "\n".join(said)):
                self.agent.spawn(self._keep_doubts(words))
        if isinstance(effect, fx.Log) and effect.kind in SHOWN:
            self._tell(effect.kind, **{k: v for k, v in effect.data.items() if k != "kind"})

    def _tell(self, what: str, /, **data: Any) -> None:
        if self._watcher:
            try:
                self._watcher(what, data)
            except Exception as error:  # noqa: BLE001 (a closed pipe, a full disk: whoever watches must not harm the one who lives)
                log.warning("whoever watches could not be told", what=what, error=repr(error))


def _name_of(observation: frames.Observation) -> str:
    return observation.speaker.name if observation.speaker else ""


def _place(observation: frames.Observation) -> str:
    """Where the NPC is, if the world's data say so."""
    data = observation.data or {}
    return next((data[name] for name in ("room", "place") if isinstance(data.get(name), str)), "")
