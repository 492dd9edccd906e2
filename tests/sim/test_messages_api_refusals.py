"""Everything that the real Messages API refuses, refused over HTTP and seen through the real SDK (S2).

Each case is one rule, with the wording that clients meet in the wild where it is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import anthropic
import httpx2
import pytest
import pytest_asyncio

from sim.messages_api import PROFILES, Dialect, MessagesAPI, Reply
from tests.sim.messages_api import (
    HOUR,
    LOOK,
    MARK,
    MODEL,
    SAY,
    Says,
    assistant,
    body,
    client_of,
    count,
    result,
    send,
    stream,
    text,
    use,
    user,
)

OLD = "claude-sonnet-4-5"
ASKED = (user("Speak."), assistant(use(text="hm")))
SYSTEM = {"role": "system", "content": "Keep the rule."}
DEFERRED = {**SAY, "defer_loading": True}


class Case(NamedTuple):
    """A request and the message of its refusal, which is a 400 invalid_request_error unless said otherwise."""

    request: Any
    message: str
    version: str | None = None


UNANSWERED = (
    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. "
    "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
ORPHAN = (
    "unexpected `tool_use_id` found in `tool_result` blocks: {}. "
    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
)
TTL_ORDER = (
    "{}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
    "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
)
NO_PREFILL = "This model does not support assistant message prefill. The conversation must end with a user message."
MUST_FOLLOW = "role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
MUST_PRECEDE = "role 'system' must precede an 'assistant' message or end the array"

CASES = {
    # form
    "no messages at all": Case({"model": MODEL, "max_tokens": 5}, "messages: Field required"),
    "no max_tokens": Case({"model": MODEL, "messages": [user("a")]}, "max_tokens: Field required"),
    "no model": Case({"max_tokens": 5, "messages": [user("a")]}, "model: Field required"),
    "empty messages": Case(body() | {"messages": []}, "messages: at least one message is required"),
    "extra field": Case(body(history=[]), "history: Extra inputs are not permitted"),
    "extra field in a block": Case(body(user({**text("a"), "id": 3})), "messages.0.content.0.text.id: Extra inputs are not permitted"),
    "beta field without its beta": Case(body(context_management={}), "context_management: Extra inputs are not permitted"),
    "unknown role": Case(
        body({"role": "tool", "content": "a"}), "messages.0.role: Input should be 'user', 'assistant' or 'system'"
    ),
    "block without type": Case(body(user({"text": "a"})), "messages.0.content.0.type: Field required"),
    "content that is no content": Case(body({"role": "user", "content": 7}), "messages.0.content: Input should be a valid list"),
    "text that is no text": Case(
        body(user({"type": "text", "text": None})), "messages.0.content.0.text.text: Input should be a valid string"
    ),
    "tool use without arguments": Case(
        body(user("a"), assistant({"type": "tool_use", "id": "t", "name": "say", "input": None}), tools=[SAY]),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    "id with odd characters": Case(
        body(*ASKED[:1], assistant(use(id="a b")), user(result(id="a b")), tools=[SAY]),
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    "unknown model": Case(body(model="claude-of-yore"), "model: claude-of-yore"),
    # sizes
    "max_tokens over the model's": Case(
        body(max_tokens=128_001), f"max_tokens: 128001 > 128000, which is the maximum allowed number of output tokens for {MODEL}"
    ),
    "negative max_tokens": Case(body(max_tokens=-1), "max_tokens: Input should be greater than or equal to 0"),
    # empties
    "empty text": Case(body(user(text(""))), "messages: text content blocks must be non-empty"),
    "blank text": Case(body(user(text("a"), text(" \n"))), "messages: text content blocks must contain non-whitespace text"),
    "blank string": Case(body(user("  ")), "messages: text content blocks must contain non-whitespace text"),
    "empty text with a mark": Case(
        body(user(text("", cache_control=MARK))), "messages.0.content.0.text: cache_control cannot be set for empty text blocks"
    ),
    "empty system block": Case(body(system=[text("")]), "system: text content blocks must be non-empty"),
    "blank system block": Case(body(system=[text(" ")]), "system: text content blocks must contain non-whitespace text"),
    "empty text in a result": Case(body(*ASKED, user(result([text("")])), tools=[SAY]), "messages: text content blocks must be non-empty"),
    "empty content": Case(
        body(user("a"), assistant(), user("b")),
        "messages.1: all messages must have non-empty content except for the optional final assistant message",
    ),
    "empty string content": Case(
        body(user("")), "messages.0: all messages must have non-empty content except for the optional final assistant message"
    ),
    # pairs
    "unanswered tool use": Case(body(*ASKED, user("well?"), tools=[SAY]), f"messages.1: {UNANSWERED.format('toolu_1')}"),
    "unanswered at the end": Case(body(*ASKED, tools=[SAY]), f"messages.1: {UNANSWERED.format('toolu_1')}"),
    "two unanswered of three": Case(
        body(user("a"), assistant(use(id="a"), use(id="b"), use(id="c")), user(result(id="b")), tools=[SAY]),
        f"messages.1: {UNANSWERED.format('a, c')}",
    ),
    "text before the result": Case(body(*ASKED, user(text("well"), result()), tools=[SAY]), f"messages.1: {UNANSWERED.format('toolu_1')}"),
    "answered a message later": Case(
        body(*ASKED, user("wait"), assistant("I wait."), user(result()), tools=[SAY]), f"messages.1: {UNANSWERED.format('toolu_1')}"
    ),
    "orphan result": Case(
        body(user("a"), assistant("b"), user(result(id="lost")), tools=[SAY]), f"messages.2.content.0: {ORPHAN.format('lost')}"
    ),
    "orphan result in front": Case(body(user(result(id="lost")), tools=[SAY]), f"messages.0.content.0: {ORPHAN.format('lost')}"),
    "two results": Case(
        body(*ASKED, user(result(), result("twice")), tools=[SAY]),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_1",
    ),
    "doubled id": Case(
        body(*ASKED, user(result()), assistant(use()), user(result()), tools=[SAY]),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    "tool use by the user": Case(
        body(user(use()), tools=[SAY]), "messages.0: `tool_use` blocks can only be in `assistant` messages"
    ),
    "result by the assistant": Case(
        body(user("a"), assistant(result()), user("b"), tools=[SAY]), "messages.1: `tool_result` blocks can only be in `user` messages"
    ),
    "tool blocks without tools": Case(
        body(*ASKED, user(result())), "Requests which include `tool_use` or `tool_result` blocks must define tools."
    ),
    # the end
    "prefill": Case(body(user("a"), assistant("And so")), NO_PREFILL),
    "trailing blank in a prefill": Case(
        body(user("a"), assistant("And so "), model=OLD), "messages: final assistant content cannot end with trailing whitespace"
    ),
    # system messages
    "system message first": Case(body(SYSTEM, assistant("b"), user("a")), f"messages.0: {MUST_FOLLOW}"),
    "system message after the assistant": Case(body(user("a"), assistant("b"), SYSTEM), f"messages.2: {MUST_FOLLOW}"),
    "system message before the user": Case(body(user("a"), SYSTEM, user("b")), f"messages.1: {MUST_PRECEDE}"),
    "two system messages": Case(body(user("a"), SYSTEM, SYSTEM), f"messages.1: {MUST_PRECEDE}"),
    "system message on a model without": Case(
        body(user("a"), SYSTEM, model="claude-sonnet-5"), "role 'system' is not supported on this model"
    ),
    # marks
    "five marks": Case(
        body(user(*(text(c, cache_control=MARK) for c in "abcde"))), "A maximum of 4 blocks with cache_control may be provided. Found 5."
    ),
    "four marks and the request's own": Case(
        body(user(*(text(c, cache_control=MARK) for c in "abcd"), text("e")), cache_control=MARK),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "marks everywhere": Case(
        body(
            *ASKED,
            user(result([text("a", cache_control=MARK), text("b", cache_control=MARK)])),
            tools=[{**SAY, "cache_control": MARK}],
            system=[text("s", cache_control=MARK), text("t", cache_control=MARK)],
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "an hour after five minutes": Case(
        body(user(text("a", cache_control=HOUR)), system=[text("s", cache_control=MARK)]), TTL_ORDER.format("messages.0.content.0")
    ),
    "mark on thinking": Case(
        body(user("a"), assistant({"type": "thinking", "thinking": "t", "signature": "s", "cache_control": MARK}, text("b")), user("c")),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    ),
    "odd time to live": Case(
        body(user(text("a", cache_control={"type": "ephemeral", "ttl": "2h"}))),
        "messages.0.content.0.text.cache_control.ttl: Input should be '5m' or '1h'",
    ),
    # tools
    "two tools of one name": Case(body(tools=[SAY, SAY]), "tools: Tool names must be unique."),
    "tool name with a space": Case(
        body(tools=[{**SAY, "name": "say it"}]), "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    ),
    "tool name too long": Case(
        body(tools=[{**SAY, "name": "s" * 129}]), "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    ),
    "schema without type": Case(body(tools=[{"name": "a", "input_schema": {}}]), "tools.0.custom.input_schema.type: Field required"),
    "tool without schema": Case(body(tools=[{"name": "a"}]), "tools.0.custom.input_schema: Field required"),
    "all deferred": Case(
        body(tools=[DEFERRED]), "At least one tool must have defer_loading=false. All tools cannot be deferred."
    ),
    "deferred and marked": Case(
        body(tools=[LOOK, {**DEFERRED, "cache_control": MARK}]),
        "tools.1.custom: Tools with defer_loading=true cannot have cache_control set.",
    ),
    "forced tool on a model without": Case(
        body(tools=[SAY], tool_choice={"type": "any"}, model="claude-opus-5-5"),
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ),
    "forced tool that is not there": Case(
        body(tools=[SAY], tool_choice={"type": "tool", "name": "fly"}), "Tool 'fly' not found in provided tools"
    ),
    "tool choice without tools": Case(
        body(tool_choice={"type": "auto"}), "tool_choice: tool_choice may only be specified while providing tools."
    ),
    # thinking
    "thinking by budget on a new model": Case(
        body(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
        '"thinking.type.enabled" is not supported for this model. '
        'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
    ),
    "adaptive thinking on an old model": Case(
        body(thinking={"type": "adaptive"}, model=OLD), "adaptive thinking is not supported on this model"
    ),
    "no thinking where it is always on": Case(
        body(thinking={"type": "disabled"}, model="claude-opus-5-5"), '"thinking.type.disabled" is not supported for this model.'
    ),
    "budget over max_tokens": Case(
        body(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=1024, model=OLD),
        "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
        "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
    ),
    "budget too small": Case(
        body(thinking={"type": "enabled", "budget_tokens": 5}, model=OLD),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "thinking and a forced tool": Case(
        body(thinking={"type": "adaptive"}, tools=[SAY], tool_choice={"type": "any"}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "tool use under way without its thinking": Case(
        body(*ASKED, user(result()), tools=[SAY], model=OLD, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000),
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final "
        "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
    ),
    "thinking of one's own making": Case(
        body(
            user("a"),
            assistant({"type": "thinking", "thinking": "t", "signature": "c2lnbmVk"}, text("b")),
            *(user("c"), assistant("d"), user("e")),
        ),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    "thinking by the user": Case(
        body(user({"type": "thinking", "thinking": "t", "signature": "s"}), assistant("b"), user("c")),
        "messages.0.content: thinking blocks may only be in `assistant` messages",
    ),
    # parameters
    "temperature at its default": Case(body(temperature=1.0), "temperature: Extra inputs are not permitted"),
    "top_p": Case(body(top_p=0.9, model=OLD), "top_p: Extra inputs are not permitted"),
    "top_k": Case(body(top_k=5, model=OLD), "top_k: Extra inputs are not permitted"),
    "temperature, new model, old version": Case(
        body(temperature=0.5), "`temperature` is deprecated for this model.", version="2023-06-01"
    ),
    "temperature and top_p, old version": Case(
        body(temperature=0.5, top_p=0.5, model=OLD),
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        version="2023-06-01",
    ),
    "document by the assistant": Case(
        body(user("a"), assistant({"type": "document", "source": {"type": "text"}}), user("b")),
        "messages.1.content.0: document blocks are not permitted in assistant messages",
    ),
    "citations by the user": Case(
        body(user(text("a", citations=[{"type": "char_location"}]))),
        "messages.0.content.0.text.citations: citations are not permitted on text blocks in user messages",
    ),
    "effort on a model without": Case(
        body(output_config={"effort": "low"}, model=OLD), "This model does not support the effort parameter."
    ),
    "blank stop sequence": Case(body(stop_sequences=[" "]), "stop_sequences: each stop sequence must contain non-whitespace"),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[tuple[MessagesAPI, anthropic.AsyncAnthropic, Says]]:
    """One stand-in, client and model for all cases: no case leaves anything behind."""
    brain = Says()
    async with MessagesAPI(brain, 10_000) as api, client_of(api) as client:
        yield api, client, brain


Shared = tuple[MessagesAPI, anthropic.AsyncAnthropic, Says]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_refused_in_the_real_words_and_without_a_trace(case: Case, shared: Shared) -> None:
    """S2: status, error type, message and request id of every rule; the model is not asked, and nothing is billed."""
    api, client, brain = shared
    brain.asked.clear()
    with pytest.raises(anthropic.APIStatusError) as refused:
        await send(client, case.request, version=case.version)
    record = api.records[-1]
    not_found = case.message.startswith("model: claude-of")
    assert refused.value.status_code == (404 if not_found else 400)
    assert refused.value.type == ("not_found_error" if not_found else "invalid_request_error")
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["error"]["message"] == case.message
    assert refused.value.request_id == record.request_id == refused.value.body["request_id"]
    assert (record.outcome, record.dollars, record.usage.total_input) == ("refused", 0.0, 0)
    assert not brain.asked


ACCEPTED = {
    "results first, then words": body(*ASKED, user(result(), text("and now?")), tools=[SAY]),
    "results of one turn in two messages": body(
        user("a"), assistant(use(id="a"), use(id="b")), user(result(id="a")), user(result(id="b")), tools=[SAY]
    ),
    "an empty result": body(*ASKED, user({"type": "tool_result", "tool_use_id": "toolu_1"}), tools=[SAY]),
    "an error without words": body(*ASKED, user(result("", is_error=True)), tools=[SAY]),
    "assistant first": body(assistant("I woke."), user("Good.")),
    "system message at the end": body(*ASKED, user(result()), SYSTEM, tools=[SAY]),
    "system message in the middle": body(user("a"), SYSTEM, assistant("b"), user("c")),
    "empty system": body(system=""),
    "four marks": body(user(*(text(c, cache_control=MARK) for c in "abcd"))),
    "an hour before five minutes": body(user(text("a", cache_control=MARK)), system=[text("s", cache_control=HOUR)]),
    "the request's own mark on a marked block": body(user(*(text(c, cache_control=MARK) for c in "abcd")), cache_control=MARK),
    "forced tool": body(tools=[SAY], tool_choice={"type": "tool", "name": "say"}, thinking={"type": "disabled"}),
    "deferred tools with their search": body(
        tools=[{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}, DEFERRED]
    ),
    "prefill on an old model": body(user("a"), assistant("And so"), model=OLD),
    "dated id": body(model="claude-haiku-4-5-20251001"),
    "NUL, a token of the tokenizer's own, thousands of blanks": body(user("a\0b <|endoftext|>" + " " * 8000)),
    "thinking off": body(thinking={"type": "disabled"}),
    "effort": body(output_config={"effort": "low"}),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("sent", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_what_the_real_api_takes_is_taken(sent: dict[str, Any], shared: Shared) -> None:
    """S2: strict is not stricter."""
    assert (await send(shared[1], sent)).stop_reason == "end_turn"


async def test_prompt_too_long_names_both_sizes_and_one_token_less_fits() -> None:
    """S2, P11: the window is a sharp edge, and the refusal's figure is the one that count_tokens gives."""
    request = body(user("A lantern swings in the dark. " * 200))
    async with MessagesAPI(Says()) as api, client_of(api) as client:
        tokens = await count(client, request)
    async with MessagesAPI(Says(), tokens - 1) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError, match=f"prompt is too long: {tokens} tokens > {tokens - 1} maximum"):
            await send(client, request)
        assert (api.records[-1].tokens, api.records[-1].window, api.records[-1].outcome) == (tokens, tokens - 1, "refused")
    async with MessagesAPI(Says(), tokens) as api, client_of(api) as client:
        full = await send(client, request)
    assert (full.stop_reason, full.content) == ("model_context_window_exceeded", [])


