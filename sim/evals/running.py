"""One case, led from its beginning to its end: the real character over a real home and journal, the model behind real HTTP.

Invariants: everything between the world's word and the model's request is the product's own; a case ends, whatever the product does (every
wait has an end by the wall clock, and so has virtual time); what goes wrong in a case is told in its trace and harms no other case.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npc.character import Character
from npc.home import Home
from npc.living import settings_of
from runtime.agent import TimedCount
from runtime.core.values import Answer, Failure, Fault
from runtime.model.counting import Counter as Tokens
from runtime.model.profiles import profile
from runtime.model.retry import Policy
from runtime.store.journal import Journal
from sim.clock import Clock
from sim.evals.case import AFTER_S, Case, Mind
from sim.evals.checks import problems
from sim.evals.mind import brain
from sim.evals.operating import operate, registered
from sim.evals.pace import Naps, Paced, Thinking
from sim.evals.script import Event, Trigger, found
from sim.evals.stage import Stage
from sim.evals.trace import Ear, Trace
from sim.messages_api import OVERLOADED, FaultPlan, HttpError, MessagesAPI, Rule
from world_adapter.frames import Gate, Rollback

#: By the wall clock: for one thing to be dealt with, with a stand-in and with a real endpoint.
PATIENCE_S = 45.0
REAL_PATIENCE_S = 300.0
#: The longest life of a case that does not say how long it lasts (virtual seconds), and the most that may happen in any.
LIMIT_S = 900.0
MOST_STEPS = 400
#: After so many seconds without news a journal has written down all that it has.
FLUSHED_S = 1.0
#: Parts of a case's time that its NPC's duties may divide it into.
NAPS = 120
LEAST_NAP_S = 5.0
PAGE = 2_000
_REJECTED = HttpError(status=400, error_type="invalid_request_error", message="messages: this request is not accepted")
_DEAD = Failure(fault=Fault.LOCAL, message="the process is gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A real endpoint to think with instead of the stand-in mind."""

    base_url: str | None
    key: str | None
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a case is run with: the product's own, unless somebody wants to see what another would do."""

    character: type[Character] = Character
    stage: type[Stage] = Stage


@functools.cache
def _count() -> Callable[[str], int]:
    """The counter of this process, loaded once."""
    return Tokens.load().count


