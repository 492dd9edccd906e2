"""The world of a case: facts, people, actions with results, in virtual time; `World` without a link.

Invariants: the case decides all that happens; what the world was asked to do is written down as it was asked, whoever asks twice; an
observation is kept until it was acknowledged and told again to whoever resumes, and nothing is told twice otherwise.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.clock import Clock
from sim.evals.case import Case
from sim.evals.script import Action, Outcome, Scalar, Tell, found
from world_adapter.frames import ActionSpec, ActResult, ActState, Gate, Limits, Observation, Resume, Rollback, Speaker
from world_adapter.world import Sink

#: What a world says of an action that makes no sense to it.
NOTHING = "Nothing comes of it."
SAY = Action(name="say", description="Say something aloud.", arguments={"text": "string"}, outcome=(Outcome(text="said"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One action that the world was asked for. `state` is how it ended, "" while it goes on."""

    id: str
    name: str
    args: Mapping[str, Any]
    at: float
    state: str = ""


@dataclass(slots=True)
class _Going:
    id: str
    action: Action
    outcome: Outcome


@dataclass(slots=True)
class Told:
    """What the world has told and done so far."""

    acts: list[Act] = field(default_factory=list)
    facts: dict[str, Scalar] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)


class Stage:
    """The world of one case; it outlives the lives of its NPC. `aside` hears of gates and rollbacks."""

    def __init__(self, case: Case, clock: Clock) -> None:
        self.case, self.clock, self.began = case, clock, clock.now()
        self.url = f"memory://{case.world.name}"
        self.told = Told(facts=dict(case.world.facts))
        self.aside: Callable[[Gate | Rollback], None] = lambda _: None
        self.crashing = asyncio.Event()  # an action is done, and the process is to die before it hears of it
        self.attached = asyncio.Event()
        self.place = case.world.place
        given = {action.name: action for action in case.action}
        say = case.persona.speech.say_action
        self.actions = {say: SAY.model_copy(update={"name": say}), **given}
        self._people = {person.name: person for person in case.person}
        self._used: Counter[int] = Counter()
        self._results: dict[str, ActResult] = {}
        self._going: dict[str, _Going] = {}
        self._waiting: list[Observation | ActResult | Gate | Rollback] = []
        self._unacked: list[Observation] = []
        self._seq = 0
        self._epoch = 1
        self._sink: Sink | None = None
        self._closed = asyncio.Event()

    @property
    def epoch(self) -> str:
        """Of this save of the world."""
        return f"e{self._epoch}"

    @property
    def busy(self) -> bool:
        """Whether something is still to be told, or goes on."""
        return bool(self._waiting or self._going)

    # ------------------------------------------------------------ World
    async def run(self, sink: Sink, resume: Resume | None) -> None:
        """See `World.run`."""
        self._sink, self._closed = sink, asyncio.Event()
        closed = self._closed
        self._waiting = [one for one in self._waiting if not isinstance(one, Observation)]
        self._waiting[:0] = [o for o in self._unacked if resume is None or o.seq > resume.seq]
        self.attach(resumed=resume is not None)
        await closed.wait()

    def attach(self, *, resumed: bool = True) -> None:
        """The link comes up."""
        if self._sink is None:
            return
        self._sink.attached(
            npc=self.case.npc, world=self.case.world.name, epoch=self.epoch, session="s1", resumed=resumed, lost=0, limits=Limits()
        )
        self._sink.actions_changed([spec(action) for action in self.actions.values()])
        self.attached.set()

    def detach(self) -> None:
        """The link goes down."""
        self.attached.clear()
        if self._sink is not None:
            self._sink.detached(why="the link is down")

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002, ARG002 - the seam's
        """See `World.act`."""
        if not self.attached.is_set():
            return ActResult(id=id, state=ActState.FAILED, error_code="not_attached", error_message="the link is down")
        action = self.actions.get(name)
        outcome = self._outcome(action, args) if action else Outcome(state="failed", text=NOTHING)
        self.told.acts.append(Act(id=id, name=name, args=dict(args), at=self.clock.now()))
        if action and name in (self.case.persona.speech.say_action, "whisper", "shout"):
            self.told.said += [value for value in args.values() if isinstance(value, str)]
        if action and action.kind == "ongoing":
            for other in list(self._going):
                await self.cancel(other)
            self._going[id] = _Going(id, action, outcome)
            self.clock.later(self.clock.now() + outcome.seconds, lambda: self._arrive(id))
            return ActResult(id=id, state=ActState.ACCEPTED, text="begun")
        result = self._end(id, name, outcome)
        if outcome.crash:
            self.crashing.set()
            await asyncio.Event().wait()  # nobody is left to hear of it
        return result

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.query`."""
        if id not in self._going:
            self._waiting.append(self._results.get(id) or ActResult(id=id, state=ActState.UNKNOWN))

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.cancel`."""
        if going := self._going.pop(id, None):
            self._ended(id, going.action.name, "cancelled")
            result = ActResult(id=id, state=ActState.CANCELLED, text="You stop on the way.")
            self._results[id] = result
            if self._sink is not None:  # whoever stops waits to hear of it
                asyncio.get_running_loop().call_soon(self._sink.finished, result)

    async def close(self) -> None:
        """See `World.close`."""
        self._sink = None
        self.attached.clear()
        self._closed.set()

    def cut(self) -> None:
        """Nobody is there any more, from one moment to the next."""
        self._sink = None
        self.attached.clear()

    # ------------------------------------------------------------ what happens
    def tell(self, tells: Sequence[Tell]) -> None:
        """Observations, to be delivered with the next `deliver`."""
        for told in tells:
            person = self._people.get(told.who)
            speaker = Speaker(id=person.id or person.name.casefold(), name=person.name, kind=person.kind) if person else None
            to = (self.case.npc if person and person.kind != "world" else None) if told.to is None else told.to or None
            kind = told.kind or ("speech" if person else "notice")
            prio = told.prio if told.prio is not None else 7 if to == self.case.npc else 5
            self.observe(
                kind, told.text, speaker=speaker, to=to, prio=prio, data=told.data, key=told.key, wt=told.time, own=told.own,
            )  # fmt: skip

    def observe(self, kind: str, text: str, **more: Any) -> None:
        """One observation."""
        self._seq += 1
        seen = Observation(seq=self._seq, t=self.clock.now(), kind=kind, text=text, **more)
        self._unacked.append(seen)
        self._waiting.append(seen)

    def set_facts(self, sets: Mapping[str, Scalar], adds: Mapping[str, int] | None = None) -> None:
        """The world's facts change."""
        self.told.facts.update(sets)
        for name, by in (adds or {}).items():
            before = self.told.facts.get(name, 0)
            self.told.facts[name] = (before if isinstance(before, (int, float)) else 0) + by

    def set_gates(self, gates: Mapping[str, Scalar], why: str = "the world's own rule") -> None:
        """The world's own code sets gates."""
        self._waiting += [Gate(name=name, value=value, why=why) for name, value in gates.items()]

    def roll_back(self, since: str) -> None:
        """The world is set back to an earlier save."""
        self._epoch += 1
        self._waiting.append(Rollback(epoch=self.epoch, since=since))

    async def deliver(self) -> bool:
        """Hand over what waits; whether there was anything."""
        if self._sink is None or not self.attached.is_set() or not self._waiting:
            return False
        waiting, self._waiting = self._waiting, []
        sink = self._sink
        batch: list[Observation] = []
        for one in [*waiting, None]:
            if isinstance(one, Observation):
                batch.append(one)
                continue
            if batch:
                await sink.observed(batch, world=self.case.world.name, epoch=self.epoch)
                done = {o.seq for o in batch}
                self._unacked = [o for o in self._unacked if o.seq not in done]
                batch = []
            if isinstance(one, ActResult):
                sink.finished(one)
            elif one is not None:
                self.aside(one)
        return True

    # ------------------------------------------------------------ actions
    def _outcome(self, action: Action, args: Mapping[str, Any]) -> Outcome:
        for outcome in action.outcome:
            if outcome.times is not None and self._used[id(outcome)] >= outcome.times:
                continue
            if any(self.told.facts.get(name) != value for name, value in outcome.when.items()):
                continue
            if all(name in args and found(pattern, str(args[name])) for name, pattern in outcome.given.items()):
                self._used[id(outcome)] += 1
                return outcome
        return Outcome() if not action.outcome else Outcome(state="failed", text=NOTHING)

    def _arrive(self, number: str) -> None:
        if going := self._going.pop(number, None):
            self._waiting_end(going)

    def _waiting_end(self, going: _Going) -> None:
        self._waiting.append(self._end(going.id, going.action.name, going.outcome))

    def _end(self, number: str, name: str, outcome: Outcome) -> ActResult:
        failed = outcome.state == "failed"
        self.set_facts(outcome.sets, outcome.adds)
        self.set_gates(outcome.gates)
        if outcome.place:
            self.place = outcome.place
            self.observe("moved", f"You are at the {outcome.place}.", own=True, data={"room": outcome.place})
        self.tell(outcome.tells)
        state, code = (ActState.FAILED, outcome.code or "failed") if failed else (ActState.DONE, None)
        result = ActResult(id=number, state=state, text=outcome.text, error_code=code, data=outcome.data or None)
        self._results[number] = result
        self._ended(number, name, outcome.state)
        return result

    def _ended(self, number: str, name: str, state: str) -> None:
        self.told.ended.append(name)
        self.told.acts = [Act(id=a.id, name=a.name, args=a.args, at=a.at, state=state) if a.id == number else a for a in self.told.acts]


def spec(action: Action) -> ActionSpec:
    """An action as the world declares it."""
    return ActionSpec(
        name=action.name, description=action.description, schema=action.declared, effect=action.effect, reversible=action.reversible,
        reach=action.reach, kind=action.kind, moves_body=action.moves_body,
    )  # fmt: skip
