"""One answer on its way in: bytes to events, events to content blocks.

Invariant: pure and synchronous; any cut of the bytes into chunks gives the same answer, and only an answer that is whole says so. The SDK's
own accumulation is not used, because it drops half-sent tool arguments in silence, raises on malformed ones, and returns an answer without
a stop reason when a stream ends early.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Never

#: A single answer larger than this (bytes of the stream) is not an answer.
LARGEST_ANSWER = 32 * 1024 * 1024


class GarbledError(ValueError):
    """What came is not the Messages API."""


class EventBytes:
    """Splits server-sent events into their data. `feed` takes any chunk; an event that its blank line did not end is not one."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of each event that this chunk completes. Bad UTF-8 becomes U+FFFD: one bad byte is not worth an answer."""
        self._size += len(chunk)
        if self._size > LARGEST_ANSWER:
            raise GarbledError(f"the stream went on beyond {LARGEST_ANSWER} bytes")
        lines = (self._rest + chunk).splitlines(keepends=True)
        self._rest = lines.pop() if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(text[5:].removeprefix(b" "))
            elif not text and self._data:
                data = b"\n".join(self._data)
                self._data.clear()
                yield data.decode("utf-8", "replace")


class Incoming:
    """Accumulates one message from its stream events, or takes a whole one.

    Attributes:
        ended: whether `message_stop` was seen.
        error: the body of an error event, once one came.
        stop_reason, stop_details: as the API names them.
        model: the id that answered; the one that was asked until then.
        usage: the newest figure of each kind, None before any came.
    """

    def __init__(self, model: str = "") -> None:
        self.ended = False
        self.error: Mapping[str, Any] | None = None
        self.stop_reason: object = None
        self.stop_details: object = None
        self.model = model
        self.usage: dict[str, Any] | None = None
        self._blocks: dict[int, _Block] = {}

    def take(self, event: object) -> None:
        """One decoded event. Unknown events and unknown deltas change nothing, as the API asks of its clients.

        Raises:
            GarbledError: it cannot be of this protocol.
        """
        if not isinstance(event, Mapping):
            _garbled("an event that is no object")
        match event.get("type"):
            case "message_start":
                self._message(event.get("message"))
            case "content_block_start":
                self._blocks[self._index(event)] = _Block(event.get("content_block"))
            case "content_block_delta":
                block = self._blocks.get(self._index(event))
                if block is None:
                    _garbled("a delta for a block that never began")
                block.add(event.get("delta"))
            case "message_delta":
                delta = event.get("delta")
                if isinstance(delta, Mapping):
                    self.stop_reason = delta.get("stop_reason") or self.stop_reason
                    self.stop_details = delta.get("stop_details") or self.stop_details
                self._count(event.get("usage"))
            case "message_stop":
                self.ended = True
            case "error":
                self.error = event

    def whole(self, message: object) -> None:
        """A message that came in one piece, from an endpoint that does not stream."""
        if isinstance(message, Mapping) and message.get("type") == "error":
            self.error = message
            return
        if not isinstance(message, Mapping) or not isinstance(message.get("content"), list):
            _garbled("the answer is no message")
        self._message(message)
        self.stop_reason, self.stop_details = message.get("stop_reason"), message.get("stop_details")
        self._blocks = {index: _Block(block) for index, block in enumerate(message["content"])}
        self.ended = True

    def content(self) -> list[dict[str, Any]]:
        """The blocks in their order, as the API would send them whole.

        Tool arguments that did not parse give `input: {}` and the raw text under `_invalid`; so does the last block's missing ones after
        `max_tokens`, where nobody can tell "none" from "cut before the first".
        """
        blocks = [self._blocks[index].finished() for index in sorted(self._blocks)]
        if self.stop_reason == "max_tokens" and blocks and blocks[-1].get("type") == "tool_use" and not blocks[-1]["input"]:
            blocks[-1].setdefault("_invalid", "")
        return blocks

    def _message(self, message: object) -> None:
        if isinstance(message, Mapping):
            self.model = str(message.get("model") or self.model)
            self._count(message.get("usage"))

    def _count(self, usage: object) -> None:
        if isinstance(usage, Mapping):
            self.usage = {**(self.usage or {}), **{name: figure for name, figure in usage.items() if figure is not None}}

    @staticmethod
    def _index(event: Mapping[str, Any]) -> int:
        index = event.get("index")
        return index if isinstance(index, int) else _garbled("a block without an index")


class _Block:
    """One content block; text and arguments are joined once, at the end, so that a pair of surrogates cut in two becomes whole."""

    def __init__(self, start: object) -> None:
        if not isinstance(start, Mapping) or not isinstance(start.get("type"), str):
            _garbled("a content block without a type")
        self._start = start
        self._parts: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def add(self, delta: object) -> None:
        if not isinstance(delta, Mapping):
            return
        for name in ("text", "partial_json", "thinking", "signature"):
            part = delta.get(name)
            if isinstance(part, str):
                self._parts.setdefault(name, []).append(part)
        if "citation" in delta:
            self._citations.append(delta["citation"])

    def finished(self) -> dict[str, Any]:
        block = {name: clean(value) for name, value in self._start.items() if value is not None}
        for name in ("text", "thinking", "signature"):
            if name in self._parts:
                block[name] = mend(str(block.get(name, "")) + "".join(self._parts[name]))
        if self._citations:
            block["citations"] = [*block.get("citations", ()), *clean(self._citations)]
        if block["type"] in {"tool_use", "server_tool_use"}:
            self._arguments(block)
        return block

    def _arguments(self, block: dict[str, Any]) -> None:
        if not (isinstance(block.get("id"), str) and block["id"] and isinstance(block.get("name"), str) and block["name"]):
            _garbled("a tool use without an id or a name")
        raw = "".join(self._parts.get("partial_json", ()))
        arguments = arguments_of(raw) if raw.strip() else block.get("input", {})
        if isinstance(arguments, dict):
            block["input"] = arguments
        else:
            block["input"] = {}
            if block["type"] == "tool_use":
                block["_invalid"] = mend(raw or json.dumps(arguments, ensure_ascii=False))


def arguments_of(raw: str) -> object:
    """The arguments that a model wrote as JSON, or None where they are no JSON that could be sent on (NaN, endless digits or depth)."""
    try:
        return clean(json.loads(raw, parse_constant=_garbled))
    except (ValueError, RecursionError):
        return None


def mend(text: str) -> str:
    """`text` as something that can be encoded: split surrogate pairs joined, lone surrogates U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean(value: Any) -> Any:
    """A JSON value with every string mended, keys too."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, Mapping):
        return {mend(str(name)): clean(item) for name, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


def _garbled(what: str) -> Never:
    raise GarbledError(what)
