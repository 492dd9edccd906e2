"""What a model call comes back as: an `Answer` or a `Failure`, never an exception.

The core decides what each of them means for the session; `runtime.model` only makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Stop(StrEnum):
    """The stop reasons that are answers; every other one is a `Failure`."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"


class Fault(StrEnum):
    """Why a call gave no answer, by what can be done about it."""

    TOO_LONG = "too_long"  # the input does not fit: shrink, never send the same again
    INVALID = "invalid"  # a 400 that the history can cause: change the newest item, then reset
    REFUSED = "refused"  # the model declined: as INVALID
    TRANSIENT = "transient"  # rate limit, overload, 5xx, network, silence, cut stream: wait and try again
    OUTPUT_LIMIT = "output_limit"  # max_tokens above what the model can write: ask for less
    STOPPED = "stopped"  # an unknown stop reason or output that makes no sense: nothing of it is used
    LOCAL = "local"  # the request could not be built or sent from here
    CREDENTIAL = "credential"  # 401: the operator must act
    PERMISSION = "permission"  # 403: the operator must act
    BILLING = "billing"  # 402, credit or spend limit: the operator must act
    MODEL = "model"  # 404: no such model


#: Faults that a different history may cure.
HISTORY_FAULTS = frozenset({Fault.INVALID, Fault.REFUSED, Fault.LOCAL})
#: Faults that only a person can cure.
OPERATOR_FAULTS = frozenset({Fault.CREDENTIAL, Fault.PERMISSION, Fault.BILLING, Fault.MODEL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call as the provider counted them."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_input(self) -> int:
        """All input tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer. `content` holds the blocks as they came, in order.

    A tool use whose arguments did not parse carries `input: {}` and the raw text under `_invalid`.
    """

    content: tuple[Mapping[str, Any], ...]
    stop: Stop
    usage: Usage
    model: str = ""
    request_id: str = ""
    dollars: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that gave no answer. `message` is one line without secrets; token figures where the provider told them."""

    fault: Fault
    message: str
    status: int | None = None
    error_type: str | None = None
    request_id: str = ""
    prompt_tokens: int | None = None
    limit: int | None = None
    retry_after_s: float | None = None
    usage: Usage | None = None
    dollars: float | None = None
    tries: int = 1


Outcome = Answer | Failure
