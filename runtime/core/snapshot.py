"""A session as plain JSON values, and back.

Invariants: `load(dump(s))` behaves like `s` for ever; a snapshot of another shape is refused by name, never half taken; what was learned of
one model or window does not outlive a change of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from . import findings
from .calibration import Calibration
from .findings import Finding, Findings
from .messages import Block, Kind, Message
from .pending import Pending, UnderWay
from .record import Line, Record
from .spending import Absence, Account, Stage
from .spent import Spent
from .turns import State

if TYPE_CHECKING:
    from .session import Session

VERSION = 1

#: Attributes that are numbers, truth values or strings, as they are.
PLAIN = (
    "linked", "turn", "step", "op", "expects", "bare", "unsaved", "warm", "resets", "fixed_raw", "tail_raw", "raw_sent", "cap_sent",
    "ceiling", "window_seen", "output_seen", "output_guess", "tools_op", "stirred", "stirred_urgent", "drained", "gather_at",
    "not_before", "idle_s", "resumed", "turn_started", "away_since", "woken_by", "turn_had_news", "boosted", "pauses", "remedy",
    "too_long", "refused", "answers", "outages", "failed_turns", "broken_off", "summary_op", "summary_through",
    "summary_turn", "summary_failures", "urgent_why", "unasked_since", "gone", "called_at", "turn_dollars", "meant", "cheap", "switched_at",
    "denied_steps", "relaxing",
)  # fmt: skip
#: Those that older snapshots do not have.
ADDED = frozenset({
    "urgent_why", "unasked_since", "gone", "called_at", "turn_dollars", "meant", "cheap", "switched_at", "absent", "account", "stage",
    "other_learned", "denied_steps", "relaxing",
})  # fmt: skip
#: And the others.
SHAPED = (
    "state", "calibration", "record", "record_block", "messages", "pending", "under_way", "late", "absent", "account",
    "stage", "other_learned",
)  # fmt: skip


def dump(session: Session) -> dict[str, Any]:
    """The snapshot."""
    return {
        **outline(session),
        "record": record_out(session.record),
        "record_block": block_out(session.record_block) if session.record_block else None,
        "messages": [message_out(m) for m in session.messages],
    }


def outline(session: Session) -> dict[str, Any]:
    """The snapshot without what is long: record and messages."""
    return {
        "version": VERSION,
        "learned_for": _learned_for(session),
        "state": str(session.state),
        **{name: getattr(session, name) for name in PLAIN},
        "calibration": asdict(session.calibration),
        "pending": {
            k: {"started": p.started, "result": block_out(p.result) if p.result else None, "denied": p.denied}
            for k, p in session.pending.items()
        },
        "under_way": {key: list(what) for key, what in session.under_way.items()},
        "late": [block_out(b) for b in session.late],
        "absent": str(session.absent),
        "stage": str(session.stage),
        "account": [[hour, *spent] for hour, spent in session.account.hours.items()],
        "other_learned": [asdict(session.other_learned[0]), *session.other_learned[1:]],
    }


def load(session: Session, stored: Mapping[str, Any]) -> None:
    """Put a snapshot into a fresh session.

    Raises:
        ValueError: it is none, or of another version.
    """
    try:
        if stored["version"] != VERSION:
            raise ValueError(f"snapshot version {stored['version']} is not {VERSION}")
        session.state = State(stored["state"])
        for name in PLAIN:
            sample = getattr(session, name)
            setattr(session, name, _like(name, sample, stored.get(name, sample) if name in ADDED else stored[name]))
        session.calibration = Calibration(**stored["calibration"])
        session.record = _record_in(stored["record"])
        session.record_block = _block_in(stored["record_block"]) if stored["record_block"] else None
        session.messages = tuple(Message(m["role"], tuple(_block_in(b) for b in m["blocks"]), m["turn"]) for m in stored["messages"])
        session.pending = {
            k: Pending(
                started=p["started"], result=_block_in(p["result"]) if p["result"] else None, denied=bool(p.get("denied", False))
            )
            for k, p in stored["pending"].items()
        }
        session.under_way = {str(key): UnderWay(str(tool), float(since)) for key, (tool, since) in stored["under_way"].items()}
        session.late = tuple(_block_in(b) for b in stored["late"])
        learned_for = stored["learned_for"]
        session.absent, session.stage = Absence(stored.get("absent", "none")), Stage(stored.get("stage", "free"))
        session.account = Account(hours={row[0] + 0: Spent(row[1] + 0, row[2] + 0, row[3] + 0.0) for row in stored.get("account", ())})
        if "other_learned" in stored:
            row = stored["other_learned"]
            session.other_learned = (Calibration(**row[0]), row[1] + 0, row[2] + 0, row[3] + 0, row[4] + 0)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"not a session snapshot: {type(error).__name__}: {error}") from error
    if learned_for != _learned_for(session):
        session.window_seen = session.output_seen = session.ceiling = 0
        session.other_learned = (session.other_learned[0], 0, 0, 0, 0)
    session.cheap = session.cheap and session.settings.cheaper is not None


def message_out(message: Message) -> dict[str, Any]:
    """A message with its blocks."""
    return {"role": message.role, "turn": message.turn, "blocks": [block_out(b) for b in message.blocks]}


def record_out(record: Record) -> dict[str, Any]:
    """A record."""
    # By hand: `asdict` copies each line of talk slowly.
    out = {f.name: getattr(record, f.name) for f in fields(record)}
    return {**out, "findings": findings.plain(record.findings), "lines": [[line.text, line.event] for line in record.lines]}


def _record_in(stored: Mapping[str, Any]) -> Record:
    lines = tuple(Line(text=text, event=event) for text, event in stored["lines"])
    if "findings" in stored:
        found = findings.restored(stored["findings"])
    else:  # an older version kept prose without sources
        prose = str(stored["narrative"])
        found = Findings(unverified=(Finding(text=prose),)) if prose else Findings()
    through = stored.get("found_through", stored.get("narrative_through", 0))
    numbers = {name: int(stored[name]) for name in ("first", "last", "turns")}
    return Record(findings=found, found_through=int(through), lines=lines, **numbers)


def _learned_for(session: Session) -> str:
    return f"{session.settings.shape.model} in {session.settings.budget.window}"


def _like(name: str, sample: object, value: object) -> object:
    """The value, if it is of the sample's type; a whole number may stand for a float."""
    if type(value) is type(sample) or (isinstance(sample, float) and type(value) is int):
        return value
    raise TypeError(f"{name} is {type(value).__name__}, not {type(sample).__name__}")


def block_out(block: Block) -> dict[str, Any]:
    """A block."""
    return {"kind": str(block.kind), "data": block.data, "tokens": block.tokens, "event": block.event, "gist": list(block.gist)}


def _block_in(value: Mapping[str, Any]) -> Block:
    return Block(
        kind=Kind(value["kind"]), data=value["data"], tokens=value["tokens"], event=value["event"], gist=tuple(value["gist"])
    )
