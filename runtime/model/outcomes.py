"""Every way in which a model call can end, as a value.

Invariant: whatever the SDK raises and whatever the stream says becomes one `Answer` or one `Failure`. A failure is classed by status, error
type and error code, which are stable; wording is read only for the figures that no field carries. No message holds a secret.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

import anthropic
import httpx2

from runtime.core.values import Answer, Failure, Fault, Outcome, Stop, Usage
from runtime.model import prices
from runtime.model.incoming import GarbledError

_MESSAGE_CHARS = 300

_BY_STATUS: Mapping[int, Fault] = {
    401: Fault.CREDENTIAL,
    402: Fault.BILLING,
    403: Fault.PERMISSION,
    407: Fault.PERMISSION,  # a proxy wants to know the operator
    404: Fault.MODEL,
    405: Fault.MODEL,  # there is something at this address, but not the Messages API
    410: Fault.MODEL,
    413: Fault.TOO_LONG,  # more bytes than the endpoint takes: fewer of them is the way out
    408: Fault.TRANSIENT,
    409: Fault.TRANSIENT,
    425: Fault.TRANSIENT,
    429: Fault.TRANSIENT,
    499: Fault.TRANSIENT,
}

# Decides where the status cannot: error events arrive inside a stream whose status was 200.
_BY_TYPE: Mapping[str, Fault] = {
    "invalid_request_error": Fault.INVALID,
    "authentication_error": Fault.CREDENTIAL,
    "billing_error": Fault.BILLING,
    "permission_error": Fault.PERMISSION,
    "not_found_error": Fault.MODEL,
    "request_too_large": Fault.TOO_LONG,
    "exceed_context_size_error": Fault.TOO_LONG,  # llama.cpp
    "rate_limit_error": Fault.TRANSIENT,
    "conflict_error": Fault.TRANSIENT,
    "api_error": Fault.TRANSIENT,
    "timeout_error": Fault.TRANSIENT,
    "overloaded_error": Fault.TRANSIENT,
}

# Codes that mean the same whatever status they came with (the SDK raises some as 400, some as 429).
_BY_CODE: Mapping[str, Fault] = {
    "contract_spend_limit_reached": Fault.BILLING,
    "enforced_spend_limit_reached": Fault.BILLING,
    "linked_organization_spend_limit_reached": Fault.BILLING,
    "linked_organization_billing_unavailable": Fault.BILLING,
    "user_profile_not_billable": Fault.BILLING,
    "user_profile_billing_not_authorized": Fault.BILLING,
    "organization_on_hold": Fault.PERMISSION,
    "request_body_too_large_after_decoding": Fault.TOO_LONG,
    "context_length_exceeded": Fault.TOO_LONG,  # servers that also speak OpenAI's protocol
}

# The figures that only the wording carries. A provider that rewords them costs a needless reset, not the session.
_PROMPT_TOO_LONG = re.compile(r"prompt is too long: (\d+) tokens > (\d+) maximum")
_INPUT_AND_OUTPUT = re.compile(r"input length and `max_tokens` exceed context limit: (\d+) \+ \d+ > (\d+)")
_OUTPUT_LIMIT = re.compile(r"max_tokens: \d+ > (\d+), which is the maximum allowed number of output tokens")
# Money has a 402 and codes of its own, but an empty balance comes as a bare 400. Taken for a fault of the history it would cost the NPC
# its memory at every try, so here the wording decides.
_MONEY = re.compile(r"credit balance is too low|reached your specified .{0,40}(?:spend|usage) limit", re.IGNORECASE)

_SECRETS = re.compile(r"sk-[A-Za-z0-9_-]{8,}|(?<=Bearer )\S+|(?<=://)[^/\s@]+@", re.IGNORECASE)

_ANSWERS: Mapping[str, Stop] = {stop.value: stop for stop in Stop}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is known of a call besides how it ended.

    Attributes:
        model: the id as the endpoint gave it, or as it was sent.
        asked: the id as it was sent.
        usage: as far as it was told, or None.
        written_for_an_hour: the part of `usage.cache_write_tokens` that went to the one-hour cache.
        request_id: the endpoint's name for the call.
        secrets: what must not stand in a message.
    """

    model: str = ""
    asked: str = ""
    usage: Usage | None = None
    written_for_an_hour: int = 0
    request_id: str = ""
    secrets: tuple[str, ...] = ()

    def used(self, usage: Mapping[str, Any]) -> Call:
        """With the figures of the API's `usage` object; a missing, null or senseless one counts nothing."""
        hours = usage.get("cache_creation")
        return replace(
            self,
            usage=Usage(
                input_tokens=_tokens(usage.get("input_tokens")),
                cache_read_tokens=_tokens(usage.get("cache_read_input_tokens")),
                cache_write_tokens=_tokens(usage.get("cache_creation_input_tokens")),
                output_tokens=_tokens(usage.get("output_tokens")),
            ),
            written_for_an_hour=_tokens(hours.get("ephemeral_1h_input_tokens")) if isinstance(hours, Mapping) else 0,
        )

    @property
    def dollars(self) -> float | None:
        """What the provider will bill, or None where the usage or the model's price is not known."""
        if self.usage is None:
            return None
        for model in (self.model, self.asked):  # something between us and the provider may have an own name for it
            cost = prices.dollars(model, self.usage, written_for_an_hour=self.written_for_an_hour)
            if cost is not None:
                return cost
        return None


