"""The same goal is not tried for ever: what failed how often, from where.

Invariants: pure; a goal is an action's name with its arguments. It is refused once it has failed `tries` times within the window, from the
same place and with nothing said to the NPC since; any of these that changes opens it again. Bounded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from npc.arrival import Position

KEPT = 64  # goals, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the body is, and how many lines the NPC was told so far."""

    position: Position | None = None
    words: int = 0

    def same(self, other: Standing) -> bool:
        """Whether nothing has changed between the two."""
        if self.words != other.words:
            return False
        if self.position is None or other.position is None:
            return self.position is other.position
        return self.position.same(other.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    at: float
    standing: Standing


@dataclass(slots=True, kw_only=True)
class _Goal:
    failures: list[_Failure] = field(default_factory=list)
    why: str = ""


class Goals:
    """What was tried in vain. `tries` and `window_s` (seconds) are the persona's."""

    def __init__(self, *, tries: int = 3, window_s: float = 600.0) -> None:
        self._tries, self._window_s = tries, window_s
        self._goals: dict[str, _Goal] = {}

    def failed(self, name: str, arguments: Mapping[str, Any], *, now: float, standing: Standing, why: str) -> None:
        """A try was in vain."""
        key = _key(name, arguments)
        goal = self._goals.pop(key, None) or _Goal()
        goal.failures = [*goal.failures, _Failure(at=now, standing=standing)][-self._tries :]
        goal.why = " ".join(why.split())[:200]
        goal.why += "" if goal.why.endswith((".", "!", "?")) or not goal.why else "."
        self._goals[key] = goal
        while len(self._goals) > KEPT:
            del self._goals[next(iter(self._goals))]

    def reached(self, name: str, arguments: Mapping[str, Any]) -> None:
        """It went well: what failed before counts no more."""
        self._goals.pop(_key(name, arguments), None)

    def refusal(self, name: str, arguments: Mapping[str, Any], *, now: float, standing: Standing) -> str:
        """Why it is not to be tried once more, as a sentence with the way out; "" if it may be."""
        goal = self._goals.get(_key(name, arguments))
        if goal is None:
            return ""
        # A clock that was set back makes no failure young again.
        counted = [f for f in goal.failures if 0 <= now - f.at < self._window_s and f.standing.same(standing)]
        if len(counted) < self._tries:
            return ""
        left = max(1.0, counted[0].at + self._window_s - now)
        return (
            f"{name} with these very arguments has failed {len(counted)} times from here, the last time: "
            f"{goal.why or 'no reason was given.'} Try another way, ask somebody, or do something else; it is open again in {left:.0f} s, "
            "or when you are elsewhere or are told something new"
        )


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    text = json.dumps(arguments, sort_keys=True, default=str)
    return f"{name} {hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
