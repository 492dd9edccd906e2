"""A case out of what really happened: a stretch of an NPC's event log, led again.

Invariants: the case holds what the log holds (what was told, answered, done, and how the world answered) and nothing that was guessed about
what the model meant; its expectations are what happened then. It is led once before it is written: an expectation that does not come true
in this replay is left out, by name, so that the case is green on the code that it was made with. The words of people stay as they are, and
are marked.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from npc.errors import Misconfigured, Usage
from npc.home import Home
from npc.persona import Persona, load_persona
from npc.requests import standing_in
from npc.told import from_journal
from npc.tools import OWN
from runtime.core import provenance
from runtime.core.provenance import Gap
from runtime.store.errors import StoreError
from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.evals.case import AFTER_S, MAX_FILE, QUIET_S, Case, case_of
from sim.evals.checks import always, problems
from sim.evals.running import lead
from sim.evals.script import LONGEST_S
from world_adapter.frames import Observation

#: The most turns that one case is made of, and the most lines of speech that it expects word for word.
MOST_TURNS = 60
MOST_SAID = 40
PAGE = 2_000
KINDS = frozenset(
    {
        "answer", "approval asked", "approval begun", "approval told", "drained", "fixed", "gate set", "gate shut", "goal refused",
        "intent", "observation", "operator answered", "outcome", "prepared", "request", "restart", "rollback", "standing", "tool_result",
        "turn", "wake", "yield",
    }
)  # fmt: skip
_GATE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,63})=([^,]*)")
_HELD = re.compile(r"^\[not done yet: waits for the operator")
_NOTEBOOK = "Your notebook:"
_SECRET_KINDS = frozenset({"whisper"})
#: Actions that an NPC speaks with, besides the one that its persona names.
_SPEAKING = frozenset({"whisper", "shout"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A case from a log: its TOML, the case, and what was left out because it did not come true again."""

    text: str
    case: Case
    left_out: tuple[str, ...]


@dataclass(slots=True)
class _Told:
    """The stretch of the log, sorted."""

    before: dict[str, Event] = field(default_factory=dict)  # the newest event of a kind before the stretch
    events: list[Event] = field(default_factory=list)


async def make(home: Home, *, first: int, last: int | None, name: str) -> Made:
    """A case of the turns `first` to `last` (None: the newest). Raises `NpcError`."""
    persona = load_persona(home.persona_path)
    told = await _read(home, first, last)
    try:
        tables = _Making(persona, told, name=name).tables()
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a log that holds something else than it should
        raise Misconfigured(f"the log of these turns is damaged ({type(error).__name__}: {error}): take others with --turns A-B") from error
    return await _proven(tables, name=name)


async def _read(home: Home, first: int, last: int | None) -> _Told:
    if not home.database_path.exists():
        raise Misconfigured(f"there is no event log at {home.database_path}: the NPC has never lived; start it with npc attach")
    out = _Told()
    try:
        async with await Journal.open(home.database_path, read_only=True) as journal:
            newest = await journal.events(kinds=("wake",), limit=1, newest=True)
            if not newest:
                raise Usage("there is no turn in this log yet: the NPC has not asked its model anything")
            end = min(last or newest[0].turn, newest[0].turn)
            if first > end:
                raise Usage(f"there is no turn {first}: this log goes up to turn {newest[0].turn}")
            if end - first >= MOST_TURNS:
                raise Usage(f"turns {first}-{end} are {end - first + 1}, and a case is made of at most {MOST_TURNS}: give --turns A-B")
            through = after = 0
            inside = False
            while page := await journal.events(after=after, kinds=KINDS, limit=PAGE):
                for event in page:
                    if event.kind == "wake" and event.turn > end:
                        return out
                    if event.kind == "wake" and event.turn == first and not inside:
                        # What this turn woke to was heard before it began.
                        inside = True
                        out.events = [e for e in out.events if e.kind == "observation" and e.id > through]
                    if not inside:
                        through = int(event.data.get("through") or through) if event.kind == "drained" else through
                        out.before[event.kind] = event
                        if _notebook_in(event) is not None:
                            out.before["notebook"] = event
                        if event.kind == "observation":
                            out.events = [*out.events[-PAGE:], event]
                        continue
                    out.events.append(event)
                after = page[-1].id
    except StoreError as error:
        raise Misconfigured(str(error)) from error
    return out


