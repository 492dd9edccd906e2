"""Who writes an NPC's diary: the NPC in a small call of its own, the runtime where it cannot; and what is kept of a session before a reset.

Invariants: entries cover the event log without a gap, and no event twice, over restarts and whatever kills the process (an entry that was
written counts, with or without our mark about it); nothing here keeps the mind waiting but a reset, which asks no model; all of it ends
well whatever the disk says, and what could not be stored as it should be is told to the operator.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from diaries import DiaryError, Entry
from diaries.calendar import later
from diaries.chronicle import Reset, day_entry, reset_entry
from diaries.occasions import Occasion, Occasions
from npc.diarist import PATIENCE_S, Diarist, Penned
from npc.happenings import Span, place_in, span
from npc.hearing import Ears
from npc.home import Dump, Home, Kept
from npc.notebook import shown
from npc.state import State
from runtime.store.errors import StoreError
from runtime.store.journal import Journal

#: The name of the mark in the journal.
MARK = "diary"
#: Observations that are looked at when a life begins, to know where and when it is; and as many when the world was set back.
READ = 2_000
#: How long the diary may take at the end of a life, in seconds: the model, and all of it.
FAREWELL_S = 3.0
LAST_S = 6.0
#: Characters of the notebook that an entry is written with.
NOTEBOOK_CHARS = 1_200
#: How many times the world was set back are known of.
ROLLBACKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How this NPC is heard: its own id in the world, the action that speaks, whether plain words are spoken too."""

    me: Callable[[], str]
    say: str
    aloud: bool


