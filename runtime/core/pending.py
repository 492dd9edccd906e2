"""Tool calls under way.

Invariants: every call of a step gets exactly one result, all of them in one user message, in call order, right after the calls; a call
that was closed while it was under way is told about once when it ends. A call is known by its operation and its id, for models and servers
give ids twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .messages import Block, Message, result_block, uses_of
from .rungs import outcome_block

if TYPE_CHECKING:
    from .session import Session

UNDER_WAY = "[still under way; how it ends will be told]"
KEPT = 32  # calls that are still waited for after they were closed, and ends that wait to be told


@dataclass(slots=True)
class Pending:
    """A tool call under way: its result, once there is one; `started` for a long action that was accepted, `denied` for one not run."""

    started: bool = False
    result: Block | None = None
    denied: bool = False


class UnderWay(NamedTuple):
    """A long action whose call was closed before its end: its tool, and since when (unix seconds) nobody waits for it any more."""

    tool: str
    since: float


def key_of(op: int, call: str) -> str:
    """What a call under way is known by."""
    return f"{op}/{call}"


def body_acts(session: Session, now: float) -> bool:
    """Whether a long action goes on without the mind; one whose end is never told does so for `body_s`, and no clock makes that longer."""
    return any(0 <= now - action.since < session.settings.body_s for action in session.under_way.values())


def close_calls(session: Session, *, otherwise: str = UNDER_WAY, error: bool = False) -> None:
    """Put the results of all pending calls into the history; `otherwise` stands for one that has none."""
    blocks = []
    for use in uses_of(session.messages[-1]):
        use_id = str(use.data["id"])
        pending = session.pending.get(use_id)
        if pending and pending.result is None and pending.started:
            session.under_way[key_of(session.tools_op, use_id)] = UnderWay(str(use.data["name"]), session.now)
        blocks.append((pending and pending.result) or result_block(use_id, otherwise, session.count, error=error))
    session.under_way = dict(list(session.under_way.items())[-KEPT:])
    session.pending = {}
    session.append(Message("user", tuple(blocks), session.turn))


def ended_late(session: Session, key: str, text: str, event: int, gist: tuple[str, ...]) -> None:
    """A call that was closed while it was under way has ended: to be told with the next news."""
    tool, _ = session.under_way.pop(key)
    ended = outcome_block("end of what was under way", tool, text or "(nothing)", session.count, event=event, gist=gist)
    session.late = (*session.late, ended)[-KEPT:]
    session.unsaved = True
