"""Public bug reports of other agents, as far as the core decides them. Rows: P1, P3, P4, P7, P9, P10, P11, P13, C5, C6."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from runtime.core.budget import Budget
from runtime.core.layout import Shape
from runtime.core.session import Settings
from runtime.core.turns import State
from runtime.core.values import Fault, Stop

from .histories import RULE, flat
from .shell import Shell, settings_of


def told(shell: Shell, size: int, name: str = "") -> None:
    shell.hear(size, urgent=True, name=name)
    shell.prepare()


def life(settings: Settings, **more: Any) -> Shell:
    shell = Shell(settings, **more)
    shell.attach()
    return shell


def finish_turn(shell: Shell) -> None:
    while shell.session.state is not State.IDLE:
        shell.go_on()


def test_a01_the_summary_never_needs_the_room_that_it_is_to_make() -> None:
    """A01 (claude-code 23047): what is asked of the summariser at once fits its window; the turn goes on whatever becomes of it."""
    shell = life(settings_of(3_000, summary_tokens=100))
    for _ in range(120):
        told(shell, 900)
        shell.say("I said a thing that is worth a line of its own. " * 4)
        if shell.summary and shell.session.turn > 60:
            text = " ".join(x.text for x in shell.summary.lines)
            assert len(text) / 4 * 1.6 < 3_000
            shell.summarised("")
    assert shell.session.state is State.IDLE


def test_a02_a_pass_that_leaves_too_much_is_not_repeated_for_ever() -> None:
    """A02 (opencode 48828): the fixed part alone is 70 % of the window, the trigger at 65 %: few summaries, no wasted rungs, turns flow."""
    settings = Settings(budget=Budget(window=8_000, output=256, high=0.65), shape=Shape(model="m"), summary_tokens=20)
    shell = life(settings)
    shell.fixed = shell.fixed.__class__(
        tools=shell.fixed.tools, system=shell.fixed.system, tokens=3_400, sizes=(("everything", 3_400),)
    )
    summaries = 0
    for _ in range(10):
        told(shell, 300)
        shell.say("Well met, and here is a line to remember.")
        if shell.summary:
            summaries += 1
            shell.summarised("x" * 9_000)
    assert summaries <= 2
    assert shell.session.turn == 10
    passes = [log.data for log in shell.logs if log.kind == "rung"]
    assert len({log["turn"] for log in passes}) <= 4


def test_a04_a_rung_that_frees_nothing_has_failed() -> None:
    """A04 (OpenHands 10873): one observation of 200,000 characters, a model that takes 16,000 tokens: one cut, one valid request."""
    shell = life(settings_of(200_000))
    told(shell, 200_000)
    requests = 0
    while shell.call:
        requests += 1
        size = shell.usage().total_input
        if size <= 16_000:
            shell.say()
            break
        shell.fail(Fault.TOO_LONG, prompt_tokens=size, limit=16_000)
        while not shell.call:
            shell.go_on()
    assert requests == 2
    body = shell.bodies[-1]
    text = str(body["messages"])
    assert "[context reset: " in text
    assert "characters cut here; event" in text
    assert any(RULE in b["text"] for b in body["system"])
    told(shell, 200_000)
    assert shell.usage().total_input <= 16_000, "the window that was learned stays learned"


def test_a08_the_ladder_runs_before_every_call_of_a_turn() -> None:
    """A08 (open-webui 27599): three parallel results of 270,000, 210,000 and 190,000 characters in a window of 131,000 tokens."""
    shell = life(settings_of(131_000))
    told(shell, 40_000)
    shell.use("a", "b", "c")
    for call, size in (("a", 270_000), ("b", 210_000), ("c", 190_000)):
        shell.finish(call, size)
    shell.prepare()
    assert shell.call is not None
    assert len(shell.bodies[-1]["messages"][-2]["content"]) == 3
    assert shell.session.resets == 0
    shell.say()
    shell.crash()
    shell.prove_alive()


def test_a09_a_summary_that_is_not_clearly_smaller_is_thrown_away() -> None:
    """A09 (gemini-cli 5432), I06 (langchain 38867): what is no summary changes nothing, and is asked for ever more rarely."""
    shell = life(settings_of(2_400, summary_tokens=40))
    asked: list[int] = []
    bad = ("", "Error: 429", "I'm sorry, I cannot", '{"type": "error"}', "as long as ever " * 900)
    for n in range(60):
        told(shell, 900)
        shell.say("A line of talk that is worth keeping, since somebody said it.")
        if shell.summary:
            record = shell.session.record
            asked.append(n)
            shell.summarised(bad[len(asked) % len(bad)])
            assert shell.session.record == record
    gaps = [b - a for a, b in pairwise(asked)]
    assert gaps == sorted(gaps)
    assert 2 <= len(asked) <= 5


def test_b02_what_was_known_before_the_crash_stays_known() -> None:
    """B02 (remote-swe-agents 420): a crash after the first of three results: 1 real, 2 unknown, in call order, right after the calls."""
    shell = life(settings_of())
    told(shell, 40)
    shell.use("a", "b", "c")
    shell.finish("b", 40)
    shell.crash()
    shell.attach()
    shell.prove_alive()
    message = next(m for m in shell.bodies[-1]["messages"] if m["content"][0]["type"] == "tool_result")
    assert [b["tool_use_id"] for b in message["content"]] == ["a", "b", "c"]
    assert [b.get("is_error") for b in message["content"]] == [True, None, True]
    assert "result1" in message["content"][1]["content"]


def test_b09_an_empty_answer_is_not_stored_and_not_sent_back() -> None:
    """B09 (buzz 559): nothing, blank text, or blank text beside a call: the next request is valid, roles alternate."""
    shell = life(settings_of())
    for content, stop in (
        ((), Stop.END_TURN),
        (({"type": "text", "text": " \n"},), Stop.END_TURN),
        (({"type": "text", "text": ""}, {"type": "tool_use", "id": "a", "name": "look", "input": {}}), Stop.TOOL_USE),
    ):
        told(shell, 40)
        shell.answer(*content, stop=stop)
        if shell.tools:
            shell.finish("a")
            shell.prepare()
            shell.say()
    told(shell, 40)
    roles = [m["role"] for m in shell.bodies[-1]["messages"]]
    assert all(a != b for a, b in pairwise(roles))


def test_b12_thinking_is_replayed_whole_or_dropped_whole() -> None:
    """B12 (claude-code 63203): untouched it goes back byte for byte; an eviction further up drops all; a 400 rebuilds once without."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    plain = Shape(model="m")
    shell = life(replace(settings_of(), shape=plain))
    told(shell, 40)
    shell.answer(thought, call, stop=Stop.TOOL_USE)
    shell.finish("a")
    shell.prepare()
    assert shell.bodies[-1]["messages"][1]["content"][0] == thought
    shell.fail(Fault.INVALID)
    shell.prepare()
    assert "thinking" not in str(shell.bodies[-1]["messages"])
    assert "result1" in str(shell.bodies[-1]["messages"]), "the newest item is not blamed yet"
    shell.say()
    old = life(replace(settings_of(2_400), shape=plain))
    told(old, 40)
    old.answer(thought, call, stop=Stop.TOOL_USE)
    old.finish("a", 3_000)
    old.prepare()
    old.answer(thought, {"type": "text", "text": "I see."})
    told(old, 2_000)
    assert "evicted" in str(old.bodies[-1]["messages"])
    assert "thinking" not in str(old.bodies[-1]["messages"])
    moved = life(settings_of())  # the tail that the thinking was bound to stands elsewhere in the next request
    told(moved, 40)
    moved.answer(thought, call, stop=Stop.TOOL_USE)
    moved.finish("a")
    moved.prepare()
    assert "thinking" not in str(moved.bodies[-1]["messages"])


