"""The client against an endpoint that sets each trap byte by byte (rows C1, C2, C5 to C8, O5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runtime.core.values import Answer, Failure, Fault, Outcome, Stop, Usage
from runtime.model.client import ModelClient, Timeouts
from runtime.model.retry import Policy
from tests.model.endpoint import END, Act, Endpoint, Script, chunk, error, event, head, said, start, stop, stream, text, tool

BODY: Mapping[str, Any] = {"model": "claude-haiku-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
KEY = "sk-ant-secret-0123456789"
ONCE = Policy(tries=1)
SHORT = Timeouts(connect_s=1.0, silence_s=0.3, total_s=5.0)


@asynccontextmanager
async def talking(*scripts: Script, policy: Policy = ONCE, timeouts: Timeouts = SHORT) -> AsyncIterator[tuple[ModelClient, Endpoint]]:
    async def at_once(_: float) -> None:
        return

    async with Endpoint(*scripts) as endpoint:
        client = ModelClient(api_key=KEY, base_url=endpoint.url, policy=policy, timeouts=timeouts, sleep=at_once)
        try:
            yield client, endpoint
        finally:
            await client.close()


async def outcome(*scripts: Script, policy: Policy = ONCE, body: Mapping[str, Any] = BODY) -> Outcome:
    async with talking(*scripts, policy=policy) as (client, _):
        return await client.call(body)


async def answer(*scripts: Script, policy: Policy = ONCE, body: Mapping[str, Any] = BODY) -> Answer:
    got = await outcome(*scripts, policy=policy, body=body)
    assert isinstance(got, Answer), got
    return got


async def failure(*scripts: Script, policy: Policy = ONCE, body: Mapping[str, Any] = BODY) -> Failure:
    got = await outcome(*scripts, policy=policy, body=body)
    assert isinstance(got, Failure), got
    return got


# -- stop reasons


@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "stop_sequence", "pause_turn"])
async def test_a_stop_reason_that_is_an_answer(stop_reason: str) -> None:
    """C1."""
    got = await answer(stream(start(), *text("Good ", "day."), *stop(stop_reason)))
    assert got.stop == Stop(stop_reason)
    assert got.content == ({"type": "text", "text": "Good day."},)
    assert got.usage == Usage(input_tokens=10, cache_read_tokens=100, cache_write_tokens=50, output_tokens=7)
    assert got.dollars == pytest.approx((10 * 0.10 + 100 * 0.01 + 50 * 0.125 + 7 * 0.50) / 1e6)
    assert (got.model, got.request_id) == ("claude-haiku-5-5", "req_1")


async def test_tool_use_keeps_every_block_in_its_order() -> None:
    """C1, C2: text, thinking with its signature and both tool uses come back as they were sent."""
    thought = [
        event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
        event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "hm"}),
        event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "c2ln"}),
        event("content_block_stop", index=0),
    ]
    script = stream(
        start(), *thought, *text("Well.", index=1), *tool('{"text": "h', 'i"}', index=2), *tool(index=3, name="look", id="toolu_2"),
        *stop("tool_use"),
    )  # fmt: skip
    got = await answer(script)
    assert got.stop is Stop.TOOL_USE
    assert got.content == (
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "toolu_1", "name": "say", "input": {"text": "hi"}},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
    )


async def test_refusal_is_a_failure_with_its_category_and_its_bill() -> None:
    """C6."""
    got = await failure(stream(start(), *stop("refusal", stop_details={"type": "refusal", "category": "cyber", "explanation": None})))
    assert got.fault is Fault.REFUSED
    assert "cyber" in got.message
    assert got.usage is not None
    assert got.usage.output_tokens == 7


async def test_a_full_window_is_too_long() -> None:
    """C1: `model_context_window_exceeded`."""
    got = await failure(stream(start(), *text("Once upon"), *stop("model_context_window_exceeded")))
    assert got.fault is Fault.TOO_LONG
    assert got.usage is not None


@pytest.mark.parametrize("stop_reason", ["compaction", "brand_new", None])
async def test_an_unknown_stop_reason_fails_closed(stop_reason: str | None) -> None:
    """C1, C28: nothing of such an answer is used."""
    assert (await failure(stream(start(), *tool('{"text": "hi"}'), *stop(stop_reason)))).fault is Fault.STOPPED


async def test_a_server_that_calls_a_tool_use_the_end_of_the_turn() -> None:
    """O5: and the other way round."""
    assert (await answer(stream(start(), *tool('{"text": "hi"}'), *stop("end_turn")))).stop is Stop.TOOL_USE
    assert (await answer(stream(start(), *text("hi"), *stop("tool_use")))).stop is Stop.END_TURN


# -- half answers


async def test_max_tokens_inside_a_tool_call_keeps_the_raw_text() -> None:
    """C5: the SDK would drop the half-sent argument in silence."""
    got = await answer(stream(start(), *tool('{"text": "half a wo'), *stop("max_tokens")))
    assert got.stop is Stop.MAX_TOKENS
    assert got.content[0]["input"] == {}
    assert got.content[0]["_invalid"] == '{"text": "half a wo'


async def test_max_tokens_before_the_first_argument_is_not_a_call_without_arguments() -> None:
    """C5."""
    assert (await answer(stream(start(), *tool(), *stop("max_tokens")))).content[0]["_invalid"] == ""


@pytest.mark.parametrize("raw", ["{text: hi}", '{"n": NaN}', '["a"]', '"a"', '{"n": ' + "9" * 5000 + "}", "[" * 100_000])
async def test_malformed_arguments_are_told_apart_from_none(raw: str) -> None:
    """P13: the SDK raises ValueError on these; here the repair of the loop sees what the model wrote."""
    got = await answer(stream(start(), *tool(raw), *stop("tool_use")))
    assert got.content[0]["input"] == {}
    assert got.content[0]["_invalid"] == raw


# -- streams that end badly


async def test_a_cut_stream_is_transient_and_told_with_what_it_cost() -> None:
    """C8: raw RemoteProtocolError or ReadError in the SDK."""
    got = await failure([head(), chunk(start()), chunk(text("Go")[0]), Act.CUT])
    assert got.fault is Fault.TRANSIENT
    assert got.usage is not None
    assert got.usage.total_input == 160
    assert got.dollars is not None


async def test_a_connection_cut_before_the_answer_is_transient() -> None:
    assert (await failure([Act.CUT])).fault is Fault.TRANSIENT


async def test_silence_in_the_middle_is_transient() -> None:
    """C8: raw ReadTimeout in the SDK."""
    got = await failure([head(), chunk(start()), Act.HOLD])
    assert (got.fault, got.message) == (Fault.TRANSIENT, "the model's endpoint fell silent")


async def test_silence_before_the_answer_is_transient() -> None:
    assert (await failure([Act.HOLD])).fault is Fault.TRANSIENT


async def test_a_clean_end_without_message_stop_is_no_answer() -> None:
    """The SDK would return the half of it as a message without a stop reason."""
    got = await failure(stream(start(), *text("All is well")))
    assert (got.fault, got.message) == (Fault.TRANSIENT, "the stream ended before the answer did")


async def test_pings_alone_do_not_keep_a_call_alive() -> None:
    """The total time-out of one try holds where silence never comes."""
    async with talking([head(), chunk(start()), Act.PING], timeouts=Timeouts(silence_s=5.0, total_s=0.3)) as (client, _):
        got = await client.call(BODY)
    assert isinstance(got, Failure)
    assert (got.fault, got.message) == (Fault.TRANSIENT, "no whole answer within 0.3 s")


async def test_a_deadline_of_the_caller_holds_over_tries_and_waits() -> None:
    async with talking([Act.HOLD], policy=Policy(tries=50), timeouts=Timeouts(silence_s=5.0)) as (client, _):
        async with asyncio.timeout(3.0):
            got = await client.call(BODY, deadline_s=0.3)
    assert isinstance(got, Failure)
    assert got.fault is Fault.TRANSIENT


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("overloaded_error", Fault.TRANSIENT),
        ("api_error", Fault.TRANSIENT),
        ("rate_limit_error", Fault.TRANSIENT),
        ("brand_new_error", Fault.TRANSIENT),
        ("invalid_request_error", Fault.INVALID),
        ("authentication_error", Fault.CREDENTIAL),
        ("billing_error", Fault.BILLING),
    ],
)
async def test_an_error_event_inside_a_stream_is_classed_by_its_type(kind: str, fault: Fault) -> None:
    """The status of such an answer is 200."""
    got = await failure(stream(start(), event("error", error={"type": kind, "message": "sorry"}, request_id="req_2")))
    assert (got.fault, got.status, got.error_type) == (fault, 200, kind)
    assert got.usage is not None


# -- bytes


async def test_one_byte_at_a_time() -> None:
    got = await answer([bytes([byte]) for byte in b"".join(piece for piece in said("Grüß ", "dich, 小雨 😂") if isinstance(piece, bytes))])
    assert got.content == ({"type": "text", "text": "Grüß dich, 小雨 😂"},)


async def test_surrogates_in_an_answer_never_reach_the_history() -> None:
    """W5: a pair that was cut between two events becomes its character, a lone one U+FFFD."""
    got = await answer(stream(start(), *text("a\ud83d", "\ude00 b\ud800"), *stop("end_turn")))
    assert got.content[0]["text"] == "a😀 b\ufffd"
    got = await answer(stream(start(), *tool(r'{"text": "\ud800"}'), *stop("tool_use")))
    assert got.content[0]["input"] == {"text": "\ufffd"}


async def test_a_lone_surrogate_or_nul_in_the_request_is_ordinary_text() -> None:
    """The SDK would raise UnicodeEncodeError; the API refuses the escape."""
    async with talking(said("hi")) as (client, endpoint):
        got = await client.call({**BODY, "messages": [{"role": "user", "content": "a\ud800b\x00c <|endoftext|> \ud83d\ude00"}]})
    assert isinstance(got, Answer)
    assert endpoint.requests[0].json["messages"][0]["content"] == "a\ufffdb\x00c <|endoftext|> 😀"


async def test_bad_utf8_in_a_stream_costs_one_character() -> None:
    broken = text("caf\u00e9")[1].replace(json.dumps("\u00e9")[1:-1].encode(), b"\xe9")
    got = await answer(stream(start(), text()[0], broken, text()[1], *stop("end_turn")))
    assert got.content[0]["text"] == "caf\ufffd"


@pytest.mark.parametrize(
    "script",
    [
        [head(), chunk(b"event: message_start\ndata: {nonsense\n\n"), END],
        [head(), chunk(b"data: 7\n\n"), END],
        stream(start(), text("x")[1], *stop("end_turn")),
        [head(content_type="application/json"), chunk(b'{"type": "message", "content": [{"ty'), END],
        [head(content_type="application/json"), chunk(b"[]"), END],
        [head(content_type="text/html"), chunk(b"<html>Sign in to the hotel's network</html>"), END],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", Act.CUT],
        [b"SSH-2.0-OpenSSH_9.2\r\n", Act.CUT],
    ],
    ids=["no json", "no object", "delta without block", "truncated body", "list", "web page", "short body", "not http"],
)
async def test_what_is_not_the_messages_api_is_transient(script: Script) -> None:
    assert (await failure(script)).fault is Fault.TRANSIENT


async def test_a_tool_use_without_an_id_makes_no_sense() -> None:
    assert (await failure(stream(start(), *tool("{}", id=""), *stop("tool_use")))).fault is Fault.STOPPED


async def test_an_endpoint_that_does_not_stream() -> None:
    """O5."""
    message = {
        "type": "message", "role": "assistant", "model": "local", "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "content": [{"type": "text", "text": "hm"}, {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "door"}}],
    }  # fmt: skip
    got = await answer([head(content_type="application/json"), chunk(json.dumps(message).encode()), END], body={**BODY, "model": "local"})
    assert got.stop is Stop.TOOL_USE
    assert got.content[1]["input"] == {"at": "door"}
    assert got.dollars is None


async def test_an_answer_under_another_name_has_the_price_of_what_was_asked() -> None:
    """C9: a cap on dollars must not be lost to a gateway's own names."""
    renamed = start().replace(b"claude-haiku-5-5", b"our-gateway/fast")
    got = await answer(stream(renamed, *text("hi"), *stop("end_turn")))
    assert got.model == "our-gateway/fast"
    assert got.dollars is not None
    assert got.dollars > 0