async def lead(
    case: Case, mind: Mind, *, endpoint: Endpoint | None = None, parts: Parts | None = None, keep: Path | None = None
) -> Trace:
    """Lead a case to its end with one mind; `keep` is a folder for its home, else removed."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="npc-eval-") as folder, registered(case.check):
        run = _Run(case, mind, keep or Path(folder), endpoint=endpoint, parts=parts or Parts())
        trouble = ""
        try:
            await run.all()
        except Exception as error:  # noqa: BLE001 - a case that cannot be led is a failed case, and the others go on
            trouble = f"it could not be led to its end: {type(error).__name__}: {error}"[:400]
        return await run.trace(trouble="; ".join(filter(None, (trouble, *run.wrong))), wall_s=time.monotonic() - began)


@dataclass(slots=True)
class _Life:
    """One process of the NPC."""

    character: Character
    journal: Journal
    home: Home
    client: Paced
    naps: Naps
    task: asyncio.Task[Any] = field(init=False)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class _Run:
    def __init__(self, case: Case, mind: Mind, folder: Path, *, endpoint: Endpoint | None, parts: Parts) -> None:
        self.case, self.mind, self.folder, self.endpoint, self.parts = case, mind, folder, endpoint, parts
        self.clock, self.ear = Clock(), Ear()
        self.thinking = Thinking(self.clock)
        self.stage = parts.stage(case, self.clock)
        self.stage.aside = self._aside
        self.homes = 0
        self.home_path = folder / "home"
        self.outage = self.rejecting = False
        self.turns = self.answers = 0
        self.resolved: tuple[int, int] | None = None
        self.fired: dict[int, float] = {}  # when each event happened
        self.armed: dict[int, float] = {}  # when a triggered event is due
        self.resets = 0
        self.wrong: list[str] = []  # what the operator was told otherwise than the case says
        self._life: _Life
        persona = case.persona
        self.persona = persona.adjusted(model=endpoint.model, base_url=endpoint.base_url) if endpoint else persona
        self.patience_s = REAL_PATIENCE_S if endpoint else PATIENCE_S
        longest = case.seconds or LIMIT_S
        self.least_nap_s = max(LEAST_NAP_S, longest / NAPS)

    # ------------------------------------------------------------ the whole
    async def all(self) -> None:
        """From the first life to the end of the last."""
        self._furnish()
        mind = brain(self.mind, say=self.persona.speech.say_action)
        rules = (
            Rule(fault=OVERLOADED, where=lambda _: self.outage),
            Rule(fault=_REJECTED, where=lambda body: self.rejecting and bool(body.get("tools"))),
        )
        api = MessagesAPI(mind, self.persona.model.window, clock=self.clock.now, faults=FaultPlan(rules), keep=1)
        async with api:
            self.url = self.endpoint.base_url if self.endpoint else api.base_url
            begin = self.clock.now()
            how = ""
            while True:
                async with self._lived() as life:
                    how = await self._drive(life, begin)
                if how == "end":
                    return
                if how == "crash":
                    self.home_path = self._next_home

    def _furnish(self) -> None:
        self.home_path.mkdir(parents=True, exist_ok=True)
        (self.home_path / "constitution.md").write_text(self.case.constitution, encoding="utf-8")
        if self.case.policy:
            (self.home_path / "policy.toml").write_text(self.case.policy, encoding="utf-8")
        self.ear.constitution = self.case.constitution
        state = dict(self.case.state)
        if self.case.goal.text:
            state.setdefault("next_action", self.case.goal.text)
        if state:
            (self.home_path / "state.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")

    @contextlib.asynccontextmanager
    async def _lived(self) -> AsyncIterator[_Life]:
        """One process of the NPC, from start to end."""
        facts = profile(self.persona.model.id)
        client = Paced(api_key=self.endpoint.key if self.endpoint else "stand-in", base_url=self.url, policy=Policy(tries=1))
        client.thinking, client.think_s, client.ear, client.weather = self.thinking, self.case.think_s, self._hear, self._weather
        client.arrived = self._arrived
        naps = Naps(self.clock, least_s=self.least_nap_s)
        home = Home(self.home_path, clock=self.clock.now)
        home.open(self.persona)
        try:
            async with await Journal.open(home.database_path, clock=self.clock.now) as journal:
                character = self.parts.character(
                    persona=self.persona, home=home, journal=journal, model=client, world=self.stage,
                    settings=settings_of(self.persona, facts), count=TimedCount(_count()), clock=self.clock.now,
                    later=self.clock.later, cacheable=facts.min_cacheable, sleep=naps.sleep, watch=self._watch,
                )  # fmt: skip
                life = self._life = _Life(character, journal, home, client, naps)
                life.task = asyncio.create_task(character.live())
                life.task.add_done_callback(lambda _: life.over.set())
                try:
                    yield life
                finally:
                    self.turns = max(self.turns, character.agent.session.turn)
                    character.stop()
                    await asyncio.wait_for(life.task, self.patience_s)
        finally:
            home.close()
            await client.close()

    def _aside(self, frame: Gate | Rollback) -> None:
        self._life.character.attachment.aside(frame)

    def _watch(self, what: str, _: Mapping[str, Any]) -> None:
        if what == "reset" and not self._life.client.dead:
            self.resets += 1
            self.rejecting = False

    def _weather(self, body: Mapping[str, Any]) -> Failure | None:
        """With a real endpoint bad weather is made here; the stand-in makes its own, over HTTP."""
        if not self.endpoint:
            return None
        if self.outage:
            return Failure(fault=Fault.TRANSIENT, message="the model is away (made by the case)", status=OVERLOADED.status)
        if self.rejecting and body.get("tools"):
            return Failure(fault=Fault.INVALID, message="rejected (made by the case)", status=400)
        return None

    def _hear(self, body: Mapping[str, Any], outcome: Answer | Failure) -> None:
        self.ear.faulty, self.ear.turn = self.outage or self.rejecting, self._life.character.agent.session.turn
        self.ear.hear(body, outcome)

    def _arrived(self, outcome: Answer | Failure) -> None:
        self.answers += isinstance(outcome, Answer)

    # ------------------------------------------------------------ time
    async def _drive(self, life: _Life, begin: float) -> str:
        """Move the clock from one thing to the next, each dealt with before the next is due; how it ends: end, crash or restart."""
        await self._or_over(life, self.stage.attached.wait())
        last = begin
        for _ in range(MOST_STEPS * 50):
            before = self.ear.requests
            moved = await self._or_over(life, self.stage.deliver())
            await self._settled(life)
            if moved or self.ear.requests > before:
                last = self.clock.now()
            if self.stage.crashing.is_set():
                self.stage.crashing.clear()
                return self._crash(life)
            self._resolve(life)
            if self.ear.steps > MOST_STEPS:
                raise RuntimeError(f"it took more than {MOST_STEPS} steps")
            for number, event in enumerate(self.case.event):
                if number not in self.fired and self._due(number, event, begin):
                    if event.deed == "crash" and self.clock.now() - last > FLUSHED_S:
                        await life.journal.commit()  # it writes by itself after a moment, by the wall clock, which stands still here
                    self.fired[number] = self.clock.now()
                    last, moved = self.clock.now(), True
                    if how := self._happen(life, event):
                        return how
                    break
            if moved:
                continue
            if self._over(begin, last):
                return "end"
            end, now = begin + self._length(last - begin), self.clock.now()
            times = (self.clock.next_due, self._next_event(begin), end if end > now else None)
            self.clock.advance(min((at for at in times if at is not None), default=now + AFTER_S))
        raise RuntimeError("it never came to an end")

    async def _or_over(self, life: _Life, wanted: Any) -> Any:
        """Wait for something, or for the life to end before its time."""
        task = asyncio.ensure_future(wanted)
        over = asyncio.ensure_future(life.over.wait())
        try:
            done, _ = await asyncio.wait({task, over}, timeout=self.patience_s, return_when=asyncio.FIRST_COMPLETED)
            if task in done:
                return task.result()
            if not done:
                raise TimeoutError(f"nothing was dealt with for {self.patience_s:.0f} s")
            raise RuntimeError(f"the NPC's life ended by itself: {life.task.result().message}")
        finally:
            for one in (task, over):
                one.cancel()
            await asyncio.gather(task, over, return_exceptions=True)

    async def _settled(self, life: _Life) -> None:
        """Nothing goes on but what waits for the clock."""

        async def still() -> None:
            while True:
                await life.naps.rested()
                await life.character.agent.quiet()
                if life.naps.at_rest:
                    return

        async def asleep() -> None:
            await self.thinking.asleep.wait()
            await life.naps.rested()

        async def any_of() -> None:
            tasks = [asyncio.ensure_future(one) for one in (still(), asleep(), self.stage.crashing.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in tasks:
                    one.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        await self._or_over(life, any_of())

    def _length(self, last_s: float) -> float:
        """How long this life lasts, from its beginning, by what is known now."""
        if len(self.fired) == len(self.case.event):
            return max(self.case.seconds, last_s + AFTER_S)
        return max(self.case.seconds, LIMIT_S)

    def _over(self, begin: float, last: float) -> bool:
        if self.clock.now() - begin < self._length(last - begin):
            return False
        busy = self.stage.busy or self.thinking.asleep.is_set()
        return not busy or self.clock.now() - begin > self._length(last - begin) + LIMIT_S

    # ------------------------------------------------------------ events
    def _next_event(self, begin: float) -> float | None:
        times = [begin + e.at for n, e in enumerate(self.case.event) if n not in self.fired and e.at is not None]
        times += [at for n, at in self.armed.items() if n not in self.fired]
        return min(times, default=None)

    def _due(self, number: int, event: Event, begin: float) -> bool:
        if event.at is not None:
            return self.clock.now() >= begin + event.at
        if number not in self.armed:
            if event.after is None or not self._come_about(event.after):
                return False
            self.armed[number] = self.clock.now() + event.delay
        return self.clock.now() >= self.armed[number]

    def _come_about(self, trigger: Trigger) -> bool:
        told, ear = self.stage.told, self.ear
        if trigger.said is not None and not found(trigger.said, "\n".join(told.said)):
            return False
        if trigger.called is not None and not any(call.name == trigger.called for call in ear.calls):
            return False
        if trigger.ended is not None and trigger.ended not in told.ended:
            return False
        if trigger.answers is not None and self.answers < trigger.answers:
            return False
        if trigger.event is not None and not any(self.case.event[n].name == trigger.event for n in self.fired):
            return False
        return not (trigger.quiet and (self.stage.busy or self.thinking.asleep.is_set()))

    def _happen(self, life: _Life, event: Event) -> str:
        """One event; how it ends the life, "" if it does not."""
        stage = self.stage
        stage.set_facts(event.sets)
        stage.set_gates(event.gates)
        if event.operator:
            self.ear.constitution = event.operator.constitution or self.ear.constitution
            if wrong := operate(life.home, event.operator, now=self.clock.now()):
                self.wrong.append(wrong)
        if event.crowd:
            for n in range(event.crowd.count):
                stage.observe(event.crowd.kind, event.crowd.text.replace("{n}", str(n + 1)))
        stage.tell(event.told)
        match event.deed:
            case "crash":
                return self._crash(life)
            case "restart":
                return "restart"
            case "reset":
                self.rejecting = True
            case "outage" | "recovery":
                self.outage = event.deed == "outage"
            case "rollback":
                stage.roll_back(event.since)
            case "detach":
                stage.detach()
            case "attach":
                stage.attach()
            case None:
                pass
        return ""

    def _crash(self, life: _Life) -> str:
        """What a process that is killed leaves behind is what lies on the disk at this moment: the next life has a copy of just that."""
        self.homes += 1
        self._next_home = self.folder / f"home-{self.homes}"
        shutil.copytree(self.home_path, self._next_home)
        life.client.dead = _DEAD
        self.stage.cut()
        return "crash"

    def _resolve(self, life: _Life) -> None:
        done = self.case.goal.done
        if done is not None and self.resolved is None and not problems(done, self._so_far(life.home)):
            self.resolved = (max(self.turns, life.character.agent.session.turn), self.ear.steps)

    def _so_far(self, home: Home) -> Trace:
        state = home.state()
        return self._traced(state.to_json(), diary="", log="", events={}, failed=0, trouble="", wall_s=0.0)

    # ------------------------------------------------------------ the end
    async def trace(self, *, trouble: str, wall_s: float) -> Trace:
        """What came of it."""
        home = Home(self.home_path, clock=self.clock.now)
        events: Counter[str] = Counter()
        failed = 0
        if home.database_path.exists():
            async with await Journal.open(home.database_path, read_only=True) as journal:
                after = 0
                while page := await journal.events(after=after, limit=PAGE):
                    for event in page:
                        events[event.kind] += 1
                        failed += event.kind == "turn" and bool(event.data.get("failed"))
                    after = page[-1].id
        diary = "\n".join(f"[{', '.join(entry.tags)}] {entry.text}" for entry in home.diary.entries().entries)
        log = home.log_path.read_text(encoding="utf-8") if home.log_path.exists() else ""
        return self._traced(home.state().to_json(), diary=diary, log=log, events=events, failed=failed, trouble=trouble, wall_s=wall_s)

    def _traced(
        self, state: Mapping[str, Any], *, diary: str, log: str, events: Mapping[str, int], failed: int, trouble: str, wall_s: float
    ) -> Trace:
        ear, told = self.ear, self.stage.told
        return Trace(
            steps=ear.steps, turns=self.turns, failed_turns=failed, requests=ear.requests, rejected=ear.rejected, rejections=ear.rejections,
            without_rule=ear.without_rule, dollars=ear.dollars, seconds=self.clock.now() - self.stage.began, wall_s=wall_s,
            calls=ear.calls, asked=[(act.name, act.args) for act in told.acts], said=told.said, facts=told.facts, state=state,
            diary=diary, log=log, events=events, resets=self.resets, last_request=ear.last_text if ear.last else "",
            resolved_at=self.resolved, trouble=trouble,
        )  # fmt: skip

