"""What a link wants done, as values: the shells carry it out in order and add nothing of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from world_adapter.frames import ActionSpec, ActProgress, ActResult, Gate, Limits, Observation, Rollback


@dataclass(frozen=True, slots=True)
class Send:
    """One websocket message, text or binary as the codec says."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close the connection with this code; `dead` means that the peer cannot be asked any more, so tear it down."""

    code: int
    reason: str
    dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """The world welcomed us. `lost` counts what it could not keep for us and what was given up after replays that did not bring it."""

    npc: str
    world: str
    epoch: str
    session: str
    resumed: bool
    lost: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class Detached:
    """An attachment ended; `why` is one sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """Observations to make durable; then say `stored`."""

    items: Sequence[Observation]
    world: str
    epoch: str


@dataclass(frozen=True, slots=True)
class ActionsChanged:
    """The world's whole list of actions."""

    actions: tuple[ActionSpec, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of an action, first or later."""

    result: ActResult


@dataclass(frozen=True, slots=True)
class Aside:
    """What the world says besides observations and results."""

    frame: Gate | Rollback | ActProgress


Effect: TypeAlias = Send | Hangup | Attached | Detached | Deliver | ActionsChanged | Result | Aside
