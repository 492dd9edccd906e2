"""The one door to a model: a request body in, an `Answer` or a `Failure` out.

Invariant: `call` raises nothing but cancellation, ends within its time, and leaves no stream open. The SDK sends and authenticates; when to
try again, what a stream means and what an error is are decided here, because its own answers to these park a call, lose half an answer or
raise from below the SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast
from urllib.parse import urlsplit

import anthropic
import httpx2

from runtime.core.values import Failure, Fault, Outcome
from runtime.model import outcomes
from runtime.model.incoming import LARGEST_ANSWER, EventBytes, GarbledError, Incoming, mend
from runtime.model.retry import Policy, persist

#: Sent where an endpoint wants no key; an empty one would make the SDK look for a real one in the environment and send that.
_NO_KEY = "none"
#: How long a stream may stay open after its last event, for the connection's sake, in seconds.
_DRAIN_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds: to connect; without a byte from the endpoint (the wait for the first one included); for one try in all."""

    connect_s: float = 10.0
    silence_s: float = 90.0
    total_s: float = 600.0


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust, read once a process: 60 ms for each client otherwise."""
    return httpx2.create_ssl_context()


class ModelClient:
    """Speaks to one endpoint of the Messages API. Made once and shared: it holds the connections and the TLS context.

    Args:
        api_key: the key, or None for an endpoint that wants none. Never read from anywhere else.
        base_url: the endpoint, or None for the provider's own.
        timeouts: of one try; None for the defaults.
        policy: of trying again; None for the defaults.
        clock: seconds, never going back.
        sleep: waits that many seconds between tries.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeouts: Timeouts | None = None,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._timeouts = timeouts = timeouts or Timeouts()
        self._policy = policy or Policy()
        self._clock = clock
        self._sleep = sleep
        self._closed = False
        self._secrets = (api_key,) if api_key else ()
        limits = httpx2.Timeout(timeouts.silence_s, connect=timeouts.connect_s)
        self._sdk = anthropic.AsyncAnthropic(
            api_key=api_key or _NO_KEY,
            base_url=base_url and base_url.rstrip("/").removesuffix("/v1"),  # the SDK puts it there; many servers print it in their address
            max_retries=0,
            timeout=limits,
            # A proxy of the environment is for the world outside; this very machine is not reached through it.
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=not is_loopback(base_url), timeout=limits, verify=_certificates()),
        )
        self._keyless = not api_key and (self._sdk.base_url.host == "anthropic.com" or self._sdk.base_url.host.endswith(".anthropic.com"))

    @property
    def base_url(self) -> str:
        """The endpoint, without whatever stood before an `@`."""
        return str(self._sdk.base_url.copy_with(userinfo=b""))

    async def call(self, body: Mapping[str, Any], *, deadline_s: float | None = None) -> Outcome:
        """Sends one request and reads its whole answer, trying again while the failure is transient.

        The outcome's `dollars` are those of all tries (a stream that was cut is billed too), its `usage` is that of the last.

        Args:
            body: the request as the API takes it, without `stream`; its order of keys is kept. Lone surrogates go out as U+FFFD.
            deadline_s: seconds for everything, tries and waits included; None leaves it to the policy and the time-outs.
        """
        asked = str(body.get("model") or "")
        known = outcomes.Call(model=asked, asked=asked, secrets=self._secrets)
        if self._closed:
            return outcomes.failed(Fault.LOCAL, "the model client is closed", known)
        if self._keyless:
            return outcomes.failed(Fault.CREDENTIAL, "no API key was given for the provider's own endpoint", known)
        try:
            data = _encoded(body)
        except (TypeError, ValueError, RecursionError) as error:
            return outcomes.failed(Fault.LOCAL, f"the request is not JSON: {error}", known)
        start = self._clock()
        told: list[float] = []
        tries = 0

        async def attempt() -> Outcome:
            nonlocal tries
            tries += 1
            left = self._timeouts.total_s if deadline_s is None else min(self._timeouts.total_s, deadline_s - (self._clock() - start))
            outcome = await self._once(data, known, max(0.0, left))
            if outcome.dollars is not None:
                told.append(outcome.dollars)
            return outcome

        policy = self._policy if deadline_s is None else replace(self._policy, within_s=min(self._policy.within_s, deadline_s))
        outcome = await persist(attempt, policy, clock=self._clock, sleep=self._sleep)
        outcome = replace(outcome, dollars=sum(told) if told else None)
        return replace(outcome, tries=tries) if isinstance(outcome, Failure) else outcome

    async def close(self) -> None:
        """Closes all connections; a later `call` fails at once."""
        self._closed = True
        await self._sdk.close()

    async def _once(self, data: bytes, call: outcomes.Call, total_s: float) -> Outcome:
        incoming = Incoming(call.model)
        try:
            async with asyncio.timeout(total_s) as whole:
                # `cast_to` makes the SDK hand over the response itself; it has raised by then if the status was an error.
                sent = self._sdk.post(
                    "/v1/messages", content=data, cast_to=httpx2.Response, stream=True, stream_cls=anthropic.AsyncStream[Any],
                )  # fmt: skip
                response = cast("httpx2.Response", await sent)
                try:
                    call = replace(call, request_id=response.headers.get("request-id", ""))
                    await _read(response, incoming)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            call = _known(call, incoming)
            if whole.expired():
                return outcomes.failed(Fault.TRANSIENT, f"no whole answer within {total_s:.3g} s", call)
            return outcomes.raised(error, call)
        except Exception as error:  # noqa: BLE001 - the border: whatever the libraries below raise, the session above lives on
            return outcomes.raised(error, _known(call, incoming))
        call = _known(call, incoming)
        if incoming.error is not None:
            return outcomes.refused(200, incoming.error, response.headers, call)
        if not incoming.ended:
            return outcomes.failed(Fault.TRANSIENT, "the stream ended before the answer did", call)
        try:
            content = incoming.content()
        except GarbledError as error:
            return outcomes.failed(Fault.STOPPED, f"the answer makes no sense: {error}", call)
        return outcomes.stopped(incoming.stop_reason, content, call, details=incoming.stop_details)