async def test_events_without_names_and_the_openai_end_mark() -> None:
    """O5: some servers send only `data:` lines."""
    bare = [data.partition(b"\n")[2] for data in (start(), *text("hi"), *stop("end_turn"))]
    assert (await answer(stream(*bare, b"data: [DONE]\n\n"))).content[0]["text"] == "hi"


async def test_unknown_events_and_deltas_change_nothing() -> None:
    new = event("content_block_delta", index=0, delta={"type": "mood_delta", "mood": "sour"})
    begin, *parts = text("hi")
    got = await answer(stream(start(), event("weather", rain=True), begin, new, *parts, *stop("end_turn")))
    assert got.content == ({"type": "text", "text": "hi"},)


# -- errors


async def test_a_too_long_prompt_brings_its_figures() -> None:
    """P11."""
    got = await failure(error("400 Bad Request", "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"))
    assert (got.fault, got.prompt_tokens, got.limit, got.status) == (Fault.TOO_LONG, 213462, 200000, 400)


async def test_an_answer_may_follow_on_the_same_connection() -> None:
    """The stream is read to its end, so a call does not cost a connection."""
    async with talking(said("one"), error("529 Overloaded", "overloaded_error", "Overloaded"), said("two")) as (client, endpoint):
        for _ in range(3):
            await client.call(BODY)
    assert len(endpoint.requests) == 3
    assert endpoint.connections == 1


