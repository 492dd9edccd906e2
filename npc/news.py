"""What an NPC was told and has not taken in yet, between the journal and the mind.

Invariants: the cursor is the newest event that the session has; what was drained counts as taken in only once the session has moved on from
the operation that it was drained for, so that a crash in between tells it again and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from npc.hearing import Ears, Heard
from npc.senses import notice, shown, taken
from npc.told import from_journal, to_journal
from runtime.core.events import Observation
from runtime.core.messages import Count
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.inbox import Bounds, Inbox

#: Observations that are read at a time when a life begins.
PAGE = 2_000


@dataclass(slots=True, kw_only=True)
class Offer:
    """What was drained for the operation `op` and is the session's only once that has moved on; `newest` is its last event."""

    op: int
    newest: int
    news: list[Observation] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)


class News:
    """The news of one NPC. `me` gives its own id in the world."""

    def __init__(self, *, journal: Journal, ears: Ears, me: Callable[[], str], count: Count, window: int) -> None:
        self._journal, self._ears, self._me, self._count = journal, ears, me, count
        # Longer texts fit no window; the whole of them is in the journal.
        self._longest = max(40_000, window * 6)
        bounds = Bounds(chars=max(400_000, 3 * self._longest))
        self.inbox = Inbox(addressed=lambda o: ears.addressed(o, me()), bounds=bounds)
        self.cursor = 0  # newest event that the mind has taken in
        self._offer: Offer | None = None

    def put(self, news: Iterable[tuple[frames.Observation, int]]) -> None:
        """Observations with the events under which they are stored: from here on that number is what they are known by."""
        self.inbox.put([taken(o, event=event, limit=self._longest) for o, event in news])

    def notice(self, words: str, *, now: float) -> None:
        """News of the runtime itself, stored like the world's; it is for this NPC, so it never gives way to what is not."""
        told = frames.Observation(seq=0, t=now, kind="notice", text=words, to=self._me())
        event = self._journal.append("observation", to_journal(told))
        self.inbox.put([replace(told, seq=event)])

    async def take_up(self, cursor: int) -> int:
        """What was stored and acknowledged after `cursor` in an earlier life waits again; how many those are."""
        self.cursor = after = cursor
        again = 0
        while stored := await self._journal.events(after=after, kinds=("observation",), limit=PAGE):
            told = ((from_journal(event.data), event.id) for event in stored)
            before = len(self.inbox)
            self.put((o, number) for o, number in told if not o.own)
            after, again = stored[-1].id, again + max(len(self.inbox) - before, 0)
        return again

    def settle(self, op: int) -> None:
        """The session is at the operation `op`: it has what it was offered as soon as that is another one."""
        if self._offer and op != self._offer.op:
            self.cursor, self._offer = max(self.cursor, self._offer.newest), None

    def drain(self, op: int, *, turn: int) -> tuple[list[Observation], list[Heard]]:
        """The news for an operation; asked again for the same one, it gives what it gave before and what has come since."""
        self.settle(op)
        offer = self._offer = self._offer or Offer(op=op, newest=self.cursor)
        drained = self.inbox.drain()
        out: list[Observation] = []
        newest = offer.newest
        for observation in drained.observations:
            newest = max(newest, observation.seq)
            offer.heard += self._ears.heard(observation, self._me())
            out.append(shown(observation, event=observation.seq, ears=self._ears, me=self._me(), count=self._count))
        counts = {"delivered": len(drained.observations), "merged": drained.merged, "omitted": sum(drained.omitted.values())}
        if any(counts.values()):
            self._journal.append("drained", {**counts, "through": newest}, turn=turn)
        if drained.note:
            out.insert(0, notice(drained.note, count=self._count))
        offer.newest = newest
        offer.news += out
        return offer.news, offer.heard
