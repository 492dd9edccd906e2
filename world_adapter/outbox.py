"""What a sink has yet to be told, in order, for worlds that number nothing themselves.

Invariant: one call of the sink at a time; numbers of one epoch rise by one without a gap, over all its attachments. Behind a sink that
hangs observations are bounded, and what had to go is told by number and kind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from world_adapter.effects import ActionsChanged, Attached, Detached
from world_adapter.frames import ActResult, Observation, Speaker
from world_adapter.inbox import Bounds, Drained, Inbox, addressed_to
from world_adapter.world import Sink

MANY = 64  # things that wait; more of them than this, and the sink hangs
MAX_WAITING, MAX_WAITING_CHARS = 5_000, 8_388_608  # observations behind a sink that does not come back


class Outbox:
    """The way from a link to its sink. `clock` gives the unix seconds at which an observation came."""

    def __init__(self, npc: str, clock: Callable[[], float]) -> None:
        self._npc, self._clock = npc, clock
        self._items: deque[Inbox | ActResult | Attached | ActionsChanged | Detached] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self._seq = 0
        self._at: Attached | None = None

    def __len__(self) -> int:
        """How many things wait; a run of observations counts as one."""
        return len(self._items)

    def put(self, item: ActResult | Attached | ActionsChanged | Detached) -> None:
        """An event of the link. An attachment says which id the NPC is addressed by from here on."""
        if isinstance(item, Attached):
            self._npc = item.npc
        if isinstance(item, ActionsChanged):
            if self._items and isinstance(self._items[-1], ActionsChanged):
                self._items.pop()  # the whole list is told each time, and nothing came between
            elif len(self._items) > MANY:
                self._forget_actions()
        self._items.append(item)
        self._news.set()

    def observe(self, observation: Observation) -> None:
        """One observation; it gets its number when it is told, so that what is omitted leaves no gap."""
        last = self._items[-1] if self._items else None
        if isinstance(last, ActionsChanged) and len(self._items) > MANY and isinstance(self._items[-2], Inbox):
            last = self._items[-2]  # a sink that hangs is told of the list behind what was observed after it
        if not isinstance(last, Inbox):
            last = Inbox(addressed=addressed_to(self._npc), bounds=Bounds(items=MAX_WAITING, chars=MAX_WAITING_CHARS))
            self._items.append(last)
        last.put((replace(observation, t=self._clock()),))
        self._news.set()

    def _forget_actions(self) -> None:
        """Behind a sink that hangs only the newest list since the last attachment counts."""
        for at in range(len(self._items) - 1, -1, -1):
            item = self._items[at]
            if isinstance(item, Attached | Detached):
                return
            if isinstance(item, ActionsChanged):
                del self._items[at]
                return

    def end(self) -> None:
        """Nothing more will come: `deliver` returns when all is told."""
        self._ended = True
        self._news.set()

    async def deliver(self, sink: Sink) -> None:
        """Tells the sink everything until `end`; an exception of the sink's passes through."""
        while self._items or not self._ended:
            if not self._items:
                self._news.clear()
                await self._news.wait()
                continue
            item = self._items.popleft()
            match item:
                case Inbox():
                    if self._at is not None:  # an observation outside an attachment has no world to be of
                        await sink.observed(self._numbered(item.drain()), world=self._at.world, epoch=self._at.epoch)
                case Attached():
                    if self._at is None or self._at.epoch != item.epoch:
                        self._seq = 0
                    self._at = item
                    sink.attached(
                        npc=item.npc, world=item.world, epoch=item.epoch, session=item.session, resumed=item.resumed, lost=item.lost,
                        limits=item.limits,
                    )  # fmt: skip
                case ActionsChanged():
                    sink.actions_changed(item.actions)
                case ActResult():
                    sink.finished(item)
                case Detached():
                    sink.detached(why=item.why)

    def _numbered(self, drained: Drained) -> list[Observation]:
        batch = list(drained.observations)
        if drained.note is not None:
            data = {"omitted": sum(drained.omitted.values())}
            batch.insert(0, Observation(seq=0, t=batch[0].t, kind="notice", text=drained.note, data=data, speaker=Speaker()))
        first = self._seq + 1
        self._seq += len(batch)
        return [replace(observation, seq=seq) for seq, observation in enumerate(batch, first)]
