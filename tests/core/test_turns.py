"""The table of turns and its drawing. Rows: P1, P14."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core import events as ev
from runtime.core.session import Session
from runtime.core.turns import MEANINGS, TABLE, Cause, State, drawn, follow
from runtime.core.values import Fault

from .histories import count
from .shell import Shell, settings_of

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


class Watched(Session):
    """A session that writes down how it moves."""

    moves: set[tuple[State, Cause]]

    def move(self, cause: Cause) -> None:
        self.moves.add((self.state, cause))
        super().move(cause)


def test_every_row_of_the_table_happens() -> None:
    """P1: no dead row; one life goes through all of them."""
    session = Watched(settings_of(steps_per_turn=2), count)
    session.moves = set()
    shell = Shell(session.settings, session=session)

    def restart() -> None:
        shell.forget()
        shell.feed(ev.Restarted(now=shell.now))
        shell.attach()

    def turn() -> None:
        shell.hear(40, urgent=True)
        shell.prepare()

    shell.attach()
    shell.detach()
    restart()
    restart()
    turn()
    shell.use("a")
    restart()
    turn()
    restart()
    turn()
    shell.use("walk")
    shell.start("walk")
    restart()
    turn()
    shell.use("run")
    shell.start("run")
    shell.finish("run")
    shell.prepare()
    shell.use("last")
    shell.finish("last")
    turn()
    shell.use("b")
    shell.finish("b")
    shell.prepare()
    shell.fail(Fault.TRANSIENT)
    restart()
    turn()
    shell.fail(Fault.TRANSIENT)
    shell.fire("retry")
    shell.prepare()
    for _ in range(2):
        shell.fail(Fault.INVALID)
        if shell.asked:
            shell.prepare()
    restart()
    turn()
    for _ in range(2):
        shell.fail(Fault.INVALID)
        if shell.asked:
            shell.prepare()
    shell.persisted()
    shell.prepare()
    shell.say()
    restart()
    turn()
    shell.fail(Fault.CREDENTIAL)
    assert session.moves == set(TABLE)


def test_an_unknown_transition_is_a_fault() -> None:
    """P1: nothing moves a session but the table."""
    with pytest.raises(ValueError, match="no transition from ended on woken"):
        follow(State.ENDED, Cause.WOKEN)
