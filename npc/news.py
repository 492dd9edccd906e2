"""What an NPC was told and has not taken in yet, between the journal and the mind.

Invariants: the cursor is the newest event that the session has; what was drained counts as taken in only once the session has moved on from
the operation that it was drained for, so that a crash in between tells it again and nothing twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from npc.digest import Digest, digest
from npc.hearing import Ears, Heard
from npc.senses import notice, shown, summed_up, taken
from npc.told import from_journal, to_journal
from runtime.core.events import Observation
from runtime.core.messages import Count
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.inbox import Bounds, Inbox
from world_adapter.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """The mind was away while the body acted: what that did (completes "while you ..."), for how long in seconds.

    More than `above` observations that are not to stay `whole` are summed up.
    """

    doing: str
    seconds: float
    above: int
    whole: Callable[[frames.Observation], bool]


#: Observations that are read at a time when a life begins.
PAGE = 2_000
#: Tokens of the window for each observation that may wait: more of them than this would only be read to be cut away.
TOKENS_EACH = 250
MOST, LEAST = 500, 40
#: After so many seconds of reading the others on the loop have their turn: long enough for what a turn reads when much happens.
REST_AFTER_S = 0.02


def longest(window: int) -> int:
    """Characters of the longest observation for a window of so many tokens. Longer texts fit none; the whole of them is in the journal."""
    return max(40_000, window * 6)


@dataclass(slots=True, kw_only=True)
class Offer:
    """What was drained for the operation `op` and is the session's only once that has moved on; `newest` is its last event."""

    op: int
    newest: int
    news: list[Observation] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    causes: set[str] = field(default_factory=set)
    unread: deque[tuple[frames.Observation, bool]] = field(default_factory=deque)  # still to be made readable; False: only its lines


class News:
    """The news of one NPC. `me` gives its own id in the world."""

    def __init__(self, *, journal: Journal, ears: Ears, me: Callable[[], str], count: Count, window: int) -> None:
        self._journal, self._ears, self._me, self._count = journal, ears, me, count
        self._longest = longest(window)
        bounds = Bounds(items=min(MOST, max(LEAST, window // TOKENS_EACH)), chars=max(400_000, 3 * self._longest))
        self.inbox = Inbox(addressed=lambda o: ears.addressed(o, me()), bounds=bounds)
        self.cursor = 0  # newest event that the mind has taken in
        self._offer: Offer | None = None

    def put(self, news: Iterable[tuple[frames.Observation, int]]) -> None:
        """Observations with the events under which they are stored: from here on that number is what they are known by."""
        self.inbox.put([taken(o, event=event, limit=self._longest) for o, event in news])

    def put_run(self, run: Run, *, first: int, addressed: Collection[int], besides: Collection[int]) -> None:
        """A run, stored under the events from `first` on: the positions that are `addressed`, and those that are no news."""
        if run.words.longest > self._longest:
            self.put((run.at(n), first + n) for n in range(len(run)) if n not in besides)
        else:
            self.inbox.put_run(run, first=first, addressed=addressed, besides=besides)

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

    @property
    def causes(self) -> frozenset[str]:
        """Who or what is behind the news that were last drained: operator, player, npc, world."""
        return frozenset(self._offer.causes) if self._offer else frozenset()

    def settle(self, op: int) -> None:
        """The session is at the operation `op`: it has what it was offered as soon as that is another one."""
        if self._offer and op != self._offer.op:
            self.cursor, self._offer = max(self.cursor, self._offer.newest), None

    async def drain(self, op: int, *, turn: int, away: Away | None = None) -> tuple[list[Observation], list[Heard]]:
        """The news for an operation; asked again for the same one, it gives what it gave before and what has come since.

        For a mind that was `away` much is summed up; all of it is taken in. What waits is taken at once, before anything else can happen;
        to make it readable takes longer, with pauses.
        """
        self.settle(op)
        offer = self._offer = self._offer or Offer(op=op, newest=self.cursor)
        drained = self.inbox.drain()
        summary = Digest(kept=drained.observations)
        if away:
            summary = digest(drained.observations, whole=away.whole, doing=away.doing, seconds=away.seconds, above=away.above)
        offer.newest = max([offer.newest, *(o.seq for o in drained.observations)])
        counts = {"delivered": len(drained.observations), "merged": drained.merged, "omitted": sum(drained.omitted.values())}
        if any(counts.values()):
            told = {"digested": summary.count} if summary.count else {}
            self._journal.append("drained", {**counts, **told, "through": offer.newest}, turn=turn)
        if drained.note:
            offer.news.append(notice(drained.note, count=self._count))
        if summary.text:
            offer.news.append(summed_up(summary.text, count=self._count))
        offer.causes |= {o.speaker.kind if o.speaker else "world" for o in drained.observations}
        kept = {id(o) for o in summary.kept}
        offer.unread += [(o, id(o) in kept) for o in drained.observations]
        await self._read(offer)
        return offer.news, offer.heard

    async def _read(self, offer: Offer) -> None:
        """Whoever is stopped here leaves the rest to the next try."""
        rested = time.perf_counter()
        while offer.unread:
            observation, whole = offer.unread.popleft()
            offer.heard += self._ears.heard(observation, self._me())
            if whole:
                offer.news.append(shown(observation, event=observation.seq, ears=self._ears, me=self._me(), count=self._count))
            if time.perf_counter() - rested > REST_AFTER_S:
                await asyncio.sleep(0)
                rested = time.perf_counter()
