"""The tool search that the provider runs while a model answers: what it finds, and how the answer goes on from there.

Invariant: pure but for the brain that is asked again. A search looks at the deferred tools of the request and nothing else, and never
raises: a bad pattern is an error in the answer, at status 200.

By patterns: the first matches in the order of the list, case and all, over names, descriptions and arguments. By words: ranked by BM25.
Five tools unless the model asks for another number. The model writes on behind the result, within one answer; a search that it asked for
beside a call of the client's own tools is left without one, as the real endpoint does. Not here: that such a search is made up for in the
next request, if nothing but tool results follows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.api.prompt import contents, referred
from sim.api.replies import Brain, Reply

#: The longest pattern and query in characters, how many tools are found, and how often one answer may search before it is paused.
PATTERN, QUERY, FOUND, ROUNDS = 200, 500, 5, 5
_WORD = re.compile(r"[^\W_]+")
_USE, _RESULT = "server_tool_use", "tool_search_tool_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the brain said, searches and their results in it, and the bodies with which it was asked again."""

    reply: Reply
    again: tuple[Mapping[str, Any], ...] = ()


def serve(brain: Brain, body: Mapping[str, Any], *, serial: int) -> Served:
    """The brain's answer, with every search carried out that it asked for."""
    searched = any(str(tool.get("type") or "").startswith("tool_search_tool_") for tool in body.get("tools") or ())
    if not searched:
        return Served(reply=brain.reply(body))
    content: list[dict[str, Any]] = [_result(body, use) for use in pending(body)]
    again: list[Mapping[str, Any]] = []
    for _ in range(ROUNDS):
        asked = _resumed(body, content) if content else body
        if content:
            again.append(asked)
        reply = brain.reply(asked)
        said = [_numbered(block, serial, len(content) + n) for n, block in enumerate(reply.content)]
        content += said
        uses = [block for block in said if block["type"] == _USE]
        if not uses or reply.stop_reason is not None or any(block["type"] == "tool_use" for block in said):
            return Served(reply=replace(reply, content=content), again=tuple(again))
        content += [_result(body, use) for use in uses]
    return Served(reply=Reply(content=content, stop_reason="pause_turn"), again=tuple(again))


def pending(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The searches of a paused answer at the end of a request that wait for their result."""
    messages = body.get("messages") or ()
    if not messages or messages[-1]["role"] != "assistant":
        return []
    told = {block["tool_use_id"] for block in contents(messages[-1]["content"]) if block["type"] == _RESULT}
    return [block for block in contents(messages[-1]["content"]) if block["type"] == _USE and block["id"] not in told]


def found(tools: Sequence[Mapping[str, Any]], name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a result."""
    deferred = [tool for tool in tools if tool.get("defer_loading")]
    limit = asked.get("limit", FOUND)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 10_000:
        return _error("limit must be an integer from 1 to 10000")
    by_pattern = name == "tool_search_tool_regex"
    words, longest = asked.get("pattern" if by_pattern else "query"), PATTERN if by_pattern else QUERY
    if not isinstance(words, str) or not words or len(words) > longest:
        return _error(f"{'pattern' if by_pattern else 'query'} must be a string of 1 to {longest} characters")
    if by_pattern:
        try:
            pattern = re.compile(words)
        except (re.error, OverflowError, RecursionError) as error:
            return _error(f"invalid regular expression: {error}")
        names = [str(tool["name"]) for tool in deferred if pattern.search(_text(tool))]
    else:
        names = _ranked(deferred, words)
    named = [{"type": "tool_reference", "tool_name": one} for one in names[:limit]]
    return {"type": "tool_search_tool_search_result", "tool_references": named}


def _error(message: str) -> dict[str, Any]:
    return {"type": "tool_search_tool_result_error", "error_code": "invalid_tool_input", "error_message": message}


def _text(tool: Mapping[str, Any]) -> str:
    """What of a tool is searched."""
    arguments = (tool.get("input_schema") or {}).get("properties") or {}
    told = (f"{name} {schema.get('description', '') if isinstance(schema, Mapping) else ''}" for name, schema in arguments.items())
    return "\n".join([str(tool["name"]), str(tool.get("description") or ""), *told])


def _terms(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _ranked(tools: Sequence[Mapping[str, Any]], query: str) -> list[str]:
    """Names by BM25 with its usual constants, without stems or stop words; ties in the order of the list."""
    texts = [Counter(_terms(_text(tool))) for tool in tools]
    if not texts:
        return []
    mean = sum(text.total() for text in texts) / len(texts)
    holding = Counter(word for text in texts for word in text)
    scores = []
    for text in texts:
        score = 0.0
        for word in dict.fromkeys(_terms(query)):
            if times := text[word]:
                weight = math.log(1 + (len(texts) - holding[word] + 0.5) / (holding[word] + 0.5))
                score += weight * times * 2.5 / (times + 1.5 * (0.25 + 0.75 * text.total() / mean))
        scores.append(score)
    order = sorted(range(len(tools)), key=lambda n: (-scores[n], n))
    return [str(tools[n]["name"]) for n in order if scores[n] > 0]


def _result(body: Mapping[str, Any], use: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": _RESULT, "tool_use_id": use["id"], "content": found(body.get("tools") or (), use["name"], use["input"])}


def _numbered(block: Mapping[str, Any], serial: int, n: int) -> dict[str, Any]:
    if block["type"] == "server_tool_use":
        return {"id": f"srvtoolu_{serial:012d}{n:02d}", "input": {}, **block}
    if block["type"] == "tool_use" and not block.get("id"):  # as it would be numbered alone, so that positions stay its own
        return {**block, "id": f"toolu_{serial:012d}{n:02d}"}
    return dict(block)


def _resumed(body: Mapping[str, Any], content: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    messages = list(body["messages"])
    if messages[-1]["role"] == "assistant":
        whole = [*contents(messages.pop()["content"]), *content]
        return {**body, "messages": [*messages, {"role": "assistant", "content": whole}]}
    return {**body, "messages": [*messages, {"role": "assistant", "content": list(content)}]}


def breaches(
    blocks: Iterable[tuple[int, int, str, Mapping[str, Any]]], tools: Sequence[Mapping[str, Any]], *, resumes: bool
) -> Iterator[str]:
    """What is wrong with the searches in a history: pairs that are not whole, references to tools that are not there."""
    names = {tool["name"] for tool in tools}
    open_: dict[str, tuple[int, str]] = {}
    for n, k, role, block in blocks:
        if role == "user":
            yield from _left_open(open_)
            open_ = {}
        if block["type"] == _USE:
            if block["name"] not in names:
                yield f"messages.{n}.content.{k}: `{block['name']}` is used and is not among the provided tools"
            open_[block["id"]] = n, block["name"]
        elif block["type"] == _RESULT and open_.pop(number := block["tool_use_id"], None) is None:
            yield (
                f"messages.{n}.content.{k}: unexpected `tool_use_id` found in `tool_search_tool_result` blocks: {number}. "
                "Each `tool_search_tool_result` block must have a corresponding `server_tool_use` block before it."
            )
        for name in referred(block):
            if name not in names:
                yield f"Tool reference '{name}' has no corresponding tool definition"
    if not resumes:
        yield from _left_open(open_)


def _left_open(open_: Mapping[str, tuple[int, str]]) -> Iterator[str]:
    for number, (n, name) in open_.items():
        yield f"messages.{n}: `{name}` tool use with id `{number}` was found without a corresponding `tool_search_tool_result` block"
