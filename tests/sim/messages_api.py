"""What the tests of the Messages API stand-in share: a model that says what it is told to, and the real SDK pointed at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from anthropic.types import Message

from sim.messages_api import MessagesAPI, Reply

MODEL = "claude-haiku-5-5"
SAY = {"name": "say", "description": "Say something aloud.", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}
LOOK = {"name": "look", "description": "Look around.", "input_schema": {"type": "object"}}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


class Says:
    """Gives the same answer to everything and remembers what it was asked."""

    def __init__(self, *content: Mapping[str, Any], stop_reason: str | None = None) -> None:
        self.content = content or (text("Good day."),)
        self.stop_reason = stop_reason
        self.asked: list[Mapping[str, Any]] = []

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """The same answer."""
        self.asked.append(request)
        return Reply(content=self.content, stop_reason=self.stop_reason)


def text(words: str, **more: Any) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words, **more}


def use(name: str = "say", *, id: str = "toolu_1", **arguments: Any) -> dict[str, Any]:  # noqa: A002  the API's word
    """A tool use."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(content: Any = "done", *, id: str = "toolu_1", **more: Any) -> dict[str, Any]:  # noqa: A002  the API's word
    """A tool result."""
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def user(*content: Any) -> dict[str, Any]:
    """A user message; a single string stays one."""
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}


def assistant(*content: Any) -> dict[str, Any]:
    """An assistant message; a single string stays one."""
    return {**user(*content), "role": "assistant"}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    """A request with these messages, valid if they are."""
    return {"model": MODEL, "max_tokens": 1000, "messages": list(messages or (user("Hello."),)), **more}


@asynccontextmanager
async def client_of(api: MessagesAPI, *, key: str = "key-of-a-test") -> AsyncIterator[AsyncAnthropic]:
    """The real SDK, without its own retries."""
    http = DefaultAsyncHttpxClient(verify=False)  # loopback without TLS; loading certificates is most of a client's start
    async with AsyncAnthropic(base_url=api.base_url, api_key=key, max_retries=0, timeout=30.0, http_client=http) as client:
        yield client


async def send(client: AsyncAnthropic, request: Any, *, version: str | None = None, path: str = "/v1/messages") -> Message:
    """Send a body as it is, valid or not, through the SDK."""
    headers = {} if version is None else {"anthropic-version": version}
    return await client.post(path, cast_to=Message, body=request, options={"headers": headers})


async def stream(client: AsyncAnthropic, request: Mapping[str, Any]) -> Message:
    """Ask for a stream and read it to its end."""
    async with client.messages.stream(**request) as events:
        return await events.get_final_message()


async def count(client: AsyncAnthropic, request: Mapping[str, Any]) -> int:
    """Ask for the input tokens of a request for a message."""
    counted: dict[str, Any] = {key: value for key, value in request.items() if key not in {"max_tokens", "stream"}}
    return (await client.messages.count_tokens(**counted)).input_tokens
