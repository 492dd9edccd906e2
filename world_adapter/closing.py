"""How a connection ended, and what that means: final or worth another try, and how long to wait before it."""

from __future__ import annotations

from dataclasses import dataclass

from world_adapter.frames import Bye, Close


@dataclass(frozen=True, slots=True)
class Retry:
    """Connect again after back-off, but not before `after_s` seconds."""

    why: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """Never connect again: the sentence says why, and what would help."""

    sentence: str
    code: int


def verdict(*, npc: str, code: int, reason: str, bye: Bye | None = None, welcomed: bool = True) -> Retry | Refused:
    """What a close by the world means.

    Args:
        npc: who was attached, or tried to be.
        code: the websocket close code, 1006 where there was none.
        reason: the world's words, cleaned.
        bye: what it said before; its code counts where the websocket's own says nothing.
        welcomed: whether it had welcomed us on this connection.
    """
    after = 0.0
    if bye is not None:
        after = bye.retry_after_s or 0.0
        reason = reason or bye.reason
        if code < 4000:
            code = bye.code
    said = f' ("{reason}")' if reason else ""
    match code:
        case Close.UNAUTHORISED:
            return Refused(f"The world refuses our token{said}: give the one that it issued for {npc!r}.", code)
        case Close.REPLACED:
            return Refused(f"Another process has attached as {npc!r}{said}; only one may run, so this one stops.", code)
        case Close.UNKNOWN_NPC:
            return Refused(f"The world knows no NPC {npc!r}{said}: check the id, or create the character there.", code)
        case Close.TOO_BIG if not welcomed:
            return Refused(f"The world closed with 1009 on our attach frame{said}: its message limit is too small to attach.", code)
        case 1005 | 1006:
            return Retry(f"the connection broke{said}", after)
        case _:
            return Retry(f"the world closed with {code}{said}", after)


def backoff(attempt: int, jitter: float, *, base_s: float, cap_s: float) -> float:
    """Seconds before try number `attempt` (from 0): doubling, capped, spread over its upper half by `jitter`, drawn evenly from 0 to 1."""
    return min(cap_s, base_s * 2.0 ** min(attempt, 32)) * (0.5 + 0.5 * jitter)