def stopped(stop_reason: object, content: Sequence[Mapping[str, Any]], call: Call, *, details: object = None) -> Outcome:
    """The outcome of a call whose answer came whole, by its stop reason.

    An answer that holds tool uses waits for their results whatever the server called it, and one that holds none waits for nothing
    (servers that copy the API get this wrong in both directions).
    """
    if stop_reason == "refusal":
        category = details.get("category") if isinstance(details, Mapping) else None
        return failed(Fault.REFUSED, f"the model declined to answer ({category or 'no category given'})", call)
    if stop_reason == "model_context_window_exceeded":
        return failed(Fault.TOO_LONG, "input and output together reached the model's context window", call)
    stop = _ANSWERS.get(stop_reason) if isinstance(stop_reason, str) else None
    if stop is None:
        return failed(Fault.STOPPED, f"the answer ended with an unknown stop reason: {stop_reason!r}", call)
    uses = any(block.get("type") == "tool_use" for block in content)
    if uses and stop is Stop.END_TURN:
        stop = Stop.TOOL_USE
    elif stop is Stop.TOOL_USE and not uses:
        stop = Stop.END_TURN
    return Answer(
        content=tuple(content), stop=stop, usage=call.usage or Usage(), model=call.model, request_id=call.request_id, dollars=call.dollars,
    )  # fmt: skip


def failed(fault: Fault, message: str, call: Call) -> Failure:
    """A failure that no error answer tells about."""
    return Failure(
        fault=fault, message=one_line(message, call.secrets), request_id=call.request_id, usage=call.usage, dollars=call.dollars,
    )  # fmt: skip


def raised(error: Exception, call: Call) -> Failure:
    """The outcome of a call that ended in an exception of the SDK, of the HTTP library, or of our own side."""
    match error:
        case anthropic.APIStatusError():
            call = replace(call, request_id=error.request_id or call.request_id)
            return refused(error.status_code, error.body, error.response.headers, call)
        case anthropic.APITimeoutError() | httpx2.ConnectTimeout():
            return failed(Fault.TRANSIENT, "the model's endpoint did not answer in time", call)
        case httpx2.TimeoutException() | TimeoutError():
            return failed(Fault.TRANSIENT, "the model's endpoint fell silent", call)
        case anthropic.APIConnectionError(__cause__=httpx2.UnsupportedProtocol() | httpx2.InvalidURL() as cause):
            return failed(Fault.MODEL, f"the model's address is no address: {cause}", call)
        case anthropic.APIConnectionError():
            return failed(Fault.TRANSIENT, f"no connection to the model's endpoint: {error.__cause__ or error}", call)
        case httpx2.HTTPError() | httpx2.StreamError() | OSError():
            return failed(Fault.TRANSIENT, f"the connection broke: {error or type(error).__name__}", call)
        case GarbledError() | json.JSONDecodeError() | UnicodeDecodeError():
            return failed(Fault.TRANSIENT, f"not an answer of the Messages API: {error}", call)
        case _:
            return failed(Fault.LOCAL, f"the call failed on our side: {type(error).__name__}: {error}", call)


