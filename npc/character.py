"""One character: a mind (the loop of `runtime`) in a body (a world of `world_adapter`), at home in a folder.

Invariant: what the mind has taken in is marked in the same checkpoint as the session, so that a crash delivers the rest again and nothing
twice.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from diaries.chronicle import Reset
from npc.attachment import Attachment
from npc.chronicler import Chronicler
from npc.context import Context, tail
from npc.durable import Durable
from npc.hands import Hands, arguments_text
from npc.hearing import Ears, Heard
from npc.home import Home
from npc.memory import Recollection
from npc.news import News
from npc.persona import Persona
from npc.senses import notice
from npc.tools import NOTE, RECALL
from runtime.agent import Agent, TimedCount
from runtime.core import effects as fx
from runtime.core.events import Memory, Observation
from runtime.core.messages import Kind
from runtime.core.session import Settings
from runtime.host import Materials, Result
from runtime.model.client import ModelClient
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.errors import WorldError
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


class Character:
    """The host of one agent. Build it, then `await live()`."""

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
        durable = Durable(journal, self.page)
        self.hands = Hands(journal=journal, world=world, durable=durable, tell=self._tell, say=persona.speech.say_action)
        self.chronicler = Chronicler(home=home, journal=journal, ears=self.ears, page=self.page)
        self.memory = Recollection(journal, count)
        self.agent = Agent(
            settings=settings, count=count, model=model, journal=journal, host=self, clock=clock, cacheable=cacheable
        )
        self.news = News(
            journal=journal, ears=self.ears, me=lambda: self.attachment.me, count=count, window=settings.budget.window
        )
        self.attachment = Attachment(
            world=world, journal=journal, durable=durable, ears=self.ears, memory=self.memory, hands=self.hands, agent=self.agent,
            news=self.news, tell=self._tell, clock=clock, me=persona.world.npc or persona.character.name,
        )  # fmt: skip

    # ------------------------------------------------------------ life
    async def live(self) -> fx.End:
        """Take up the stored session, attach, and live until something ends it."""
        await self._take_up()
        resume = await self.attachment.resume()
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
            await self.world.run(self.attachment, resume)
            self.agent.post(fx.End(code=1, message="the link to the world has ended by itself"))  # after `close` nobody reads it
        except WorldError as error:
            self.agent.post(fx.End(code=EXIT_WORLD, message=str(error)))
        except Exception as error:
            log.exception("the link to the world failed")
            self.agent.post(fx.End(code=1, message=f"the link to the world failed: {error!r}"[:500]))

    async def _take_up(self) -> None:
        saved = await self.agent.restore()
        self.chronicler.told_through = int(saved.get("told_through", 0))
        identity = await self.journal.load_checkpoint("identity")
        if identity is None:
            identity = f"{int(self.clock() * 1000):x}"
            self.journal.checkpoint("identity", identity)
        self.hands.identity, self.hands.begun = identity, self.journal.last_id
        # Heard and acknowledged, but not taken in before the end of the last life.
        if again := await self.news.take_up(int(saved.get("cursor", 0))):
            self.journal.append("redelivered", {"observations": again, "after": self.news.cursor})
            self.agent.stir(urgent=True)

    # ------------------------------------------------------------ Host: what the mind asks
    async def prepare(self, asked: fx.Prepare) -> Materials:
        """Read everything afresh: constitution, state, news, memories."""
        await self.attachment.first_actions()
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
            through, (news, heard) = self.agent.stirs, self.news.drain(asked.op, turn=asked.turn)
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

    async def _recall(self, heard: Sequence[Heard]) -> tuple[Memory, ...]:
        if not heard or not self.persona.memory.recall:
            return ()
        try:
            return await self.memory.matching(heard, window=self._window_text(), limit=self.persona.memory.max_lines)
        except StoreError as error:  # a memory that cannot be searched is worse than none, but no reason to be silent
            self.journal.append("alarm", {"text": f"nothing was recalled: {error}"}, turn=self.agent.session.turn)
            return ()

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
            place=self.attachment.place,
            world_time=self.attachment.world_time,
            epoch=self.attachment.epoch,
        )
        how, entry = await self.chronicler.reset(facts, snapshot, turn=self.agent.session.turn, me=self.attachment.me)
        self._tell("reset", reason=reason, tokens=tokens, entry=entry)
        return how

    def saved(self) -> Mapping[str, Any]:
        """What belongs into the session's checkpoint."""
        self.news.settle(self.agent.session.op)
        return {"cursor": self.news.cursor, "told_through": self.chronicler.told_through}

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
