"""The table of turns and its drawing. Rows: P1, P14."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core.turns import MEANINGS, TABLE, Cause, State, drawn, follow

PAGE = Path(__file__).parents[2] / "docs" / "turns.md"


def test_the_docs_are_drawn_from_the_table() -> None:
    """The page and the code never disagree."""
    assert PAGE.read_text(encoding="utf-8") == drawn(), "docs/turns.md is not runtime.core.turns.drawn() any more: write it anew"


def test_every_state_is_explained_reached_and_left() -> None:
    """P1: there is a way into every state, and out of every one but the end."""
    assert set(MEANINGS) == set(State)
    reached = {after for (state, _), after in TABLE.items() if after is not state}
    left = {state for (state, _), after in TABLE.items() if after is not state}
    assert reached == set(State)
    assert left == set(State) - {State.ENDED}
    assert {cause for _, cause in TABLE} == set(Cause)


def test_an_unknown_transition_is_a_fault() -> None:
    """P1: nothing moves a session but the table."""
    with pytest.raises(ValueError, match="no transition from ended on woken"):
        follow(State.ENDED, Cause.WOKEN)
