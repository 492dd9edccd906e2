"""A request's body as the model gets it: a row of units in the order tools, system, messages, each with its tokens and its mark.

Invariant: two bodies give the same digests exactly if the model would read the same; where `cache_control` stands, whether content came
as a string or as a list of one text, and how a message was cut into neighbours of one role make no difference. The order of keys inside
a tool's schema and a tool use's arguments does make one, as it does on the real API.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import blake2b
from typing import Any

from sim.api.counting import TokenCounter
from sim.api.memo import Memo

# Tokens around the words themselves: a block's frame, a change of speaker, a tool's definition, and the instructions for tool use, which
# are longer when a tool is forced. The last two figures are published for Opus 5 and taken for all.
BLOCK, SPEAKER, TOOL, TOOL_USE, FORCED_TOOL_USE = 4, 3, 8, 286, 406
_IMAGE, _DOCUMENT = 1600, 2000


class Level(IntEnum):
    """Which part of the request a unit belongs to; a change in one part unseats the caches of the parts after it."""

    TOOLS = 0
    SYSTEM = 1
    MESSAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One position of the prompt: a tool, a system block or a content block.

    Attributes:
        level: the part it stands in.
        digest: of what the model reads here.
        tokens: its size.
        mark: seconds to live of the cache entry that ends here; 0 for no mark.
    """

    level: Level
    digest: bytes
    tokens: int
    mark: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A whole request. `settings` are, for each level, those parameters that change what the model reads there."""

    units: tuple[Unit, ...]
    settings: tuple[str, str, str]

    @property
    def tokens(self) -> int:
        """The request's input tokens."""
        return sum(unit.tokens for unit in self.units)

    def scaled(self, factor: float) -> Prompt:
        """The same prompt, counted by a tokenizer that finds `factor` times as many tokens."""
        return replace(self, units=tuple(replace(unit, tokens=math.ceil(unit.tokens * factor)) for unit in self.units))

    def chain(self, root: str, wanted: Collection[int]) -> dict[int, bytes]:
        """For each wanted position a digest of everything up to and including it, under the settings and a root (model, workspace)."""
        running = blake2b(_digest(root), digest_size=16)
        level, chain = -1, {}
        for at, unit in enumerate(self.units):
            while level < unit.level:
                level += 1
                running.update(_digest(self.settings[level]))
            running.update(unit.digest)
            if at in wanted:
                chain[at] = running.copy().digest()
        return chain

    @property
    def digest(self) -> bytes:
        """Of the whole prompt."""
        return blake2b(b"".join([unit.digest for unit in self.units]) + _digest(*self.settings), digest_size=16).digest()


