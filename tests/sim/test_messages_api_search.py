"""The stand-in's tool search (C20, S2): what it refuses, what it finds, and what of it is counted and billed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from anthropic.types import Message

from sim.api.counting import TokenCounter
from sim.api.prompt import TOOL, Renderer
from sim.api.searching import found
from sim.api.validation import problems, validate
from sim.messages_api import PROFILES, MessagesAPI, Reply
from tests.sim.messages_api import LOOK, MARK, MODEL, SAY, Says, assistant, body, client_of, result, send, stream, text, use, user

REGEX = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
BM25 = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


def deferred(name: str, description: str = "", **arguments: str) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": told} for key, told in arguments.items()}
    return {"name": name, "description": description, "input_schema": {"type": "object", "properties": properties}, "defer_loading": True}


WEIGH = deferred("weigh_fish", "Find out on the scales how heavy the fish is.", amount="how many loads")
CATALOGUE = [WEIGH, deferred("Sell_Fish", "Offer fish on the market."), *(deferred(f"carry_{n}", "Carry a fish about.") for n in range(8))]
TOOLS: list[dict[str, Any]] = [SAY, BM25, *CATALOGUE]


def search(query: str = "how heavy", *, id: str = "srvtoolu_1", **more: Any) -> dict[str, Any]:  # noqa: A002  the API's word
    return {"type": "server_tool_use", "id": id, "name": "tool_search_tool_bm25", "input": {"query": query, **more}}


def told(*names: str, id: str = "srvtoolu_1") -> dict[str, Any]:  # noqa: A002  the API's word
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return {"type": "tool_search_tool_result", "tool_use_id": id, "content": content}


def names(content: Mapping[str, Any]) -> list[str]:
    return [one["tool_name"] for one in content["tool_references"]]


HISTORY = (user("Weigh it."), assistant(search(), told("weigh_fish"), use("weigh_fish", amount="2")), user(result()))

REFUSED = {
    "all deferred": (body(tools=[WEIGH]), "At least one tool must have defer_loading=false. All tools cannot be deferred."),
    "deferred and marked": (
        body(tools=[SAY, {**WEIGH, "cache_control": MARK}]), "tools.1.custom: Tools with defer_loading=true cannot have cache_control set.",
    ),
    "a reference to nothing": (
        body(user("a"), assistant(search(), told("open_door")), user("b"), tools=TOOLS),
        "Tool reference 'open_door' has no corresponding tool definition",
    ),
    "a reference to nothing in a result of the client's": (
        body(user("a"), assistant(use("say", text="x")), user(result([{"type": "tool_reference", "tool_name": "open_door"}])), tools=TOOLS),
        "Tool reference 'open_door' has no corresponding tool definition",
    ),
    "a search without its result": (
        body(user("a"), assistant(text("b"), search()), user("c"), tools=TOOLS),
        (
            "messages.1: `tool_search_tool_bm25` tool use with id `srvtoolu_1` was found without a corresponding "
            "`tool_search_tool_result` block"
        ),
    ),
    "a result without its search": (
        body(user("a"), assistant(text("b"), told("weigh_fish")), user("c"), tools=TOOLS),
        (
            "messages.1.content.1: unexpected `tool_use_id` found in `tool_search_tool_result` blocks: srvtoolu_1. Each "
            "`tool_search_tool_result` block must have a corresponding `server_tool_use` block before it."
        ),
    ),
    "a search answered by the client": (
        body(user("a"), assistant(search(), told()), user(result(id="srvtoolu_1")), tools=TOOLS),
        (
            "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: srvtoolu_1. Each `tool_result` block must have "
            "a corresponding `tool_use` block in the previous message."
        ),
    ),
    "a search whose tool is gone": (
        body(user("a"), assistant(search(), told("weigh_fish")), user("b"), tools=[SAY, *CATALOGUE]),
        "messages.1.content.0: `tool_search_tool_bm25` is used and is not among the provided tools",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_real_api_refuses_about_searches_is_refused(sent: dict[str, Any], message: str) -> None:
    """C20, S2: with its words."""
    assert message in list(problems(sent, PROFILES[MODEL]))


@pytest.mark.parametrize(
    "sent",
    [
        body(*HISTORY, tools=TOOLS), body(*HISTORY, tools=[*TOOLS, LOOK]),
        body(user("a"), assistant(search(), told()), user("b"), tools=TOOLS),
        body(user("a"), assistant(use("say")), user(result([{"type": "tool_reference", "tool_name": "weigh_fish"}])), tools=TOOLS),
        body(user("a"), assistant(search(), {**told(), "cache_control": MARK}), user("b"), tools=TOOLS),
    ],
)  # fmt: skip
def test_what_it_takes_is_taken(sent: dict[str, Any]) -> None:
    """C20, S2: strict is not stricter: found tools, empty results, a search of the client's own, a mark on a result."""
    assert validate(sent, PROFILES[MODEL]) is None


