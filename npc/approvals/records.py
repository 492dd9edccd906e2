"""The requests of one NPC in one small SQLite file, written by the NPC and by whoever answers for the operator.

Invariants: each change is one transaction that is on disk before the call returns, and moves a request along `stored.WAYS` only: of two
processes that want different things the first one wins and the other is told so. A file that others than its owner may write is neither
read for decisions nor written. Numbers rise for ever.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from npc.approvals import ownership
from npc.approvals.stored import LIVE, MEANING, WAYS, Asker, Standing, Stored, digest_of, freeze, sameness
from npc.approvals.visible import visible
from npc.errors import Misconfigured, NpcError
from npc.files import reason
from npc.policy.asking import Request
from runtime.store.database import set_aside
from runtime.store.errors import StoreError

#: Seconds to wait for whoever writes at the same time.
PATIENCE_S = 5.0
#: So many of the newest requests are kept when they are over.
KEPT = 300
#: For so long a denied act is not asked for again, in seconds, and so much is counted together for the rate.
HOUR_S = 3_600.0
#: Characters of what a person writes to a decision, and of an outcome.
BECAUSE_CHARS, OUTCOME_CHARS = 500, 2_000
#: Used ids of signed messages are kept for so long, in seconds: longer than any of them is fresh.
USED_S = 3_600.0

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_VERSION = 1
_SCHEMA = (
    (
        "CREATE TABLE IF NOT EXISTS requests(number INTEGER PRIMARY KEY AUTOINCREMENT, frozen TEXT NOT NULL, digest TEXT NOT NULL, "
        "same TEXT NOT NULL, asked_at REAL NOT NULL, lapses_at REAL NOT NULL, standing TEXT NOT NULL, agreed TEXT NOT NULL DEFAULT '', "
        "decided_at REAL NOT NULL DEFAULT 0, by TEXT NOT NULL DEFAULT '', because TEXT NOT NULL DEFAULT '', "
        "operation TEXT NOT NULL DEFAULT '', ended_at REAL NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '', "
        "told INTEGER NOT NULL DEFAULT 0, posted INTEGER NOT NULL DEFAULT 0)"
    ),
    "CREATE INDEX IF NOT EXISTS requests_by_standing ON requests(standing, number)",
    "CREATE TABLE IF NOT EXISTS used(id TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID",
    f"PRAGMA user_version = {_VERSION}",
)
_COLUMNS = tuple(field.name for field in fields(Stored))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM requests"  # noqa: S608 - fixed words
_FLAGS = frozenset({"told", "posted"})


class RecordsError(NpcError):
    """The requests cannot be read or written now; one sentence with the way out."""


class DamagedRecordsError(RecordsError):
    """The file is no sound database any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a request waits in seconds, how many may wait at once, and how many may be made in an hour."""

    lapse_s: float = 1_800.0
    most_open: int = 20
    per_hour: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What became of the wish to ask: the request that waits now (`new`: only since this call), or in `why` the reason for none."""

    stored: Stored | None = None
    new: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of a decision: a sentence about it, the request as it is now, and why it does not count ("": it does)."""

    said: str
    stored: Stored | None = None
    why: Literal["", "unknown", "over", "changed", "used"] = ""

    @property
    def ok(self) -> bool:
        """Whether it counts."""
        return not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the operator decided about one request. `digest`: of what he saw, or its beginning; `message`: id of the signed message."""

    number: int
    approve: bool
    by: str
    digest: str = ""
    because: str = ""
    message: str = ""


