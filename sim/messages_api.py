"""The Messages API stand-in: everything that its users need, in one place.

    async with MessagesAPI(brain, 10_000, on_request=oracle.judge) as api:
        client = anthropic.AsyncAnthropic(base_url=api.base_url, api_key="any", max_retries=0)

It refuses what the real API refuses, counts tokens, bills a prompt cache, and goes wrong on request. Not in it: server tools other
than the tool search, batches, files, threads, betas, and exact image tokens.
"""

from sim.api.endpoint import Answered, Caller, Endpoint, Outcome, Record, Refused
from sim.api.faults import (
    CONFLICT,
    CREDIT_TOO_LOW,
    FORBIDDEN,
    KEY_REFUSED,
    NO_SUCH_MODEL,
    OVERLOADED,
    SERVER_ERROR,
    SPEND_LIMIT,
    TIMED_OUT,
    UNPAID,
    Break,
    BrokenAnswer,
    Dialect,
    Fault,
    FaultPlan,
    HttpError,
    Inflated,
    Late,
    OddAnswer,
    Rule,
    TooLong,
    label,
    outage,
    rate_limited,
)
from sim.api.profiles import PROFILES, ModelProfile, Price
from sim.api.replies import Brain, Reply
from sim.api.server import MessagesAPI
from sim.api.usage import Usage
from sim.api.validation import Refusal, too_long, validate

__all__ = [
    "CONFLICT",
    "CREDIT_TOO_LOW",
    "FORBIDDEN",
    "KEY_REFUSED",
    "NO_SUCH_MODEL",
    "OVERLOADED",
    "PROFILES",
    "SERVER_ERROR",
    "SPEND_LIMIT",
    "TIMED_OUT",
    "UNPAID",
    "Answered",
    "Brain",
    "Break",
    "BrokenAnswer",
    "Caller",
    "Dialect",
    "Endpoint",
    "Fault",
    "FaultPlan",
    "HttpError",
    "Inflated",
    "Late",
    "MessagesAPI",
    "ModelProfile",
    "OddAnswer",
    "Outcome",
    "Price",
    "Record",
    "Refusal",
    "Refused",
    "Reply",
    "Rule",
    "TooLong",
    "Usage",
    "label",
    "outage",
    "rate_limited",
    "too_long",
    "validate",
]
