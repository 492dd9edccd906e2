"""One SQLite file, opened soundly, written in whole transactions.

Invariant: a transaction is on disk whole or not at all, whatever is cancelled, locked, full or killed in between; and no thread of this
module keeps a process alive. Everything that can go wrong with the file is one `StoreError`; a file that is damaged is a `DamagedError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self, TypeVar, cast

import aiosqlite

from runtime.store.errors import DamagedError, StoreError

if sys.platform != "win32":
    import fcntl

_T = TypeVar("_T")

#: One kind of change: a statement and the rows that it is run with.
Statement = tuple[str, Sequence[Sequence[Any]]]

_PAGE = 8192  # bytes: fewer texts are broken over two pages than with the default of 4096
_CACHE_KIB = 2048
_WAL_LIMIT = 16 * 1024 * 1024
_BUSY_MS = 250  # how long SQLite waits for a lock by itself; beyond it the waiting is ours, where it can be cancelled
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
#: So SQLite says, with its code for any error, where damage has struck the number of the format in the head of the file.
_FORMAT = "unsupported file format"
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_REASONS: Mapping[int, str] = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not take what is written",
    sqlite3.SQLITE_READONLY: "the file may not be written",
    sqlite3.SQLITE_PERM: "the file may not be opened",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_BUSY: "another process holds the file locked",
    sqlite3.SQLITE_LOCKED: "another process holds the file locked",
}


class Database:
    """A connection with its worker thread. Made by `open`."""

    def __init__(self, path: Path, connection: aiosqlite.Connection, lock: IO[str] | None, *, patience_s: float) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._patience_s = patience_s
        self._beside: aiosqlite.Connection | None = None  # a second connection, for reads that no transaction must hold up
        self._opening = asyncio.Lock()
        self._turn = asyncio.Lock()  # a transaction is several steps of the worker; another caller's must not come between them

    @classmethod
    async def open(
        cls, path: Path, *, schema: str, version: int, upgrades: Mapping[int, str] | None = None, read_only: bool = False,
        check: bool = True, patience_s: float = 5.0,
    ) -> Self:  # fmt: skip
        """Opens the file, makes it if there is none, and checks every page.

        Args:
            path: the file; its folder must exist.
            schema: statements that make the tables; run where the file is new.
            version: of the schema; what older versions wrote must be readable as it is, or after the upgrade.
            upgrades: statements that make each version from the one before, where one is needed.
            read_only: only reads, beside whoever writes.
            check: whether to look at every page before the file is trusted.
            patience_s: seconds to wait for a lock that another process holds.

        Raises:
            DamagedError: the file is there, but is no sound database.
            StoreError: any other reason, a second writer among them.
        """
        lock = None if read_only else _owned(path)
        connection = None
        try:
            try:
                connection = await _connected(path, read_only=read_only)
            except sqlite3.Error as error:
                raise _told(path, error) from error
            database = cls(path, connection, lock, patience_s=patience_s)
            await database._prepare(schema, version, upgrades or {}, read_only=read_only, check=check)
        except BaseException:
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    await connection.close()
            _release(lock)
            raise
        return database

    async def _prepare(self, schema: str, version: int, upgrades: Mapping[int, str], *, read_only: bool, check: bool) -> None:
        await self.rows(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if not read_only:
            for pragma in (f"page_size = {_PAGE}", "journal_mode = WAL", "synchronous = FULL", f"journal_size_limit = {_WAL_LIMIT}"):
                await self.rows(f"PRAGMA {pragma}")
        found = await self.rows("PRAGMA quick_check(1)") if check else []
        if found not in ([("ok",)], []):
            raise DamagedError(f"{self.path.name} is damaged: {' '.join(str(found[0][0]).split())[:200]}")
        written = int((await self.rows("PRAGMA user_version"))[0][0])
        if written > version:
            raise StoreError(f"{self.path.name} was written by a newer version of this program (schema {written}, known is {version})")
        if 0 < written < version and not read_only:
            steps = [one for number in range(written + 1, version + 1) for one in upgrades.get(number, "").split(";;") if one.strip()]
            # The number, so that an older program leaves it alone from now on.
            await self.write([(statement, [()]) for statement in (*steps, f"PRAGMA user_version = {version}")])
        if written == 0 and not read_only:
            tables = [statement for statement in schema.split(";;") if statement.strip()]
            await self.write([(statement, [()]) for statement in (*tables, f"PRAGMA user_version = {version}")])

    async def write(self, statements: Sequence[Statement]) -> None:
        """Runs all statements in one transaction; returns once it is on disk.

        Raises:
            DamagedError: the file is damaged.
            StoreError: it could not be written; nothing of it was.
        """
        await self._patiently(lambda: self._transaction(statements))

    async def _patiently(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Does the work, again while another process holds a lock. A writer takes its lock before it reads, so waiting can help."""
        async with self._turn:
            loop = asyncio.get_running_loop()
            until, wait = loop.time() + self._patience_s, 0.01
            while True:
                try:
                    return await work()
                except sqlite3.Error as error:
                    if _code(error) not in _LOCKED or loop.time() > until:
                        raise _told(self.path, error) from error
                except ValueError as error:  # so the library says that it is closed
                    raise StoreError(f"{self.path} is closed") from error
                await asyncio.sleep(wait)
                wait = min(2 * wait, 0.25)

    async def _transaction(self, statements: Sequence[Statement]) -> None:
        given_up = threading.Event()
        # One errand for the worker: with one for each statement a busy loop would be waited for as often.
        work = asyncio.ensure_future(self._connection._execute(_written, self._connection, statements, given_up))  # type: ignore[no-untyped-call]  # noqa: SLF001 - no public way
        work.add_done_callback(_looked_at)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            given_up.set()  # the worker takes back what it began, before it begins anything else
            raise

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query.

        Raises:
            DamagedError: the file is damaged.
            StoreError: it could not be read.
        """

        async def fetch() -> list[tuple[Any, ...]]:
            return cast("list[tuple[Any, ...]]", await self._connection.execute_fetchall(sql, values))

        return await self._patiently(fetch)

    async def rows_beside(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """As `rows`, of what is on disk by now: a transaction under way is neither seen nor waited for."""
        try:
            async with self._opening:
                if self._beside is None:
                    self._beside = await _connected(self.path, read_only=True)
                    await self._beside.execute_fetchall(f"PRAGMA cache_size = -{_CACHE_KIB}")
            return cast("list[tuple[Any, ...]]", await self._beside.execute_fetchall(sql, values))
        except (sqlite3.Error, ValueError):
            return await self.rows(sql, values)  # whatever is wrong is told there

    async def close(self) -> None:
        """Closes the file and gives up the ownership; a second close does nothing."""
        try:
            if self._beside is not None:
                await self._beside.close()
                self._beside = None
            await self._connection.close()
        except sqlite3.Error as error:
            raise _told(self.path, error) from error
        finally:
            _release(self._lock)


async def _connected(path: Path, *, read_only: bool) -> aiosqlite.Connection:
    connecting = aiosqlite.connect(_uri(path, read_only=read_only), uri=True, isolation_level=None, timeout=_BUSY_MS / 1000)
    # The thread would otherwise wait for a close that an error on the way may have made impossible, and hold the process for ever.
    connecting._thread.daemon = True  # noqa: SLF001 - the library has no setting for it
    connection = await connecting
    connection.text_factory = _text
    return connection


def _written(connection: aiosqlite.Connection, statements: Sequence[Statement], given_up: threading.Event) -> None:
    """One whole transaction, on the worker's thread; none at all where it fails or was given up."""
    plain = connection._conn  # noqa: SLF001 - this is the worker
    try:
        plain.execute("BEGIN IMMEDIATE")
        for sql, rows in statements:
            if given_up.is_set():
                break
            if len(rows) == 1:
                plain.execute(sql, rows[0])
            else:
                plain.executemany(sql, rows)
        plain.execute("ROLLBACK" if given_up.is_set() else "COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # nothing was begun, or the failure has rolled it back already
            plain.execute("ROLLBACK")
        raise


def _looked_at(work: asyncio.Future[None]) -> None:
    if not work.cancelled():
        work.exception()  # whoever waited may be gone


def set_aside(path: Path, *, at: float) -> Path:
    """Renames a damaged database, and the log that belongs to it, so that a person can look at them. Gives the new name.

    Raises:
        StoreError: the folder does not allow it.
    """
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    try:
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise StoreError(f"{path.name} is damaged and cannot be moved aside: {error.strerror}") from error
    return aside


def _owned(path: Path) -> IO[str] | None:
    """Takes the lock that makes this process the only writer; the system releases it when the process ends, however it ends."""
    if sys.platform == "win32":  # SQLite's own locks still guard every transaction
        return None
    name = path.with_name(path.name + ".lock")
    try:
        lock = name.open("a")
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StoreError(f"{path} is in use by another process; an NPC lives in one process at a time") from error
    return lock


def _uri(path: Path, *, read_only: bool) -> str:
    return f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"


def _release(lock: IO[str] | None) -> None:
    if lock is not None:
        lock.close()


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, or 0 where the error is Python's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _told(path: Path, error: sqlite3.Error) -> StoreError:
    code = _code(error)
    if code in _DAMAGED or _FORMAT in str(error):
        return DamagedError(f"{path.name} is damaged: {error}")
    return StoreError(f"{path}: {_REASONS.get(code, str(error))}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # damage inside a text is no reason to lose the row
