"""The Messages API stand-in over HTTP, on loopback, inside the caller's event loop.

Invariant: this module decides nothing but how bytes travel; what is answered comes from `Endpoint`. A callback hears of every request
before its answer leaves, so that an oracle has judged a step before the client can act on it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sim.api.answers import EVENTS, JSON, Answer, dumps
from sim.api.decoding import MAX_BYTES, TOO_LARGE, decode
from sim.api.endpoint import Answered, Caller, Endpoint, Record, Refused
from sim.api.faults import OVERLOADED, Break, Dialect, FaultPlan
from sim.api.profiles import PROFILES, ModelProfile
from sim.api.replies import Brain, as_sse, events
from sim.api.validation import Refusal

_IDLE_S = 120  # a kept connection outlives the pauses of an idle client
_LEAVE_S = 5.0  # how long closing waits for answers under way
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class MessagesAPI:
    """`async with MessagesAPI(brain, 10_000) as api:` serves at `api.base_url` until the block ends.

    Args:
        brain: answers valid requests.
        window: context window of every model, in tokens; each model's own if None.
        profiles: the models that there are.
        faults: what goes wrong; may be replaced at any time by setting `faults`.
        plain: count in plain cl100k tokens, as a local model's server might.
        dialect: in whose words a prompt is too long.
        refused_keys: API keys that get 401.
        strict_roles: refuse an assistant message in first place, as some clouds do.
        clock: seconds; what the prompt cache and outages go by.
        on_request: hears of every request to `/v1/messages`.
        keep: how many records `records` holds, the newest; a record holds its whole body.
        port: of 127.0.0.1; 0 for any free one.

    If the brain or the callback raises, the request gets a 500, `failure` holds the first such error, and leaving the block raises it.
    """

    def __init__(
        self,
        brain: Brain,
        window: int | None = None,
        *,
        profiles: Mapping[str, ModelProfile] = PROFILES,
        faults: FaultPlan | None = None,
        plain: bool = False,
        dialect: Dialect = Dialect.ANTHROPIC,
        refused_keys: Collection[str] = (),
        strict_roles: bool = False,
        clock: Callable[[], float] = time.monotonic,
        on_request: Callable[[Record], None] | None = None,
        keep: int = 100,
        port: int = 0,
    ) -> None:
        self._endpoint = Endpoint(
            brain, window=window, profiles=profiles, faults=faults, plain=plain, dialect=dialect, refused_keys=refused_keys,
            strict_roles=strict_roles,
        )  # fmt: skip
        self.records: deque[Record] = deque(maxlen=keep)
        self.failure: Exception | None = None
        self._clock = clock
        self._on_request = on_request
        self._port = port
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._closing = asyncio.Event()

    @property
    def base_url(self) -> str:
        """Without a path, as the SDK wants it. Known once the block is entered."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def faults(self) -> FaultPlan:
        """What goes wrong from the next request on."""
        return self._endpoint.faults

    @faults.setter
    def faults(self, plan: FaultPlan) -> None:
        self._endpoint.faults = plan

    async def __aenter__(self) -> Self:
        # Only uvicorn's protocol is used: its Server would take over the process's signals and wake up ten times a second.
        config = uvicorn.Config(
            self._app(), http=H11Protocol, ws="none", lifespan="off", log_config=None, access_log=False, proxy_headers=False,
            timeout_keep_alive=_IDLE_S,
        )  # fmt: skip
        config.load()

        def protocol() -> asyncio.Protocol:
            return H11Protocol(config=config, server_state=self._state, app_state={})

        # By address: asyncio switches Nagle's algorithm off only on sockets that it made itself, and with it each answer waits 40 ms.
        self._server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", self._port)
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=_LEAVE_S)
        for connection in list(self._state.connections):
            connection.transport.close()
        if self.failure is not None and error is None:
            raise self.failure

    def _app(self) -> Starlette:
        ends = {
            "/v1/messages": (self._messages, "POST"),
            "/v1/messages/count_tokens": (self._count_tokens, "POST"),
            "/v1/models/{model}": (self._model, "GET"),
        }
        routes = [Route(path, _Handler(handle, self._endpoint.request_id), methods=[method]) for path, (handle, method) in ends.items()]
        return Starlette(routes=[*routes, Route("/{path:path}", _Handler(self._nowhere, self._endpoint.request_id), methods=_METHODS)])

    async def _messages(self, request: Request, answer: Answer) -> None:
        at, caller, raw = self._clock(), _caller(request), await _read(request)
        try:
            body = raw if isinstance(raw, Refusal) else decode(raw)
            outcome = self._endpoint.messages(body, caller, request_id=answer.request_id, at=at)
            self.records.append(outcome.record)
            if self._on_request is not None:
                self._on_request(outcome.record)
        except Exception as error:  # noqa: BLE001  a mistake in the brain or the oracle: the caller's block must hear of it, whatever it is
            self.failure = self.failure or error
            await answer.refuse(Refusal(status=500, error_type="api_error", message=f"the stand-in failed: {error!r}"[:300]))
            return
        if outcome.delay:
            await self._wait(outcome.delay)
        if isinstance(outcome, Refused):
            await answer.refuse(outcome.refusal, outcome.retry_after)
        else:
            self._endpoint.begin(outcome)
            await (self._stream if outcome.record.stream else self._whole)(outcome, answer)

    async def _count_tokens(self, request: Request, answer: Answer) -> None:
        caller, raw = _caller(request), await _read(request)
        body = raw if isinstance(raw, Refusal) else decode(raw)
        found = self._endpoint.count(body, caller)
        if isinstance(found, Refusal):
            await answer.refuse(found)
        else:
            await answer.json({"input_tokens": found})

    async def _model(self, request: Request, answer: Answer) -> None:
        found = self._endpoint.admit(_caller(request)) or self._endpoint.model(request.path_params["model"])
        if isinstance(found, Refusal):
            await answer.refuse(found)
            return
        await answer.json(
            {
                "id": found.model,
                "type": "model",
                "display_name": found.model.replace("-", " ").title(),
                "created_at": "1970-01-01T00:00:00Z",
                "lifecycle": "active",
                "max_input_tokens": found.window,
                "max_tokens": found.max_output,
            }
        )

    async def _nowhere(self, request: Request, answer: Answer) -> None:
        await answer.refuse(Refusal(status=404, error_type="not_found_error", message=f"Not found: {request.url.path}"))

    async def _whole(self, outcome: Answered, answer: Answer) -> None:
        """An answer in one piece."""
        broken, whole = outcome.broken, dumps(outcome.message)
        if broken is None:
            await answer.start(200, JSON, length=len(whole))
            await answer.body(whole, more=False)
        elif broken.how is Break.SILENT:
            await self._hang(answer)
        elif broken.how is Break.CUT:
            await answer.start(200, JSON, length=len(whole))
            await answer.body(whole[: len(whole) // 2], more=True)
            await self._cut(answer)
        else:
            await answer.start(200, JSON, length=len(whole) // 2)
            await answer.body(whole[: len(whole) // 2], more=False)

    async def _stream(self, outcome: Answered, answer: Answer) -> None:
        """An answer in events."""
        sent = [as_sse(name, data) for name, data in events(outcome.output, outcome.message)]
        await answer.start(200, EVENTS)
        broken = outcome.broken
        if broken is None:
            await answer.in_uneven_parts(b"".join(sent), more=False)
            return
        sent = sent[: min(broken.after, len(sent) - 1)]
        await answer.in_uneven_parts(b"".join(sent), more=True)
        match broken.how:
            case Break.SILENT:
                await self._hang(answer)
            case Break.CUT | Break.TRUNCATED_BODY:
                await self._cut(answer)
            case Break.ERROR_EVENT:
                error = {"error": {"type": OVERLOADED.error_type, "message": OVERLOADED.message}, "request_id": answer.request_id}
                await answer.body(as_sse("error", error), more=False)
            case Break.CLEAN_END:
                await answer.body(b"", more=False)

    async def _hang(self, answer: Answer) -> None:
        """Say nothing until the client leaves or the server closes."""
        gone = asyncio.ensure_future(answer.gone())
        closing = asyncio.ensure_future(self._closing.wait())
        await asyncio.wait({gone, closing}, return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if not gone.done():
            self._disconnect(answer)
        await gone

    async def _cut(self, answer: Answer) -> None:
        """Close the connection under the client."""
        self._disconnect(answer)
        await answer.gone()

    def _disconnect(self, answer: Answer) -> None:
        for connection in list(self._state.connections):
            if isinstance(connection, H11Protocol) and connection.client == answer.client:
                connection.transport.close()

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return


class _Handler:
    """The end of a route, which gets the connection and not only a request: what a response object cannot do to it, a fault must."""

    def __init__(self, handle: Callable[[Request, Answer], Awaitable[None]], request_id: Callable[[], str]) -> None:
        self._handle = handle
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._handle(Request(scope, receive), Answer(scope, receive, send, request_id=self._request_id()))
        except ClientDisconnect:
            return  # gone before it had said what it wants


async def _read(request: Request) -> bytes | Refusal:
    """The body, unless it is larger than the API takes."""
    if int(request.headers.get("content-length") or 0) > MAX_BYTES:
        return TOO_LARGE
    return await request.body()


def _caller(request: Request) -> Caller:
    """Who asks. Where both headers are sent, the older one counts."""
    key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    return Caller(key=key or None, version=request.headers.get("anthropic-version"))