class _Making:
    """One case in the making."""

    def __init__(self, persona: Persona, told: _Told, *, name: str) -> None:
        self._persona, self._told, self._name = persona, told, name
        events = told.events
        self._answers = [event for event in events if event.kind == "answer"]
        self._intents = [event for event in events if event.kind == "intent"]
        self._outcomes = {str(event.data.get("action")): event for event in events if event.kind == "outcome"}
        self._results = {str(event.data.get("call")): event for event in events if event.kind == "tool_result"}
        self._people: dict[str, dict[str, Any]] = {}
        self._confided: list[str] = []

    def tables(self) -> dict[str, Any]:
        """The case as TOML tables."""
        tools, constitution = self._fixed()
        events = self._events()
        turns = sorted({event.turn for event in self._told.events if event.kind == "wake"})
        persona = self._persona.model_dump(exclude_none=True, mode="json")
        persona["diary"] = {**persona.get("diary", {}), "written_by": "runtime"}  # its pages were no part of the turns
        if not any(event.kind == "wake" and event.data.get("reason") == "idle" for event in self._told.events):
            persona["wake"] = {**persona.get("wake", {}), "idle_s": QUIET_S, "idle_max_s": QUIET_S}  # none then, none after the end
        return {
            "name": self._name,
            "about": f"Turns {turns[0]} to {turns[-1]} of {self._persona.character.name}, from the log: what happened then happens again.",
            "tags": ["from-log"],
            "constitution": constitution,
            "seconds": min(LONGEST_S, max(0.0, round(self._told.events[-1].at - self._told.events[0].at, 3)) + AFTER_S),
            "persona": persona,
            "state": self._state(),
            "world": {"name": "from-log"},
            "person": list(self._people.values()),
            "action": self._actions(tools),
            "event": events,
            "mind": [{"name": "as it was", "answer": [_played(event) for event in self._answers]}],
            "expect": self._expect(turns),
            "marked": {
                "people": sorted(name for name in self._people if name not in self._persona.names), "confidences": self._confided,
                "source": f"turns {turns[0]}-{turns[-1]}, events {self._told.events[0].id}-{self._told.events[-1].id}",
            },
        }  # fmt: skip

    # ------------------------------------------------------------ how it began
    def _first(self, kind: str) -> Event | None:
        """What was in force when the stretch began: the newest before it, or the first in it."""
        return self._told.before.get(kind) or next((event for event in self._told.events if event.kind == kind), None)

    def _fixed(self) -> tuple[Sequence[Mapping[str, Any]], str]:
        event = self._first("fixed")
        try:
            fixed = provenance.fixed_in(event.data) if event else None
        except (Gap, KeyError, ValueError, TypeError):
            fixed = None
        if fixed is None:
            raise Misconfigured("this log does not say with which tools and rules its requests were made: it is of an older version")
        tools = [tool for tool in fixed.tools if not str(tool.get("name")).startswith(OWN)]
        return tools, dict(fixed.must).get("constitution", "")

    def _state(self) -> dict[str, Any]:
        """What stood in the notebook and in the gates at the start, as far as the log shows it."""
        out: dict[str, Any] = {}
        notes: list[str] = []
        questions: list[str] = []
        for line in self._notebook().splitlines()[1:]:
            if not line.startswith("- "):
                continue
            what, _, rest = line[2:].partition(": ")
            match what:
                case "phase":
                    out["phase"] = rest
                case "next":
                    out["next_action"] = rest
                case "open question":
                    questions.append(rest)
                case _ if not what.startswith("you asked the operator"):
                    notes.append(line[2:])
        standing = self._told.before.get("standing")
        gates = _gates(standing) if standing else _gates(self._first("standing"))
        return out | {k: v for k, v in (("notes_for_future_self", notes), ("open_questions", questions), ("gates", gates)) if v}

    def _notebook(self) -> str:
        """The notebook that the first request showed, which is written down where it had changed; "" for an empty one."""
        shown = _notebook_in(self._told.before["notebook"]) if "notebook" in self._told.before else None
        for event in self._told.events:
            if (found := _notebook_in(event)) is not None:
                shown = found
            if event.kind == "answer":
                break
        return (shown or "").split("\n\n")[0] if (shown or "").startswith(_NOTEBOOK) else ""

    # ------------------------------------------------------------ the world
    def _actions(self, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        called = {str(block.get("id")): str(block.get("name")) for event in self._answers for block in _uses(event)}
        names = {called.get(str(event.data.get("call")), ""): str(event.data.get("name")) for event in self._intents}
        yielded = {str(call) for event in self._told.events if event.kind == "yield" for call in event.data.get("calls") or ()}
        out = []
        for tool in tools:
            name = names.get(str(tool["name"]), str(tool["name"]))
            intents = [event for event in self._intents if event.data.get("name") == name]
            ongoing = any(str(event.data.get("call")) in yielded for event in intents)
            outcomes = [self._outcome(event, ongoing=ongoing) for event in intents]
            moves = ongoing and any(outcome.get("place") for outcome in outcomes)
            action = {
                "name": name, "description": str(tool.get("description") or ""), "schema": dict(tool.get("input_schema") or {}),
                "kind": "ongoing" if ongoing else "instant", "moves_body": moves, "reversible": not self._held(str(tool["name"])),
                "outcome": outcomes,
            }  # fmt: skip
            out.append(action)
        return out

    def _held(self, name: str) -> bool:
        """Whether a call of this tool had to wait for a person, as those do that cannot be undone."""
        calls = [str(block.get("id")) for event in self._answers for block in _uses(event) if block.get("name") == name]
        return any(call in self._results and _HELD.search(str(self._results[call].data.get("text"))) for call in calls)

    def _outcome(self, intent: Event, *, ongoing: bool) -> dict[str, Any]:
        end = self._outcomes.get(str(intent.data.get("action")))
        state = str(end.data.get("state")) if end else "unknown"
        text = str(end.data.get("text") or "") if end else ""
        out: dict[str, Any] = {"times": 1, "state": "done" if state == "done" else "failed", "text": text}
        if ongoing:
            # One that was cancelled or never ended goes on until somebody stops it.
            out["seconds"] = round(end.at - intent.at, 3) if end and state in {"done", "failed"} else 86_400.0
        if ongoing and end and (place := self._moved(intent, end)):
            out["place"] = place
        return out

    def _moved(self, intent: Event, end: Event) -> str:
        for event in self._told.events:
            if event.kind == "observation" and intent.id < event.id <= end.id and event.data.get("kind") == "moved":
                return str((event.data.get("data") or {}).get("room") or "")
        return ""

    # ------------------------------------------------------------ what happened
    def _events(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        answers, at = 0, self._told.events[0].at
        waiting: list[Event] = []
        gates = _gates(self._told.before.get("standing") or self._first("standing"))
        asked: list[str] = []  # ids of the requests of these turns; they will be numbered from 1
        decided: set[str] = set()

        def happens(when: float, **what: Any) -> None:
            delay = max(0.0, round(when - at, 3))
            out.append({**({"after": {"answers": answers}, "delay": delay} if answers else {"at": 1.0 + delay}), **what})

        for event in self._told.events:
            data = event.data
            match event.kind:
                case "observation":
                    waiting.append(event)
                case "drained":
                    through = int(data.get("through") or event.id)
                    group = [one for one in waiting if one.id <= through]
                    waiting = [one for one in waiting if one.id > through]
                    if tells := [tell for one in group if (tell := self._tell(one)) is not None]:
                        happens(group[-1].at, tells=tells)
                case "answer":
                    answers, at = answers + 1, event.at
                case "gate set":
                    gates[str(data.get("name"))] = data.get("value")
                    if str(data.get("why", "")).startswith("the world") and _plain(data.get("value")):
                        happens(event.at, gates={str(data["name"]): data["value"]})
                case "standing":
                    by_hand = {name: value for name, value in _gates(event).items() if gates.get(name) != value}
                    gates |= by_hand
                    if by_hand:
                        happens(event.at, operator={"gates": by_hand})
                case "operator answered":
                    happens(event.at, operator={"answer": str(data.get("answer") or "yes")})
                case "approval asked":
                    asked.append(str(data.get("id")))
                case "approval begun" | "approval told" if (id_ := str(data.get("id"))) in asked and id_ not in decided:
                    decided.add(id_)
                    if event.kind == "approval begun" or data.get("standing") == "denied":
                        word = "approve" if event.kind == "approval begun" else "deny"
                        happens(event.at, operator={word: f"A{asked.index(id_) + 1}"})
                case "rollback":
                    happens(event.at, do="rollback", since=str(data.get("since") or ""))
                case "restart":
                    happens(event.at, do="restart")
                case _:
                    pass
        return out

    def _tell(self, event: Event) -> dict[str, Any] | None:
        """An observation of the world's; None for the runtime's own words, and for what an action brings with it here."""
        o: Observation = from_journal(event.data)
        if not o.seq or (o.own and o.kind == "moved"):
            return None
        out: dict[str, Any] = {"text": o.text, "kind": o.kind, "prio": o.prio, "to": o.to or ""}
        if o.speaker and o.speaker.name:
            out["from"] = o.speaker.name
            kind = o.speaker.kind if o.speaker.kind in {"player", "npc", "operator", "world"} else "player"
            self._people.setdefault(o.speaker.name, {"name": o.speaker.name, "kind": kind, "id": o.speaker.id})
        if o.kind in _SECRET_KINDS:
            self._confided.append(o.text[:200])
        optional = {"data": dict(o.data) if o.data else None, "key": o.key, "time": o.wt, "own": o.own or None}
        return out | {name: value for name, value in optional.items() if value is not None and _writable(value)}

    # ------------------------------------------------------------ what came of it
    def _expect(self, turns: Sequence[int]) -> dict[str, Any]:
        calls = [str(block.get("name")) for event in self._answers for block in _uses(event)]
        errors = {number for number, event in self._results.items() if event.data.get("error")}
        refused = {str(block.get("name")) for event in self._answers for block in _uses(event) if str(block.get("id")) in errors}
        speaking = {self._persona.speech.say_action, *_SPEAKING}
        said = [
            text for event in self._intents if event.data.get("name") in speaking
            for text in (event.data.get("args") or {}).values() if isinstance(text, str) and text.strip()
        ]  # fmt: skip
        shut = sum(event.kind == "gate shut" for event in self._told.events)
        gates = {str(e.data["name"]): e.data["value"] for e in self._told.events if e.kind == "gate set" and _plain(e.data.get("value"))}
        out = {
            "calls": dict(Counter(calls)), "order": calls, "acted": dict(Counter(str(event.data.get("name")) for event in self._intents)),
            "refused": sorted(refused), "said": [re.escape(text[:300]) for text in said[:MOST_SAID]],
            "gates": gates, "events": {"gate shut": shut} if shut else {},
        }  # fmt: skip
        return {name: value for name, value in out.items() if value} | {"steps": len(self._answers), "turns": len(turns)}


def _notebook_in(event: Event) -> str | None:
    """The notebook that a request was given anew."""
    given = event.data.get("given") if event.kind == "request" else event.data if event.kind == "prepared" else None
    return str(given["notebook"]) if isinstance(given, Mapping) and "notebook" in given else None


def _played(event: Event) -> dict[str, Any]:
    texts = [str(block.get("text")) for block in event.data.get("content") or () if block.get("type") == "text" and block.get("text")]
    calls = [{"name": str(block.get("name")), "args": _toml(block.get("input") or {})} for block in _uses(event)]
    return {"think": "\n".join(texts), "call": calls}


def _uses(event: Event) -> list[Mapping[str, Any]]:
    return [block for block in event.data.get("content") or () if isinstance(block, Mapping) and block.get("type") == "tool_use"]


def _gates(event: Event | None) -> dict[str, Any]:
    """The gates as a request showed them."""
    line = dict(standing_in(event.data)).get("gates", "") if event else ""
    words = {"True": True, "False": False}
    out: dict[str, Any] = {}
    for name, value in _GATE.findall(line.removeprefix("[gates] ")):
        if value != "None":
            out[name] = words.get(value, int(value) if re.fullmatch(r"-?\d{1,15}", value) else value)
    return out


def _plain(value: Any) -> bool:
    return isinstance(value, (str, bool, int, float))


def _toml(value: Any) -> Any:
    """A JSON value as TOML can hold it: it knows no null."""
    if isinstance(value, Mapping):
        return {str(name): _toml(item) for name, item in value.items() if item is not None}
    return [_toml(item) for item in value if item is not None] if isinstance(value, (list, tuple)) else value


def _writable(value: Any) -> bool:
    return bool(value == _toml(value))


# ---------------------------------------------------------------- proof
async def _proven(tables: dict[str, Any], *, name: str) -> Made:
    """Lead it, and leave out what did not come true."""
    case = case_of(_written(tables), where=name, name=name)
    trace = await lead(case, case.mind[0])
    left: list[str] = []
    if trace.trouble and (decided := [event for event in case.event if event.operator and (event.operator.approve or event.operator.deny)]):
        left.append(f"the operator's word on {len(decided)} requests: {trace.trouble}")
        tables["event"] = [event for event in tables["event"] if not {"approve", "deny"} & {*event.get("operator", {})}]
        case = case_of(_written(tables), where=name, name=name)
        trace = await lead(case, case.mind[0])
    if wrong := [*([trace.trouble] if trace.trouble else []), *always(trace)]:
        raise Misconfigured(f"these turns cannot be led again: {wrong[0]}")
    expect = dict(tables["expect"])
    for field_ in list(expect):
        alone = case.expect.model_validate({field_: expect[field_], "failed_turns": 10_000})
        if wrong := problems(alone, trace):
            left.append(f"{field_}: {wrong[0]}")
            del expect[field_]
    if trace.failed_turns:
        expect["failed_turns"] = trace.failed_turns
    if not expect:
        raise Misconfigured("nothing of these turns came true again, so there is nothing to expect of a case of them")
    tables["expect"] = expect
    text = _written(tables)
    if len(text.encode()) > MAX_FILE:
        raise Usage(f"these turns make a case of more than {MAX_FILE:,} bytes: take fewer with --turns A-B")
    return Made(text=text, case=case_of(text, where=name, name=name), left_out=tuple(left))


def _written(tables: Mapping[str, Any]) -> str:
    head = (
        "# Made from a log by `npc eval from-log`. It holds the words of real people as they were, those told in confidence among them\n"
        "# ([marked] names them): look through it before you share it.\n\n"
    )
    return head + tomli_w.dumps(json.loads(json.dumps(_toml(dict(tables)), ensure_ascii=False)), multiline_strings=True)


def store(path: Path, made: Made) -> None:
    """Write a case. Raises `Misconfigured`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written ({error.strerror or error}): name another file with --out FILE") from error