async def test_a_server_that_holds_the_stream_open_after_its_end_costs_no_time_out() -> None:
    """`message_stop` ends the answer; the rest is the connection's affair."""
    script: Script = [*said("done")[:-1], Act.HOLD]
    async with talking(script, timeouts=Timeouts(silence_s=30.0)) as (client, endpoint):
        async with asyncio.timeout(5.0):
            got = await client.call(BODY)
        assert isinstance(got, Answer)
        await asyncio.wait_for(endpoint.left.wait(), 5.0)


async def test_transient_failures_are_tried_again_and_their_cost_is_kept() -> None:
    """C8, C9: a stream that was cut is billed too."""
    cut: Script = [head(), chunk(start()), Act.CUT]
    async with talking(cut, error("503 Unavailable", "api_error", "later"), said("hi"), policy=Policy(tries=5)) as (client, endpoint):
        got = await client.call(BODY)
    assert isinstance(got, Answer)
    assert len(endpoint.requests) == 3
    assert got.usage.output_tokens == 7
    assert got.dollars is not None
    assert got.dollars == pytest.approx((2 * (10 * 0.10 + 100 * 0.01 + 50 * 0.125) + (1 + 7) * 0.50) / 1e6)


async def test_the_last_failure_goes_up_with_its_tries() -> None:
    got = await failure(error("529 Overloaded", "overloaded_error", "Overloaded"), policy=Policy(tries=3))
    assert (got.fault, got.tries, got.status) == (Fault.TRANSIENT, 3, 529)


