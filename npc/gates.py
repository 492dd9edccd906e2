"""Gate fields: who may set them, and which actions stand behind them.

Invariants: a gate is written by the world's own code, by a verifier or by the operator's hand, never by words, whoever's they are; an
action behind a gate reads the state afresh and is refused unless the gate says just what its guard demands; whatever is unclear or fails
means no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npc.home import Home
from npc.operator_code import Functions, OperatorCode
from npc.persona import GateRule, Guard
from npc.state import Scalar, State
from world_adapter.frames import Observation

#: How long a verifier may take, in seconds.
VERIFIER_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a verifier may look at: nothing in it was written by a player or by the model but for the texts in `state`.

    `seen` are the newest observations that the world's own code made (no speaker, or the world itself), oldest first; `place` is where the
    NPC is and `world_time` what the world's clock says, both "" where the world does not tell.
    """

    state: State
    seen: tuple[Observation, ...] = ()
    place: str = ""
    world_time: str = ""

    def newest(self, kind: str) -> Mapping[str, Any]:
        """The data of the newest observation of a kind, empty where there is none."""
        return next((o.data for o in reversed(self.seen) if o.kind == kind and o.data is not None), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a verifier says. `verified` False leaves the gate as it is; otherwise it is set to `value`. `why` is one sentence."""

    verified: bool
    why: str
    value: Scalar = True


Verifier = Callable[[Facts], Verdict]


class Verifiers(Functions[Verifier]):
    """Verifiers by name."""

    kind, shape = "verifier", "Facts and gives a Verdict"
    names = "world, operator, or package.module:function of your own code"


#: Where code registers its verifiers: `from npc.gates import VERIFIERS`.
VERIFIERS = Verifiers()

_CODE = OperatorCode("verifier")


class Gates:
    """The gates and guards of one NPC. Building it loads the verifiers and raises `Misconfigured` where that fails.

    `facts` gathers what the world said; `log` writes an event (kind and data).
    """

    def __init__(
        self,
        *,
        rules: Mapping[str, GateRule],
        guards: Sequence[Guard],
        home: Home,
        facts: Callable[[], Awaitable[Facts]],
        log: Callable[[str, Mapping[str, Any]], object],
        verifiers: Verifiers = VERIFIERS,
    ) -> None:
        self._rules, self._guards, self._home, self._facts, self._log = rules, tuple(guards), home, facts, log
        self._verifiers = {name: verifiers.find(rule.set_by) for name, rule in rules.items() if rule.verifier}

    @property
    def askable(self) -> tuple[str, ...]:
        """Gates that the mind may ask to be verified."""
        return tuple(sorted(self._verifiers))

    def refusal(self, action: str) -> str:
        """Why an action is not to be done now, "" if nothing stands in its way. Reads the state afresh; blocks on the disk."""
        guards = [guard for guard in self._guards if guard.action == action]
        state = self._home.state()
        held = next((asked for asked in state.operator_questions if asked.action == action and not asked.answer), None)
        if held:
            return f"you asked the operator about this ({held.id}) and there is no answer yet: go on with something else"
        if not guards:
            return ""
        if state.fallback:
            return "its gate cannot be read just now, so it stays shut"
        for guard in guards:
            gate = state.gates.get(guard.gate)
            if gate is None or type(gate.value) is not type(guard.equals) or gate.value != guard.equals:
                how = " (npc_verify asks for it)" if guard.gate in self._verifiers else ""
                return f"the gate {guard.gate} is not {_shown(guard.equals)}{how}"
        return ""

    async def refuse(self, action: str) -> str:
        """As `refusal`, off the loop, with an event for each refusal."""
        try:
            why = await asyncio.to_thread(self.refusal, action)
        except Exception as error:  # noqa: BLE001 - a check that fails is a no, whatever failed
            why = f"its gate could not be checked ({type(error).__name__})"
        if why:
            self._log("gate shut", {"action": action, "why": why})
        return why

    async def from_world(self, name: str, value: Any, why: str) -> bool:
        """The world's own code sets a gate; False, with an event, unless the persona gives it this gate."""
        rule = self._rules.get(name)
        if rule is None or rule.set_by != "world":
            self._log("gate refused", {"name": name, "value": value, "why": f"the persona does not give it to the world ({why})"})
            return False
        return await self._write(name, value, f"the world: {why}" if why else "the world")

    async def verify(self, name: str) -> str:
        """Run the verifier of a gate because the mind asked for it; what it is told."""
        verifier = self._verifiers.get(name)
        if verifier is None:
            return f"[nothing verified: there is nothing to ask about {name[:64]!r}; {self._who(name)}]"
        facts = await self._facts()
        try:
            verdict = await _CODE.call(verifier, facts, name=name, seconds=VERIFIER_S)
        except Exception as error:  # noqa: BLE001 - the operator's own code: whatever it raises means no
            self._log("gate refused", {"name": name, "why": f"the verifier failed: {type(error).__name__}: {error}"[:300]})
            return f"[not verified: {name} could not be checked]"
        if not isinstance(verdict, Verdict) or verdict.verified is not True:
            why = verdict.why if isinstance(verdict, Verdict) else "the verifier gave no verdict"
            self._log("gate refused", {"name": name, "why": why})
            return f"[not verified: {why}]"
        if not await self._write(name, verdict.value, verdict.why):
            return f"[not verified: {name} could not be written]"
        return f"verified: {name} is {_shown(verdict.value)}. {verdict.why}"

    async def _write(self, name: str, value: Any, why: str) -> bool:
        try:
            await asyncio.to_thread(self._home.write_gate, name, value, why)
        except ValueError as error:
            self._log("gate refused", {"name": name, "value": value, "why": str(error)})
            return False
        self._log("gate set", {"name": name, "value": value, "why": why})
        return True

    def _who(self, name: str) -> str:
        rule = self._rules.get(name)
        if rule is None:
            return f"what can be asked about: {', '.join(self.askable) or 'nothing'}"
        return "only the world's own rules set it" if rule.set_by == "world" else "only the operator sets it"


def _shown(value: Scalar) -> str:
    return {True: "true", False: "false", None: "null"}.get(value, str(value)) if isinstance(value, bool | None) else repr(value)
