"""A home folder looked at from outside: who lives there, its files, its database, its disk.

Invariant: looking changes nothing, whether somebody lives there or not; each `check_` is a plain function of what was found.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from diaries import DiaryError
from npc.constitution import MAX_RULES, Constitution
from npc.doctor.finding import Finding, Level, fine, told, warn, wrong
from npc.errors import Misconfigured
from npc.files import reason
from npc.home import Home
from npc.manifest import Manifest
from npc.state import State
from runtime.core.messages import Count
from runtime.core.session import Session, Settings
from runtime.store.errors import DamagedError, StoreError
from runtime.store.journal import Journal

#: Free bytes below which a life cannot last, and below which it will not for long.
FULL, NEARLY_FULL = 64 << 20, 512 << 20
#: A database larger than this takes long to open and to copy, in bytes.
LARGE = 4 << 30
#: Writing a few bytes durably may take so long, in seconds: each act waits for it.
SLOW_S = 0.5
#: Clocks may differ by so much, in seconds.
CLOCK_S = 300.0
YEARS = range(2025, 2100)
#: What keys to models look like; none of them belongs into a text that is sent to one.
KEY = re.compile(r"\bsk-[A-Za-z0-9_-]{16,}")


@contextmanager
def vacant(home: Path) -> Iterator[str]:
    """Keep a home from being moved into for a moment; gives who lives there ("process 17"), "" if nobody does."""
    try:
        fd = os.open(home / ".lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield ""  # nobody ever lived there, or we may not know
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tenant = ""
    except BlockingIOError:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
        tenant = f"process {owner}" if owner.isdecimal() else "another process"
    except OSError:
        tenant = ""
    try:
        yield tenant
    finally:
        os.close(fd)


# ---------------------------------------------------------------- files that people edit
def constitution_of(home: Home, default: Constitution) -> tuple[Constitution, list[Finding]]:
    """The rules in force, or those that would be, and what is wrong with them."""
    try:
        if not os.path.lexists(home.constitution_path):
            return default, [check_no_constitution(home.constitution_path, lived=home.exists())]
        found = home.constitution()
    except Misconfigured as error:
        return default, [told("constitution", str(error))]
    except OSError as error:
        return default, [wrong("constitution", f"{home.constitution_path} cannot be read ({reason(error)})", "mend its rights")]
    return found, check_constitution(found, home.constitution_path)


def check_no_constitution(path: Path, *, lived: bool) -> Finding:
    """A new home gets the default rules; an old one has lost its own."""
    if lived:
        what = f"{path} is missing: the default rules would be put there"
        return warn("constitution", what, "put the rules back, ten to fifteen, one a line")
    return fine("constitution", "the default rules will be put into the new home: edit its constitution.md")


def check_constitution(found: Constitution, path: Path) -> list[Finding]:
    """How many rules, and whether the short form can hold them."""
    number = len(found.rules)
    if not number:
        return [warn("constitution", f"{path} holds no rules: nothing binds this character", "write ten to fifteen, one a line")]
    if number > MAX_RULES:
        what = f"{path} has {number} rules: more than {MAX_RULES} are hard to keep, and each costs tokens at every step"
        return [warn("constitution", what, "say the same in ten to fifteen lines, the most important first")]
    return [fine("constitution", f"{number} rule{'s' if number > 1 else ''}")]


def check_no_keys(texts: dict[str, str]) -> list[Finding]:
    """Keys in what is sent to the model; `texts` by the name of where they stand."""
    return [
        wrong("secrets", f"{where} holds what looks like a key: everything there is sent to the model", "take it out and make a new key")
        for where, text in texts.items()
        if KEY.search(text)
    ]


def check_state(state: State | None) -> Finding:
    """The state file; None where there is none yet."""
    if state is None:
        return fine("state", "none yet: it is made at the first start")
    if state.warnings:
        return told("state", state.warnings[0], level=Level.ERROR if state.fallback else Level.WARN)
    asked = sum(1 for one in state.operator_questions if not one.answer)
    if asked:
        what = f"{asked} question{'s' if asked > 1 else ''} to the operator without an answer; what they are about is held back"
        return warn("state", what, "write the answers into state.json, under operator_questions")
    return fine("state", f"readable, {len(state.gates)} gates set")


def state_of(home: Home) -> State | None:
    """The state, if there is a file."""
    return home.state() if os.path.lexists(home.state_path) else None


def check_log(home: Home) -> Finding:
    """The checkpoints in words."""
    path = home.log_path
    if not os.path.lexists(path):
        return fine("log", "none yet: it is made at the first checkpoint")
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 8_192))
            end = file.read()
    except OSError as error:
        return wrong("log", f"{path} cannot be read ({reason(error)})", "mend its rights, or move it away: a new one is begun")
    if b"\0" in end or "\ufffd" in end.decode(errors="replace")[4:]:
        return warn("log", f"the end of {path} is no text", "move it away: a new one is begun")
    return fine("log", "readable")


def check_diary(home: Home) -> Finding:
    """The diary, whole."""
    try:
        listing = home.diary.entries()
    except DiaryError as error:
        return wrong("diary", str(error), "mend the rights on its folder, or move it away: a new one is begun")
    if listing.notes:
        more = f" (and {len(listing.notes) - 1} more)" if len(listing.notes) > 1 else ""
        fix = f"take the broken lines out of {home.diary.path}, or leave them: they are passed over"
        return warn("diary", f"{listing.notes[0]}{more}", fix)
    return fine("diary", f"{len(listing.entries):,} entries" if listing.entries else "empty yet")


# ---------------------------------------------------------------- the disk
@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What was found where a home is or will be. `problem`: why nothing can be written durably, "" if it can, which took `seconds`."""

    folder: Path
    free: int = 0
    seconds: float = 0.0
    problem: str = ""