async def test_a_refused_request_is_sent_once() -> None:
    """C6: nothing but transient failures is repeated unchanged."""
    async with talking(error("400 Bad Request", "invalid_request_error", "no"), policy=Policy(tries=5)) as (client, endpoint):
        await client.call(BODY)
    assert len(endpoint.requests) == 1


async def test_no_secret_stands_in_a_message() -> None:
    """C18: not the key, not what looks like one, on one line of bounded length."""
    got = await failure(error("401 Unauthorized", "authentication_error", f"invalid {KEY} or sk-ant-other-9876543210\n" + "x" * 1000))
    assert got.fault is Fault.CREDENTIAL
    assert "sk-ant" not in got.message
    assert "\n" not in got.message
    assert len(got.message) <= 300


async def test_nobody_listens() -> None:
    """Connection refused: a value, not an exception."""
    async with Endpoint([Act.CUT]) as endpoint:
        url = endpoint.url
    client = ModelClient(base_url=url, policy=ONCE)
    got = await client.call(BODY)
    await client.close()
    assert isinstance(got, Failure)
    assert got.fault is Fault.TRANSIENT
    assert got.message.startswith("no connection to the model's endpoint")


async def test_a_base_url_that_is_none() -> None:
    client = ModelClient(base_url="ftp://127.0.0.1", policy=ONCE)
    got = await client.call(BODY)
    await client.close()
    assert isinstance(got, Failure)
    assert got.fault is Fault.MODEL


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
async def test_a_request_that_is_not_json_is_never_sent(value: object) -> None:
    async with talking(said("hi")) as (client, endpoint):
        got = await client.call({**BODY, "metadata": value})
    assert isinstance(got, Failure)
    assert got.fault is Fault.LOCAL
    assert endpoint.requests == []


