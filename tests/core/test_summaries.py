"""The background summary and the compacted record. Rows: P4, T11. Cases: A01, A09, I06."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.core import events as ev
from runtime.core.record import LINES_KEPT, Line, Record
from runtime.core.summaries import unusable
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


def test_a_good_summary_takes_the_place_of_its_lines() -> None:
    """P4, T11: it stands for the lines that it was made of, and for no newer one; it is shown at the next compaction, with its events."""
    shell = compacted()
    asked = shell.summary
    assert asked is not None
    through = max(x.event for x in asked.lines)
    shell.summarised("You promised Bob bread.")
    record = shell.session.record
    assert record.narrative == "You promised Bob bread."
    assert all(x.event > through for x in record.lines)
    block = record.block(200, count)
    assert "You promised Bob bread." in block.text
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
    shell.feed(ev.SummaryReady(now=shell.now, op=asked.op, text="You promised Bob bread."))
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


def test_what_is_no_summary() -> None:
    """A09, I06: empty, an error, a refusal, or as long as what it stands for."""
    lines = [Line(text="Bob: hello there, and well met", event=n) for n in range(40)]
    assert unusable("Bob said hello forty times.", "", lines, count) == ""
    for text in ("", "  \n", "Error: overloaded", "I cannot help", "<html>", "Bob: hello there " * 40):
        assert unusable(text, "", lines, count)


@examples(100)
@given(st.lists(st.lists(st.text(max_size=400), max_size=40), max_size=20), st.integers(80, 600), st.text(max_size=3_000))
def test_a_record_is_bounded(folds: list[list[str]], room: int, narrative: str) -> None:
    """P4: whatever is folded in, the record keeps a bounded number of bounded lines and is shown in its room."""
    record, event = Record(), 0
    for lines in folds:
        made = [Line(text=t, event=(event := event + 1)) for t in lines]
        record = record.folded(made, first=event, last=event, turns=1)
    record = record.summarised(narrative, through=0)
    assert len(record.lines) <= LINES_KEPT
    assert all(len(x.text) <= 240 for x in record.lines)
    assert record.block(room, count).tokens <= room
