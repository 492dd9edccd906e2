"""Generated histories, and what must hold of every one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count as numbers
from typing import Any

from hypothesis import strategies as st

from runtime.core.fence import fenced
from runtime.core.layout import Fixed, Shape, make_fixed, request
from runtime.core.messages import Block, Kind, Message, make_block, result_block, text_block
from runtime.core.record import Line, Record
from runtime.core.repair import problems
from runtime.core.rungs import Parts

SIZES = (1, 20, 90, 400, 1_600, 6_000, 30_000)  # characters; the windows of these tests hold a few thousand tokens
RULE = "Never sell the crown; never open the vault; ask the operator when unsure."
WORDS = "the guard looks at the old gate and waits for an answer from the market square "


def count(text: str) -> int:
    """A pure stand-in for the tokenizer: about four characters a token, as in English."""
    return (len(text) + 3) // 4


def prose(size: int, name: str) -> str:
    """About `size` characters that begin and end with `name`, so that a cut shows."""
    middle = (WORDS * (size // len(WORDS) + 1))[: max(0, size - 2 * len(name))]
    return f"{name} {middle} {name}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sizes of the results of one assistant message's calls, and of the words beside them (0: none)."""

    results: tuple[int, ...]
    words: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Sizes of one turn's observations, its exchanges, its last words, and what it was given to think with."""

    seen: tuple[int, ...]
    exchanges: tuple[Exchange, ...]
    words: int
    recalled: int
    notebook: int
    tail: int


_size = st.sampled_from(SIZES)
_small = st.sampled_from((0, 0, 20, 90, 400))
exchanges = st.builds(Exchange, st.lists(_size, min_size=1, max_size=4).map(tuple), _small)
turns = st.builds(
    Turn,
    st.lists(_size, min_size=1, max_size=4).map(tuple),
    st.lists(exchanges, max_size=3).map(tuple),
    _small,
    _small,
    _small,
    st.sampled_from((0, 200)),
)


def built(past: Sequence[Turn], current: Turn) -> tuple[Message, ...]:
    """The messages of whole old turns and of a current one that waits for the model."""
    event = numbers(1)
    call = numbers(1)
    messages: list[Message] = []
    for number, turn in enumerate([*past, current], start=1):
        opening: list[Block] = []
        if turn.recalled:
            opening.append(text_block(Kind.RECALLED, prose(turn.recalled, f"memory{next(event)}"), count))
        if turn.notebook:
            opening.append(text_block(Kind.NOTEBOOK, prose(turn.notebook, f"notebook{next(event)}"), count))
        opening += [observed(size, next(event)) for size in turn.seen]
        if turn.tail:
            opening.append(text_block(Kind.TAIL, prose(turn.tail, f"tail{number}"), count))
        messages.append(Message("user", tuple(opening), number))
        for exchange in turn.exchanges:
            said = [text_block(Kind.SAID, prose(exchange.words, f"said{next(event)}"), count, gist=("I: said it",))] if exchange.words else []
            ids = [f"call_{next(call)}" for _ in exchange.results]
            uses = [make_block(Kind.TOOL_USE, {"type": "tool_use", "id": i, "name": "look", "input": {"at": "gate"}}, count) for i in ids]
            messages.append(Message("assistant", (*said, *uses), number))
            results = [
                result_block(i, prose(size, f"result{(n := next(event))}"), count, event=n, gist=(f"saw {n}",))
                for i, size in zip(ids, exchange.results, strict=True)
            ]
            messages.append(Message("user", tuple(results), number))
        if turn is not current or number <= len(past):
            words = text_block(Kind.SAID, prose(turn.words or 20, f"word{next(event)}"), count, gist=("I: spoke",))
            messages.append(Message("assistant", (words,), number))
    return tuple(messages)


def observed(size: int, event: int) -> Block:
    """One observation's block, fenced and labelled."""
    text = fenced(prose(size, f"seen{event}"), event=event, kind="speech", source="Bob")
    return text_block(Kind.OBSERVATION, text, count, event=event, gist=(f"Bob: line {event}",))


def parts_of(messages: Sequence[Message], *, turn: int, record: bool = False, room: int = 200) -> Parts:
    """Parts for a ladder; `record` puts an older record in front."""
    known = Record(lines=(Line(text="Bob: hello", event=1),), first=1, last=2, turns=3) if record else Record()
    block = known.block(room, count) if record else None
    return Parts(messages=tuple(messages), turn=turn, record=known, record_block=block, count=count, record_room=room)


@st.composite
def histories(draw: st.DrawFn) -> Parts:
    """Parts of a session that waits for the model."""
    past = draw(st.lists(turns, max_size=7))
    current = draw(turns)
    return parts_of(built(past, current), turn=len(past) + 1, record=draw(st.booleans()))


# ---------------------------------------------------------------- what must hold
def fixed_part(size: int = 200) -> Fixed:
    """A fixed part with the rule in it."""
    tools = [{"name": "look", "description": "Look at something.", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}]
    return make_fixed(tools=tools, system=[("rules", prose(size, "doctrine")), ("persona", f"You are a guard.\n{RULE}")], count=count)


def sent(parts: Parts) -> dict[str, Any]:
    """The request that these parts make."""
    return request(Shape(model="m"), fixed_part(), parts.record_block, parts.messages, max_tokens=100)


def assert_valid(parts: Parts) -> None:
    """The request is one that the API takes."""
    assert problems(sent(parts)["messages"], prefill=True) == []
    assert all(m.blocks for m in parts.messages), "a message without blocks"


def pairs(messages: Sequence[Message]) -> None:
    """No result without its call in the message before it, no call without its result, the first message is the user's."""
    assert not messages or messages[0].role == "user"
    for n, message in enumerate(messages):
        calls = [str(b.data["id"]) for b in message.blocks if b.kind is Kind.TOOL_USE]
        results = [str(b.data["tool_use_id"]) for b in message.blocks if b.kind is Kind.TOOL_RESULT]
        after = [str(b.data["tool_use_id"]) for b in messages[n + 1].blocks if b.kind is Kind.TOOL_RESULT] if n + 1 < len(messages) else []
        before = [str(b.data["id"]) for b in messages[n - 1].blocks if b.kind is Kind.TOOL_USE] if n else []
        assert calls == after, "a call without its result"
        assert results == before, "a result without its call"


def bare(value: Any) -> Any:
    """A request without its cache marks, which are no part of what the provider hashes."""
    if isinstance(value, Mapping):
        return {k: bare(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list | tuple):
        return [bare(v) for v in value]
    return value


def print_of(body: Mapping[str, Any]) -> str:
    """A request as bytes that can be compared."""
    return json.dumps(bare(body), ensure_ascii=False)


def flat(body: Mapping[str, Any]) -> list[str]:
    """The history blocks of a request in order, each with its role; a system message at the end is the tail and left out."""
    return [
        f"{m['role']} {json.dumps(bare(b), ensure_ascii=False)}" for m in body["messages"] if m["role"] != "system" for b in m["content"]
    ]
