"""A request as it is kept: frozen words with a digest, and how far it has come.

Invariant: what is done is what the frozen words say, and an answer counts only for the digest of just these words. Each way from one
standing to another is in `WAYS`; there is no other.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from npc.policy.asking import Request

#: How many hexadecimal digits of a digest a person is shown, and the fewest that name one.
SHOWN_DIGITS = 12
LEAST_DIGITS = 8
#: The largest request, in characters of its frozen words: more than that nobody reads before he decides.
MAX_FROZEN = 100_000
_ID = re.compile(r"[Aa]?([1-9][0-9]{0,9})")


class Standing(StrEnum):
    """How far a request has come."""

    OPEN = "open"
    APPROVED = "approved"
    ACTING = "acting"
    DENIED = "denied"
    LAPSED = "lapsed"
    REFUSED = "refused"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


_S = Standing
#: Where each standing leads: nobody else's word moves a request than the operator's (open), the clock's (open, approved) and that of
#: whoever carries it out (approved, acting). Back from acting to approved it goes only where it is certain that nothing was begun.
WAYS: Mapping[Standing, frozenset[Standing]] = MappingProxyType(
    {
        _S.OPEN: frozenset({_S.APPROVED, _S.DENIED, _S.LAPSED}),
        _S.APPROVED: frozenset({_S.ACTING, _S.LAPSED}),
        _S.ACTING: frozenset({_S.DONE, _S.FAILED, _S.REFUSED, _S.UNKNOWN, _S.APPROVED}),
    }
)
LIVE = frozenset({_S.OPEN, _S.APPROVED, _S.ACTING})

MEANING: Mapping[Standing, str] = MappingProxyType(
    {
        _S.OPEN: "waits for you",
        _S.APPROVED: "approved, to be done",
        _S.ACTING: "approved, under way",
        _S.DENIED: "denied",
        _S.LAPSED: "lapsed, not done",
        _S.REFUSED: "approved, but refused by a check",
        _S.DONE: "approved and done",
        _S.FAILED: "approved, tried, failed",
        _S.UNKNOWN: "approved, and the world does not say what came of it",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks: the NPC's name, and the identity of its home, so that an answer for one NPC is none for another."""

    npc: str
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One request on disk. Times are seconds since 1970, 0.0 for what has not come yet.

    Attributes:
        number: of the request; its id is `A` and this.
        frozen: the words that were frozen, canonical JSON.
        digest: SHA-256 of them, as it was stored beside them.
        agreed: the digest that was approved, "" while none was.
        by: who decided: `cli`, `webhook`, `listener`, `clock`.
        because: what whoever decided wrote to it.
        operation: under which it was begun.
        outcome: what came of it.
        told: whether the NPC knows how it ended.
        posted: whether the webhook has taken it.
    """

    number: int
    frozen: str
    digest: str
    asked_at: float
    lapses_at: float
    standing: Standing = Standing.OPEN
    agreed: str = ""
    decided_at: float = 0.0
    by: str = ""
    because: str = ""
    operation: str = ""
    ended_at: float = 0.0
    outcome: str = ""
    told: bool = False
    posted: bool = False

    @property
    def id(self) -> str:
        """As people and the NPC name it."""
        return f"A{self.number}"

    @property
    def good_until(self) -> float:
        """When an approved request is too old to be begun: it may wait once more as long as it might wait for the answer."""
        return self.decided_at + self.lapses_at - self.asked_at

    @property
    def sound(self) -> bool:
        """Whether the frozen words are still those of the digest."""
        return digest_of(self.frozen) == self.digest

    @property
    def words(self) -> Mapping[str, Any]:
        """What the frozen words hold, {} where they are none."""
        try:
            data = json.loads(self.frozen)
        except (ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def npc(self) -> str:
        """Who asks."""
        return str(self.words.get("npc", ""))

    @property
    def request(self) -> Request:
        """What was asked. Raises ValueError where the frozen words were damaged."""
        data = self.words.get("request")
        return Request.from_json(data if isinstance(data, dict) else {})

    def bound_by(self, digest: str) -> bool:
        """Whether a digest, or the beginning of one, is that of this request."""
        plain = "".join(digest.split()).lower()
        return len(plain) >= LEAST_DIGITS and self.digest.startswith(plain)


def freeze(request: Request, asker: Asker, *, number: int, asked_at: float, lapses_at: float) -> str:
    """The words of a request that a digest is taken of. Raises ValueError where JSON cannot hold them or nobody could read them."""
    data = {
        "id": f"A{number}", "npc": asker.npc, "home": asker.identity, "asked_at": asked_at, "lapses_at": lapses_at,
        "request": request.to_json(),
    }  # fmt: skip
    try:
        frozen = json.dumps(data, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("its arguments are no JSON values") from error
    if len(frozen) > MAX_FROZEN:
        most = f"{len(frozen):,} characters, at most {MAX_FROZEN:,}"
        raise ValueError(f"its arguments are too long for a person to read ({most}): ask for less")
    return frozen


def digest_of(frozen: str) -> str:
    """SHA-256 of frozen words, hexadecimal."""
    return hashlib.sha256(frozen.encode("utf-8", "surrogatepass")).hexdigest()


def sameness(request: Request) -> str:
    """What two requests have in common that would do the same: world, action, arguments. Raises ValueError as `freeze`."""
    try:
        act = json.dumps([request.world, request.action, dict(request.arguments)], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("its arguments are no JSON values") from error
    return digest_of(act)


def number_of(text: str) -> int | None:
    """The number in an id as a person types it (`A7`, `a7`, `7`), None where it is none."""
    found = _ID.fullmatch(text.strip())
    return int(found[1]) if found else None
