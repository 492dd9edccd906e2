"""A session's life in examples: turns, waking, tools, yielding. Rows: P1, P12, P14, P15, C3, C7, C9, C35, T1."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import effects as fx
from runtime.core import events as ev
from runtime.core.fitting import room_of
from runtime.core.restarting import GENERATION
from runtime.core.turns import State
from runtime.core.values import Failure, Fault, Stop

from .histories import count, flat
from .shell import Shell, settings_of


def awake(**more: Any) -> Shell:
    """A shell whose session has just been told a line, its first request under way."""
    shell = Shell(settings_of(**more))
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare()
    return shell


def kinds(shell: Shell) -> list[str]:
    return [log.kind for log in shell.logs]


# ---------------------------------------------------------------- waking
def test_ambient_news_is_gathered_and_more_of_it_never_puts_the_turn_off() -> None:
    """P1: a world that never stops talking cannot keep the NPC from its turn."""
    shell = Shell(settings_of())
    shell.attach()
    start = shell.now
    while not shell.asked:
        shell.now += 0.3
        shell.hear(40)
        timer = shell.timers["gather"]
        if timer.at <= shell.now:
            shell.fire("gather")
        assert shell.now < start + 2
    shell.prepare()
    assert len(shell.inbox) == 0


def test_an_idle_npc_wakes_ever_more_rarely_until_something_happens() -> None:
    """P12: 45 s, then twice as long each time, up to the longest; a host's own notice that nothing happened is no news; news resets it."""
    shell = Shell(settings_of())
    shell.attach()
    waits = []
    for _ in range(7):
        waits.append(shell.timers["idle"].at - shell.now)
        shell.fire("idle")
        assert shell.asked
        shell.inbox = [ev.Observation(text="Nothing new has happened. Time passes.", tokens=9)]
        shell.prepare()
        shell.say()
    assert waits == [45, 90, 180, 360, 720, 900, 900]
    shell.hear(40, urgent=True)
    shell.prepare()
    shell.say()
    assert shell.timers["idle"].at - shell.now == 45


def test_news_that_was_drained_already_costs_no_call() -> None:
    """P12: an announcement that comes after its news was taken along begins no request."""
    shell = awake()
    shell.stirs += 1
    shell.say()
    shell.feed(ev.Stirred(now=shell.now, n=shell.stirs, urgent=True))
    shell.prepare()
    assert shell.call is None
    assert shell.session.state is State.IDLE
    shell.prove_alive()


def test_over_the_days_money_only_urgent_news_starts_turns_and_few() -> None:
    """C9: the NPC slows down and does not fall silent; the idle timer does not put the slow turn off; the next day it is awake again."""
    shell = awake(dollars_per_day=0.01)
    shell.answer({"type": "text", "text": "Well met."}, dollars=0.0097)
    shell.hear(40)
    assert "gather" not in {tag for tag, t in shell.timers.items() if t.op == shell.session.op}
    shell.hear(40, urgent=True)
    due = shell.timers["gather"].at
    assert due - shell.now == 60
    shell.fire("idle")
    assert shell.timers["gather"].at == due
    shell.fire("gather")
    shell.prepare()
    shell.say()
    shell.now += 86_400
    shell.fire("idle")
    assert shell.asked


def test_a_clock_that_is_set_back_does_not_make_the_npc_deaf() -> None:
    """P1: what was not to happen before a time that is now hours away happens after the longest wait at the latest."""
    shell = awake()
    shell.fail(Fault.STOPPED)
    shell.now -= 7_200
    shell.hear(40, urgent=True)
    assert shell.timers["gather"].at <= shell.now + 60


def test_a_timer_that_is_late_does_not_matter() -> None:
    """P1: when the time to gather is over and its timer has not come yet, the next news begins the turn."""
    shell = Shell(settings_of())
    shell.attach()
    shell.hear(40)
    shell.now = shell.timers.pop("gather").at + 0.1
    shell.hear(40)
    assert shell.asked


# ---------------------------------------------------------------- tools and yielding
def test_results_come_back_in_call_order_in_one_message() -> None:
    """C3: whatever order the tools finish in."""
    shell = awake()
    shell.use("a", "b", "c")
    for call in ("c", "a", "b"):
        shell.finish(call)
    shell.prepare()
    assert [b["tool_use_id"] for b in shell.bodies[-1]["messages"][-2]["content"]] == ["a", "b", "c"]


