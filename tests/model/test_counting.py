"""Counting is offline, exact where it can be, bounded in time for every text (rows P2, P9; what players type)."""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Never

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from runtime.model.counting import FIRST_FACTOR, Counter, estimate

PROSE = "Mira drops the rusty lantern near the old bridge, and the wolf watches her from the moor. "


@pytest.fixture(scope="module")
def counter() -> Counter:
    return Counter.load()


def test_the_vocabulary_ships_and_is_loaded_once(counter: Counter) -> None:
    assert counter.exact
    assert Counter.load() is counter


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("hello world", 2), ("tiktoken is great!", 6), ("お誕生日おめでとう", 9)])
def test_counts_are_those_of_cl100k(counter: Counter, text: str, tokens: int) -> None:
    assert counter.count(text) == tokens


def test_slices_do_not_change_the_count_of_prose(counter: Counter) -> None:
    assert counter.count(PROSE * 1000) == pytest.approx(1000 * (counter.count(PROSE * 2) - counter.count(PROSE)), abs=3)


ODD = [
    *("the", "Oda", "[budget]", "don't", "I'LL", "'s", "12", "1234", "$0.01", '"hp":[3,90],', "x" * 40, "snake_case", "民준"),
    *("Тихон", "é", "e\u0301", "😀"),
    *(".", "...", "-", "_", "\n", "\r\n", "\t", "  ", "\n    ", "\x1f", "\x85", "\xa0", "\u2028", "\u3000", "\u200b", "\x00", "٣", "²"),
]


@given(st.lists(st.sampled_from([*ODD, " ", " ", " "]), max_size=30).map("".join))
def test_counting_by_words_is_the_same_as_counting_the_whole(text: str) -> None:
    """P2: what was counted before is not encoded again, and no count changes by that."""
    counter = Counter.load()
    assert counter._encode is not None
    if not any(character * 32 in text for character in text):
        assert counter.count(text) == len(counter._encode(text))


def test_words_that_were_met_are_not_encoded_again(counter: Counter) -> None:
    asked: list[str] = []

    def encode(text: str) -> Sequence[int]:
        asked.append(text)
        assert counter._encode is not None
        return counter._encode(text)

    fresh = Counter(encode)
    fresh.count("Mira drops the lantern near the bridge")
    asked.clear()
    assert fresh.count("Mira drops near the bridge the old lantern") == counter.count("Mira drops near the bridge the old lantern")
    assert asked == [" old"]
    for number in range(12_000):
        fresh.count(f"the {number} of {number}a and")
    assert fresh._met is not None
    assert len(fresh._met._words) <= 20_000


@pytest.mark.parametrize("character", ["a", " ", "\n", "-", "=", "\t"])
@pytest.mark.parametrize("length", [32, 1000, 1_000_000])
def test_a_run_of_one_character_is_about_one_provider_token_each(counter: Counter, character: str, length: int) -> None:
    """P9: cl100k makes one token of 8 letters or 111 spaces, the provider does not; a window must not burst on a wall of dashes."""
    assert counter.count(character * length) * FIRST_FACTOR == pytest.approx(length, rel=0.1)
    inside = f"Look: {character * length} that was it"
    assert counter.count(inside) - counter.count("Look: that was it") == pytest.approx(counter.count(character * length), abs=3)


@pytest.mark.parametrize("character", ["😂", "小", "\x00"])
def test_a_run_of_what_costs_more_than_one_token_each_costs_it(counter: Counter, character: str) -> None:
    assert counter.count(character * 1000) >= 1000


