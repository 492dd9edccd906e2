"""When an entry is due: at the end of a day of the world's (of a real one, where the world has none) and at milestones.

Invariants: pure: what it knows it is told, with the times; entries cover events without a gap and none twice; whatever the world's clock
does, entries of one's own accord are never closer together than `least_s`, and milestones make no more of them a day than `milestones`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from diaries.calendar import world_day
from diaries.text import clean_line

DAY_S = 86_400
#: How long after a milestone its entry is written, in seconds: what follows from it belongs to it.
SETTLE_S = 20.0
#: How many milestones an entry names, and the longest name in characters.
NAMED = 5
MAX_WHAT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """A reason to write. The entry covers all events up to `through`; `at` (unix seconds), `world_time` and `place` are what it bears.

    `what` are the milestones.
    """

    kind: Literal["day-end", "milestone", "shutdown", "rollback"]
    through: int
    at: float
    world_time: str = ""
    place: str = ""
    what: tuple[str, ...] = ()


class Occasions:
    """What one NPC could write about. Event numbers rise; `at` and `now` are unix seconds."""

    def __init__(self, *, milestones: int = 4, least_s: float = 300.0) -> None:
        self._most, self.least_s = milestones, least_s
        self.through = 0  # the newest event that an entry covers
        self.newest = 0  # the newest event that was noticed
        self.world_time = self.place = ""
        self.last_at = 0.0  # of the newest entry of its own accord
        self._ended: Occasion | None = None
        self._real_day = -1  # days since 1970
        self._pending: list[tuple[float, int, str]] = []
        self._counted = (-1, 0)  # real day, and milestone entries on it

    def noticed(self, *, at: float, event: int, world_time: str = "", place: str = "") -> None:
        """Something happened; `world_time` is "" where it says nothing about that."""
        if world_time and world_time != self.world_time:
            before, now = world_day(self.world_time), world_day(world_time)
            if before and now and before != now and event - 1 > self.through:
                self._ended = Occasion(kind="day-end", through=event - 1, at=at, world_time=self.world_time, place=self.place)
            self.world_time = world_time
        self.place = place or self.place
        self.newest = max(self.newest, event)
        if self._real_day < 0:
            self._real_day = int(at // DAY_S)

    def milestone(self, what: str, *, at: float, event: int) -> None:
        """Something that is worth an entry of its own."""
        self._pending = [*self._pending, (at, event, clean_line(what, MAX_WHAT))][-NAMED:]
        self.newest = max(self.newest, event)

    def due(self, now: float) -> Occasion | None:
        """What is to be written about now, if anything."""
        self._real_days(now)
        if now - self.last_at < self.least_s and now >= self.last_at:
            return None
        if self._ended:
            return self._ended
        day, written = self._counted
        if self._pending and not (day == now // DAY_S and written >= self._most) and now - self._pending[-1][0] >= SETTLE_S:
            what = tuple(what for _, _, what in self._pending)
            return self.now("milestone", now, what)
        return None

    def now(self, kind: Literal["milestone", "shutdown", "rollback"], now: float, what: tuple[str, ...] = ()) -> Occasion:
        """An occasion to write about everything so far."""
        return Occasion(kind=kind, through=self.newest, at=now, world_time=self.world_time, place=self.place, what=what)

    def written(self, through: int, *, now: float, kind: str = "") -> None:
        """An entry covers everything up to the event `through`; one that nobody chose (`kind` reset, rollback) puts off no other."""
        self.through = max(self.through, through)
        if kind not in {"reset", "rollback"}:
            self.last_at = now
        if self._ended and self._ended.through <= self.through:
            self._ended = None
        self._pending = [pending for pending in self._pending if pending[1] > self.through]
        if kind == "milestone":
            day = int(now // DAY_S)
            self._counted = (day, 1 + (self._counted[1] if self._counted[0] == day else 0))

    def passed(self, occasion: Occasion) -> None:
        """There was nothing to write; the next entry covers it."""
        if self._ended == occasion:
            self._ended = None
        if occasion.kind == "milestone":
            self._pending = []

    def set_back(self, since: str) -> None:
        """The world is at an earlier time again, "" if nobody knows which: days that ended after it never did."""
        self.world_time, self._ended = since, None

    def snapshot(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "through": self.through,
            "last_at": self.last_at,
            "world_time": self.world_time,
            "place": self.place,
            "real_day": self._real_day,
            "counted": list(self._counted),
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Take up a snapshot; what is wrong in it is left out."""
        self.through = self.newest = _whole(stored.get("through"), 0)
        last_at = stored.get("last_at")
        self.last_at = float(last_at) if isinstance(last_at, (int, float)) else 0.0
        self.world_time, self.place = (value if isinstance(value := stored.get(name), str) else "" for name in ("world_time", "place"))
        self._real_day = _whole(stored.get("real_day"), -1)
        counted = stored.get("counted")
        if isinstance(counted, list) and len(counted) == 2:
            self._counted = (_whole(counted[0], -1), _whole(counted[1], 0))

    def _real_days(self, now: float) -> None:
        """Where the world names no days, real ones (UTC) end."""
        day = int(now // DAY_S)
        if self._real_day < 0 or day < self._real_day:
            self._real_day = day
        elif day > self._real_day:
            if not world_day(self.world_time) and self.newest > self.through:
                # It stands on the page of the day that it is about.
                end = float((self._real_day + 1) * DAY_S - 1)
                self._ended = Occasion(kind="day-end", through=self.newest, at=end, world_time=self.world_time, place=self.place)
            self._real_day = day


def _whole(value: Any, otherwise: int) -> int:
    return value if type(value) is int else otherwise