def test_a_model_before_the_search_refuses_it() -> None:
    """C20: deferred tools and the search tool are unknown there."""
    old = replace(PROFILES[MODEL], tool_search=False)
    refused = validate(body(tools=TOOLS), old)
    assert refused
    assert "does not support tool types: tool_search_tool_bm25_20251119" in refused.message
    assert validate(body(tools=[SAY]), old) is None


def test_patterns_and_words_find_what_they_find_there() -> None:
    """C20: patterns by the order of the list and by case, words by rank; five at most unless asked; nothing is no error."""
    five = ["weigh_fish", "Sell_Fish", "carry_0", "carry_1", "carry_2"]
    assert names(found(CATALOGUE, "tool_search_tool_regex", {"pattern": "fish"})) == five
    assert names(found(CATALOGUE, "tool_search_tool_regex", {"pattern": "_fish$"})) == []
    assert names(found(CATALOGUE, "tool_search_tool_regex", {"pattern": "(?i)^sell"})) == ["Sell_Fish"]
    assert names(found(CATALOGUE, "tool_search_tool_regex", {"pattern": "how many loads"})) == ["weigh_fish"]
    assert names(found(CATALOGUE, "tool_search_tool_bm25", {"query": "fish on the market"}))[0] == "Sell_Fish"
    assert len(names(found(CATALOGUE, "tool_search_tool_bm25", {"query": "fish", "limit": 7}))) == 7
    assert names(found(CATALOGUE, "tool_search_tool_bm25", {"query": "dragon"})) == []
    assert names(found([SAY, LOOK], "tool_search_tool_bm25", {"query": "say something"})) == [], "what is shown need not be found"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("tool_search_tool_regex", {"pattern": "(open"}), ("tool_search_tool_regex", {"pattern": "x" * 201}),
        ("tool_search_tool_regex", {"query": "fish"}), ("tool_search_tool_bm25", {"query": "x" * 501}), ("tool_search_tool_bm25", {}),
        ("tool_search_tool_bm25", {"query": "fish", "limit": 0}),
    ],
)  # fmt: skip
def test_a_bad_search_is_an_error_in_the_answer(name: str, asked: dict[str, Any]) -> None:
    """C20: the model reads it and searches again; the request is fine."""
    content = found(CATALOGUE, name, asked)
    assert (content["type"], content["error_code"]) == ("tool_search_tool_result_error", "invalid_tool_input")


def test_only_what_is_shown_is_counted_and_what_is_found_besides() -> None:
    """C20, C12: a deferred tool costs nothing until a reference brings its definition into the conversation, behind the prefix."""
    counter = TokenCounter()
    renderer = Renderer(counter)

    def tokens(*messages: dict[str, Any], tools: list[dict[str, Any]]) -> int:
        return renderer.render(body(*messages, tools=tools)).tokens

    shown: list[dict[str, Any]] = [SAY, BM25]
    assert tokens(user("a"), tools=TOOLS) == tokens(user("a"), tools=shown)
    plain = [user("a"), assistant(search(), told("carry_0", "carry_1")), user("b")]
    definitions = renderer.render(body(tools=[{**tool, "defer_loading": None} for tool in CATALOGUE[2:4]])).units
    brought = tokens(*plain, tools=TOOLS) - tokens(*plain, tools=shown)
    assert 0 < brought <= sum(unit.tokens for unit in definitions[:2])
    assert brought > 2 * TOOL
    prefix = [unit.digest for unit in renderer.render(body(*plain, tools=TOOLS)).units[:2]]
    assert prefix == [unit.digest for unit in renderer.render(body(tools=[SAY, BM25])).units[:2]]
    other: list[dict[str, Any]] = [SAY, BM25, *(t | ({"description": "Other."} if t["name"] == "carry_0" else {}) for t in CATALOGUE)]
    changed = renderer.render(body(*plain, tools=other)).units
    assert [a.digest == b.digest for a, b in zip(changed, renderer.render(body(*plain, tools=TOOLS)).units, strict=True)].count(False) == 1


