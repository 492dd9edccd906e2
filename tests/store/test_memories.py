"""What was heard is found by its rare words, in any script (rows T10, C12 of the cases, the plain memory of the loop)."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.store.journal import Journal
from runtime.store.memories import key_of, normal_form, terms_of

CHAT = (
    "does anyone have a spare rope?", "你好,这里有人吗?我想买一把剑。", "кто-нибудь видел волков на пустоши? там опасно!",
    "この村の鍵はどこにありますか?教えてください。", "هل يمكنك أن تعطيني مفتاح القبو؟", "क्या तुम मुझे रास्ता दिखा सकते हो?",
    "ㅋㅋㅋ 진짜 웃기다", "warden, how many wolves did you count?", "kannst du mir bitte helfen, ich hänge im Moor fest",
    "I swear I left my cloak in the counting room", "nobody told me the chapel floods at night 🌊", "Is the ferry running tonight?",
)  # fmt: skip
FACT = "warden, remember this: my sister's name is Ysolde, please look out for her."


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with await Journal.open(tmp_path / "session.db", memory_lines=1000) as journal:
        yield journal


def hear(journal: Journal, speaker: str, text: str, *, weight: int = 0) -> int:
    event = journal.append("heard", {"text": text})
    journal.remember(event=event, speaker=speaker, text=text, terms=" ".join(terms_of(text)), weight=weight)
    return event


# -- terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Do you still remember my sister's name?", ["still", "remember", "sister", "name"]),
        ("sisters, the sister’s SISTERS", ["sister"]),
        ("boxes of glass, cities, a bus", ["box", "glass", "city", "bus"]),
        ("Zoë, ZOE and Ｚｏｅ", ["zoe"]),
        ("says to you (ab12cd34ef): hi (really) (v2)", ["say", "hi", "really", "v2"]),
        ("我想买一把剑", ["我想", "想买", "买一", "一把", "把剑"]),
        ("剑", ["剑"]),
        ("村の鍵", ["村の", "の鍵"]),
        ("진짜 웃기다", ["진짜", "웃기", "기다"]),
        ("GPT模型v2", ["模型", "gpt", "v2"]),
        ("волков там", ["волков", "там"]),
        ("रास्ता दिखा", ["रास्ता", "दिखा"]),
        ("مفتاح القبو؟", ["مفتاح", "القبو"]),
        ("shop\x00gold", ["shop", "gold"]),
        ("😂 -- !?", []),
        ("", []),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


@given(st.text(st.characters(), max_size=200))
def test_terms_of_any_text_can_be_stored_in_one_string(text: str) -> None:
    """They are joined by spaces and read by FTS5's plainest tokenizer: no term may hold what it would split at."""
    terms = terms_of(text)
    assert " ".join(terms).split() == terms
    assert not set("".join(terms)) & set("\"'()*:^-+.,\x00 ")


def test_the_same_line_is_the_same_line() -> None:
    assert normal_form("GG  wp! (ab12cd34ef)") == normal_form("gg wp")
    assert key_of("Mira", "GG wp!") == key_of("Mira", "gg, wp") != key_of("Tobin", "gg wp")
    assert normal_form("I am the king") != normal_form("I am not the king")


# -- search


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Mira says to you: warden, do you still remember my sister's name?", FACT),
        ("who left a cloak?", "I swear I left my cloak in the counting room"),
        ("剑在哪里买?我想买剑", "你好,这里有人吗?我想买一把剑。"),
        ("鍵はどこ?", "この村の鍵はどこにありますか?教えてください。"),
        ("где видел волков", "кто-нибудь видел волков на пустоши? там опасно!"),
        ("أين مفتاح القبو", "هل يمكنك أن تعطيني مفتاح القبو؟"),
        ("रास्ता कहाँ है", "क्या तुम मुझे रास्ता दिखा सकते हो?"),
        ("웃기다", "ㅋㅋㅋ 진짜 웃기다"),
    ],
)
async def test_a_fact_is_found_among_chatter(journal: Journal, question: str, answer: str) -> None:
    said = random.Random(7)
    hear(journal, "Mira", FACT)
    for n in range(400):
        hear(journal, f"player {n % 16}", said.choice(CHAT))
    assert (await journal.search(terms_of(question), limit=3))[0].text == answer


