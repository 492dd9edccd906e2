"""The body acts and the mind is away: generations of calls, resting on, deadlines. Rows: P14, P15, C29."""

from __future__ import annotations

from typing import Any

from runtime.core import events as ev
from runtime.core.effects import Log
from runtime.core.turns import State

from .shell import Shell, settings_of


def walking(**more: Any) -> Shell:
    """A body that has set out."""
    shell = Shell(settings_of(**more))
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare()
    shell.use("walk")
    shell.start("walk")
    return shell


def interrupted(**more: Any) -> Shell:
    """The same, and its mind was spoken to on the way and has answered."""
    shell = walking(**more)
    shell.hear(40, urgent=True)
    shell.prepare()
    shell.say("Coming!")
    assert shell.session.state is State.IDLE
    return shell


def logged(shell: Shell, kind: str) -> list[Log]:
    return [line for line in shell.logs if line.kind == kind]


def test_the_reason_of_a_wake_is_in_the_log_and_the_time_away_in_the_request() -> None:
    """P14, P15: also where it came before the body had set out."""
    shell = walking()
    shell.now += 42
    shell.feed(ev.Stirred(now=shell.now, n=9, urgent=True, why="hurt"))
    assert shell.asked
    assert (shell.asked.reason, shell.asked.away_s) == ("woke", 42.0)
    assert logged(shell, "woken from yield")[0].data["reason"] == "hurt"
    shell = Shell(settings_of())
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare()
    shell.use("walk")
    shell.feed(ev.Stirred(now=shell.now, n=9, urgent=True, why="operator"))
    shell.start("walk")
    assert logged(shell, "woken from yield")[0].data["reason"] == "operator"


def test_after_an_interruption_ambient_news_waits_for_the_end_of_the_walk() -> None:
    """P14: no call while the body moves on; its end is told at once, with the time that the mind was away."""
    shell = interrupted()
    shell.now += 5
    shell.hear(40)
    assert shell.timers["gather"].at - shell.now == 115
    shell.now += 30
    shell.finish("walk")
    assert shell.timers["gather"].at - shell.now == shell.settings.gather_s
    shell.fire("gather")
    assert shell.asked
    assert shell.asked.away_s == 35.5
    shell.prepare()
    assert "end of what was under way" in str(shell.bodies[-1]["messages"][-2])


def test_after_an_interruption_an_urgent_line_still_wakes_at_once() -> None:
    """P14, P1: what was put off for the body is not put off for people."""
    shell = interrupted()
    shell.hear(40)
    shell.hear(40, urgent=True)
    assert shell.asked


def test_the_deadline_ends_the_rest_and_idling_does_not_cut_it_short() -> None:
    """P14, P12: with news or without, a body that walks on is looked after when the deadline is over."""
    shell = interrupted(yield_s=100.0)
    shell.fire("idle")
    assert len(shell.bodies) == 2
    assert shell.timers["idle"].at - shell.now == 55
    shell.fire("idle")
    assert shell.asked
    assert shell.asked.away_s == 100.0


def test_an_end_that_is_never_told_does_not_make_it_slow_for_ever() -> None:
    """P1: nor does a clock that was set back meanwhile."""
    for jump in (1_801.0, -7_200.0):
        shell = interrupted()
        shell.now += jump
        shell.hear(40)
        assert shell.timers["gather"].at - shell.now <= shell.settings.gather_s


def test_an_end_that_another_call_has_told_is_no_news() -> None:
    """P14: a walk that was stopped by an order is over, and its end begins no turn."""
    shell = interrupted()
    op = shell.tools["walk"]
    shell.feed(ev.ToolFinished(now=shell.now, op=op, call="walk", text="stopped", told=True))
    assert not shell.session.late
    assert not shell.session.under_way
    shell.feed(ev.ToolFinished(now=shell.now, op=op, call="walk", text="once more"))
    assert logged(shell, "stale")
    assert not shell.session.late


def test_two_walks_of_one_id_end_each_for_itself() -> None:
    """P14, C29: a server gives one id to all calls, and the first is out of the history when the second begins."""
    shell = interrupted()
    first = shell.tools["walk"]
    shell.session.messages, shell.last = (), None  # as after a reset
    shell.hear(40, urgent=True)
    shell.prepare()
    shell.use("walk")
    shell.start("walk")
    assert shell.session.state is State.YIELDED
    shell.feed(ev.ToolFinished(now=shell.now, op=first, call="walk", text="the old one is over"))
    assert shell.session.state is State.YIELDED
    shell.finish("walk")
    shell.prepare()
    results = [b for m in shell.bodies[-1]["messages"] for b in m["content"] if b["type"] == "tool_result"]
    assert "the old one" not in str(results)
    assert shell.session.owes("walk", first) is False
    shell.say()
    assert "the old one is over" in str(shell.bodies[-1]) or shell.session.late


def test_without_yielding_an_accepted_action_is_a_result() -> None:
    """P14: what the saving is measured against."""
    shell = walking(yields=False)
    assert shell.session.state is State.THINKING
    shell.prepare()
    assert "still under way" in str(shell.bodies[-1]["messages"])
    shell.say()
    shell.hear(40)
    assert shell.timers["gather"].at - shell.now == shell.settings.gather_s
    assert not logged(shell, "yield")
