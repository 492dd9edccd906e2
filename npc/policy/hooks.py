"""Hooks: plain functions of the operator that look at an act before it is begun, and may stop it.

Invariants: a hook says yes by None or "", no by a sentence, and anything else is a no: an exception, an answer of another kind, too much
time. It is given a copy, so that it changes nothing; one that hangs keeps nobody else waiting, and no process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, cast

from npc.errors import Misconfigured
from npc.gates import Facts

#: How long a hook may take, in seconds, and how many may hang at once before none is begun any more.
HOOK_S = 2.0
MOST_HANGING = 8
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


@dataclass(slots=True)
class Hooks:
    """Plain functions by name. The file names one of these, or `package.module:function` of the operator's own code."""

    known: dict[str, Hook] = field(default_factory=dict)

    def register(self, name: str, hook: Hook) -> Hook:
        """Make a function known under a name."""
        self.known[name] = hook
        return hook

    def find(self, name: str) -> Hook:
        """The function of a name. Raises `Misconfigured`."""
        if found := self.known.get(name):
            return found
        module, _, function = name.partition(":")
        if not function:
            raise Misconfigured(f"there is no hook {name!r}: write package.module:function of your own code, or register it")
        try:
            found = getattr(importlib.import_module(module), function)
        except Exception as error:  # the operator's own code: whatever it raises, it is told and not lived with
            raise Misconfigured(f"the hook {name} cannot be loaded ({type(error).__name__}: {error}): mend it or its name") from error
        if not callable(found) or inspect.iscoroutinefunction(found):
            raise Misconfigured(f"the hook {name} is no plain function that takes an Act and gives a sentence or None")
        return cast("Hook", found)


#: Where code registers its hooks: `from npc.policy.hooks import HOOKS`.
HOOKS = Hooks()

# Threads are the process's own, so their number is bounded for all NPCs in it together.
_hanging = threading.Semaphore(MOST_HANGING)


async def objection(name: str, hook: Hook, act: Act, *, seconds: float = HOOK_S) -> str:
    """What a hook has against an act, "" for nothing. Never raises but for a cancellation."""
    if not _hanging.acquire(blocking=False):
        return f"it could not be checked: {MOST_HANGING} checks hang already"
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[object] = loop.create_future()
    copied = replace(act, arguments=copy.deepcopy(dict(act.arguments)), held=copy.deepcopy(dict(act.held)))

    def told(result: object) -> None:
        if not answer.done():
            answer.set_result(result)

    def run() -> None:
        try:
            result: object = hook(copied)
        except BaseException as error:  # noqa: BLE001 - the operator's own code on a thread of its own: whatever it raises means no
            result = error
        finally:
            _hanging.release()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(told, result)

    # A thread of its own, and no pool's: a function that never returns must neither fill a pool nor be waited for at the end.
    threading.Thread(target=run, name=f"hook {name}", daemon=True).start()
    try:
        result = await asyncio.wait_for(answer, seconds)
    except TimeoutError:
        return f"the check {name} took longer than {seconds:g} s"
    if result is None or result == "":
        return ""
    if isinstance(result, BaseException):
        return f"the check {name} failed ({type(result).__name__})"
    if not isinstance(result, str):
        return f"the check {name} gave no answer"
    return " ".join(result.split())[:WHY_CHARS] or f"the check {name} says no"
