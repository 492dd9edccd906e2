"""The policy of trying again, on a clock of its own (row C8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from runtime.core.values import Answer, Failure, Fault, Outcome, Stop, Usage
from runtime.model.retry import Policy, persist

OVERLOADED = Failure(fault=Fault.TRANSIENT, message="overloaded")
GOOD = Answer(content=(), stop=Stop.END_TURN, usage=Usage())


class Days:
    """A clock that moves only while somebody sleeps, and a coin that falls on the far side."""

    def __init__(self, outcomes: Iterable[Outcome], *, each_s: float = 0.0) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.tries = 0
        self._outcomes = iter(outcomes)
        self._each_s = each_s

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def attempt(self) -> Outcome:
        self.tries += 1
        self.now += self._each_s
        return next(self._outcomes)

    async def persist(self, policy: Policy, *, share: float = 1.0) -> Outcome:
        return await persist(self.attempt, policy, clock=self.clock, sleep=self.sleep, draw=lambda low, high: low + share * (high - low))


def asked(seconds: float) -> Failure:
    return Failure(fault=Fault.TRANSIENT, message="slow down", retry_after_s=seconds)


async def test_waits_double_up_to_their_cap() -> None:
    days = Days([OVERLOADED] * 6 + [GOOD])
    assert await days.persist(Policy(tries=9, first_s=1.0, longest_s=6.0)) is GOOD
    assert days.slept == [1.0, 2.0, 4.0, 6.0, 6.0, 6.0]


async def test_jitter_is_full() -> None:
    """A wait is drawn between nothing and its cap: callers that failed together do not come back together."""
    days = Days([OVERLOADED, OVERLOADED, GOOD])
    await days.persist(Policy(first_s=1.0), share=0.0)
    assert days.slept == [0.0, 0.0]


async def test_tries_are_bounded_and_the_last_failure_goes_up() -> None:
    days = Days([OVERLOADED] * 9)
    assert await days.persist(Policy(tries=3)) is OVERLOADED
    assert days.tries == 3
    assert len(days.slept) == 2


async def test_time_is_bounded() -> None:
    """No wait is begun that would end beyond the limit."""
    days = Days([OVERLOADED] * 99, each_s=10.0)
    assert await days.persist(Policy(tries=99, within_s=35.0, first_s=1.0, longest_s=1.0)) is OVERLOADED
    assert days.tries == 4
    assert days.now <= 45.0


async def test_retry_after_is_honoured_with_jitter_on_top() -> None:
    days = Days([asked(5.0), GOOD])
    assert await days.persist(Policy(first_s=1.0)) is GOOD
    assert days.slept == [6.0]


async def test_a_server_cannot_park_a_call() -> None:
    """A longer wait than we have patience for goes up at once, told to the loop."""
    days = Days([asked(3600.0), GOOD])
    got = await days.persist(Policy(within_s=1e9))
    assert isinstance(got, Failure)
    assert got.retry_after_s == 3600.0
    assert days.slept == []


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.TRANSIENT])
async def test_no_other_failure_is_tried_again(fault: Fault) -> None:
    """C6, P11: the same request would fail the same way."""
    days = Days([Failure(fault=fault, message="no"), GOOD])
    got = await days.persist(Policy())
    assert isinstance(got, Failure)
    assert days.tries == 1


async def test_cancellation_goes_through() -> None:
    begun = asyncio.Event()

    async def never(_: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(persist(Days([OVERLOADED] * 2).attempt, Policy(), sleep=never))
    await asyncio.wait_for(begun.wait(), 5.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
