"""A world's half of the protocol in one SQLite file.

Invariant: a change is on disk whole or not at all, and `keep` returns after the disk has it; one process at a time has the file. A file
that is damaged or another's is refused and left as it is: whoever moves it away begins a new epoch, which agents understand.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from world_adapter.cleaning import json_value
from world_adapter.errors import WorldStoreError
from world_adapter.frames import Act, ActResult, ActState, Gate, Observation, Speaker
from world_adapter.keeping import Kept, KeptAct, KeptLife

_VERSION = 1
_BUSY_S = 1.0  # how long a former process may take to let go of the file
_WAL_LIMIT = 16 * 1024 * 1024
_SCHEMA = """
CREATE TABLE world(one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, epoch TEXT NOT NULL);
CREATE TABLE lives(npc TEXT PRIMARY KEY, newest INTEGER NOT NULL, acked INTEGER NOT NULL, first INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE told(npc TEXT, seq INTEGER, body TEXT NOT NULL, PRIMARY KEY(npc, seq)) WITHOUT ROWID;
CREATE TABLE acts(n INTEGER PRIMARY KEY, npc TEXT NOT NULL, id TEXT NOT NULL, asked TEXT, result TEXT, UNIQUE(npc, id));
CREATE TABLE gates(npc TEXT, name TEXT, body TEXT NOT NULL, PRIMARY KEY(npc, name)) WITHOUT ROWID;
"""


class SqliteStore:
    """See `keeping.WorldStore`. Opens the file at once, or makes it; its folder must exist.

    Args:
        path: the file; SQLite puts another one, with `-wal` behind its name, beside it.
        power_safe: wait until the disk itself has each change. Without it a change survives the death of the process, not a power cut.

    Raises:
        WorldStoreError: the file cannot be used, or another process has it.
    """

    def __init__(self, path: Path | str, *, power_safe: bool = True) -> None:
        self._path = Path(path)
        try:
            self._db = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(power_safe=power_safe)
            except BaseException:
                self._db.close()
                raise
        except sqlite3.Error as error:
            raise WorldStoreError(f"{self._path} cannot keep a world: {_why(error)}.") from error
        self._worker = ThreadPoolExecutor(1, "world store")

    def _prepare(self, *, power_safe: bool) -> None:
        # Exclusive: a second process that served the same world would give the same numbers to other words.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > _VERSION or (version == 0 and self._db.execute("SELECT 1 FROM sqlite_master").fetchone()):
            raise WorldStoreError(f"{self._path} cannot keep a world: it belongs to another program or to a newer version of this one.")
        for pragma in ("journal_mode = WAL", f"synchronous = {'FULL' if power_safe else 'NORMAL'}", f"journal_size_limit = {_WAL_LIMIT}"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if version == 0:
                for statement in _SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def load(self, world: str) -> Kept | None:
        """See `WorldStore.load`."""
        try:
            found = self._db.execute("SELECT id, epoch FROM world").fetchone()
            if found is None:
                return None
            if found[0] != world:
                raise WorldStoreError(f"{self._path} keeps the world {found[0]!r}, not {world!r}: give each world a file of its own.")
            lives = self._db.execute("SELECT npc, newest, acked, first FROM lives").fetchall()
            return Kept(world=world, epoch=found[1], lives=tuple(self._life(*row) for row in lives))
        except (sqlite3.Error, ValueError, KeyError, TypeError, IndexError) as error:
            raise WorldStoreError(
                f"{self._path} cannot be read ({_why(error)}): restore it from a copy, or move it away to begin a new epoch.",
            ) from error

    def _life(self, npc: str, newest: int, acked: int, first: int) -> KeptLife:
        rows = self._db.execute("SELECT body FROM told WHERE npc = ? AND seq >= ? ORDER BY seq", (npc, first))
        told = tuple(_observation(json.loads(body)) for (body,) in rows)
        if told and [o.seq for o in told] != list(range(newest + 1 - len(told), newest + 1)):
            raise ValueError("observations are missing")
        acts = self._db.execute("SELECT id, asked, result FROM acts WHERE npc = ? ORDER BY n", (npc,))
        gates = self._db.execute("SELECT name, body FROM gates WHERE npc = ?", (npc,))
        return KeptLife(
            npc=npc, newest=newest, acked=acked, first=first, told=told, acts=tuple(_act(*row) for row in acts),
            gates=tuple(Gate(name=name, **json.loads(body)) for name, body in gates),
        )  # fmt: skip

    async def keep(self, changes: Kept) -> None:
        """See `WorldStore.keep`.

        Raises:
            WorldStoreError: the disk does not take it; nothing of it was stored.
        """
        await asyncio.get_running_loop().run_in_executor(self._worker, self._keep, changes)

    def _keep(self, changes: Kept) -> None:
        db = self._db
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                db.execute("INSERT OR REPLACE INTO world VALUES(1, ?, ?)", (changes.world, changes.epoch))
                for life in changes.lives:
                    self._keep_life(life)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise WorldStoreError(f"{self._path} cannot be written: {_why(error)}.") from error

    def _keep_life(self, life: KeptLife) -> None:
        db, npc = self._db, life.npc
        if life.afresh:
            db.execute("DELETE FROM told WHERE npc = ?", (npc,))
            db.execute("DELETE FROM gates WHERE npc = ?", (npc,))
        db.execute("INSERT OR REPLACE INTO lives VALUES(?, ?, ?, ?)", (npc, life.newest, life.acked, life.first))
        db.execute("DELETE FROM told WHERE npc = ? AND seq < ?", (npc, life.first))
        db.executemany("INSERT OR REPLACE INTO told VALUES(?, ?, ?)", [(npc, o.seq, _observed(o)) for o in life.told])
        db.executemany(
            "INSERT INTO acts(npc, id, asked, result) VALUES(?, ?, ?, ?)"
            " ON CONFLICT(npc, id) DO UPDATE SET asked = excluded.asked, result = excluded.result",
            [(npc, a.id, _asked(a.act), _ended(a.result)) for a in life.acts],
        )
        db.executemany("DELETE FROM acts WHERE npc = ? AND id = ?", [(npc, name) for name in life.forgotten])
        db.executemany(
            "INSERT OR REPLACE INTO gates VALUES(?, ?, ?)", [(npc, g.name, _written({"value": g.value, "why": g.why})) for g in life.gates]
        )

    async def close(self) -> None:
        """See `WorldStore.close`."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._worker, self._db.close)
        self._worker.shutdown()


def _written(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON in ASCII: lone surrogates come back as they were, what a game's own objects are becomes JSON."""
    try:
        return json.dumps(value, default=json_value, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return json.dumps(json_value(value), separators=(",", ":"))


def _observed(o: Observation) -> str:
    who = o.speaker and [o.speaker.id, o.speaker.name, o.speaker.kind]
    return _written([o.seq, o.t, o.kind, o.text, o.wt, o.data, o.key, o.prio, who, o.to, o.own])


def _observation(row: Sequence[Any]) -> Observation:
    seq, t, kind, text, wt, data, key, prio, who, to, own = row
    speaker = Speaker(id=who[0], name=who[1], kind=who[2]) if who else None
    return Observation(seq=seq, t=t, kind=kind, text=text, wt=wt, data=data, key=key, prio=prio, speaker=speaker, to=to, own=own)


def _asked(act: Act | None) -> str | None:
    return None if act is None else _written([act.name, act.args])


def _ended(result: ActResult | None) -> str | None:
    if result is None:
        return None
    return _written([result.state, result.text, result.data, result.error_code, result.error_message])


def _act(name: str, asked: str | None, result: str | None) -> KeptAct:
    act = end = None
    if asked is not None:
        what, args = json.loads(asked)
        act = Act(id=name, name=what, args=args)
    if result is not None:
        state, text, data, code, message = json.loads(result)
        end = ActResult(id=name, state=ActState(state), text=text, data=data, error_code=code, error_message=message)
    return KeptAct(id=name, act=act, result=end)


def _why(error: Exception) -> str:
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return "another process has it"
    return str(error) or type(error).__name__
