"""An NPC's home: the folder in which all that it is lies open to its operator.

    constitution.md   the rules, edited by people        persona.toml   the persona as used
    state.json        what it is at, and its gates       log.md         checkpoints in words
    diary/            its diary                          sessions/      whole sessions, kept at hard resets
    session.db        the event log and its checkpoints  manifest.json  what a life is taken up from
    policy.toml       what it may do, edited by people
    .lock             who lives here now

Invariants. At most one process has a home open; looking into one leaves no trace. What people wrote is never lost to us. A full disk never
stops the NPC: each thing to be kept goes down a ladder of places, memory the last, and the answer says which took it.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR
from types import TracebackType
from typing import Literal, Self

from platformdirs import user_data_path

from diaries import Book, DiaryError, Entry
from diaries.text import clean_text
from npc.constitution import Constitution, ConstitutionFile
from npc.errors import Misconfigured, Usage
from npc.files import extend_file, reason, replace_file
from npc.persona import Persona, load_persona
from npc.state import Asked, Scalar, State, StateFile

Rung = Literal["full", "packed", "cut", "elsewhere", "memory"]

#: The smallest dump of a session: its beginning and its end, in characters.
CUT_HEAD = 2_000
CUT_TAIL = 6_000
#: What is held in memory when no disk takes it: dumps (cut) and diary entries.
MEMORY_DUMPS = 4
MEMORY_ENTRIES = 64
#: The longest text of one log entry, in characters.
MAX_LOG_TEXT = 20_000
#: The largest log, in bytes: what is longer is put aside under the name of its month, and a new one begun.
MAX_LOG = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """How a session was kept: `full`, `packed` (gzip), `cut` (beginning and end), `elsewhere` (another disk) or only in `memory`.

    `alarm` is empty for a full dump, else a sentence for the operator. `path` is None for memory.
    """

    how: Rung
    path: Path | None
    alarm: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A diary entry and where it went: the `diary`, `elsewhere` (a diary on another disk) or `memory`; `alarm` as for `Dump`."""

    entry: Entry
    how: Literal["diary", "elsewhere", "memory"]
    alarm: str = ""


