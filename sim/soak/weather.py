"""What goes wrong at the model's end, as its strikes say.

Invariant: a strike touches as many requests as it has hits, from the moment at which it began, or all of them until its time is over; what
an odd answer needs (tools) the request has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.messages_api import (
    OVERLOADED,
    SERVER_ERROR,
    Break,
    BrokenAnswer,
    Fault,
    FaultPlan,
    Inflated,
    Late,
    OddAnswer,
    TooLong,
    rate_limited,
)

#: Virtual seconds until an answer begins, at least and at most: models think.
THINK_S = (0.8, 4.0)
FAULTS: Mapping[str, Fault] = {
    "rate_limit": rate_limited(7.0),
    "spend_cap": rate_limited(),
    "server_error": SERVER_ERROR,
    "overloaded": OVERLOADED,
    "silent": BrokenAnswer(how=Break.SILENT),
    "cut": BrokenAnswer(how=Break.CUT),
    "clean_end": BrokenAnswer(how=Break.CLEAN_END),
    "error_event": BrokenAnswer(how=Break.ERROR_EVENT),
    "refusal": OddAnswer.REFUSAL,
    "cut_tool_call": OddAnswer.CUT_TOOL_CALL,
    "garbage_arguments": OddAnswer.GARBAGE_ARGUMENTS,
    "empty_answer": OddAnswer.EMPTY,
    "context_exceeded": TooLong(),
    "usage_1_8": Inflated(factor=1.8),
    "outage": OVERLOADED,
}


@dataclass(slots=True)
class _Front:
    fault: Fault
    left: int
    until: float
    hit: Callable[[bool], None]


class Weather(FaultPlan):
    """A plan that is made while the run goes on."""

    __slots__ = ("_fronts", "_pace")

    def __init__(self, pace: Callable[[], float]) -> None:
        super().__init__()
        self._fronts: list[_Front] = []
        self._pace = pace

    def begin(self, name: str, *, hits: int, until: float, hit: Callable[[bool], None]) -> None:
        """A strike begins; `hit` is called at each request that it touches, with whether that was the last one.

        `until` is virtual time for one that lasts; 0 for one with hits.
        """
        self._fronts.append(_Front(FAULTS[name], hits, until, hit))

    def clear(self) -> None:
        """All is over, met or not."""
        self._fronts = [front for front in self._fronts if front.until]

    def pick(self, number: int, body: Mapping[str, Any], now: float) -> tuple[Fault, ...]:  # noqa: ARG002 - as in the plan
        """See `FaultPlan.pick`."""
        found: dict[type, Fault] = {Late: Late(seconds=self._pace())}
        main = bool(body.get("tools")) and (body.get("tool_choice") or {}).get("type") != "none"
        for front in list(self._fronts):
            if front.until and now >= front.until:
                self._fronts.remove(front)
                continue
            if type(front.fault) in found or (not main and not isinstance(front.fault, type(OVERLOADED))):
                continue
            found[type(front.fault)] = front.fault
            if not front.until:
                front.left -= 1
                if not front.left:
                    self._fronts.remove(front)
            front.hit(not front.until and not front.left)
        return tuple(found.values())