def test_a_run_is_found_wherever_it_stands(counter: Counter) -> None:
    counts = {counter.count("xy" * (offset // 2) + "z" * (offset % 2) + "a" * 40) - offset // 2 for offset in range(32)}
    assert max(counts) - min(counts) <= 3


def test_an_end_mark_of_the_tokenizer_is_text(counter: Counter) -> None:
    assert counter.count("<|endoftext|>") > 1


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "nul\x00inside", "\x00" * 5, "👩‍👩‍👧‍👦🏴‍☠️", "नमस्ते", "\u202e\u2066", "\U0010ffff"])
def test_odd_text_has_a_count(counter: Counter, text: str) -> None:
    assert counter.count(text) >= 1


@given(st.text(st.characters(), max_size=300))
def test_every_text_has_a_count_both_ways(text: str) -> None:
    for counter in (Counter.load(), Counter(None)):
        assert (counter.count(text) == 0) == (text == "")


@pytest.mark.parametrize(
    "text",
    ["a" * 10**6, " " * 10**6, "ab" * 500_000, "\n" * 10**6, "é" * 10**6, " \n" * 500_000, "<|endoftext|>" * 77_000, "12" * 500_000],
    ids=["a", "space", "ab", "newline", "é", "space newline", "end mark", "digits"],
)
def test_a_megabyte_of_anything_takes_about_as_long_as_english(counter: Counter, text: str) -> None:
    """What a player pastes cannot stop the world: a ratio, because machines differ."""
    if not _ENGLISH_S:
        # As the encoder takes it: words that were met before would cost nothing.
        assert counter._encode is not None
        english = PROSE * (4096 // len(PROSE))
        for _ in range(3):
            begun = time.process_time()
            for _ in range(10**6 // len(english)):
                counter._encode(english)
            _ENGLISH_S.append(time.process_time() - begun)
    assert seconds(counter, text) < 8 * min(_ENGLISH_S)


_ENGLISH_S: list[float] = []


def seconds(counter: Counter, text: str) -> float:
    """Of CPU, for counting a text that was not counted before."""
    fresh = Counter(counter._encode)
    begun = time.process_time()
    fresh.count(text)
    return time.process_time() - begun


def test_a_count_is_remembered_and_the_memory_is_bounded() -> None:
    asked: list[str] = []

    def encode(text: str) -> Sequence[int]:
        asked.append(text)
        return [0]

    counter = Counter(encode)
    assert counter.count("hello") == counter.count("hello") == 1
    assert asked == ["hello"]
    for number in range(3000):
        counter.count(f"{number} " * 300)
    assert counter._cached_chars <= 2_000_000
    assert len(counter._cache) <= 4096


def test_a_panic_of_the_encoder_is_an_estimate_and_not_the_end() -> None:
    """The encoder's Rust side panics with a BaseException."""

    class PanicException(BaseException):
        """By the name that pyo3 gives it."""

    def panics(_: str) -> Never:
        raise PanicException("regex gave up")

    assert Counter(panics).count(PROSE) == estimate(PROSE)

    def interrupted(_: str) -> Never:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Counter(interrupted).count(PROSE)


@pytest.mark.parametrize("damage", ["missing", "empty", "not gzip", "cut", "other vocabulary"])
def test_without_a_sound_vocabulary_counts_are_estimates_with_one_warning(tmp_path: Path, damage: str) -> None:
    vocabulary = tmp_path / "vocabulary.gz"
    other = gzip.compress(b"IQ== 0\n" * 999)
    contents = {"empty": b"", "not gzip": b"hello", "cut": other[:-20], "other vocabulary": other}
    if damage in contents:
        vocabulary.write_bytes(contents[damage])
    with capture_logs() as logs:
        counters = [Counter.load(vocabulary) for _ in range(3)]
    assert [log["log_level"] for log in logs] == ["warning"]
    assert not any(counter.exact for counter in counters)
    assert counters[0].count(PROSE * 50) == pytest.approx(len(PROSE) * 50 / 4.2, rel=0.1)


def test_an_estimate_is_near_and_never_far_below(counter: Counter) -> None:
    samples = {
        "english": PROSE * 20,
        "json": '{"id":"3f9a01bc","kind":"wolf","hp":312,"pos":[-41.20,88.03],"target":"Mira","state":"guards"}' * 20,
        "chinese": "你好,这里有人吗?我想买一把剑。" * 20,
        "japanese": "この村の鍵はどこにありますか?教えてください。" * 20,
        "russian": "кто-нибудь видел волков на пустоши? там опасно!" * 20,
        "korean": "진짜 웃기다 열쇠가 어디에 있나요" * 20,
    }
    for name, text in samples.items():
        assert 0.75 < estimate(text) / counter.count(text) < 2.0, name


def test_an_estimate_gives_a_cjk_character_at_least_one_token() -> None:
    text = "我想买一把剑" * 50
    assert estimate(text) >= len(text)
    assert math.isclose(estimate("abcd" * 1100), 1000, rel_tol=0.01)
