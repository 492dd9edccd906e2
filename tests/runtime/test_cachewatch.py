"""C11, C12: cache use is verified, and the minimum cacheable length is known."""

from __future__ import annotations

from runtime.cachewatch import CacheWatch
from runtime.core.values import Usage

COLD = Usage(input_tokens=3_000, cache_write_tokens=2_000)
WARM = Usage(input_tokens=100, cache_read_tokens=4_900)
TINY = Usage(input_tokens=500)


def test_a_cache_that_is_never_read_raises_one_alarm() -> None:
    """One sentence for the operator, not one per call."""
    watch = CacheWatch(1_024)
    told = [watch.saw(10.0 * n, COLD) for n in range(20)]
    assert sum(map(bool, told)) == 1
    assert "prompt cache" in next(t for t in told if t)


def test_reads_short_prompts_and_long_pauses_are_no_alarm() -> None:
    """A cut moves the prefix once, an idle night lets entries die, a tiny prompt is never cached: none of it is a fault."""
    watch = CacheWatch(1_024)
    assert not any(watch.saw(10.0 * n, WARM if n % 2 else COLD) for n in range(50))
    quiet = CacheWatch(1_024)
    assert not any(quiet.saw(900.0 * n, COLD) for n in range(50))
    small = CacheWatch(1_024)
    assert not any(small.saw(10.0 * n, TINY) for n in range(50))


def test_a_read_arms_the_alarm_again() -> None:
    """A fault that comes back is told again."""
    watch = CacheWatch(1_024)
    usages = [COLD] * 6 + [WARM] + [COLD] * 6
    assert sum(bool(watch.saw(10.0 * n, u)) for n, u in enumerate(usages)) == 2
