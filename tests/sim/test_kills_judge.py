"""What the crash proof says if something has gone wrong: each fault that it is there to find, planted by hand (C29, C34, C35, W2, W3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.kills.judge import Disk, Mind, World, judge

EVENTS = ("1.1", "1.2", "1.3", "2.1")


def printed(*more: dict[str, Any]) -> World:
    """A world that told four things in two lives and did two actions."""
    world = World()
    lines: list[dict[str, Any]] = [
        {"up": 1, "epoch": "e1", "at": 0.0}, *({"told": seq, "name": name} for seq, name in enumerate(EVENTS, 1)),
        {"act": "a-1", "name": "mark", "n": 1, "at": 1.0}, {"act": "a-2", "name": "carry", "n": 2, "at": 2.0},
    ]  # fmt: skip
    for line in (*lines, *more):
        world.printed(line)
    return world


def sent(*names: str) -> Mind:
    """A model that was told of things and asked for two actions."""
    mind = Mind(asked={1: "mark", 2: "carry"})
    for name in names:
        mind.sent({"messages": [{"role": "user", "content": f"<observation>Event {name}: a wave breaks.</observation>"}]})
    return mind


DISK = Disk(
    heard=[(seq, f"Event {name}: a wave breaks.") for seq, name in enumerate(EVENTS, 1)],
    intents=["a-1", "a-2"],
    outcomes=[("a-1", "done"), ("a-2", "failed")],
)


def rules(world: World, mind: Mind, disk: Disk) -> set[str]:
    return {finding.rule for finding in judge(world, mind, disk).findings}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    """W3, C35: a number that nobody ever heard is given again to other words, and that is in order."""
    world = World()
    world.printed({"told": 1, "name": "1.1"})
    world.printed({"told": 2, "name": "1.2"})  # killed before it was stored
    world.printed({"told": 2, "name": "2.1"})
    world.printed({"told": 3, "name": "2.2"})  # and this one
    world.printed({"settled": 2, "name": "2.1"})
    disk = replace(DISK, heard=[(1, "Event 1.1: a wave."), (2, "Event 2.1: a wave.")], intents=[], outcomes=[])
    assert not rules(world, sent("1.1", "2.1"), disk)
    assert not rules(printed(), sent(*EVENTS), DISK)


@pytest.mark.parametrize(
    ("heard", "says"),
    [
        (DISK.heard[:-1], "are not on the NPC's disk: 4"),
        ([*DISK.heard, DISK.heard[-1]], "more than once: 4"),
        ([DISK.heard[1], DISK.heard[0], *DISK.heard[2:]], "behind one with a higher number"),
        ([*DISK.heard, (9, "Event 9.9: a wave breaks.")], "heard that nobody told: 9"),
        ([(1, "Event 1.2: a wave breaks."), *DISK.heard[1:]], "other words than were told: 1"),
    ],
)
def test_what_is_wrong_with_the_stream_is_found(heard: list[tuple[int, str]], says: str) -> None:
    """W3: lost, doubled, out of order, made up, exchanged."""
    verdict = judge(printed(), sent(*EVENTS), replace(DISK, heard=heard))
    assert "W3" in {finding.rule for finding in verdict.findings}
    assert says in " ".join(finding.sentence for finding in verdict.findings)


def test_what_never_reached_the_model_is_found_unless_it_was_counted() -> None:
    """W2: an event may be missing only if it was omitted with a note; a state only if a newer one of its key came."""
    assert rules(printed(), sent(*EVENTS[:-1]), DISK) == {"W2"}
    assert not rules(printed(), sent(*EVENTS[:-1]), replace(DISK, omitted=1))
    noted = sent(*EVENTS[:-1])
    noted.sent({"messages": [{"role": "user", "content": "[1 observations left out, events 30 to 40]"}]})
    assert not rules(printed(), noted, replace(DISK, events={4: 35}))
    assert rules(printed(), noted, replace(DISK, events={4: 41})) == {"W2"}, "another one than the note speaks of"
    states = printed({"told": 1, "name": "1.1", "key": "gull"}, {"told": 2, "name": "1.2", "key": "gull"})
    assert not rules(states, sent(*EVENTS[1:]), replace(DISK, merged=1))
    assert rules(states, sent(*EVENTS[1:]), DISK) == {"W2"}, "gave way, and nobody counted it"
    assert rules(states, sent("1.1", "1.3", "2.1"), replace(DISK, merged=1)) == {"W2"}, "the newest state must arrive"


def test_news_that_stands_in_a_request_twice_is_found() -> None:
    """C34: what was taken in before a crash is not told again; a memory of it is no news."""
    twice = sent(*EVENTS)
    twice.sent({"messages": [{"role": "user", "content": "Event 1.1: a wave.\nEvent 1.1: a wave."}]})
    assert rules(printed(), twice, DISK) == {"C34"}
    remembered = sent(*EVENTS)
    remembered.sent({"messages": [{"role": "user", "content": "<record>Event 1.1: a wave.</record>\nEvent 1.1: a wave."}]})
    assert not rules(printed(), remembered, DISK)


THREE = replace(DISK, intents=["a-1", "a-2", "a-3"], outcomes=[*DISK.outcomes, ("a-3", "done")])


@pytest.mark.parametrize(
    ("line", "disk", "rule"),
    [
        pytest.param({"act": "a-1", "name": "mark", "n": 1}, DISK, "C35", id="id twice"),
        pytest.param({"act": "a-3", "name": "mark", "n": 1}, THREE, "C35", id="call twice"),
        pytest.param({"act": "a-3", "name": "mark", "n": 7}, THREE, "C35", id="never asked for"),
        pytest.param({}, replace(DISK, intents=["a-1"]), "C35", id="no intent"),
        pytest.param({}, replace(DISK, outcomes=[("a-1", "done")]), "C35", id="end never told"),
        pytest.param({}, replace(DISK, outcomes=[("a-1", "done"), ("a-2", "unknown")]), "C29", id="denied by the world"),
        pytest.param({}, THREE, "C29", id="done by nobody"),
    ],
)
def test_what_is_wrong_with_an_action_is_found(line: dict[str, Any], disk: Disk, rule: str) -> None:
    """C29, C35: each id and each call of the model at most once, intent first, and the NPC is told the truth."""
    assert rules(printed(line), sent(*EVENTS), disk) == {rule}


def test_a_world_that_forgot_who_it_was_is_found() -> None:
    """W3: another epoch after a crash means that the numbers began anew."""
    assert rules(printed({"up": 1, "epoch": "e2", "at": 3.0}), sent(*EVENTS), DISK) == {"W3"}
