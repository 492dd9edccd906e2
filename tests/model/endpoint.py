"""A Messages API endpoint that says exactly the bytes it is told to: every trap of a stream can be set with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self


class Act(Enum):
    """What can happen between two pieces of an answer."""

    CUT = auto()  # the connection is reset
    HOLD = auto()  # nothing more comes until the client goes away
    PING = auto()  # pings come for ever


Script = Sequence[bytes | Act]


@dataclass
class Request:
    """One request as it came."""

    head: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Endpoint:
    """Answers each request with the next of its scripts; the last one is repeated. Use as an async context manager."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.requests: list[Request] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        tasks = dict(self._tasks)
        for writer in tasks.values():
            writer.transport.abort()
        await asyncio.gather(*tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = writer
        self.connections += 1
        try:
            while await self._serve(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()
            del self._tasks[task]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if value}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(Request(first, body, headers))
        self.arrived.set()
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        for piece in script:
            match piece:
                case bytes():
                    writer.write(piece)
                    await writer.drain()
                case Act.CUT:
                    writer.transport.abort()
                    return False
                case Act.HOLD:
                    await reader.read()
                    self.left.set()
                    return False
                case Act.PING:
                    while not reader.at_eof():
                        writer.write(chunk(event("ping")))
                        await writer.drain()
                        await asyncio.wait({asyncio.ensure_future(reader.read(1))}, timeout=0.02)
        return True


def event(name: str, **fields: Any) -> bytes:
    """One server-sent event of the API."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def chunk(data: bytes) -> bytes:
    """`data` as one piece of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


END = chunk(b"")


def head(status: str = "200 OK", content_type: str = "text/event-stream", **headers: str) -> bytes:
    """The head of a chunked answer."""
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nrequest-id: req_1\r\ntransfer-encoding: chunked\r\n{extra}\r\n".encode()
    )


def stream(*events: bytes) -> list[bytes | Act]:
    """A whole streamed answer of these events, one piece each."""
    return [head(), *(chunk(data) for data in events), END]


def error(status: str, kind: str, message: str, *, details: Mapping[str, Any] | None = None, **headers: str) -> list[bytes | Act]:
    """A whole error answer."""
    body: dict[str, Any] = {"type": "error", "error": {"type": kind, "message": message}}
    if details:
        body["error"]["details"] = details
    return [head(status, "application/json", **headers), chunk(json.dumps(body).encode()), END]


def start(**usage: int) -> bytes:
    """`message_start`."""
    figures = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 50, "output_tokens": 1, **usage}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-5-5", "content": [], "usage": figures}
    return event("message_start", message=message)


def text(*parts: str, index: int = 0) -> list[bytes]:
    """A text block in these parts."""
    return [
        event("content_block_start", index=index, content_block={"type": "text", "text": ""}),
        *(event("content_block_delta", index=index, delta={"type": "text_delta", "text": part}) for part in parts),
        event("content_block_stop", index=index),
    ]


def tool(*parts: str, index: int = 0, name: str = "say", id: str = "toolu_1") -> list[bytes]:  # noqa: A002 - the API's word
    """A tool use block whose arguments come in these parts."""
    return [
        event("content_block_start", index=index, content_block={"type": "tool_use", "id": id, "name": name, "input": {}}),
        *(event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": part}) for part in parts),
        event("content_block_stop", index=index),
    ]


def stop(reason: str | None, *, output_tokens: int = 7, **delta: Any) -> list[bytes]:
    """`message_delta` and `message_stop`."""
    return [
        event("message_delta", delta={"stop_reason": reason, "stop_sequence": None, **delta}, usage={"output_tokens": output_tokens}),
        event("message_stop"),
    ]


def said(*parts: str) -> list[bytes | Act]:
    """A whole good answer of one text block."""
    return stream(start(), *text(*parts), *stop("end_turn"))