def test_c14_the_factor_is_learned_and_kept() -> None:
    """C14 (litellm 37102): the provider counts 1.8 times our figure: no rejection after the third turn, and a restart forgets nothing."""
    shell = life(settings_of(4_000), factor=1.8)
    limit = 4_000 - 256
    rejected = []
    for n in range(40):
        told(shell, 1_500)
        while shell.session.state is not State.IDLE:
            if shell.call and shell.usage().total_input > limit:
                rejected.append(n)
                shell.fail(Fault.TOO_LONG, prompt_tokens=shell.usage().total_input, limit=4_000)
            else:
                shell.go_on()
        if n == 20:
            shell.crash()
            shell.attach()
            assert shell.session.calibration.factor > 1.75
    assert [n for n in rejected if n >= 3] == []


def test_d09_evictions_are_rare_and_deep() -> None:
    """D09 (opencode 32515): one more large result every turn: the prefix of the last request stays on 80 % of the turns."""
    shell = life(settings_of(12_000))
    kept = 0
    for n in range(100):
        told(shell, 100)
        shell.use(f"call_{n}")
        shell.finish(f"call_{n}", 1_200)
        before = flat(shell.bodies[-1])
        shell.prepare()
        assert flat(shell.bodies[-1])[: len(before)] == before, "in the middle of a turn the prefix is warm"
        shell.say()
        last = flat(shell.bodies[-1])
        told(shell, 100)
        kept += flat(shell.bodies[-1])[: len(last)] == last
        shell.say()
    assert kept >= 80


