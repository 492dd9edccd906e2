"""Hooks: plain functions of the operator that look at an act before it is begun, and may stop it.

Invariants: a hook says yes by None or "", no by a sentence, and anything else is a no: an exception, an answer of another kind, too much
time. It is given a copy, so that it changes nothing; one that hangs keeps nobody else waiting, and no process from ending.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from npc.gates import Facts
from npc.operator_code import MOST_HANGING, BusyError, Functions, OperatorCode

#: How long a hook may take, in seconds.
HOOK_S = 2.0
WHY_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a hook looks at.

    Attributes:
        action: the name of the action, by the world.
        arguments: as the mind gave them, without what the operator's file fills in; a copy.
        effect, reversible, reach: what holds for it, by the world and the file.
        causes: who moved the NPC in this turn: operator, player, npc, world, self. Empty where that is not known.
        facts: the state, and what the world's own code has told; see `npc.gates.Facts`.
        held: what the first step of an escrow gave, for its check.
        world: the address of the world.
    """

    action: str
    arguments: Mapping[str, Any]
    facts: Facts
    effect: Literal["read", "write"] = "write"
    reversible: bool | None = None
    reach: Literal["contained", "wide"] = "contained"
    causes: frozenset[str] = frozenset()
    held: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    world: str = ""


Hook = Callable[[Act], "str | None"]


class Hooks(Functions[Hook]):
    """Hooks by name."""

    kind, shape = "hook", "an Act and gives a sentence or None"
    names = "package.module:function of your own code, or register it"


#: Where code registers its hooks: `from npc.policy.hooks import HOOKS`.
HOOKS = Hooks()

# Threads are the process's own, so their number is bounded for all NPCs in it together.
_CODE = OperatorCode("hook")


async def objection(name: str, hook: Hook, act: Act, *, seconds: float = HOOK_S) -> str:
    """What a hook has against an act, "" for nothing. Never raises but for a cancellation."""
    try:
        copied = replace(act, arguments=copy.deepcopy(dict(act.arguments)), held=copy.deepcopy(dict(act.held)))
        result = await _CODE.call(hook, copied, name=name, seconds=seconds)
    except BusyError:
        return f"it could not be checked: {MOST_HANGING} checks hang already"
    except TimeoutError:
        return f"the check {name} took longer than {seconds:g} s"
    except Exception as error:  # noqa: BLE001 - the operator's own code, and data that nobody can copy: whatever is raised means no
        return f"the check {name} failed ({type(error).__name__})"
    if result is None or result == "":
        return ""
    if not isinstance(result, str):
        return f"the check {name} gave no answer"
    return " ".join(result.split())[:WHY_CHARS] or f"the check {name} says no"
