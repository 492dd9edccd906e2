"""The models that the stand-in offers: sizes, prices, and what each of them refuses.

Invariant: this table is written down here and derived from nothing of ours, so that a mistake in the product's own tables shows.
As documented in October 2026; prices in dollars per million tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from sim.api.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars per million tokens.

    Attributes:
        input: of input tokens that are neither read from nor written to the cache.
        output: of output tokens.
        read_share: what a cache read costs, as a share of `input`; writes cost 1.25 (five minutes) or 2 (one hour) times `input`.
        dear_above: input tokens, cached or not, above which every token of the request costs `dear_times` as much; None for never.
        dear_times: see `dear_above`.
    """

    input: float
    output: float
    read_share: float = 0.1
    dear_above: int | None = None
    dear_times: float = 1.0

    def dollars(self, usage: Usage) -> float:
        """What one request costs."""
        inputs = (
            usage.input_tokens
            + self.read_share * usage.cache_read_tokens
            + 1.25 * usage.cache_write_5m_tokens
            + 2.0 * usage.cache_write_1h_tokens
        )
        times = self.dear_times if self.dear_above is not None and usage.total_input > self.dear_above else 1.0
        return times * (self.input * inputs + self.output * usage.output_tokens) / 1_000_000


#: Ways to set `thinking`.
Thinking = Literal["adaptive", "between_tools", "enabled", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """Facts of one model.

    Attributes:
        model: its id; a dated id (`-20251001`) means the same model.
        window: input and output together, in tokens.
        max_output: the largest `max_tokens`.
        min_cacheable: tokens; a shorter prefix is silently not cached.
        thinking: the types of `thinking` that are taken; the first is what leaving it out means.
        effort: the default of `output_config.effort`; None where effort is refused.
        forced_tools: whether `tool_choice` may be `any` or `tool`.
        system_messages: whether `role: "system"` may stand inside `messages`.
        prefill: whether the last message may be the assistant's.
        sampling: whether API version 2023-06-01 takes temperature, top_p and top_k; no model does on 2026-10-21.
        binds_thinking: whether a thinking block is good only after exactly what it was written after.
        sums_output: whether input and `max_tokens` together must fit in the window (models before Sonnet 4.5).
        tokenizer: which of the two generations of tokenizers.
        tool_search: whether tools may be deferred and searched for; every model of this table knows that, those before it did not.
    """

    model: str
    price: Price
    window: int = 1_000_000
    max_output: int = 128_000
    min_cacheable: int = 512
    thinking: tuple[Thinking, ...] = ("adaptive",)
    effort: str | None = "high"
    forced_tools: bool = False
    system_messages: bool = True
    prefill: bool = False
    sampling: bool = False
    binds_thinking: bool = False
    sums_output: bool = False
    tokenizer: Literal["new", "old"] = "new"
    tool_search: bool = True


def _profiles() -> Mapping[str, ModelProfile]:
    opus_4 = Price(input=5, output=25)
    on: tuple[Thinking, ...] = ("adaptive", "disabled")
    off: tuple[Thinking, ...] = ("disabled", "adaptive")
    manual: tuple[Thinking, ...] = ("disabled", "enabled")
    both: tuple[Thinking, ...] = ("disabled", "adaptive", "enabled")
    table = (
        ModelProfile(model="claude-fable-5-2", price=Price(input=8, output=40, read_share=0.025), binds_thinking=True),
        ModelProfile(model="claude-fable-5-1", price=Price(input=10, output=50, read_share=0.025), binds_thinking=True),
        ModelProfile(model="claude-fable-5", price=Price(input=10, output=50), forced_tools=True),
        ModelProfile(model="claude-opus-5-5", price=Price(input=4, output=20, read_share=0.05), effort="medium", binds_thinking=True),
        ModelProfile(model="claude-opus-5", price=Price(input=5, output=25), thinking=on, forced_tools=True),
        ModelProfile(model="claude-opus-4-8", price=opus_4, min_cacheable=1024, thinking=off, forced_tools=True),
        ModelProfile(model="claude-opus-4-7", price=opus_4, min_cacheable=2048, thinking=off, forced_tools=True, system_messages=False),
        ModelProfile(
            model="claude-opus-4-6", price=opus_4, min_cacheable=4096, thinking=both, forced_tools=True, system_messages=False,
            sampling=True, tokenizer="old",
        ),
        ModelProfile(
            model="claude-sonnet-5-5", price=Price(input=2, output=10, read_share=0.05), thinking=("adaptive", "between_tools"),
            binds_thinking=True,
        ),
        ModelProfile(
            model="claude-sonnet-5", price=Price(input=2, output=10), min_cacheable=1024, thinking=on, forced_tools=True,
            system_messages=False,
        ),
        ModelProfile(
            model="claude-sonnet-4-6", price=Price(input=3, output=15), min_cacheable=1024, thinking=both, forced_tools=True,
            system_messages=False, sampling=True, tokenizer="old",
        ),
        ModelProfile(
            model="claude-sonnet-4-5", price=Price(input=3, output=15), window=200_000, max_output=64_000, min_cacheable=1024,
            thinking=manual, effort=None, forced_tools=True, system_messages=False, prefill=True, sampling=True, tokenizer="old",
        ),
        ModelProfile(
            model="claude-haiku-5-5", price=Price(input=0.10, output=0.50, dear_above=100_000, dear_times=5), thinking=on, effort="medium",
            forced_tools=True, binds_thinking=True,
        ),
        ModelProfile(
            model="claude-haiku-4-5", price=Price(input=1, output=5), window=200_000, max_output=64_000, min_cacheable=4096,
            thinking=manual, effort=None, forced_tools=True, system_messages=False, prefill=True, sampling=True, tokenizer="old",
        ),
    )  # fmt: skip
    return MappingProxyType({each.model: each for each in table})


PROFILES = _profiles()

_DATED = re.compile(r"-20\d{6}$")


def find(profiles: Mapping[str, ModelProfile], model: str) -> ModelProfile | None:
    """The profile of a model id, dated or not; None if there is no such model."""
    return profiles.get(model) or profiles.get(_DATED.sub("", model))
