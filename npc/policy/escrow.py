"""Escrow: an act that cannot be undone, done as three that can be stopped in between: hold, check, release or give back.

Invariants: nothing is released that was not held, checked after it was held, and allowed by the check, the hooks and the gates as they are
then, those of the step itself too; what is held is released or given back, in the world that holds it, or the operator is told that it is
neither; each step is in the journal before it is sent, so that the next life knows what a crash left held. A step whose end is unknown is
never done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from npc.policy.rules import Escrow
from npc.schemas import properties_of
from runtime.core.effects import Call
from runtime.host import Result
from runtime.store.journal import Journal
from world_adapter.frames import ActionSpec, ActResult, ActState

#: How many of the newest steps are looked at for what an earlier life left held.
READ = 400

_ENDS = frozenset({"over", "released", "reverted", "stuck"})
_PLAIN_ENDS = frozenset({ActState.DONE, ActState.FAILED, ActState.CANCELLED})

#: Whether an action may be released now, "" or why not: `held` is what the first step gave.
Check = Callable[[Mapping[str, Any]], Awaitable[str]]


class Perform(Protocol):
    """Runs one action on the world, its intent stored before. None: it was not even sent, and the sentence says why.

    `back`: it gives back what is held, and no gate keeps it from that.
    """

    async def __call__(self, action: ActionSpec, call: Call, *, op: int, turn: int, back: bool) -> tuple[ActResult | None, str]:
        """See the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Under:
    """One escrow under way: `number` is the event that it began with, `carried` what the first step gave for the other two."""

    number: int
    action: str
    escrow: Escrow
    call: Call
    op: int
    turn: int
    carried: Mapping[str, Any]