class Home:
    """The home in `path`. Reading needs nothing; writing needs `open`, which takes the lock. Methods block on the disk."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.diary = Book(path / "diary")
        self.unkept: deque[tuple[str, str]] = deque(maxlen=MEMORY_DUMPS)  # name and text of dumps that only memory took
        self._clock = clock
        self._constitution = ConstitutionFile(self.constitution_path)
        self._state = StateFile(self.state_path, clock=clock)
        self.redact: Callable[[str], str] = lambda text: text  # takes secrets out of what is written here
        self._waiting: deque[Entry] = deque(maxlen=MEMORY_ENTRIES)
        self._lock: int | None = None

    @property
    def constitution_path(self) -> Path:
        """The rules."""
        return self.path / "constitution.md"

    @property
    def state_path(self) -> Path:
        """The state."""
        return self.path / "state.json"

    @property
    def log_path(self) -> Path:
        """The checkpoints in words."""
        return self.path / "log.md"

    @property
    def persona_path(self) -> Path:
        """The persona as used."""
        return self.path / "persona.toml"

    @property
    def database_path(self) -> Path:
        """The event log."""
        return self.path / "session.db"

    @property
    def policy_path(self) -> Path:
        """The operator's rules of what it may do; there need be none."""
        return self.path / "policy.toml"

    @property
    def manifest_path(self) -> Path:
        """What the home vouches for."""
        return self.path / "manifest.json"

    @property
    def sessions_path(self) -> Path:
        """The folder of kept sessions."""
        return self.path / "sessions"

    def exists(self) -> bool:
        """Whether an NPC ever lived here."""
        return any(path.exists() for path in (self.persona_path, self.state_path, self.constitution_path, self.diary.path))

    def open(self, persona: Persona | None = None) -> tuple[str, ...]:
        """Move in: take the lock, make what is missing, keep `persona` as used. Returns warnings, a sentence each.

        Raises `Misconfigured` if another process lives here, the folder cannot be used, or the constitution cannot be read.
        """
        if self._lock is not None:
            raise Misconfigured(f"{self.path} is open already in this process: one NPC has one home")
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = _lock(self.path)
            warnings = self._settle(persona)
            return (*warnings, *self.constitution().warnings, *self.state().warnings)
        except OSError as error:
            self.close()
            raise Misconfigured(
                f"the home folder {self.path} cannot be used ({reason(error)}): mend that, or name another folder with --home DIR"
            ) from error
        except Misconfigured:
            self.close()
            raise

    def close(self) -> None:
        """Move out: what still waits in memory is tried once more, and the lock is released. Twice is once."""
        if self._lock is not None:
            self._write_waiting()
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        if self._lock is None:
            self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def constitution(self) -> Constitution:
        """The rules in force now, read afresh if the file changed; the same object otherwise. See `ConstitutionFile.read`."""
        return self._constitution.read()

    def state(self) -> State:
        """The state now, read afresh if the file changed. See `StateFile.read`."""
        return self._state.read()

    def write_state(
        self,
        *,
        phase: str | None = None,
        next_action: str | None = None,
        open_questions: Iterable[str] | None = None,
        notes_for_future_self: Iterable[str] | None = None,
    ) -> State:
        """Change the fields that are given. See `StateFile.write`; gates are out of its reach."""
        clean = self.redact
        return self._state.write(
            phase=None if phase is None else clean(phase),
            next_action=None if next_action is None else clean(next_action),
            open_questions=None if open_questions is None else [clean(question) for question in open_questions],
            notes_for_future_self=None if notes_for_future_self is None else [clean(note) for note in notes_for_future_self],
        )

    def note(self, text: str) -> State:
        """Add a note for the future self."""
        return self._state.note(self.redact(text))

    def ask(self, question: str) -> State:
        """Add an open question."""
        return self._state.ask(self.redact(question))

    def ask_operator(self, question: str, action: str = "") -> Asked:
        """Store a question for the operator, and hold the action that it is about. See `StateFile.ask_operator`."""
        return self._state.ask_operator(self.redact(question), self.redact(action))

    def write_gate(self, name: str, value: Scalar, why: str) -> State:
        """Set a gate field: for code that verified something, and for operators. See `StateFile.write_gate`."""
        return self._state.write_gate(name, self.redact(value) if isinstance(value, str) else value, self.redact(why))

    def append_log(self, text: str) -> str:
        """Add an entry to log.md under the real time (UTC). Returns "" or, where the disk did not take it, a sentence that says so."""
        moment = datetime.fromtimestamp(self._clock(), UTC)
        # Only our own headings may look like one: a reader of the log goes by them.
        body = re.sub(r"^(?=#)", r"\\", clean_text(self.redact(text), MAX_LOG_TEXT), flags=re.MULTILINE)
        try:
            self._turn_log(f"log-{moment:%Y-%m}")
            extend_file(self.log_path, f"## {moment:%Y-%m-%d %H:%M:%S} UTC\n\n{body}\n\n".encode())
        except OSError as error:
            return f"{self.log_path} cannot be written ({reason(error)}): free some space; the checkpoint was left out"
        return ""

    def _turn_log(self, name: str) -> None:
        """Put a log that has become too long aside, whole."""
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size < MAX_LOG:
                return
            aside, number = self.path / f"{name}.md", 1
            while aside.exists():
                number += 1
                aside = self.path / f"{name}-{number}.md"
            self.log_path.rename(aside)

    def log_tail(self, limit: int) -> str:
        """The last entries of the log, whole ones, that fit into `limit` characters (of one that is longer, its end); "" for no log."""
        most = max(1, limit) * 4 + 4  # bytes: no character has more than four
        try:
            with self.log_path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - most))
                text = file.read().decode(errors="ignore").strip()
        except OSError:
            return ""
        if len(text) <= limit and size <= most:
            return text
        tail = text[-max(1, limit) :]
        start = tail.find("\n## ")
        return tail if start < 0 or tail.startswith("## ") else tail[start + 1 :]

    def dump_session(self, name: str, text: str) -> Dump:
        """Keep a whole session under `sessions/`, whatever the disk is like: whole, packed, cut, on another disk, in memory.

        `name` may end in a suffix such as `.json`; without one the file is a `.txt`.
        Never raises and never writes over an older dump. A lone surrogate is kept as its JSON escape.
        """
        text = self.redact(text)
        plain = Path(slug(name))
        name, ending = plain.stem, plain.suffix or ".txt"
        cut = text
        if len(text) > CUT_HEAD + CUT_TAIL:
            missing = len(text) - CUT_HEAD - CUT_TAIL
            cut = f"{text[:CUT_HEAD]}\n[… {missing} characters were left out, the disk was full …]\n{text[-CUT_TAIL:]}"
        why = ""
        self._write_waiting()
        for find in (lambda: self.sessions_path, self._elsewhere):
            folder = find()
            if folder is None:
                continue
            for how, suffix, data in _forms(text, cut, ending):
                try:
                    path = _write_new(folder, name, suffix, data)
                except OSError as error:
                    why = why or reason(error)
                    continue
                if how == "full" and folder == self.sessions_path:
                    return Dump(how="full", path=path)
                alarm = f"a session could not be kept whole in {self.sessions_path} ({why}), it was kept as {path}: free some space"
                return Dump(how=how if folder == self.sessions_path else "elsewhere", path=path, alarm=alarm)
        self.unkept.append((name, cut))
        return Dump(how="memory", path=None, alarm=f"the session {name} is in memory only, no disk took it ({why}): free some space now")

    def keep_entry(self, entry: Entry) -> Kept:
        """Write a diary entry, whatever the disk is like: in the diary, in a diary on another disk, in memory. Never raises.

        What the diary did not take waits, and is written into it with the next entry that it takes.
        """
        entry = replace(entry, text=self.redact(entry.text))
        try:
            self._write_waiting()
            written = self.diary.append(entry)
            return Kept(entry=written.entry, how="diary", alarm=" ".join(written.warnings))
        except DiaryError as error:
            entry = replace(entry, id="")
            self._waiting.append(entry)
            elsewhere = self._elsewhere()
            if elsewhere is not None:
                book = Book(elsewhere / "diary")
                with suppress(DiaryError):
                    return Kept(entry=book.append(entry).entry, how="elsewhere", alarm=f"{error}; until then it is in {book.path}")
            return Kept(entry=entry, how="memory", alarm=f"{error}; until then it is in memory only")

    def _write_waiting(self) -> None:
        """What waits in memory goes where it belongs, the oldest first, up to the first thing that the disk does not take."""
        with suppress(DiaryError):
            while self._waiting:
                self.diary.append(self._waiting[0])
                self._waiting.popleft()
        with suppress(OSError):
            while self.unkept:
                name, cut = self.unkept[0]
                _write_new(self.sessions_path, name, ".cut.txt", cut.encode(errors="backslashreplace"))
                self.unkept.popleft()

    def _elsewhere(self) -> Path | None:
        """A folder for this home among the system's temporary files, which may lie on another disk; None where there can be none."""
        mark = hashlib.sha256(os.fsencode(self.path.absolute())).hexdigest()[:8]
        try:
            folder = Path(tempfile.gettempdir()) / f"npc-{os.getuid()}-{mark}"
            folder.mkdir(mode=0o700, exist_ok=True)
            # Temporary files are everybody's: a folder of that name may be somebody else's, or lead somewhere else.
            stat = folder.lstat()
            ours = stat.st_uid == os.getuid() and S_ISDIR(stat.st_mode) and not stat.st_mode & 0o077
            return folder if ours else Path(tempfile.mkdtemp(prefix="npc-"))
        except OSError:
            return None

    def _settle(self, persona: Persona | None) -> tuple[str, ...]:
        """Make what is missing; a warning for each thing that is not as it should be."""
        for folder in (self.path, self.diary.folder, self.sessions_path):
            folder.mkdir(exist_ok=True)
            for draft in folder.glob(".*.tmp"):
                draft.unlink(missing_ok=True)  # what a process that died was writing
        if not self.constitution_path.exists():
            replace_file(self.constitution_path, default_constitution().encode())
        self._state.own()
        if persona is None:
            return ()
        try:
            return (*persona.warnings, *self._keep_persona(persona))
        except OSError as error:
            return (*persona.warnings, f"the persona could not be copied to {self.persona_path} ({reason(error)})")

    def _keep_persona(self, persona: Persona) -> tuple[str, ...]:
        """Copy the persona as used, unless it is the copy. The one before stays beside it."""
        kept = self.persona_path
        text = persona.to_toml().encode(errors="replace")
        if not kept.exists():
            replace_file(kept, text)
            return ()
        if kept.read_bytes() == text or (persona.path is not None and persona.path.exists() and persona.path.samefile(kept)):
            return ()
        try:
            before = load_persona(kept).character.name
        except Misconfigured:
            before = persona.character.name
        replace_file(kept.with_name("persona.previous.toml"), kept.read_bytes())
        replace_file(kept, text)
        if before == persona.character.name:
            return ()
        return (f"{self.path} was the home of {before} and is now that of {persona.character.name}: give each NPC its own --home DIR",)