def test_while_the_body_moves_no_call_is_made() -> None:
    """P14: a long action yields the turn; ambient news waits, an urgent line wakes the mind, and all that happened follows the results."""
    shell = awake()
    shell.use("walk")
    shell.start("walk")
    assert shell.session.state is State.YIELDED
    shell.hear(60)
    assert "woken from yield" not in kinds(shell)
    shell.hear(60, urgent=True, name="hey")
    assert shell.asked
    assert shell.asked.reason == "woke"
    shell.prepare()
    results, apart, told = shell.bodies[-1]["messages"][-4:-1]
    assert [b["type"] for b in results["content"]] == ["tool_result"]
    assert "still under way" in str(results)
    assert apart["role"] == "assistant", "words never follow results in one message"
    assert "hey" in str(told)
    assert "seen103" in str(told)


def test_urgent_news_during_a_step_does_not_wait_for_the_body() -> None:
    """P14: what was said to the NPC just before its body set out wakes the mind at once, not at the deadline."""
    shell = awake()
    shell.use("walk")
    shell.hear(60, urgent=True, name="hey")
    shell.start("walk")
    assert shell.asked
    shell.prepare()
    assert "hey" in str(shell.bodies[-1]["messages"])


def test_the_end_of_an_action_that_was_under_way_is_told() -> None:
    """P14: its call is closed when the mind wakes early; how it ends comes as news later, once, whoever is quicker."""
    shell = awake()
    shell.use("walk")
    shell.start("walk")
    shell.hear(60, urgent=True)
    shell.prepare()
    shell.say("Coming!")
    shell.finish("walk", 50)
    assert shell.session.state is State.IDLE
    shell.fire("gather")
    shell.prepare()
    assert 'source="look"' in str(shell.bodies[-1]["messages"][-2])
    assert "result1" in str(shell.bodies[-1]["messages"][-2])
    shell.say()
    assert not shell.session.late


def test_a_result_between_waking_and_the_request_is_not_lost() -> None:
    """P14: the body arrives while the request is being prepared: that is its result, not a note that it is under way."""
    shell = awake()
    shell.use("walk")
    shell.start("walk")
    shell.hear(60, urgent=True)
    shell.finish("walk", 50)
    shell.prepare()
    assert "still under way" not in str(shell.bodies[-1]["messages"])
    assert "result1" in str(shell.bodies[-1]["messages"])


def test_a_result_for_older_calls_of_the_same_id_changes_nothing() -> None:
    """P14: models give ids twice over a life; the operation says which call a result is for."""
    shell = awake()
    shell.use("call_1")
    old = shell.tools["call_1"]
    shell.finish("call_1")
    shell.prepare()
    shell.session.messages = shell.session.messages[:1]  # as after a trim, the id is free again
    shell.last = None
    shell.use("call_1")
    shell.feed(ev.ToolFinished(now=shell.now, op=old, call="call_1", text="of another time"))
    assert shell.session.waiting_calls == ("call_1",)
    assert kinds(shell)[-1] == "stale"


def test_a_tool_that_never_answers_does_not_hold_the_turn() -> None:
    """P1: after a while its outcome is unknown, the others keep their results, and the turn goes on."""
    shell = awake()
    shell.use("a", "b")
    shell.finish("a")
    shell.fire("tools")
    shell.prepare()
    results = shell.bodies[-1]["messages"][-2]["content"]
    assert "result1" in results[0]["content"]
    assert "the outcome of this action is unknown" in results[1]["content"]


def test_whoever_never_answers_does_not_hold_the_session() -> None:
    """P1: materials, a model call and a reset that never come back are gone on without, and what comes later is stale."""
    shell = Shell(settings_of())
    shell.attach()
    shell.hear(40, urgent=True)
    shell.fire("watch")
    shell.prepare()
    late = shell.call
    assert late is not None
    shell.fire("watch")
    assert shell.session.state is State.WAITING
    shell.feed(ev.ModelReturned(now=shell.now, op=late.op, outcome=Failure(fault=Fault.INVALID, message="late")))
    assert kinds(shell)[-1] == "stale"
    shell.fire("retry")
    shell.prepare()
    for _ in range(2):
        shell.fail(Fault.INVALID)
        if shell.asked:
            shell.prepare()
    assert shell.persist
    shell.fire("watch")
    shell.prepare()
    shell.say()
    assert shell.session.resets == 1
    assert len(shell.pages) == 3
    shell.prove_alive()


