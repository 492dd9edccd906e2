"""Every error answer of the API, and of the servers that copy it, as a value (rows C1, C8, P11, O5)."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import pytest

from runtime.core.values import Failure, Fault
from runtime.model.outcomes import Call, raised, refused, retry_after

UNANSWERED = (
    "messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_9. Each `tool_use` block must have a "
    "corresponding `tool_result` block in the next message."
)


def told(status: int, kind: str | None, message: str, **more: Any) -> Failure:
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_body"}
    return refused(status, body, {}, Call(model="claude-haiku-5-5"))


@pytest.mark.parametrize(
    ("status", "kind", "message", "fault"),
    [
        (400, "invalid_request_error", UNANSWERED, Fault.INVALID),
        (400, "invalid_request_error", "messages: text content blocks must be non-empty", Fault.INVALID),
        (400, "invalid_request_error", "something new", Fault.INVALID),
        (400, None, "no type", Fault.INVALID),
        (422, "unprocessable", "field required", Fault.INVALID),
        (418, None, "teapot", Fault.INVALID),
        (400, "invalid_request_error", "Your credit balance is too low to access the API.", Fault.BILLING),
        (400, "invalid_request_error", "You have reached your specified API usage limits.", Fault.BILLING),
        (401, "authentication_error", "invalid x-api-key", Fault.CREDENTIAL),
        (402, "billing_error", "payment required", Fault.BILLING),
        (403, "permission_error", "not allowed", Fault.PERMISSION),
        (404, "not_found_error", "model: claude-x", Fault.MODEL),
        (405, None, "method not allowed", Fault.MODEL),
        (408, None, "timeout", Fault.TRANSIENT),
        (409, "conflict_error", "conflict", Fault.TRANSIENT),
        (413, "request_too_large", "Request exceeds the maximum size", Fault.TOO_LONG),
        (429, "rate_limit_error", "slow down", Fault.TRANSIENT),
        (500, "api_error", "internal", Fault.TRANSIENT),
        (502, None, "<html>bad gateway</html>", Fault.TRANSIENT),
        (503, None, "", Fault.TRANSIENT),
        (504, "timeout_error", "timeout", Fault.TRANSIENT),
        (529, "overloaded_error", "Overloaded", Fault.TRANSIENT),
        (302, None, "moved", Fault.TRANSIENT),
    ],
)
def test_an_error_answer_is_classed(status: int, kind: str | None, message: str, fault: Fault) -> None:
    got = told(status, kind, message)
    assert (got.fault, got.status, got.error_type, got.request_id) == (fault, status, kind, "req_body")


@pytest.mark.parametrize(
    ("status", "kind", "code", "fault"),
    [
        (429, "rate_limit_error", "contract_spend_limit_reached", Fault.BILLING),
        (400, "invalid_request_error", "enforced_spend_limit_reached", Fault.BILLING),
        (400, "invalid_request_error", "organization_on_hold", Fault.PERMISSION),
        (429, "rate_limit_error", "ramp_limit_exceeded", Fault.TRANSIENT),
        (400, "invalid_request_error", "a_new_code", Fault.INVALID),
    ],
)
def test_an_error_code_outranks_the_status(status: int, kind: str, code: str, fault: Fault) -> None:
    assert told(status, kind, "see the code", details={"error_code": code}).fault is fault


def test_the_figures_of_a_too_long_prompt() -> None:
    """P11: the provider's own count teaches ours."""
    got = told(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum")
    assert (got.fault, got.prompt_tokens, got.limit) == (Fault.TOO_LONG, 213462, 200000)
    got = told(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")
    assert (got.fault, got.prompt_tokens, got.limit) == (Fault.TOO_LONG, 190000, 200000)
    got = told(400, "exceed_context_size_error", "the request exceeds the available context size", n_prompt_tokens=5120, n_ctx=4096)
    assert (got.fault, got.prompt_tokens, got.limit) == (Fault.TOO_LONG, 5120, 4096)
    got = told(400, "exceed_context_size_error", "without figures")
    assert (got.fault, got.prompt_tokens, got.limit) == (Fault.TOO_LONG, None, None)


def test_the_figure_of_an_output_limit() -> None:
    message = "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5"
    got = told(400, "invalid_request_error", message)
    assert (got.fault, got.limit) == (Fault.OUTPUT_LIMIT, 64000)


@pytest.mark.parametrize("body", [None, "", "text", [], {"error": "a string"}, {"error": {"message": 7, "type": 8}}, {"detail": "odd"}])
def test_a_body_of_any_shape_is_a_value(body: object) -> None:
    """O5: servers that copy the API do not all copy its errors."""
    got = refused(400, body, {}, Call())
    assert got.fault is Fault.INVALID
    assert got.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """C8."""
    assert retry_after(headers, now=60.0) == seconds


REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages")


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (anthropic.APITimeoutError(REQUEST), Fault.TRANSIENT),
        (anthropic.APIConnectionError(request=REQUEST), Fault.TRANSIENT),
        (anthropic.RateLimitError("slow", response=httpx2.Response(429, request=REQUEST), body=None), Fault.TRANSIENT),
        (anthropic.APIStatusError("odd", response=httpx2.Response(401, request=REQUEST), body="text"), Fault.CREDENTIAL),
        (httpx2.ReadTimeout("silent"), Fault.TRANSIENT),
        (httpx2.RemoteProtocolError("cut"), Fault.TRANSIENT),
        (httpx2.ReadError("reset"), Fault.TRANSIENT),
        (httpx2.DecodingError("bad gzip"), Fault.TRANSIENT),
        (httpx2.StreamClosed(), Fault.TRANSIENT),
        (OSError(24, "too many open files"), Fault.TRANSIENT),
        (TimeoutError(), Fault.TRANSIENT),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), Fault.TRANSIENT),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "bad"), Fault.LOCAL),
        (anthropic.AnthropicError("odd"), Fault.LOCAL),
        (RuntimeError("a fault in a library"), Fault.LOCAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_exception_is_a_value(error: Exception, fault: Fault) -> None:
    got = raised(error, Call(secrets=("hunter2",)))
    assert got.fault is fault
    assert got.message
    assert "\n" not in got.message


def test_a_secret_in_an_exception_is_taken_out() -> None:
    """C18."""
    got = raised(RuntimeError("http://me:pass@host/ hunter2 Bearer abc123"), Call(secrets=("hunter2",)))
    assert got.message == "the call failed on our side: RuntimeError: http://***host/ *** Bearer ***"
