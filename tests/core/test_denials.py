"""A turn in which nothing is run any more ends (C27, C28, P1, P12, T14)."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from runtime.core.acting import DENIED_STEPS
from runtime.core.resting import REFUSED
from runtime.core.turns import State

from .examples import examples
from .shell import Shell, settings_of


def awake(*, steps: int = 20, urgent: bool = True) -> Shell:
    shell = Shell(settings_of(steps_per_turn=steps))
    shell.attach()
    shell.hear(200, urgent=urgent)
    shell.prepare()
    return shell


def step(shell: Shell, ends: Sequence[bool], name: str) -> None:
    """The model calls tools, each of which is denied or not."""
    ids = [f"{name}_{n}" for n in range(len(ends))]
    shell.use(*ids)
    for call, denied in zip(ids, ends, strict=True):
        shell.finish(call, error=denied, denied=denied)
    if shell.asked:
        shell.prepare()


def ended(shell: Shell) -> list[str]:
    return [str(line.data["ended"]) for line in shell.logs if line.kind == "turn"]


def test_a_turn_with_nothing_but_refusals_ends_and_says_so() -> None:
    """C27: three steps in a row; the results stand in the history, and the next turn is told."""
    shell = awake()
    for n in range(DENIED_STEPS):
        assert shell.session.state is State.THINKING
        step(shell, [True, True], f"s{n}")
    assert ended(shell) == [REFUSED]
    assert shell.session.state is State.IDLE
    shell.hear(200, urgent=True)
    shell.prepare()
    assert REFUSED in str(shell.bodies[-1]["messages"])


def test_one_call_that_is_run_is_reason_to_go_on() -> None:
    """C27: beside refusals, or between them."""
    shell = awake()
    for n in range(4):
        step(shell, [True, False], f"s{n}")
        step(shell, [True], f"t{n}")
    assert ended(shell) == []


def test_the_next_idle_wake_backs_off_even_where_there_was_news() -> None:
    """P12: whoever is refused everything is not asked again at the usual pace."""
    waits = []
    for denied in (False, True):
        shell = awake()
        for n in range(DENIED_STEPS):
            step(shell, [denied], f"s{n}")
        if not denied:
            shell.say("done")
        waits.append(shell.session.idle_s)
    assert waits == [shell.settings.idle_s, 2 * shell.settings.idle_s]


def test_the_count_survives_a_restart_and_ends_with_the_turn() -> None:
    """T14: in the snapshot while the turn lasts; the next turn begins without it."""
    shell = awake()
    step(shell, [True], "a")
    shell.use("b_0")
    shell.finish("b_0", error=True, denied=True)
    twin = shell.restored()
    assert twin.denied_steps == 2
    shell.prepare()
    step(shell, [True], "c")
    assert ended(shell) == [REFUSED]
    shell.hear(200, urgent=True)
    shell.prepare()
    step(shell, [True], "d")
    assert shell.session.state is State.THINKING


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=9))
@examples(25)
def test_a_turn_ends_by_refusals_exactly_then(steps: list[list[bool]]) -> None:
    """P1, C27: whatever is denied in whatever order, the turn goes on or ends, and never stands still."""
    shell, row = awake(), 0
    for n, ends in enumerate(steps):
        step(shell, ends, f"s{n}")
        row = row + 1 if all(ends) else 0
        assert (shell.session.state is State.IDLE) == (row == DENIED_STEPS)
        if row == DENIED_STEPS:
            return
    shell.prove_alive()