def refused(status: int, body: object, headers: Mapping[str, str], call: Call) -> Failure:
    """The outcome of an error answer: an HTTP status of 300 or more, or an error event inside a stream (status 200)."""
    error = body.get("error") if isinstance(body, Mapping) else None
    error = error if isinstance(error, Mapping) else {}
    message = error.get("message")
    message = message if isinstance(message, str) else str(body) if body else "no explanation"
    kind = error.get("type")
    kind = kind if isinstance(kind, str) else None
    fault, prompt_tokens, limit = _class_of(status, kind, _code(error), message, error)
    request_id = call.request_id or (str(body.get("request_id") or "") if isinstance(body, Mapping) else "")
    return Failure(
        fault=fault, message=one_line(f"{status} {kind or 'error'}: {message}", call.secrets), status=status, error_type=kind,
        request_id=request_id, prompt_tokens=prompt_tokens, limit=limit, retry_after_s=retry_after(headers), usage=call.usage,
        dollars=call.dollars,
    )  # fmt: skip


def _class_of(
    status: int, kind: str | None, code: str | None, message: str, error: Mapping[str, Any],
) -> tuple[Fault, int | None, int | None]:  # fmt: skip
    """The fault, and where the provider told them the tokens it counted and the limit it holds."""
    if kind == "exceed_context_size_error":
        return Fault.TOO_LONG, _figure(error.get("n_prompt_tokens")), _figure(error.get("n_ctx"))
    if status in {200, 400, 413, 422}:
        if found := _PROMPT_TOO_LONG.search(message) or _INPUT_AND_OUTPUT.search(message):
            return Fault.TOO_LONG, int(found[1]), int(found[2])
        if found := _OUTPUT_LIMIT.search(message):
            return Fault.OUTPUT_LIMIT, None, int(found[1])
        if status == 400 and _MONEY.search(message):
            return Fault.BILLING, None, None
    if code is not None and code in _BY_CODE:
        return _BY_CODE[code], None, None
    if status in _BY_STATUS:
        return _BY_STATUS[status], None, None
    if status >= 500 or 300 <= status < 400:
        return Fault.TRANSIENT, None, None
    if kind is not None and kind in _BY_TYPE:
        return _BY_TYPE[kind], None, None
    # An error event of an unknown type may pass; an unknown 4xx is said about the request, and a changed request is the only cure for it.
    return (Fault.TRANSIENT if status < 300 else Fault.INVALID), None, None


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds that the endpoint asks to wait (`retry-after-ms`, `retry-after` as seconds or as a date), or None.

    Args:
        headers: of the answer, by any case that the mapping itself accepts.
        now: seconds since 1970, for dates; the wall clock by default.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        told = headers.get(name)
        if told is None:
            continue
        try:
            seconds = float(told) * unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(told).timestamp() - (time.time() if now is None else now)
            except ValueError:
                continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def one_line(text: str, secrets: Collection[str] = ()) -> str:
    """`text` on one line of at most 300 characters, with `secrets` and whatever looks like a key taken out."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    line = " ".join(_SECRETS.sub("***", text[:4000]).split())
    return line if len(line) <= _MESSAGE_CHARS else line[: _MESSAGE_CHARS - 1] + "…"


def _code(error: Mapping[str, Any]) -> str | None:
    details = error.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else error.get("code")
    return code if isinstance(code, str) else None


def _figure(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tokens(value: object) -> int:
    return _figure(value) or 0
