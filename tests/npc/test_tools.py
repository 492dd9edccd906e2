"""The world's actions as tools (W4, D03, C13)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.schemas import brief_schema, schema_of
from npc.tools import Toolbox, missing
from sim.api.shapes import CustomTool
from world_adapter.frames import ActionSpec


def action(name: str, schema: dict[str, object] | None = None) -> ActionSpec:
    return ActionSpec(
        name=name,
        description="does it",
        schema=schema or {"type": "object", "properties": {}},
        effect="write",
        reversible=True,
        reach="contained",
        kind="instant",
        moves_body=False,
    )


def test_the_same_actions_in_another_order_give_the_same_bytes() -> None:
    """D03: a reconnect that lists the actions in another order must not cost the cache."""
    one = Toolbox([action("a"), action("b"), action("c")]).tools
    two = Toolbox([action("c"), action("a"), action("b")]).tools
    assert json.dumps(one) == json.dumps(two)


@given(st.lists(st.text(min_size=1, max_size=90), max_size=12, unique=True))
def test_any_names_become_legal_unique_and_reversible(names: list[str]) -> None:
    """W4: what the API would refuse is mapped, and mapped back to the very action; ours are never shadowed."""
    box = Toolbox([action(n) for n in names])
    tools = [str(t["name"]) for t in box.tools]
    assert len(set(tools)) == len(tools) == len(names) + 1
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", t) for t in tools)
    assert sorted(a.name for a in box.actions.values()) == sorted(names)
    assert not any(t.startswith("npc_") for t in box.actions)


def test_a_legal_name_is_kept() -> None:
    """W4: actions keep their own names."""
    assert "move_to" in Toolbox([action("move_to")]).actions


def test_missing_arguments_are_named() -> None:
    """P13: an incomplete call is answered, not run."""
    assert missing({"type": "object", "required": ["to", "what"]}, {"to": "x"}) == ["what"]


def test_a_name_that_is_taken_at_every_length_is_given_in_the_end() -> None:
    """W4: a world that guesses what a name would be mapped to, and takes that, keeps nobody busy for ever."""
    mapped = next(iter(Toolbox([action("zz~" + "z" * 60)]).actions))
    taken = [mapped]
    for _ in range(40):
        taken.append(f"{taken[-1][:62]}_2")
    names = [*dict.fromkeys(taken), "zz~" + "z" * 60]
    assert sorted(a.name for a in Toolbox([action(n) for n in names]).actions.values()) == sorted(names)


SOUND: list[dict[str, Any]] = [
    {"type": "object", "properties": {"to": {"$ref": "#/$defs/place"}}, "$defs": {"place": {"enum": ["mill", 1, None]}}},
    {"type": "object", "properties": {"n": {"type": ["integer", "null"], "minimum": 0}, "x": {"anyOf": [{"const": 1}, True]}}},
    {"type": "object", "properties": {"n": {}}, "required": ["n"], "x-of-the-worlds-own": [1]},
    {"type": "object"},
]


@pytest.mark.parametrize("schema", SOUND)
def test_a_sound_schema_stays_as_it_is(schema: dict[str, Any]) -> None:
    """W4: what an endpoint takes is shown to the model word for word, but for the dialect that it names."""
    assert schema_of(schema) == schema
    assert schema_of({"$schema": "http://json-schema.org/draft-07/schema#", **schema}) == schema


_WORDS = [
    "type", "properties", "required", "items", "enum", "anyOf", "oneOf", "$ref", "$defs", "pattern", "minLength", "multipleOf", "a b",
]  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.sampled_from(["object", "string", "#/$defs/a", "(", "text"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=5),
    max_leaves=25,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["type", "properties", "required", "$defs", "anyOf", "$schema"]), _JSON))
def test_of_any_schema_something_is_left_that_an_endpoint_takes(schema: dict[str, Any]) -> None:
    """W4, W5: an endpoint refuses a request for one bad schema, every time."""
    for made in (schema_of(schema), brief_schema(schema), schema_of(brief_schema(schema))):
        CustomTool.model_validate({"name": "do", "input_schema": made})
        assert made["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf"} & made.keys()
        assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in made.get("properties", {}))
        assert schema_of(made) == made
    assert isinstance(missing(schema, {}), list)