class Chronicler:
    """Writes for one NPC. `page` tells the operator, `epoch` is the world's save now, `turn` the mind's, `clock` unix seconds.

    Without `own_words` the NPC is never asked for any.
    """

    def __init__(
        self, *, home: Home, journal: Journal, ears: Ears, page: Callable[[str], None], ways: Ways, diarist: Diarist,
        clock: Callable[[], float], turn: Callable[[], int], occasions: Occasions, own_words: bool = True,
    ) -> None:  # fmt: skip
        self._home, self._journal, self._ears, self._page, self._ways = home, journal, ears, page, ways
        self._diarist, self._clock, self._turn = diarist, clock, turn
        self.occasions, self._own_words = occasions, own_words
        self.epoch = ""
        self._rolled = 0  # the newest event of a rollback that the diary knows of
        self._asked_at = 0.0  # when the NPC was last asked for its own words
        self._undoing = asyncio.Lock()
        self._writing = asyncio.Lock()  # held while an entry is put into the book, never while a model is asked

    # ------------------------------------------------------------ what it is told
    def noticed(self, event: int, *, world_time: str = "", place: str = "") -> None:
        """The NPC noticed something, stored under this event."""
        self.occasions.noticed(at=self._clock(), event=event, world_time=world_time, place=place)

    def milestone(self, what: str) -> None:
        """Something is worth an entry of its own: a gate was set, a phase begun, a promise kept."""
        self.occasions.milestone(what, at=self._clock(), event=self._journal.last_id)

    def set_back(self, *, epoch: str, since: str) -> None:
        """The world says that it is at an earlier time again. What that undoes in the diary is for `undo`."""
        self.epoch = epoch or self.epoch
        self.occasions.set_back(since)

    # ------------------------------------------------------------ a life begins
    async def take_up(self, *, born: float) -> None:
        """Go on where the last life stopped. `born` is when this journal was begun (unix seconds): older entries are about another one."""
        try:
            stored: Any = json.loads(await self._journal.load_checkpoint(MARK) or "{}")
        except (StoreError, ValueError):
            stored = {}
        if isinstance(stored, dict):
            self.occasions.restore(stored)
            self.epoch = str(stored.get("epoch") or "")
            self._rolled = stored["rolled"] if type(stored.get("rolled")) is int else 0
            self._asked_at = stored["asked_at"] if isinstance(stored.get("asked_at"), float) else 0.0
        try:
            listing = await asyncio.to_thread(self._home.diary.entries, last=1)
            for entry in listing.entries:
                if entry.events and entry.at >= born and self.occasions.through < entry.events[1] <= self._journal.last_id:
                    self.occasions.written(entry.events[1], now=entry.at)
            kinds = ("observation", "rollback")
            events = await self._journal.events(after=self.occasions.through, kinds=kinds, limit=READ, newest=True)
        except (DiaryError, StoreError) as error:
            self._page(str(error))
            return
        for event in events:
            if event.kind == "rollback":
                self.set_back(epoch=str(event.data.get("epoch") or ""), since=str(event.data.get("since") or ""))
                continue
            time = event.data.get("wt")
            world_time = time if isinstance(time, str) else ""
            self.occasions.noticed(at=event.at, event=event.id, world_time=world_time, place=place_in(event.data))
        await self.undo()

    # ------------------------------------------------------------ in its own time
    async def look(self) -> None:
        """Write what is due, if anything."""
        if occasion := self.occasions.due(self._clock()):
            await self.write(occasion)

    async def write(
        self, occasion: Occasion, *, asked: bool = True, patience_s: float = PATIENCE_S, epoch: str = ""
    ) -> Entry | None:  # fmt: skip
        """Write about an occasion; None where there is nothing to tell, or a reset wrote about it first.

        `asked`: the NPC is asked for its own words, and given so many seconds. `epoch` is the world's save, the present one if left out.
        """
        after = self.occasions.through
        through = min(max(occasion.through, after), self._journal.last_id)
        told = await self._span(after, through)
        if not told.happenings:
            self.occasions.passed(occasion)
            return None
        state = await asyncio.to_thread(self._home.state)
        penned = Penned(why="the runtime writes this one")
        if asked and self._own_words:
            self._asked_at = self._clock()
            penned = await self._diarist.write(occasion, told, notebook=shown(state)[:NOTEBOOK_CHARS], patience_s=patience_s)
        # From here on nobody who ends us leaves it half done.
        return await asyncio.shield(self._settle(occasion, told, penned, state, covers=(after, through), epoch=epoch))

    async def _settle(
        self, occasion: Occasion, told: Span, penned: Penned, state: State, *, covers: tuple[int, int], epoch: str
    ) -> Entry | None:  # fmt: skip
        (after, through), epoch = covers, epoch or self.epoch
        async with self._writing:
            if self.occasions.through != after:
                self._journal.append("diary superseded", {"occasion": occasion.kind, "after": after, "through": through})
                return None
            events = (after + 1, through)
            if penned.text:
                entry = Entry(
                    at=occasion.at, text=penned.text, world_time=occasion.world_time, place=occasion.place, tags=(occasion.kind,),
                    events=events, epoch=epoch,
                )  # fmt: skip
            else:
                promises = [note for note in state.notes_for_future_self if "promise" in note.casefold()]
                entry = day_entry(
                    occasion, told.happenings, events=events, epoch=epoch, promises=promises, places=told.places
                )  # fmt: skip
            kept = await self._keep(entry, kind=occasion.kind, why=penned.why)
            if kept.alarm:
                self._page(kept.alarm)
            return kept.entry

    async def _keep(self, entry: Entry, *, kind: str, why: str = "") -> Kept:
        """Into the book, then the mark, then the log. Only with `_writing` held."""
        kept = await asyncio.to_thread(self._home.keep_entry, entry)
        now, entry = self._clock(), kept.entry
        through = entry.events[1] if entry.events else self.occasions.through
        self.occasions.written(through, now=now, kind=kind)
        data = {
            "entry": entry.id, "tags": list(entry.tags), "how": kept.how, "author": entry.author,
            "events": list(entry.events) if entry.events else None, **({"why": why} if why else {}),
        }  # fmt: skip
        self._journal.append("diary", data, turn=self._turn())
        self._mark()
        return kept

    def _mark(self) -> None:
        own = {"epoch": self.epoch, "rolled": self._rolled, "asked_at": self._asked_at}
        self._journal.checkpoint(MARK, json.dumps({**self.occasions.snapshot(), **own}))

    # ------------------------------------------------------------ a reset
    async def reset(self, facts: Reset, snapshot: Mapping[str, Any], *, turn: int) -> tuple[str, str]:
        """Store session and entry; returns on what the session lies, and the entry's text."""
        name = f"reset-{int(facts.at)}-turn-{turn}.json"
        dump = await asyncio.to_thread(self._dump, name, snapshot)
        kept = await asyncio.shield(self._reset_entry(facts, dump))
        for alarm in (dump.alarm, kept.alarm):
            if alarm:
                self._page(alarm)
        words = f"Context reset: {facts.why}. The session is kept ({dump.how}), the diary has an entry ({kept.how})."
        if alarm := await asyncio.to_thread(self._home.append_log, words):
            self._page(alarm)
        return dump.how, kept.entry.text

    async def _reset_entry(self, facts: Reset, dump: Dump) -> Kept:
        async with self._writing:
            after, through = self.occasions.through, self._journal.last_id
            told = await self._span(after, through)
            facts = replace(facts, kept=dump.path.name if dump.path else "", events=(after + 1, through) if through > after else None)
            return await self._keep(reset_entry(facts, told.happenings), kind="reset")

    def _dump(self, name: str, snapshot: Mapping[str, Any]) -> Dump:
        return self._home.dump_session(name, json.dumps(snapshot, ensure_ascii=False))

    # ------------------------------------------------------------ a life ends
    async def farewell(self, *, asked: bool) -> None:
        """The last entry of a life, if anything happened since the one before; the NPC's own only if it is quick. Never raises."""
        now = self._clock()
        # A process that is started again and again must not pay for an entry each time.
        asked = asked and not 0 <= now - self._asked_at < self.occasions.least_s
        try:
            async with asyncio.timeout(LAST_S):
                async with self._writing:
                    pass  # an entry that was under way is in the book now
                occasion = replace(self.occasions.now("shutdown", now), through=self._journal.last_id)
                await self.write(occasion, asked=asked, patience_s=FAREWELL_S)
                async with self._writing:
                    self._mark()
        except TimeoutError:
            self._page("the disk did not take the last diary entry in time")
        except StoreError as error:
            self._page(str(error))

    # ------------------------------------------------------------ the world is set back
    async def undo(self) -> tuple[str, ...]:
        """Mark what the diary tells of a future that was undone, for every rollback in the log that it does not know of yet; their ids.

        What was not written about yet is: so that later entries begin with what happened after.
        """
        async with self._undoing:
            return await self._undo()

    async def _undo(self) -> tuple[str, ...]:
        marked: list[str] = []
        try:
            rollbacks = await self._journal.events(kinds=("rollback",), limit=ROLLBACKS, newest=True)
            for event in rollbacks:
                if event.id <= self._rolled:
                    continue
                data = event.data
                since, before = str(data.get("since") or ""), str(data.get("before") or "")
                here = Occasion(
                    kind="rollback", through=event.id, at=self._clock(), world_time=str(data.get("world_time") or ""),
                    place=str(data.get("place") or ""),
                )  # fmt: skip
                await self.write(here, asked=False, epoch=before)
                marked += await self._mark_undone(since, _lineage(before, [e.data for e in rollbacks if e.id < event.id]))
                self._rolled = event.id
                self._mark()
        except (StoreError, DiaryError) as error:
            self._page(str(error))
        return tuple(marked)

    async def _mark_undone(self, since: str, epochs: frozenset[str]) -> tuple[str, ...]:
        if not since:
            self._tell_undone("The world was set back and did not say to when: no diary entry is marked undone.")
            return ()
        entries = [e for e in (await asyncio.to_thread(self._home.diary.entries)).entries if not e.undone and e.epoch in epochs]
        # A world whose words for its time cannot be compared is taken at its log: what came after it last said so.
        said = [e.id for e in await self._journal.events(kinds=("observation",), limit=READ, newest=True) if e.data.get("wt") == since]
        undone = []
        for entry in entries:
            after = later(entry.world_time, since)
            if after is None and said and entry.events:
                after = entry.events[1] > said[-1]
            if after:
                undone.append(entry.id)
        why = f"the world was set back to {since}"
        marked = await asyncio.to_thread(self._home.diary.mark_undone, undone, why=why, at=self._clock())
        self._journal.append("diary undone", {"entries": list(marked), "since": since}, turn=self._turn())
        self._tell_undone(f"The world was set back to {since}: {len(marked)} diary entries are marked undone.")
        return marked

    def _tell_undone(self, words: str) -> None:
        if alarm := self._home.append_log(words):
            self._page(alarm)

    # ------------------------------------------------------------ what there is to tell
    async def _span(self, after: int, through: int) -> Span:
        try:
            return await span(
                self._journal, self._ears, me=self._ways.me(), say=self._ways.say, aloud=self._ways.aloud, after=after, through=through
            )
        except StoreError:
            return Span()


def _lineage(epoch: str, rollbacks: list[Mapping[str, Any]]) -> frozenset[str]:
    """The epochs that the world has come through to this one: their entries are about the same past."""
    epochs = {epoch}
    for data in reversed(rollbacks):
        if data.get("epoch") == epoch and data.get("before"):
            epoch = str(data["before"])
            epochs.add(epoch)
    return frozenset(epochs)
