"""A model request as its reader sees it: what is news, what is memory, which tools are offered, how far the turn is.

Invariant: a reading is made of the request's body alone and never changes it. It assumes the Messages API and nothing of who sent it,
except that what is *not* news may stand in fences called `recalled`, `notebook` or `record`, and news among tool results in one called
`observation`; a sender without such fences loses nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_NOT_NEWS = re.compile(r"<(recalled|notebook|record)\b.*?</\1>", re.DOTALL)
_STAMP = re.compile(r"#(\d+)\.(\d+)\.")


def block_text(block: Mapping[str, Any]) -> str:
    """All text of a content block that a model would read."""
    match block.get("type"):
        case "text":
            return str(block.get("text") or "")
        case "tool_use":
            return f"{block.get('name', '')} {json.dumps(block.get('input'), ensure_ascii=False)}"
        case "tool_result":
            return "\n".join(block_text(b) for b in blocks(block.get("content")))
        case _:
            return ""


def blocks(content: Any) -> list[Mapping[str, Any]]:
    """Content as a list of blocks, whichever of its two forms was sent."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content or () if isinstance(b, Mapping)]


def merged(messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Messages as (role, blocks), neighbours of one role joined as the API joins them; system messages left out."""
    out: list[tuple[str, list[Mapping[str, Any]]]] = []
    for message in messages:
        role = str(message.get("role"))
        if role == "system":
            continue
        if out and out[-1][0] == role:
            out[-1][1].extend(blocks(message.get("content")))
        else:
            out.append((role, blocks(message.get("content"))))
    return out


@dataclass(frozen=True)
class Reading:
    """One request, read. Everything costly is worked out when it is first asked for."""

    body: Mapping[str, Any]

    @cached_property
    def messages(self) -> list[tuple[str, list[Mapping[str, Any]]]]:
        """(role, blocks) without system messages."""
        return merged(self.body.get("messages") or ())

    @cached_property
    def tools(self) -> dict[str, Mapping[str, Any]]:
        """Offered tools by name: their JSON Schemas. Empty where the answer must be text."""
        if (self.body.get("tool_choice") or {}).get("type") == "none":
            return {}
        return {str(t.get("name")): t.get("input_schema") or {} for t in self.body.get("tools") or ()}

    @cached_property
    def opening(self) -> int:
        """Index of the message that holds the newest news: the newest user message with more in it than what tools brought."""
        for n in range(len(self.messages) - 1, -1, -1):
            role, content = self.messages[n]
            if role == "user" and any(_words_beside_results(b) for b in content):
                return n
        return 0

    @cached_property
    def opening_text(self) -> str:
        """All text of that message, tool results left out."""
        if not self.messages:
            return ""
        return "\n".join(text for b in self.messages[self.opening][1] for text in _words_beside_results(b))

    @cached_property
    def news(self) -> str:
        """The opening message without memories, notebook and condensed record."""
        return _NOT_NEWS.sub("", self.opening_text)

    @cached_property
    def round(self) -> int:
        """How many answers the model has given in this turn."""
        return sum(role == "assistant" for role, _ in self.messages[self.opening + 1 :])

    @cached_property
    def called(self) -> tuple[str, ...]:
        """Names of the tools called in this turn, in order."""
        answers = [content for role, content in self.messages[self.opening + 1 :] if role == "assistant"]
        return tuple(str(b.get("name")) for content in answers for b in content if b.get("type") == "tool_use")

    @cached_property
    def results(self) -> tuple[str, ...]:
        """Texts of the tool results that came last in this turn."""
        if len(self.messages) - 1 <= self.opening:
            return ()
        return tuple(block_text(b) for b in self.messages[-1][1] if b.get("type") == "tool_result")

    @cached_property
    def system(self) -> str:
        """The system prompt, and system messages inside the conversation."""
        parts = [block_text(b) for b in blocks(self.body.get("system"))]
        for message in self.body.get("messages") or ():
            if message.get("role") == "system":
                parts += [block_text(b) for b in blocks(message.get("content"))]
        return "\n".join(parts)

    @cached_property
    def said(self) -> str:
        """Everything in the conversation, oldest first, system parts left out."""
        return "\n".join(block_text(b) for _, content in self.messages for b in content)

    @cached_property
    def past(self) -> str:
        """The conversation before the newest news."""
        return "\n".join(block_text(b) for _, content in self.messages[: self.opening] for b in content)

    @cached_property
    def stamp(self) -> str:
        """The stamp of the newest stamped line of the news, such as `#12.3.`; empty where there is none."""
        best: tuple[int, int] | None = None
        for found in _STAMP.finditer(self.news):
            here = (int(found[1]), int(found[2]))
            if best is None or here > best:
                best = here
        return f"#{best[0]}.{best[1]}." if best else ""

    @cached_property
    def last_call_id(self) -> str:
        """The id of the newest tool use in the request, empty where there is none."""
        for _, content in reversed(self.messages):
            for block in reversed(content):
                if block.get("type") == "tool_use":
                    return str(block.get("id"))
        return ""


def _words_beside_results(block: Mapping[str, Any]) -> list[str]:
    """What of a block of the user's is news. News that came while the NPC was busy may stand behind a result, in its own fence."""
    if block.get("type") != "tool_result":
        return [block_text(block)]
    content = block.get("content")
    parts = [] if isinstance(content, str) else [block_text(b) for b in blocks(content)][1:]
    return [p for p in parts if p.startswith("<observation")]


def first_of(schema: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of `names` that the schema has as a property."""
    properties = schema.get("properties") or {}
    return next((n for n in names if n in properties), None)
