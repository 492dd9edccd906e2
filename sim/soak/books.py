"""The NPC's own books held against what the world told: every observation is accounted for, every reset has its diary entry.

Invariant: asked only while nobody lives in the house. A database that was damaged and begun afresh begins its books afresh; what died with
a world need not have arrived, and for a reset that a kill or a full disk came across no entry is owed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diaries import Book, DiaryError
from sim.oracle import Oracle
from sim.product import ledger_of, notebook
from sim.report.recorder import KINDS, Recorder
from sim.soak.house import House
from sim.soak.stage import Stage


@dataclass(slots=True, kw_only=True)
class Ledgers:
    """`excused`: how many resets may be without their diary entry."""

    house: House
    stage: Stage
    oracle: Oracle
    recorder: Recorder | None
    excused: int = 0
    _told: int = 0  # when the database was begun: observations told, and of these forgiven
    _forgiven: int = 0
    _then: tuple[int, int] = (0, 0)  # the same at the newest damage, if it is noticed
    _set_aside: int = 0
    _doubtful: bool = False  # pages are garbage and nobody has noticed: rows may be gone, and who counts them cannot know
    _fresh: bool = False  # the damage is of this turn
    _logged: int = 0

    def damaged(self) -> None:
        """Pages of the database are garbage now."""
        self._then = (self.stage.told - self.stage.outstanding, self.stage.forgiven)
        self._fresh = True

    def noticed(self) -> None:
        """Some time later: if the damage was found, the books are new since then."""
        found, self._fresh, fresh = self.house.set_aside, False, self._fresh
        if found > self._set_aside:
            self._told, self._forgiven = self._then
            self.excused = 0
        if found > self._set_aside or fresh:
            self._doubtful = not (fresh and found > self._set_aside)
        self._set_aside = found

    async def check(self) -> None:
        """Whatever does not add up is a finding."""
        status = await self.house.status()
        if status is None:
            self.oracle.find("P15", "the product's own books could not be read")
            return
        if self.recorder is not None:
            await self._log(self.recorder)
        books, find = ledger_of(status).books, self.oracle.find
        told, forgiven = self.stage.told - self._told, self.stage.forgiven - self._forgiven
        if books.give_ups:
            find("P8", f"the session was given up {books.give_ups} times though the smallest observation fits")
        if self._doubtful or self.house.set_aside != self._set_aside:
            return
        missing = told - books.received - self.stage.outstanding
        if not 0 <= missing <= forgiven:
            find("W3", f"{told} observations were told, {books.received} received; {forgiven} may have died with a world")
        accounted = books.delivered + books.merged + books.omitted + books.own + books.waiting
        if accounted != books.received:
            find("W2", f"of {books.received} observations {accounted} are accounted for: delivered, merged, omitted, own or waiting")
        if books.reset_entries + self.excused < books.hard_resets:
            find("D1", f"{books.hard_resets} hard resets, but only {books.reset_entries} diary entries tagged context-reset")

    def close(self) -> None:
        """The life is over: its notebook holds what it wrote down."""
        self.oracle.keepsakes(notebook(self.house.path))
        if self.recorder is not None:
            self.recorder.entries(self._diary())

    async def _log(self, recorder: Recorder) -> None:
        async for event in self.house.events(KINDS, after=self._logged):
            recorder.log([{"at": event.at, "kind": event.kind, "data": event.data}])
            self._logged = event.id

    def _diary(self) -> list[Mapping[str, Any]]:
        try:
            return [{"id": entry.id, "text": entry.text} for entry in Book(self.house.path / "diary").entries().entries]
        except DiaryError:
            return []
