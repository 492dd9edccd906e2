"""The states of a session and every legal transition between them. Everything that moves a session is in this table.

idle       nothing to do; a timer or news wakes it
thinking   a request is being prepared or is under way
acting     tools run
yielded    the body acts on (a long action runs), the mind waits: no model call is made
waiting    the model cannot be reached or said no; a timer tries again
resetting  the session is being persisted before a hard reset
detached   no world; nothing is asked of the model
ended      given up on misconfiguration, or closed by the operator
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


_S, _C = State, Cause

TABLE: dict[tuple[State, Cause], State] = {
    (_S.IDLE, _C.WOKEN): _S.THINKING,
    (_S.IDLE, _C.LINK_LOST): _S.DETACHED,
    (_S.DETACHED, _C.LINK_BACK): _S.IDLE,
    (_S.THINKING, _C.TOOLS_ASKED): _S.ACTING,
    (_S.THINKING, _C.TURN_ENDED): _S.IDLE,
    (_S.THINKING, _C.MODEL_AWAY): _S.WAITING,
    (_S.THINKING, _C.MUST_RESET): _S.RESETTING,
    (_S.ACTING, _C.TOOLS_DONE): _S.THINKING,
    (_S.ACTING, _C.BODY_BUSY): _S.YIELDED,
    (_S.ACTING, _C.TURN_ENDED): _S.IDLE,
    (_S.YIELDED, _C.BODY_WOKE): _S.THINKING,
    (_S.YIELDED, _C.TURN_ENDED): _S.IDLE,
    (_S.WAITING, _C.TRY_AGAIN): _S.THINKING,
    (_S.WAITING, _C.TURN_ENDED): _S.IDLE,
    (_S.RESETTING, _C.PERSISTED): _S.THINKING,
    **{(s, _C.RESTARTED): _S.IDLE for s in State if s is not _S.ENDED},
    **{(s, _C.GIVEN_UP): _S.ENDED for s in State if s is not _S.ENDED},
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
    """The table as Markdown, for the docs."""
    rows = [f"| {state} | {cause} | {after} |" for (state, cause), after in TABLE.items()]
    return "\n".join(["| state | cause | next |", "|---|---|---|", *rows])