async def test_older_models_add_max_tokens_to_the_prompt() -> None:
    """S2: before Sonnet 4.5, input and cap together had to fit."""
    old = replace(PROFILES[OLD], sums_output=True)
    async with MessagesAPI(Says(), 1000, profiles={OLD: old}) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError, match=r"input length and `max_tokens` exceed context limit: \d+ \+ 1000 > 1000"):
            await send(client, body(model=OLD))


async def test_a_local_server_says_it_in_its_own_words() -> None:
    """S2, O5: llama.cpp's type and figures."""
    async with MessagesAPI(Says(), 50, dialect=Dialect.LLAMA_CPP, plain=True) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await send(client, body(user("word " * 100)))
    assert isinstance(refused.value.body, dict)
    error = refused.value.body["error"]
    assert error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (api.records[-1].tokens, 50)


async def test_strict_roles_want_the_user_first() -> None:
    """S2: as some clouds do."""
    async with MessagesAPI(Says(), strict_roles=True) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError, match='first message must use the "user" role'):
            await send(client, ACCEPTED["assistant first"])


async def test_counting_refuses_what_answering_refuses() -> None:
    """S2: the same rules at the endpoint that only counts."""
    async with MessagesAPI(Says()) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError, match=re.escape(ORPHAN.format("lost"))):
            await count(client, body(user(result(id="lost")), tools=[SAY]))
        with pytest.raises(anthropic.BadRequestError, match="max_tokens: Extra inputs are not permitted"):
            await send(client, body(), path="/v1/messages/count_tokens")
        assert not api.records


