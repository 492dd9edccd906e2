"""Keeping the conversation valid: what the API refuses never leaves, and what a model or a crash broke is mended.

Invariants: `problems(mended(x)) == []` for every `x`; mending keeps every real tool result and never edits inside an assistant
message that carries signed thinking; blocks that are fine stay the same objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .messages import Block, Count, Kind, Message, make_block, result_block, results_of, text_block, uses_of

CUT_SHORT = "(cut short)"
UNKNOWN_OUTCOME = "[interrupted: the outcome of this action is unknown]"


def blocks_of_answer(content: Sequence[Mapping[str, Any]], taken: set[str], count: Count, *, event: int = 0) -> tuple[Block, ...]:
    """The blocks of an answer that may stand in the history.

    Blank text goes, doubled or missing tool ids are renamed, arguments that are no object become `{}`. Where signed thinking is
    present everything stays as it came, blank text included only if it is not blank.
    """
    out: list[Block] = []
    for raw in content:
        data = {k: v for k, v in raw.items() if not k.startswith("_")}
        kind = data.get("type")
        if kind == "text":
            text = str(data.get("text") or "")
            if text.strip():
                out.append(text_block(Kind.SAID, text, count, event=event))
        elif kind == "tool_use":
            use_id = str(data.get("id") or "")
            while not use_id or use_id in taken:
                use_id = f"{use_id or 'call'}_{len(taken)}"
            taken.add(use_id)
            arguments = data.get("input")
            name = str(data.get("name") or "unnamed")
            clean = {"type": "tool_use", "id": use_id, "name": name, "input": arguments if isinstance(arguments, dict) else {}}
            out.append(make_block(Kind.TOOL_USE, clean, count, event=event))
        elif kind in ("thinking", "redacted_thinking"):
            out.append(make_block(Kind.OTHER, data, count, event=event))
    return tuple(out)


def mended(messages: Sequence[Message], count: Count, *, why: str = UNKNOWN_OUTCOME) -> tuple[Message, ...]:
    """The messages with every pair whole: missing results are made, orphans and doubles dropped, call order kept."""
    out: list[Message] = []
    seen: set[str] = set()
    queue = list(messages)
    n = 0
    while n < len(queue):
        message = queue[n]
        n += 1
        if message.role == "user":
            plain = message.having([b for b in message.blocks if b.kind is not Kind.TOOL_RESULT]) if results_of(message) else message
            if not plain.blocks:
                continue
            if out and out[-1].role == "user" and results_of(out[-1]):
                # Words of ours after tool results in one message teach the model to answer nothing: keep them apart.
                out.append(Message("assistant", (text_block(Kind.SAID, CUT_SHORT, count),), out[-1].turn))
            out.append(plain)
            continue
        if not out:
            continue  # the first message is always the user's
        if out[-1].role == "assistant":
            if uses_of(out[-1]):
                out.append(_answered(out[-1], [], count, why))
            else:
                out[-1] = out[-1].having([*out[-1].blocks, *message.blocks])
                message = out.pop()
        uses = [b for b in uses_of(message) if b.data["id"] not in seen]
        if len(uses) < len(uses_of(message)):
            message = message.having([b for b in message.blocks if b.kind is not Kind.TOOL_USE or b in uses])
            if not message.blocks:
                continue
        seen.update(str(b.data["id"]) for b in uses)
        out.append(message)
        if uses:
            given: list[Block] = []
            rest: list[Block] = []
            if n < len(queue) and queue[n].role == "user" and results_of(queue[n]):
                given = results_of(queue[n])
                rest = [b for b in queue[n].blocks if b.kind is not Kind.TOOL_RESULT]
                answer = _answered(message, given, count, why)
                # Whole already: keep the very object, so that nothing in the cached prefix moves.
                out.append(queue[n] if not rest and answer.blocks == queue[n].blocks else answer)
                if rest:
                    queue[n] = queue[n].having(rest)
                else:
                    n += 1
            else:
                out.append(_answered(message, given, count, why))
    return tuple(out)


def _answered(message: Message, given: Sequence[Block], count: Count, why: str) -> Message:
    by_id: dict[str, Block] = {}
    for block in given:
        by_id.setdefault(str(block.data["tool_use_id"]), block)
    blocks = [by_id.get(str(u.data["id"])) or result_block(str(u.data["id"]), why, count, error=True) for u in uses_of(message)]
    return Message("user", tuple(blocks), message.turn)


def problems(messages: Sequence[Mapping[str, Any]], *, prefill: bool = False) -> list[str]:
    """What the Messages API would refuse in API messages (neighbours of one role already merged); empty when it would take them.

    `prefill` allows an assistant message at the end: a paused turn is resumed by sending it again.
    """
    found: list[str] = []
    if not messages:
        return ["at least one message is required"]
    if messages[0]["role"] != "user":
        found.append("the first message is not the user's")
    if messages[-1]["role"] == "assistant" and not prefill:
        found.append("the last message is the assistant's")
    seen: set[str] = set()
    open_ids: list[str] = []
    for n, message in enumerate(messages):
        content = message["content"]
        if message["role"] == "system":
            if n == 0 or messages[n - 1]["role"] != "user":
                found.append(f"messages.{n}: a system message must follow a user message")
            continue
        if not content:
            found.append(f"messages.{n}: empty content")
        results: list[str] = []
        uses: list[str] = []
        lead = True
        for k, block in enumerate(content):
            match block.get("type"):
                case "text":
                    lead = False
                    if not str(block.get("text") or "").strip():
                        found.append(f"messages.{n}.content.{k}: blank text")
                case "tool_use":
                    uses.append(str(block.get("id")))
                    if message["role"] != "assistant" or not isinstance(block.get("input"), dict):
                        found.append(f"messages.{n}.content.{k}: bad tool use")
                case "tool_result":
                    results.append(str(block.get("tool_use_id")))
                    if message["role"] != "user" or not lead:
                        found.append(f"messages.{n}.content.{k}: a tool result must come first in a user message")
                case _:
                    lead = False
        if sorted(results) != sorted(open_ids):
            found.append(f"messages.{n}: tool results {results} do not answer the tool uses {open_ids}")
        if len(set(uses)) != len(uses) or seen & set(uses):
            found.append(f"messages.{n}: doubled tool use id")
        seen.update(uses)
        open_ids = uses
    if open_ids:
        found.append(f"tool uses without results: {open_ids}")
    return found