def test_an_answer_of_the_wrong_kind_is_stale() -> None:
    """P14: an operation is answered by what it asked for, and by nothing else."""
    shell = Shell(settings_of())
    shell.attach()
    shell.hear(40, urgent=True)
    failure = Failure(fault=Fault.INVALID, message="no call was made")
    shell.feed(ev.ModelReturned(now=shell.now, op=shell.session.op, outcome=failure))
    assert kinds(shell)[-1] == "stale"
    shell.prepare()
    shell.feed(ev.Prepared(now=shell.now, op=shell.session.op, fixed=shell.fixed))
    assert kinds(shell)[-1] == "stale"
    shell.say()


def test_waiting_does_not_use_up_a_turns_time() -> None:
    """C9, P14: the wall clock of a turn stands still while the body walks or the model is away; steps and thinking are capped."""
    shell = awake(yield_s=600.0)
    shell.use("walk")
    shell.start("walk")
    shell.now += 500
    shell.finish("walk")
    shell.prepare()
    shell.use("again")
    shell.finish("again")
    assert shell.asked, "the turn is not out of time"
    shell.prepare()
    shell.use("more")
    shell.now += 200
    shell.finish("more")
    assert shell.session.state is State.IDLE
    assert shell.logs[-1].data["ended"] == "out of time"


def test_a_turn_has_a_last_step() -> None:
    """C9: out of steps, the turn ends, and the next one is told so."""
    shell = awake(steps_per_turn=2)
    for call in ("a", "b"):
        shell.use(call)
        shell.finish(call)
        if shell.asked:
            shell.prepare()
    assert shell.session.state is State.IDLE
    shell.hear(40, urgent=True)
    shell.prepare()
    assert "[turn 1 was ended: out of steps]" in str(shell.bodies[-1]["messages"])
    assert shell.bodies[-1]["messages"][-3]["content"][0]["text"] == "(cut short)", "words never follow results in one message"


def test_a_turn_ends_where_its_world_went() -> None:
    """P1: nothing is asked of the model without a world; what was unfinished goes on soon after it is back."""
    shell = awake()
    shell.use("a")
    shell.detach()
    shell.finish("a")
    assert shell.session.state is State.DETACHED
    shell.attach()
    assert shell.timers["idle"].at - shell.now < 1


# ---------------------------------------------------------------- answers
def test_a_paused_answer_is_sent_back_as_it_is() -> None:
    """C7: no word of ours in between, no system message behind it, a few times at most."""
    shell = awake()
    for _ in range(3):
        shell.answer({"type": "text", "text": "Let me see."}, stop=Stop.PAUSE_TURN)
        shell.prepare()
        assert shell.bodies[-1]["messages"][-1]["role"] == "assistant"
    shell.answer({"type": "text", "text": "Let me see."}, stop=Stop.PAUSE_TURN)
    assert shell.session.state is State.IDLE
    assert kinds(shell).count("rung") == 0


@pytest.mark.parametrize("fault", [Fault.CREDENTIAL, Fault.PERMISSION, Fault.MODEL])
def test_a_refused_key_ends_a_session_only_at_its_start(fault: Fault) -> None:
    """P8, exit code 5 at the start; later the operator is told once and the session waits, for as long as it takes."""
    shell = awake()
    shell.fail(fault)
    assert shell.end is not None
    assert shell.end.code == 5
    later = awake()
    later.say()
    later.hear(40, urgent=True)
    later.prepare()
    for _ in range(5):
        later.fail(fault)
        assert later.session.state is State.WAITING
        later.fire("retry")
        later.prepare()
    assert later.end is None
    assert len(later.pages) == 1
    later.say()
    later.prove_alive()


def test_a_long_outage_neither_ends_the_turn_nor_fills_the_window() -> None:
    """P1, C8: the model is away for hours of a busy world: no reset, no diary full of resets, and the turn goes on when it is back."""
    shell = awake(window=3_000)
    for n in range(200):
        shell.fail(Fault.TRANSIENT, retry_after_s=1e9 if n == 7 else None)
        assert shell.timers["retry"].at <= shell.now + 300
        for _ in range(3):
            shell.hear(300)
        shell.fire("retry")
        shell.prepare()
    assert shell.session.resets == 0
    shell.say()
    shell.prove_alive()