class Seeker:
    """Searches, then calls what it has found, within one answer."""

    def __init__(self, *, pauses: bool = False, beside: bool = False) -> None:
        self.pauses, self.beside = pauses, beside

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        blocks = [b for m in request["messages"] for b in m["content"] if not isinstance(m["content"], str)]
        if any(b["type"] == "tool_result" for b in blocks):
            return Reply(content=[text("It is heavy.")])
        if any(b["type"] == "tool_search_tool_result" for b in blocks):
            return Reply(content=[text("Found."), use("weigh_fish", amount="2")])
        asked = {"type": "server_tool_use", "name": "tool_search_tool_bm25", "input": {"query": "how heavy"}}
        beside = [use("say", text="hm")] if self.beside else []
        return Reply(content=[text("I look."), asked, *beside], stop_reason="pause_turn" if self.pauses else None)


def kinds(message: Message) -> list[str]:
    return [block.type for block in message.content]


def back(message: Message) -> dict[str, Any]:
    return assistant(*(block.model_dump(exclude_none=True, mode="json") for block in message.content))


async def test_a_search_is_carried_out_within_the_answer_and_can_be_sent_back() -> None:
    """C2, C20: blocks as the real API's, streamed too; what the SDK reads goes back unchanged; the second reading is billed."""
    async with MessagesAPI(Seeker()) as api, client_of(api) as client:
        asked = body(user(text("How heavy is the fish?")), tools=TOOLS)
        answer = await send(client, asked)
        assert kinds(answer) == ["text", "server_tool_use", "tool_search_tool_result", "text", "tool_use"]
        assert answer.stop_reason == "tool_use"
        assert kinds(await stream(client, asked)) == kinds(answer)
        once, _ = api.records
        assert once.usage.total_input > 2 * once.tokens
        after = await send(client, body(*asked["messages"], back(answer), user(result()), tools=TOOLS))
        assert kinds(after) == ["text"]
        assert api.records[-1].tokens > once.tokens + 50, "the definition stands in the conversation from now on"


async def test_a_paused_search_is_done_when_the_answer_comes_back() -> None:
    """C20: the answer goes on with the result; anything else of that shape is refused."""
    seeker = Seeker(pauses=True)
    async with MessagesAPI(seeker) as api, client_of(api) as client:
        asked = body(user(text("How heavy is the fish?")), tools=TOOLS)
        paused = await send(client, asked)
        assert (kinds(paused), paused.stop_reason) == (["text", "server_tool_use"], "pause_turn")
        seeker.pauses = False
        resumed = await send(client, body(*asked["messages"], back(paused), tools=TOOLS))
        assert kinds(resumed) == ["tool_search_tool_result", "text", "tool_use"]
        whole = body(*asked["messages"], back(paused), back(resumed), user(result()), tools=TOOLS)
        assert kinds(await send(client, whole)) == ["text"]


async def test_a_search_beside_a_call_of_the_clients_is_left_undone() -> None:
    """C20: as seen of the real endpoint: the answer ends with the client's call, and nobody has searched."""
    async with MessagesAPI(Seeker(beside=True)) as api, client_of(api) as client:
        answer = await send(client, body(user(text("How heavy is the fish?")), tools=TOOLS))
        assert kinds(answer) == ["text", "server_tool_use", "tool_use"]


async def test_a_mind_that_searches_for_ever_is_paused() -> None:
    """C20: one answer searches a bounded number of times."""
    asked = {"type": "server_tool_use", "name": "tool_search_tool_bm25", "input": {"query": "fish"}}
    async with MessagesAPI(Says(asked)) as api, client_of(api) as client:
        answer = await send(client, body(user(text("a")), tools=TOOLS))
        assert answer.stop_reason == "pause_turn"
        assert kinds(answer).count("server_tool_use") == 5
