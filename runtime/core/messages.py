"""Messages and blocks: what the history is made of.

Invariant: a block is counted once, when it is made, and carries its size for ever; everything later is addition.
Sizes are raw tokens (`Count`), before the learned factor of `calibration`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

#: Raw tokens of a text. Must be pure; an estimate will do.
Count = Callable[[str], int]
Role = Literal["user", "assistant"]

BLOCK_OVERHEAD = 4
MESSAGE_OVERHEAD = 3


class Kind(StrEnum):
    """What a block is to the ladder; the provider sees only `Block.data`."""

    OBSERVATION = "observation"  # what the world told, fenced
    RECALLED = "recalled"  # memories given to this turn
    NOTEBOOK = "notebook"  # the state file and the end of the log, as last shown
    TAIL = "tail"  # trusted words, where the model takes no system message inside the conversation
    RECORD = "record"  # what compaction kept of older turns
    MARKER = "marker"  # `[context reset: ...]` and the like
    SAID = "said"  # the model's own text
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"
    OUTCOME = "outcome"  # a tool result as plain text, after a reset took its call away
    SERVED = "served"  # the provider's own tool search: what was asked and what it gave; see `searches`
    OTHER = "other"  # thinking and whatever else a model sends; replayed as it came


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One content block.

    Attributes:
        data: the block as the Messages API has it, without `cache_control`.
        tokens: raw tokens, overhead included.
        event: number of the log event that holds the whole thing (0: none).
        gist: lines worth keeping when the turn is compacted.
    """

    kind: Kind
    data: Mapping[str, Any]
    tokens: int
    event: int = 0
    gist: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All text that the model reads in this block."""
        return block_text(self.data)


@dataclass(frozen=True, slots=True)
class Message:
    """Blocks of one role. `turn` says to which turn they belong; an exchange is an assistant message and the one that answers it."""

    role: Role
    blocks: tuple[Block, ...]
    turn: int
    tokens: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", MESSAGE_OVERHEAD + sum(b.tokens for b in self.blocks))

    def having(self, blocks: Sequence[Block]) -> Message:
        """The same message with other blocks."""
        return Message(self.role, tuple(blocks), self.turn)


def block_text(data: Mapping[str, Any]) -> str:
    """The text of an API block: of a tool use its name and arguments, of a tool result what it holds."""
    match data.get("type"):
        case "text":
            return str(data.get("text") or "")
        case "tool_use":
            return f"{data.get('name', '')} {json.dumps(data.get('input'), ensure_ascii=False)}"
        case "tool_result":
            content = data.get("content")
            if isinstance(content, str):
                return content
            return "\n".join(block_text(b) for b in content or ())
        case _:
            return json.dumps(data, ensure_ascii=False, default=str)


def make_block(kind: Kind, data: Mapping[str, Any], count: Count, *, event: int = 0, gist: tuple[str, ...] = ()) -> Block:
    """A counted block."""
    return Block(kind=kind, data=data, tokens=count(block_text(data)) + BLOCK_OVERHEAD, event=event, gist=gist)


def text_block(kind: Kind, text: str, count: Count, *, event: int = 0, gist: tuple[str, ...] = ()) -> Block:
    """A counted text block; the text must not be blank."""
    return make_block(kind, {"type": "text", "text": text}, count, event=event, gist=gist)


def result_block(
    use_id: str, text: str | Sequence[str], count: Count, *, error: bool = False, event: int = 0, gist: tuple[str, ...] = ()
) -> Block:
    """A counted tool result. Several texts become several parts; nothing at all becomes `(nothing)`."""
    parts = [text] if isinstance(text, str) else list(text)
    parts = [p for p in parts if p.strip()] or ["(nothing)"]
    content: Any = parts[0] if len(parts) == 1 else [{"type": "text", "text": p} for p in parts]
    data: dict[str, Any] = {"type": "tool_result", "tool_use_id": use_id, "content": content}
    if error:
        data["is_error"] = True
    return make_block(Kind.TOOL_RESULT, data, count, event=event, gist=gist)


def total(messages: Sequence[Message]) -> int:
    """Raw tokens of messages."""
    return sum(m.tokens for m in messages)


def uses_of(message: Message) -> list[Block]:
    """The tool uses of a message, in call order."""
    return [b for b in message.blocks if b.kind is Kind.TOOL_USE]


def results_of(message: Message) -> list[Block]:
    """The tool results of a message."""
    return [b for b in message.blocks if b.kind is Kind.TOOL_RESULT]
