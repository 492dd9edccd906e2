"""The request's bytes. Rows: C10, C13, P10, T1. Cases: D01, D03, D05."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from runtime.core.layout import Shape, make_fixed, request
from runtime.core.messages import Kind, Message, make_block, text_block
from runtime.core.rungs import Parts

from .examples import examples
from .histories import RULE, count, fixed_part, flat, histories, print_of

SHAPE = Shape(model="m", tail_as_system=True)


def tool(name: str, **schema: object) -> dict[str, object]:
    return {"name": name, "description": f"{name}.", "input_schema": {"type": "object", "properties": schema, "required": ["b", "a"]}}


def test_tools_have_the_same_bytes_in_any_order() -> None:
    """D03 (librefang 3765): the order of connection and that of keys, at any depth, move no byte; an order with a meaning stays."""
    one = make_fixed(tools=[tool("a", x={"type": "string", "minLength": 1}), tool("b"), tool("c")], system=[], count=count)
    shuffled = {"input_schema": {"required": ["b", "a"], "properties": {"x": {"minLength": 1, "type": "string"}}, "type": "object"}}
    two = make_fixed(tools=[tool("c"), {**shuffled, "description": "a.", "name": "a"}, tool("b"), tool("b")], system=[], count=count)
    assert json.dumps(one.tools) == json.dumps(two.tools)
    assert one.tokens == two.tokens
    assert list(one.tools[0]["input_schema"]["required"]) == ["b", "a"]


@examples(80)
@given(histories(), st.integers(0, 60), st.integers(0, 5))
def test_never_more_than_four_marks(parts: Parts, warm: int, texts: int) -> None:
    """D05 (opencode-claude-auth 121): however many system texts there are, wherever the last request ended, with a record and a tail."""
    fixed = make_fixed(tools=[tool("a")], system=[(f"part {n}", f"text {n}") for n in range(texts)], count=count)
    body = request(SHAPE, fixed, parts.record_block, parts.messages, max_tokens=9, tail="[rules]", warm=warm)
    assert json.dumps(body).count('"cache_control"') <= 4
    assert body["messages"][-1] == {"role": "system", "content": [{"type": "text", "text": "[rules]"}]}


def test_a_mark_goes_before_thinking_where_that_is_last() -> None:
    """C10: thinking cannot carry a mark; the block before it does, so that the prefix is still written."""
    thought = make_block(Kind.OTHER, {"type": "thinking", "thinking": "", "signature": "s"}, count)
    said = text_block(Kind.SAID, "hm", count)
    messages = [Message("user", (text_block(Kind.OBSERVATION, "hello", count),), 1), Message("assistant", (said, thought), 1)]
    content = request(SHAPE, fixed_part(), None, messages, max_tokens=9)["messages"][1]["content"]
    assert "cache_control" in content[0]
    assert "cache_control" not in content[1]


def test_a_later_request_has_the_same_prefix() -> None:
    """D01 (home-generative-agent 617): tools, system and what was already sent are the same bytes a midnight later; only the end is new."""
    parts = [Message("user", (text_block(Kind.OBSERVATION, "hello at 23:59:50", count),), 1)]
    first = request(SHAPE, fixed_part(), None, parts, max_tokens=9, tail="[budget] step 1")
    parts.append(Message("assistant", (text_block(Kind.SAID, "hm", count),), 1))
    parts.append(Message("user", (text_block(Kind.OBSERVATION, "the bell at 00:00:04", count),), 2))
    second = request(SHAPE, fixed_part(), None, parts, max_tokens=9, tail="[budget] step 2", warm=1)
    for part in ("tools", "system"):
        assert print_of({part: first[part]}) == print_of({part: second[part]})
    assert flat(second)[: len(flat(first))] == flat(first)
    assert second["messages"][0]["content"][0].get("cache_control") == {"type": "ephemeral"}, "a mark stays where the last request ended"
    assert any(RULE in b["text"] for b in second["system"])
