"""What code knows of the NPC's body, apart from what its mind believes: where it is, what was tried in vain.

Invariants: the position is the world's word alone; a "done" that it contradicts is given a moment, for the news of a move may come behind
the end of the move; an action counts as tried in vain once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from npc.arrival import KINDS, Position, contradiction, keys, told
from npc.goals import Goals, Standing
from world_adapter.frames import ActionSpec, Observation

#: How long the news of a move may come behind the end of the action that moved, in seconds.
GRACE_S = 1.0
#: Names of places that are remembered, the newest.
KNOWN = 2_000


class Body:
    """One body in one world. `clock` gives unix seconds, `grace_s` see `GRACE_S`."""

    def __init__(self, *, goals: Goals, clock: Callable[[], float], grace_s: float = GRACE_S) -> None:
        self._goals, self.clock, self._grace_s = goals, clock, grace_s
        self.position: Position | None = None
        self.words = 0  # lines that were meant for the NPC, so far
        self._known: OrderedDict[str, None] = OrderedDict()
        self._moved = asyncio.Event()

    def saw(self, observation: Observation) -> None:
        """The world tells something about the place (`arrival.KINDS`)."""
        if observation.kind in KINDS and (position := told(observation)):
            self.position = position
            for key in keys(position):
                self._known[key] = None
                self._known.move_to_end(key)
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
            self._moved.set()

    def contradicts(self, action: ActionSpec, arguments: Mapping[str, Any]) -> str:
        """What is wrong with a "done" of this action now, "" if nothing."""
        return contradiction(action, arguments, self.position, self._known)

    async def doubt(self, action: ActionSpec, arguments: Mapping[str, Any]) -> str:
        """The same, once the news of the move had its time to come."""
        try:
            async with asyncio.timeout(self._grace_s):
                while why := self.contradicts(action, arguments):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return self.contradicts(action, arguments)
        return why

    # ------------------------------------------------------------ goals
    @property
    def standing(self) -> Standing:
        """Where it is, and how many lines the NPC was told so far."""
        return Standing(position=self.position, words=self.words)

    def refusal(self, action: ActionSpec, arguments: Mapping[str, Any]) -> str:
        """Why the same thing is not tried once more, "" if it may be."""
        if not strives(action):
            return ""
        return self._goals.refusal(action.name, arguments, now=self.clock(), standing=self.standing)

    def tried(self, action: ActionSpec, arguments: Mapping[str, Any], *, reached: bool, why: str = "") -> None:
        """How an action has gone."""
        if not strives(action):
            return
        if reached:
            self._goals.reached(action.name, arguments)
        else:
            self._goals.failed(action.name, arguments, now=self.clock(), standing=self.standing, why=why)


def strives(action: ActionSpec) -> bool:
    """Whether an action has a goal that may be out of reach."""
    return action.moves_body or action.kind == "ongoing"
