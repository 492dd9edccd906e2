"""The prompt cache and the bill (S2, C10, C11, C12): what is read, what is written, what it costs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core import values
from runtime.model import prices
from sim.messages_api import PROFILES, Answered, Caller, Endpoint, MessagesAPI, Price, Record, Usage
from tests.sim.messages_api import HOUR, LOOK, MARK, MODEL, SAY, Says, assistant, body, client_of, count, send, stream, text, user

RULES = "Never open the flood gate before the seal has been shown. " * 60  # more than the 512 tokens that are cached at least
ME = Caller(key="k")


class Till:
    """Sends bodies to an endpoint at chosen times and gives back what was billed."""

    def __init__(self, **options: Any) -> None:
        self.endpoint = Endpoint(Says(), **options)

    def pay(self, request: dict[str, Any], at: float = 0.0, *, caller: Caller = ME, begin: bool = True) -> Usage:
        """The usage of one request."""
        outcome = self.endpoint.messages(request, caller, request_id="req", at=at)
        assert isinstance(outcome, Answered), outcome
        if begin:
            self.endpoint.begin(outcome)
        return outcome.record.usage

    def size(self, request: dict[str, Any]) -> int:
        """Its input tokens."""
        counted = self.endpoint.count({key: value for key, value in request.items() if key != "max_tokens"}, ME)
        assert isinstance(counted, int)
        return counted


def chat(n: int, *, mark: bool = True, **more: Any) -> dict[str, Any]:
    """A conversation of n exchanges and one new line, marked at its end."""
    said = [line for k in range(n) for line in (user(f"Line {k}."), assistant(f"I heard line {k}."))]
    last = text("What now?", cache_control=MARK) if mark else text("What now?")
    return body(*said, user(last), **({"system": RULES} | more))


def test_the_second_request_reads_what_the_first_wrote() -> None:
    """C11: the growing conversation is read up to its old end, and only what is new is written."""
    till = Till()
    first = till.pay(chat(1))
    assert first == Usage(cache_write_5m_tokens=till.size(chat(1)), output_tokens=first.output_tokens)
    longer = chat(1)
    longer["messages"] += [assistant("I wait."), user(text("And now?", cache_control=MARK))]
    second = till.pay(longer, 1.0)
    assert second.cache_read_tokens == first.cache_write_5m_tokens
    assert (second.cache_write_5m_tokens, second.input_tokens) == (till.size(longer) - second.cache_read_tokens, 0)


def test_what_follows_the_last_mark_is_neither_read_nor_written() -> None:
    """C10: the volatile tail costs its plain price."""
    till = Till()
    request = chat(1)
    till.pay(request)
    tail = copy.deepcopy(request)
    tail["messages"].append({"role": "system", "content": "Budget: 5 steps."})
    usage = till.pay(tail, 1.0)
    assert usage.cache_read_tokens == till.size(request)
    assert usage.input_tokens == till.size(tail) - till.size(request) > 0
    assert usage.cache_write_tokens == 0


def test_without_a_mark_nothing_is_cached() -> None:
    """C11: the cache is asked for or it is not there."""
    till = Till()
    for _ in range(2):
        assert till.pay(chat(1, mark=False)).input_tokens == till.size(chat(1, mark=False))


@pytest.mark.parametrize(("words", "cached"), [(1, False), (40, False), (400, True)])
def test_too_short_a_prefix_is_silently_not_cached(words: int, cached: bool) -> None:
    """C12: 512 tokens on this model."""
    till = Till()
    request = body(user(text("lantern " * words, cache_control=MARK)))
    till.pay(request)
    usage = till.pay(request, 1.0)
    assert (usage.cache_read_tokens > 0) is cached is (till.size(request) >= 512)


def test_each_model_has_its_own_minimum() -> None:
    """C12: 4,096 tokens on haiku-4-5."""
    till = Till()
    request = chat(1, model="claude-haiku-4-5")
    till.pay(request)
    assert till.size(request) < 4096
    assert till.pay(request).cache_read_tokens == 0


@pytest.mark.parametrize(("apart", "read"), [(18, True), (19, True), (20, False)])
def test_the_walk_back_is_twenty_positions_long(apart: int, read: bool) -> None:
    """S2, C10: with the mark's own position among them; that is what the spare mark is for."""
    till = Till()
    old = [text("And again.") for _ in range(3)]
    till.pay(body(user(*old[:-1], {**old[-1], "cache_control": MARK}), system=RULES))
    new = [text(f"More of it, {n}.") for n in range(apart)]
    grown = body(user(*old, *new[:-1], {**new[-1], "cache_control": MARK}), system=RULES)
    usage = till.pay(grown, 1.0)
    assert (usage.cache_read_tokens > 0) is read
    if not read:  # a second mark, nearer to the old end, finds it
        till = Till()
        till.pay(body(user(*old[:-1], {**old[-1], "cache_control": MARK}), system=RULES))
        new[5] = {**new[5], "cache_control": MARK}
        assert till.pay(body(user(*old, *new[:-1], {**new[-1], "cache_control": MARK}), system=RULES)).cache_read_tokens > 0