async def test_a_local_endpoint_needs_no_key_and_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """O5, C18: the key of the environment is not sent to a stranger, and no proxy of the environment stands before this machine."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with Endpoint(said("hi")) as endpoint:
        client = ModelClient(base_url=endpoint.url, policy=ONCE)
        got = await client.call(BODY)
        await client.close()
    assert isinstance(got, Answer)
    assert KEY not in str(endpoint.requests[0].headers)


async def test_the_provider_without_a_key_fails_before_the_network() -> None:
    client = ModelClient(base_url="https://api.anthropic.com")
    got = await client.call(BODY)
    await client.close()
    assert isinstance(got, Failure)
    assert got.fault is Fault.CREDENTIAL


async def test_what_is_sent() -> None:
    """The body goes out as it was given, in its own order, with the key and the version in the head."""
    system = [{"type": "text", "text": "Grüße 小雨"}]
    body = {"model": "m", "max_tokens": 5, "system": system, "messages": BODY["messages"], "a_beta_field": 1}
    async with talking(said("hi")) as (client, endpoint):
        await client.call(body)
    request = endpoint.requests[0]
    assert request.head == "POST /v1/messages HTTP/1.1"
    assert list(request.json.items()) == [*body.items(), ("stream", True)]
    assert "Grüße 小雨".encode() in request.body
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert "anthropic-version" in request.headers


async def test_cancellation_closes_the_stream_and_is_not_swallowed() -> None:
    async with talking([head(), chunk(start()), Act.HOLD], timeouts=Timeouts(silence_s=30.0), policy=Policy()) as (client, endpoint):
        call = asyncio.create_task(client.call(BODY))
        await asyncio.wait_for(endpoint.arrived.wait(), 5.0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(endpoint.left.wait(), 5.0)


async def test_a_closed_client_answers_with_a_value() -> None:
    client = ModelClient(base_url="http://127.0.0.1:1")
    await client.close()
    got = await client.call(BODY)
    assert isinstance(got, Failure)
    assert got.fault is Fault.LOCAL


async def test_the_address_is_shown_without_its_password() -> None:
    client = ModelClient(base_url="http://me:hunter2@127.0.0.1:8080/models")
    await client.close()
    assert client.base_url == "http://127.0.0.1:8080/models/"


async def test_an_address_with_the_version_in_it() -> None:
    """O5: what a local server prints as its address may be pasted as it is."""
    async with Endpoint(said("hi")) as endpoint:
        client = ModelClient(base_url=endpoint.url + "/v1/", policy=ONCE)
        assert isinstance(await client.call(BODY), Answer)
        await client.close()
    assert endpoint.requests[0].head == "POST /v1/messages HTTP/1.1"
