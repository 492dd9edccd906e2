"""The provider's own tool search, as it stands in the history: what the model asked for, and which tools it was given.

Invariants: a search and its result stand together or not at all, in one answer or, where that was paused, in the one that went on from it;
no result refers to a tool that the request does not hold; a result counts with the definitions that the provider puts in its place.
A search that the provider left without a result is taken out: it may be sent back only in a shape that cannot be promised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .layout import TOOL_OVERHEAD, Fixed
from .messages import Block, Count, Kind, Message, make_block, uses_of

#: How names and types of the search tools begin.
NAMES = "tool_search_tool_"
USE, RESULT, FOUND = "server_tool_use", "tool_search_tool_result", "tool_search_tool_search_result"


def is_part(raw: Mapping[str, Any]) -> bool:
    """Whether a block of an answer belongs to a tool search, and can stand in a history."""
    match raw.get("type"):
        case "server_tool_use":
            sound = isinstance(raw.get("id"), str) and isinstance(raw.get("input"), Mapping)
            return sound and str(raw.get("name") or "").startswith(NAMES)
        case "tool_search_tool_result":
            return isinstance(raw.get("tool_use_id"), str) and isinstance(raw.get("content"), Mapping)
    return False


def _number(block: Block) -> str:
    return str(block.data.get("id") if block.data.get("type") == USE else block.data.get("tool_use_id"))


def names_in(data: Mapping[str, Any]) -> list[str]:
    """The tools that a result refers to."""
    content = data.get("content")
    found = content.get("tool_references") if data.get("type") == RESULT and isinstance(content, Mapping) else None
    return [str(one.get("tool_name")) for one in found if isinstance(one, Mapping)] if isinstance(found, Sequence) else []


def paired(blocks: Iterable[Block], *, open_ids: Collection[str] = (), last: bool = False) -> list[Block]:
    """The blocks without searches that have no result and results that have no search; a use that comes twice counts once.

    `open_ids` are searches before these blocks that may be answered here; `last`: the answer goes on, so its own may stay open.
    """
    blocks = list(blocks)
    asked, told = set(open_ids), set[str]()
    whole = []
    for block in blocks:
        if block.kind is Kind.SERVED:
            number, result = _number(block), block.data["type"] == RESULT
            if (number not in asked or number in told) if result else number in asked:
                continue
            (told if result else asked).add(number)
        whole.append(block)
    return [b for b in whole if last or b.kind is not Kind.SERVED or b.data["type"] == RESULT or _number(b) in told]


def unpaired(content: Sequence[Mapping[str, Any]], *, open_end: bool) -> bool:
    """Whether an API message holds a search without its result or the reverse; with `open_end` a search may still wait for it."""
    if not any(block.get("type") in (USE, RESULT) for block in content):
        return False
    blocks = [Block(kind=Kind.SERVED, data=block, tokens=0) for block in content if block.get("type") in (USE, RESULT)]
    return len(paired(blocks, last=open_end)) < len(blocks)


def open_ids(messages: Sequence[Message]) -> set[str]:
    """The searches at the end of a history that wait for their result: those of an answer that was paused."""
    out: set[str] = set()
    for message in reversed(messages):
        if message.role != "assistant" or uses_of(message):
            break
        parts = [b for b in message.blocks if b.kind is Kind.SERVED]
        out |= {_number(b) for b in parts if b.data["type"] == USE} - out
        out -= {_number(b) for b in parts if b.data["type"] == RESULT}
    return out


def whole(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with every search beside its result. What is fine stays the same object; thinking beside what is taken out goes too."""
    if not any(b.kind is Kind.SERVED for m in messages for b in m.blocks):
        return tuple(messages)
    out: list[Message] = []
    runs = list(_runs(messages))
    for number, run in enumerate(runs):
        if run[0].role != "assistant":
            out += run
            continue
        kept = {id(b) for b in paired((b for m in run for b in m.blocks), last=number == len(runs) - 1 and not uses_of(run[-1]))}
        for message in run:
            blocks = [b for b in message.blocks if id(b) in kept]
            if len(blocks) == len(message.blocks):
                out.append(message)
            elif plain := [b for b in blocks if b.kind is not Kind.OTHER]:
                out.append(message.having(plain))
    return tuple(out)


def _runs(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Neighbouring messages of one role; an answer that calls tools ends a run, for what follows goes on from their results."""
    run: list[Message] = []
    for message in messages:
        if run and (run[-1].role != message.role or uses_of(run[-1])):
            yield run
            run = []
        run.append(message)
    if run:
        yield run


def fitted(messages: tuple[Message, ...], fixed: Fixed, count: Count) -> tuple[tuple[Message, ...], bool]:
    """The messages as they may go out beside these tools, and whether a byte of them had to change.

    References to tools that are gone are taken out, everything about searches where there is no search tool any more; what is left counts
    with the definitions that it brings.
    """
    if not any(b.kind is Kind.SERVED for m in messages for b in m.blocks):
        return messages, False
    offered = {str(tool.get("name")) for tool in fixed.tools}
    searched = any(str(tool.get("type") or "").startswith(NAMES) for tool in fixed.tools)
    sizes = dict(fixed.deferred)
    out: list[Message] = []
    edited = False
    for message in messages:
        blocks: list[Block] = []
        for block in message.blocks:
            if block.kind is not Kind.SERVED:
                blocks.append(block)
            elif not searched:
                edited = True
            else:
                fresh = _fitted(block, offered, sizes, count)
                edited = edited or fresh.data is not block.data
                blocks.append(fresh)
        same = len(blocks) == len(message.blocks) and all(a is b for a, b in zip(blocks, message.blocks, strict=True))
        if same:
            out.append(message)
        elif blocks:
            out.append(message.having(blocks))
    return tuple(out), edited


def _fitted(block: Block, offered: Collection[str], sizes: Mapping[str, int], count: Count) -> Block:
    names = names_in(block.data)
    if not names:
        return block
    if gone := [name for name in names if name not in offered]:
        content = dict(block.data["content"])
        content["tool_references"] = [one for one in content["tool_references"] if one.get("tool_name") not in gone]
        block = make_block(Kind.SERVED, {**block.data, "content": content}, count, event=block.event)
    tokens = make_block(Kind.SERVED, block.data, count).tokens + sum(sizes.get(name, 0) + TOOL_OVERHEAD for name in names_in(block.data))
    return block if tokens == block.tokens else replace(block, tokens=tokens)
