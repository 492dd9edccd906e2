"""When a failed call is tried again, and when its failure goes up.

Invariant: bounded in tries and in time, whatever the endpoint says. Only transient failures are tried again, since every other one would
fail the same way; and none earlier than the endpoint asked. The loop above lives on after every outcome, so giving up here is cheap.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from runtime.core.values import Failure, Fault, Outcome

_LOG = structlog.get_logger("runtime.model.retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of one call, in seconds where not said otherwise.

    Attributes:
        tries: how often the request is sent at most.
        within_s: no further try begins later than this after the first.
        first_s: the wait before the second try is drawn between 0 and this; it doubles with every try.
        longest_s: the longest wait that is drawn.
        patience_s: the longest `Retry-After` that is waited for here. With a longer one the failure goes up at once, carrying it: waiting
            less than asked would only be refused again.
    """

    tries: int = 4
    within_s: float = 90.0
    first_s: float = 0.5
    longest_s: float = 20.0
    patience_s: float = 30.0


async def persist(
    attempt: Callable[[], Awaitable[Outcome]],
    policy: Policy,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    draw: Callable[[float, float], float] = random.uniform,
) -> Outcome:
    """Calls `attempt` until it gives an answer, a failure that trying again cannot cure, or the policy ends; gives the last outcome.

    Args:
        attempt: one try; it must not raise but for cancellation.
        policy: the limits.
        clock: seconds, never going back.
        sleep: waits that many seconds.
        draw: a number between the two given ones, for full jitter.
    """
    start = clock()

    def wait(state: RetryCallState) -> float:
        asked = _asked(state)
        drawn = draw(0.0, min(policy.longest_s, policy.first_s * 2.0 ** (state.attempt_number - 1)))
        return drawn if asked is None else asked + drawn  # many NPCs are told the same second: they must not come back as one

    def over(state: RetryCallState) -> bool:
        asked = _asked(state)
        return (
            state.attempt_number >= policy.tries
            or (asked is not None and asked > policy.patience_s)
            or clock() - start + state.upcoming_sleep > policy.within_s
        )

    def tell(state: RetryCallState) -> None:
        failure = _failure(state)
        why = failure.message if failure else ""
        _LOG.info("model call failed, trying again", why=why, tries=state.attempt_number, wait_s=round(state.upcoming_sleep, 3))

    retrying = AsyncRetrying(
        sleep=sleep, wait=wait, stop=over, retry=retry_if_result(_again), before_sleep=tell, retry_error_callback=_last,
    )  # fmt: skip
    outcome: Outcome = await retrying(attempt)
    return outcome


def _again(outcome: Outcome) -> bool:
    return isinstance(outcome, Failure) and outcome.fault is Fault.TRANSIENT


def _last(state: RetryCallState) -> Outcome:
    assert state.outcome is not None  # noqa: S101 - tenacity calls this only after an attempt
    outcome: Outcome = state.outcome.result()
    return outcome


def _failure(state: RetryCallState) -> Failure | None:
    outcome = _last(state)
    return outcome if isinstance(outcome, Failure) else None


def _asked(state: RetryCallState) -> float | None:
    failure = _failure(state)
    return failure.retry_after_s if failure else None
