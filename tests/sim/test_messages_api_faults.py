"""Everything that can go wrong at the model's end, seen through the real SDK over HTTP (S2, S5, C1, C8).

What a client sees of each fault is what the real API and network show; several of these are traps of the SDK itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anthropic
import httpx2
import pytest
import pytest_asyncio

from sim.messages_api import (
    CONFLICT,
    CREDIT_TOO_LOW,
    FORBIDDEN,
    KEY_REFUSED,
    NO_SUCH_MODEL,
    OVERLOADED,
    SERVER_ERROR,
    SPEND_LIMIT,
    TIMED_OUT,
    UNPAID,
    Break,
    BrokenAnswer,
    Dialect,
    Fault,
    FaultPlan,
    HttpError,
    Inflated,
    Late,
    MessagesAPI,
    OddAnswer,
    Rule,
    TooLong,
    label,
    outage,
    rate_limited,
)
from tests.sim.messages_api import MARK, SAY, Says, body, client_of, count, result, send, stream, text, use, user

TALK = (text("I greet the miller and ask how the harvest was this year."), use(text="Good day, miller. How was the harvest?"))
ASK = body(user("The miller comes in."), tools=[SAY])


Shared = tuple[MessagesAPI, anthropic.AsyncAnthropic]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Shared]:
    """One stand-in and client; each test says what goes wrong."""
    async with MessagesAPI(Says(*TALK)) as api, client_of(api) as client:
        yield api, client


def once(fault: Fault) -> FaultPlan:
    """The next request meets it, the one after does not."""
    return FaultPlan([Rule(fault=fault, times=1)])


def impatient(client: anthropic.AsyncAnthropic, fault: BrokenAnswer) -> anthropic.AsyncAnthropic:
    """Silence is not waited for, everything else is."""
    return client.with_options(timeout=0.2) if fault.how is Break.SILENT else client


@pytest.mark.parametrize(
    ("fault", "kind", "error_type"),
    [
        (rate_limited(3), anthropic.RateLimitError, "rate_limit_error"),
        (rate_limited(), anthropic.RateLimitError, "rate_limit_error"),
        (SERVER_ERROR, anthropic.InternalServerError, "api_error"),
        (TIMED_OUT, anthropic.APIStatusError, "timeout_error"),
        (OVERLOADED, anthropic.APIStatusError, "overloaded_error"),
        (KEY_REFUSED, anthropic.AuthenticationError, "authentication_error"),
        (UNPAID, anthropic.APIStatusError, "billing_error"),
        (CREDIT_TOO_LOW, anthropic.BadRequestError, "invalid_request_error"),
        (SPEND_LIMIT, anthropic.BadRequestError, "invalid_request_error"),
        (FORBIDDEN, anthropic.PermissionDeniedError, "permission_error"),
        (NO_SUCH_MODEL, anthropic.NotFoundError, "not_found_error"),
        (CONFLICT, anthropic.ConflictError, "conflict_error"),
    ],
    ids=lambda value: f"{value.status}" if isinstance(value, HttpError) else "",
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.asyncio(loop_scope="module")
async def test_error_answers(
    fault: HttpError, kind: type[anthropic.APIStatusError], error_type: str, shared: Shared, *, streamed: bool
) -> None:
    """S5, C8: status, type, retry-after; free of charge, and over with the next request."""
    api, client = shared
    api.faults = once(fault)
    with pytest.raises(kind) as failed:
        await (stream if streamed else send)(client, ASK)
    assert (failed.value.status_code, failed.value.type) == (fault.status, error_type)
    after = failed.value.response.headers.get("retry-after")
    assert after == (None if fault.retry_after is None else "3")
    assert (api.records[-1].outcome, api.records[-1].dollars, api.records[-1].faults) == ("failed", 0.0, (fault,))
    assert (await (stream if streamed else send)(client, ASK)).stop_reason == "tool_use"
    assert api.records[-1].outcome == "answered"


async def test_spend_limit_has_its_code() -> None:
    """S5: the one error that only its details tell from a bad request."""
    async with MessagesAPI(Says(), faults=once(SPEND_LIMIT)) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError) as failed:
            await send(client, ASK)
    assert isinstance(failed.value.body, dict)
    assert failed.value.body["error"]["details"]["error_code"] == "enforced_spend_limit_reached"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (BrokenAnswer(how=Break.SILENT, after=0), httpx2.ReadTimeout),
        (BrokenAnswer(how=Break.SILENT, after=3), httpx2.ReadTimeout),
        (BrokenAnswer(how=Break.CUT), httpx2.RemoteProtocolError),
        (BrokenAnswer(how=Break.CUT, after=0), httpx2.RemoteProtocolError),
        (BrokenAnswer(how=Break.CUT, after=1000), httpx2.RemoteProtocolError),
        (BrokenAnswer(how=Break.TRUNCATED_BODY), httpx2.RemoteProtocolError),
        (BrokenAnswer(how=Break.ERROR_EVENT), anthropic.APIStatusError),
    ],
    ids=["silent", "falls silent", "cut", "cut at once", "cut before its end", "truncated", "error event"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_streams_that_break(fault: BrokenAnswer, kind: type[Exception], shared: Shared) -> None:
    """S5, C8: what the SDK lets through raw, it lets through here."""
    api, client = shared
    api.faults = once(fault)
    with pytest.raises(kind) as broken:
        await stream(impatient(client, fault), ASK)
    if isinstance(broken.value, anthropic.APIStatusError):
        assert (broken.value.status_code, broken.value.type) == (200, "overloaded_error")
    record = api.records[-1]
    assert record.outcome == "broken"
    assert (record.dollars > 0) is (fault.after > 0 or fault.how is not Break.SILENT)
    assert (await stream(client, ASK)).stop_reason == "tool_use"


async def test_a_clean_end_without_an_end_has_no_stop_reason() -> None:
    """S5, C1: the SDK returns this one as if it were an answer."""
    fault = BrokenAnswer(how=Break.CLEAN_END, after=1000)
    async with MessagesAPI(Says(*TALK), faults=once(fault)) as api, client_of(api) as client:
        async with client.messages.stream(**ASK) as events:
            kinds = [event.type async for event in events]
        assert "message_delta" in kinds
        assert "message_stop" not in kinds
    async with MessagesAPI(Says(*TALK), faults=once(BrokenAnswer(how=Break.CLEAN_END))) as api, client_of(api) as client:
        assert (await stream(client, ASK)).stop_reason is None


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        (Break.SILENT, anthropic.APITimeoutError),
        (Break.CUT, anthropic.APIConnectionError),
        (Break.TRUNCATED_BODY, json.JSONDecodeError),
        (Break.CLEAN_END, json.JSONDecodeError),
    ],
    ids=str,
)
@pytest.mark.asyncio(loop_scope="module")
async def test_whole_answers_that_break(how: Break, kind: type[Exception], shared: Shared) -> None:
    """S5, C8: without a stream."""
    api, client = shared
    api.faults = once(BrokenAnswer(how=how))
    with pytest.raises(kind):
        await send(impatient(client, BrokenAnswer(how=how)), ASK)
    assert (await send(client, ASK)).stop_reason == "tool_use"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
async def test_closing_does_not_wait_for_a_silent_answer(*, streamed: bool) -> None:
    """S5: a flood that ends must not hang on the worst of its own faults."""
    heard = asyncio.Event()
    silent = FaultPlan([Rule(fault=BrokenAnswer(how=Break.SILENT))])
    async with MessagesAPI(Says(), faults=silent, on_request=lambda _: heard.set()) as api, client_of(api) as client:
        waiting = asyncio.create_task((stream if streamed else send)(client, ASK))
        await asyncio.wait_for(heard.wait(), 10)
        await asyncio.wait_for(api.__aexit__(None, None, None), 3)
        with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
            await asyncio.wait_for(waiting, 3)


async def test_refusal_is_an_answer_without_content() -> None:
    """S5, C6: HTTP 200, nothing said, and the reason beside it."""
    async with MessagesAPI(Says(*TALK), faults=once(OddAnswer.REFUSAL)) as api, client_of(api) as client:
        answer = await stream(client, ASK)
    assert (answer.stop_reason, answer.content) == ("refusal", [])
    assert answer.stop_details is not None
    assert (answer.stop_details.type, answer.stop_details.category) == ("refusal", "general_harms")


async def test_a_tool_call_cut_by_max_tokens_loses_its_arguments() -> None:
    """S5, C5: half of the JSON arrives, and the SDK makes of it what it can."""
    async with (
        MessagesAPI(Says(*TALK), faults=once(OddAnswer.CUT_TOOL_CALL)) as api,
        client_of(api) as client,
        client.messages.stream(**ASK) as events,
    ):
        sent = [event.partial_json async for event in events if event.type == "input_json"]
        answer = await events.get_final_message()
    assert answer.stop_reason == "max_tokens"
    with pytest.raises(json.JSONDecodeError):
        json.loads("".join(sent))
    assert json.dumps(TALK[1]["input"]).startswith("".join(sent))
    assert answer.content[-1].type == "tool_use"
    assert answer.content[-1].input != TALK[1]["input"]


async def test_garbage_arguments() -> None:
    """S5, P13: the SDK raises ValueError in the middle of reading."""
    async with MessagesAPI(Says(*TALK), faults=once(OddAnswer.GARBAGE_ARGUMENTS)) as api, client_of(api) as client:
        with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
            await stream(client, ASK)


async def test_answers_that_are_odd_but_whole() -> None:
    """S5, P13, C1, C7: one request each."""
    history = body(user("Go on."), {"role": "assistant", "content": [use(id="old")]}, user(result(id="old")), tools=[SAY])
    odd = OddAnswer
    order = (odd.UNKNOWN_TOOL, odd.DOUBLED_IDS, odd.REUSED_ID, odd.EMPTY, odd.WINDOW_EXCEEDED, odd.UNKNOWN_STOP)
    plan = FaultPlan([Rule(fault=each, on={n}) for n, each in enumerate(order, 1)])
    async with MessagesAPI(Says(*TALK), faults=plan) as api, client_of(api) as client:
        unknown, doubled, reused, empty, exceeded, stopped = [await stream(client, history) for _ in order]
    names = [block.name for block in unknown.content if block.type == "tool_use"]
    assert names
    assert "say" not in names
    ids = [block.id for block in doubled.content if block.type == "tool_use"]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert [block.id for block in reused.content if block.type == "tool_use"] == ["old"]
    assert (empty.content, empty.stop_reason) == ([], "end_turn")
    assert exceeded.stop_reason == "model_context_window_exceeded"
    assert [block.model_dump(include={"text", "input"}) for block in exceeded.content] != [
        {key: block[key] for key in ("text", "input") if key in block} for block in TALK
    ]
    assert stopped.stop_reason not in {"end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal"}


async def test_a_paused_turn_goes_on_when_it_is_sent_back_and_only_then() -> None:
    """S5, C7: the paused answer may end the next request; any other assistant message may not."""
    async with MessagesAPI(Says(*TALK), faults=once(OddAnswer.PAUSE_TURN)) as api, client_of(api) as client:
        paused = await stream(client, ASK)
        assert paused.stop_reason == "pause_turn"
        back = {"role": "assistant", "content": [block.model_dump(exclude={"parsed_output"}) for block in paused.content]}
        assert (await stream(client, body(ASK["messages"][0], back, tools=[SAY]))).stop_reason == "tool_use"
        with pytest.raises(anthropic.BadRequestError, match="does not support assistant message prefill"):
            await stream(client, body(ASK["messages"][0], {"role": "assistant", "content": "Something else."}, tools=[SAY]))


@pytest.mark.parametrize("dialect", Dialect)
async def test_too_long_when_it_is_not(dialect: Dialect) -> None:
    """S5, P11: the provider says that it does not fit, against all counting."""
    async with MessagesAPI(Says(), 9000, faults=once(TooLong(dialect=dialect))) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError) as refused:
            await send(client, ASK)
        assert isinstance(refused.value.body, dict)
        said = refused.value.body["error"]
        if dialect is Dialect.ANTHROPIC:
            assert said["message"] == "prompt is too long: 9001 tokens > 9000 maximum"
        else:
            assert (said["type"], said["n_prompt_tokens"], said["n_ctx"]) == ("exceed_context_size_error", 9001, 9000)
        assert api.records[-1].outcome == "failed"


async def test_another_tokenizer_fills_window_and_bill() -> None:
    """S5, P11: 1.8 times as many tokens, in usage and against the window."""
    request = body(user("A lantern swings. " * 300))
    plan = FaultPlan([Rule(fault=Inflated(factor=1.8), on={2, 3})])
    async with MessagesAPI(Says(), faults=plan) as api, client_of(api) as client:
        plain = (await send(client, request)).usage.input_tokens
        more = (await send(client, request)).usage.input_tokens
        assert plain * 1.8 <= more <= plain * 1.8 + 2
        assert api.records[-1].dollars == pytest.approx(api.records[-2].dollars * 1.8, rel=0.05)
    async with MessagesAPI(Says(), plain, faults=FaultPlan([Rule(fault=Inflated())])) as api, client_of(api) as client:
        with pytest.raises(anthropic.BadRequestError, match=f"prompt is too long: {more} tokens > {plain} maximum"):
            await send(client, request)


async def test_late_answers_are_late_and_whole() -> None:
    """S5, P4: for summaries that take their time."""
    loop = asyncio.get_running_loop()
    async with MessagesAPI(Says(*TALK), faults=once(Late(seconds=0.2))) as api, client_of(api) as client:
        began = loop.time()
        assert (await stream(client, ASK)).stop_reason == "tool_use"
        assert loop.time() - began >= 0.2


def hears(word: str) -> Any:
    """A condition on a request's body."""

    def heard(request: Mapping[str, Any]) -> bool:
        return word in json.dumps(request)

    return heard


