"""What a call costs, in dollars.

Invariant: prices come from `genai-prices`' own offline data and from nowhere else; no network is used, and a model without a price has
None, never zero.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

from runtime.core.values import Usage


@cache
def library() -> ModuleType:
    """The prices. Reading them takes most of a second, so whoever has a loop to run asks for them in a thread before it matters."""
    import genai_prices  # noqa: PLC0415 - see above

    return genai_prices


def warm() -> None:
    """Read the prices, in a thread."""
    library()


def dollars(model: str, usage: Usage, *, written_for_an_hour: int = 0, provider: str = "anthropic") -> float | None:
    """Dollars of one call, or None where the model has no known price.

    Args:
        model: the id as it was sent or came back.
        usage: tokens of that one call. Not a sum over calls: `claude-haiku-5-5` bills five times as much above 100,000 input tokens.
        written_for_an_hour: how many of `usage.cache_write_tokens` went to the one-hour cache (2 times input instead of 1.25).
        provider: whose prices, by the library's id.
    """
    counted = library().Usage(
        input_tokens=usage.total_input,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=min(written_for_an_hour, usage.cache_write_tokens),
        output_tokens=usage.output_tokens,
    )
    try:
        price = library().calc_price(counted, model, provider_id=provider)
    except LookupError:
        return None
    return float(price.total_price)


def of_output(model: str, tokens: int) -> float | None:
    """Dollars of so many output tokens, or None where the model has no known price."""
    return dollars(model, Usage(output_tokens=tokens))
