"""Requests posted to an address of the operator, and decisions that come back in the answer.

Invariants: beside the loop, never in its way; an answer counts only if it is signed, fresh, and about just the request that was posted; no
other host is ever told anything (redirects are not followed); tried again with growing waits until it is taken or the request is over.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from npc.approvals.card import as_json
from npc.approvals.records import Decision
from npc.approvals.signing import MAX_BODY, Secret, word_of
from npc.approvals.stored import Stored, number_of

#: Seconds for one try, for its answer to come whole, between the first two tries at most, and between two later ones.
TIMEOUT_S = 10.0
FIRST_S, LONGEST_S = 0.5, 60.0
#: After so many tries in vain the operator hears of it, though they go on.
PATIENT_TRIES = 3
Sleep = Callable[[float], Awaitable[object]]
#: What the other side says for the moment only.
_LATER = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What came of posting a request.

    Attributes:
        taken: the other side has it.
        decision: what it answered at once, None for nothing.
        why: why it was not taken, or why its answer does not count.
        again: whether another try can help.
    """

    taken: bool
    decision: Decision | None = None
    why: str = ""
    again: bool = False


class Webhook:
    """Posts to one address. `sleep` waits between two tries."""

    def __init__(self, url: str, secret: Secret, *, clock: Callable[[], float] = time.time, sleep: Sleep = asyncio.sleep) -> None:
        self.host = urlsplit(url).hostname or ""
        self._url, self._secret, self._clock, self._sleep = url, secret, clock, sleep

    async def post(self, stored: Stored, *, slow: Callable[[str], None]) -> Posted:
        """Post a request until it is taken, refused for good, or lapses; `slow` hears why that takes long. Raises only when cancelled."""

        def over(state: RetryCallState) -> bool:
            return self._clock() + state.upcoming_sleep >= stored.lapses_at

        def last(state: RetryCallState) -> Posted:
            posted: Posted = state.outcome.result() if state.outcome else Posted(taken=False)
            return posted

        def told(state: RetryCallState) -> None:
            if state.attempt_number == PATIENT_TRIES:
                slow(last(state).why)

        async def sleep(seconds: float) -> None:
            await self._sleep(seconds)

        timeout = httpx2.Timeout(TIMEOUT_S)
        async with httpx2.AsyncClient(timeout=timeout, follow_redirects=False, headers={"user-agent": "perpetual-npc"}) as client:
            retrying = AsyncRetrying(
                sleep=sleep, wait=wait_random_exponential(multiplier=FIRST_S, max=LONGEST_S), stop=over,
                retry=retry_if_result(lambda posted: posted.again), before_sleep=told, retry_error_callback=last,
            )  # fmt: skip
            posted: Posted = await retrying(self._once, client, stored)
            return posted

    async def _once(self, client: httpx2.AsyncClient, stored: Stored) -> Posted:
        now = self._clock()
        body = json.dumps({"type": "approval.asked", "timestamp": now, "data": as_json(stored)}).encode()
        # The same id at every try, as the specification asks, so that whoever is told twice knows it.
        headers = self._secret.headers(body, id_=f"{stored.id}-{stored.digest[:32]}", now=now)
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                request = client.build_request("POST", self._url, content=body, headers={"content-type": "application/json", **headers})
                answer = await client.send(request, stream=True)
                try:
                    if not answer.is_success:
                        return _declined(answer.status_code)
                    text = await _whole(answer)
                finally:
                    await answer.aclose()
        except (httpx2.HTTPError, TimeoutError) as error:
            return Posted(taken=False, why=type(error).__name__, again=True)
        except httpx2.InvalidURL:
            return Posted(taken=False, why="the address is none")
        return self._answer(stored, answer, text)

    def _answer(self, stored: Stored, answer: httpx2.Response, body: bytes | None) -> Posted:
        if body is not None and not body.strip():
            return Posted(taken=True)  # it is answered later, or elsewhere
        if body is None:
            return Posted(taken=True, why="its answer is too long to be one")
        if "webhook-signature" not in answer.headers:
            said = word_of(body)
            return Posted(taken=True, why="" if isinstance(said, str) else "its answer is not signed")
        if why := self._secret.objection(answer.headers, body, now=self._clock()):
            return Posted(taken=True, why=f"its answer does not count: {why}")
        said = word_of(body)
        if isinstance(said, str):
            return Posted(taken=True, why=f"its answer does not count: {said}")
        if said.id != stored.id or said.digest != stored.digest:
            return Posted(taken=True, why="its answer does not count: it is about another request")
        decision = Decision(
            number=number_of(said.id) or 0, approve=said.decision == "approve", by="webhook", digest=said.digest, because=said.because,
            message=answer.headers["webhook-id"],
        )  # fmt: skip
        return Posted(taken=True, decision=decision)


def _declined(status: int) -> Posted:
    if 300 <= status < 400:
        return Posted(taken=False, why=f"it answers with a redirect ({status}), and requests go nowhere else: correct the address")
    return Posted(taken=False, why=f"it answers with status {status}", again=status >= 500 or status in _LATER)


async def _whole(answer: httpx2.Response) -> bytes | None:
    """The body, None where it is longer than any decision."""
    out = b""
    async for part in answer.aiter_bytes():
        out += part
        if len(out) > MAX_BODY:
            return None
    return out
