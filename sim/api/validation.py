"""What the Messages API refuses, and in which words.

Invariant: pure. `validate` reads a body and a profile and nothing else; a body that it lets pass is one the real API takes. Where the
real wording is known it is used; where only the rule is known, the words are close to it. Messages are counted as they were sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.api import searching, signatures
from sim.api.profiles import ModelProfile
from sim.api.prompt import contents
from sim.api.shapes import CountRequest, MessageRequest, SampledRequest, misfits

#: The API versions there are. The newer one knows no sampling parameters, no documents in the assistant's mouth, no cited user.
VERSIONS = ("2023-06-01", "2026-10-21")
MAX_MARKS = 4
MOST_DEFERRED = 10_000
_Blocks = Sequence[tuple[int, int, str, Mapping[str, Any]]]  # message, position in it, role, block
_Turns = list[tuple[str, list[tuple[int, int, Mapping[str, Any]]]]]  # role, then message, position and block
_SIGNED = {"thinking", "redacted_thinking"}
_THINKING_PAGE = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error answer. `details` holds what stands beside type and message in the error object."""

    message: str
    status: int = 400
    error_type: str = "invalid_request_error"
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_api(self, request_id: str) -> dict[str, Any]:
        """The body of the answer."""
        error = {"type": self.error_type, "message": self.message, **self.details}
        return {"type": "error", "error": error, "request_id": request_id}


def validate(
    body: Any,
    profile: ModelProfile,
    *,
    version: str = VERSIONS[-1],
    counting: bool = False,
    resumes: bool = False,
    strict_roles: bool = False,
) -> Refusal | None:
    """The first thing that is wrong with a request, or None. The window is not looked at: see `too_long`.

    Args:
        body: the parsed JSON.
        profile: of the model it names.
        version: the API version.
        counting: whether it is a request to count tokens, which knows fewer fields.
        resumes: whether its last message is an answer that stopped with `pause_turn`, sent back to go on.
        strict_roles: refuse an assistant message in first place, as some clouds do and the first-party API no longer does.
    """
    found = problems(body, profile, version=version, counting=counting, resumes=resumes, strict_roles=strict_roles)
    message = next(found, None)
    return None if message is None else Refusal(message=message)


def problems(
    body: Any,
    profile: ModelProfile,
    *,
    version: str = VERSIONS[-1],
    counting: bool = False,
    resumes: bool = False,
    strict_roles: bool = False,
) -> Iterator[str]:
    """All that is wrong with a request, as messages; what is wrong in form hides everything else."""
    shape = CountRequest if counting else MessageRequest if version == VERSIONS[-1] else SampledRequest
    well_formed = True
    for message in misfits(body, shape):
        well_formed = False
        yield message
    if not well_formed:
        return
    blocks = [
        (n, k, message["role"], block) for n, message in enumerate(body["messages"]) for k, block in enumerate(contents(message["content"]))
    ]
    turns = _turns(blocks)
    yield from _parameters(body, profile)
    yield from _tools(body, profile, blocks)
    yield from _marks(body, blocks)
    yield from _texts(body, blocks, version)
    yield from _roles(body, profile, strict_roles=strict_roles)
    yield from _places(blocks)
    yield from _pairs(turns)
    yield from searching.breaches(blocks, body.get("tools") or (), resumes=resumes)
    yield from _ending(body, profile, resumes=resumes)
    if any(block["type"] == "thinking" for _, _, _, block in blocks):
        yield from _signatures(body, profile, blocks)
    yield from _open_thinking(body, turns)


def too_long(tokens: int, max_tokens: int, profile: ModelProfile) -> Refusal | None:
    """The refusal of a prompt that does not fit the model's window, or None."""
    if tokens > profile.window:
        return Refusal(message=f"prompt is too long: {tokens} tokens > {profile.window} maximum")
    if profile.sums_output and tokens + max_tokens > profile.window:
        total = f"{tokens} + {max_tokens} > {profile.window}"
        advice = "decrease input length or `max_tokens` and try again"
        return Refusal(message=f"input length and `max_tokens` exceed context limit: {total}, {advice}")
    return None


