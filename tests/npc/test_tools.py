"""The world's actions as tools (W4, D03, C13)."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from npc.tools import Toolbox, missing
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
    assert len(set(tools)) == len(tools) == len(names) + 2
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", t) for t in tools)
    assert sorted(a.name for a in box.actions.values()) == sorted(names)
    assert not any(t.startswith("npc_") for t in box.actions)


def test_a_legal_name_is_kept() -> None:
    """W4: actions keep their own names."""
    assert "move_to" in Toolbox([action("move_to")]).actions


def test_missing_arguments_are_named() -> None:
    """P13: an incomplete call is answered, not run."""
    assert missing({"type": "object", "required": ["to", "what"]}, {"to": "x"}) == ["what"]