def disk_of(home: Path) -> Disk:
    """Write a file without a name, durably; nothing of it stays."""
    folder = home.absolute()
    while not os.path.lexists(folder) and folder.parent != folder:
        folder = folder.parent
    try:
        free = shutil.disk_usage(folder).free
        start = time.monotonic()
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 16_384)
            file.flush()
            os.fsync(file.fileno())
        return Disk(folder=folder, free=free, seconds=time.monotonic() - start)
    except OSError as error:
        return Disk(folder=folder, problem=reason(error))


def check_disk(disk: Disk) -> Finding:
    """Room, rights and speed."""
    if disk.problem:
        what = f"nothing can be written in {disk.folder} ({disk.problem})"
        return wrong("disk", what, "mend its rights, or name another folder with --home DIR")
    free = f"{disk.free / (1 << 20):,.0f} MB free"
    if disk.free < FULL:
        fix = "free some space, or name a folder on another disk with --home DIR"
        return wrong("disk", f"{disk.folder}: {free}, too little to live on", fix)
    if disk.free < NEARLY_FULL:
        return warn("disk", f"{disk.folder}: {free}; a busy NPC writes some 100 MB a week", "free some space")
    if disk.seconds > SLOW_S:
        what = f"{disk.folder}: writing durably takes {disk.seconds:.1f} s, and the NPC waits for it before every act"
        return warn("disk", what, "put the home on a disk of this machine, with --home DIR")
    return fine("disk", f"{free}, durable in {1_000 * disk.seconds:.0f} ms")


# ---------------------------------------------------------------- the database
@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """What was found in a journal.

    Attributes:
        path: the file.
        problem: why it cannot be used, "" if it can.
        damaged: whether its contents are.
        size: bytes.
        last_id: of its newest event, written at `last_at` (unix seconds).
        turns: whether it ever lived through a turn.
        identity: its own name, None where it has none yet.
        session: why the stored session cannot be taken up; "" if it can; None where there is none.
    """

    path: Path
    problem: str = ""
    damaged: bool = False
    size: int = 0
    last_id: int = 0
    last_at: float = 0.0
    turns: bool = False
    identity: str | None = None
    session: str | None = None


async def database_of(path: Path, settings: Settings | None, count: Count) -> Database | None:
    """Read it beside whoever writes it; None where there is none."""
    if not await asyncio.to_thread(os.path.lexists, path):
        return None
    try:
        size = (await asyncio.to_thread(path.stat)).st_size
        async with await Journal.open(path, read_only=True) as journal:
            newest = await journal.events(limit=1, newest=True)
            turns = await journal.events(kinds=("turn",), limit=1, newest=True)
            text = await journal.load_checkpoint("session")
            return Database(
                path=path, size=size, last_id=journal.last_id, last_at=newest[0].at if newest else 0.0, turns=bool(turns),
                identity=await journal.load_checkpoint("identity"), session=None if text is None else _unusable(text, settings, count),
            )  # fmt: skip
    except StoreError as error:
        return Database(path=path, problem=str(error), damaged=isinstance(error, DamagedError))
    except OSError as error:
        return Database(path=path, problem=f"{path} cannot be read ({reason(error)})")