def test_an_entry_lives_five_minutes_from_its_last_use() -> None:
    """S2: the time of a read counts, not only that of the write; the clock comes in from outside."""
    till = Till()
    request = chat(2)
    till.pay(request, 0.0)
    assert till.pay(request, 299.0).cache_read_tokens > 0
    assert till.pay(request, 598.0).cache_read_tokens > 0
    assert till.pay(request, 899.0).cache_read_tokens == 0
    assert till.pay(request, 1000.0).cache_read_tokens > 0


def test_a_shorter_prefix_lives_on_while_longer_ones_are_read() -> None:
    """S2: the marks that stand in a request keep their entries alive."""
    till = Till()
    fixed = [text(RULES, cache_control=MARK)]
    till.pay(chat(1, system=fixed), 0.0)
    till.pay(chat(1, system=fixed), 200.0)
    assert till.pay(body(user("Anew."), system=fixed), 450.0).cache_read_tokens > 512


def test_an_hour_lives_an_hour_and_is_billed_apart() -> None:
    """S2: writes split by time to live, both read alike."""
    till = Till()
    request = body(user(text("What now?", cache_control=MARK)), system=[text(RULES, cache_control=HOUR)])
    usage = till.pay(request, 0.0)
    assert usage.cache_write_1h_tokens == till.size(body(user("What now?"), system=RULES)) - usage.cache_write_5m_tokens
    assert usage.cache_write_5m_tokens > 0
    late = till.pay(request, 3000.0)
    assert (late.cache_read_tokens, late.cache_write_1h_tokens) == (usage.cache_write_1h_tokens, 0)
    assert till.pay(request, 3000.0 + 3601.0).cache_read_tokens == 0


def test_an_entry_is_there_once_its_answer_began() -> None:
    """S2: two requests at once both write."""
    till = Till()
    assert till.pay(chat(1), begin=False).cache_write_tokens == till.pay(chat(1)).cache_write_tokens > 0
    assert till.pay(chat(1)).cache_read_tokens > 0


def _with(**more: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda request: request | more


TWO_PARTS: dict[str, Any] = {"tools": [SAY, LOOK], "system": [text(RULES, cache_control=MARK)]}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (_with(), "all"),
        (_with(thinking={"type": "adaptive"}), "all"),
        (_with(output_config={"effort": "medium"}), "all"),
        (_with(tool_choice={"type": "auto"}), "all"),
        (_with(max_tokens=5), "all"),
        (_with(stream=True), "all"),
        (_with(system=[text(RULES, cache_control=MARK), text("x")]), "system"),
        (_with(thinking={"type": "disabled"}), "system"),
        (_with(output_config={"effort": "low"}), "system"),
        (_with(tool_choice={"type": "none"}), "system"),
        (lambda request: request | {"messages": [*request["messages"], user(IMAGE, text("c", cache_control=MARK))]}, "system"),
        (lambda request: request | {"messages": [user("Line zero."), *request["messages"][1:]]}, "system"),
        (_with(system=[text(RULES + "!", cache_control=MARK)]), "nothing"),
        (_with(tools=[LOOK, SAY]), "nothing"),
        (_with(tools=[{**SAY, "description": "Whisper."}, LOOK]), "nothing"),
        (_with(speed="fast"), "nothing"),
        (_with(model="claude-opus-5"), "nothing"),
    ],
    ids=[
        "same", "default thinking said", "default effort said", "default choice said", "another cap", "a stream", "more system", "thinking",
        "effort", "tool choice", "an image", "an early message", "system", "tool order", "a tool", "speed", "model",
    ],
)  # fmt: skip
def test_what_a_change_costs(change: Callable[[dict[str, Any]], dict[str, Any]], kept: str) -> None:
    """C13, S2: a change spoils its own part of the prompt and those after it, and nothing before it."""
    till = Till()
    request = chat(2, **TWO_PARTS)
    whole = till.pay(request).cache_write_tokens
    fixed = till.size(body(user("x"), **TWO_PARTS)) - till.size(body(user("x")))
    usage = till.pay(change(copy.deepcopy(request)), 1.0)
    assert usage.cache_read_tokens == {"all": whole, "system": fixed, "nothing": 0}[kept]


