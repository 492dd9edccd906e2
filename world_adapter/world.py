"""What an NPC needs of a world, and what a world needs of an NPC: the one seam between minds and servers.

Invariant: `World` implementations own the link (attach, order, reconnect, acknowledgement) and never drop or double an observation on
their own; a `Sink` owns durability, so nothing is acknowledged to the server before `Sink.observed` has returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation, Resume, Speaker

__all__ = ["ActResult", "ActState", "ActionSpec", "Limits", "Observation", "Resume", "Sink", "Speaker", "World"]


class Sink(Protocol):
    """The NPC's side of the seam. Every method is called from the event loop's thread.

    Order: `attached` comes before the first `observed` of an attachment; `actions_changed` after it, at any time and again whenever the
    list is replaced; after `detached` nothing comes until the next `attached`.
    """

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        """Takes the next observations in order, each exactly once. Returns once they are durable: only then are they acknowledged.

        It may be called again, for what follows, while it waits for the disk; so it takes what it is given before it first awaits. When
        several calls wait, later observations gather behind them; an exception ends `World.run` with that exception.
        """

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        """The world's whole list of actions, in the world's order; may be empty."""

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None:
        """The link is up.

        `npc` is this NPC's own id in the world, `session` the world's name for this attachment ("" where it has none), which a later life
        gives back in its `Resume`, `lost` how many observations the world could not keep for us.
        """

    def detached(self, *, why: str) -> None:
        """The link is down; `why` is one plain sentence. The world keeps trying unless `run` ends."""

    def finished(self, result: ActResult) -> None:
        """The final result of an action whose `act` had already returned (it was accepted, or was given up as unknown)."""


class World(Protocol):
    """One server, as one NPC uses it. Implementations: `client.WebsocketWorld` (npc-world v1), `evennia`."""

    @property
    def url(self) -> str:
        """Where the world is, without secrets."""

    async def run(self, sink: Sink, resume: Resume | None) -> None:
        """Attaches and stays attached, reconnecting for ever with jittered back-off. Returns after `close()`.

        Raises:
            WorldRefused: the world will not have us and trying again unchanged cannot help.
        """

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the protocol's own word
        """Asks for an action and waits up to `timeout_s` seconds for its first result. The caller has stored the intent before.

        Never raises for faults of the world or the link: not sent at all is `failed` (codes `not_attached`, `too_large`), sent without an
        answer in time is `unknown` (code `timeout`), whose true end comes by `Sink.finished` if the world ever tells.
        """

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """Asks what became of an action of an earlier life, now or at the next attach; the answer comes by `Sink.finished`."""

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """Asks to stop an ongoing action; what came of it arrives by `Sink.finished`. Silently nothing while the link is down."""

    async def close(self) -> None:
        """Ends `run`. Idempotent."""