def _parameters(body: Mapping[str, Any], profile: ModelProfile) -> Iterator[str]:
    cap = body.get("max_tokens") or 0
    if cap > profile.max_output:
        limit = f"which is the maximum allowed number of output tokens for {profile.model}"
        yield f"max_tokens: {cap} > {profile.max_output}, {limit}"
    for name in ("temperature", "top_p", "top_k"):
        if body.get(name) is not None and not profile.sampling:
            yield f"`{name}` is deprecated for this model."
    if body.get("temperature") is not None and body.get("top_p") is not None:
        yield "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    if (body.get("output_config") or {}).get("effort") is not None and profile.effort is None:
        yield "This model does not support the effort parameter."
    if any(not text.strip() for text in body.get("stop_sequences") or ()):
        yield "stop_sequences: each stop sequence must contain non-whitespace"
    thinking = body.get("thinking") or {}
    if thinking and thinking["type"] not in profile.thinking:
        yield _wrong_thinking(thinking["type"])
    elif thinking.get("type") == "enabled" and cap and thinking["budget_tokens"] >= cap:
        yield f"`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at {_THINKING_PAGE}"


def _wrong_thinking(kind: str) -> str:
    if kind == "adaptive":
        return "adaptive thinking is not supported on this model"
    advice = ' Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.' if kind == "enabled" else ""
    return f'"thinking.type.{kind}" is not supported for this model.{advice}'


def _tools(body: Mapping[str, Any], profile: ModelProfile, blocks: _Blocks) -> Iterator[str]:
    tools: Sequence[Mapping[str, Any]] = body.get("tools") or ()
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    if tools and all(tool.get("defer_loading") for tool in tools):
        yield "At least one tool must have defer_loading=false. All tools cannot be deferred."
    for n, tool in enumerate(tools):
        kind = str(tool.get("type") or "custom")
        if kind.startswith("tool_search_tool_") and not profile.tool_search:
            yield f"tools.{n}: '{profile.model}' does not support tool types: {kind}"
        elif tool.get("defer_loading") and not profile.tool_search:
            yield f"tools.{n}.{kind}.defer_loading: tool search is not supported on this model"
        if tool.get("defer_loading") and tool.get("cache_control"):
            yield f"tools.{n}.custom: Tools with defer_loading=true cannot have cache_control set."
    if sum(bool(tool.get("defer_loading")) for tool in tools) > MOST_DEFERRED:
        yield f"tools: at most {MOST_DEFERRED} tools may have defer_loading=true"
    choice = body.get("tool_choice")
    if choice and not tools:
        yield "tool_choice: tool_choice may only be specified while providing tools."
    elif choice and choice["type"] in {"any", "tool"}:
        if not profile.forced_tools:
            yield 'tool_choice: type "tool" and "any" are not supported for this model.'
        elif (body.get("thinking") or {"type": "disabled"})["type"] != "disabled":
            yield "Thinking may not be enabled when tool_choice forces tool use."
        elif choice["type"] == "tool" and choice["name"] not in names:
            yield f"Tool '{choice['name']}' not found in provided tools"
    if not tools and any(block["type"] in {"tool_use", "tool_result"} for _, _, _, block in blocks):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools."


def _marks(body: Mapping[str, Any], blocks: _Blocks) -> Iterator[str]:
    marks = list(_marked(body, blocks))
    if len(marks) > MAX_MARKS:
        yield f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(marks)}."
    short = False
    for place, mark in marks:
        hour = mark.get("ttl") == "1h"
        if hour and short:
            yield (
                f"{place}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
                "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
            )
        short = short or not hour


