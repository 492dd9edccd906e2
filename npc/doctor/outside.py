"""The world looked at: attached for a moment by the real adapter, and left again.

Invariants: nothing that the world tells is acknowledged, so all of it is told again to the NPC; no action is sent; whoever lives is not
asked to make room (that is for the caller to see to).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from npc.doctor.finding import Finding, fine, told, warn, wrong
from npc.errors import NpcError
from npc.gates import VERIFIERS
from npc.living import world_of
from npc.persona import Guard, Persona
from npc.policy.rules import WorldSecrets
from npc.schemas import properties_of, schema_of
from npc.speech import field_of
from npc.tools import Toolbox
from world_adapter.client import WebsocketWorld
from world_adapter.errors import WorldError, WorldRefused
from world_adapter.frames import ActionSpec, ActResult, Limits, Observation

#: Seconds for the whole visit, for a world's list of actions after its welcome, for what it has kept to follow, and for a goodbye.
VISIT_S, ACTIONS_S, KEPT_S, GOODBYE_S = 25.0, 2.0, 0.3, 4.0
#: More actions than this cost much at every step.
MANY = 60
#: How many names a finding lists, and how many are looked through for one that was meant.
LISTED, COMPARED = 6, 300
_SAYING = frozenset({"say", "speak", "chat", "talk", "tell"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What was seen of a world. `problem`: why it could not be entered, and `fix`; `waits`: the world has to come, and it did not."""

    url: str
    problem: str = ""
    fix: str = "correct the address"
    waits: bool = False
    world: str = ""
    npc: str = ""
    actions: tuple[ActionSpec, ...] | None = None
    newest_t: float = 0.0


class _Left(Exception):  # noqa: N818 - named for what happened
    """The visit is over: ends the delivery of what is not to be acknowledged."""


class _Visitor:
    """A sink that takes nothing. `kept`: the world keeps what is not taken, so it must not be told that it was."""

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self.entered, self.told_actions, self.told, self.leaving = (asyncio.Event() for _ in range(4))
        self.world = self.npc = self.why = ""
        self.actions: tuple[ActionSpec, ...] | None = None
        self.newest_t = 0.0

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:  # noqa: ARG002 - the seam gives both
        if batch:
            self.newest_t = max(self.newest_t, batch[-1].t)
            self.told.set()
        if self._kept:
            await self.leaving.wait()
            raise _Left  # returning would acknowledge

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.actions = tuple(actions)
        self.told_actions.set()

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None:  # noqa: ARG002 - the seam gives more
        self.npc, self.world = npc, world
        self.entered.set()

    def detached(self, *, why: str) -> None:
        self.why = why

    def finished(self, result: ActResult) -> None:
        """No action is ever sent."""


