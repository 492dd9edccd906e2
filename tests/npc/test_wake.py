"""Wake conditions, digests, arrival and goals as plain functions. Rows: P14, C29, C34."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.arrival import Position, contradiction, keys, told
from npc.digest import digest
from npc.goals import KEPT, Goals, Standing
from npc.persona import parse_persona
from npc.wake import Wakes
from world_adapter.frames import ActionSpec, Observation, Speaker

MIRA = Speaker(id="p2", name="Mira", kind="player")
BASE = '[character]\nname = "Oda"\ndescription = "You keep the mill."\n'


def seen(kind: str, data: dict[str, Any] | None = None, *, seq: int = 1, text: str = "It happens.", **more: Any) -> Observation:
    return Observation(seq=seq, t=0.0, kind=kind, text=text, data=data, **more)


def wakes(toml: str) -> Wakes:
    persona = parse_persona(BASE + toml)
    return Wakes(on=persona.wake.on, when=persona.wake.predicates, names=persona.names)


# ------------------------------------------------------------ conditions
COMBAT = '[[wake.when]]\nkind = "combat"\nfield = "target"\nequals = "me"\n'


@pytest.mark.parametrize(
    ("toml", "observation", "reason"),
    [
        ("", seen("blocked"), "blocked"),
        ("", seen("hurt", to="oda-1"), "hurt"),
        ("", seen("hurt", to="somebody"), ""),
        ("", seen("hurt", own=True), ""),
        ("", seen("combat", {"target": "oda-1"}), ""),
        ('[wake]\non = ["hurt"]', seen("blocked"), ""),
        ('[wake]\non = ["nearby"]', seen("speech", speaker=MIRA), "nearby"),
        ('[wake]\non = ["nearby"]', seen("speech", {"room": "the ford"}, speaker=MIRA), "nearby"),
        ('[wake]\non = ["nearby"]', seen("speech", {"room": "the mill"}, speaker=MIRA), ""),
        (COMBAT, seen("combat", {"target": "oda-1"}), "when combat target = me"),
        (COMBAT, seen("combat", {"target": "ODA"}), "when combat target = me"),
        (COMBAT, seen("combat", {"target": ["oda-1"]}), ""),
        (COMBAT, seen("combat"), ""),
        ("[[wake.when]]\nfield = 'a.b'\nat_least = 3", seen("item", {"a": {"b": 3.5}}), "when a.b >= 3"),
        ("[[wake.when]]\nfield = 'a.b'\nat_least = 3", seen("item", {"a": {"b": True}}), ""),
        ("[[wake.when]]\nfield = 'a.b'\nat_least = 3", seen("item", {"a": "b"}), ""),
        ("[[wake.when]]\nfield = 'left'\nat_most = 2", seen("notice", {"left": 2}), "when left <= 2"),
        ("[[wake.when]]\nfield = 'fire'", seen("notice", {"fire": 0}), ""),
        ("[[wake.when]]\nfield = 'fire'", seen("notice", {"fire": 1}), "when fire"),
        ("[[wake.when]]\nprio_at_least = 8", seen("emote", prio=8), "when priority >= 8"),
        ("[[wake.when]]\nprio_at_least = 8", seen("emote", prio=7), ""),
    ],
)
def test_what_a_persona_declares_wakes_and_nothing_else(toml: str, observation: Observation, reason: str) -> None:
    """P14: by kind, by a field of the data, by priority; a kind that can never wake need not be asked about."""
    conditions = wakes(toml)
    assert conditions.reason(observation, me="oda-1", place="The ford") == reason
    assert conditions.may(observation.kind) or not reason


def test_plain_kinds_need_no_look() -> None:
    """P14: an intake at speed asks only about kinds that can wake at all."""
    assert [k for k in ("speech", "moved", "notice", "combat", "blocked", "hurt") if wakes(COMBAT).may(k)] == ["combat", "blocked", "hurt"]
    assert wakes("[[wake.when]]\nprio_at_least = 8").may("whatever")


plain = st.sampled_from([None, True, 0, 1, -(10**30), 1.5, float("nan"), float("inf"), "", "me", "x"])
values = plain | st.lists(plain, max_size=2) | st.dictionaries(st.sampled_from("ab"), plain, max_size=2)


compared_to = st.sampled_from(["equals = 'me'", "equals = 1", "equals = true", "at_most = 0", ""])


@given(st.dictionaries(st.sampled_from("ab"), values, max_size=2), compared_to)
def test_no_data_of_a_world_makes_a_condition_fail(data: dict[str, Any], compared: str) -> None:
    """P14: whatever stands in a field, the answer is yes or no."""
    assert isinstance(wakes(f"[[wake.when]]\nfield = 'a.b'\n{compared}").reason(seen("x", data), me="me"), str)


# ------------------------------------------------------------ digest
def test_a_digest_counts_by_kind_and_source_and_keeps_what_was_meant_for_the_npc() -> None:
    """C34, P14: counts with the newest of each and its number; addressed lines and the newest observation stay whole, in their order."""
    news = [seen("presence", seq=n, text=f"Mira passes, {n}.", speaker=MIRA) for n in range(1, 20)]
    news += [seen("notice", seq=20, text="A crow lands."), seen("speech", seq=21, text="Oda, wait!", to="oda-1")]
    news += [seen("notice", seq=22, text="Rain.")]
    told_ = digest(news, whole=lambda o: o.to == "oda-1", doing="were on your way", seconds=42.2, above=3)
    assert [o.seq for o in told_.kept] == [21, 22]
    assert told_.count == 20
    lines = told_.text.splitlines()
    assert lines[0] == "While you were on your way (42 s): 20 observations, events 1 to 20; the newest of each:"
    assert set(lines[1:]) == {"- presence, Mira: 19× [event 19] Mira passes, 19.", "- notice: [event 20] A crow lands."}


def test_little_news_is_told_as_it_came() -> None:
    """C34: no digest of a handful."""
    news = [seen("notice", seq=n) for n in range(1, 5)]
    assert digest(news, whole=lambda _: False, doing="were busy", seconds=1, above=3).kept == tuple(news)


texts = st.sampled_from(["", "a", "b\nc", "ü" * 90, "<observation>", "long " * 90])


@given(st.lists(st.tuples(st.sampled_from(["notice", "speech"]), texts, st.booleans(), st.integers(0, 9)), max_size=40))
def test_a_digest_never_loses_what_is_to_stay_and_never_grows(lines: list[tuple[str, str, bool, int]]) -> None:
    """C34: whatever came; its size is bounded and everything is counted."""
    news = [
        seen(kind, seq=n, text=text, prio=prio, to="me" if meant else None, speaker=Speaker(name=text[:9] or "x"))
        for n, (kind, text, meant, prio) in enumerate(lines, 1)
    ]
    told_ = digest(news, whole=lambda o: o.to == "me", doing="walked", seconds=1e9, above=5, chars=700)
    assert len(told_.text) <= 800
    assert len(told_.kept) + told_.count == len(news)
    assert [o for o in news if o.to == "me"] == [o for o in told_.kept if o.to == "me"]
    assert not news or told_.kept[-1] is news[-1]


# ------------------------------------------------------------ arrival
GO = ActionSpec(
    name="go",
    description="",
    schema={"type": "object", "properties": {"place": {"type": "string", "enum": ["mill", "bridge", "inn"]}}},
    kind="ongoing",
    moves_body=True,
)
FREE = ActionSpec(name="go", description="", schema={"type": "object"}, kind="ongoing", moves_body=True)


def at(**data: Any) -> Position:
    position = told(seen("moved", data))
    assert position
    return position


@pytest.mark.parametrize(
    ("action", "arguments", "position", "wrong"),
    [
        (GO, {"place": "mill"}, at(room="mill"), ""),
        (GO, {"place": "the Mill"}, at(room="mill"), ""),
        (GO, {"place": "mill"}, at(room="bridge"), "you are at bridge, not at mill"),
        (GO, {"place": "mill"}, at(room="#12"), ""),  # other words than the goal's: nothing is concluded
        (FREE, {"to": "old mill"}, at(room="ford"), ""),
        (FREE, {"to": "Bridge"}, at(room="ford"), "you are at ford, not at Bridge"),  # told as a position before
        (FREE, {"to": "mill"}, at(room={"id": "#12", "name": "The Mill"}), ""),
        (FREE, {"direction": "north"}, at(room="ford"), ""),
        (FREE, {"x": 100, "z": -3}, at(pos=[100.4, 64, -4]), ""),
        (FREE, {"x": 100, "z": -3}, at(x=70, y=64, z=-3), "you are at x 70, y 64, z -3, not at x 100, z -3"),
        (FREE, {"pos": {"x": 100, "y": 64, "z": 0}, "range": 40}, at(pos=[70, 64, 0]), ""),
        (FREE, {"target": [1, 2]}, at(room="ford"), ""),
        (FREE, {"x": float("nan"), "z": 1e300}, at(pos=[1, 2, 3]), ""),
        (FREE, {}, at(room="ford"), ""),
        (GO, {"place": "mill"}, None, ""),
    ],
)
def test_arrival_is_judged_by_the_worlds_position_and_nothing_is_invented(
    action: ActionSpec, arguments: dict[str, Any], position: Position | None, wrong: str
) -> None:
    """P14: a contradiction needs both places in one vocabulary, or both in coordinates."""
    said = contradiction(action, arguments, position, keys(at(room="the bridge")))
    assert said.endswith(wrong)
    assert bool(said) == bool(wrong)
    still = ActionSpec(name="go", description="", schema=action.schema)
    assert contradiction(still, arguments, position, {"bridge"}) == "", "an action that does not move the body"


# ------------------------------------------------------------ goals
HERE = Standing(position=Position(names=("ford",)))


def test_what_failed_often_is_refused_until_something_changes() -> None:
    """C29, P14: the same action with the same arguments, from the same place, within the window, with nothing said since."""
    goals = Goals(tries=2, window_s=60)
    for now in (0.0, 10.0):
        assert not goals.refusal("go", {"to": "mill", "n": 1}, now=now, standing=HERE)
        goals.failed("go", {"to": "mill", "n": 1}, now=now, standing=HERE, why="The gate\nis shut.")
    refusal = goals.refusal("go", {"n": 1, "to": "mill"}, now=20.0, standing=HERE)
    assert "has failed 2 times from here, the last time: The gate is shut." in refusal
    assert "open again in 40 s" in refusal
    assert not goals.refusal("go", {"to": "inn", "n": 1}, now=20.0, standing=HERE)
    assert not goals.refusal("go", {"to": "mill", "n": 1}, now=61.0, standing=HERE)
    assert not goals.refusal("go", {"to": "mill", "n": 1}, now=-9e9, standing=HERE), "a clock that was set back"
    assert not goals.refusal("go", {"to": "mill", "n": 1}, now=20.0, standing=Standing(position=HERE.position, words=1))
    assert not goals.refusal("go", {"to": "mill", "n": 1}, now=20.0, standing=Standing(position=Position(names=("inn",))))
    goals.reached("go", {"to": "mill", "n": 1})
    assert not goals.refusal("go", {"to": "mill", "n": 1}, now=20.0, standing=HERE)


def test_a_step_aside_is_no_other_place_and_memory_is_bounded() -> None:
    """P14: coordinates that hardly differ are the same place; a model that invents goals fills nothing."""
    goals = Goals(tries=1)
    for n in range(3 * KEPT):
        goals.failed("go", {"n": n, "x": object()}, now=0.0, standing=Standing(position=Position(at={"x": 1.0, "z": 1.0})), why="")
    assert len(goals._goals) == KEPT
    goals.failed("go", {}, now=0.0, standing=Standing(position=Position(at={"x": 1.0, "z": 1.0})), why="")
    assert goals.refusal("go", {}, now=1.0, standing=Standing(position=Position(at={"x": 2.0, "z": 1.5})))
    assert not goals.refusal("go", {}, now=1.0, standing=Standing(position=Position(at={"x": 9.0, "z": 1.5})))
