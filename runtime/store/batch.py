"""What waits to be written, in memory.

Invariant: a batch is written as a whole, and can be written twice with the same effect. It is bounded however long it has to wait: of
everything but events and heard lines only the newest of each name is kept, and of those two the oldest go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from runtime.store import memories, spend
from runtime.store.database import Statement
from runtime.store.events import many
from runtime.store.spend import Hour, Spend

Row = tuple[Any, ...]

_LINES = 20_000  # heard lines that wait
_UNDOINGS = 64  # as well
_ROW_BYTES = 200  # about what a row takes besides its text

_EVENT = "INSERT INTO events(id, at, turn, kind, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING"
_CHECKPOINT = "INSERT OR REPLACE INTO checkpoints(name, at, crc, text) VALUES (?, ?, ?, ?)"
_WATERMARK = "INSERT OR REPLACE INTO watermarks(world, epoch, seq) VALUES (?, ?, ?)"
_SPEND = "INSERT OR REPLACE INTO spend VALUES (?, ?, ?, ?, ?, ?, ?)"


class Batch:
    """Rows by table.

    Attributes:
        events: rows in their order, each with one event or, as bytes, with many.
        event_bytes: about how much memory they take, in characters.
        checkpoints, watermarks: rows by name and by world.
        dropped: first id, last id and number of events that had to go.
    """

    def __init__(self) -> None:
        self.events: deque[Row] = deque()
        self.event_bytes = 0
        self.checkpoints: dict[str, Row] = {}
        self.watermarks: dict[str, tuple[str, int]] = {}
        self.dropped: tuple[int, int, int] | None = None
        self._memories: dict[int, Row] = {}
        self._undone: list[Row] = []
        self._spend: dict[str, Spend] = {}
        self._hours: dict[int, Hour] = {}

    def event(self, id_: int, at: float, turn: int, kind: str, data: str | bytes) -> None:
        """Adds a row, by the id of its last event; ids rise."""
        self.events.append((id_, at, turn, kind, data))
        self.event_bytes += _ROW_BYTES + len(data)

    def memory(self, key: int, row: Row) -> None:
        """Adds a heard line, in the place of an older one of the same key; the first event and the greater weight (the last two) stay."""
        older = self._memories.pop(key, row)  # so that the newest comes last
        self._memories[key] = (*row[:-2], min(row[-2], older[-2]), max(row[-1], older[-1]))
        if len(self._memories) > _LINES:
            del self._memories[next(iter(self._memories))]

    def undo(self, row: Row) -> None:
        """Marks what was heard as undone: world, behind which event, up to which one."""
        self._undone = [*self._undone[1 - _UNDOINGS :], row]

    def checkpoint(self, name: str, row: Row) -> None:
        """Sets the newest text of a name."""
        self.checkpoints[name] = row

    def watermark(self, world: str, row: tuple[str, int]) -> None:
        """Sets the newest watermark of a world."""
        self.watermarks[world] = row

    def spend(self, day: str, total: Spend) -> None:
        """Sets the total of a day."""
        self._spend[day] = total

    def hour(self, number: int, total: Hour) -> None:
        """Sets the total of an hour."""
        self._hours[number] = total

    def drop_events(self, limit: int) -> None:
        """Drops the oldest events until the rest takes less than `limit`; how many went stays told."""
        while self.event_bytes > limit and len(self.events) > 1:
            id_, *_, data = self.events.popleft()
            self.event_bytes -= _ROW_BYTES + len(data)
            gone = many(data)
            first, _, number = self.dropped or (id_ + 1 - gone, id_, 0)
            self.dropped = (first, id_, number + gone)

    def followed_by(self, newer: Batch) -> Batch:
        """This batch, which could not be written, with what was queued meanwhile."""
        self.events.extend(newer.events)
        self.event_bytes += newer.event_bytes
        self.checkpoints |= newer.checkpoints
        self.watermarks |= newer.watermarks
        self._spend |= newer._spend
        self._hours |= newer._hours
        for key, row in newer._memories.items():
            self.memory(key, row)
        for row in newer._undone:
            self.undo(row)
        if newer.dropped is not None:
            first, _, number = self.dropped or (newer.dropped[0], 0, 0)
            self.dropped = (first, newer.dropped[1], number + newer.dropped[2])
        return self

    def terms(self) -> Iterator[tuple[int, str]]:
        """Key and terms of each heard line."""
        return ((key, row[5]) for key, row in self._memories.items())

    def statements(self) -> list[Statement]:
        """The one transaction that writes it all."""
        tables: list[Statement] = [
            (_EVENT, list(self.events)),
            (memories.ADD, list(self._memories.values())),
            *((sql, self._undone) for sql in memories.UNDO),
            (_CHECKPOINT, [(name, *row) for name, row in self.checkpoints.items()]),
            (_WATERMARK, [(world, *row) for world, row in self.watermarks.items()]),
            (_SPEND, [(day, *total) for day, total in self._spend.items()]),
            (spend.ADD, [(number, *total) for number, total in self._hours.items()]),
        ]
        return [(sql, rows) for sql, rows in tables if rows]
