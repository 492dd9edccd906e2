"""A look at an endpoint before anyone lives on it: does it answer, does it take the key, does it know the model, what time has it.

Invariant: `probe` raises nothing but cancellation and ends within its time; of its requests one is a message, with the smallest answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2

from runtime.core.values import Failure
from runtime.model.client import ModelClient, Timeouts, is_loopback
from runtime.model.outcomes import one_line
from runtime.model.retry import Policy

#: Output tokens that the one message may have.
OUTPUT = 16
_CONNECT_S = 5.0
_SIDE_S = 8.0  # for each of what is asked besides; an endpoint that does not have it often does not answer it either
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What an endpoint showed.

    Attributes:
        base_url: where it is.
        failure: why the message was not answered, or None.
        model: the id in its answer.
        seconds: until the answer was whole.
        tokens: of the request that was given to be counted; None where the endpoint cannot count.
        window: the model's window as the endpoint tells it, in tokens; None where it does not.
        name: the model's own id as the endpoint tells it, "" where it does not; not the one that was asked for if that is an alias.
        lifecycle: `active`, `deprecated` or `retired`; "" where it does not tell.
        ahead_s: how far its clock is ahead of ours, in seconds; None where it tells no time.
        dollars: what the message cost; None where that is not known.
    """

    base_url: str
    failure: Failure | None = None
    model: str = ""
    seconds: float = 0.0
    tokens: int | None = None
    window: int | None = None
    name: str = ""
    lifecycle: str = ""
    ahead_s: float | None = None
    dollars: float | None = None


async def probe(
    *, api_key: str | None, base_url: str | None, model: str, thinking: Mapping[str, str] | None = None,
    counted: Mapping[str, Any] | None = None, within_s: float = 30.0, clock: Callable[[], float] = time.time,
) -> Probe:  # fmt: skip
    """Send one tiny message; once it is answered, ask for a count of the request `counted` and for the model's facts.

    Args:
        api_key: as for `ModelClient`.
        base_url: as for `ModelClient`.
        model: the id to be asked for.
        thinking: the `thinking` parameter, where the model must be told.
        counted: a request whose input tokens shall be counted, without its `max_tokens`.
        within_s: seconds for the message.
        clock: seconds since 1970.
    """
    timeouts = Timeouts(connect_s=_CONNECT_S, silence_s=within_s, total_s=within_s)
    client = ModelClient(api_key=api_key, base_url=base_url, timeouts=timeouts, policy=Policy(tries=1))
    body: dict[str, Any] = {"model": model, "max_tokens": OUTPUT, "messages": [{"role": "user", "content": "Say: yes"}]}
    if thinking:
        body["thinking"] = dict(thinking)
    try:
        start = time.monotonic()
        outcome = await client.call(body, deadline_s=within_s)
        seconds = time.monotonic() - start
        if isinstance(outcome, Failure):
            return Probe(base_url=client.base_url, failure=outcome, seconds=seconds, dollars=outcome.dollars)
        tokens = ahead = None
        # The same door again: what this asks is no message, so `call` does not know it.
        async with anthropic.AsyncAnthropic(
            api_key=api_key or "none", base_url=client.base_url, max_retries=0, timeout=_SIDE_S,
            http_client=anthropic.DefaultAsyncHttpxClient(trust_env=False, timeout=_SIDE_S) if is_loopback(client.base_url) else None,
        ) as sdk:  # fmt: skip
            facts, ahead = await _side(sdk.get(f"/v1/models/{quote(model, safe='')}", cast_to=httpx2.Response), clock)
            if counted is not None:
                told, later = await _side(sdk.post("/v1/messages/count_tokens", body=dict(counted), cast_to=httpx2.Response), clock)
                tokens, ahead = _figure(told.get("input_tokens")), later if ahead is None else ahead
        return Probe(
            base_url=client.base_url, model=outcome.model, seconds=seconds, tokens=tokens, ahead_s=ahead, dollars=outcome.dollars,
            window=_figure(facts.get("max_input_tokens")), name=_word(facts.get("id")), lifecycle=_word(facts.get("lifecycle")),
        )  # fmt: skip
    finally:
        await client.close()


async def _side(asked: Any, clock: Callable[[], float]) -> tuple[Mapping[str, Any], float | None]:
    """The JSON object of an answer and how far its `Date` is ahead of us; nothing of what the endpoint does not have."""
    before = clock()
    response: httpx2.Response | None
    try:
        async with asyncio.timeout(_SIDE_S):
            response = await asked
    except anthropic.APIStatusError as error:
        response = error.response
    except (anthropic.AnthropicError, httpx2.HTTPError, OSError, TimeoutError, ValueError):
        return {}, None
    ahead = _ahead(response.headers.get("date"), (before + clock()) / 2)
    if response.status_code != httpx2.codes.OK or len(response.content) > _MOST_BYTES:
        return {}, ahead
    try:
        data = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}, ahead
    return data if isinstance(data, dict) else {}, ahead


def _ahead(date: str | None, now: float) -> float | None:
    if not date:
        return None
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return None


def _word(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""


def _figure(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