async def test_a_rare_word_weighs_more_than_common_ones(journal: Journal) -> None:
    for n in range(50):
        hear(journal, f"p{n}", f"warden, look at the wolves by the gate, number {n}")
    event = hear(journal, "Mira", "the astrolabe is in the cellar")
    found = await journal.search(terms_of("warden, look at the wolves by the gate with the astrolabe"), limit=2)
    assert found[0].event == event
    assert found[0].score > found[1].score > 0


async def test_a_line_said_again_is_one_line_with_its_newest_time(journal: Journal) -> None:
    first = hear(journal, "Mira", "Is the ferry running?")
    other = hear(journal, "Tobin", "is the ferry running")
    again = hear(journal, "Mira", "is the FERRY running?!")
    found = await journal.search(["ferry"])
    assert [(memory.event, memory.speaker, memory.text) for memory in found] == [
        (again, "Mira", "is the FERRY running?!"),
        (other, "Tobin", "is the ferry running"),
    ]
    await journal.commit()
    assert [memory.event for memory in await journal.search(["ferry"], before=again)] == [other]
    assert first not in [memory.event for memory in found]


async def test_nothing_fits_nothing(journal: Journal) -> None:
    assert await journal.search(["anything"]) == []
    hear(journal, "Mira", FACT)
    assert await journal.search([]) == []
    assert await journal.search(["dragon"]) == []


@pytest.mark.parametrize("term", ['"', "a b", "sister OR name", "sister*", "NEAR(sister)", "terms:sister", "\x00", "'"])
async def test_no_term_is_a_query_language(journal: Journal, term: str) -> None:
    journal.remember(event=1, speaker="Mira", text=term, terms=f"{term} sister")
    hear(journal, "Mira", FACT)
    assert len(await journal.search([term, "ysolde"])) >= 1


async def test_a_memory_survives_a_restart_with_its_rarity(tmp_path: Path) -> None:
    for _ in range(2):
        async with await Journal.open(tmp_path / "session.db") as journal:
            for n, text in enumerate(CHAT):
                hear(journal, f"p{n}", text)
            hear(journal, "Mira", FACT)
            assert (await journal.search(terms_of("my sister's name")))[0].text == FACT
            assert len(await journal._database.rows("SELECT id FROM memories")) == len(CHAT) + 1


async def test_the_memory_is_bounded_and_the_oldest_of_least_weight_go(journal: Journal) -> None:
    """Flat for ever: 3,000 lines heard, at most 1,050 kept, the weighty ones all."""
    weighty = [hear(journal, "Mira", f"oath number {n} of mine", weight=1) for n in range(20)]
    hear(journal, "Mira", "oath number 19 of mine")  # said again in passing, it keeps its weight
    weighty[-1] = journal.last_id
    for n in range(3000):
        hear(journal, "crowd", f"chatter number {n}")
        if n % 100 == 0:
            await journal.commit()
    await journal.commit()
    kept = await journal._database.rows("SELECT event FROM memories ORDER BY event")
    assert len(kept) <= 1050
    events = [row[0] for row in kept]
    heard = [event.id for event in await journal.events(kinds=("heard",), after=events[20] - 1, limit=10_000)]
    assert events[:20] == weighty
    assert events[20:] == heard
    assert len(await journal.search(terms_of("oath"), limit=50)) == 20
    assert await journal.search(["number0"]) == []
    assert await journal._database.rows("SELECT count(*) FROM memory_terms WHERE memory_terms MATCH 'chatter'") == [(len(events) - 20,)]


async def test_a_search_among_thousands_is_quick(tmp_path: Path) -> None:
    """As a ratio to what the same machine needs to hear one line, because machines differ; about three milliseconds on a desk."""
    words, weights = [f"w{n}" for n in range(5000)], list(itertools.accumulate(1 / (n + 1) for n in range(5000)))
    said = random.Random(1)
    async with await Journal.open(tmp_path / "session.db") as journal:
        begun = time.process_time()
        for _ in range(4000):
            hear(journal, "crowd", " ".join(said.choices(words, cum_weights=weights, k=12)))
        await journal.commit()
        hearing = (time.process_time() - begun) / 4000
        queries = [terms_of(" ".join(said.choices(words, cum_weights=weights, k=40))) for _ in range(20)]
        begun = time.process_time()
        for query in queries:
            assert len(await journal.search(query)) == 8
        assert (time.process_time() - begun) / 20 < 60 * hearing