async def test_when_faults_happen() -> None:
    """S5: by number, by what was asked, so many times, for so long; the same for the same seed."""
    now = 0.0
    plan = FaultPlan(
        [
            Rule(fault=SERVER_ERROR, where=hears("dragon"), times=1),
            outage(OVERLOADED, start=3, requests=2),
            outage(rate_limited(1), start=6, seconds=30.0),
        ]
    )
    statuses: list[int] = []

    async with (
        MessagesAPI(Says(), faults=plan, clock=lambda: now, on_request=lambda record: statuses.append(record.status)) as api,
        client_of(api) as client,
    ):
        for words, at in (
            ("a dragon", 0), ("a dragon", 1), ("a", 2), ("b", 3), ("c", 4), ("d", 5), ("e", 20), ("f", 34.9), ("g", 35), ("h", 99),
        ):  # fmt: skip
            now = at
            try:
                await send(client, body(user(words)))
            except anthropic.APIStatusError as error:
                assert error.status_code == statuses[-1]  # noqa: PT017  what was refused is in the record
    assert statuses == [500, 200, 529, 529, 200, 429, 429, 429, 200, 200]


def test_rates_are_drawn_by_the_seed_and_faults_of_different_kinds_meet() -> None:
    """S5: a run can be repeated; the shares are right; the first rule of a kind wins."""
    rules = [Rule(fault=OVERLOADED, rate=0.1), Rule(fault=OddAnswer.EMPTY, rate=0.2), Rule(fault=SERVER_ERROR, rate=0.5)]

    def run(seed: int) -> list[list[str]]:
        plan = FaultPlan(rules, seed=seed)
        return [[label(fault) for fault in plan.pick(n, {}, 0.0)] for n in range(1, 2001)]

    seven = run(7)
    assert run(7) == seven != run(8)
    happened = [name for names in seven for name in names]
    assert 150 < happened.count("http_529") < 250
    assert 320 < happened.count("empty") < 480
    assert 800 < happened.count("http_500") < 1000
    assert any(len(names) == 2 for names in seven)
    assert not any(names.count("http_529") + names.count("http_500") > 1 for names in seven)


async def test_nothing_is_cached_by_an_answer_that_never_came() -> None:
    """S2, S5: errors and silence write nothing to the prompt cache; a stream that began does."""
    long = body(user(text("A lantern swings in the dark. " * 300, cache_control=MARK)))
    plan = FaultPlan([
        Rule(fault=OVERLOADED, on={1}),
        Rule(fault=BrokenAnswer(how=Break.SILENT, after=0), on={2}),
        Rule(fault=BrokenAnswer(how=Break.CUT, after=2), on={3}),
    ])  # fmt: skip
    async with MessagesAPI(Says(), faults=plan) as api, client_of(api) as client:
        total = await count(client, long)
        for kind in (anthropic.APIStatusError, httpx2.ReadTimeout, httpx2.RemoteProtocolError):
            with pytest.raises(kind):
                await stream(client.with_options(timeout=0.2) if kind is httpx2.ReadTimeout else client, long)
        assert api.records[-1].usage.cache_write_tokens == total
        assert (await stream(client, long)).usage.cache_read_input_tokens == total