class Records:
    """The file in one home. Methods block on the disk and may be called from any thread; each opens the file for itself.

    Raises:
        Misconfigured: (every method) the file could have been written by somebody else, see `ownership`.
        RecordsError: it cannot be read or written.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.path = home, home / ownership.NAME

    # -- reading

    def all(self, *, live: bool = False, limit: int = 500) -> list[Stored]:
        """The newest requests, oldest first; `live`: only those that are not over."""
        if not self.path.exists():
            return []
        where = f" WHERE standing IN ({', '.join('?' * len(LIVE))})" if live else ""
        with self._connected(write=False) as database:
            rows = database.execute(f"{_SELECT}{where} ORDER BY number DESC LIMIT ?", (*(sorted(LIVE) if live else ()), limit)).fetchall()
        return [_stored(row) for row in reversed(rows)]

    def untold(self) -> list[Stored]:
        """Requests that are over and of whose end the NPC does not know, oldest first."""
        if not self.path.exists():
            return []
        with self._connected(write=False) as database:
            live = sorted(LIVE)
            rows = database.execute(
                f"{_SELECT} WHERE told = 0 AND standing NOT IN ({', '.join('?' * len(live))}) ORDER BY number LIMIT 100", live
            ).fetchall()
        return [_stored(row) for row in rows]

    # -- the NPC's side

    def begin(self, *, after: int = 0, now: float = 0.0) -> str:
        """Make sure that there is a sound file whose next number is greater than `after`; what was wrong with the old one, or ""."""
        aside = ""
        try:
            self._begin(after)
        except DamagedRecordsError as error:
            try:
                kept = set_aside(self.path, at=now)
            except StoreError as failure:
                raise RecordsError(str(failure)) from failure
            aside = f"{error}; it is kept as {kept.name}, and all that waited in it counts as not approved"
            self._begin(after)
        return aside

    def _begin(self, after: int) -> None:
        try:
            ownership.make(self.path)
        except OSError as error:
            raise RecordsError(f"{self.path} cannot be made ({reason(error)})") from error
        with self._connected(write=True) as database:
            written = database.execute("PRAGMA user_version").fetchone()[0]
            if written > _VERSION:
                raise RecordsError(f"{self.path} was written by a newer version of this program (schema {written}, known is {_VERSION})")
            for statement in _SCHEMA:
                database.execute(statement)
            newest = database.execute("SELECT seq FROM sqlite_sequence WHERE name = 'requests'").fetchone()
            if newest is None:
                database.execute("INSERT INTO sqlite_sequence(name, seq) VALUES('requests', ?)", (after,))
            elif newest[0] < after:
                database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'requests'", (after,))

    def ask(self, request: Request, asker: Asker, limits: Limits, *, now: float) -> Asked:
        """Put a request down, unless the same one is under way or was denied just now, or too many are."""
        try:
            same = sameness(request)
        except ValueError as error:
            return Asked(why=f"it cannot be put before the operator: {error}")
        hour = (now - HOUR_S, now + HOUR_S)  # what a clock that was wrong put further ahead would count for ever
        with self._connected(write=True) as database:
            rows = database.execute(
                f"{_SELECT} WHERE same = ? AND (standing IN ('open', 'approved', 'acting') "
                "OR (standing = 'denied' AND decided_at BETWEEN ? AND ?)) ORDER BY number DESC LIMIT 1",
                (same, *hour),
            ).fetchall()
            known = _stored(rows[0]) if rows else None
            if known and known.standing is Standing.DENIED:
                because = f": {known.because}" if known.because else ""
                return Asked(why=f"the operator denied just this ({known.id}){because}")
            if known and (known.standing is not Standing.OPEN or now < known.lapses_at):
                return Asked(stored=known)
            waiting = database.execute("SELECT count(*) FROM requests WHERE standing = 'open' AND lapses_at > ?", (now,)).fetchone()[0]
            if waiting >= limits.most_open:
                return Asked(why=f"{waiting} requests wait for the operator already, so this one was not put before him")
            lately = database.execute("SELECT count(*) FROM requests WHERE asked_at BETWEEN ? AND ?", hour).fetchone()[0]
            if lately >= limits.per_hour:
                return Asked(why=f"the operator was asked {lately} times within the hour, so this one was not put before him")
            lapses = now + limits.lapse_s
            values = ("", "", same, now, lapses, Standing.OPEN)
            number = database.execute(
                "INSERT INTO requests(frozen, digest, same, asked_at, lapses_at, standing) VALUES(?, ?, ?, ?, ?, ?)", values
            ).lastrowid
            try:
                frozen = freeze(request, asker, number=number or 0, asked_at=now, lapses_at=lapses)
            except ValueError as error:
                database.rollback()
                return Asked(why=f"it cannot be put before the operator: {error}")
            database.execute("UPDATE requests SET frozen = ?, digest = ? WHERE number = ?", (frozen, digest_of(frozen), number))
            database.execute(
                "DELETE FROM requests WHERE told = 1 AND number <= (SELECT max(number) FROM requests) - ?", (KEPT,)
            )
            stored = _found(database, number or 0)
        return Asked(stored=stored, new=True)

    def lapse(self, *, now: float) -> list[Stored]:
        """Requests that nobody answered in time, and approved ones that could not be begun in time, are over; which."""
        with self._connected(write=True) as database:
            rows = database.execute(
                f"{_SELECT} WHERE (standing = 'open' AND lapses_at <= ?) "
                "OR (standing = 'approved' AND decided_at + lapses_at - asked_at <= ?)",
                (now, now),
            ).fetchall()
            over = [_stored(row) for row in rows]
            for one in over:
                why = "nobody answered in time" if one.standing is Standing.OPEN else "it was approved, but could not be begun in time"
                self._move(database, one, Standing.LAPSED, ended_at=now, outcome=why, by=one.by or "clock")
            return [found for one in over if (found := _found(database, one.number))]

    def claim(self, number: int, operation: str, *, now: float, home: str | None = None) -> Stored | None:
        """Take an approved request to carry it out under an operation id; None if it is not (or no longer) there to be carried out.

        What was approved must be just what is stored, and asked by the NPC of this `home` (its identity): otherwise it lapses here.
        """
        with self._connected(write=True) as database:
            found = _found(database, number)
            if found is None or found.standing is not Standing.APPROVED:
                return None
            if not found.sound or found.agreed != found.digest or now >= found.good_until:
                why = "it was approved, but could not be begun in time" if found.sound else "its words are not those that were approved"
                self._move(database, found, Standing.LAPSED, ended_at=now, outcome=why)
                return None
            if home is not None and found.words.get("home") != home:
                why = "it was asked in another home, or before the journal of this one was lost"
                self._move(database, found, Standing.LAPSED, ended_at=now, outcome=why)
                return None
            self._move(database, found, Standing.ACTING, operation=operation)
            return _found(database, number)

    def release(self, number: int) -> None:
        """What was claimed was certainly not begun: it is there to be carried out again."""
        with self._connected(write=True) as database:
            found = _found(database, number)
            if found and found.standing is Standing.ACTING:
                self._move(database, found, Standing.APPROVED, operation="")

    def finish(self, number: int, standing: Standing, outcome: str, *, now: float) -> Stored | None:
        """What came of a request that was carried out; None if it was not being carried out."""
        with self._connected(write=True) as database:
            found = _found(database, number)
            if found is None or found.standing is not Standing.ACTING:
                return None
            self._move(database, found, standing, ended_at=now, outcome=outcome[:OUTCOME_CHARS])
            return _found(database, number)

    def told(self, number: int) -> None:
        """The NPC knows how it ended."""
        with self._connected(write=True) as database:
            database.execute("UPDATE requests SET told = 1 WHERE number = ?", (number,))

    def posted(self, number: int) -> None:
        """The webhook has taken it."""
        with self._connected(write=True) as database:
            database.execute("UPDATE requests SET posted = 1 WHERE number = ?", (number,))

    # -- the operator's side

    def decide(self, decision: Decision, *, now: float) -> Answered:
        """The operator's word. Said too late, twice, about nothing or about other words than these, it changes nothing and says so."""
        nothing = Answered(why="unknown", said=f"there is no request A{decision.number}: `npc approvals list --all` names them")
        if not self.path.exists():
            return nothing
        with self._connected(write=True) as database:
            if decision.message:
                database.execute("DELETE FROM used WHERE at < ?", (now - USED_S,))
                if database.execute("INSERT OR IGNORE INTO used(id, at) VALUES(?, ?)", (decision.message, now)).rowcount == 0:
                    return Answered(why="used", said="this message was used already: nothing was done")
            found = _found(database, decision.number)
            if found is None:
                return nothing
            if found.standing is not Standing.OPEN:
                return Answered(why="over", said=_over(found), stored=found)
            if now >= found.lapses_at:
                self._move(database, found, Standing.LAPSED, ended_at=now, outcome="nobody answered in time", by="clock")
                late = _found(database, decision.number) or found
                return Answered(why="over", said=_over(late), stored=late)
            if not found.sound or (decision.digest and not found.bound_by(decision.digest)):
                said = f"{found.id} is not what that digest is of: look at it again with `npc approvals list`; nothing was decided"
                return Answered(why="changed", said=said, stored=found)
            because = visible(" ".join(decision.because.split())[:BECAUSE_CHARS])
            if decision.approve:
                self._move(
                    database, found, Standing.APPROVED, agreed=found.digest, decided_at=now, by=decision.by, because=because
                )
                said = f"{found.id} is approved"
            else:
                self._move(
                    database, found, Standing.DENIED, decided_at=now, ended_at=now, by=decision.by, because=because,
                    outcome="the operator denied it",
                )  # fmt: skip
                said = f"{found.id} is denied"
            return Answered(said=said, stored=_found(database, decision.number))

    # -- the file

    @staticmethod
    def _move(database: sqlite3.Connection, stored: Stored, to: Standing, **values: object) -> None:
        if to not in WAYS.get(stored.standing, frozenset()):
            raise RecordsError(f"{stored.id} cannot go from {stored.standing} to {to}")
        names = "".join(f", {name} = ?" for name in values)
        database.execute(
            f"UPDATE requests SET standing = ?{names} WHERE number = ? AND standing = ?",  # noqa: S608 - names of this module's own columns
            (to, *values.values(), stored.number, stored.standing),
        )

    @contextlib.contextmanager
    def _connected(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """The file, within one transaction if it is to be written; committed at the end, taken back if anything is raised."""
        if why := ownership.objection(self.home):
            raise Misconfigured(why)
        try:
            # Also to read: what a process that was killed has left half done is taken back by the next one that opens the file.
            database = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=rw", uri=True, timeout=PATIENCE_S, isolation_level=None)
        except sqlite3.Error as error:
            raise self._error(error) from error
        try:
            database.text_factory = _text
            if write:
                database.execute("PRAGMA synchronous = EXTRA")  # the end of a transaction is a file that goes: its folder is synced too
                database.execute("BEGIN IMMEDIATE")
            yield database
            if database.in_transaction:
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._error(error) from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                if database.in_transaction:
                    database.execute("ROLLBACK")
            with contextlib.suppress(sqlite3.Error):
                database.close()

    def _error(self, error: sqlite3.Error) -> RecordsError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            return DamagedRecordsError(f"{self.path} is damaged ({error})")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return RecordsError(f"another process holds {self.path} locked: try again in a moment")
        if code == sqlite3.SQLITE_FULL:
            return RecordsError(f"{self.path} cannot be written: the disk is full")
        return RecordsError(f"{self.path} cannot be used: {error}")


def _found(database: sqlite3.Connection, number: int) -> Stored | None:
    row = database.execute(f"{_SELECT} WHERE number = ?", (number,)).fetchone()
    return _stored(row) if row else None


def _stored(row: Sequence[object]) -> Stored:
    values = dict(zip(_COLUMNS, row, strict=True))
    try:
        values["standing"] = Standing(str(values["standing"]))
    except ValueError:
        values["standing"] = Standing.REFUSED  # a word of another version, or none: nothing is done about it
    return Stored(**{name: bool(value) if name in _FLAGS else value for name, value in values.items()})  # type: ignore[arg-type]  # SQLite's own types


def _over(stored: Stored) -> str:
    """Why a decision comes too late, in one sentence."""
    at = stored.decided_at or stored.ended_at
    when = f" at {datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC" if at else ""
    match stored.standing:
        case Standing.LAPSED:
            return f"{stored.id} has lapsed ({stored.outcome}): nothing was done, and the NPC has to ask again"
        case Standing.DENIED:
            return f"{stored.id} was denied already{when}: it stays so"
        case _:
            return f"{stored.id} was approved already{when} ({MEANING[stored.standing]}): it is done once and not again"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
