"""The background summary and the compacted record. Rows: P4, T6, T11. Cases: A01, A09, I06."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.core import events as ev
from runtime.core.findings import MOST, TEXT_CHARS, Finding, Findings, plain, read, restored
from runtime.core.record import LINES_KEPT, Line, Record
from runtime.core.summaries import usable
from runtime.core.values import Fault

from .examples import examples
from .histories import count
from .shell import Shell, settings_of


def compacted() -> Shell:
    """A session that waits for a summary of what it has compacted."""
    shell = Shell(settings_of(2_400, summary_tokens=40))
    shell.attach()
    while not shell.summary:
        shell.hear(900, urgent=True)
        shell.prepare()
        shell.say("I promise to bring the bread tomorrow, before the bell.")
    return shell


def answer(**kinds: Any) -> str:
    """A summary as a model writes it: lists of (text, events)."""
    out: dict[str, Any] = {kind: [] for kind in (*MOST, "settled")}
    for kind, items in kinds.items():
        out[kind] = items if kind == "settled" else [{"text": text, "events": events} for text, events in items]
    return json.dumps(out)


def test_a_good_summary_takes_the_place_of_its_lines() -> None:
    """P4, T11: it stands for the lines that it was made of, and for no newer one; it is shown at the next compaction, with its events."""
    shell = compacted()
    asked = shell.summary
    assert asked is not None
    through = max(x.event for x in asked.lines)
    shell.summarised(answer(promises=[("You promised Bob bread.", [asked.lines[0].event])]))
    record = shell.session.record
    assert record.findings.promises == (Finding(text="You promised Bob bread.", events=(asked.lines[0].event,)),)
    assert all(x.event > through for x in record.lines)
    block = record.block(200, count)
    assert f"- You promised Bob bread. (event {asked.lines[0].event})" in block.text
    assert f"events {record.first} to {record.last}" in block.text


def test_a_summary_of_before_a_reset_is_void() -> None:
    """P7: what was asked for before the reset does not come back after it."""
    shell = compacted()
    asked = shell.summary
    assert asked is not None
    shell.hear(40, urgent=True)
    shell.prepare()
    shell.fail(Fault.INVALID)
    shell.prepare()
    shell.fail(Fault.INVALID)
    shell.persisted()
    assert shell.session.resets == 1
    shell.feed(ev.SummaryReady(now=shell.now, op=asked.op, text=answer(promises=[("You promised Bob bread.", [1])])))
    assert shell.session.record == Record()
    assert shell.logs[-1].kind == "stale"


def test_a_stale_summary_changes_nothing() -> None:
    """P4: an answer to another operation than the one that was asked for last."""
    shell = compacted()
    asked, record = shell.summary, shell.session.record
    assert asked is not None
    shell.feed(ev.SummaryReady(now=shell.now, op=asked.op - 1, text="Something else."))
    assert shell.session.record is record
    assert shell.session.summary_op == asked.op


def test_money_of_a_stale_summary_is_spent_all_the_same() -> None:
    """C9: paid is paid."""
    shell = compacted()
    before = shell.session.dollars
    shell.feed(ev.SummaryFailed(now=shell.now, op=1, why="late", dollars=0.5))
    assert shell.session.dollars == before + 0.5


SOURCES = {10: "Bob: the bridge at Elmford is down", 11: "I said: I promise to bring the bread", 12: "Mira: who took my lantern?"}


def test_what_is_no_summary() -> None:
    """A09, I06: empty, an error, a refusal, prose, no object, or as long as what it stands for."""
    lines = [Line(text=text, event=event) for event, text in SOURCES.items()]
    assert isinstance(usable(answer(facts=[("Bob said the bridge is down", [10])]), Findings(), lines, count), Findings)
    whole = answer(unverified=[(f"the {n}th long thing that nobody ever said to anyone at all in this village", []) for n in range(12)])
    refused = ("", "  \n", "Error: overloaded", "I cannot help", "<html>", "[]", "{", answer(), '{"facts": 3}', "{" * 5_000, whole)
    for text in refused:
        assert isinstance(usable(text, Findings(), lines, count), str), text[:80]


def test_a_fact_stands_on_its_source_or_is_unverified() -> None:
    """T11, T6: a fact without a source, with one that is not covered, about something else, or taken from somebody's mouth is a doubt."""
    facts = [
        ("Bob said that the bridge at Elmford is down", [10]),
        ("The bridge at Elmford is down", [10]),  # he only said so
        ("The vault is open to everyone", []),
        ("The bridge at Weir is down, says Bob", [99]),
        ("Bob likes turnips", [11]),
        ("I promised bread to somebody", [11]),
    ]
    found = read(answer(facts=facts), before=Findings(), sources=SOURCES)
    assert isinstance(found, Findings)
    assert [f.text for f in found.facts] == [facts[0][0], facts[5][0]]
    assert {f.text for f in found.unverified} == {text for text, _ in facts[1:5]}
    assert all(set(f.events) <= set(SOURCES) for kind in MOST for f in found.of(kind))


