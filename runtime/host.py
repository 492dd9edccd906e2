"""What the loop needs of the agent that lives on it: the one seam between `runtime` and whatever it runs (an NPC, a desk agent).

Invariant: a host's methods may fail by value or by exception; the loop survives both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.core.effects import Call, Effect, Prepare
from runtime.core.events import Memory, Observation
from runtime.core.layout import Fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Materials:
    """What the next request is made of, read afresh; see `runtime.core.events.Prepared` for the fields."""

    fixed: Fixed
    tail: str = ""
    tail_tokens: int = 0
    standing: tuple[tuple[str, str], ...] = ()
    observations: tuple[Observation, ...] = ()
    recalled: tuple[Memory, ...] = ()
    notebook: str = ""
    through: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a tool gave. `ongoing`: it was accepted and runs; the end comes later by `Agent.finished`.

    `denied`: it was not run at all, for reasons of our own. A turn in which nothing else comes back ends.
    """

    text: str = ""
    error: bool = False
    ongoing: bool = False
    gist: tuple[str, ...] = ()
    denied: bool = False


class Host(Protocol):
    """The agent on the loop. All methods are called from the event loop's thread."""

    async def prepare(self, asked: Prepare) -> Materials:
        """Gather the request's materials; drains the news only if `asked.drain`."""

    async def run_tool(self, call: Call, *, op: int, turn: int, step: int) -> Result:
        """Run one call of the operation `op`; a call id may come twice in a life, with its operation never. A failed tool: `error`."""

    async def reset(self, *, reason: str, tokens: int, snapshot: Mapping[str, Any]) -> str:
        """Persist the whole session and write the diary entry; says on what it was stored. Must end well whatever the disk says."""

    async def speak(self, text: str, *, turn: int) -> None:
        """Words that the model wrote without a tool."""

    def saved(self) -> Mapping[str, Any]:
        """What the host wants stored in the same checkpoint as the session (plain JSON)."""

    def page(self, text: str) -> None:
        """Tell the operator."""

    def watch(self, effect: Effect) -> None:
        """See every effect as it happens (live views, counters)."""
