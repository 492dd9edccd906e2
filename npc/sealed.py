"""The doors of an NPC, sealed: what goes out to the world gets its secrets there, and what comes in loses them before anybody reads it.

Invariant: no secret that the `Redactor` knows passes a door inwards, from the world or from the model, and none goes to the model; the one
way out is an argument that the operator's rules fill in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npc.secrets import Redactor
from runtime.core.values import Outcome
from runtime.model.client import ModelClient
from world_adapter.frames import ActionSpec, ActResult, Limits, Observation, Resume
from world_adapter.runs import Run
from world_adapter.world import Sink, World

Injected = Callable[[str], Mapping[str, str]]


class SealedWorld:
    """A world behind a door. `injected` gives the arguments that are filled in for an action."""

    def __init__(self, world: World, redactor: Redactor, *, injected: Injected) -> None:
        self._world, self._redactor, self._injected = world, redactor, injected
        self.kinds_known: bool = getattr(world, "kinds_known", True)
        self.names: tuple[str, ...] = (world.url,)  # its address, and the name that it gave itself

    @property
    def url(self) -> str:
        """See `World.url`."""
        return self._world.url

    async def run(self, sink: Sink, resume: Resume | None) -> None:
        """See `World.run`."""
        await self._world.run(_SealedSink(sink, self._redactor, self._named), resume)

    def _named(self, name: str) -> None:
        self.names = (self._world.url, name)

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the seam's
        """See `World.act`."""
        secret = self._injected(name)
        answer = await self._world.act(id=id, name=name, args={**args, **secret} if secret else args, timeout_s=timeout_s)
        return self._redactor.fields(answer)

    async def query(self, id: str) -> None:  # noqa: A002 - the seam's
        """See `World.query`."""
        await self._world.query(id)

    async def cancel(self, id: str) -> None:  # noqa: A002 - the seam's
        """See `World.cancel`."""
        await self._world.cancel(id)

    async def close(self) -> None:
        """See `World.close`."""
        await self._world.close()


class _SealedSink:
    def __init__(self, sink: Sink, redactor: Redactor, named: Callable[[str], None]) -> None:
        self._sink, self._redactor, self._named = sink, redactor, named

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        # A run stays one as long as it may: its many observations are then never looked at one by one.
        if not isinstance(batch, Run) or any(self._redactor.holds(part) for _, part in batch.parts()):
            batch = [self._redactor.fields(observation) for observation in batch]
        await self._sink.observed(batch, world=self._redactor.text(world), epoch=self._redactor.text(epoch))

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self._sink.actions_changed([self._redactor.fields(action) for action in actions])

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None:
        text = self._redactor.text
        self._named(text(world))
        self._sink.attached(
            npc=text(npc), world=text(world), epoch=text(epoch), session=text(session), resumed=resumed, lost=lost, limits=limits
        )

    def detached(self, *, why: str) -> None:
        self._sink.detached(why=self._redactor.text(why))

    def finished(self, result: ActResult) -> None:
        self._sink.finished(self._redactor.fields(result))


class SealedModel(ModelClient):
    """A model behind a door: requests and answers without secrets."""

    def __init__(self, model: ModelClient, redactor: Redactor) -> None:  # (another client's connections are used, so none are made here)
        self._model, self._redactor = model, redactor

    @property
    def base_url(self) -> str:
        """See `ModelClient.base_url`."""
        return self._model.base_url

    async def call(self, body: Mapping[str, Any], *, deadline_s: float | None = None) -> Outcome:
        """See `ModelClient.call`."""
        return self._redactor.fields(await self._model.call(self._redactor.value(body), deadline_s=deadline_s))

    async def close(self) -> None:
        """See `ModelClient.close`."""
        await self._model.close()