def test_h01_a_cut_off_call_is_not_run_and_not_repeated() -> None:
    """H01 (goose 7527): cut off again and again: nothing runs, the cap is raised once, the turn ends, the model is told why."""
    shell = life(settings_of())
    told(shell, 40)
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}, "_invalid": '{"at": "ga'}
    caps = []
    for _ in range(3):
        if not shell.call:
            break
        caps.append(shell.bodies[-1]["max_tokens"])
        shell.answer(call, stop=Stop.MAX_TOKENS)
        if shell.asked:
            shell.prepare()
    assert caps == [256, 512]
    assert shell.session.state is State.IDLE
    assert not shell.tools
    told(shell, 40)
    assert "your answer was cut off at 512 tokens" in str(shell.bodies[-1]["messages"])


def test_h04_a_refusal_is_never_retried_unchanged() -> None:
    """H04 (hermes-agent 43084): refused as long as the newest result is there: it is set aside, the turn goes on, nothing empty."""
    shell = life(settings_of())
    told(shell, 40)
    shell.use("a")
    shell.finish("a", 40)
    shell.prepare()
    refusals = 0
    while shell.call and "result1" in str(shell.bodies[-1]["messages"]):
        refusals += 1
        shell.fail(Fault.REFUSED)
        shell.prepare()
    assert refusals == 1
    result = shell.bodies[-1]["messages"][-2]["content"][0]
    assert result["is_error"]
    assert "set aside, unread: event" in result["content"]
    shell.say("Let me go on.")
    assert shell.spoken == ["Let me go on."]
    assert shell.session.failed_turns == 0


def test_rejections_climb_to_the_reset_and_the_turn_is_let_go() -> None:
    """P11: set aside, then a reset with the session persisted first, then the turn is let go; the next one is another request and lives."""
    shell = life(settings_of())
    for n in range(3):
        told(shell, 300)
        finish_turn(shell)
        assert shell.session.turn == n + 1
    told(shell, 300, "poison")
    for _ in range(9):
        if shell.call:
            shell.fail(Fault.INVALID)
        elif shell.session.state is State.IDLE:
            break
        else:
            shell.go_on()
    assert shell.session.state is State.IDLE
    assert shell.session.resets == 1
    assert len(shell.rejected) == 3
    assert len(shell.pages) == 1
    shell.hear(40, urgent=True)
    shell.fire("gather")
    shell.prepare()
    assert "[turn 4 failed: " in str(shell.bodies[-1]["messages"])
    shell.say()
    shell.prove_alive()


def test_a_server_with_a_smaller_window_that_tells_no_figures_is_lived_with() -> None:
    """P11: the setting says 9,000 tokens, the server takes 2,600 and only says no: few rejections, no turn lost, no reset at every turn."""
    shell = life(settings_of(9_000), factor=1.6)
    rejected = 0
    for _ in range(120):
        shell.hear(600, urgent=True)
        while not shell.asked:
            shell.go_on()
        while shell.session.state is not State.IDLE:
            if shell.call and shell.usage().total_input > 2_600:
                rejected += 1
                shell.fail(Fault.TOO_LONG)
            else:
                shell.go_on()
    assert shell.session.failed_turns == 0
    assert not [log for log in shell.logs if log.kind == "turn" and log.data["failed"]]
    assert rejected <= 20
    assert shell.session.resets <= 4


def test_the_smallest_request_is_not_sent_twice() -> None:
    """P11: the provider calls even the smallest request too long: it is cut, reset, let go; never the same again, never a loop."""
    for size in (1, 400, 4_000):
        shell = life(settings_of())
        told(shell, size)
        for _ in range(12):
            if shell.call:
                shell.fail(Fault.TOO_LONG)
            elif shell.session.state is State.IDLE:
                break
            else:
                shell.go_on()
        assert shell.session.state is State.IDLE
        assert shell.session.resets == 1
        assert 1 <= len(shell.rejected) <= 4
        sizes = [len(str(b["messages"])) for b in shell.bodies]
        assert sizes == sorted(sizes, reverse=True) or size == 1
        shell.fire("gather")
        shell.prepare()
        assert "[turn 1 failed: too long, however small]" in str(shell.bodies[-1]["messages"])
        assert "event 101 has all" in str(shell.bodies[-1]["messages"]) or 'event="101"' in str(shell.bodies[-1]["messages"])
        shell.say()
        shell.prove_alive()
