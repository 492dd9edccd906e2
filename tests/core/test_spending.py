"""Money and steps by hour and day: the stages of a session, and an account that counts each payment once. Rows: C9, C15, P12, P15."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core.layout import Shape
from runtime.core.session import Session
from runtime.core.spending import DAY_S, HOUR_S, HOURS, Account, Cheaper, Limits, Stage, total
from runtime.core.spent import Spent
from runtime.core.turns import State
from runtime.core.values import Fault, Stop

from .examples import examples
from .histories import count
from .shell import NOW, Shell, settings_of

START = NOW // DAY_S * DAY_S + 60  # a minute after midnight


def awake(**more: Any) -> Shell:
    """A session that is asked for its first answer."""
    shell = Shell(settings_of(**more))
    shell.now = START
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare()
    return shell


def pays(shell: Shell, dollars: float, *, use: str = "") -> None:
    """The model answers, for so much."""
    if use:
        shell.answer({"type": "tool_use", "id": use, "name": "look", "input": {}}, stop=Stop.TOOL_USE, dollars=dollars)
    else:
        shell.answer({"type": "text", "text": "Well met."}, dollars=dollars)


def stages(shell: Shell) -> list[str]:
    return [str(log.data["stage"]) for log in shell.logs if log.kind == "stage"]


def due(shell: Shell, tag: str) -> float | None:
    """In how many seconds a timer of the current operation runs out."""
    timer = shell.timers.get(tag)
    return timer.at - shell.now if timer and timer.op == shell.session.op else None


# ------------------------------------------------------------ stages
def test_it_saves_before_it_falls_back_on_reflexes_and_each_change_is_one_event() -> None:
    """C9, P15: beyond the soft share it wakes more rarely and asks for less; at the hard limit only who addresses it counts."""
    shell = awake(dollars_per_day=1.0)
    full = shell.bodies[-1]["max_tokens"]
    pays(shell, 0.85)
    assert (stages(shell), due(shell, "idle"), shell.pages) == (["saving"], 900.0, [])
    shell.hear(40)
    assert due(shell, "gather") == 10.0
    shell.fire("gather")
    shell.prepare()
    assert shell.bodies[-1]["max_tokens"] == full // 2
    pays(shell, 0.11)
    assert stages(shell) == ["saving", "reflexes"]
    (page,) = shell.pages
    assert "$0.96 of $1" in page
    shell.hear(40)
    assert due(shell, "gather") is None
    (log,) = [log for log in shell.logs if log.kind == "stage" and log.data["stage"] == "reflexes"]
    assert log.data["day"] == {"steps": 2, "calls": 2, "dollars": pytest.approx(0.96)}


def test_of_the_reserve_each_address_gets_one_call_and_not_more_than_one_a_minute() -> None:
    """C9: near the cap it slows down; with the reserve spent no call is made at all, and the next day it is itself again."""
    shell = awake(dollars_per_day=1.0)
    pays(shell, 0.96)
    shell.now += 5
    shell.hear(40, urgent=True)
    assert due(shell, "gather") == 55.0
    shell.fire("gather")
    shell.prepare()
    pays(shell, 0.01, use="a")
    shell.finish("a")
    assert (shell.session.state, shell.asked) == (State.IDLE, None), "one answer, and the turn is over, its result in place"
    shell.hear(40, urgent=True)
    shell.fire("gather")
    shell.prepare()
    pays(shell, 0.03)
    shell.hear(40, urgent=True)
    while shell.asked is None:
        assert shell.call is None
        assert shell.now < START + 2 * DAY_S
        shell.go_on()
    assert shell.now >= START + DAY_S - 60
    assert stages(shell) == ["reflexes", "free"]


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (Limits(dollars_per_hour=0.01), "dollars of the hour"),
        (Limits(steps_per_hour=1), "steps of the hour"),
        (Limits(calls_per_hour=1), "calls of the hour"),
        (Limits(steps_per_day=1), "steps of the day"),
    ],
)
def test_every_limit_of_an_hour_or_a_day_is_held(limits: Limits, what: str) -> None:
    """C9: whichever is reached first; the hour's with the hour, the day's with the day."""
    shell = awake(limits=limits)
    pays(shell, 0.02)
    assert stages(shell) == ["reflexes"]
    assert what in shell.pages[0]
    shell.hear(40, urgent=True)
    while not shell.asked:
        shell.go_on()
    assert shell.now == START - 60 + (DAY_S if "day" in what else HOUR_S)


def test_a_turn_over_its_money_ends_in_order() -> None:
    """C9, P13: with its results in place, and what comes next is a turn like any other."""
    shell = awake(limits=Limits(dollars_per_turn=0.05))
    pays(shell, 0.03, use="a")
    shell.finish("a")
    shell.prepare()
    pays(shell, 0.03, use="b")
    shell.finish("b")
    assert shell.session.state is State.IDLE
    assert [log.data["ended"] for log in shell.logs if log.kind == "turn"] == ["out of money for one turn"]
    shell.prove_alive()


def test_a_step_that_takes_too_long_is_an_absence_and_is_paid_all_the_same() -> None:
    """C9: the call is waited for no more; what it cost when it came after all counts."""
    shell = awake(limits=Limits(seconds_per_step=20.0))
    call = shell.call
    assert call
    assert due(shell, "watch") == 20.0
    shell.fire("watch")
    assert shell.session.state is State.WAITING
    assert shell.pages == []
    shell.call = call
    shell.returned_late(0.25)
    assert shell.session.dollars == pytest.approx(0.25)
    shell.prove_alive()


def test_while_the_body_walks_on_without_money_its_arrival_makes_no_call() -> None:
    """C9, P14: the turn that yielded ends with its results in place."""
    shell = awake(dollars_per_day=1.0)
    pays(shell, 0.97, use="walk")
    shell.start("walk")
    assert shell.session.state is State.YIELDED
    shell.finish("walk")
    assert (shell.session.state, shell.asked) == (State.IDLE, None)
    shell.prove_alive()


def test_no_answer_of_a_step_is_longer_than_it_may_cost() -> None:
    """C9: also when it is tried again with more room."""
    shell = awake(limits=Limits(output_per_step=100))
    assert shell.bodies[-1]["max_tokens"] == 100
    shell.answer({"type": "text", "text": "half"}, stop=Stop.MAX_TOKENS)
    assert shell.call is None


def test_without_a_limit_nothing_changes() -> None:
    """C9: requests of a session with money are the same bytes as without a budget."""
    bodies = []
    for more in ({}, {"limits": Limits(dollars_per_hour=4.0, steps_per_hour=100, soft_share=0.5), "cheaper": CHEAPER}):
        shell = awake(dollars_per_day=9.0, **more)
        for n in range(4):
            pays(shell, 0.1, use=f"a{n}")
            shell.finish(f"a{n}")
            shell.prepare()
        bodies.append([json.dumps(body) for body in shell.bodies])
    assert bodies[0] == bodies[1]


# ------------------------------------------------------------ another model
CHEAPER = Cheaper(shape=Shape(model="small", tail_as_system=False), output_per_step=90)


def test_a_cheaper_model_is_taken_at_a_turns_start_and_given_back_later() -> None:
    """C9, C33: never in the middle of a turn; what was learned of the one is not believed of the other; not to and fro."""
    shell = awake(limits=Limits(dollars_per_hour=1.0), cheaper=CHEAPER)
    pays(shell, 0.85, use="a")
    learned = shell.session.calibration
    shell.finish("a")
    shell.prepare()
    assert shell.bodies[-1]["model"] == "m"
    pays(shell, 0.01)
    shell.now += HOUR_S - 300  # five minutes before the next hour
    shell.hear(40, urgent=True)
    shell.prepare()
    assert (shell.bodies[-1]["model"], shell.bodies[-1]["max_tokens"]) == ("small", 90)
    assert shell.session.calibration != learned
    pays(shell, 0.01)
    shell.now += 420
    shell.hear(40, urgent=True)
    shell.prepare()
    assert shell.bodies[-1]["model"] == "small", "it was switched to a moment ago"
    pays(shell, 0.01)
    shell.now += 300
    shell.hear(40, urgent=True)
    shell.prepare()
    assert shell.bodies[-1]["model"] == "m"
    assert [log.data["model"] for log in shell.logs if log.kind == "model"] == ["small", "m"]


# ------------------------------------------------------------ the mind is away
def absences(shell: Shell) -> list[str]:
    return [effect.level for effect in shell.absences]


def test_a_model_that_is_away_for_long_is_told_of_once_and_its_return_too() -> None:
    """C9, P15: not at the first failure; a clock that is set back holds nothing."""
    shell = awake()
    for _ in range(3):
        shell.fail(Fault.TRANSIENT)
        assert absences(shell) == []
        shell.fire("retry")
        shell.prepare()
    shell.fail(Fault.TRANSIENT)
    assert absences(shell) == ["all"]
    shell.now -= 7_200
    shell.fire("retry")
    shell.prepare()
    shell.fail(Fault.TRANSIENT)
    shell.fire("retry")
    shell.prepare()
    shell.say()
    assert absences(shell) == ["all", "none"]


# ------------------------------------------------------------ the account
steps = st.tuples(st.sampled_from(["paid", "stored", "died"]), st.floats(0, 40 * HOUR_S), st.sampled_from([0.0, 0.25, 1.0, 2.0]))


@examples(80)
@given(st.lists(steps, max_size=40))
def test_each_payment_is_counted_once_over_any_crash(life: list[tuple[str, float, float]]) -> None:
    """C9, C35: what a session knew when it was stored, and what the store knew when it died, together are what was paid."""
    now, true = START, Account()
    session = Session(settings_of(), count)
    stored, store = session.snapshot(), Account()
    for what, seconds, dollars in life:
        now += seconds
        if what == "paid":
            session.receive(ev.Paid(now=now, dollars=dollars))
            store = store.paid(now, Spent(0, 1, dollars))
            true = true.paid(now, Spent(0, 1, dollars))
        elif what == "stored":
            stored = json.loads(json.dumps(session.snapshot()))
        else:
            session = Session.restore(stored, settings_of(), count)
            session.receive(ev.Known(now=now, hours=tuple(store.hours.items())))
            session.receive(ev.Known(now=now, hours=tuple(store.hours.items())))
        assert (session.account.hour(now), session.account.day(now)) == (true.hour(now), true.day(now))


@examples(25)
@given(st.lists(st.tuples(st.floats(-9 * DAY_S, 9 * DAY_S), st.integers(1, 9)), max_size=30))
def test_no_clock_makes_a_stage_last_longer_than_its_window(jumps: list[tuple[float, int]]) -> None:
    """C9, P1: wherever the clock jumps to, after a day of it all is forgotten that stood in the way; and the account stays small."""
    shell = Shell(settings_of(dollars_per_day=5.0, limits=Limits(dollars_per_hour=2.0)))
    session, now = shell.session, START + 20 * DAY_S
    for seconds, dollars in jumps:
        now = max(0.0, now + seconds)
        session.receive(ev.Paid(now=now, dollars=float(dollars)))
    assert len(session.account.hours) <= HOURS
    shell.now = now
    shell.attach()
    shell.hear(40, urgent=True)
    for _ in range(200):
        if shell.asked:
            break
        shell.go_on()
    assert shell.asked
    assert shell.now - now <= DAY_S


@examples(40)
@given(st.lists(st.floats(0, 3 * DAY_S), max_size=80))
def test_an_hour_and_its_day_agree(times: list[float]) -> None:
    """C9: a day is its hours."""
    account = Account()
    for at in sorted(times):
        account = account.paid(START + at, Spent(1, 1, 1.0))
    if times:
        last = START + max(times)
        assert account.day(last).steps == sum((START + at) // DAY_S == last // DAY_S for at in times)
        assert total(account.hours.values()).steps == len(times)


def test_a_session_that_is_free_says_nothing() -> None:
    """C9: no event, no page, no effect for whoever lives here."""
    shell = awake()
    pays(shell, 0.01)
    assert (stages(shell), shell.pages, shell.absences, shell.session.stage) == ([], [], [], Stage.FREE)
    assert not any(isinstance(effect, fx.Absent) for effect in shell.since_call)
