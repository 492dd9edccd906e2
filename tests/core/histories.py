"""Generated histories, and what must hold of every one of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count as numbers
from typing import Any

from hypothesis import strategies as st

from runtime.core.budget import SMALLEST_OBSERVATION
from runtime.core.calibration import START
from runtime.core.fence import fenced
from runtime.core.layout import Fixed, Shape, make_fixed, request
from runtime.core.messages import Block, Kind, Message, make_block, result_block, text_block
from runtime.core.record import Line, Record
from runtime.core.repair import problems
from runtime.core.rungs import Parts

SIZES = (20, 1, 90, 400, 1_600, 6_000, 20_000)  # characters; the windows of these tests hold a few thousand tokens
#: The smallest history that rung 6 guarantees room for, in raw tokens.
FLOOR = int(SMALLEST_OBSERVATION / START)
RULE = "Never sell the crown; never open the vault; ask the operator when unsure."
WORDS = "the guard looks at the old gate and waits for an answer from the market square "


def count(text: str) -> int:
    """A pure stand-in for the tokenizer: about four characters a token, as in English."""
    return (len(text) + 3) // 4


def prose(size: int, name: str) -> str:
    """About `size` characters that begin and end with `name`, so that a cut shows."""
    middle = (WORDS * (size // len(WORDS) + 1))[: max(0, size - 2 * len(name))]
    return f"{name} {middle} {name}"


class Source:
    """Choices read from bytes: fast to generate, and the simplest choice when they run out."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)
        self._events = numbers(1)
        self._calls = numbers(1)

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return next(self._data, 0) % limit

    def size(self) -> int:
        """A text's size in characters."""
        return SIZES[self.below(len(SIZES))]

    def event(self) -> int:
        """The next event's number."""
        return next(self._events)

    def call(self) -> str:
        """The next call's id."""
        return f"call_{next(self._calls)}"


def observed(size: int, event: int) -> Block:
    """One observation's block, fenced and labelled."""
    text = fenced(prose(size, f"seen{event}"), event=event, kind="speech", source="Bob")
    return text_block(Kind.OBSERVATION, text, count, event=event, gist=(f"Bob: line {event}",))


def _turn(source: Source, number: int, *, current: bool) -> list[Message]:
    opening: list[Block] = []
    extras = source.below(8)
    if extras & 1:
        opening.append(text_block(Kind.RECALLED, prose(source.size() // 4, f"memory{source.event()}"), count))
    if extras & 2:
        opening.append(text_block(Kind.NOTEBOOK, prose(source.size() // 4, f"notebook{source.event()}"), count))
    opening += [observed(source.size(), source.event()) for _ in range(1 + source.below(4))]
    if extras & 4:
        opening.append(text_block(Kind.TAIL, prose(200, f"tail{number}"), count))
    messages = [Message("user", tuple(opening), number)]
    for _ in range(source.below(4)):
        messages += exchange(source, number, source.below(4) + 1)
    if not current:
        words = text_block(Kind.SAID, prose(20, f"word{source.event()}"), count, gist=("I: spoke",))
        messages.append(Message("assistant", (words,), number))
    return messages


def exchange(source: Source, turn: int, calls: int) -> list[Message]:
    """An assistant message with `calls` calls and the one that answers them."""
    said = [text_block(Kind.SAID, prose(30, f"said{source.event()}"), count, gist=("I: said it",))] if source.below(2) else []
    ids = [source.call() for _ in range(calls)]
    uses = [make_block(Kind.TOOL_USE, {"type": "tool_use", "id": i, "name": "look", "input": {"at": "gate"}}, count) for i in ids]
    results = []
    for use_id in ids:
        event = source.event()
        text = prose(source.size(), f"result{event}")
        results.append(result_block(use_id, text, count, error=event % 5 == 0, event=event, gist=(f"saw {event}",)))
    return [Message("assistant", (*said, *uses), turn), Message("user", tuple(results), turn)]


def parts_of(messages: Sequence[Message], *, turn: int, record: bool = False, room: int = 200) -> Parts:
    """Parts for a ladder; `record` puts an older record in front."""
    known = Record(lines=(Line(text="Bob: hello", event=1),), first=1, last=2, turns=3) if record else Record()
    block = known.block(room, count) if record else None
    return Parts(messages=tuple(messages), turn=turn, record=known, record_block=block, count=count, record_room=room)


def _history(data: bytes) -> Parts:
    source = Source(data)
    past = source.below(7)
    record = bool(source.below(2))
    messages = [m for number in range(1, past + 1) for m in _turn(source, number, current=False)]
    return parts_of([*messages, *_turn(source, past + 1, current=True)], turn=past + 1, record=record)


def histories() -> st.SearchStrategy[Parts]:
    """Parts of a session that waits for the model: up to six whole turns, and the current one."""
    return st.binary(max_size=120).map(_history)


# ---------------------------------------------------------------- what must hold
def fixed_part(size: int = 200) -> Fixed:
    """A fixed part with the rule in it."""
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    tools = [{"name": "look", "description": "Look at something.", "input_schema": schema}]
    return make_fixed(tools=tools, system=[("rules", prose(size, "doctrine")), ("persona", f"You are a guard.\n{RULE}")], count=count)


def sent(parts: Parts) -> dict[str, Any]:
    """The request that these parts make."""
    return request(Shape(model="m"), fixed_part(), parts.record_block, parts.messages, max_tokens=100)


def assert_valid(parts: Parts) -> None:
    """The request is one that the API takes."""
    assert problems(sent(parts)["messages"], prefill=True) == []
    assert all(m.blocks for m in parts.messages), "a message without blocks"


def assert_paired(messages: Sequence[Message]) -> None:
    """No result without its call in the message before it, no call without its result, the first message is the user's."""
    assert not messages or messages[0].role == "user"
    ids = [[str(b.data["id"]) for b in m.blocks if b.kind is Kind.TOOL_USE] for m in messages]
    results = [[str(b.data["tool_use_id"]) for b in m.blocks if b.kind is Kind.TOOL_RESULT] for m in messages]
    assert ids == [*results[1:], []] or not messages, "a call without its result, or a result without its call"
    assert not messages or not results[0]


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