async def visit(url: str, who: Persona, *, insecure: bool, shown: WorldSecrets | None = None) -> Visit:
    """Attach, hear what can be done, and leave. `shown`: see `world_of`."""
    try:
        world = world_of(url, who, insecure=insecure, shown=shown)
    except (NpcError, WorldError) as error:
        what, colon, fix = str(error).rpartition(": ")
        return Visit(url=url, problem=what, fix=fix) if colon else Visit(url=url, problem=fix)
    except ValueError as error:  # a port that is none
        return Visit(url=url, problem=f"{url!r} is no address ({error})", fix="write it as ws://HOST:PORT")
    if why := await _nobody_at(url):
        return Visit(url=world.url, problem=f"nothing listens at {world.url} ({why})", fix="start the world, or correct the address")
    visitor = _Visitor(kept=isinstance(world, WebsocketWorld))
    run = asyncio.create_task(world.run(visitor, None), name="visit")
    steps = asyncio.create_task(_look(visitor), name="look")
    try:
        await asyncio.wait({run, steps}, timeout=VISIT_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        steps.cancel()
        visitor.leaving.set()
        await world.close()
        await asyncio.wait({run}, timeout=GOODBYE_S)
        run.cancel()
        ends = await asyncio.gather(run, steps, return_exceptions=True)
    seen = Visit(
        url=world.url, world=visitor.world, npc=visitor.npc, actions=visitor.actions, newest_t=visitor.newest_t,
        waits=url.startswith("neuro+ws:") and not visitor.entered.is_set(),
    )  # fmt: skip
    if visitor.entered.is_set():
        return seen
    end = ends[0]
    if isinstance(end, WorldRefused):
        fix = "look at NPC_WORLD_TOKEN (or the login) and at npc under [world]; the world's own log may say more"
        return Visit(url=world.url, problem=str(end), fix=fix)
    if isinstance(end, Exception):
        return Visit(url=world.url, problem=str(end) or type(end).__name__, fix="start the world, or correct the address")
    if seen.waits:
        return seen
    return Visit(url=world.url, problem=f"nothing came of it ({visitor.why or 'no welcome'})", fix="look at the world's log")


async def _nobody_at(url: str) -> str:
    """Why nobody can be at an address of this machine, at once instead of after many tries; "" where that is the adapter's to find out."""
    parts = urlsplit(url)
    if parts.scheme.startswith("neuro") or not parts.port or parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        return ""
    try:
        async with asyncio.timeout(GOODBYE_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except OSError as error:  # TimeoutError is one
        return (error.strerror or "no answer").lower()
    writer.close()
    return ""


async def _look(visitor: _Visitor) -> None:
    await visitor.entered.wait()
    for event, seconds in ((visitor.told_actions, ACTIONS_S), (visitor.told, KEPT_S)):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


def check_visit(seen: Visit) -> Finding:
    """Whether the world lets us in."""
    if seen.problem:
        return wrong("world", seen.problem, seen.fix)
    if seen.waits:
        return warn("world", f"no game connected to {seen.url} within {VISIT_S:.0f} s", "start the game while the doctor listens")
    return fine("world", f"{seen.world} let {seen.npc} in at {seen.url}; left again, nothing was taken in")


def check_actions(actions: Sequence[ActionSpec], who: Persona, shown: Toolbox) -> list[Finding]:
    """What can be done there: names, schemas, the action for speaking, and what of it has room in the window (`shown`)."""
    if not actions:
        return [warn("actions", "the world offers no actions: the NPC can only listen", "let the world send its list of actions")]
    out = []
    by_tool = Toolbox(actions).actions
    renamed = [f"{a.name} as {tool}" for tool, a in by_tool.items() if a.name != tool]
    names = [a.name for a in actions]
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        out.append(warn("actions", f"offered more than once: {_list(twice)}", "give each action of the world a name of its own"))
    odd = [f"{a.name} ({why})" for a in actions if (why := oddity(a.schema))]
    if odd:
        fix = 'declare arguments as JSON Schema: {"type": "object", "properties": {…}, "required": […]}'
        out.append(warn("actions", f"schemas that make no sense: {_list(odd)}", fix))
    if silent := [a.name for a in actions if not a.description.strip()]:
        out.append(warn("actions", f"without a description: {_list(silent)}", "say in one sentence what it does and when to use it"))
    fix = "offer only what this character needs, describe it in fewer words, or give a larger --window"
    if shown.left_out:
        out.append(warn("actions", f"no room for {len(shown.left_out)} of {len(actions)} actions: {_list(shown.left_out)}", fix))
    elif shown.shortened:
        what = f"little room for {len(actions)} actions: they are told by names and types of their arguments only"
        out.append(warn("actions", what, fix))
    elif shown.catalogue is not None:
        who_looks = "the model's own search" if shown.way == "api" else "npc_find_tool"
        out.append(fine("actions", f"{len(shown.catalogue.actions)} of {len(actions)} actions are not shown but found, by {who_looks}"))
    elif len(actions) > MANY:
        out.append(warn("actions", f"{len(actions)} actions: each is sent with every call", fix))
    out += _check_speaking(actions, who)
    words = f"{len(actions)}: {_list(names)}" + (f"; shown to the model as: {_list(renamed)}" if renamed else "")
    return [fine("actions", words), *out]


def _check_speaking(actions: Sequence[ActionSpec], who: Persona) -> list[Finding]:
    say = who.speech.say_action
    spec = next((a for a in actions if a.name == say), None)
    if spec is None:
        names = [a.name for a in actions]
        near = [name for name in names if name in _SAYING][:1] or get_close_matches(say, names[:COMPARED], n=1, cutoff=0.5)
        fix = f'write say_action = "{near[0]}" under [speech]' if near else "name the one for speaking as say_action under [speech]"
        return [warn("actions", f"the world has no action {say!r}, by which this character speaks", fix)]
    declared = properties_of(spec.schema)
    field = field_of({"properties": declared}, dict.fromkeys(declared, "")) if declared else "text"
    required = spec.schema.get("required")
    missing = [str(n) for n in required if n != field] if isinstance(required, list) else []
    if missing and who.speech.plain_text_is_speech:
        what = f"{say} also needs {_list(missing)}, which plain text of the model cannot give"
        return [warn("actions", what, "write plain_text_is_speech = false under [speech]")]
    return []


def oddity(schema: Mapping[str, Any]) -> str:
    """What is odd about the schema of an action's arguments, "" if nothing is."""
    if not schema:
        return ""  # no arguments
    if schema.get("type") != "object":
        return "not of type object at the top"
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        return "properties is no map"
    if any(not isinstance(one, (Mapping, bool)) for one in properties.values()):
        return "an argument without a schema"
    required = schema.get("required", [])
    if not isinstance(required, (list, tuple)):
        return "required is no list"
    unknown = [str(name) for name in required if name not in properties]
    if unknown:
        return f"requires {_list(unknown)}, which it does not declare"
    kept = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    return "" if schema_of(schema) == kept else "in part not taken by models, and mended"


# ---------------------------------------------------------------- gates and guards
def check_gates(who: Persona) -> list[Finding]:
    """Whether every gate can be set by whoever is to set it."""
    out = []
    for name, rule in who.gates.items():
        if rule.verifier:
            try:
                VERIFIERS.find(rule.set_by)
            except NpcError as error:
                out.append(told("gates", f"{name}: {error}"))
    named = {guard.gate for guard in who.guards}
    for gate in sorted(named - set(who.gates)):
        what = f"a guard waits for the gate {gate}, which the persona does not declare: only state.json, by hand, could open it"
        out.append(warn("gates", what, f'write [gates.{gate}] with set_by = "world", "operator" or your verifier'))
    return out or ([fine("gates", f"{len(who.gates)} gates, {len(who.guards)} guards")] if who.gates or who.guards else [])


def check_guards(guards: Sequence[Guard], names: Collection[str]) -> list[Finding]:
    """Guards against the actions that there are: one that names none guards nothing."""
    out = []
    for action in dict.fromkeys(guard.action for guard in guards):
        if action not in names:
            near = get_close_matches(action, sorted(names)[:COMPARED], n=1, cutoff=0.6)
            fix = f"did you mean {near[0]}?" if near else f"the world has: {_list(sorted(names))}"
            out.append(wrong("gates", f"a guard names the action {action}, which the world does not have: it guards nothing", fix))
    return out


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(name[:80] for name in names[:LISTED])
    return shown + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
