"""Stored and taken up again. Rows: C35, P11, T14."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runtime.core.session import Session
from runtime.core.snapshot import ADDED, PLAIN, SHAPED
from runtime.core.writing import Writer

from .histories import count
from .shell import Shell, settings_of


def lived() -> Shell:
    shell = Shell(settings_of(2_400))
    shell.attach()
    for n in range(8):
        shell.hear(900, urgent=True)
        shell.prepare()
        shell.use(f"a{n}", f"b{n}")
        shell.finish(f"a{n}", 900)
        if n < 7:
            shell.finish(f"b{n}", 900)
            shell.prepare()
            shell.say()
    return shell


def test_a_snapshot_holds_all_that_a_session_is() -> None:
    """C35: a new attribute cannot be forgotten."""
    session = lived().session
    assert set(vars(session)) == {*PLAIN, *SHAPED, "settings", "count", "now", "_effects"}
    stored = session.snapshot()
    assert set(stored) == {*PLAIN, *SHAPED, "version", "learned_for"}
    assert Session.restore(json.loads(json.dumps(stored)), session.settings, count).snapshot() == stored


def test_a_snapshot_that_is_written_is_the_one_that_is_told() -> None:
    """C35: at every step of a life with evictions, results and a record, whatever of the last text is used again."""
    writer, shell = Writer(), Shell(settings_of(2_400))
    shell.attach()
    records = 0
    for n in range(12):
        for act in (
            lambda: shell.hear(900, urgent=True), shell.prepare, lambda n=n: shell.use(f"a{n}", f"b{n}"),
            lambda n=n: shell.finish(f"a{n}", 900), lambda n=n: shell.finish(f"b{n}", 900), shell.prepare, shell.say,
        ):  # fmt: skip
            act()
            assert json.loads(writer.text(shell.session)) == json.loads(json.dumps(shell.session.snapshot()))
        records += shell.session.record_block is not None
    assert records
    assert len(writer._known) <= len(shell.session.messages) + 2


@pytest.mark.parametrize(
    "broken",
    [
        {"version": 0}, {"turn": "7"}, {"linked": 1}, {"account": [["noon", 1]]}, {"stage": "broke"}, {"state": "asleep"},
        {"other_learned": [{"factor": 1.0}, "big"]}, {"messages": [{"role": "user"}]},
        {"messages": None}, {"pending": {"a": {}}}, {"record": {"lines": 3}}, {"calibration": {"slope": 1}}, {"late": [{"kind": "poem"}]},
    ],
)  # fmt: skip
def test_what_is_no_snapshot_is_refused(broken: dict[str, Any]) -> None:
    """T14: by name, and never half taken."""
    shell = lived()
    with pytest.raises(ValueError, match=r"snapshot|is not a valid"):
        Session.restore({**shell.session.snapshot(), **broken}, shell.settings, count)
    for name in shell.session.snapshot().keys() - ADDED:
        torn = shell.session.snapshot()
        del torn[name]
        with pytest.raises(ValueError, match="snapshot"):
            Session.restore(torn, shell.settings, count)


def test_a_snapshot_from_before_something_was_added_is_taken() -> None:
    """P14, C35: an NPC that lived under an older version goes on where it was."""
    old = {name: value for name, value in lived().session.snapshot().items() if name not in ADDED}
    session = Session.restore({**old, "under_way": {"call_1": ["walk", 7]}}, lived().settings, count)
    assert session.urgent_why == ""
    assert not session.owes("call_1", 7), "what an older version kept without its operation is told as news, by who asks the world"


def test_what_was_learned_of_one_window_is_not_believed_of_another() -> None:
    """P11: it survives a restart, and not a change of model or window."""
    shell = lived()
    stored = {**shell.session.snapshot(), "window_seen": 1_500, "ceiling": 900, "output_seen": 90}
    same = Session.restore(stored, shell.settings, count)
    other = Session.restore(stored, settings_of(9_000), count)
    assert (same.window_seen, same.ceiling, same.output_seen) == (1_500, 900, 90)
    assert (other.window_seen, other.ceiling, other.output_seen) == (0, 0, 0)
    assert other.calibration == same.calibration