@pytest.mark.parametrize(
    ("raw", "status", "said"),
    [
        (b'{"model": "x", "text": "\\ud83d"}', 400, "The request body is not valid JSON: no low surrogate in string: line 1 column 25"),
        (b'{"text": "\\ud83d and more \\ude00"}', 400, "no low surrogate in string"),
        (b'{"text": "\\ude00"}', 400, "no high surrogate in string"),
        (b'{"text": "\xff"}', 400, "The request body is not valid JSON"),
        (b'{"text": NaN}', 400, "The request body is not valid JSON"),
        (b'{"text": "cut of', 400, "The request body is not valid JSON"),
        (b"[" * 100_000, 400, "The request body is not valid JSON"),
        (b"[1, 2]", 400, "Input should be a valid dictionary"),
        (b'{"text": "' + b"a" * (32 * 1024 * 1024), 413, "Request exceeds the maximum size"),
    ],
    ids=["high surrogate", "torn pair", "low surrogate", "broken utf-8", "NaN", "torn JSON", "nested", "no object", "33 MB"],
)
async def test_a_body_that_is_no_request(raw: bytes, status: int, said: str) -> None:
    """S2: what cannot be read is refused in words, and the connection lives on."""
    headers = {"authorization": "Bearer k", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    async with MessagesAPI(Says()) as api, httpx2.AsyncClient(base_url=api.base_url, headers=headers, verify=False) as http:
        answer = await http.post("/v1/messages", content=raw)
        assert answer.status_code == status
        assert said in answer.json()["error"]["message"]
        assert answer.json()["error"]["type"] == ("request_too_large" if status == 413 else "invalid_request_error")
        assert (await http.post("/v1/messages", json=body())).status_code == 200


async def test_depth_is_refused_where_it_ends() -> None:
    """S2, W5: arguments nested without end are never an error of ours."""
    headers = {"authorization": "Bearer k", "anthropic-version": "2026-10-21"}
    statuses = set()
    async with MessagesAPI(Says()) as api, httpx2.AsyncClient(base_url=api.base_url, headers=headers, verify=False) as http:
        for depth in (10, 200, 900, 960, 980, 990, 1000, 5000):
            nested = '{"a":' * depth + "1" + "}" * depth
            said = body(user("a"), assistant(use(deep="nested")), user(result()), tools=[SAY])
            raw = json.dumps(said).replace('"nested"', nested)
            answer = await http.post("/v1/messages", content=raw)
            statuses.add(answer.status_code)
            assert answer.status_code == 200 or "nested too deeply" in answer.json()["error"]["message"]
    assert statuses == {200, 400}


async def test_an_escaped_emoji_is_no_lone_surrogate() -> None:
    """S2: pairs are characters, and a backslash before a u is only a backslash."""
    raw = b'{"model": "claude-haiku-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "\\ud83d\\ude00 \\\\ud83d"}]}'
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    async with MessagesAPI(Says()) as api, httpx2.AsyncClient(base_url=api.base_url, headers=headers, verify=False) as http:
        assert (await http.post("/v1/messages", content=raw)).status_code == 200
        assert api.records[-1].body["messages"][0]["content"] == "\N{GRINNING FACE} \\ud83d"


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"anthropic-version": "2026-10-21"}, 401, "authentication_error"),
        ({"anthropic-version": "2026-10-21", "authorization": "Bearer stolen"}, 401, "authentication_error"),
        ({"anthropic-version": "2026-10-21", "x-api-key": "stolen"}, 401, "authentication_error"),
        ({"authorization": "Bearer k"}, 400, "invalid_request_error"),
        ({"anthropic-version": "2024-01-01", "authorization": "Bearer k"}, 400, "invalid_request_error"),
    ],
    ids=["no key", "refused bearer", "refused x-api-key", "no version", "unknown version"],
)
async def test_callers_who_are_not_let_in(headers: dict[str, str], status: int, kind: str) -> None:
    """S2: keys and versions."""
    async with MessagesAPI(Says(), refused_keys={"stolen"}) as api, httpx2.AsyncClient(base_url=api.base_url, verify=False) as http:
        answer = await http.post("/v1/messages", json=body(), headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
        assert answer.headers["request-id"] == answer.json()["request_id"]
        assert (api.records[-1].outcome, api.records[-1].status) == ("refused", status)


THINKS = ({"type": "thinking", "thinking": "The miller lies."}, use(text="hm"))


async def _thought(system: str = "rule") -> tuple[list[Any], dict[str, Any]]:
    """The first two messages of a conversation in which the model thought, and the rest of the request."""
    rest = {"tools": [SAY], "system": system}
    async with MessagesAPI(Says(*THINKS)) as api, client_of(api) as client:
        answer = await stream(client, body(user("Speak."), **rest))
    content = [block.model_dump(exclude_none=True) for block in answer.content]
    return [user("Speak."), {"role": "assistant", "content": content}], rest


async def test_thinking_comes_back_only_as_it_was_and_where_it_was() -> None:
    """S2: signatures hold for the thinking itself and, on the newest models, for everything before it."""
    said, rest = await _thought()
    answered = [*said, user(result())]
    changed = {"role": "assistant", "content": [{**said[1]["content"][0], "thinking": "The miller is honest."}, *said[1]["content"][1:]]}
    bound = "bound to a different conversation"
    async with MessagesAPI(Says()) as api, client_of(api) as client:
        assert (await send(client, body(*answered, **rest))).stop_reason == "end_turn"
        for request, words in (
            (body(said[0], changed, user(result()), **rest), "blocks in the latest assistant message cannot be modified"),
            (body(said[0], changed, user(result()), assistant("b"), user("c"), **rest), "Invalid `signature` in `thinking` block"),
            (body(*answered, tools=[SAY], system="another"), f"{bound}.*The `system` prompt differs"),
            (body(*answered, tools=[SAY, LOOK], system="rule"), f"{bound}.*The `tools` differ"),
            (body(user("Speak up."), *answered[1:], **rest), f"{bound}.*An earlier message differs"),
        ):
            with pytest.raises(anthropic.BadRequestError, match=words):
                await send(client, request)
        free = body(user("Speak up."), *answered[1:], **rest, model="claude-opus-5")
        assert (await send(client, free)).stop_reason == "end_turn"


async def test_a_model_and_its_limits_can_be_asked_for() -> None:
    """S2: with the window that is in force."""
    async with MessagesAPI(Says(), 10_000) as api, client_of(api) as client:
        model = await client.models.retrieve(MODEL)
        assert (model.id, model.max_input_tokens, model.max_tokens) == (MODEL, 10_000, 128_000)
        with pytest.raises(anthropic.NotFoundError, match="model: gone"):
            await client.models.retrieve("gone")


async def test_a_mistake_in_the_brain_reaches_whoever_runs_the_stand_in() -> None:
    """S4: an oracle or a brain that fails must not look like weather."""

    class Broken:
        def reply(self, request: Any) -> Reply:
            raise LookupError("no such room")

    async def one_request() -> None:
        async with MessagesAPI(Broken()) as api, client_of(api) as client:
            with pytest.raises(anthropic.InternalServerError):
                await send(client, body())

    with pytest.raises(LookupError, match="no such room"):
        await one_request()
