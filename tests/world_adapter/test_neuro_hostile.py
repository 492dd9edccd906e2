"""The Neuro API against games that are broken or mean: frames, names, schemas, and what a model makes of them. W5, P1, P8."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.world_adapter.neuro_games import Table, frame, offer, result
from world_adapter import neuro_wire
from world_adapter.neuro_actions import MAX_ACTIONS, MAX_TOGETHER, plain_schema

HOSTILE_SCHEMAS: list[Any] = [
    {"type": "array", "items": {}}, {"type": "object", "properties": ["x"]},
    {"properties": {"a b": {}, "ok": 7}, "required": ["a b", "ok"]},
    {"type": "object", "anyOf": [{"type": "object"}], "$ref": "#/x"}, {"type": "object", "required": "name"},
    {"type": "object", "properties": {"n": {"type": "whole", "minimum": "one", "enum": [], "pattern": "(" * 40}}},
    {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 500} for n in range(60)}},
    {"type": "object", "properties": {"p" * 64: {"description": "y" * 400_000}}},
    {"type": "object", "properties": {f"{'q' * 50}{n}": {} for n in range(5_000)}},
]  # fmt: skip


@pytest.mark.parametrize("schema", HOSTILE_SCHEMAS, ids=range(len(HOSTILE_SCHEMAS)))
def test_a_hostile_schema_becomes_one_that_an_endpoint_takes(schema: Any) -> None:
    """W5, P1: it would be rejected with every request, for ever."""
    sound(plain_schema(schema), top=True)
    table = Table.set()
    table.says(offer("odd", schema=schema))
    assert table.offered == ["odd"]


def sound(schema: Any, *, top: bool = False) -> None:
    """What an endpoint asks of a tool's schema."""
    assert isinstance(schema, dict)
    if top:
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf"} & set(schema)
        assert len(json.dumps(schema)) < 50_000
    assert "$ref" not in schema
    assert all(isinstance(name, str) and name in schema["properties"] for name in schema.get("required", []))
    for name, inner in schema.get("properties", {}).items():
        assert 1 <= len(name) <= 64
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
        sound(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            sound(schema[key])


def test_hostile_names_are_told_apart_and_sent_back_as_they_came() -> None:
    """W5: quotes, newlines, look-alikes; what could not be sent back is not offered."""
    names = ['say "hi"', "say 'hi'", "a\nb", "a b", "\x00", "x" * 250, "x" * 249 + "y", "🙂"]
    table = Table.set(*names)
    assert len(set(table.offered)) == len(names)
    assert all("\n" not in name and '"' not in name for name in table.offered)
    for n, name in enumerate(table.offered):
        table.act(f"a{n}", name)
        table.says(result(f"a{n}"))
    assert [raw for _, raw, _ in table.acts] == names
    before = list(table.offered)
    bad: list[Any] = ["", "  ", "x" * 300, "\ud800", None, 7, {"title": "x"}, ["x"]]
    table.says(frame("actions/register", actions=[{"name": name, "description": "?"} for name in bad] + bad))
    assert table.offered == before
    assert table.link.counters.malformed == 2 * len(bad)


def test_the_list_stays_bounded_as_a_whole() -> None:
    """P8, W5: it stands in every request; what found no room is counted."""
    table = Table.set(*[f"act_{n}" for n in range(400)])
    assert len(table.offered) == MAX_ACTIONS
    assert table.link.actions.refused == 400 - MAX_ACTIONS
    table = Table.set()
    long = [{"name": f"act_{n}", "description": "x" * 5_000} for n in range(100)]
    table.says(frame("actions/register", actions=long))
    specs = table.link.actions.specs
    assert sum(len(spec.name) + len(spec.description) + len(json.dumps(spec.schema)) for spec in specs) <= MAX_TOGETHER
    assert len(specs) > 20


def test_whatever_a_model_writes_leaves_as_json_in_a_string() -> None:
    """W5: lone surrogates, NaN, depth; what is too large for a game does not leave."""
    table = Table.set("say")
    nested: Any = "x"
    for _ in range(50):
        nested = [nested]
    table.act("a1", "say", text="\ud800 hi \x00", number=float("nan"), deep=nested)
    (_, _, args), = table.acts  # fmt: skip
    assert args["number"] is None
    assert args["text"].startswith("\ufffd hi")
    table.says(result("a1"))
    table.act("a2", "say", text="x" * 100_000)
    assert table.results["a2"].error_code == "too_large"
    assert len(table.acts) == 1


# ---------------------------------------------------------------- hostile frames

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["", "x" * 400, "\ud800", "\x00", "hit"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4), max_leaves=12,
)  # fmt: skip
COMMANDS = st.sampled_from(
    ["startup", "context", "actions/register", "actions/unregister", "actions/force", "action/result", "shutdown/ready", "nope"],
)
FIELDS = st.sampled_from(
    ["message", "silent", "actions", "action_names", "query", "state", "priority", "ephemeral_context", "id", "success", "name", "schema"],
)
MEANT = st.sampled_from([["hit"], [{"name": "hit", "description": "d", "schema": {}}], "a1", True, False])
BODIES = VALUES | st.dictionaries(FIELDS, VALUES | MEANT, max_size=6)
FRAMES = st.fixed_dictionaries({}, optional={"command": COMMANDS | SCALARS, "game": SCALARS, "data": BODIES}) | VALUES
MESSAGES = FRAMES.map(json.dumps) | st.binary(max_size=200) | st.text(max_size=200)


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES | st.sampled_from(["<act>", "<wait>", "<cut>"]), max_size=25))
def test_nothing_that_a_game_says_raises_or_loses_an_action(script: list[str | bytes]) -> None:
    """W5, P1: any frames, with actions, waits and cuts between them: every action ends once, nothing spins, what is told is clean."""
    table = Table.set("hit")
    asked = 0
    for step in script:
        if step == "<act>":
            asked += 1
            table.act(f"a{asked}", "hit")
        elif step == "<wait>":
            table.later(7)
        elif step == "<cut>":
            table.close()
            table.connect()
        else:
            table.says(step)
    table.later(1_000)
    assert set(table.results) == {f"a{n + 1}" for n in range(asked)}
    assert all(each.text.encode() and "\x00" not in each.text for each in table.told)
    assert all(name for name in table.offered)
    for spec in table.link.actions.specs:
        sound(spec.schema, top=True)
    assert len(table.acts) <= asked


@pytest.mark.parametrize(
    "message",
    [
        "", "null", "[]", "7", "{", '"startup"', '{"command":7}', "[" * 100_000, '{"a":' * 50_000, "[[],[]," * 60_000, b"\xff\xfe\x00",
        '{"command":"context","data":' + "9" * 100_000 + "}", "x" * 2_000_000, b"\xed\xa0\x80" * 10,
    ],
    ids=range(14),
)  # fmt: skip
def test_what_is_no_frame_is_counted_and_dropped(message: str | bytes) -> None:
    """W5: torn, huge, nested, of another protocol."""
    table = Table.set("hit")
    before = len(table.wanted)
    table.says(message)
    assert table.link.counters.malformed == 1
    assert len(table.wanted) == before
    assert isinstance(neuro_wire.read(message).said, neuro_wire.Malformed)


def test_a_peer_that_speaks_something_else_is_hung_up_on() -> None:
    """W5: a hundred malformed frames in a minute; ninety-nine, or ever so many over a day, are borne."""
    table = Table.set("hit")
    for _ in range(300):
        table.says("{")
        table.later(5)
    assert table.hangups == []
    for _ in range(100):
        table.says("{")
    assert table.hangups == [1008]
