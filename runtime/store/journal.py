"""The journal of one NPC: everything that happened, was heard, spent and checkpointed, in one SQLite file with one writer.

Invariant: what `commit` returned for is on disk, in the order in which it was queued, whole; what it did not return for is in memory and is
tried again. Queueing never waits, never fails and never touches the disk, so the loop above does not know whether the disk is slow or full.
Ids of events rise for ever, over restarts too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog

from runtime.store import events, memories
from runtime.store.batch import Batch
from runtime.store.database import Database, set_aside
from runtime.store.errors import DamagedError, StoreError
from runtime.store.events import Event, storable
from runtime.store.memories import Frequencies, Memory
from runtime.store.spend import Spend

_LOG = structlog.get_logger("runtime.store")

_VERSION = 1
_SCHEMA = f"""
CREATE TABLE events(id INTEGER PRIMARY KEY, at REAL NOT NULL, turn INTEGER NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL);;
CREATE INDEX events_by_kind ON events(kind);;
CREATE TABLE checkpoints(name TEXT PRIMARY KEY, at REAL NOT NULL, crc INTEGER NOT NULL, text BLOB NOT NULL) WITHOUT ROWID;;
CREATE TABLE watermarks(world TEXT PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;;
CREATE TABLE spend(
    day TEXT PRIMARY KEY, calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, dollars REAL NOT NULL
) WITHOUT ROWID;;
{memories.SCHEMA}
"""


class Journal:
    """Made by `open`; use `close`, or an async `with`. For one event loop."""

    def __init__(
        self, database: Database, *, clock: Callable[[], float], memory_lines: int, flush_s: float, pending_bytes: int, read_only: bool
    ) -> None:
        self._database = database
        self._clock = clock
        self._memory_lines = memory_lines
        self._flush_s = flush_s
        self._pending_bytes = pending_bytes
        self._read_only = read_only
        self._loop = asyncio.get_running_loop()
        self._pending = Batch()
        self._flight: asyncio.Task[StoreError | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._queued = self._stored = 0  # changes ever queued, and how many of them, from the first on, are on disk
        self._failures = 0
        self._closed = False
        self._last_id = 0
        self._spent: dict[str, Spend] = {}
        self._frequencies = Frequencies({}, set(), 0)
        self._mending = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
        memory_lines: int = 20_000,
        flush_s: float = 0.2,
        pending_bytes: int = 32 * 1024 * 1024,
    ) -> Self:
        """Opens the journal of an NPC, or begins one. A damaged file is set aside, loudly, and a fresh one begun.

        Args:
            path: the file, usually `session.db` in the NPC's home.
            clock: seconds since 1970.
            read_only: only reads, beside the process that writes; then a damaged file is an error.
            memory_lines: how many heard lines are kept; the oldest of the least weight go first.
            flush_s: what was queued is written at the latest so many seconds later, without anyone calling `commit`.
            pending_bytes: of events that wait in memory while the disk does not take them. Beyond it the oldest are dropped, and counted.

        Raises:
            StoreError: the file cannot be opened, or another process writes it; one sentence.
        """
        aside, last_id = None, 0
        try:
            database = await Database.open(path, schema=_SCHEMA, version=_VERSION, read_only=read_only)
        except DamagedError as error:
            if read_only:
                raise
            last_id = await _last_id_of(path)
            aside, why = set_aside(path, at=clock()), str(error)
            database = await Database.open(path, schema=_SCHEMA, version=_VERSION)
        journal = cls(
            database, clock=clock, memory_lines=memory_lines, flush_s=flush_s, pending_bytes=pending_bytes, read_only=read_only,
        )  # fmt: skip
        try:
            await journal._load(last_id)
            if aside is not None:
                journal._tell_set_aside(aside, why)
        except BaseException:
            await database.close()
            raise
        return journal

    async def _load(self, last_id: int) -> None:
        rows = await self._database.rows("SELECT max(id) FROM events")
        self._last_id = max(last_id, rows[0][0] or 0)
        self._spent = {
            day: Spend(*figures)
            for day, *figures in await self._database.rows(
                "SELECT day, calls, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, dollars FROM spend"
            )
        }
        await self._load_frequencies()

    async def _load_frequencies(self) -> None:
        lines = await self._database.rows("SELECT key, words FROM memories")
        terms = await self._database.rows("SELECT term, doc FROM memory_frequencies")
        self._frequencies = Frequencies(dict(terms), {key for key, _ in lines}, sum(words for _, words in lines))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # -- queueing: at once, in memory

    @property
    def last_id(self) -> int:
        """The id of the newest event, 0 before the first."""
        return self._last_id

    def append(self, kind: str, data: Mapping[str, Any], *, turn: int = 0) -> int:
        """Adds an event and gives its id. Any data can be written; what JSON cannot hold becomes text."""
        self._last_id += 1
        self._pending.event(self._last_id, self._clock(), turn, storable(kind), events.written(data))
        self._pending.drop_events(self._pending_bytes)
        self._touched()
        return self._last_id

    def remember(self, *, event: int, speaker: str, text: str, terms: str, weight: int = 0) -> None:
        """Adds a line that was heard. Said again by the same speaker, it is the same line with a newer time.

        Args:
            event: the event that it was heard in.
            speaker: who said it.
            text: the line.
            terms: the words that it shall be found by: `" ".join(terms_of(text))`.
            weight: lines of more weight are kept longer; a line keeps the greatest it ever had.
        """
        key = memories.key_of(speaker, text)
        terms = storable(terms)
        self._pending.memory(key, (key, event, self._clock(), storable(speaker), storable(text), terms, len(terms.split()), weight))
        self._touched()

    def checkpoint(self, name: str, text: str) -> None:
        """Keeps a text under a name; the newest wins. It is committed together with the events before it."""
        data = text.encode("utf-8", "surrogatepass")
        self._pending.checkpoint(storable(name), (self._clock(), zlib.crc32(data), data))
        self._touched()

    def watermark(self, world: str, epoch: str, seq: int) -> None:
        """How far the observations of a world are in this journal; committed together with them."""
        self._pending.watermark(storable(world), (storable(epoch), min(seq, 2**63 - 1)))
        self._touched()

    def spend(
        self, *, day: str, dollars: float, input_tokens: int = 0, cache_read_tokens: int = 0, cache_write_tokens: int = 0,
        output_tokens: int = 0,
    ) -> None:  # fmt: skip
        """Adds one call to what a day cost."""
        call = Spend(1, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, dollars)
        spend = self._spent.get(day, Spend()).plus(call)
        self._spent[day] = spend
        self._pending.spend(day, spend)
        self._touched()

    def _touched(self) -> None:
        self._queued += 1
        if self._timer is None and self._flight is None and not self._closed:
            self._timer = self._loop.call_later(self._flush_s, self._fly)

    # -- writing

    async def commit(self) -> None:
        """Returns once everything that was queued before this call is on disk. Callers at the same time share one transaction.

        Raises:
            StoreError: it could not be written now. All of it stays queued, and is tried again by itself and by the next call.
        """
        wanted = self._queued
        while self._stored < wanted:
            # A caller that is cancelled leaves; the transaction, which others wait for, goes on.
            error = await asyncio.shield(self._fly())
            if error is not None:
                raise StoreError(str(error)) from error

    def _fly(self) -> asyncio.Task[StoreError | None]:
        """The transaction that is under way, or a new one with everything that is queued when it begins."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flight is None:
            self._flight = self._loop.create_task(self._flush())
        return self._flight

    async def _flush(self) -> StoreError | None:
        batch, upto = self._pending, self._queued
        self._pending = Batch()
        try:
            error = await self._write(batch)
        except BaseException:
            self._pending = batch.followed_by(self._pending)
            raise
        finally:
            self._flight = None
        if error is None:
            self._stored = upto
            if batch.dropped is not None:
                first, last, number = batch.dropped
                self.append("store-gap", {"first": first, "last": last, "events": number})
        else:
            self._pending = batch.followed_by(self._pending)
            self._pending.drop_events(self._pending_bytes)
        self._tell(error)
        if self._stored < self._queued and self._timer is None and not self._closed:
            wait = self._flush_s if error is None else min(30.0, 0.5 * 2 ** min(self._failures, 6))
            self._timer = self._loop.call_later(wait, self._fly)
        return error

    async def _write(self, batch: Batch) -> StoreError | None:
        if self._read_only:
            return StoreError(f"{self._database.path.name} was opened for reading only")
        database = self._database
        try:
            try:
                await database.write(batch.statements())
            except DamagedError as damage:
                await self._begin_afresh(database, damage)
                await self._database.write(batch.statements())
            await self._learn(batch)
        except StoreError as error:
            return error
        return None

    async def _learn(self, batch: Batch) -> None:
        for key, terms in batch.terms():
            self._frequencies.add(key, terms)
        over = len(self._frequencies) - self._memory_lines
        if over > self._memory_lines // 20:  # a few too many are cheaper than a deletion at every line
            await self._database.write([(memories.PRUNE, [(over,)])])
            await self._load_frequencies()

    def _tell(self, error: StoreError | None) -> None:
        if error is not None:
            self._failures += 1
            if self._failures == 1:
                _LOG.error("the journal cannot be written; it is kept in memory and tried again", why=str(error))
        elif self._failures:
            _LOG.warning("the journal is written again", failures=self._failures)
            self._failures = 0

    # -- damage

    async def _begin_afresh(self, damaged: Database, damage: DamagedError) -> None:
        """The file went bad while it was open: the NPC lives on with a fresh one."""
        async with self._mending:
            if self._database is not damaged:
                return  # a reader and a writer found it at the same time
            with contextlib.suppress(StoreError):
                await damaged.close()
            aside = set_aside(damaged.path, at=self._clock())
            self._database = await Database.open(damaged.path, schema=_SCHEMA, version=_VERSION)
            self._frequencies = Frequencies({}, set(), 0)
            for day, spend in self._spent.items():
                self._pending.spend(day, spend)
            self._tell_set_aside(aside, str(damage))

    def _tell_set_aside(self, aside: Path, why: str) -> None:
        _LOG.error("a damaged journal was set aside and a fresh one begun", kept_as=str(aside), why=why)
        self.append("store-damaged", {"why": why, "kept_as": aside.name})

    # -- reading

    async def _settled(self) -> None:
        """What is queued comes before what is read; but a disk that takes nothing just now keeps nobody from reading."""
        if self._stored < self._queued and not self._read_only:
            with contextlib.suppress(StoreError):
                await self.commit()

    async def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        await self._settled()
        database = self._database
        try:
            return await database.rows(sql, values)
        except DamagedError as damage:
            if self._read_only:
                raise
            await self._begin_afresh(database, damage)
            return await self._database.rows(sql, values)

    async def load_checkpoint(self, name: str) -> str | None:
        """The newest text under a name, or None where there is none, or only a damaged one.

        Raises:
            StoreError: it could not be read.
        """
        rows = await self._rows("SELECT crc, text FROM checkpoints WHERE name = ?", (storable(name),))
        waiting = self._pending.checkpoints.get(storable(name))
        for crc, data in [waiting[1:]] if waiting else rows:
            if zlib.crc32(data) == crc:
                return str(data, "utf-8", "surrogatepass")
            _LOG.error("a checkpoint is damaged and not used", name=name)
        return None

    async def read(self, event_id: int) -> Event | None:
        """One event by its id, or None.

        Raises:
            StoreError: it could not be read.
        """
        found = await self.events(after=event_id - 1, limit=1)
        return found[0] if found and found[0].id == event_id else None

    async def events(self, *, after: int = 0, kinds: Collection[str] | None = None, limit: int = 1000, newest: bool = False) -> list[Event]:
        """Events with an id above `after`, in their order.

        Args:
            after: 0 for all.
            kinds: only these, or all.
            limit: how many at most.
            newest: the last ones instead of the first ones; still in their order.

        Raises:
            StoreError: they could not be read.
        """
        wanted = None if kinds is None else [storable(kind) for kind in kinds]
        among = "" if wanted is None else f" AND kind IN ({', '.join('?' * len(wanted))})"
        sql = f"SELECT id, at, turn, kind, data FROM events WHERE id > ?{among} ORDER BY id {'DESC' if newest else ''} LIMIT ?"  # noqa: S608
        rows = await self._rows(sql, (after, *(wanted or ()), limit))
        if newest:
            rows.reverse()
        stored = rows[-1][0] if rows else 0
        rows += [row for row in self._pending.events if row[0] > max(after, stored) and (wanted is None or row[3] in wanted)]
        rows = rows[-limit:] if newest else rows[:limit]
        return [Event(id=id_, at=at, turn=turn, kind=kind, data=events.read(data)) for id_, at, turn, kind, data in rows]

    async def last_watermark(self, world: str) -> tuple[str, int] | None:
        """Epoch and sequence number of the newest watermark of a world, or None.

        Raises:
            StoreError: it could not be read.
        """
        rows = await self._rows("SELECT epoch, seq FROM watermarks WHERE world = ?", (storable(world),))
        waiting = self._pending.watermarks.get(storable(world))
        if waiting or not rows:
            return waiting
        epoch, seq = rows[0]
        return epoch, seq

    async def spent(self, day: str) -> float:
        """Dollars of a day so far."""
        return self.spend_of(day).dollars

    def spend_of(self, day: str) -> Spend:
        """Everything that was counted for a day so far."""
        return self._spent.get(day, Spend())

    async def search(self, terms: Sequence[str], *, limit: int = 8, before: int | None = None) -> list[Memory]:
        """The lines that answer `terms` best, best first, newest first where equal. Rare terms weigh most.

        Args:
            terms: `terms_of` what is looked for.
            limit: how many at most.
            before: only lines last heard in an event before this one.

        Raises:
            StoreError: they could not be searched.
        """
        await self._settled()  # what is known of how rare a term is comes with it
        query = self._frequencies.query(terms, limit, before)
        if query is None:
            return []
        return [
            Memory(id=id_, event=event, at=at, speaker=speaker, text=text, terms=words, score=score)
            for id_, event, at, speaker, text, words, score in await self._rows(*query)
        ]

    async def close(self) -> None:
        """Writes what is queued and closes the file. A second close does nothing.

        Raises:
            StoreError: something could not be written; the file is closed all the same.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if not self._read_only:
                await self.commit()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._database.close()


async def _last_id_of(path: Path) -> int:
    """The newest event id that a damaged file still tells, so that ids go on rising; 0 where it tells none."""
    try:
        database = await Database.open(path, schema="", version=_VERSION, read_only=True, check=False)
    except StoreError:
        return 0
    try:
        return int((await database.rows("SELECT max(id) FROM events"))[0][0] or 0)
    except StoreError:
        return 0
    finally:
        await database.close()
