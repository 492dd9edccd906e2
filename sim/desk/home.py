"""The desk's folder, all of it open to the operator.

    constitution.md   the rules                          inbox/     mail that came, one .eml each
    state.json        what it is at, notes, gates        drafts/    answers that wait
    log.md            checkpoints in words               sending/   handed over, outcome not known yet
    diary/            entries at resets                  sent/      gone
    sessions/         whole sessions, kept at resets     books.csv  what the verifier goes by
    session.db        the event log

Invariant: what the model writes goes through the methods here, and none of them but `write_verified` reaches a gate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from diaries import Book, DiaryError, Entry
from diaries.text import clean_text
from npc.constitution import Constitution, ConstitutionFile
from npc.files import extend_file, reason, replace_file
from npc.state import State, StateFile

#: Notes that the notebook holds, and characters of one: it has to fit into every request. A full one takes no more, nothing is pushed out.
MOST_NOTES = 12
NOTE_CHARS = 240
LOG_CHARS = 4_000


class DeskHome:
    """The folder `path`. Methods block on the disk; `clock` gives unix seconds."""

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self.path, self._clock = path, clock
        self.inbox, self.drafts, self.sending, self.sent = (path / name for name in ("inbox", "drafts", "sending", "sent"))
        self.sessions, self.books, self.log = path / "sessions", path / "books.csv", path / "log.md"
        self.database = path / "session.db"
        self.diary = Book(path / "diary")
        for folder in (self.inbox, self.drafts, self.sending, self.sent, self.sessions, self.diary.folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._constitution = ConstitutionFile(path / "constitution.md")
        self._state = StateFile(path / "state.json", clock=clock)
        self._state.own()

    def constitution(self) -> Constitution:
        """The rules in force now. Raises `npc.errors.Misconfigured` only if there never were any."""
        return self._constitution.read()

    def state(self) -> State:
        """The state now."""
        return self._state.read()

    def note(self, text: str) -> str:
        """Add a note, once; returns why not, or ""."""
        notes = self.state().notes_for_future_self
        if text in notes:
            return ""
        if len(text) > NOTE_CHARS:
            return f"a note has at most {NOTE_CHARS} characters"
        if len(notes) >= MOST_NOTES:
            return f"the notebook is full ({MOST_NOTES} notes): settle one that is kept or over first"
        self._state.note(text)
        return ""

    def settle(self, text: str) -> bool:
        """Take a note out, word for word; False if there is none such."""
        notes = self.state().notes_for_future_self
        if text in notes:
            self._state.write(notes_for_future_self=[note for note in notes if note != text])
        return text in notes

    def task(self, *, phase: str, next_action: str) -> None:
        """What the desk is at; "" leaves a field as it is."""
        self._state.write(phase=phase or None, next_action=next_action[:NOTE_CHARS] or None)

    def ask_operator(self, question: str, action: str) -> tuple[str, bool]:
        """Store a question, and hold what it is about; its id, and whether it is new. Raises ValueError when too many are open."""
        known = {asked.id for asked in self.state().operator_questions}
        number = self._state.ask_operator(question[:NOTE_CHARS], action).id
        return number, number not in known

    def write_verified(self, value: str, why: str) -> None:
        """The gate that the verifier sets. Nothing that a model says gets here."""
        self._state.write_gate("verified", value, why)

    def write_log(self, text: str) -> str:
        """Add an entry to log.md; returns "" or what is wrong with the disk."""
        body = re.sub(r"^(?=#)", r"\\", clean_text(text, LOG_CHARS), flags=re.MULTILINE)
        try:
            extend_file(self.log, f"## {datetime.fromtimestamp(self._clock(), UTC):%Y-%m-%d %H:%M:%S} UTC\n\n{body}\n\n".encode())
        except OSError as error:
            return f"{self.log} cannot be written ({reason(error)})"
        return ""

    def log_tail(self, entries: int) -> str:
        """The newest entries of log.md."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - 4 * LOG_CHARS))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "## ".join(["", *text.split("\n## ")[-entries:]]).strip() if "## " in text else ""

    def keep_session(self, name: str, text: str, entry: Entry) -> tuple[str, str]:
        """Store a session and the entry about it; on what it lies, and an alarm ("" if all is well). Raises nothing."""
        how, alarms = "full", []
        try:
            replace_file(self.sessions / name, text.encode(errors="backslashreplace"))
        except OSError as error:
            how = "memory"
            alarms.append(f"a session could not be kept in {self.sessions} ({reason(error)})")
        try:
            self.diary.append(entry)
        except DiaryError as error:
            alarms.append(str(error))
        return how, "; ".join(alarms)
