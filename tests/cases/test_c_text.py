"""Cases C: any text is text, counted without a network and never too low for long."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npc.cli import app
from runtime.model.counting import Counter, estimate
from sim.messages_api import FaultPlan, Inflated, Reply, Rule
from sim.reading import Reading
from tests.cases.door import failed, house, refused, turn
from tests.npc.small_world import words

COUNTS = """
import socket, sys, time
from pathlib import Path
def blocked(*_): raise OSError("no name service")
socket.getaddrinfo = socket.create_connection = blocked
from runtime.model.counting import Counter
begun = time.perf_counter()
vocabulary = Path(sys.argv[1]) if sys.argv[1] else None
counter = Counter.load(vocabulary)
for _ in range(50):
    print(counter.count("hello"), Counter.load(vocabulary) is counter)
print(time.perf_counter() - begun)
"""


@pytest.mark.parametrize("token", ["<|endoftext|>", "<|im_start|>system"])
async def test_c01_control_tokens_are_ordinary_words(tmp_path: Path, token: str) -> None:
    """C01, https://github.com/zts212653/clowder-ai/issues/591, W5: said by a player, written into the diary, remembered, and sent to the
    summariser, such a text does no harm.
    """
    async with house(tmp_path, window=8_000, compaction='summaries = "model"') as oda:
        oda.brain.script = lambda reading: Reply(content=[{"type": "text", "text": f"You said {token}."}]) if reading.round else None
        oda.brain.aside = lambda _: words(f"Somebody said {token} to me.")
        async with oda.life() as life:
            for n in range(12):
                await turn(life, f"Oda, {n}: my word is {token}, remember it {'and the price of flour ' * 60}")
            await turn(life, f"Oda, what was my word, {token}?")
            assert not failed(life)
        assert not refused(oda)
        assert any(token in page.read_text(encoding="utf-8") for page in (oda.home / "diary").iterdir() if page.is_file())


@pytest.mark.parametrize("vocabulary", ["", "nowhere.gz"])
def test_c04_without_a_network_and_a_cache_it_counts_at_once(tmp_path: Path, vocabulary: str) -> None:
    """C04, https://github.com/openai/tiktoken/issues/369: with the name service blocked and an empty cache it counts, by the vocabulary
    that is shipped or by an estimate after one warning, and does not try again at every count.
    """
    environment = {**os.environ, "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COUNTS, vocabulary and str(tmp_path / vocabulary)], env=environment, capture_output=True, text=True,
        timeout=60, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    *counts, seconds = [line for line in done.stdout.splitlines() if "[warning" not in line]
    assert len(counts) == 50
    assert all(line.endswith("True") and int(line.split()[0]) >= 1 for line in counts)
    assert float(seconds) < 5
    assert done.stdout.count("estimated from bytes") == (1 if vocabulary else 0)
    assert not list(tmp_path.iterdir())


async def test_c08_chinese_is_not_counted_as_english(tmp_path: Path) -> None:
    """C08, https://github.com/Martian-Engineering/lossless-claw/issues/250, P2: at least a token a character, by estimate too, English
    as before, and 20,000 characters in a window of 16,000 tokens are never refused.
    """
    assert estimate("你好世界" * 5_000) >= 20_000
    assert Counter(None).count("你好世界" * 5_000) >= 20_000
    english = "The miller keeps the key under the third stone. " * 100
    assert len(english) / 6 < estimate(english) < len(english) / 3
    async with house(tmp_path, window=16_000) as oda:
        async with oda.life() as life:
            for n in range(4):
                await turn(life, f"Oda, {n}: {'你好世界' * 1_250}")
            assert not failed(life)
        assert not refused(oda)


async def test_c12_a_zero_byte_hides_nothing_behind_it(tmp_path: Path) -> None:
    """C12, https://github.com/ginlix-ai/LangAlpha/pull/190, W5: what stands behind it is told, stored, found in memory and in the diary,
    and the session can be taken up.
    """

    def script(reading: Reading) -> Reply | None:
        if reading.round == 0 and "what did the sign say" in reading.news:
            return Reply(content=[{"type": "tool_use", "name": "npc_recall", "input": {"words": "gold lantern"}}])
        return None

    async with house(tmp_path) as oda:
        oda.brain.script = script
        oda.brain.aside = lambda _: words("The sign said shop\x00gold lantern.")
        async with oda.life() as life:
            await turn(life, "Oda, the sign says: shop\x00gold lantern.")
        async with oda.life() as life:
            await turn(life, "Oda, what did the sign say about a lantern?")
            assert not failed(life)
        assert not refused(oda)
        assert "gold lantern" in oda.requests()[0].news
        assert any("gold lantern" in text for reading in oda.requests() for text in reading.results)
    # The command runs a loop of its own.
    found = await asyncio.to_thread(CliRunner().invoke, app, ["diary", "search", "gold", "--home", str(oda.home), "--json"])
    assert "gold lantern" in found.stdout


async def test_c14_a_tokenizer_of_another_family_is_learned(tmp_path: Path) -> None:
    """C14, https://github.com/BerriAI/litellm/issues/37102, P11: the provider counts 1.8 times the stand-in's own figure; after the
    third turn nothing is rejected, also not in the next life.
    """
    async with house(tmp_path, window=9_000) as oda:
        oda.model.faults = FaultPlan([Rule(fault=Inflated(factor=1.8))])
        async with oda.life() as life:
            for n in range(3):
                await turn(life, f"Oda, {n}: {'a word about the price of flour ' * 40}")
            learned = len(refused(oda))
            for n in range(3, 15):
                await turn(life, f"Oda, {n}: {'a word about the price of flour ' * 60}")
        async with oda.life() as life:
            for n in range(15, 25):
                await turn(life, f"Oda, {n}: {'a word about the price of flour ' * 60}")
            assert not failed(life)
        assert len(refused(oda)) == learned
        assert learned <= 3
