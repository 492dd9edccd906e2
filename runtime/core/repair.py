"""Keeping the conversation valid: what the API refuses never leaves, and what a model or a crash broke is mended.

Invariants: what `mended` returns has no `problems` (but for an end that waits for the user, or nothing left at all); mending keeps every
real tool result; signed thinking is replayed as it came or taken out as a whole, never stood beside something edited; messages and blocks
that are fine stay the same objects, so that nothing in the cached prefix moves.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from . import searches
from .messages import Block, Count, Kind, Message, make_block, result_block, results_of, text_block, uses_of

CUT_SHORT = "(cut short)"
UNKNOWN_OUTCOME = "[interrupted: the outcome of this action is unknown]"

_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 128
THINKING = ("thinking", "redacted_thinking")


# ---------------------------------------------------------------- an answer on its way in
def blocks_of_answer(
    content: Sequence[Mapping[str, Any]], taken: set[str], count: Count, *, event: int = 0, open_ids: Collection[str] = (),
    paused: bool = False,
) -> tuple[Block, ...]:  # fmt: skip
    """The blocks of an answer that may stand in the history; `taken` holds the tool ids that do already, and gains the new ones.

    Blank text goes, ids that are missing, doubled or not of the API's alphabet are renamed, arguments that are no object become `{}`. If
    anything had to be changed, the thinking beside it, which is signed together with it, goes as a whole. Searches stay as they came, each
    with its result; `open_ids` are those of a paused answer that this one goes on from, and those of a `paused` one may stay open.
    """
    out: list[Block] = []
    edited = False
    for raw in content:
        kind = raw.get("type")
        if kind == "text":
            if str(raw.get("text") or "").strip():
                out.append(text_block(Kind.SAID, str(raw["text"]), count, event=event))
            else:
                edited = True
        elif kind == "tool_use":
            clean = _clean_use(raw, taken)
            edited = edited or any(clean[k] != raw.get(k) for k in ("id", "name", "input"))
            out.append(make_block(Kind.TOOL_USE, clean, count, event=event))
        elif kind in THINKING or searches.is_part(raw):
            what = Kind.OTHER if kind in THINKING else Kind.SERVED
            out.append(make_block(what, {k: v for k, v in raw.items() if not k.startswith("_")}, count, event=event))
        else:
            edited = True
    kept = searches.paired(out, open_ids=open_ids, last=paused)
    out, edited = kept, edited or len(kept) < len(out)
    return tuple(b for b in out if b.kind is not Kind.OTHER) if edited else tuple(out)


def _clean_use(raw: Mapping[str, Any], taken: set[str]) -> dict[str, Any]:
    base = _NAME.sub("_", str(raw.get("id") or ""))[:64] or "call"
    use_id, n = base, len(taken)
    while use_id in taken:
        use_id, n = f"{base}_{n}", n + 1
    taken.add(use_id)
    arguments = raw.get("input")
    name = _NAME.sub("_", str(raw.get("name") or ""))[:_LONGEST_NAME] or "unnamed"
    return {"type": "tool_use", "id": use_id, "name": name, "input": dict(arguments) if isinstance(arguments, Mapping) else {}}


# ---------------------------------------------------------------- the history
def joined(messages: tuple[Message, ...], message: Message, count: Count) -> tuple[Message, ...]:
    """The messages and one more.

    Words after tool results in one user message teach the model to answer nothing: a placeholder of the assistant's keeps them apart.
    """
    return (*messages, *_with_seam(messages, message, count))


def _with_seam(before: Sequence[Message], message: Message, count: Count) -> list[Message]:
    last = before[-1] if before else None
    if last and last.role == message.role == "user" and results_of(last):
        return [Message("assistant", (text_block(Kind.SAID, CUT_SHORT, count),), last.turn), message]
    return [message]


def unanswered(messages: Sequence[Message]) -> int:
    """Index of the first message that the assistant has not answered yet; placeholders are no answers."""
    n = len(messages)
    while n and (messages[n - 1].role == "user" or _is_placeholder(messages[n - 1])):
        n -= 1
    return n


def _is_placeholder(message: Message) -> bool:
    return len(message.blocks) == 1 and message.blocks[0].data.get("text") == CUT_SHORT


def without_thinking(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages without carried thinking: it is bound to everything before it, so an edit further up makes all of it invalid."""
    if not any(b.kind is Kind.OTHER for m in messages for b in m.blocks):
        return messages
    slim = [(m, [b for b in m.blocks if b.kind is not Kind.OTHER]) for m in messages]
    return tuple(m if len(kept) == len(m.blocks) else m.having(kept) for m, kept in slim if kept)