def _unusable(text: str, settings: Settings | None, count: Count) -> str:
    """Why a stored session cannot be taken up."""
    try:
        stored = json.loads(text)
        if settings is not None:
            Session.restore(stored["session"], settings, count)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check_database(found: Database | None, *, now: float) -> Finding:
    """The file itself."""
    if found is None:
        return fine("database", "none yet: it is made at the first start")
    if found.damaged:
        fix = "put a copy from before in its place, or start the NPC: the damaged file is kept beside a fresh one, and it forgets"
        return wrong("database", found.problem, fix)
    if found.problem:
        return wrong("database", found.problem, "mend the rights on the file, or use the newer program that wrote it")
    if found.size > LARGE:
        what = f"{found.path.name} has {found.size / (1 << 30):,.1f} GB and is slow to open"
        return warn("database", what, "stop the NPC, move session.db away, and start it anew: state, diary and log stay")
    ago = max(0.0, now - found.last_at)
    age = f", the newest {ago / 3_600:,.1f} h ago" if found.last_at else ""
    return fine("database", f"sound, {found.size / (1 << 20):,.1f} MB, {found.last_id:,} events{age}")


def check_life(found: Database | None, manifest: Manifest | str, *, name: str, tenant: str) -> list[Finding]:
    """Whether a life would be taken up again, by the rules of `Character`."""
    if tenant:
        return [fine("life", f"this NPC lives here now ({tenant}): its home is only looked at, its world is left alone")]
    if found is None:
        if isinstance(manifest, Manifest):
            what = f"session.db is missing, and manifest.json tells of {manifest.lives} lives: all that was heard and promised is gone"
            return [wrong("life", what, "put session.db back from a copy, or remove manifest.json to begin afresh on purpose")]
        return [fine("life", "a first one")]
    if found.problem or (not found.last_id and found.identity is None):
        return []
    out = []
    if isinstance(manifest, Manifest) and name and manifest.npc != name:
        what = f"this is the home of {manifest.npc}, and the persona is {name}'s"
        out.append(warn("life", what, "give each NPC its own --home DIR, or the persona its old name"))
    if found.identity is not None and (isinstance(manifest, str) or manifest.identity != found.identity):
        why = manifest if isinstance(manifest, str) else "is of another journal"
        fix = "put manifest.json back from the copy that session.db is of, or let it begin afresh: the old session is kept in sessions/"
        out.append(warn("life", f"manifest.json {why}: the stored session would be set aside", fix))
    elif found.session:
        what = f"the last checkpoint cannot be taken up ({found.session})"
        out.append(warn("life", what, "use the version that wrote it, or let it begin afresh: the checkpoint is set aside, not lost"))
    elif found.session is None and found.turns:
        what = "there is no whole checkpoint of the session: the next life begins with nothing in its window"
        out.append(warn("life", what, "put session.db back from a copy, or let it begin afresh: diary, state and log stay"))
    return out or [fine("life", f"will be taken up again ({manifest.lives} before)" if isinstance(manifest, Manifest) else "a first one")]


# ---------------------------------------------------------------- clocks
def check_clock(*, now: float, last_at: float = 0.0, others: dict[str, float] | None = None) -> list[Finding]:
    """Our clock against the year, the last event, and others' (seconds ahead of ours, by whose they are)."""
    year = time.gmtime(now).tm_year
    set_it = "set this machine's clock, and let it follow a time server (timedatectl set-ntp true)"
    out = []
    if year not in YEARS:
        out.append(wrong("clock", f"this machine has the year {year}", set_it))
    if last_at - now > CLOCK_S:
        ahead = _span(last_at - now)
        out.append(wrong("clock", f"the newest event in the log lies {ahead} in the future: the clock was wrong then, or is now", set_it))
    for whose, ahead_s in (others or {}).items():
        if abs(ahead_s) > CLOCK_S:
            side = "ahead of" if ahead_s > 0 else "behind"
            out.append(warn("clock", f"{whose} is {_span(abs(ahead_s))} {side} this machine's", set_it))
    return out or [fine("clock", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now)))]


def _span(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
