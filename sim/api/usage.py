"""Tokens of one request as they are billed.

Invariant: what was read from the cache, what was written to it and the rest are disjoint and together the whole input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts; `input_tokens` are those that the cache had no part in."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0

    @property
    def cache_write_tokens(self) -> int:
        """Tokens written to the cache, whatever their time to live."""
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def total_input(self) -> int:
        """All input tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def with_output(self, tokens: int) -> Usage:
        """The same input with this many tokens of output."""
        return replace(self, output_tokens=tokens)

    def and_again(self, tokens: int, *, read: int) -> Usage:
        """The same request with its prompt read once more at `tokens`, of which `read` came from the cache."""
        return replace(self, input_tokens=self.input_tokens + tokens - read, cache_read_tokens=self.cache_read_tokens + read)

    def as_api(self) -> dict[str, Any]:
        """The `usage` object of an answer."""
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.cache_write_tokens,
            "cache_read_input_tokens": self.cache_read_tokens,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write_5m_tokens,
                "ephemeral_1h_input_tokens": self.cache_write_1h_tokens,
            },
            "output_tokens": self.output_tokens,
            "service_tier": "standard",
            "inference_geo": "not_available",
        }
