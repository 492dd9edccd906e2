"""A session as plain JSON values, and back.

Invariant: `load(dump(s))` behaves like `s` for ever; a snapshot of another shape is refused by name, never half taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .calibration import Calibration
from .messages import Block, Count, Kind, Message
from .record import Line, Record
from .session import Session, Settings, _Pending
from .turns import State

VERSION = 1

_PLAIN = (
    "turn", "step", "op", "warm", "raw_sent", "stirred", "stirred_urgent", "drained", "turn_started", "turn_had_news", "idle_s",
    "answers", "rejections", "too_long", "outages", "pauses", "failed_turns", "boosted", "output_cap", "ceiling", "not_before", "day",
    "dollars", "summary_op", "summary_through", "resets", "linked",
)  # fmt: skip


def dump(session: Session) -> dict[str, Any]:
    """The snapshot. Effects not yet taken are not part of it: take them first."""
    return {
        "version": VERSION,
        "state": str(session.state),
        **{name: getattr(session, name) for name in _PLAIN},
        "calibration": asdict(session.calibration),
        "record": asdict(session.record),
        "record_block": _block_out(session.record_block) if session.record_block else None,
        "messages": [{"role": m.role, "turn": m.turn, "blocks": [_block_out(b) for b in m.blocks]} for m in session.messages],
        "pending": {k: {"started": p.started, "result": _block_out(p.result) if p.result else None} for k, p in session.pending.items()},
    }


def load(snapshot: Mapping[str, Any], settings: Settings, count: Count) -> Session:
    """The session of a snapshot.

    Raises:
        ValueError: it is not one, or of another version.
    """
    try:
        if snapshot["version"] != VERSION:
            raise ValueError(f"snapshot version {snapshot['version']} is not {VERSION}")
        session = Session(settings, count)
        session.state = State(snapshot["state"])
        for name in _PLAIN:
            setattr(session, name, snapshot[name])
        session.calibration = Calibration(**snapshot["calibration"])
        record = snapshot["record"]
        session.record = Record(**{**record, "lines": tuple(Line(**x) for x in record["lines"])})
        session.record_block = _block_in(snapshot["record_block"]) if snapshot["record_block"] else None
        session.messages = tuple(Message(m["role"], tuple(_block_in(b) for b in m["blocks"]), m["turn"]) for m in snapshot["messages"])
        session.pending = {
            k: _Pending(started=p["started"], result=_block_in(p["result"]) if p["result"] else None)
            for k, p in snapshot["pending"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a session snapshot: {type(error).__name__}: {error}") from error
    return session


def _block_out(block: Block) -> dict[str, Any]:
    return {"kind": str(block.kind), "data": block.data, "tokens": block.tokens, "event": block.event, "gist": list(block.gist)}


def _block_in(value: Mapping[str, Any]) -> Block:
    return Block(
        kind=Kind(value["kind"]), data=value["data"], tokens=value["tokens"], event=value["event"], gist=tuple(value["gist"])
    )