def default_home(name: str) -> Path:
    """Where the NPC of this name lives unless it is told otherwise."""
    return homes_root() / slug(name)


def homes_root() -> Path:
    """The folder of all homes that were not given one of their own."""
    return user_data_path("npc", appauthor=False)


def find_home(given: Path | None) -> Home:
    """The home that a command is about: the one given or, without one, the only one there is. Raises `Usage` otherwise."""
    if given is not None:
        home = Home(given)
        if not home.exists():
            raise Usage(f"no NPC lives in {given}: name the folder that was given to `npc attach` as --home DIR")
        return home
    root = homes_root()
    found = sorted(path for path in (root.iterdir() if root.is_dir() else ()) if Home(path).exists())
    if not found:
        raise Usage(f"no NPC lives in {root} yet: start one with `npc attach`, or name its folder with --home DIR")
    if len(found) > 1:
        raise Usage(f"{len(found)} NPCs live in {root} ({', '.join(path.name for path in found[:8])}): say which with --home {found[0]}")
    return Home(found[0])


def default_constitution() -> str:
    """The rules that a new home begins with."""
    return (Path(__file__).parent / "examples" / "constitution.md").read_text(encoding="utf-8")


def slug(name: str) -> str:
    """A name as a name of a file, in any script: `Captain Oda!` is `captain-oda`. Never empty, never with a dot in front."""
    plain = re.sub(r"[^\w.-]+", "-", name.casefold().encode(errors="ignore").decode()).strip("-._")
    while len(plain.encode()) > 100:
        plain = plain[:-1]
    return plain or f"npc-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def _lock(folder: Path) -> int:
    """An open file that holds the lock of a home for as long as it is open: until it is closed, or the process dies, however it dies."""
    fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        who = f"process {owner}" if owner.isdecimal() else "another process"
        raise Misconfigured(f"{folder} is lived in by {who}: stop that one, or give this NPC another folder with --home DIR") from error
    except OSError:
        os.close(fd)
        raise
    with suppress(OSError):  # a full disk: the lock holds all the same, only the refusal cannot name us
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _forms(text: str, cut: str, ending: str) -> Iterator[tuple[Rung, str, bytes]]:
    """A dump in ever fewer bytes."""
    data = text.encode(errors="backslashreplace")
    yield "full", ending, data
    yield "packed", f"{ending}.gz", gzip.compress(data, mtime=0)
    yield "cut", ".cut.txt", cut.encode(errors="backslashreplace")


def _write_new(folder: Path, name: str, suffix: str, data: bytes) -> Path:
    """A new file with this content, durable; whole or not there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, number = folder / f"{name}{suffix}", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}{suffix}"
    replace_file(path, data)
    return path