def test_where_marks_stand_and_how_content_is_written_changes_nothing() -> None:
    """C13: cache_control, a string or a list of one text, neighbours of one role: the same prompt."""
    till = Till()
    whole = till.pay(chat(2)).cache_write_tokens
    same = chat(2)
    same["system"] = [text(RULES, cache_control=MARK)]
    same["messages"][0] = user(text("Line 0.", cache_control=MARK))
    same["messages"][2:3] = [user(text("Line 1."))]
    assert till.pay(same).cache_read_tokens == whole
    automatic = chat(2, mark=False, cache_control=MARK)
    assert till.pay(automatic).cache_read_tokens == whole
    cut = body(user("a"), user(text("b", cache_control=MARK)), system=RULES)
    till.pay(cut)
    assert till.pay(body(user(text("a"), text("b", cache_control=MARK)), system=RULES)).cache_read_tokens == till.size(cut)


def test_workspaces_do_not_share() -> None:
    """S2: another key reads nothing."""
    till = Till()
    till.pay(chat(2))
    assert till.pay(chat(2), caller=Caller(key="another")).cache_read_tokens == 0


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[float, dict[str, Any]]]:
    """Requests over time that grow, are cut, are edited, and carry marks here and there."""
    blocks: list[dict[str, Any]] = []
    requests: list[tuple[float, dict[str, Any]]] = []
    now, fresh = 0.0, 0
    for _ in range(draw(st.integers(2, 12))):
        step = draw(st.sampled_from(["grow", "grow", "grow", "cut", "edit", "wait"]))
        if step == "cut":
            del blocks[: draw(st.integers(0, len(blocks)))]
        elif step == "edit" and blocks:
            blocks[draw(st.integers(0, len(blocks) - 1))] = text(f"Changed, {fresh}.")
        elif step == "wait":
            now += draw(st.sampled_from([10.0, 290.0, 310.0, 4000.0]))
        for _ in range(draw(st.integers(1, 9))):
            fresh += 1
            blocks.append(text(f"Line {fresh}. " + "The lantern swings. " * draw(st.integers(0, 40))))
        marked = draw(st.sets(st.integers(0, len(blocks) - 1), max_size=3))
        content = [{**block, "cache_control": MARK} if n in marked else block for n, block in enumerate(blocks)]
        system = [text(RULES, cache_control=draw(st.sampled_from([MARK, HOUR])))]
        requests.append((now, body(user(*content), system=draw(st.sampled_from([system, RULES])))))
        now += 1.0
    return requests


@settings(max_examples=30, deadline=None)
@given(conversations())
def test_nothing_is_read_that_was_not_written_and_every_token_is_billed_once(requests: list[tuple[float, dict[str, Any]]]) -> None:
    """C11, S2: read, write and the rest are the whole prompt; a read ends where an earlier request had a mark, within the hour."""
    till = Till()
    written: list[tuple[float, int, str]] = []  # when, how long, the prefix itself
    for at, request in requests:
        usage = till.pay(request, at)
        assert usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens == till.size(request)
        prefixes = _prefixes(till, request)
        if usage.cache_read_tokens:
            read = next(prefix for size, _, prefix in prefixes if size == usage.cache_read_tokens)
            assert any(prefix == read and at - then <= 3600 for then, _, prefix in written)
        written += [(at, size, prefix) for size, marked, prefix in prefixes if marked]


