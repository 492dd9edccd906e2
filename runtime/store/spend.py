"""What a day cost."""

from __future__ import annotations

from typing import NamedTuple


class Spend(NamedTuple):
    """Calls, tokens as the provider counted them, and dollars, added up. The order is that of the table's columns."""

    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    def plus(self, more: Spend) -> Spend:
        """Both together."""
        return Spend(
            calls=self.calls + more.calls,
            input_tokens=self.input_tokens + more.input_tokens,
            cache_read_tokens=self.cache_read_tokens + more.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + more.cache_write_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            dollars=self.dollars + more.dollars,
        )
