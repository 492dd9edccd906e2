"""Tokens as the stand-in counts them (S2, P2): stretched by script, remembered by block, never in the way."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.model.counting import Counter
from sim.api.counting import TokenCounter
from sim.api.memo import Memo
from sim.api.prompt import Renderer
from sim.messages_api import MessagesAPI
from tests.sim.messages_api import MARK, SAY, Says, assistant, body, client_of, count, result, send, text, use, user

ENGLISH = "The miller counted the sacks twice before the rain came down on the square. " * 20
TEXTS = {
    "english": (ENGLISH, 1.5, 1.65),
    "json": ('{"room": "market", "who": ["Ysolde", "Brand"], "exits": {"north": 3, "south": 4}}' * 20, 1.5, 1.7),
    "german": ("Der Müller zählte die Säcke zweimal, bevor der Regen über die Dächer kam. " * 20, 1.7, 1.9),
    "chinese": ("磨坊主在下雨之前又数了一遍麻袋，然后把门关上了。" * 20, 1.0, 1.25),
    "japanese": ("粉屋は雨が降る前に袋をもう一度数えた。そして扉を閉めた。" * 20, 1.0, 1.25),
    "russian": ("Мельник дважды пересчитал мешки, прежде чем пошёл дождь. " * 20, 0.95, 1.15),
    "hindi": ("बारिश आने से पहले चक्की वाले ने बोरियाँ दो बार गिनीं " * 20, 0.55, 0.8),
}


@pytest.mark.parametrize(("words", "least", "most"), TEXTS.values(), ids=TEXTS.keys())
def test_each_script_has_its_own_stretch(words: str, least: float, most: float) -> None:
    """S2, P11: so that no single factor is right for everything, as with the real tokenizer."""
    plain = TokenCounter("plain").count(words)
    assert plain == Counter.load().count(words)
    assert least <= TokenCounter("new").count(words) / plain <= most


@pytest.mark.parametrize("character", ["a", " ", "=", "\n"])
def test_a_long_run_costs_a_token_for_each_character(character: str) -> None:
    """S2, P11: where cl100k sees one token in eight of them or in a hundred."""
    run = character * 20_000
    assert TokenCounter("new").count(run) == 20_000
    assert TokenCounter("new").count(ENGLISH + run + ENGLISH) >= 20_000 + 2 * TokenCounter("new").count(ENGLISH) - 2


def test_the_older_tokenizer_finds_fewer() -> None:
    """S2: about 1.3 times fewer in English."""
    assert 1.2 < TokenCounter("new").count(ENGLISH) / TokenCounter("old").count(ENGLISH) < 1.4


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters() | st.sampled_from(["\ud83d", "\0", "é", "磨", "я"]), max_size=200))
def test_any_text_has_a_count_and_always_the_same(words: str) -> None:
    """S2: lone surrogates, NUL and all; nothing but the empty text is free."""
    first = TokenCounter("new", remembered=1)
    assert first.count(words) == TokenCounter("new").count(words) == first.count(words)
    assert (first.count(words) > 0) is (words != "")


class Ruler:
    """Counts characters in place of tokens, and how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, words: str) -> int:
        self.asked += 1
        return len(words)


def test_a_request_costs_what_is_new_in_it() -> None:
    """P2, S2: the tokenizer sees a text once, however often it comes and wherever a mark stands."""
    ruler = Ruler()
    renderer = Renderer(TokenCounter("plain", base=ruler))
    rest: dict[str, Any] = {"tools": [SAY], "system": "rule"}
    said = [user("a"), assistant(text("b"), use(text="c")), user(result("d"))]
    first = renderer.render(body(*said, **rest))
    asked = ruler.asked
    assert renderer.render(body(*said, **rest)) == first
    assert ruler.asked == asked
    more = renderer.render(body(*said, user(text("e", cache_control=MARK)), **rest))
    renderer.render(body(*said, user(text("e")), **rest))
    assert ruler.asked == asked + 1
    assert more.tokens > first.tokens


def test_memory_is_bounded_and_keeps_what_is_used() -> None:
    """S2: a flood of new texts does not grow the stand-in."""
    memo: Memo[int, int] = Memo(10)
    memo.put(-1, 7)
    for n in range(1000):
        memo.put(n, n)
        assert memo.get(-1) == 7
    assert len(memo) <= 20
    assert memo.get(3) is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=60).filter(str.strip), min_size=1, max_size=8))
def test_tokens_are_a_sum_over_blocks(words: list[str]) -> None:
    """P2, S2: a request's size is that of its parts, so that a client can keep it incrementally."""
    renderer = Renderer(TokenCounter("new"))
    alone = [renderer.render(body(user(text(each)))).tokens for each in words]
    together = renderer.render(body(user(*map(text, words)))).tokens
    assert together == sum(alone) - 3 * (len(words) - 1)  # one speaker for all


@pytest.mark.parametrize("plain", [False, True])
async def test_count_tokens_is_what_usage_says(*, plain: bool) -> None:
    """S2, P11: for every kind of block, whole and streamed; plain counts are those of cl100k."""
    request = body(
        user(text("磨坊主 " + ENGLISH)),
        assistant(text("I say so."), use(text="Grüß Gott, Müller")),
        user(result([text("heard"), text("by all")]), text("Go on.")),
        {"role": "system", "content": "Budget: 3 steps."},
        tools=[SAY],
        system=[text("Rule one."), text("Rule two.")],
        tool_choice={"type": "auto"},
    )
    async with MessagesAPI(Says(), 100_000, plain=plain) as api, client_of(api) as client:
        total = await count(client, request)
        answer = await send(client, request)
        assert answer.usage.input_tokens == total == api.records[-1].tokens
        words = await count(client, body(user(ENGLISH * 10)))
        assert words == math.ceil(Counter.load().count(ENGLISH * 10) * (1 if plain else 1.57)) + 7