def _marked(body: Mapping[str, Any], blocks: _Blocks) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mark with its place, in the order in which they are looked at."""
    for n, tool in enumerate(body.get("tools") or ()):
        if mark := tool.get("cache_control"):
            yield f"tools.{n}", mark
    for n, block in enumerate(contents(body.get("system"))):
        if mark := block.get("cache_control"):
            yield f"system.{n}", mark
    for n, k, _, block in blocks:
        if mark := block.get("cache_control"):
            yield f"messages.{n}.content.{k}", mark
        if block["type"] == "tool_result":
            for j, inner in enumerate(contents(block.get("content"))):
                if mark := inner.get("cache_control"):
                    yield f"messages.{n}.content.{k}.tool_result.content.{j}", mark
    # The request's own mark goes to the last block; where one is already, it is the same mark.
    if (mark := body.get("cache_control")) and not (blocks and blocks[-1][3].get("cache_control")):
        yield "request", mark


def _texts(body: Mapping[str, Any], blocks: _Blocks, version: str) -> Iterator[str]:
    system = body.get("system")
    if system is not None and system != "":
        for block in contents(system):
            yield from _text("system", "system", block)
    for n, k, role, block in blocks:
        kind = block["type"]
        if kind == "text":
            if not block["text"].strip():
                yield from _text("messages", f"messages.{n}.content.{k}", block)
            if version == VERSIONS[-1] and role == "user" and block.get("citations"):
                yield f"messages.{n}.content.{k}.text.citations: citations are not permitted on text blocks in user messages"
        elif kind == "tool_result" and not isinstance(block.get("content"), str):
            for j, inner in enumerate(contents(block.get("content"))):
                yield from _text("messages", f"messages.{n}.content.{k}.tool_result.content.{j}", inner)
        elif kind == "document" and role == "assistant" and version == VERSIONS[-1]:
            yield f"messages.{n}.content.{k}: document blocks are not permitted in assistant messages"


def _text(whole: str, place: str, block: Mapping[str, Any]) -> Iterator[str]:
    if block["type"] != "text" or block["text"].strip():
        return
    if not block["text"] and block.get("cache_control"):
        yield f"{place}.text: cache_control cannot be set for empty text blocks"
    elif not block["text"]:
        yield f"{whole}: text content blocks must be non-empty"
    else:
        yield f"{whole}: text content blocks must contain non-whitespace text"


def _roles(body: Mapping[str, Any], profile: ModelProfile, *, strict_roles: bool) -> Iterator[str]:
    messages = body["messages"]
    if not messages:
        yield "messages: at least one message is required"
        return
    if strict_roles and messages[0]["role"] == "assistant":
        yield 'messages: first message must use the "user" role'
    for n, message in enumerate(messages):
        role = message["role"]
        last = n == len(messages) - 1
        if not message["content"] and not (last and role == "assistant"):
            yield f"messages.{n}: all messages must have non-empty content except for the optional final assistant message"
        if role == "system":
            yield from _system_message(messages, n, profile)


def _places(blocks: _Blocks) -> Iterator[str]:
    for n, k, role, block in blocks:
        kind = block["type"]
        if kind in {"tool_use", "server_tool_use", "tool_search_tool_result"} and role != "assistant":
            yield f"messages.{n}: `{kind}` blocks can only be in `assistant` messages"
        elif kind == "tool_result" and role != "user":
            yield f"messages.{n}: `tool_result` blocks can only be in `user` messages"
        elif kind in _SIGNED and role != "assistant":
            yield f"messages.{n}.content: thinking blocks may only be in `assistant` messages"
        elif role == "system" and kind != "text":
            yield f"messages.{n}.content.{k}: role 'system' takes text blocks only"


def _system_message(messages: Sequence[Mapping[str, Any]], n: int, profile: ModelProfile) -> Iterator[str]:
    if not profile.system_messages:
        yield "role 'system' is not supported on this model"
        return
    before = messages[n - 1] if n else None
    served = before is not None and before["role"] == "assistant" and _ends_served(before)
    if before is None or not (before["role"] == "user" or served):
        yield f"messages.{n}: role 'system' must follow a 'user' message or an 'assistant' message ending in a server tool result"
    if n + 1 < len(messages) and messages[n + 1]["role"] != "assistant":
        yield f"messages.{n}: role 'system' must precede an 'assistant' message or end the array"


def _ends_served(message: Mapping[str, Any]) -> bool:
    blocks = contents(message["content"])
    return bool(blocks) and blocks[-1]["type"] == "tool_search_tool_result"


def _pairs(turns: _Turns) -> Iterator[str]:
    """Every tool use answered once, at once and first thing; nothing answered that was not asked."""
    seen: set[str] = set()
    asked: list[str] = []
    asked_at = 0
    for n, (role, blocks) in enumerate(turns):
        results = [(m, k, block["tool_use_id"]) for m, k, block in blocks if block["type"] == "tool_result"]
        if role == "user":
            yield from _answers(asked, asked_at, blocks, results)
            asked = []
        else:
            for m, k, block in blocks:
                if block["type"] == "tool_use":
                    if block["id"] in seen:
                        yield f"messages.{m}.content.{k}: `tool_use` ids must be unique"
                    seen.add(block["id"])
                    asked.append(block["id"])
                    asked_at = m
            if asked and n == len(turns) - 1:
                yield _unanswered(asked_at, asked)


def _answers(
    asked: Sequence[str], asked_at: int, blocks: Sequence[tuple[int, int, Mapping[str, Any]]], results: Sequence[tuple[int, int, str]]
) -> Iterator[str]:
    for m, k, name in results:
        if name not in asked:
            yield (
                f"messages.{m}.content.{k}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
    for name, times in Counter(name for _, _, name in results).items():
        if times > 1:
            m, k = next((m, k) for m, k, each in reversed(results) if each == name)
            yield f"messages.{m}.content.{k}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {name}"
    leading = set()
    for _, _, block in blocks:
        if block["type"] != "tool_result":
            break
        leading.add(block["tool_use_id"])
    if missing := [name for name in asked if name not in leading]:
        yield _unanswered(asked_at, missing)


def _unanswered(n: int, names: Sequence[str]) -> str:
    return (
        f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(names)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _turns(blocks: _Blocks) -> _Turns:
    """Messages with neighbours of one role made one, as the API does. System messages are not turns."""
    turns: _Turns = []
    for n, k, role, block in blocks:
        if role == "system":
            continue
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].append((n, k, block))
    return turns


def _ending(body: Mapping[str, Any], profile: ModelProfile, *, resumes: bool) -> Iterator[str]:
    last = body["messages"][-1] if body["messages"] else None
    if last is None or last["role"] != "assistant" or resumes or _ends_served(last):
        return
    if not profile.prefill:
        yield "This model does not support assistant message prefill. The conversation must end with a user message."
    blocks = contents(last["content"])
    if blocks and blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _signatures(body: Mapping[str, Any], profile: ModelProfile, blocks: _Blocks) -> Iterator[str]:
    newest = max(n for n, _, role, _ in blocks if role == "assistant")
    for n, k, breach in signatures.breaches(body):
        place = f"messages.{n}.content.{k}"
        if breach is signatures.Breach.THINKING and n == newest:
            yield (
                f"{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
                "These blocks must remain as they were in the original response."
            )
        elif breach is signatures.Breach.THINKING:
            yield f"{place}: Invalid `signature` in `thinking` block"
        elif profile.binds_thinking:
            yield (
                f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or "
                'set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
                f"`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header. {_DIFFERS[breach]}"
            )


def _open_thinking(body: Mapping[str, Any], turns: _Turns) -> Iterator[str]:
    """With thinking by budget, a round of tool uses that is under way begins with the thinking that led to it."""
    if (body.get("thinking") or {}).get("type") != "enabled" or len(turns) < 2:
        return
    (role, blocks), (_, answers) = turns[-2], turns[-1]
    if role == "assistant" and answers and answers[0][2]["type"] == "tool_result" and blocks[0][2]["type"] not in _SIGNED:
        n, k, block = blocks[0]
        yield (
            f"messages.{n}.content.{k}.type: Expected `thinking` or `redacted_thinking`, but found `{block['type']}`. When `thinking` is "
            "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and "
            "`tool_result` blocks)."
        )


_DIFFERS = {
    signatures.Breach.TOOLS: "The `tools` differ from the ones this block was created with.",
    signatures.Breach.SYSTEM: "The `system` prompt differs from the one this block was created with.",
    signatures.Breach.MESSAGES: "An earlier message differs from the ones this block was created with.",
}
