"""One SQLite file, opened soundly, written in whole transactions.

Invariant: a transaction is on disk whole or not at all, whatever is cancelled, locked, full or killed in between; and no thread of this
module keeps a process alive. Everything that can go wrong with the file is one `StoreError`; a file that is damaged is a `DamagedError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
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
        self._turn = asyncio.Lock()  # a transaction is several steps of the worker; another caller's must not come between them

    @classmethod
    async def open(
        cls, path: Path, *, schema: str, version: int, read_only: bool = False, check: bool = True, patience_s: float = 5.0
    ) -> Self:
        """Opens the file, makes it if there is none, and checks every page.

        Args:
            path: the file; its folder must exist.
            schema: statements that make the tables; run where the file is new.
            version: of the schema.
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
            connecting = aiosqlite.connect(_uri(path, read_only=read_only), uri=True, isolation_level=None, timeout=_BUSY_MS / 1000)
            # The thread would otherwise wait for a close that an error on the way may have made impossible, and hold the process for ever.
            connecting._thread.daemon = True  # noqa: SLF001 - the library has no setting for it
            try:
                connection = await connecting
            except sqlite3.Error as error:
                raise _told(path, error) from error
            connection.text_factory = _text
            database = cls(path, connection, lock, patience_s=patience_s)
            await database._prepare(schema, version, read_only=read_only, check=check)
        except BaseException:
            if connection is not None:
                with contextlib.suppress(sqlite3.Error):
                    await connection.close()
            _release(lock)
            raise
        return database

    async def _prepare(self, schema: str, version: int, *, read_only: bool, check: bool) -> None:
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
        try:
            await self._connection.execute_fetchall("BEGIN IMMEDIATE")
            for sql, rows in statements:
                if len(rows) == 1:
                    await self._connection.execute_fetchall(sql, rows[0])
                else:
                    await self._connection.executemany(sql, rows)
            await self._connection.execute_fetchall("COMMIT")
        except BaseException:
            # Cancelled or failed, the worker may still be inside: what it began must end before the next one begins.
            await asyncio.shield(self._rollback())
            raise

    async def _rollback(self) -> None:
        with contextlib.suppress(sqlite3.Error, ValueError):  # nothing was begun, the failure has rolled it back already, or all is closed
            await self._connection.execute_fetchall("ROLLBACK")

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query.

        Raises:
            DamagedError: the file is damaged.
            StoreError: it could not be read.
        """

        async def fetch() -> list[tuple[Any, ...]]:
            return cast("list[tuple[Any, ...]]", await self._connection.execute_fetchall(sql, values))

        return await self._patiently(fetch)

    async def close(self) -> None:
        """Closes the file and gives up the ownership; a second close does nothing."""
        try:
            await self._connection.close()
        except sqlite3.Error as error:
            raise _told(self.path, error) from error
        finally:
            _release(self._lock)


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
    if code in _DAMAGED:
        return DamagedError(f"{path.name} is damaged: {error}")
    return StoreError(f"{path}: {_REASONS.get(code, str(error))}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # damage inside a text is no reason to lose the row
