"""`state.json`: the single truth about what the NPC is at, and its gate fields.

Invariants. The file is whole at every instant, unless a person broke it: then the last good version holds, every reader is told
(`fallback`), and the broken file is left to its author; what the NPC writes meanwhile goes to the backup. Changes that could not be put
into the file yet are held over it, but never over what a person wrote into the file since. Gate fields change through `write_gate` only;
nothing that takes a model's words can reach them.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from diaries.text import clean_line, clean_text
from npc.files import WatchedFile, reason, replace_file

#: Sizes: characters of one text, and how many texts a list holds (the newest stay).
MAX_PHASE = 200
MAX_TEXT = 1_000
MAX_NOTES = 24
MAX_QUESTIONS = 24
MAX_GATES = 64
MAX_ASKED = 24
MAX_NAME = 128
#: How deep the file may nest, in objects and lists.
MAX_DEPTH = 32
#: The largest file, in bytes.
MAX_FILE = 1_000_000

Scalar = str | int | float | bool | None

_GATE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_OWN = frozenset({"phase", "next_action", "open_questions", "notes_for_future_self", "gates", "operator_questions"})
#: Words of notes that outlast others.
_LASTING = re.compile(r"\b(?:unverified|not verified|promis\w*|must not forget)\b", re.IGNORECASE)
_ASKED_ID = re.compile(r"q[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A gate field: what it says, why, and when it was written (unix seconds; 0 where an operator wrote a bare value into the file)."""

    value: Scalar
    why: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question to the operator, who writes the `answer` into the file.

    Until then the `action` that it is about (a name, or "" for none) is held. `at` is unix seconds.
    """

    id: str
    question: str
    action: str = ""
    at: float = 0.0
    answer: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {"id": self.id, "question": self.question, "action": self.action, "at": self.at, "answer": self.answer}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The NPC's state at one moment.

    `other` holds keys that people added to the file; they are kept as they are. `fallback` is True while the file is missing or broken and
    an earlier version stands in: a guarded action should refuse then, since the operator may have been taking its gate away. `warnings` are
    sentences for the operator.
    """

    phase: str = ""
    next_action: str = ""
    open_questions: tuple[str, ...] = ()
    notes_for_future_self: tuple[str, ...] = ()
    gates: Mapping[str, Gate] = field(default_factory=lambda: MappingProxyType({}))
    operator_questions: tuple[Asked, ...] = ()
    other: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    fallback: bool = False
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The JSON object as it stands in the file."""
        return {
            "phase": self.phase,
            "next_action": self.next_action,
            "open_questions": list(self.open_questions),
            "notes_for_future_self": list(self.notes_for_future_self),
            "gates": {name: {"value": gate.value, "why": gate.why, "at": gate.at} for name, gate in sorted(self.gates.items())},
            "operator_questions": [asked.to_json() for asked in self.operator_questions],
            **self.other,
        }


class StateFile:
    """The state in `path`, with the last good version beside it (`state.json.bak`). Methods block on the disk; any thread may call them."""

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self.path = path
        self.backup = path.with_name(f"{path.name}.bak")
        self._clock = clock
        self._lock = threading.RLock()
        self._owned = False
        self._file = WatchedFile(path, limit=MAX_FILE)
        self._good: State | None = None  # the newest whole version that the file had
        self._broken = ""  # what is wrong with the file now
        self._held: dict[str, Any] = {}  # fields that are not in the file yet
        self._held_gates: dict[str, Gate] = {}
        self._unwritten = ""  # why not
        self._in_backup: State | None = None  # what the backup holds that the broken file does not

    def own(self) -> None:
        """From here on this process looks after the file: it writes an empty state where there never was one, and keeps the backup.

        Never raises: see `write`. Without it reading leaves no trace.
        """
        with self._lock:
            self._owned = True
            self._refresh()
            if self._good is None and not self.path.exists():
                self._good, self._broken = State(), ""
                self._save(anew=True)

    def read(self) -> State:
        """The state now. Reads the file only if it changed, and never raises: what is wrong with it is in `warnings`."""
        with self._lock:
            self._refresh()
            if self._held or self._held_gates:
                self._save()
            return self._current()

    def write(
        self,
        *,
        phase: str | None = None,
        next_action: str | None = None,
        open_questions: Iterable[str] | None = None,
        notes_for_future_self: Iterable[str] | None = None,
    ) -> State:
        """Change the fields that are given, keep the others, and return the state. Texts are clipped, of too long a list the newest stay.

        Never raises: if the disk does not take it, the change holds in memory, `warnings` say so, and the next call tries again.
        """
        given: dict[str, Any] = {}
        if phase is not None:
            given["phase"] = clean_line(phase, MAX_PHASE)
        if next_action is not None:
            given["next_action"] = clean_text(next_action, MAX_TEXT)
        if open_questions is not None:
            given["open_questions"] = _texts(open_questions, MAX_QUESTIONS)
        if notes_for_future_self is not None:
            given["notes_for_future_self"] = _texts(notes_for_future_self, MAX_NOTES)
        with self._lock:
            self._refresh()
            self._held |= given
            self._save()
            return self._current()

    def note(self, text: str) -> State:
        """Add one note for the future self. When there are `MAX_NOTES` the oldest goes, doubts and promises after all others."""
        with self._lock:
            notes = [*self.read().notes_for_future_self, text]
            while len(notes) > MAX_NOTES:
                notes.remove(next((note for note in notes if not _LASTING.search(note)), notes[0]))
            return self.write(notes_for_future_self=notes)

    def ask(self, question: str) -> State:
        """Add one open question, unless it is open already."""
        with self._lock:
            asked = self.read().open_questions
            question = clean_text(question, MAX_TEXT)
            return self.write(open_questions=asked if question in asked else (*asked, question))

    def ask_operator(self, question: str, action: str = "") -> Asked:
        """Store a question for the operator and hold the action that it is about. Asked again, it is the same question.

        Never raises: see `write`. Of too many the oldest answered one leaves; if all are open, ValueError.
        """
        question, action = clean_text(question, MAX_TEXT), clean_line(action, MAX_NAME)
        with self._lock:
            self._refresh()
            asked = self._current().operator_questions
            for known in asked:
                if (known.question, known.action) == (question, action) and not known.answer:
                    return known
            kept = list(asked)
            while len(kept) >= MAX_ASKED:
                answered = next((one for one in kept if one.answer), None)
                if answered is None:
                    raise ValueError(f"{MAX_ASKED} questions wait for the operator already")
                kept.remove(answered)
            number = 1 + max((int(one.id[1:]) for one in asked), default=0)
            new = Asked(id=f"q{number}", question=question, action=action, at=self._clock())
            self._held["operator_questions"] = (*kept, new)
            self._save()
            return new

    def write_gate(self, name: str, value: Scalar, why: str) -> State:
        """Set a gate field. Only for code that verified something, and for operators; `why` is for people.

        Raises ValueError for a name or a value that no gate can have. If the disk does not take it, as `write`.
        """
        if not _GATE_NAME.fullmatch(name):
            raise ValueError(f"a gate's name is a word of letters, digits and . _ -, not {name[:80]!r}")
        if not _is_scalar(value):
            raise ValueError(f"a gate's value is a text, a finite number, true, false or null, not {type(value).__name__}")
        with self._lock:
            self._refresh()
            if name not in self._current().gates and len(self._current().gates) >= MAX_GATES:
                raise ValueError(f"there are {MAX_GATES} gate fields already: take some out of {self.path.name}")
            kept = clean_text(value, MAX_TEXT) if isinstance(value, str) else value
            self._held_gates[name] = Gate(value=kept, why=clean_text(why, MAX_TEXT), at=self._clock())
            self._save()
            return self._current()

    def _refresh(self) -> None:
        """Take in what the file says now."""
        content = self._file.poll()
        if content is None:
            return
        found = _parse(content.data) if content.data is not None else content.problem
        if not isinstance(found, State):
            self._broken = found
            self._good = self._good or self._from_backup()
            return
        if self._good is not None:
            self._yield_to(found, self._good)
        changed, self._good, self._broken = found != self._good, found, ""
        if self._owned and changed and content.data is not None:
            self._back_up(content.data)

    def _yield_to(self, found: State, before: State) -> None:
        """Let go of held changes to what a person changed in the file in the meantime: theirs came later."""
        self._held = {name: value for name, value in self._held.items() if getattr(found, name) == getattr(before, name)}
        self._held_gates = {name: gate for name, gate in self._held_gates.items() if found.gates.get(name) == before.gates.get(name)}

    def _from_backup(self) -> State | None:
        content = WatchedFile(self.backup, limit=MAX_FILE).poll()
        found = _parse(content.data) if content is not None and content.data is not None else None
        return found if isinstance(found, State) else None

    def _current(self) -> State:
        base = self._good or State()
        warnings = list(base.warnings)
        if self._broken:
            source = f"its last good version is used until you mend it or copy {self.backup.name} over it" if self._good else "mend it"
            warnings.append(f"{self.path} {self._broken}: {source}; guarded actions are refused meanwhile")
        if self._unwritten:
            warnings.append(f"{self.path} cannot be written ({self._unwritten}): what changed is held in memory, free some space")
        gates = MappingProxyType({**base.gates, **self._held_gates})
        return replace(base, **self._held, gates=gates, fallback=bool(self._broken), warnings=tuple(warnings))

    def _save(self, *, anew: bool = False) -> None:
        """Put what is held into the file, or, while that is broken, into the backup."""
        wanted = replace(self._current(), fallback=False, warnings=())
        if self._good is not None and wanted == replace(self._good, warnings=()) and not anew:
            self._held, self._held_gates, self._unwritten = {}, {}, ""
            return
        if self._broken and wanted == self._in_backup:
            return
        data = (json.dumps(wanted.to_json(), ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode(errors="backslashreplace")
        try:
            replace_file(self.backup if self._broken else self.path, data)
        except OSError as error:
            self._unwritten = reason(error)
            return
        self._unwritten = ""
        self._in_backup = wanted
        if not self._broken:
            self._back_up(data)
            self._good, self._held, self._held_gates = wanted, {}, {}

    def _back_up(self, data: bytes) -> None:
        """A copy for the day the file is broken by hand. An older one does too, so a disk that does not take it is no news here."""
        with contextlib.suppress(OSError):
            replace_file(self.backup, data, durable=False)


def _parse(data: bytes) -> State | str:
    """The state in a file's bytes, or what is wrong with them, to go on after the file's name."""
    try:
        raw: Any = json.loads(data.decode("utf-8-sig"), parse_constant=_finite, parse_float=_finite)
    except UnicodeDecodeError as error:
        return f"is not UTF-8 text (byte {error.start})"
    except json.JSONDecodeError as error:
        return f"is not JSON (line {error.lineno}: {error.msg[:1].lower()}{error.msg[1:]})"
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({'nested too deep' if isinstance(error, RecursionError) else error})"
    if not isinstance(raw, dict):
        return "is not a JSON object"
    if _too_deep(raw):
        return f"is nested deeper than {MAX_DEPTH} levels"
    for key in ("phase", "next_action"):
        if not isinstance(raw.get(key, ""), str):
            return f'holds a wrong "{key}": it must be a text'
    for key in ("open_questions", "notes_for_future_self"):
        if not isinstance(raw.get(key, []), list) or not all(isinstance(text, str) for text in raw.get(key, [])):
            return f'holds wrong "{key}": they must be a list of texts'
    gates = _gates(raw.get("gates", {}))
    if isinstance(gates, str):
        return gates
    asked = _asked(raw.get("operator_questions", []))
    if isinstance(asked, str):
        return asked
    state = State(
        phase=clean_line(raw.get("phase", ""), MAX_PHASE),
        next_action=clean_text(raw.get("next_action", ""), MAX_TEXT),
        open_questions=_texts(raw.get("open_questions", []), MAX_QUESTIONS),
        notes_for_future_self=_texts(raw.get("notes_for_future_self", []), MAX_NOTES),
        gates=MappingProxyType(gates),
        operator_questions=asked,
        other=MappingProxyType({key: value for key, value in raw.items() if key not in _OWN}),
    )
    dropped = [
        f'state.json holds {len(raw[key])} "{key}": only the newest {most} are used'
        for key, most in (("open_questions", MAX_QUESTIONS), ("notes_for_future_self", MAX_NOTES))
        if len(raw.get(key, [])) > most
    ]
    texts = (raw.get("next_action", ""), *raw.get("open_questions", []), *raw.get("notes_for_future_self", []))
    if len(raw.get("phase", "")) > MAX_PHASE or any(len(text) > MAX_TEXT for text in texts):
        dropped.append(f"state.json holds texts of more than {MAX_TEXT} characters ({MAX_PHASE} for the phase): they are clipped")
    return replace(state, warnings=tuple(dropped))


def _gates(raw: Any) -> dict[str, Gate] | str:
    if not isinstance(raw, dict) or len(raw) > MAX_GATES:
        return f'holds wrong "gates": they must be an object of at most {MAX_GATES} named values'
    gates = {}
    for name, value in raw.items():
        # An operator may write the bare value; we write it with its reason.
        whole = value if isinstance(value, dict) else {"value": value}
        why, at = whole.get("why", ""), whole.get("at", 0.0)
        if not (_GATE_NAME.fullmatch(name) and "value" in whole and _is_scalar(whole["value"]) and isinstance(why, str)):
            return f'holds a wrong gate "{clean_line(name, 64)}": write "name": true, or "name": {{"value": true, "why": "…"}}'
        kept = clean_text(whole["value"], MAX_TEXT) if isinstance(whole["value"], str) else whole["value"]
        gates[name] = Gate(value=kept, why=clean_text(why, MAX_TEXT), at=float(at) if _is_scalar(at) and type(at) in {int, float} else 0.0)
    return gates


def _asked(raw: Any) -> tuple[Asked, ...] | str:
    wrong = 'holds wrong "operator_questions": leave them as they are but for "answer", which is a text'
    if not isinstance(raw, list) or len(raw) > MAX_ASKED:
        return wrong
    out: dict[str, Asked] = {}
    for item in raw:
        if not isinstance(item, dict):
            return wrong
        texts = [text for text in (item.get(key, "") for key in ("question", "action", "answer")) if isinstance(text, str)]
        if len(texts) < 3 or not _ASKED_ID.fullmatch(str(item.get("id"))) or item["id"] in out:
            return wrong
        at = item.get("at", 0.0)
        out[item["id"]] = Asked(
            id=item["id"],
            question=clean_text(texts[0], MAX_TEXT),
            action=clean_line(texts[1], MAX_NAME),
            answer=clean_text(texts[2], MAX_TEXT),
            at=float(at) if _is_scalar(at) and type(at) in {int, float} else 0.0,
        )
    return tuple(out.values())


def _is_scalar(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0  # neither infinite nor NaN
    return value is None or isinstance(value, (str, bool)) or (isinstance(value, int) and abs(value) < 2**63)


def _finite(number: str) -> float:
    """A number that JSON can carry back: Python would read NaN and 1e999, and no one else would what it makes of them."""
    value = float(number)
    if value - value != 0:
        raise ValueError(f"{number[:20]} is no JSON number")
    return value


def _too_deep(value: Any, room: int = MAX_DEPTH) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return room == 0 or any(_too_deep(item, room - 1) for item in items)


def _texts(texts: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(text for text in (clean_text(text, MAX_TEXT) for text in texts) if text)[-most:]
