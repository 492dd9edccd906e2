"""One character: a mind (the loop of `runtime`) in a body (a world of `world_adapter`), at home in a folder.

Invariant: what the mind has taken in is marked in the same checkpoint as the session, so that a crash delivers the rest again and nothing
twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from diaries.chronicle import Reset
from diaries.occasions import Occasions
from npc import memory, notebook
from npc.approvals.approvals import Approvals, Surroundings
from npc.approvals.records import Limits, Records
from npc.approvals.signing import Secret
from npc.approvals.webhook import Webhook
from npc.attachment import Attachment
from npc.body import Body
from npc.catalogue import DO, FIND, Familiar, search_of, unwrapped
from npc.checkpoint import beginning
from npc.chronicler import Chronicler, Ways
from npc.company import Company
from npc.context import Context, budget_words, standing, tail
from npc.diarist import Diarist
from npc.discretion import CLOSED, Discretion
from npc.durable import Durable
from npc.duties import Sleep
from npc.gates import Facts, Gates
from npc.goals import Goals
from npc.hands import SAYING, Hands, arguments_text
from npc.hearing import TALK, Ears, Heard
from npc.home import Home
from npc.instinct import Instinct
from npc.manifest import Manifest, born, new_identity
from npc.memory import Recollection
from npc.news import Away, News
from npc.notebook import Notebook
from npc.pairguard import PairGuard
from npc.persona import Persona, rules_of
from npc.policy.asking import READ, READ_CHARS, WHY_CHARS
from npc.policy.policy import Policy
from npc.reflexes import Reflexes
from npc.repetition import Repetition
from npc.routine import Routine
from npc.sealed import SealedModel, SealedWorld
from npc.secrets import Redactor
from npc.senses import notice
from npc.state import State
from npc.told import from_journal
from npc.tools import RECALL, STOP
from npc.voice import addressee
from npc.wake import Wakes
from runtime.agent import CHECKPOINT, Agent, Later, TimedCount
from runtime.core import effects as fx
from runtime.core.calibration import START
from runtime.core.events import Memory, Observation
from runtime.core.messages import Kind
from runtime.core.session import Settings
from runtime.core.spending import absence_of
from runtime.host import Materials, Result
from runtime.model import prices
from runtime.model.client import ModelClient
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.errors import WorldError
from world_adapter.world import World

log = structlog.get_logger("npc")

Watcher = Callable[[str, Mapping[str, Any]], None]
SHOWN = frozenset({"rung", "turn", "wake", "yield", "woken from yield", "request", "model failure", "waiting", "set aside", "stage"})
#: Words with which a mind marks a doubt or a promise; such lines go into its notebook by code.
_NOTEWORTHY = re.compile(r"\b(note to self|unverified|not verified|i promise|i promised|must not forget)\b", re.IGNORECASE)
#: What was read, as opposed to said or kept by oneself.
_READ = frozenset({Kind.OBSERVATION, Kind.RECALLED, Kind.TOOL_RESULT, Kind.OUTCOME})
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
NOTE_CHARS = 500
#: How many of the newest observations a verifier is shown, those of the world's own among them.
FACTS = 500
EXIT_WORLD = 4
#: What of the usable window a world's actions may take. A list that is longer must not keep the mind from living.
TOOLS_SHARE = 0.6
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
        later: Later | None = None,
        sleep: Sleep = asyncio.sleep,
        webhook_secret: Secret | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.persona, self.home, self.journal, self.count, self.clock = persona, home, journal, count, clock
        self.redactor = redactor or Redactor()
        journal.redact = home.redact = self.redactor.text
        self.policy = Policy(
            journal, path=home.policy_path, clock=clock, speaks=lambda name: name == persona.speech.say_action or name in SAYING,
            worlds=lambda: self.world.names, facts=self._facts, tell=self._tell, page=self.page, redactor=self.redactor,
        )  # fmt: skip
        self.world = world = SealedWorld(world, self.redactor, injected=self.policy.injected)
        model = SealedModel(model, self.redactor)
        self._watcher = watch
        self._manifest: Manifest
        self._answered: set[str] = set()  # questions whose answer the mind was told
        self._unvouched = ""  # why the stored session is not to be taken up
        self.settings = settings
        self.ears = Ears(persona.names)
        self.context = Context(persona, count)
        durable = Durable(journal, self.page)
        self.gates = Gates(rules=persona.gates, guards=persona.guards, home=home, facts=self._facts, log=self._log)
        self.notebook = Notebook(
            home=home, gates=self.gates, count=count, log=self._log, page=self.page, window=settings.budget.window
        )
        self.discretion = Discretion(
            journal, ears=self.ears, me=lambda: self.attachment.me, known=(*persona.names, persona.character.description),
            common=lambda word: count(f" {word}") == 1,
        )  # fmt: skip
        self.memory = Recollection(
            journal, count, ears=self.ears, discretion=self.discretion, overheard_days=persona.memory.overheard_days,
            gates=tuple(persona.gates), clock=clock,
        )  # fmt: skip
        goals = Goals(tries=persona.acting.same_goal_tries, window_s=persona.acting.same_goal_window_s)
        self.hands = Hands(
            journal=journal, world=world, durable=durable, tell=self._tell, say=persona.speech.say_action,
            body=Body(goals=goals, clock=clock), refuse=self.gates.refuse, own=self.notebook.tools, discretion=self.discretion,
            room=int(settings.budget.usable / START * TOOLS_SHARE), count=count, search=search_of(persona, settings.budget.window),
            repetition=Repetition(tries=persona.acting.same_call_tries, window_s=persona.acting.same_call_window_s),
            policy=self.policy, context=self._beside,
            company=Company(
                names=persona.names, ears=self.ears, clock=clock, kinds_known=getattr(world, "kinds_known", True),
                guard=PairGuard(rounds=persona.speech.pair_rounds, rest_s=persona.speech.pair_rest_s),
            ),
        )  # fmt: skip
        self.familiar = Familiar()
        self.wakes = Wakes(on=persona.wake.on, when=persona.wake.predicates, names=persona.names)
        self.agent = Agent(
            settings=settings, count=count, model=model, journal=journal, host=self, clock=clock, cacheable=cacheable, later=later
        )
        self.hands.voice.mind, self.hands.voice.told = self.agent, self._spoke
        self.hands.asks = self.approvals = self._approvals(webhook_secret, sleep)
        self.chronicler = Chronicler(
            home=home, journal=journal, ears=self.ears, page=self.page, clock=clock, turn=lambda: self.agent.session.turn,
            occasions=Occasions(milestones=persona.diary.milestones_per_day), own_words=persona.diary.written_by == "agent",
            ways=Ways(me=lambda: self.attachment.me, say=persona.speech.say_action, aloud=persona.speech.plain_text_is_speech),
            diarist=Diarist(
                ask=self.agent.ask_aside, who=self._who, count=count, window=settings.budget.window, reserve=settings.budget.reserve
            ),
        )  # fmt: skip
        self.news = News(
            journal=journal, ears=self.ears, me=lambda: self.attachment.me, count=count, window=settings.budget.window
        )
        self.hands.notice = lambda words: self.news.notice(words, now=clock())
        self.attachment = Attachment(
            world=world, journal=journal, durable=durable, ears=self.ears, memory=self.memory, hands=self.hands, gates=self.gates,
            agent=self.agent, chronicler=self.chronicler,
            news=self.news, tell=self._tell, clock=clock, me=persona.world.npc or persona.character.name,
            wakes=self.wakes,
        )  # fmt: skip
        self.instinct = Instinct(
            Reflexes(rules_of(persona), names=persona.names), on=persona.reflexes.on, hands=self.hands, journal=journal,
            say=persona.speech.say_action, me=lambda: self.attachment.me, addressed=lambda o: self.ears.addressed(o, self.attachment.me),
            write=home.append_log, spawn=self.agent.spawn, tell=self._tell, clock=clock,
            away=lambda: str(absence_of(self.agent.session, clock())[0]),
        )  # fmt: skip
        self.attachment.noticed = self.instinct.noticed
        self.routine = Routine(
            home=home, journal=journal, agent=self.agent, attachment=self.attachment, chronicler=self.chronicler, page=self.page,
            answers=self._pass_on_answers, approvals=self.approvals, sleep=sleep,
        )  # fmt: skip

    def _approvals(self, secret: Secret | None, sleep: Sleep) -> Approvals:
        """Whoever puts acts before the operator, and does what he approved."""
        rules = self.persona.approvals
        around = Surroundings(
            notice=self._operator_says, page=self.page, show=lambda what, data: self._tell(what, **data),
            spawn=self.agent.spawn, turn=lambda: self.agent.session.turn, write_log=self.home.append_log,
            there=lambda world: world == self.world.url and self.agent.session.linked and bool(self.hands.toolbox.actions),
        )  # fmt: skip
        return Approvals(
            records=Records(self.home.path), limits=Limits(lapse_s=rules.lapse_s, most_open=rules.most_open, per_hour=rules.per_hour),
            npc=self.persona.character.name, journal=self.journal, around=around, clock=self.clock,
            perform=lambda request, operation: self.hands.run_approved(request, call_id=operation),
            webhook=Webhook(rules.webhook, secret, clock=self.clock, sleep=sleep) if rules.webhook and secret else None,
        )  # fmt: skip

    def _operator_says(self, words: str, urgent: bool) -> None:
        self.news.notice(words, now=self.clock())
        self.agent.stir(urgent=urgent, why="operator" if urgent else "")

    # ------------------------------------------------------------ life
    async def live(self) -> fx.End:
        """Take up the stored session, attach, and live until something ends it."""
        self.agent.spawn(asyncio.to_thread(prices.warm))
        await asyncio.to_thread(memory.warm)
        await self._take_up()
        resume = await self.attachment.resume()
        self.agent.spawn(self._mend())
        body, routine = asyncio.create_task(self._be(resume)), asyncio.create_task(self.routine.run())
        well = False
        try:
            end = await self.agent.run()
            well = not end.code
            return end
        finally:
            routine.cancel()
            last = asyncio.create_task(self._last_words(asked=well))
            await self.world.close()
            await asyncio.wait([body], timeout=LEAVE_S)  # last acknowledgements, a goodbye
            body.cancel()
            await asyncio.gather(body, routine, last, return_exceptions=True)
            self._manifest.ended(self.clock()).write(self.home.manifest_path)

    def stop(self, why: str = "stopped by the operator") -> None:
        """End the life in order: the session is stored and can be taken up again."""
        self.agent.post(fx.End(code=0, message=why))

    async def _mend(self) -> None:
        for words in await self.hands.mend():
            self._operator_says(words, False)

    async def _be(self, resume: frames.Resume | None) -> None:
        try:
            await self.world.run(self.attachment, resume)
            self.agent.post(fx.End(code=1, message="the link to the world has ended by itself"))  # after `close` nobody reads it
        except WorldError as error:
            self.agent.post(fx.End(code=EXIT_WORLD, message=str(error)))
        except Exception as error:
            log.exception("the link to the world failed")
            self.agent.post(fx.End(code=1, message=f"the link to the world failed: {error!r}"[:500]))

    async def _last_words(self, *, asked: bool) -> None:
        """Diary and log at the end of a life; `asked`: a model may be asked for them."""
        await self.chronicler.farewell(asked=asked)
        await self.routine.checkpoint("shutdown")

    async def _take_up(self) -> None:
        identity = await self._vouched()
        saved = await self.agent.restore(afresh=self._unvouched)
        await self.chronicler.take_up(born=born(identity))
        where = self.chronicler.occasions
        self.attachment.place, self.attachment.world_time, self.attachment.epoch = where.place, where.world_time, self.chronicler.epoch
        self._answered = {str(number) for number in saved.get("answered", ())}
        self.hands.identity, self.hands.begun = identity, self.journal.last_id
        self.hands.company.guard.load(saved.get("pairs"))
        self.hands.check.repetition.load(saved.get("calls"))
        self.familiar.load(saved.get("familiar"))
        await self.policy.take_up()
        await self.hands.remember_words()
        await self.instinct.take_up(str(self.agent.session.absent))
        await self.approvals.take_up(identity)
        await self.memory.take_up()
        if name := await self.journal.load_checkpoint(f"world at {self.world.url}"):  # until the world says it again
            self.memory.attached(world=name, epoch=self.chronicler.epoch, me=self.attachment.me)
        # Heard and acknowledged, but not taken in before the end of the last life.
        if again := await self.news.take_up(int(saved.get("cursor", 0))):
            self.journal.append("redelivered", {"observations": again, "after": self.news.cursor})
            self.agent.stir(urgent=True)

    async def _vouched(self) -> str:
        """The identity of this home's journal. What nobody vouches for is kept as a file and not taken up."""
        identity, found = await self.journal.load_checkpoint("identity"), Manifest.read(self.home.manifest_path)
        if identity is not None and (isinstance(found, str) or found.identity != identity):
            why = found if isinstance(found, str) else "is of another journal"
            self._unvouched = f"{self.home.manifest_path.name} {why}"
            if text := await self.journal.load_checkpoint(CHECKPOINT):
                dump = await asyncio.to_thread(self.home.dump_session, f"set-aside-{int(self.clock())}.json", text)
                self.page(f"the life begins afresh ({self._unvouched}); the session before is kept ({dump.path or 'in memory'})")
        if identity is None:
            identity = new_identity(self.clock())
            self.journal.checkpoint("identity", identity)
        if isinstance(found, str) or found.identity != identity:  # also where a damaged journal has given way to a fresh one
            self._manifest = Manifest(npc=self.persona.character.name, identity=identity, begun_at=self.clock())
        else:
            self._manifest = found.begun(self.clock())
        with contextlib.suppress(StoreError):  # a full disk is no reason not to live
            await self.journal.commit()
        if why := self._manifest.write(self.home.manifest_path):
            self.page(f"{self.home.manifest_path} cannot be written ({why}): without it the next life begins afresh")
        return identity

    async def _facts(self) -> Facts:
        """What a verifier may look at."""
        events = await self.journal.events(kinds=("observation",), limit=FACTS, newest=True)
        told = (from_journal(event.data) for event in events)
        seen = tuple(o for o in told if (o.speaker is None or o.speaker.kind == "world") and o.kind not in TALK and o.seq)
        return Facts(state=self.home.state(), seen=seen, place=self.attachment.place, world_time=self.attachment.world_time)

    # ------------------------------------------------------------ Host: what the mind asks
    async def prepare(self, asked: fx.Prepare) -> Materials:
        """Read everything afresh: constitution, state, news, memories."""
        await self.attachment.first_actions()
        constitution = self.home.constitution()
        state = self.home.state()
        self.hands.heed()
        fixed = self.context.fixed(self.hands.tools, self.hands.version, constitution)
        session = self.agent.session
        gates = ", ".join(f"{name}={gate.value}" for name, gate in sorted(state.gates.items()))
        words = tail(
            constitution,
            gates=gates,
            step=asked.step,
            steps=self.settings.steps_per_turn,
            dollars=session.dollars,
            cap=self.settings.dollars_per_day,
            more=budget_words(session, self.clock()),
            window=min(1.0, session.calibration.estimate(session.tokens + fixed.tokens) / self.settings.budget.window),
        )
        self._pass_on_answers(state)
        through = 0
        news: list[Observation] = []
        heard: list[Heard] = []
        if asked.drain:
            # Together: what stirs after this is not in it, and nothing counts as drained that was not.
            if done := self.instinct.account():
                self.news.notice(done, now=self.clock())
            through = self.agent.stirs
            news, heard = await self.news.drain(asked.op, turn=asked.turn, away=self._away(asked))
            self.policy.moved(asked.turn, self.news.causes)
            if not news and asked.reason == "idle":
                news = [notice("Nothing new has happened. Time passes.", count=self.count)]
        recalled = await self._recall(heard, turn=asked.turn)
        return Materials(
            fixed=fixed,
            tail=words,
            tail_tokens=self.count(words),
            standing=standing(constitution, gates=gates),
            observations=tuple(news),
            recalled=recalled,
            notebook=await self._notebook(state),
            through=through,
        )

    async def _notebook(self, state: State) -> str:
        """What the mind reads in its notebook: one without a past also the end of its log and of its diary.

        Not while a request was rejected: what was said last may stand there too, and be the reason.
        """
        session = self.agent.session
        if session.messages and not session.bare:
            return notebook.shown(state)
        box = self.hands.toolbox
        known = self.familiar.told(box.way, box.catalogue.actions) if box.catalogue else ""
        if session.remedy or session.failed_turns:
            return "\n\n".join(part for part in (notebook.shown(state), known) if part)
        begun = await asyncio.to_thread(beginning, self.home, count=self.count, window=self.settings.budget.window)
        return "\n\n".join(part for part in (begun, known) if part)

    def _who(self) -> str:
        """The character and its rules, as the system part has them."""
        return self.context.fixed(self.hands.tools, self.hands.version, self.home.constitution()).system[-1]

    def _log(self, kind: str, data: Mapping[str, Any]) -> None:
        """An event of the notebook or of a gate; some are worth an entry in the diary."""
        self.journal.append(kind, data, turn=self.agent.session.turn)
        if kind == "gate set":
            self.chronicler.milestone(f"{data['name']} is {data['value']}: {data['why']}")
        elif kind == "task":
            words = (("phase", "Now I am at: {}"), ("done", "Kept or over: {}"))
            self.chronicler.milestone("; ".join(text.format(data[name]) for name, text in words if name in data))

    def _pass_on_answers(self, state: State) -> bool:
        """What the operator wrote into the state is news, once; whether there was any."""
        any_new = False
        for asked in state.operator_questions:
            if asked.answer and asked.id not in self._answered:
                any_new = True
                self._answered.add(asked.id)
                self.journal.append("operator answered", asked.to_json(), turn=self.agent.session.turn)
                self.news.notice(f"The operator answers {asked.id}, {asked.question!r}: {asked.answer}", now=self.clock())
        self._answered &= {asked.id for asked in state.operator_questions}
        return any_new

    def _away(self, asked: fx.Prepare) -> Away | None:
        """What the mind has missed while its body acted, None where it has not been away."""
        if not asked.away_s:
            return None
        attachment = self.attachment

        def whole(observation: frames.Observation) -> bool:
            return self.ears.addressed(observation, attachment.me) or bool(
                self.wakes.may(observation.kind) and self.wakes.reason(observation, me=attachment.me, place=attachment.place)
            )

        return Away(doing=self.hands.doing, seconds=asked.away_s, above=self.persona.wake.digest_above, whole=whole)

    async def _recall(self, heard: Sequence[Heard], *, turn: int) -> tuple[Memory, ...]:
        self.discretion.hears(heard, turn=turn)
        if not heard or not self.persona.memory.recall:
            return ()
        try:
            return await self.memory.matching(heard, window=self._window_text(), limit=self.persona.memory.max_lines, turn=turn)
        except StoreError as error:  # a memory that cannot be searched is worse than none, but no reason to be silent
            self.journal.append("alarm", {"text": f"nothing was recalled: {error}"}, turn=self.agent.session.turn)
            return ()

    def _spoke(self, words: str, call: fx.Call, turn: int) -> None:
        """Own words were said: they are known again."""
        self.memory.said(words, to=addressee(call.arguments), closed=call.name in CLOSED, turn=turn)

    def _window_text(self) -> str:
        return "\n".join(b.text for m in self.agent.session.messages for b in m.blocks if b.kind in (Kind.OBSERVATION, Kind.RECALLED))

    async def run_tool(self, call: fx.Call, *, op: int, turn: int, step: int) -> Result:  # noqa: ARG002 (the seam gives all)
        """Run one tool: the runtime's own here, the world's by the hands."""
        check = self.hands.check
        if call.invalid is not None:
            return check.cut_off(call, turn=turn)
        schema = self.hands.own_schema(call.name)
        if schema is None or call.name == DO["name"]:  # the arguments of that come in many shapes; what it stands for is checked
            return await self._run(call, op=op, turn=turn)
        checked = check.fitted(call, schema, turn=turn)
        if isinstance(checked, Result):
            return checked
        call = checked.call
        if call.name != STOP["name"] and (refused := check.repeated(call.name, call, turn=turn)):
            return refused
        with check.under_way(call.name, call):
            result = await self._run(call, op=op, turn=turn)
        check.gave(call.name, call.arguments, result, changes=False)
        return checked.told(result)

    async def _run(self, call: fx.Call, *, op: int, turn: int) -> Result:
        if call.name == RECALL["name"]:
            return await self.memory.answer(call.arguments)
        if call.name == STOP["name"]:
            return await self.hands.stop(arguments_text(call.arguments, "action"), turn=turn)
        return await self.notebook.run(call) or await self._act(call, op=op, turn=turn)

    async def _act(self, call: fx.Call, *, op: int, turn: int) -> Result:
        """An action of the world. What had to be looked for is run by the same hands, with the same checks."""
        catalogue = self.hands.toolbox.catalogue
        if call.name == FIND["name"] and catalogue:
            return catalogue.answer(call.arguments)
        if call.name == DO["name"]:
            call = unwrapped(call)
            if call.invalid is not None or call.name == DO["name"]:
                text = '[not run: npc_do takes {"action": a name that npc_find_tool gave, "arguments": {...}}]'
                return Result(text=text, error=True, denied=True)
        result = await self.hands.run(call, op=op, turn=turn)
        if catalogue and call.name in catalogue.actions and not result.error:
            self.familiar.used(call.name)
        return result

    def _beside(self, call: fx.Call) -> tuple[str, tuple[str, ...]]:
        """The mind's words beside a call, and what it read before: the newest texts of the world and of tools, the oldest first."""
        messages = self.agent.session.messages
        having = (n for n in range(len(messages) - 1, -1, -1) if any(b.data.get("id") == call.id for b in messages[n].blocks))
        at = next(having, len(messages))
        said = [b.text for m in messages[at : at + 1] for b in m.blocks if b.kind is Kind.SAID]
        read = [b.text for m in messages[max(0, at - 2 * READ) : at] for b in m.blocks if b.kind in _READ]
        return " ".join("\n".join(said).split())[:WHY_CHARS], tuple(text[:READ_CHARS] for text in read[-READ:])

    async def speak(self, text: str, *, turn: int) -> None:
        """The model's plain words: doubts and promises go to the notebook; spoken aloud where the persona allows it."""
        await self._keep_doubts(text)
        self._tell("thought", text=text)
        if self.persona.speech.plain_text_is_speech and (result := await self.hands.say(text, turn=turn)) and result.error:
            # Told with the next news, and no news by itself: a world that refuses all words must not keep a model talking to it.
            self.news.notice(f"Your words were not all heard: {result.text}", now=self.clock())

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
        how, entry = await self.chronicler.reset(facts, snapshot, turn=self.agent.session.turn)
        await self.routine.checkpoint("reset")
        self._tell("reset", reason=reason, tokens=tokens, entry=entry)
        return how

    def saved(self) -> Mapping[str, Any]:
        """What belongs into the session's checkpoint."""
        self.news.settle(self.agent.session.op)
        return {
            "cursor": self.news.cursor,
            "pairs": self.hands.company.guard.dump(),
            "calls": self.hands.check.repetition.dump(),
            "answered": sorted(self._answered),
            **({"familiar": found} if (found := self.familiar.dump()) else {}),
        }

    def page(self, text: str) -> None:
        """Tell the operator: in the log of the process, in log.md, and to whoever watches."""
        log.warning("operator", text=text)
        self.home.append_log(f"For the operator: {text}")
        self._tell("alarm", text=text)

    def watch(self, effect: fx.Effect) -> None:
        """Pass on what people want to see of the loop, and keep doubts that were uttered beside or by a tool."""
        if isinstance(effect, fx.Absent):
            self.instinct.absent(effect)
        if isinstance(effect, fx.RunTools | fx.Speak):
            self.instinct.answered()
        if isinstance(effect, fx.RunTools):
            said = [b.text for b in self.agent.session.messages[-1].blocks if b.kind is Kind.SAID]
            aloud = [c for c in effect.calls if c.name == self.persona.speech.say_action]
            said += [v for c in aloud for v in c.arguments.values() if isinstance(v, str)]
            if _NOTEWORTHY.search(words := "\n".join(said)):
                self.agent.spawn(self._keep_doubts(words))
        if isinstance(effect, fx.Log) and effect.kind == "model failure" and effect.data.get("fault") == "invalid":
            said_why = str(effect.data.get("message"))
            if any(word in said_why for word in ("defer_loading", "tool_search", "tool_reference")) and self.hands.search_ourselves():
                self.page(f"the model's endpoint does not take its own tool search ({said_why[:200]}): ours is used from now on")
        if isinstance(effect, fx.Log) and effect.kind in SHOWN:
            self._tell(effect.kind, **{k: v for k, v in effect.data.items() if k != "kind"})

    def _tell(self, what: str, /, **data: Any) -> None:
        if self._watcher:
            try:
                self._watcher(what, self.redactor.value(data))
            except Exception as error:  # noqa: BLE001 (a closed pipe, a full disk: whoever watches must not harm the one who lives)
                log.warning("whoever watches could not be told", what=what, error=repr(error))
