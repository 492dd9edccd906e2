"""What of a world must survive its process, as values, and who keeps it.

Invariant: with a `WorldStore` nothing leaves for an agent, and no action begins, before what it rests on is kept. So a world that is killed
at any instant comes back under the same epoch, goes on with the numbers, sends again what was not acknowledged, and knows every action id
that it ever began. What the game itself changes meanwhile (who stands where, who owns what) is the game's to keep.

A game that cannot keep this needs no store: it begins with a new epoch at every start, agents learn that from its hello and begin its
numbers anew, and what was told and not acknowledged when it died is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from world_adapter.frames import Act, ActResult, Gate, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAct:
    """One action id. `act` is known as long as the action has not ended; `result` is the last that was said of it, None before any."""

    id: str
    act: Act | None = None
    result: ActResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLife:
    """One NPC in one world.

    Attributes:
        newest: the number given last, 0 before the first.
        acked: everything up to this number is on the agent's disk.
        first: the oldest number that is still kept, or would be; what is stored below it can go.
        told: observations in order. As a change: only those that were added.
        acts: oldest first. As a change: only those of which something changed.
        gates: by name. As a change: only those that were set.
        forgotten: as a change: action ids that can go.
        afresh: as a change: the numbers begin anew, so observations and gates stored before this are void.
    """

    npc: str
    newest: int
    acked: int
    first: int
    told: tuple[Observation, ...] = ()
    acts: tuple[KeptAct, ...] = ()
    gates: tuple[Gate, ...] = ()
    forgotten: tuple[str, ...] = ()
    afresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A world as it was stored, or what changed of it since."""

    world: str
    epoch: str
    lives: tuple[KeptLife, ...] = ()


class WorldStore(Protocol):
    """Where a world keeps its half of the protocol: `keeping_sqlite.SqliteStore`, or a game's own."""

    def load(self, world: str) -> Kept | None:
        """Everything that was kept of `world`, None for the first time. Called once, before anything is served; may block.

        Raises:
            WorldStoreError: it cannot be read, or belongs to another world.
        """

    async def keep(self, changes: Kept) -> None:
        """Stores the changes, all or none, and returns once they would survive the loss of power. Never called twice at once.

        The same changes may come again after a failure, and storing them twice is the same as once. Whatever it raises is logged, and the
        call is made again after a while; until it succeeds agents are told nothing new.
        """

    async def close(self) -> None:
        """Nothing more will come."""