def test_remedies_begin_anew_after_an_answer() -> None:
    """P11: a second refusal in the same turn, with an answer between, sets the newest item aside again and does not reset at once."""
    shell = awake()
    for call in ("a", "b"):
        shell.fail(Fault.REFUSED)
        shell.prepare()
        shell.use(call)
        shell.finish(call)
        shell.prepare()
    assert kinds(shell).count("set aside") == 2
    assert shell.session.resets == 0


def test_a_large_result_and_news_beside_it() -> None:
    """P9, P14: the body comes back with far too much, and someone speaks: the result is pressed, the line is whole, nothing is reset."""
    shell = awake()
    shell.use("walk")
    shell.start("walk")
    heard = shell.hear(300)
    shell.finish("walk", 36_000)
    shell.prepare()
    assert "characters cut here; event" in str(shell.bodies[-1]["messages"])
    assert heard.text in [b["text"] for b in shell.bodies[-1]["messages"][-2]["content"]]
    assert shell.session.resets == 0


def test_what_came_meanwhile_is_whole_where_it_fits_alone() -> None:
    """P9: news that came while the model was away fits the window alone, but not beside the turn so far: that gives way, not the news."""
    shell = awake()
    shell.fail(Fault.TRANSIENT)
    heard = shell.hear(7_600)
    shell.fire("retry")
    while not shell.call:
        shell.go_on()
    assert any(b.get("text") == heard.text for m in shell.bodies[-1]["messages"] for b in m["content"])


# ---------------------------------------------------------------- the notebook
def test_what_a_reset_leaves_begins_with_the_notebook_and_keeps_to_its_prefix() -> None:
    """D3, P7: the request after a reset holds it, a third of the room stays free; sent once, nothing is put before it any more."""
    shell = awake()
    while not shell.persist:
        shell.fail(Fault.INVALID)
        if shell.asked:
            shell.prepare()
    shell.persisted()
    shell.prepare(notebook=40_000)
    body = str(shell.bodies[-1]["messages"])
    assert body.count("<notebook>") == 1
    assert "characters cut here" in body
    assert shell.session.tokens <= room_of(shell.session).limit * 2 // 3 + 1
    shell.fail(Fault.TRANSIENT)
    shell.fire("retry")
    shell.prepare(notebook=80)
    shell.say()
    shell.prove_alive()


def test_the_notebook_is_shown_once_and_again_when_a_rung_took_it() -> None:
    """T8, P10: the same copy is not repeated; a changed one is; one that a cut took away stands in the very next request."""
    shell = Shell(settings_of())
    shell.attach()

    def turn(size: int, notes: int) -> int:
        shell.hear(size, urgent=True)
        shell.prepare(notebook=notes)
        shell.say()
        return str(shell.bodies[-1]["messages"]).count("<notebook>")

    assert [turn(40, 100), turn(40, 100), turn(40, 120)] == [1, 1, 2]
    assert turn(6_000, 120) == 1
    assert any(log.kind == "rung" for log in shell.logs)


# ---------------------------------------------------------------- crash and restart
def test_after_a_crash_the_request_has_the_same_bytes_up_to_what_was_sent() -> None:
    """C35: a checkpoint stands before every request that holds something new."""
    shell = awake()
    shell.use("a")
    shell.finish("a")
    shell.prepare()
    sent = flat(shell.bodies[-1])
    shell.crash()
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare()
    assert flat(shell.bodies[-1])[: len(sent)] == sent
    assert "[turn 1 was broken off by a restart]" in str(shell.bodies[-1]["messages"])


def test_an_operation_id_is_never_given_twice() -> None:
    """C35: action ids may rest on operation ids: a process that died before it stored anything leaves none to be given again."""
    shell = awake()
    first = shell.session.op
    shell.crash()
    second = shell.session.op
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare()
    third = shell.session.op
    shell.crash()
    assert first < GENERATION <= second < third < 2 * GENERATION <= shell.session.op


def test_an_unfinished_turn_wakes_early_once() -> None:
    """P12: after a crash the NPC looks soon what became of it, and then keeps its usual rhythm."""
    shell = awake()
    shell.crash()
    shell.attach()
    assert shell.timers["idle"].at - shell.now < 1
    shell.fire("idle")
    shell.prepare()
    shell.say()
    assert shell.timers["idle"].at - shell.now == 90