class Renderer:
    """Lays out bodies for one tokenizer, remembering blocks: a request costs what is new in it.

    Args:
        counter: of tokens.
        remembered: blocks; at most twice as many are kept, about 400 bytes each.
    """

    __slots__ = ("_known", "counter")

    def __init__(self, counter: TokenCounter, *, remembered: int = 16_384) -> None:
        self.counter = counter
        self._known: Memo[bytes, Unit] = Memo(remembered)

    def render(self, body: Mapping[str, Any], *, thinking: str = "disabled", effort: str | None = None) -> Prompt:
        """Lay out a body that has passed validation.

        Args:
            body: the request.
            thinking: the type that the model takes if the request does not say.
            effort: the effort that the model takes if the request does not say.
        """
        units = [*self._tools(body), *self._system(body)]
        deferred = {tool["name"]: _definition(tool) for tool in body.get("tools") or () if tool.get("defer_loading")}
        speaker, images, markable = "", False, len(units) - 1
        for message in body.get("messages") or ():
            role = message["role"]
            for block in contents(message["content"]):
                unit = self._unit(role, block, opens=role != speaker, brings=[deferred[n] for n in referred(block) if n in deferred])
                speaker, kind = role, block["type"]
                images = images or kind == "image"
                if kind not in {"thinking", "redacted_thinking"}:
                    markable = len(units)
                units.append(unit)
        if (top := ttl(body)) and markable >= 0 and not units[markable].mark:
            units[markable] = replace(units[markable], mark=top)
        choice = (body.get("tool_choice") or {"type": "auto"}) if body.get("tools") else None
        said = body.get("thinking") or {"type": thinking}
        asked = (body.get("output_config") or {}).get("effort") or effort
        return Prompt(units=tuple(units), settings=("", str(body.get("speed") or ""), _exact([choice, said, asked, images])))

    def _tools(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        forced = (body.get("tool_choice") or {}).get("type") in {"any", "tool"}
        extra = FORCED_TOOL_USE if forced else TOOL_USE
        for tool in body.get("tools") or ():
            if tool.get("defer_loading"):
                continue  # not in the prompt until a search finds it
            text = _definition(tool)
            yield Unit(level=Level.TOOLS, digest=_digest(text), tokens=self.counter.count(text) + TOOL + extra, mark=ttl(tool))
            extra = 0

    def _system(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        for block in contents(body.get("system")):
            text = block["text"]
            yield Unit(level=Level.SYSTEM, digest=_digest(text), tokens=self.counter.count(text), mark=ttl(block))

    def _unit(self, role: str, block: Mapping[str, Any], *, opens: bool, brings: Sequence[str]) -> Unit:
        """`brings` are the definitions that stand in the prompt in place of the block's references, each time anew."""
        key = blake2b(f"{role}{opens}{block!r}{brings or ''}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._known.get(key)
        if known is None:
            inner = contents(block.get("content")) if block["type"] == "tool_result" else ()
            known = Unit(
                level=Level.MESSAGES,
                digest=_digest(role, *_read(block), *brings),
                tokens=block_tokens(block, self.counter) + BLOCK + (SPEAKER if opens else 0)
                + sum(self.counter.count(text) + TOOL for text in brings),
                mark=max([ttl(block), *(ttl(each) for each in inner)]),
            )
            self._known.put(key, known)
        return known


def speaker_digest(role: str, block: Mapping[str, Any]) -> bytes:
    """The digest of one content block, as it stands in a unit."""
    return _digest(role, *_read(block))


def referred(block: Mapping[str, Any]) -> list[str]:
    """Names of the tools that a block brings into the prompt: found by the provider's search or by one of the client's own."""
    if block.get("type") == "tool_search_tool_result":
        return [str(one.get("tool_name")) for one in block["content"].get("tool_references") or ()]
    if block.get("type") == "tool_result":
        return [str(one["tool_name"]) for one in contents(block.get("content")) if one.get("type") == "tool_reference"]
    return []


def _definition(tool: Mapping[str, Any]) -> str:
    return _exact({key: tool[key] for key in sorted(tool) if key not in {"cache_control", "defer_loading"}})


def contents(content: Any) -> list[Mapping[str, Any]]:
    """Content as a list of blocks, whichever of its forms was sent."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def ttl(holder: Mapping[str, Any]) -> int:
    """Seconds to live of the mark on a block, a tool or the request; 0 for no mark."""
    mark = holder.get("cache_control")
    if not mark:
        return 0
    return 3600 if mark.get("ttl") == "1h" else 300


def block_tokens(block: Mapping[str, Any], counter: TokenCounter) -> int:
    """Tokens of one content block without the frame around it."""
    match block.get("type"):
        case "image":
            return _IMAGE
        case "document":
            return _DOCUMENT
        case "tool_result":
            return sum(block_tokens(inner, counter) for inner in contents(block.get("content")))
        case _:
            return counter.count(" ".join(_words(block)))


def _read(block: Mapping[str, Any]) -> list[str]:
    """Everything about a block that the model reads, ids and flags included."""
    kind = str(block.get("type"))
    match kind:
        case "text":
            return [kind, block["text"], _exact(block.get("citations"))]
        case "tool_use" | "server_tool_use":
            return [kind, block["id"], block["name"], _exact(block["input"])]
        case "tool_result":
            inner = [_read(each) for each in contents(block.get("content"))]
            return [kind, block["tool_use_id"], str(bool(block.get("is_error"))), _exact(inner)]
        case "thinking":
            return [kind, block["thinking"], block.get("signature") or ""]
        case _:
            return [kind, _exact({key: block[key] for key in sorted(block) if key != "cache_control"})]


def _words(block: Mapping[str, Any]) -> list[str]:
    """The words of a block that are counted; its ids are part of the frame."""
    match block.get("type"):
        case "text":
            return [block["text"]]
        case "tool_use" | "server_tool_use":
            return [block["name"], _exact(block["input"])]
        case "thinking":
            return [block["thinking"]]
        case _:
            return [_exact({key: block[key] for key in sorted(block) if key != "cache_control"})]


def _exact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _digest(*parts: str) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()
