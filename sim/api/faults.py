"""What goes wrong at the model's end, when, and for how long.

Invariant: what happens to a request depends on the plan, its seed, the request's number, its body and its time, and on nothing else; a
run with the same plan meets the same faults.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpError:
    """The request is answered with an error and never reaches the model.

    Attributes:
        status: of HTTP.
        error_type: of the error object.
        message: of the error object.
        retry_after: seconds, sent as the header `retry-after`; None for no such header.
        details: what else stands in the error object.
    """

    status: int
    error_type: str
    message: str
    retry_after: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def rate_limited(retry_after: float | None = None) -> HttpError:
    """429; without `retry_after` it is the tier's spend cap, which waiting does not lift."""
    if retry_after is None:
        message = "You have reached your specified API usage limits."
        return HttpError(status=429, error_type="rate_limit_error", message=message)
    message = "This request would exceed your organization's rate limit of 50,000 input tokens per minute."
    return HttpError(status=429, error_type="rate_limit_error", message=message, retry_after=retry_after)


SERVER_ERROR = HttpError(status=500, error_type="api_error", message="Internal server error")
TIMED_OUT = HttpError(status=504, error_type="timeout_error", message="Request timed out")
OVERLOADED = HttpError(status=529, error_type="overloaded_error", message="Overloaded")
KEY_REFUSED = HttpError(status=401, error_type="authentication_error", message="invalid x-api-key")
UNPAID = HttpError(status=402, error_type="billing_error", message="There is an issue with your billing or payment information.")
CREDIT_TOO_LOW = HttpError(
    status=400,
    error_type="invalid_request_error",
    message="Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
)
SPEND_LIMIT = HttpError(
    status=400,
    error_type="invalid_request_error",
    message="You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
    details={"details": {"error_code": "enforced_spend_limit_reached"}},
)
FORBIDDEN = HttpError(
    status=403, error_type="permission_error", message="Your API key does not have permission to use the specified resource."
)
NO_SUCH_MODEL = HttpError(status=404, error_type="not_found_error", message="model: claude-of-yesterday")
CONFLICT = HttpError(status=409, error_type="conflict_error", message="The request conflicts with the current state of the resource.")


class Dialect(StrEnum):
    """How an endpoint words that a prompt does not fit."""

    ANTHROPIC = "anthropic"
    LLAMA_CPP = "llama.cpp"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLong:
    """The prompt is called too long, whether it is or not.

    Attributes:
        tokens: how many are said to be in it; one more than the window, or what was counted if that is more, if not given.
        dialect: in whose words.
    """

    tokens: int | None = None
    dialect: Dialect = Dialect.ANTHROPIC


class Break(StrEnum):
    """What happens to the answer on its way."""

    SILENT = "silent"  # nothing comes, and nothing ends
    CUT = "cut"  # the connection is closed in the middle
    CLEAN_END = "clean_end"  # the stream ends well, but without its last events
    ERROR_EVENT = "error_event"  # an error event in the middle of the stream
    TRUNCATED_BODY = "truncated_body"  # an answer in one piece is shorter than its JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenAnswer:
    """A good answer that does not arrive whole. Its tokens are billed; an answer in one piece cannot have every break and is cut instead.

    Attributes:
        how: what happens.
        after: stream events that still arrive.
    """

    how: Break
    after: int = 4


class OddAnswer(StrEnum):
    """The model answers, but not as hoped."""

    REFUSAL = "refusal"
    CUT_TOOL_CALL = "cut_tool_call"  # max_tokens in the middle of the arguments
    GARBAGE_ARGUMENTS = "garbage_arguments"  # no JSON
    UNKNOWN_TOOL = "unknown_tool"
    DOUBLED_IDS = "doubled_ids"  # two tool uses of one answer with one id
    REUSED_ID = "reused_id"  # the id of an earlier tool use of the conversation
    EMPTY = "empty"
    PAUSE_TURN = "pause_turn"
    WINDOW_EXCEEDED = "window_exceeded"
    UNKNOWN_STOP = "unknown_stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inflated:
    """The model's tokenizer finds `factor` times as many tokens, in the window check and in the bill."""

    factor: float = 1.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The answer begins so many seconds late."""

    seconds: float


Fault = HttpError | TooLong | BrokenAnswer | OddAnswer | Inflated | Late


def label(fault: Fault) -> str:
    """One word for a fault, to count by."""
    match fault:
        case HttpError():
            return f"http_{fault.status}"
        case BrokenAnswer():
            return fault.how.value
        case OddAnswer():
            return fault.value
        case TooLong():
            return "too_long"
        case Inflated():
            return "inflated"
        case Late():
            return "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault and when it happens: where all conditions that are given hold.

    Attributes:
        fault: what happens.
        on: numbers of requests, counted from 1; a range serves.
        where: asks the request's body.
        rate: share of requests, drawn by the plan's seed.
        times: how often at most.
        seconds: how long, from the first time on; while it lasts, `on`, `rate` and `times` no longer matter.
    """

    fault: Fault
    on: Container[int] | None = None
    where: Callable[[Mapping[str, Any]], bool] | None = None
    rate: float | None = None
    times: int | None = None
    seconds: float | None = None


def outage(fault: Fault, *, start: int, requests: int | None = None, seconds: float | None = None) -> Rule:
    """A fault that stays: from request number `start` for so many requests, or for so many seconds."""
    if requests is not None:
        return Rule(fault=fault, on=range(start, start + requests))
    return Rule(fault=fault, on=(start,), seconds=seconds)


class FaultPlan:
    """Rules in the order of their weight.

    Args:
        rules: what may happen. Of several faults of one kind at one request the first counts.
        seed: of the draws.
    """

    __slots__ = ("_began", "_fired", "_rules", "_seed")

    def __init__(self, rules: Sequence[Rule] = (), *, seed: int = 0) -> None:
        self._rules = tuple(rules)
        self._seed = seed
        self._fired = [0] * len(self._rules)
        self._began: list[float | None] = [None] * len(self._rules)

    def pick(self, number: int, body: Mapping[str, Any], now: float) -> tuple[Fault, ...]:
        """What happens to request `number` at `now`, seconds; at most one fault of each kind."""
        found: dict[type, Fault] = {}
        for n, rule in enumerate(self._rules):
            if type(rule.fault) not in found and self._applies(n, rule, number, body, now):
                self._fired[n] += 1
                found[type(rule.fault)] = rule.fault
        return tuple(found.values())

    def _applies(self, n: int, rule: Rule, number: int, body: Mapping[str, Any], now: float) -> bool:
        if rule.where is not None and not rule.where(body):
            return False
        began = self._began[n]
        if rule.seconds is not None and began is not None:
            return now - began < rule.seconds
        if rule.on is not None and number not in rule.on:
            return False
        if rule.rate is not None and self._draw(n, number) >= rule.rate:
            return False
        if rule.times is not None and self._fired[n] >= rule.times:
            return False
        self._began[n] = now
        return True

    def _draw(self, n: int, number: int) -> float:
        """From 0 to 1, the same for the same seed, rule and request."""
        drawn = blake2b(f"{self._seed}/{n}/{number}".encode(), digest_size=8).digest()
        return int.from_bytes(drawn, "big") / (1 << 64)
