"""The states of a session and every legal transition between them. Everything that moves a session is in this table.

Invariant: every row is used, and `docs/turns.md` is `drawn()`.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a session is."""

    IDLE = "idle"
    THINKING = "thinking"
    ACTING = "acting"
    YIELDED = "yielded"
    WAITING = "waiting"
    RESETTING = "resetting"
    DETACHED = "detached"
    ENDED = "ended"


class Cause(StrEnum):
    """What moved it."""

    WOKEN = "woken"
    TOOLS_ASKED = "tools asked"
    TOOLS_DONE = "tools done"
    BODY_BUSY = "body busy"
    BODY_WOKE = "body woke the mind"
    TURN_ENDED = "turn ended"
    MODEL_AWAY = "model away"
    TRY_AGAIN = "try again"
    MUST_RESET = "must reset"
    PERSISTED = "persisted"
    LINK_LOST = "link lost"
    LINK_BACK = "link back"
    RESTARTED = "restarted"
    GIVEN_UP = "given up"


class Owed(StrEnum):
    """Whose answer a session waits for while it thinks or resets."""

    MATERIALS = "prepared"
    ANSWER = "model answer"
    STORED = "session persisted"


_S, _C = State, Cause

#: What each state means, and what ends it: no state but the last two lasts without a timer that runs.
MEANINGS: dict[State, str] = {
    _S.IDLE: "nothing to do; news wakes it (while a body left to itself still acts, its end or urgent news), at the latest a timer",
    _S.THINKING: "a request is being prepared or is under way; its answer is owed, and a timer ends the wait",
    _S.ACTING: "tools run; their results are owed, and a timer ends the wait",
    _S.YIELDED: "the body acts on (a long action runs), the mind waits and no model call is made; arrival, urgent news or a timer wakes it",
    _S.WAITING: "the model cannot be reached or said no; a timer tries again",
    _S.RESETTING: "the session is being persisted before a hard reset; the answer is owed, and a timer ends the wait",
    _S.DETACHED: "no world; nothing is asked of the model until the link is back",
    _S.ENDED: "given up: nothing fits the window (rung 6), or the endpoint refused the operator's key at the start",
}

TABLE: dict[tuple[State, Cause], State] = {
    (_S.DETACHED, _C.LINK_BACK): _S.IDLE,
    (_S.IDLE, _C.LINK_LOST): _S.DETACHED,
    (_S.IDLE, _C.WOKEN): _S.THINKING,
    (_S.THINKING, _C.TOOLS_ASKED): _S.ACTING,
    (_S.THINKING, _C.TURN_ENDED): _S.IDLE,
    (_S.THINKING, _C.MODEL_AWAY): _S.WAITING,
    (_S.THINKING, _C.MUST_RESET): _S.RESETTING,
    (_S.THINKING, _C.GIVEN_UP): _S.ENDED,
    (_S.ACTING, _C.TOOLS_DONE): _S.THINKING,
    (_S.ACTING, _C.BODY_BUSY): _S.YIELDED,
    (_S.ACTING, _C.TURN_ENDED): _S.IDLE,
    (_S.YIELDED, _C.BODY_WOKE): _S.THINKING,
    (_S.WAITING, _C.TRY_AGAIN): _S.THINKING,
    (_S.RESETTING, _C.PERSISTED): _S.THINKING,
    **{(s, _C.RESTARTED): _S.IDLE for s in State if s is not _S.ENDED},
}


def follow(state: State, cause: Cause) -> State:
    """The next state.

    Raises:
        ValueError: the table has no such transition: a fault of the core, never of its input.
    """
    try:
        return TABLE[state, cause]
    except KeyError:
        raise ValueError(f"no transition from {state} on {cause}") from None


def drawn() -> str:
    """The states and the table as a Markdown page, for the docs."""
    lines = ["# The turns of a session", "", "Drawn by `runtime.core.turns.drawn()`; a test keeps it equal.", ""]
    lines += ["| state | meaning |", "|---|---|", *(f"| {state} | {words} |" for state, words in MEANINGS.items()), ""]
    everywhere = [s for s in State if (s, _C.RESTARTED) in TABLE]
    rows = [(s, c, after) for (s, c), after in TABLE.items() if c is not _C.RESTARTED]
    lines += ["```mermaid", "stateDiagram-v2", f"    [*] --> {_S.DETACHED}"]
    lines += [f"    {state} --> {after}: {cause}" for state, cause, after in rows]
    lines += [f"    {_S.ENDED} --> [*]", "```", "", "| state | cause | next |", "|---|---|---|"]
    lines += [f"| {state} | {cause} | {after} |" for state, cause, after in rows]
    lines += [f"| {', '.join(everywhere)} | {_C.RESTARTED} | {_S.IDLE} (and {_S.DETACHED} at once, until the world is there) |", ""]
    return "\n".join(lines)
