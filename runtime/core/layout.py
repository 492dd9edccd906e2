"""What one request looks like: tools, system, messages, in the order in which the provider renders and caches them.

Invariants: the same parts give the same bytes; consecutive requests extend the same bytes unless a rung ran; at most four cache marks;
nothing that a player, the world or the model wrote ever stands in a system role; the tail is last or in the turn's opening.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .messages import MESSAGE_OVERHEAD, Block, Count, Message

TOOL_OVERHEAD = 8
MARK: Mapping[str, str] = {"type": "ephemeral"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The fixed part: tools sorted by name, keys sorted; system block one (the same for every NPC of a world) and two (this NPC's).

    `tokens` are raw; `must` are the texts, by name, that no request may lack, word for word. `deferred` are tools that the provider shows
    only when its search finds them, each with its raw tokens: they are sent, and are no part of what the model reads until then.
    """

    tools: tuple[Mapping[str, Any], ...]
    system: tuple[str, ...]
    tokens: int
    sizes: tuple[tuple[str, int], ...] = ()
    must: tuple[tuple[str, str], ...] = ()
    deferred: tuple[tuple[str, int], ...] = ()


def make_fixed(
    *, tools: Sequence[Mapping[str, Any]], system: Sequence[tuple[str, str]], count: Count, must: Sequence[tuple[str, str]] = ()
) -> Fixed:
    """A counted fixed part; `system` and `must` hold (name, text) pairs, and texts that are blank are left out.

    Tools are sorted by name and keys at every depth, so that neither the order of connection nor of a dict moves a byte; of two tools of
    one name the first counts, since the provider takes no request with both.
    """
    by_name: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        by_name.setdefault(str(tool["name"]), _sorted(tool))
    ordered = tuple(by_name[name] for name in sorted(by_name))
    sizes = [("tools", sum(count(_dumped(t)) + TOOL_OVERHEAD for t in ordered if not t.get("defer_loading")))]
    texts = [(name, text) for name, text in system if text.strip()]
    sizes += [(name, count(text) + MESSAGE_OVERHEAD) for name, text in texts]
    return Fixed(
        tools=ordered,
        system=tuple(t for _, t in texts),
        tokens=sum(n for _, n in sizes),
        sizes=tuple(sizes),
        must=tuple((name, text) for name, text in must if text.strip()),
        deferred=tuple((str(t["name"]), count(_dumped(t))) for t in ordered if t.get("defer_loading")),
    )


def lacking(body: Mapping[str, Any], fixed: Fixed) -> list[str]:
    """Names of what a request must hold of its fixed part and does not."""
    system = [str(block.get("text") or "") for block in body.get("system") or ()]
    out = [name for name, text in fixed.must if not any(text in part for part in system)]
    if list(fixed.tools) != (body.get("tools") or []):
        out.append("tools")
    return out


def tail_lacking(body: Mapping[str, Any], tail: str, standing: Sequence[tuple[str, str]]) -> list[str]:
    """The same of its tail, which is a block of its own and holds the `standing` texts. An answer that goes back as it is has none."""
    rows = body["messages"]
    out = [name for name, text in standing if text not in tail]
    if tail and rows and rows[-1]["role"] != "assistant":
        told = (block.get("text") for row in reversed(rows) if row["role"] != "assistant" for block in row["content"])
        out += [] if tail in told else ["tail"]
    return out


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _sorted(value[k]) for k in sorted(value)}
    return [_sorted(v) for v in value] if isinstance(value, list | tuple) else value


def _dumped(value: Any) -> str:
    # json.dumps without importing a formatter at each call: the count only needs the text that the model will read.
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{k}": {_dumped(value[k])}' for k in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_dumped(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a request is sent to this model.

    Attributes:
        model: its id, pinned in the settings.
        tail_as_system: the tail travels as a system message at the very end.
        thinking_off: `thinking` must be disabled by name.
        cache: whether cache marks are sent at all.
        structured: an answer can be held to a JSON schema.
    """

    model: str
    tail_as_system: bool = False
    thinking_off: bool = False
    cache: bool = True
    structured: bool = False


def request(
    shape: Shape,
    fixed: Fixed,
    record: Block | None,
    messages: Sequence[Message],
    *,
    max_tokens: int,
    tail: str = "",
    warm: int = 0,
    mark_end: bool = True,
) -> dict[str, Any]:
    """The body of a Messages API call.

    `warm` is the number of history blocks (record included) that the previous request ended with: one mark stays there, so that the
    prefix is found however many blocks are new (the provider looks back 20 positions only). `mark_end` is off where the next request
    is known not to extend this one: what will not be read again is not worth the price of writing it.
    """
    system: list[dict[str, Any]] = [{"type": "text", "text": text} for text in fixed.system]
    rows: list[dict[str, Any]] = []
    flat: list[tuple[int, int]] = []  # position of each history block: (row, index)
    first = [record] if record else []
    for role, blocks in [("user", first), *((m.role, m.blocks) for m in messages)]:
        if not blocks:
            continue
        if not rows or rows[-1]["role"] != role:
            rows.append({"role": role, "content": []})
        for block in blocks:
            rows[-1]["content"].append(dict(block.data))
            flat.append((len(rows) - 1, len(rows[-1]["content"]) - 1))
    if shape.cache:
        # Two marks on the system part however many texts it has: together with two in the history that is all the provider allows.
        for n in sorted({0, len(system) - 1}) if system else ():
            system[n]["cache_control"] = dict(MARK)
        ends = [len(flat)] if mark_end else []
        if 0 < warm <= len(flat):
            ends.append(warm)
        for end in ends:
            _mark(rows, flat[:end])
    if tail and shape.tail_as_system and rows and rows[-1]["role"] == "user":  # a paused answer is sent back as it is
        rows.append({"role": "system", "content": [{"type": "text", "text": tail}]})
    body: dict[str, Any] = {"model": shape.model, "max_tokens": max_tokens, "system": system, "messages": rows}
    if fixed.tools:
        body["tools"] = [dict(t) for t in fixed.tools]
    if shape.thinking_off:
        body["thinking"] = {"type": "disabled"}
    return body


def _mark(rows: list[dict[str, Any]], flat: Sequence[tuple[int, int]]) -> None:
    """Put a cache mark on the last of these blocks that can carry one (thinking cannot)."""
    for row, index in reversed(flat):
        block = rows[row]["content"][index]
        if block["type"] not in ("thinking", "redacted_thinking"):
            block["cache_control"] = dict(MARK)
            return
