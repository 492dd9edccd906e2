"""What the model says, and how it leaves: cut to its limits, as one message or as a row of stream events.

Invariant: pure. The output never exceeds `max_tokens` nor the room left in the window; whoever asked for too little gets a half-sent
answer and is told so by the stop reason, as on the real API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sim.api.counting import TokenCounter
from sim.api.prompt import BLOCK, block_tokens

_PIECE, _MOST_PIECES = 24, 12  # characters of one delta at least, deltas of one block at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's answer before it is cut and sent.

    Attributes:
        content: API blocks (text, tool_use, thinking). A tool use without an `id` gets one.
        stop_reason: `tool_use` if there is a tool use and `end_turn` otherwise, unless given.
        stop_details: what stands beside a refusal.
    """

    content: Sequence[Mapping[str, Any]]
    stop_reason: str | None = None
    stop_details: Mapping[str, Any] | None = None


class Brain(Protocol):
    """What stands in for the model. It gets the request's body and must not change it."""

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """The answer to a valid request. A request without tools is a summary or another helper call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An answer as it is sent.

    Attributes:
        content: the blocks, complete with ids.
        arguments: for some blocks by position, the characters that are streamed as their arguments instead of the JSON of `input`.
        stop_reason: why it ends.
        stop_sequence: which of the request's stop sequences ended it.
        stop_details: of a refusal.
        tokens: of output.
    """

    content: tuple[Mapping[str, Any], ...]
    stop_reason: str
    tokens: int
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    arguments: Mapping[int, str] = field(default_factory=dict)

    def message(self, *, message_id: str, model: str, usage: Mapping[str, Any]) -> dict[str, Any]:
        """The answer as one object. Arguments that are no JSON object can only be shown here as the text they are."""
        content = [{**block, "input": self.arguments[n]} if n in self.arguments else block for n, block in enumerate(self.content)]
        return {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": self.stop_reason,
            "stop_sequence": self.stop_sequence,
            "stop_details": self.stop_details,
            "usage": usage,
        }


def finish(reply: Reply, *, max_tokens: int, room: int, stop_sequences: Sequence[str], counter: TokenCounter, serial: int) -> Output:
    """Cut a reply to what the request and the window allow.

    Args:
        reply: what the brain said.
        max_tokens: the request's cap.
        room: tokens left in the window.
        stop_sequences: texts that end the answer before they are said.
        counter: of the model's tokens.
        serial: of the request; ids of tool uses are made from it.
    """
    content = [_with_id(block, serial, n) for n, block in enumerate(reply.content)]
    stop_reason = reply.stop_reason or ("tool_use" if any(b["type"] == "tool_use" for b in content) else "end_turn")
    content, stop_sequence = _stopped(content, stop_sequences)
    if stop_sequence is not None:
        stop_reason = "stop_sequence"
    output = Output(
        content=tuple(content),
        stop_reason=stop_reason,
        stop_sequence=stop_sequence,
        stop_details=reply.stop_details,
        tokens=sum(_size(block, counter) for block in content) + 1,
    )
    cap = min(max_tokens, room)
    if output.tokens <= cap:
        return output
    return replace(cut(output, cap, counter), stop_reason="max_tokens" if max_tokens <= room else "model_context_window_exceeded")


def cut(output: Output, cap: int, counter: TokenCounter) -> Output:
    """The first `cap` tokens of an answer. A tool use at the cut has half of its JSON, and an empty input."""
    kept: list[Mapping[str, Any]] = []
    left = max(0, min(cap, output.tokens - 2))  # the last token ends the answer; without it the last block is not known to be whole
    for block in output.content:
        size = _size(block, counter)
        if size <= left:
            kept.append(block)
            left -= size
            continue
        share = left / size
        if block["type"] == "text" and (text := str(block["text"])[: int(len(block["text"]) * share)]):
            kept.append({**block, "text": text})
        elif block["type"] == "tool_use" and left:
            arguments = _json(block["input"])
            half = arguments[: max(1, min(int(len(arguments) * share), len(arguments) - 1))]
            return replace(output, content=(*kept, {**block, "input": {}}), arguments={len(kept): half}, tokens=cap)
        break
    return replace(output, content=tuple(kept), tokens=cap)


def events(output: Output, message: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and data of the stream's events, in order, a ping among them."""
    usage = message["usage"]
    empty = {**message, "content": [], "stop_reason": None, "stop_details": None, "stop_sequence": None}
    yield "message_start", {"message": {**empty, "usage": {**usage, "output_tokens": min(1, usage["output_tokens"])}}}
    for n, block in enumerate(output.content):
        start, deltas = _deltas(block, output.arguments.get(n))
        yield "content_block_start", {"index": n, "content_block": start}
        if n == 0:
            yield "ping", {}
        for delta in deltas:
            yield "content_block_delta", {"index": n, "delta": delta}
        yield "content_block_stop", {"index": n}
    delta = {"stop_reason": output.stop_reason, "stop_sequence": output.stop_sequence, "stop_details": output.stop_details}
    counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    yield "message_delta", {"delta": delta, "usage": {name: usage[name] for name in counts}}
    yield "message_stop", {}


def as_sse(name: str, data: Mapping[str, Any]) -> bytes:
    """One event as it goes over the wire."""
    return f"event: {name}\ndata: {_json({'type': name, **data})}\n\n".encode("utf-8", "replace")


def _deltas(block: Mapping[str, Any], arguments: str | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block opens, and what is then added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        case "tool_use" | "server_tool_use":
            text = _json(block["input"]) if arguments is None else arguments
            parts = ("", *_pieces(text)) if text else ("",)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in parts]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            return {**block, "thinking": "", "signature": ""}, [*deltas, {"type": "signature_delta", "signature": block["signature"]}]
        case _:
            return dict(block), []


def _pieces(text: str) -> list[str]:
    """Uneven pieces, as tokens are: their ends fall inside words, numbers and JSON strings."""
    step = max(_PIECE, -(-len(text) // _MOST_PIECES))
    first = step // 3
    return [text[:first], *(text[at : at + step] for at in range(first, len(text), step))]


def _stopped(content: list[dict[str, Any]], sequences: Sequence[str]) -> tuple[list[dict[str, Any]], str | None]:
    for n, block in enumerate(content):
        if block["type"] != "text":
            continue
        found = [(at, sequence) for sequence in sequences if (at := block["text"].find(sequence)) >= 0]
        if found:
            at, sequence = min(found)
            said = [{**block, "text": block["text"][:at]}] if at else []
            return [*content[:n], *said], sequence
    return content, None


def _with_id(block: Mapping[str, Any], serial: int, n: int) -> dict[str, Any]:
    if block["type"] != "tool_use" or block.get("id"):
        return dict(block)
    return {"type": "tool_use", "id": f"toolu_{serial:012d}{n:02d}", "name": block["name"], "input": dict(block.get("input") or {})}


def _size(block: Mapping[str, Any], counter: TokenCounter) -> int:
    if block["type"] == "tool_search_tool_result":
        return 0  # the model did not write it
    return block_tokens(block, counter) + BLOCK


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