def _prefixes(till: Till, request: dict[str, Any]) -> list[tuple[int, bool, str]]:
    """Every prefix of a request by the plain way: its size as counted alone, whether it ends in a mark, and what is in it."""
    system = request["system"] if isinstance(request["system"], str) else request["system"][0]["text"]
    empty = till.size(body(user("x"), system=system)) - till.size(body(user("x")))
    found = [(empty, not isinstance(request["system"], str), system)]
    said = system
    for block in request["messages"][0]["content"]:
        said += "\0" + block["text"]
        alone = till.size(body(user(text(block["text"])))) - (3 if len(found) > 1 else 0)
        found.append((found[-1][0] + alone, "cache_control" in block, said))
    return found


def test_dollars_by_the_price_of_the_model() -> None:
    """C9: the figures of the price list, the step of haiku-5-5 at 100,000 tokens among them."""
    million = 1_000_000
    usage = Usage(
        input_tokens=million, cache_read_tokens=million, cache_write_5m_tokens=million, cache_write_1h_tokens=million, output_tokens=million
    )
    assert PROFILES["claude-sonnet-4-5"].price.dollars(usage) == pytest.approx(3 + 0.3 + 3.75 + 6 + 15)
    assert PROFILES["claude-opus-5-5"].price.dollars(usage) == pytest.approx(4 + 0.2 + 5 + 8 + 20)
    assert PROFILES["claude-fable-5-2"].price.dollars(usage) == pytest.approx(8 + 0.2 + 10 + 16 + 40)
    haiku = PROFILES[MODEL].price
    assert haiku.dollars(Usage(input_tokens=60_000, cache_read_tokens=40_000, output_tokens=1000)) == pytest.approx(0.0069)
    assert haiku.dollars(Usage(input_tokens=60_000, cache_read_tokens=40_001, output_tokens=1000)) == pytest.approx(0.0345, rel=1e-4)
    assert Price(input=1, output=5).dollars(Usage(cache_read_tokens=million)) == pytest.approx(0.1)


@pytest.mark.parametrize("model", PROFILES)
def test_product_and_stand_in_price_alike(model: str) -> None:
    """C9: two tables that know nothing of each other give the same dollars, below and above 100,000 tokens."""
    for tokens in (20_000, 180_000):
        ours = Usage(
            input_tokens=tokens, cache_read_tokens=4000, cache_write_5m_tokens=2000, cache_write_1h_tokens=1000, output_tokens=700
        )
        theirs = values.Usage(input_tokens=tokens, cache_read_tokens=4000, cache_write_tokens=3000, output_tokens=700)
        assert prices.dollars(model, theirs, written_for_an_hour=1000) == pytest.approx(PROFILES[model].price.dollars(ours))


async def test_the_bill_over_http_is_the_count() -> None:
    """C11, S2: count_tokens, usage of a stream, usage in one piece and the record agree; the second request reads from the cache."""
    heard: list[Record] = []
    async with MessagesAPI(Says(), 50_000, on_request=heard.append) as api, client_of(api) as client:
        request = chat(3, **TWO_PARTS)
        total = await count(client, request)
        first = (await stream(client, request)).usage
        second = (await send(client, request)).usage
    assert (first.cache_creation_input_tokens, first.input_tokens, first.cache_read_input_tokens) == (total, 0, 0)
    assert first.cache_creation is None or first.cache_creation.ephemeral_5m_input_tokens == total
    assert (second.cache_creation_input_tokens, second.input_tokens, second.cache_read_input_tokens) == (0, 0, total)
    assert [record.tokens for record in heard] == [total, total]
    assert heard[0].digest == heard[1].digest
    assert heard[0].dollars == pytest.approx((total * 0.125 + first.output_tokens * 0.5) / 1e6)
    assert heard[1].dollars == pytest.approx((total * 0.01 + second.output_tokens * 0.5) / 1e6)


async def test_a_cap_of_nothing_warms_the_cache() -> None:
    """S2: max_tokens 0 writes and says nothing."""
    async with MessagesAPI(Says()) as api, client_of(api) as client:
        request = chat(3)
        warmed = await send(client, request | {"max_tokens": 0})
        assert (warmed.content, warmed.usage.output_tokens) == ([], 0)
        assert (await send(client, request)).usage.cache_read_input_tokens == warmed.usage.cache_creation_input_tokens