class Escrows:
    """Of one NPC in the world of one address. `find` gives an action of it by its name, `page` tells the operator."""

    def __init__(
        self, journal: Journal, *, world: str, perform: Perform, find: Callable[[str], ActionSpec | None], page: Callable[[str], None]
    ) -> None:
        self._world = world
        self._journal, self._perform, self._find, self._page = journal, perform, find, page
        self._running: set[asyncio.Task[Result]] = set()

    async def run(self, action: ActionSpec, escrow: Escrow, call: Call, check: Check, *, op: int, turn: int) -> Result:
        """Do an action by way of its escrow."""
        steps = [self._find(name) for name in (escrow.hold, escrow.release, escrow.revert)]
        if not all(step is not None and step.kind == "instant" for step in steps):
            return _not_done(f"{action.name} needs {escrow.hold}, {escrow.release} and {escrow.revert}, and this world has not all of them")
        # Whoever called may be stopped; what is held then is still to be released or given back.
        task = asyncio.create_task(self._run(action, escrow, call, check, op=op, turn=turn))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _run(self, action: ActionSpec, escrow: Escrow, call: Call, check: Check, *, op: int, turn: int) -> Result:
        begun = {
            "step": "begun", "action": action.name, "args": dict(call.arguments), "call": call.id, "world": self._world,
            **escrow.model_dump(),
        }  # fmt: skip
        number = self._journal.append("escrow", begun, turn=turn)
        under = _Under(number=number, action=action.name, escrow=escrow, call=call, op=op, turn=turn, carried={})
        answer, why = await self._do(escrow.hold, under)
        if answer is None:
            self._step(under, "over", why)
            return _not_done(why)
        if answer.state is not ActState.DONE:
            if answer.state not in _PLAIN_ENDS:
                return await self._give_back(under, "nobody knows whether it was held")
            why = answer.text or answer.error_message or str(answer.state)
            self._step(under, "over", why)
            return _not_done(why)
        held = answer.data or {}
        if escrow.carry:
            if escrow.carry not in held:
                return self._stuck(under, f"{escrow.hold} did not give {escrow.carry}")
            under = _Under(
                number=number, action=action.name, escrow=escrow, call=call, op=op, turn=turn, carried={escrow.carry: held[escrow.carry]}
            )
        self._step(under, "held", "")
        if why := await check(held):
            return await self._give_back(under, why)
        self._step(under, "releasing", "")
        answer, why = await self._do(escrow.release, under)
        if answer is None:
            return await self._give_back(under, why)
        if answer.state not in _PLAIN_ENDS:
            return self._stuck(under, f"nobody knows whether {escrow.release} was done")
        if answer.state is not ActState.DONE:
            return await self._give_back(under, answer.text or answer.error_message or str(answer.state))
        self._step(under, "released", "")
        return Result(text=answer.text or "done")

    async def _give_back(self, under: _Under, why: str) -> Result:
        if under.escrow.carry and not under.carried:
            return self._stuck(under, f"{why}, and without {under.escrow.carry} it cannot be given back")
        self._step(under, "reverting", why)
        answer, wrong = await self._do(under.escrow.revert, under, back=True)
        if answer is None or answer.state is not ActState.DONE:
            said = wrong if answer is None else answer.text or answer.error_message or str(answer.state)
            return self._stuck(under, f"{why}; {under.escrow.revert} did not give it back ({said})")
        self._step(under, "reverted", why)
        return _not_done(f"{why}; what was held was given back")

    def _stuck(self, under: _Under, why: str) -> Result:
        self._step(under, "stuck", why)
        self._page(f"{under.action} hangs between {under.escrow.hold} and {under.escrow.release}: {why}; look into the world")
        return Result(text=f"[the outcome is unknown: {why}; the operator was told, go on with something else]", error=True)

    async def _do(self, name: str, under: _Under, *, back: bool = False) -> tuple[ActResult | None, str]:
        spec = self._find(name)
        if spec is None:
            return None, f"this world has no {name} any more"
        known = properties_of(spec.schema)
        arguments = {key: value for key, value in under.call.arguments.items() if key in known} | dict(under.carried)
        call = Call(id=under.call.id, name=name, arguments=arguments)
        return await self._perform(spec, call, op=under.op, turn=under.turn, back=back)

    def _step(self, under: _Under, step: str, why: str) -> None:
        data = {"step": step, "of": under.number, "action": under.action, "why": why, "carried": dict(under.carried)}
        self._journal.append("escrow", data, turn=under.turn)

    async def take_up(self, *, before: int, there: asyncio.Event) -> list[str]:
        """What lives before the event `before` left held is given back; what the mind is to be told of it. Raises StoreError.

        `there`: the world has said what can be done. It is waited for only where there is something to give back.
        """
        under: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        for event in await self._journal.events(kinds=("escrow",), limit=READ, newest=True):
            if event.id > before:
                continue
            if event.data.get("step") == "begun":
                under[event.id] = (event.data, event.data)
            elif (number := event.data.get("of")) in under:
                under[number] = (under[number][0], event.data)
        told = []
        for number, (begun, last) in under.items():
            step, found = last.get("step"), _under(number, begun, last)
            if step in _ENDS or found is None:
                continue
            if (world := begun.get("world", self._world)) != self._world:
                self._page(f"{found.action} was left held in {world}, and this is {self._world}: attach there to have it given back")
                continue
            await there.wait()
            if step in ("held", "begun"):
                result = await self._give_back(found, "the life before this one ended in between")
            else:
                result = self._stuck(found, f"the life before this one ended while it was {step}")
            told.append(f"{found.action}, begun in your life before: {result.text.strip('[]')}")
        return told


def _under(number: int, begun: Mapping[str, Any], last: Mapping[str, Any]) -> _Under | None:
    """An escrow as the journal has it; None for one that makes no sense."""
    try:
        escrow = Escrow.model_validate({name: begun.get(name) for name in Escrow.model_fields})
    except ValueError:
        return None
    arguments, carried = begun.get("args"), last.get("carried")
    call = Call(id="", name=str(begun.get("action")), arguments=arguments if isinstance(arguments, Mapping) else {})
    return _Under(
        number=number, action=call.name, escrow=escrow, call=call, op=0, turn=0, carried=carried if isinstance(carried, Mapping) else {}
    )


def _not_done(why: str) -> Result:
    return Result(text=f"[not done: {why}]", error=True)