def mended(messages: Sequence[Message], count: Count, *, why: str = UNKNOWN_OUTCOME) -> tuple[Message, ...]:
    """The messages with every pair whole: missing results are made, orphans and doubles dropped, call order kept."""
    out: list[Message] = []
    seen: set[str] = set()
    first = next((n for n, message in enumerate(messages) if message.role == "user"), len(messages))
    messages = searches.whole(messages[first:])
    n = 0
    while n < len(messages):
        if messages[n].role == "user":
            run = n
            while n < len(messages) and messages[n].role == "user":
                n += 1
            _take_users(out, messages[run:n], count, why)
        else:
            _take_assistant(out, messages[n], seen, count, why)
            n += 1
    _take_users(out, (), count, why)
    return tuple(out)


def _take_users(out: list[Message], run: Sequence[Message], count: Count, why: str) -> None:
    """Neighbouring user messages: whatever results are in them answer the calls before them, the rest follows."""
    calls = uses_of(out[-1]) if out else []
    if calls:
        given = [b for m in run for b in results_of(m)]
        answer = Message("user", _answers(calls, given, count, why), out[-1].turn)
        whole = run and run[0].blocks == answer.blocks and run[0].turn == answer.turn
        out.append(run[0] if whole else answer)
    for message in run:
        rest = [b for b in message.blocks if b.kind not in (Kind.TOOL_RESULT, Kind.TOOL_USE, Kind.OTHER) and not _blank(b)]
        if rest:
            plain = message if len(rest) == len(message.blocks) else message.having(rest)
            out += _with_seam(out, plain, count)


def _take_assistant(out: list[Message], message: Message, seen: set[str], count: Count, why: str) -> None:
    if not out:
        return  # the first message is always the user's
    if uses_of(out[-1]):
        _take_users(out, (), count, why)
    kept: list[Block] = []
    for block in message.blocks:
        if block.kind is Kind.TOOL_USE:
            if str(block.data["id"]) in seen:
                continue
            seen.add(str(block.data["id"]))
        elif block.kind is Kind.TOOL_RESULT or _blank(block):
            continue
        kept.append(block)
    if len(kept) < len(message.blocks):
        kept = [b for b in kept if b.kind is not Kind.OTHER]
    if any(b.kind is not Kind.OTHER for b in kept):
        out.append(message if len(kept) == len(message.blocks) else message.having(kept))


def _blank(block: Block) -> bool:
    return block.data.get("type") == "text" and not block.text.strip()


def _answers(calls: Sequence[Block], given: Sequence[Block], count: Count, why: str) -> tuple[Block, ...]:
    by_id: dict[str, Block] = {}
    for block in given:
        by_id.setdefault(str(block.data["tool_use_id"]), block)
    ids = [str(u.data["id"]) for u in calls]
    return tuple(by_id.get(i) or result_block(i, why, count, error=True) for i in ids)


# ---------------------------------------------------------------- the last look before a request leaves
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
                    if _hollow(block.get("content")):
                        found.append(f"messages.{n}.content.{k}: blank text in a tool result")
                case "server_tool_use" | "tool_search_tool_result":
                    lead = False
                    if message["role"] != "assistant":
                        found.append(f"messages.{n}.content.{k}: a tool search outside an assistant message")
                case _:
                    lead = False
                    if message["role"] != "assistant":
                        found.append(f"messages.{n}.content.{k}: thinking outside an assistant message")
        if sorted(results) != sorted(open_ids):
            found.append(f"messages.{n}: tool results {results} do not answer the tool uses {open_ids}")
        if searches.unpaired(content, open_end=prefill and n == len(messages) - 1):
            found.append(f"messages.{n}: a tool search without its result, or a result without its search")
        if len(set(uses)) != len(uses) or seen & set(uses):
            found.append(f"messages.{n}: doubled tool use id")
        seen.update(uses)
        open_ids = uses
    if open_ids:
        found.append(f"tool uses without results: {open_ids}")
    return found


def _hollow(content: Any) -> bool:
    if isinstance(content, str):
        return False
    return any(part.get("type") == "text" and not str(part.get("text") or "").strip() for part in content or ())
