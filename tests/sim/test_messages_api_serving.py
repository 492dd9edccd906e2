"""How answers travel (S2, C5): events, limits, records."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from sim.messages_api import MessagesAPI, Record
from tests.sim.messages_api import SAY, Says, assistant, body, client_of, result, send, stream, text, use, user

SPEECH = "Good day, miller! 磨坊主 😀 How was the harvest, and did the river rise? " * 4
TALK = (text(SPEECH), use(text=SPEECH, to="Brand"))
HEADERS = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}


async def test_a_stream_is_the_answer_in_pieces() -> None:
    """S2: the real order of events, a ping among them, arguments as JSON in pieces; put together it is what the brain said."""
    request = body(tools=[SAY], stream=True)
    async with MessagesAPI(Says(*TALK)) as api, httpx2.AsyncClient(base_url=api.base_url, headers=HEADERS, verify=False) as http:
        answer = await http.post("/v1/messages", json=request)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(part.split("data: ", 1)[1]) for part in answer.text.strip().split("\n\n")]
    names = [part.split("\n")[0].removeprefix("event: ") for part in answer.text.strip().split("\n\n")]
    assert names == [event["type"] for event in events]
    outline = [name for n, name in enumerate(names) if name != "content_block_delta" or names[n - 1] != name]
    assert outline == [
        "message_start",
        *("content_block_start", "ping", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas if delta["type"] == "text_delta") == SPEECH
    arguments = [delta["partial_json"] for delta in deltas if delta["type"] == "input_json_delta"]
    assert arguments[0] == ""
    assert len(arguments) > 5
    assert json.loads("".join(arguments)) == {"text": SPEECH, "to": "Brand"}
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["stop_reason"] is None
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"]["output_tokens"] == api.records[-1].usage.output_tokens > 1


async def test_both_ways_say_the_same() -> None:
    """S2: a stream and a whole answer have the same content, stop reason and usage."""
    async with MessagesAPI(Says(*TALK)) as api, client_of(api) as client:
        streamed, whole = await stream(client, body(tools=[SAY])), await send(client, body(tools=[SAY]))
    assert streamed.model_dump(exclude={"id"})["content"][1] == whole.model_dump(exclude={"id"})["content"][1]
    assert streamed.content[0].model_dump(include={"type", "text"}) == {"type": "text", "text": SPEECH}
    assert (streamed.stop_reason, streamed.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


async def test_an_answer_can_be_sent_back_as_it_came() -> None:
    """C2: the content that the SDK hands out is content that the endpoint takes."""
    async with MessagesAPI(Says(*TALK)) as api, client_of(api) as client:
        first = await send(client, body(tools=[SAY]))
        back = [user("Hello."), first.to_param(), user(result(id="toolu_1"))]
        assert (await send(client, body(*back, tools=[SAY]))).stop_reason == "tool_use"


async def test_ids_are_given_to_tool_uses_without_one() -> None:
    """S2: unique over a whole run."""
    nameless = {"type": "tool_use", "name": "say", "input": {}}
    async with MessagesAPI(Says(nameless, nameless)) as api, client_of(api) as client:
        answers = [await send(client, body(tools=[SAY])) for _ in range(2)]
    ids = [block.id for answer in answers for block in answer.content if block.type == "tool_use"]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
async def test_max_tokens_cuts_where_it_falls(*, streamed: bool) -> None:
    """C5: in the words, and then in the arguments, which are lost; never more tokens than asked for."""
    async with MessagesAPI(Says(*TALK)) as api, client_of(api) as client:
        whole = (await send(client, body(tools=[SAY]))).usage.output_tokens
        for cap in (1, 20, whole // 2 + 40, whole - 1):
            answer = await (stream if streamed else send)(client, body(tools=[SAY], max_tokens=cap))
            assert answer.stop_reason == "max_tokens"
            assert answer.usage.output_tokens == cap
            uses = [block for block in answer.content if block.type == "tool_use"]
            assert all(block.input != TALK[1]["input"] for block in uses)
        assert uses
        assert (await send(client, body(tools=[SAY], max_tokens=whole))).stop_reason == "tool_use"


async def test_an_answer_that_meets_the_end_of_the_window() -> None:
    """C1: newer models take the request and stop at the edge."""
    async with MessagesAPI(Says(text(SPEECH * 5))) as api, client_of(api) as client:
        tokens = (await send(client, body())).usage.input_tokens
    async with MessagesAPI(Says(text(SPEECH * 5)), tokens + 30) as api, client_of(api) as client:
        answer = await stream(client, body())
    assert (answer.stop_reason, answer.usage.output_tokens) == ("model_context_window_exceeded", 30)


async def test_stop_sequences_end_the_answer_before_they_are_said() -> None:
    """C1: the first one in the text counts."""
    async with MessagesAPI(Says(*TALK)) as api, client_of(api) as client:
        answer = await send(client, body(tools=[SAY], stop_sequences=["harvest", "miller"]))
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "miller")
    assert [block.model_dump(include={"text"}) for block in answer.content] == [{"text": "Good day, "}]


async def test_thinking_is_streamed_and_signed() -> None:
    """S2: as blocks of its own kind."""
    async with MessagesAPI(Says({"type": "thinking", "thinking": "He lies."}, text("Good day."))) as api, client_of(api) as client:
        answer = await stream(client, body())
    assert answer.content[0].type == "thinking"
    assert (answer.content[0].thinking, len(answer.content[0].signature) > 10) == ("He lies.", True)


async def test_the_oracle_hears_of_a_request_before_the_client_has_its_answer() -> None:
    """S4: with body, figures and outcome."""
    heard: list[Record] = []
    async with MessagesAPI(Says(), 5000, on_request=heard.append, clock=lambda: 12.5) as api, client_of(api) as client:
        sent = body(user("Hello."), assistant("Hm."), user("Well?"))
        await send(client, sent)
        assert len(heard) == 1
        with pytest.raises(Exception, match="too long"):
            await send(client, body(user("word " * 5000)))
    answered, refused = heard
    assert answered.body == sent
    assert (answered.number, answered.at, answered.window) == (1, 12.5, 5000)
    assert (answered.outcome, answered.stop_reason) == ("answered", "end_turn")
    assert answered.content == (text("Good day."),)
    assert answered.usage.input_tokens == answered.tokens > 0
    assert answered.dollars > 0
    assert (refused.outcome, refused.status, refused.error_type) == ("refused", 400, "invalid_request_error")
    assert refused.tokens > refused.window
    assert answered.digest != refused.digest != b""


async def test_records_are_bounded() -> None:
    """S2: a long run does not fill the memory with bodies."""
    async with MessagesAPI(Says(), keep=3) as api, client_of(api) as client:
        for _ in range(5):
            await send(client, body())
        assert [record.number for record in api.records] == [3, 4, 5]


async def test_many_clients_at_once() -> None:
    """S2, O6: each gets its own answer."""

    class Echo:
        def reply(self, request: Any) -> Any:
            return Says(text("You said: " + request["messages"][-1]["content"])).reply(request)

    async with MessagesAPI(Echo()) as api, client_of(api) as client:
        answers = await asyncio.gather(*(stream(client, body(user(f"I am {n}."))) for n in range(20)))
    assert [answer.content[0].model_dump(include={"text"})["text"] for answer in answers] == [f"You said: I am {n}." for n in range(20)]


async def test_unknown_paths_and_methods() -> None:
    """S2: answered like everything else."""
    async with MessagesAPI(Says()) as api, httpx2.AsyncClient(base_url=api.base_url, headers=HEADERS, verify=False) as http:
        for method, path in (("GET", "/v1/nothing"), ("GET", "/v1/messages"), ("POST", "/v1/complete")):
            answer = await http.request(method, path)
            assert answer.status_code in {404, 405}
        assert (await http.post("/v1/complete")).json()["error"]["type"] == "not_found_error"
