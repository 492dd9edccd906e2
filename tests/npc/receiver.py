"""Somebody's HTTP server that takes signed requests and answers what a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from npc.approvals.signing import Secret

TEXT = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="
SECRET = Secret.of(TEXT)


@dataclass(frozen=True)
class Came:
    """One request as it came in."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        """What it is about."""
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def signed(body: Mapping[str, Any], *, id_: str, now: float, secret: Secret = SECRET) -> Answer:
    """A signed answer."""
    data = json.dumps(body).encode()
    return Answer(body=data, headers=secret.headers(data, id_=id_, now=now))


class Receiver:
    """Use `async with`. `answers` decides what goes back; by default nothing but "taken"."""

    def __init__(self, answers: Callable[[Came], Answer] = lambda _: Answer(), *, changed: Callable[[], None] = lambda: None) -> None:
        self.answers, self._changed = answers, changed
        self.came: list[Came] = []
        self._server: asyncio.Server

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._one, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            came = Came(headers, await reader.readexactly(int(headers.get("content-length", "0"))))
            self.came.append(came)
            answer = self.answers(came)
            lines = [f"HTTP/1.1 {answer.status} X", f"content-length: {len(answer.body)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in answer.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
            await writer.drain()
        finally:
            writer.close()
            self._changed()
