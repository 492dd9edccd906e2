"""Profiles and prices against the published table (rows C12, C33, O5)."""

from __future__ import annotations

import pytest

from runtime.core.values import Usage
from runtime.model.prices import dollars
from runtime.model.profiles import profile

# id, $/MTok in and out, share of the input price that a cache read costs, least cacheable prefix
TABLE = [
    ("claude-fable-5-2", 8, 40, 0.025, 512),
    ("claude-fable-5-1", 10, 50, 0.025, 512),
    ("claude-fable-5", 10, 50, 0.1, 512),
    ("claude-opus-5-5", 4, 20, 0.05, 512),
    ("claude-opus-5", 5, 25, 0.1, 512),
    ("claude-opus-4-8", 5, 25, 0.1, 1024),
    ("claude-opus-4-7", 5, 25, 0.1, 2048),
    ("claude-opus-4-6", 5, 25, 0.1, 4096),
    ("claude-sonnet-5-5", 2, 10, 0.05, 512),
    ("claude-sonnet-5", 2, 10, 0.1, 1024),
    ("claude-sonnet-4-6", 3, 15, 0.1, 1024),
    ("claude-haiku-5-5", 0.1, 0.5, 0.1, 512),
    ("claude-haiku-4-5", 1, 5, 0.1, 4096),
]


@pytest.mark.parametrize(("model", "spent", "written", "read", "least"), TABLE)
def test_the_published_table(model: str, spent: float, written: float, read: float, least: int) -> None:
    """C12: the library's prices and our facts are those of the provider's pages, for an id with and without a date."""
    for name in (model, f"{model}-20260901"):
        assert profile(name).min_cacheable == least
        assert profile(name).known
    assert dollars(model, Usage(input_tokens=50_000)) == pytest.approx(0.05 * spent)
    assert dollars(model, Usage(output_tokens=50_000)) == pytest.approx(0.05 * written)
    assert dollars(model, Usage(cache_read_tokens=50_000)) == pytest.approx(0.05 * spent * read)
    assert dollars(model, Usage(cache_write_tokens=50_000)) == pytest.approx(0.05 * spent * 1.25)
    assert dollars(model, Usage(cache_write_tokens=50_000), written_for_an_hour=50_000) == pytest.approx(0.05 * spent * 2)


def test_the_default_model_costs_five_times_as_much_above_its_step() -> None:
    """All tokens of the request, cached ones and output included."""
    step = profile("claude-haiku-5-5").dear_above
    assert step == 100_000
    assert dollars("claude-haiku-5-5", Usage(input_tokens=step)) == pytest.approx(0.01)
    dear = dollars("claude-haiku-5-5", Usage(input_tokens=1, cache_read_tokens=step, output_tokens=1000))
    assert dear == pytest.approx((1 * 0.5 + step * 0.05 + 1000 * 2.5) / 1e6)


def test_a_model_without_a_price_has_none() -> None:
    """O5: never zero, which would make a cap on dollars meaningless in silence."""
    assert dollars("qwen3:4b", Usage(input_tokens=1000)) is None


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("anthropic/claude-haiku-5-5", "claude-haiku-5-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("claude-opus-5@20260701", "claude-opus-5"),
        ("claude-sonnet-5-latest", "claude-sonnet-5"),
    ],
)
def test_other_forms_of_an_id(model: str, same_as: str) -> None:
    got, want = profile(model), profile(same_as)
    assert (got.known, got.context, got.min_cacheable, got.thinking) == (True, want.context, want.min_cacheable, want.thinking)


def test_the_neighbours_of_a_known_id_are_not_it() -> None:
    """A model younger than the table gets the cautious facts, not those of its older sister."""
    for model in ("claude-opus-5-7", "claude-haiku-6", "claude-sonnet-5-50", "qwen3:4b", "", "my-claude-haiku-5-5-finetune"):
        got = profile(model)
        assert not got.known, model
        assert got.model == model
        assert not got.system_in_messages
        assert got.thinking_off is None
        assert not got.forced_tool_choice


def test_thinking_is_turned_off_only_where_it_can_be() -> None:
    assert profile("claude-haiku-5-5").thinking_off == {"type": "disabled"}
    assert profile("claude-opus-4-8").thinking_off is None
    assert profile("claude-sonnet-5-5").thinking_off is None
    assert profile("claude-sonnet-5-5").thinking == "always"