def test_promises_questions_and_doubts_do_not_leave_by_being_left_out() -> None:
    """T6, T11: a sloppy summary loses none; what is settled by name leaves, and a doubt only with a fact that has its source."""
    before = Findings(
        promises=(Finding(text="I promised Bob bread", events=(3,)),),
        questions=(Finding(text="Who took the lantern?", events=(4,)), Finding(text="Is the mill safe?", events=(5,))),
        unverified=(Finding(text="The bridge at Elmford may be down", events=(6,)),),
        facts=(Finding(text="Mira said hello", events=(7,)),),
    )
    sloppy = read(answer(goals=[("Bake", [11])]), before=before, sources=SOURCES)
    assert isinstance(sloppy, Findings)
    assert (sloppy.promises, sloppy.questions, sloppy.unverified) == (before.promises, before.questions, before.unverified)
    settled = read(answer(goals=[("Bake", [11])], settled=["p1", "q2", "u1", "nonsense"]), before=before, sources=SOURCES)
    assert isinstance(settled, Findings)
    assert settled.promises == ()
    assert settled.questions == before.questions[:1]
    assert settled.unverified == before.unverified  # nothing was learned about it
    learned = answer(facts=[("Bob said the bridge at Elmford is down", [10])], settled=["u1"])
    known = read(learned, before=before, sources=SOURCES)
    assert isinstance(known, Findings)
    assert known.unverified == ()


def test_own_promises_and_doubts_survive_without_a_model() -> None:
    """P4, T6: lines fall out of a record that nobody summarises; what the NPC itself promised or doubted stays in it."""
    record = Record()
    said = ["I said: I promise to bring the bread", "I noted: unverified: the bridge is down", "Bob: I promise you a crown for the key"]
    record = record.folded([Line(text=t, event=n) for n, t in enumerate(said, 1)], first=1, last=3, turns=1)
    record = record.folded([Line(text=f"Mira: line {n}", event=n) for n in range(4, 400)], first=4, last=400, turns=1)
    assert [f.text for f in record.findings.promises] == [said[0]]
    assert [f.text for f in record.findings.unverified] == [said[1]]
    assert said[0] in record.block(400, count).text


def items() -> st.SearchStrategy[Any]:
    """What a model may put into a list, and what it may not."""
    events = st.one_of(st.lists(st.integers(-3, 60), max_size=9), st.text(max_size=3), st.none())
    good = st.fixed_dictionaries({"text": st.text(max_size=260), "events": events})
    return st.one_of(good, st.integers(), st.text(max_size=5), st.none(), st.lists(st.integers(), max_size=2))


@examples(200)
@given(
    st.lists(
        st.dictionaries(st.sampled_from([*MOST, "settled", "other"]), st.one_of(st.lists(items(), max_size=30), st.text()), max_size=8),
        max_size=6,
    )
)
def test_whatever_a_model_answers_the_findings_stay_bounded_and_sourced(answers: list[dict[str, Any]]) -> None:
    """P4, T11: no answer raises, grows the record beyond its bounds, or brings in a source that is not covered."""
    findings, sources = Findings(), {n: f"Bob: line number {n} of talk" for n in range(1, 50)}
    for each in answers:
        found = read(json.dumps(each), before=findings, sources=sources)
        if isinstance(found, str):
            continue
        assert len(found.promises) >= min(len(findings.promises), 1) or "p1" in str(each.get("settled"))
        findings = found
        for kind, most in MOST.items():
            assert len(findings.of(kind)) <= most
            assert all(len(f.text) <= TEXT_CHARS and set(f.events) <= set(sources) for f in findings.of(kind))
        assert all(f.events for f in findings.facts)
        assert restored(json.loads(json.dumps(plain(findings)))) == findings


@examples(100)
@given(st.lists(st.lists(st.text(max_size=400), max_size=40), max_size=20), st.integers(80, 600), st.text(max_size=3_000))
def test_a_record_is_bounded(folds: list[list[str]], room: int, told: str) -> None:
    """P4: whatever is folded in, the record keeps a bounded number of bounded lines and is shown in its room."""
    record, event = Record(), 0
    for lines in folds:
        made = [Line(text=t, event=(event := event + 1)) for t in lines]
        record = record.folded(made, first=event, last=event, turns=1)
    findings = read(answer(promises=[(told, [1])], facts=[(told, [2])] * 40), before=record.findings, sources={1: told, 2: told})
    if isinstance(findings, Findings):
        record = record.summarised(findings, through=0)
    assert len(record.lines) <= LINES_KEPT
    assert all(len(x.text) <= 240 for x in record.lines)
    assert record.block(room, count).tokens <= room
