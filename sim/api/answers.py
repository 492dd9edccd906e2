"""How an answer's bytes are put on a connection.

Invariant: every answer carries its request id; nothing here knows what it means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from sim.api.validation import Refusal

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"


class Answer:
    """The answer to one HTTP request.

    Attributes:
        request_id: sent as a header and in error bodies.
        client: address and port of the other end, which tell its connection among others.
    """

    __slots__ = ("_receive", "_send", "client", "request_id")

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, request_id: str) -> None:
        self.client = scope.get("client")
        self.request_id = request_id
        self._receive = receive
        self._send = send

    async def start(self, status: int, kind: str, *, length: int | None = None, headers: Mapping[str, str] | None = None) -> None:
        """Send the head. Without a length the body goes in chunks."""
        named = {"content-type": kind, "request-id": self.request_id, **(headers or {})}
        if length is not None:
            named["content-length"] = str(length)
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
            }
        )

    async def body(self, data: bytes, *, more: bool) -> None:
        """Send a part of the body, the last unless there is more."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def in_uneven_parts(self, data: bytes, *, more: bool) -> None:
        """Send a part of the body in three, cut where no event and perhaps no character ends."""
        first, second = len(data) // 3 + 1, 2 * len(data) // 3 + 2
        await self.body(data[:first], more=True)
        await self.body(data[first:second], more=True)
        await self.body(data[second:], more=more)

    async def json(self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        data = dumps(value)
        await self.start(status, JSON, length=len(data), headers=headers)
        await self.body(data, more=False)

    async def refuse(self, refusal: Refusal, retry_after: float | None = None) -> None:
        """Send an error answer."""
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        await self.json(refusal.as_api(self.request_id), status=refusal.status, headers=headers)

    async def gone(self) -> None:
        """Wait until the client has left or the connection is closed."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def dumps(value: Any) -> bytes:
    """JSON in UTF-8, as the API writes it; what cannot be encoded becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