async def _read(response: httpx2.Response, incoming: Incoming) -> None:
    """Reads a response to its end, or to the event that ends it."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind == "application/json":  # an endpoint, or something before it, that does not stream
        whole = bytearray()
        async for chunk in response.aiter_bytes():
            whole += chunk
            if len(whole) > LARGEST_ANSWER:
                raise GarbledError(f"the answer went on beyond {LARGEST_ANSWER} bytes")
        incoming.whole(json.loads(whole))
        return
    if kind.startswith("text/html"):
        raise GarbledError("a web page came instead of an answer")
    events = EventBytes()
    async with contextlib.aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            for data in events.feed(chunk):
                if data != "[DONE]":  # some servers that also speak OpenAI's protocol end with it
                    incoming.take(json.loads(data))
            if incoming.ended or incoming.error is not None:
                break
        if incoming.ended:
            # Read to its very end the connection can be used again. What goes wrong from here on takes nothing from a whole answer.
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                async with asyncio.timeout(_DRAIN_S):
                    async for _ in chunks:
                        pass


def _known(call: outcomes.Call, incoming: Incoming) -> outcomes.Call:
    call = replace(call, model=incoming.model)
    return call if incoming.usage is None else call.used(incoming.usage)


def _encoded(body: Mapping[str, Any]) -> bytes:
    text = json.dumps({**body, "stream": True}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return mend(text).encode()


def is_loopback(base_url: str | None) -> bool:
    """Whether an endpoint is on this machine; what goes there needs no proxy."""
    host = (urlsplit(base_url).hostname if base_url else None) or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
