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
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog

from runtime.store import events, memories, spend
from runtime.store.batch import Batch
from runtime.store.database import Database, set_aside
from runtime.store.errors import DamagedError, StoreError
from runtime.store.events import Event, storable
from runtime.store.memories import Frequencies, Label, Memory, Reader
from runtime.store.spend import Hour, Spend

_LOG = structlog.get_logger("runtime.store")

_VERSION = 4  # in 1 each event had a row of its own, in 2 a memory had no label, in 3 spending was counted by day only
_UPGRADES = {3: memories.UPGRADE, 4: spend.UPGRADE}
_PAGE = 1_000  # rows that are read at once
#: For so many seconds after many events at once more of them are expected.
CROWD_S = 1.0
_SCHEMA = f"""
CREATE TABLE events(id INTEGER PRIMARY KEY, at REAL NOT NULL, turn INTEGER NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL);;
CREATE INDEX events_by_kind ON events(kind);;
CREATE TABLE checkpoints(name TEXT PRIMARY KEY, at REAL NOT NULL, crc INTEGER NOT NULL, text BLOB NOT NULL) WITHOUT ROWID;;
CREATE TABLE watermarks(world TEXT PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL) WITHOUT ROWID;;
CREATE TABLE spend(
    day TEXT PRIMARY KEY, calls INTEGER NOT NULL, input_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, dollars REAL NOT NULL
) WITHOUT ROWID;;
{spend.SCHEMA}
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
        self._run_at = float("-inf")  # when many events at once were last queued
        self._spent: dict[str, Spend] = {}
        self._hours: dict[int, Hour] = {}
        self._frequencies = Frequencies({}, set(), 0)
        self._mending = asyncio.Lock()
        self.redact: Callable[[str], str] = _as_it_is  # takes secrets out of what is written here

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
            memory_lines: how many lines are remembered; the least weight goes first, of that the oldest of who has most.
            flush_s: what was queued is written at the latest so many seconds later, without anyone calling `commit`.
            pending_bytes: of events that wait in memory while the disk does not take them. Beyond it the oldest are dropped, and counted.

        Raises:
            StoreError: the file cannot be opened, or another process writes it; one sentence.
        """
        try:
            return await cls._opened(path, clock, memory_lines, flush_s, pending_bytes, read_only=read_only)
        except DamagedError as error:
            if read_only:
                raise
            # Also damage that only shows when the tables are read: whoever begins must not meet it again at every start.
            last_id = await _last_id_of(path)
            aside, why = set_aside(path, at=clock()), str(error)
        journal = await cls._opened(path, clock, memory_lines, flush_s, pending_bytes, last_id=last_id)
        journal._tell_set_aside(aside, why)  # noqa: SLF001 - another instance of this class
        return journal

    @classmethod
    async def _opened(
        cls, path: Path, clock: Callable[[], float], memory_lines: int, flush_s: float, pending_bytes: int, *, read_only: bool = False,
        last_id: int = 0,
    ) -> Self:  # fmt: skip
        database = await Database.open(path, schema=_SCHEMA, version=_VERSION, upgrades=_UPGRADES, read_only=read_only)
        journal = cls(
            database, clock=clock, memory_lines=memory_lines, flush_s=flush_s, pending_bytes=pending_bytes, read_only=read_only,
        )  # fmt: skip
        try:
            await journal._load(last_id)
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
        with contextlib.suppress(StoreError):  # a file of an older version, opened for reading only
            self._hours = {hour: Hour(*figures) for hour, *figures in await self._database.rows(spend.READ, (spend.HOURS_READ,))}
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
        self._pending.event(self._last_id, self._clock(), turn, storable(kind), self.redact(events.written(data)))
        self._pending.drop_events(self._pending_bytes)
        self._touched()
        return self._last_id

    def append_run(self, kind: str, parts: Iterable[tuple[int, bytes]], *, turn: int = 0) -> int:
        """Adds many events of one kind and gives the id of the first; the others follow it. Read back, they are events like any other.

        Args:
            kind: of all of them.
            parts: how many events, and a MessagePack array with the data of each. A part that fits a page of the file is best.
            turn: of all of them.
        """
        first, now, kind = self._last_id + 1, self._clock(), storable(kind)
        self._run_at = self._loop.time()
        for number, data in parts:
            self._last_id += number
            self._pending.event(self._last_id, now, turn, kind, data)
        self._pending.drop_events(self._pending_bytes)
        self._touched()
        return first

    def remember(
        self, *, event: int, speaker: str, text: str, terms: str, weight: int = 0, label: Label = Label(), about: str = ""  # noqa: B008
    ) -> None:
        """Adds a line that was heard. Said again by the same speaker, it is the same line with a newer time.

        Args:
            event: the event that it was heard in.
            speaker: who said it.
            text: the line.
            terms: the words that it shall be found by: `" ".join(terms_of(text))`.
            weight: lines of more weight are kept longer and found sooner; a line keeps the greatest it ever had.
            label: what it is filtered by when it is read.
            about: what a newer line takes the place of an older one by; by default its words.
        """
        speaker, text, terms = self.redact(speaker), self.redact(text), self.redact(terms)
        key = memories.key_of(speaker, about or text, label)
        terms = storable(terms)
        kept = (storable(label.world), storable(label.epoch), storable(label.subject), label.category, label.purpose, label.sensitivity)
        heard = (key, event, self._clock(), storable(speaker), storable(text), terms, len(terms.split()))
        self._pending.memory(key, (*heard, *kept, label.expires, event, weight))
        self._touched()

    def undo(self, *, world: str, since: int, upto: int) -> None:
        """What was remembered of a world after the event `since`, up to `upto`, did not happen after all: no search gives it any more."""
        self._pending.undo((storable(world), since, upto))
        self._touched()

    def checkpoint(self, name: str, text: str) -> None:
        """Keeps a text under a name; the newest wins. It is committed together with the events before it."""
        data = self.redact(text).encode("utf-8", "surrogatepass")
        self._pending.checkpoint(storable(name), (self._clock(), zlib.crc32(data), data))
        self._touched()

    def watermark(self, world: str, epoch: str, seq: int) -> None:
        """How far the observations of a world are in this journal; committed together with them."""
        self._pending.watermark(storable(world), (storable(epoch), min(seq, 2**63 - 1)))
        self._touched()

    def spend(
        self, *, day: str, dollars: float, input_tokens: int = 0, cache_read_tokens: int = 0, cache_write_tokens: int = 0,
        output_tokens: int = 0, hour: int | None = None, steps: int = 0,
    ) -> None:  # fmt: skip
        """Adds one call to what a day cost, and with `hour` (hours since 1970) to that hour; `steps`: how many steps of a turn it was."""
        call = Spend(1, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, dollars)
        self._spent[day] = self._spent.get(day, Spend()).plus(call)
        self._pending.spend(day, self._spent[day])
        if hour is not None:
            so_far = self._hours.get(hour, Hour())
            self._hours[hour] = Hour(so_far.steps + steps, so_far.calls + 1, so_far.dollars + dollars)
            self._pending.hour(hour, self._hours[hour])
            if len(self._hours) > 2 * spend.HOURS_READ:
                self._hours = dict(sorted(self._hours.items())[-spend.HOURS_READ :])
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
            await self._forget(await self._database.rows(memories.LEAST, (over,)))

    async def _forget(self, chosen: Sequence[tuple[int, str]]) -> dict[str, int]:
        """Drops memories, given as number and kind, and logs how many of which kind; gives the same."""
        dropped = dict(Counter(kind for _, kind in chosen))
        if chosen:
            await self._database.write([(memories.DROP, [(id_,) for id_, _ in chosen])])
            await self._load_frequencies()
            self.append("memory dropped", dropped | {"kept": len(self._frequencies)})
        return dropped

    async def consolidate(self) -> dict[str, int]:
        """Drops memories that are undone, over or the same words again, and beyond the bound those of least value; how many, by kind.

        Raises:
            StoreError: it could not be done; what was not dropped is still there.
        """
        await self.commit()
        now = self._clock()
        dropped = await self._forget(await self._database.rows(memories.SPENT, (now, now)))
        if (over := len(self._frequencies) - self._memory_lines) > 0:
            dropped |= await self._forget(await self._database.rows(memories.LEAST, (over,)))
        return dropped

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
            for day, of_day in self._spent.items():
                self._pending.spend(day, of_day)
            for hour, of_hour in self._hours.items():
                self._pending.hour(hour, of_hour)
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
        return await self._fetched(sql, values)

    async def _fetched(self, sql: str, values: Sequence[Any] = (), *, beside: bool = False) -> list[tuple[Any, ...]]:
        database = self._database
        try:
            return await (database.rows_beside(sql, values) if beside else database.rows(sql, values))
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
        found: list[Event] = []
        edge = 2**63 - 1 if newest else after
        while len(found) < limit:
            page = min(limit - len(found), _PAGE)
            rows = await self._page(edge, wanted, page, after=after if newest else None)
            several = [events.of_row(*row) for row in rows]
            found += [event for one in several for event in (reversed(one) if newest else one) if event.id > after]
            if len(rows) < page:
                break
            edge = rows[-1][0]
        if newest:
            found.reverse()
        stored = found[-1].id if found else after
        for row in self._pending.events:
            if row[0] > stored and (wanted is None or row[3] in wanted):
                found += [event for event in events.of_row(*row) if event.id > stored]
        return (found[-limit:] if newest else found[:limit]) if limit > 0 else []

    async def _page(self, edge: int, kinds: list[str] | None, limit: int, *, after: int | None) -> list[tuple[Any, ...]]:
        """Rows behind `edge` in their order, or with `after` the ones between the two, the newest first."""
        among = "" if kinds is None else f" AND kind IN ({', '.join('?' * len(kinds))})"
        side, order, bounds = ("id > ?", "id", [edge]) if after is None else ("id < ? AND id > ?", "id DESC", [edge, after])
        sql = f"SELECT id, at, turn, kind, data FROM events WHERE {side}{among} ORDER BY {order} LIMIT ?"  # noqa: S608
        return await self._rows(sql, (*bounds, *(kinds or ()), limit))

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

    def hours(self, *, since: int, until: int = 2**62) -> dict[int, Hour]:
        """What was spent since the beginning of an hour (hours since 1970), by hour, up to and with `until`; of the newest hours only."""
        return {hour: spent for hour, spent in sorted(self._hours.items()) if since <= hour <= until}

    def spend_of(self, day: str) -> Spend:
        """Everything that was counted for a day so far."""
        return self._spent.get(day, Spend())

    async def search(
        self, terms: Sequence[str], *, limit: int = 8, before: int | None = None, reader: Reader = Reader()  # noqa: B008 - frozen
    ) -> list[Memory]:
        """The lines that answer `terms` best and that `reader` may see, best first, newest first where equal. Rare terms weigh most.

        Args:
            terms: `terms_of` what is looked for.
            limit: how many at most.
            before: only lines last heard in an event before this one.
            reader: by default a stranger, who sees what is public.

        Raises:
            StoreError: they could not be searched.
        """
        # While many events at once come in there are always newer lines: those of the last moments are not waited for.
        if self._loop.time() - self._run_at >= CROWD_S:
            await self._settled()
        rows: list[tuple[Any, ...]] = []
        for thorough in (False, True):
            query = self._frequencies.query(terms, limit, before, reader=reader, now=self._clock(), thorough=thorough)
            if query is None:
                break
            sql, values, hasty = query
            rows = await self._fetched(sql, values, beside=True)
            if len(rows) >= limit or not hasty:
                break
        return [_memory(row) for row in rows]

    @property
    def memories(self) -> int:
        """How many lines are remembered, as far as they are on disk."""
        return len(self._frequencies)

    async def confided(self, *, limit: int) -> list[Memory]:
        """The newest lines that were told in confidence, whoever told them, oldest first: for whoever guards them.

        Raises:
            StoreError: they could not be read.
        """
        return [_memory(row) for row in reversed(await self._rows(memories.CONFIDENCES, (limit,)))]

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


def _memory(row: Sequence[Any]) -> Memory:
    id_, event, at, speaker, text, terms, score, subject, category, sensitivity = row
    return Memory(
        id=id_, event=event, at=at, speaker=speaker, text=text, terms=terms, score=score, subject=subject, category=category,
        sensitivity=sensitivity,
    )  # fmt: skip


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


def _as_it_is(text: str) -> str:
    return text