# ---------------------------------------------------------------- rung 6
def test_rung_six_at_the_start_names_every_part() -> None:
    """P8: nothing fits: exit code 3, every part with its size, and the operator is paged."""
    shell = Shell(settings_of(600))
    shell.attach()
    shell.hear(40, urgent=True)
    shell.prepare(extra=4_000)
    assert shell.end is not None
    assert shell.end.code == 3
    names = {p.name for p in shell.end.parts}
    assert names == {"tools", "rules", "persona", "tail", "output reserve", "safety margin", "smallest observation"}
    assert sum(p.tokens for p in shell.end.parts) > 600
    assert shell.pages


def test_a_constitution_that_grew_too_large_is_waited_for() -> None:
    """P1, T9: edited while running, it no longer fits: no call is made, the operator is told, and when it is mended the turn goes on."""
    shell = awake()
    shell.say()
    shell.hear(40, urgent=True, name="waiting")
    shell.prepare(extra=40_000)
    calls = len(shell.bodies)
    for _ in range(3):
        assert shell.session.state is State.WAITING
        shell.fire("retry")
        shell.prepare(extra=40_000)
    assert len(shell.bodies) == calls
    assert len(shell.pages) == 1
    shell.fire("retry")
    shell.prepare(extra=0)
    assert "waiting" in str(shell.bodies[-1]["messages"]), "what had been drained is not lost"
    shell.say()
    shell.prove_alive()


def test_a_learned_factor_never_gives_a_session_up() -> None:
    """P1, P8: a strange text once drove the factor up; the smallest request is made all the same, and answers bring it down."""
    shell = Shell(settings_of(1_400), factor=7.9)
    shell.attach()
    shell.hear(1_200, urgent=True)
    shell.prepare()
    shell.say()
    shell.factor = 1.4
    assert shell.session.calibration.factor > 7
    shell.crash()
    shell.attach()
    for _ in range(20):
        shell.hear(40, urgent=True)
        while shell.session.state is not State.IDLE:
            shell.go_on()
    assert shell.end is None
    assert shell.session.calibration.factor < 2.5


def test_every_step_leaves_its_line() -> None:
    """P15: wake, request, yield, reset, repair and refusal are each in the log, with reason and sizes."""
    shell = awake(window=1_400)
    shell.use("a")
    shell.finish("a", 20_000)
    shell.prepare()
    shell.fail(Fault.REFUSED)
    shell.prepare()
    assert {"wake", "request", "rung", "model failure", "set aside"} <= set(kinds(shell))
    rung = next(log.data for log in shell.logs if log.kind == "rung")
    assert {"rung", "before", "after", "failed", "note", "turn", "step"} <= set(rung)


@pytest.mark.parametrize(("told", "caps"), [(100, [256, 100, 100]), (None, [256, 128, 128])])
def test_a_model_that_cannot_write_so_much_is_asked_for_less(told: int | None, caps: list[int]) -> None:
    """P11: the limit that it told, or half where it told none; learned for the next turns too; nothing is asked for twice."""
    shell = awake()
    shell.fail(Fault.OUTPUT_LIMIT, limit=told)
    shell.prepare()
    shell.say()
    shell.hear(40, urgent=True)
    shell.prepare()
    assert [b["max_tokens"] for b in shell.bodies] == caps


def test_a_turn_that_made_no_sense_is_heard_again_once() -> None:
    """P1: what was said stays for the next turn after an answer that made no sense; after the second such turn both are gone."""
    shell = awake()
    shell.fail(Fault.STOPPED)
    for name in ("second", "third"):
        shell.hear(40, urgent=True, name=name)
        shell.fire("gather")
        shell.prepare()
        assert ("seen101" in str(shell.bodies[-1]["messages"])) == (name == "second")
        shell.fail(Fault.STOPPED)
    shell.prove_alive()


def test_settings_say_what_a_request_may_have() -> None:
    """C5: the output cap is the reserve, and a tail that stands in the history is counted once."""
    shell = awake(tail_as_system=False)
    body, call = shell.bodies[-1], shell.call
    assert call is not None
    assert isinstance(call, fx.CallModel)
    assert body["max_tokens"] == 256
    texts = sum(count(b["text"]) + 4 for m in body["messages"] for b in m["content"]) + 3
    assert call.raw - shell.fixed.tokens == pytest.approx(texts, abs=4)
