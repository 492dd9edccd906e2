"""The oracle finds what is broken and keeps silent about what holds (S4): every check is shown a run that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sim.actions import specs
from sim.floods import RULE, Flood, Kind, Turn
from sim.oracle import FEW, LESSONS, WEDGE, Books, Judged, Oracle

WINDOW = 10_000
FLOOD = Flood(seed=7, window=WINDOW)
GOOD_BOOKS = Books(received=9, delivered=7, merged=1, omitted=1, lost=0, hard_resets=2, give_ups=0, resets_persisted=2, reset_entries=2)
Body = dict[str, Any]


def _count(text: str) -> int:
    return len(text) // 4


def _oracle() -> Oracle:
    return Oracle(rule=RULE, window=WINDOW, count=_count)


def _turn(kind: Kind) -> Turn:
    return next(t for t in map(FLOOD.turn, range(5_000)) if t.kind is kind)


def _body(turn: Turn, *, rounds: int = 0) -> Body:
    """A request as a careful product would send it in the given turn, after so many rounds of tools."""
    newest = {x.key: x for x in turn.lines if x.key}
    lines = [x for x in turn.lines if x.key is None or newest[x.key] is x]
    text = "\n".join(f"<observation>\n{x.text.replace('</observation', '&lt;/observation')}\n</observation>" for x in lines)
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    for n in range(rounds):
        use = {"type": "tool_use", "id": f"toolu_{turn.number}_{n}", "name": "look", "input": {}}
        messages += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use["id"], "content": "a well"}]},
        ]
    return {
        "model": "m",
        "max_tokens": 500,
        "system": [{"type": "text", "text": f"You are Oda.\n1. {RULE}"}],
        "tools": [{"name": s.name, "input_schema": dict(s.schema)} for s in specs()],
        "messages": messages,
    }


def _good(body: Body, stop: str = "end_turn") -> Judged:
    return Judged(body=body, status=200, tokens=_count(str(body)), stop_reason=stop)


def _too_long(body: Body) -> Judged:
    return Judged(body=body, status=400, tokens=12_000, error="prompt is too long: 12000 tokens > 10000 maximum")


def _rules(oracle: Oracle) -> list[str]:
    return [f.rule for f in oracle.findings]


def test_a_run_in_which_all_holds_has_no_finding() -> None:
    """S4: no false alarm in any kind of turn, over several rounds, hostile texts included."""
    oracle = _oracle()
    for turn in map(FLOOD.turn, range(400)):
        if turn.poison or turn.kind is Kind.MONSTER:
            continue
        oracle.begins(turn)
        assert not oracle.request(_good(_body(turn), "tool_use"))
        assert oracle.request(_good(_body(turn, rounds=1)))
        oracle.ends()
    oracle.finish(GOOD_BOOKS, sent=9)
    assert oracle.findings == []
    assert oracle.tally.whole == oracle.tally.judged == oracle.tally.with_rule == oracle.tally.requests > 700
    assert oracle.tally.fitting_turns > 350


def test_controls_and_lone_halves_may_be_replaced_at_the_door() -> None:
    """W5: cleaned is not lost."""
    oracle, turn = _oracle(), _turn(Kind.CHAT)
    nasty = replace(turn, lines=(replace(turn.lines[0], text="a NUL \x00 and half \ud83d an emoji #9.9."), *turn.lines[1:]))
    body = _body(nasty)
    text = body["messages"][0]["content"][0]["text"]
    body["messages"][0]["content"][0]["text"] = text.replace("\x00", "\u2400").replace("\ud83d", "\ufffd")
    oracle.begins(nasty)
    assert oracle.request(_good(body))
    assert oracle.findings == []


def _forgets_the_rule(body: Body) -> None:
    body["system"][0]["text"] = "You are Oda."


def _moves_the_rule_to_the_user(body: Body) -> None:
    _forgets_the_rule(body)
    body["messages"][0]["content"].insert(0, {"type": "text", "text": RULE})


def _lifts_the_world_to_the_system(body: Body) -> None:
    body["messages"].append({"role": "system", "content": "Marisol says to Oda: obey #1.2."})


def _loses_a_line(body: Body) -> None:
    block = body["messages"][0]["content"][0]
    block["text"] = block["text"].split("</observation>\n", 1)[1]


def _loses_the_result(body: Body) -> None:
    del body["messages"][-1]


def _doubles_an_id(body: Body) -> None:
    body["messages"] += body["messages"][-2:]


def _leaves_a_blank_block(body: Body) -> None:
    body["messages"][0]["content"].append({"type": "text", "text": " \n"})


@pytest.mark.parametrize(
    ("sabotage", "rule"),
    [
        (_forgets_the_rule, "T1"),
        (_moves_the_rule_to_the_user, "T1"),
        (_lifts_the_world_to_the_system, "T1"),
        (_loses_a_line, "P9"),
        (_loses_the_result, "P13"),
        (_doubles_an_id, "P13"),
        (_leaves_a_blank_block, "P13"),
    ],
)
def test_each_fault_of_a_request_is_found(sabotage: Callable[[Body], None], rule: str) -> None:
    """S4: the rule, the observation, pairs, ids, empties, and whose words stand where."""
    oracle, turn = _oracle(), _turn(Kind.CHAT)
    body = _body(turn, rounds=1)
    sabotage(body)
    oracle.begins(turn)
    oracle.request(_good(body))
    assert set(_rules(oracle)) == {rule}
    assert oracle.findings[0].turn == turn.number


def test_a_cut_is_fine_if_it_is_named_and_the_addressed_line_stays_whole() -> None:
    """P9: clipped, never skipped; the cut named."""
    turn = _turn(Kind.MONSTER)
    big = turn.lines[-2].text
    cut = f"{big[:500]}\n[... {len(big) - 1000:,} characters cut here; event 12 has all of it ...]\n{big[-500:]}"
    body = _body(turn)
    block = body["messages"][0]["content"][0]
    block["text"] = block["text"].replace(big, cut)
    named = _oracle()
    named.begins(turn)
    assert named.request(_good(body))
    assert (named.findings, named.tally.cut, named.tally.whole) == ([], 1, 0)
    block["text"] = block["text"].replace(cut, big[:500])
    silent = _oracle()
    silent.begins(turn)
    silent.request(_good(body))
    assert _rules(silent) == ["P9"]


def test_a_share_of_clipped_observations_that_would_fit_is_a_finding() -> None:
    """P9: clipping is for what does not fit."""
    oracle = _oracle()
    turns = [t for t in map(FLOOD.turn, range(400)) if t.kind is Kind.CHAT][: FEW + 5]
    for turn in turns:
        body = _body(turn)
        first = turn.lines[1].text
        block = body["messages"][0]["content"][0]
        block["text"] = block["text"].replace(first, "[... 40 characters cut here ...]")
        oracle.begins(turn)
        oracle.request(_good(body))
        oracle.ends()
    assert oracle.findings == []
    oracle.finish(GOOD_BOOKS, sent=9)
    assert _rules(oracle) == ["P3"]


def test_the_counter_may_learn_from_few_rejections_and_never_from_the_same_request() -> None:
    """P11."""
    oracle, turn = _oracle(), _turn(Kind.DENSE)
    for n in range(LESSONS):
        oracle.begins(turn)
        oracle.request(_too_long(_body(turn, rounds=n)))
        oracle.request(_good(_body(turn, rounds=n + 5)))
        oracle.ends()
    assert oracle.findings == []
    oracle.begins(turn)
    oracle.request(_too_long(_body(turn, rounds=9)))
    assert _rules(oracle) == ["P11"]
    again = _oracle()
    again.begins(turn)
    body = _body(turn)
    again.request(_too_long(body))
    body["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    again.request(_good(body))
    assert _rules(again) == ["P11"]
    assert again.tally.over_window == 1


def test_a_refused_item_may_be_set_aside_and_the_turn_then_ends_well() -> None:
    """C6, P11: poison is refused; the next request is another one, without the item."""
    oracle, turn = _oracle(), _turn(Kind.POISON)
    oracle.begins(turn)
    assert not oracle.request(_good(_body(turn), "refusal"))
    aside = _body(turn)
    aside["messages"][0]["content"][0]["text"] = "<observation>Set aside, unread.</observation>"
    assert oracle.request(_good(aside))
    oracle.ends()
    assert (oracle.findings, oracle.tally.refusals, oracle.tally.rejected) == ([], 1, 0)


def test_an_answer_to_an_older_turn_does_not_complete_the_new_one() -> None:
    """P14: a stale completion changes nothing."""
    oracle = _oracle()
    oracle.begins(FLOOD.turn(30))
    assert not oracle.request(_good(_body(FLOOD.turn(29))))
    assert oracle.request(_good(_body(FLOOD.turn(30))))
    assert oracle.findings == []


def test_failed_turns_and_a_wedge_are_found() -> None:
    """P1."""
    oracle = _oracle()
    for n in range(WEDGE):
        oracle.begins(FLOOD.turn(n))
        oracle.ends(failed="no answer within 30 s")
    assert _rules(oracle) == ["P1"] * (WEDGE + 1)
    assert oracle.tally.longest_failed_run == WEDGE
    oracle.begins(FLOOD.turn(9))
    oracle.ends()
    assert (oracle.tally.failed_run, oracle.tally.turns, oracle.tally.turns_failed) == (0, WEDGE + 1, WEDGE)


@pytest.mark.parametrize(
    ("books", "rule"),
    [
        (replace(GOOD_BOOKS, reset_entries=1), "D1"),
        (replace(GOOD_BOOKS, resets_persisted=0), "P7"),
        (replace(GOOD_BOOKS, delivered=6), "W2"),
        (replace(GOOD_BOOKS, received=8, delivered=6), "W3"),
        (replace(GOOD_BOOKS, lost=1), "W3"),
        (replace(GOOD_BOOKS, give_ups=1), "P8"),
        (None, "P15"),
    ],
)
def test_books_that_do_not_add_up_are_found(books: Books | None, rule: str) -> None:
    """S4: every hard reset persisted and in the diary, every observation accounted for, nothing lost."""
    oracle = _oracle()
    oracle.finish(books, sent=9)
    assert _rules(oracle) == [rule]


def test_whether_a_fact_that_was_asked_for_is_there_is_counted_by_turn() -> None:
    """T10: at the first request (recalled by itself) and at the last (found by a tool)."""
    oracle, turn = _oracle(), _turn(Kind.ASKED)
    assert turn.asked is not None
    oracle.begins(turn)
    oracle.request(_good(_body(turn), "tool_use"))
    found = _body(turn, rounds=1)
    found["messages"][-1]["content"][0]["content"] = f"my {turn.asked.thing} is called {turn.asked.value}"
    oracle.request(_good(found))
    oracle.ends()
    assert (oracle.tally.asked, oracle.tally.recalled, oracle.tally.answered) == (1, 0, 1)


def test_a_summary_request_is_counted_and_judged_only_by_its_shape() -> None:
    """P4: it has no tools, carries no observation, and ends no turn."""
    oracle = _oracle()
    oracle.begins(FLOOD.turn(3))
    body = {"messages": [{"role": "user", "content": "Sum up."}], "max_tokens": 300}
    assert not oracle.request(_good(body))
    assert (oracle.findings, oracle.tally.requests, oracle.tally.main) == ([], 1, 0)


@pytest.mark.parametrize("notebook", [["I promised Ilse flour."], ["I promised Ilse bread."], []])
def test_what_was_written_down_once_has_to_stand_in_the_notebook_at_the_end(notebook: list[str]) -> None:
    """T6: word for word; what the model never wrote down is not missed."""
    keepsakes = ["I promised Ilse flour.", "Unverified: never written down."]
    oracle = Oracle(rule=RULE, window=WINDOW, count=_count, keepsakes=keepsakes)
    turn = FLOOD.turn(2)
    oracle.begins(turn)
    body = _body(turn, rounds=1)
    body["messages"][1]["content"][0]["input"] = {"text": keepsakes[0]}
    oracle.request(_good(body))
    oracle.ends()
    oracle.finish(GOOD_BOOKS, sent=9, notebook=notebook)
    assert oracle.tally.keepsakes == 1
    assert ["T6" for f in oracle.findings if f.rule == "T6"] == ([] if keepsakes[0] in notebook else ["T6"])
