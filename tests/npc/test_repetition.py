"""The same call with the same result is not made for ever (C27, C28, P15, P1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from npc.repetition import KEPT, Repetition
from runtime.core.acting import DENIED_STEPS
from runtime.core.resting import REFUSED
from runtime.store.journal import Journal
from sim.messages_api import Reply
from sim.reading import Reading
from tests.core.examples import examples
from tests.npc.hours import Hours
from tests.npc.small_world import SAY, WALK, Life, oda, words
from world_adapter.frames import ActionSpec, ActResult, ActState

NOW = 1_700_000_000.0


def tried(guard: Repetition, name: str, result: str, *, now: float = NOW, **arguments: object) -> bool:
    """Call it if it may be called; whether it was."""
    if guard.refusal(name, arguments, now=now):
        return False
    guard.gave(name, arguments, result, now=now, changes=name == "pull")
    return True


# ------------------------------------------------------------ the guard
def test_the_third_in_a_row_is_not_made_and_says_what_the_others_gave() -> None:
    """C27: the model has what it wanted to know, and the way out."""
    guard = Repetition()
    assert [tried(guard, "look", "A mill.", at="hill") for _ in range(4)] == [True, True, False, False]
    why = guard.refusal("look", {"at": "hill"}, now=NOW)
    assert "given the same twice, the last time: A mill." in why
    assert "60 s" in why
    assert guard.refusal("look", {"at": "ford"}, now=NOW) == ""


def test_the_order_of_arguments_and_the_spelling_of_numbers_make_no_other_call() -> None:
    """C27: 5 and 5.0 are one, 1 and true are not."""
    guard = Repetition(tries=2)
    guard.gave("put", {"a": 5, "b": "x"}, "Done.", now=NOW)
    assert guard.refusal("put", {"b": "x", "a": 5.0}, now=NOW)
    guard.gave("flag", {"on": 1}, "Done.", now=NOW)
    assert not guard.refusal("flag", {"on": True}, now=NOW)


def test_a_result_that_differs_begins_anew() -> None:
    """C27: whoever polls and sees changes may go on for ever."""
    guard = Repetition()
    assert all(tried(guard, "oven", f"{n} degrees") for n in range(50))
    assert [tried(guard, "oven", "hot") for _ in range(3)] == [True, True, False]


def test_calls_that_alternate_are_found() -> None:
    """C27: A, B, A, B is a loop as well, whether B may change something or not."""
    for pair in (("look", "hear"), ("look", "pull")):
        guard = Repetition()
        made = [tried(guard, name, f"nothing from {name}") for _ in range(6) for name in pair]
        assert not any(made[-4:]), pair
    guard = Repetition()
    made = [tried(guard, name, "nothing") for _ in range(6) for name in ("look", "hear", "smell")]
    assert not any(made[-3:])


def test_another_call_that_changed_something_opens_it_again() -> None:
    """C27: after the lever was pulled and did something new, looking is no repetition; after it did the same as before, it is."""
    guard = Repetition()
    assert [tried(guard, "look", "The gate is shut.") for _ in range(3)] == [True, True, False]
    assert tried(guard, "pull", "It creaks.")
    assert tried(guard, "look", "The gate is shut.")
    assert tried(guard, "pull", "It creaks.")
    assert tried(guard, "look", "The gate is shut.")
    assert not tried(guard, "look", "The gate is shut.")


def test_time_and_a_clock_that_was_set_back_open_it_again() -> None:
    """C27: within the window only."""
    guard = Repetition(window_s=60.0)
    assert [tried(guard, "look", "A mill.", now=NOW + t) for t in (0, 30, 59, 61)] == [True, True, False, True]
    assert tried(guard, "look", "A mill.", now=NOW - 5_000)


def test_calls_beside_one_another_count_before_anybody_knows_what_they_give() -> None:
    """C27: ten of the same in one step are not ten."""
    guard = Repetition()
    with guard.under_way("look", {}), guard.under_way("look", {}):
        assert "under way twice" in guard.refusal("look", {}, now=NOW)
        assert not guard.refusal("look", {"at": "ford"}, now=NOW)
    assert not guard.refusal("look", {}, now=NOW)


def test_it_is_the_same_after_a_restart() -> None:
    """P1: through JSON, and bounded."""
    guard = Repetition()
    for n in range(3 * KEPT):
        guard.gave("look", {"at": n}, "x" * 9_000, now=NOW)
    tried(guard, "look", "A mill.", at="hill")
    tried(guard, "look", "A mill.", at="hill")
    text = json.dumps(guard.dump())
    assert len(text) < KEPT * 400
    again = Repetition()
    again.load(json.loads(text))
    assert again.refusal("look", {"at": "hill"}, now=NOW) == guard.refusal("look", {"at": "hill"}, now=NOW) != ""
    assert again.dump() == guard.dump()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["calls", "changes", "a"]), inner, max_size=3),
    max_leaves=12,
)


@given(_JSON | st.fixed_dictionaries({"changes": st.integers(), "calls": st.dictionaries(st.text(max_size=3), _JSON, max_size=3)}))
@examples(50)
def test_whatever_stands_in_a_checkpoint_is_no_reason_to_fail(stored: object) -> None:
    """C28: an old or edited checkpoint."""
    guard = Repetition()
    guard.load(stored)
    assert [tried(guard, "look", "A mill.") for _ in range(3)] == [True, True, False]
    json.dumps(guard.dump())


@given(st.lists(st.tuples(st.sampled_from(["look", "pull", "hear"]), st.integers(0, 2), st.sampled_from(["same", "other"])), max_size=40))
@examples(50)
def test_no_run_of_the_same_is_longer_than_it_may_be(made: list[tuple[str, int, str]]) -> None:
    """C27: in any order of calls, of one call with one result at most two follow without another result or change between."""
    guard, row = Repetition(), dict[tuple[str, int], tuple[str, int]]()
    for name, argument, result in made:
        if not tried(guard, name, result, n=argument):
            assert row[name, argument][1] >= 2
            continue
        last, times = row.get((name, argument), ("", 0))
        row[name, argument] = (result, times + 1 if last == result else 1)
        if name == "pull" and last != result:
            row = {key: (was, 0) for key, (was, _) in row.items()} | {(name, argument): (result, 1)}
        assert row[name, argument][1] <= 2


# ------------------------------------------------------------ a whole NPC
_NAMED = {"type": "object", "properties": {"thing": {"type": "string"}}}
LOOK = ActionSpec(name="look", description="Look at something.", schema=_NAMED, effect="read")
PULL = ActionSpec(name="pull", description="Pull at something.", schema=_NAMED)
ACTIONS = (SAY, WALK, LOOK, PULL)


def calls(*names: str, thing: str = "gate") -> Reply:
    return Reply(content=[{"type": "tool_use", "name": name, "input": {"thing": thing}} for name in names])


def insisting(*names: str) -> Callable[[Reading], Reply | None]:
    """A model that calls one after the other for ever, in every turn."""
    count = iter(range(10_000))
    return lambda _: calls(names[next(count) % len(names)])


async def stored(home: Path, kind: str) -> list[Mapping[str, Any]]:
    async with await Journal.open(home / "session.db", read_only=True) as journal:
        return [event.data for event in await journal.events(kinds=(kind,))]


def _turns(life: Life, n: int) -> bool:
    return len(life.saw("turn")) == n


def made(life: Life) -> list[str]:
    return [name for _, name, _ in life.world.acts]


async def test_a_model_in_a_loop_is_stopped_told_and_its_turn_ends(tmp_path: Path) -> None:
    """C27, P15: two are made; three refusals later the turn is over, long before its steps are."""
    async with oda(tmp_path, budget="steps_per_turn = 100") as house:
        house.brain.script = insisting("look")
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, is the gate open?")
            await life.until(lambda: life.saw("turn"))
            assert made(life) == ["look", "look"]
            assert life.saw("turn")[0]["ended"] == REFUSED
            assert len(house.requests()) == 2 + DENIED_STEPS
            told = house.requests()[-1].results[0]
            assert "given the same twice, the last time: done" in told
            assert "Do something else" in told
    assert len(await stored(house.home, "repetition refused")) == DENIED_STEPS


async def test_a_loop_of_two_is_stopped(tmp_path: Path) -> None:
    """C27: also where one of them acts on the world."""
    async with oda(tmp_path, budget="steps_per_turn = 100") as house:
        house.brain.script = insisting("look", "pull")
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, open the gate!")
            await life.until(lambda: life.saw("turn"))
            assert len(made(life)) <= 6
            assert life.saw("turn")[0]["ended"] == REFUSED


async def test_whoever_polls_and_sees_changes_goes_on(tmp_path: Path) -> None:
    """C27: ten looks at what changes are ten looks."""
    seen = iter(range(1_000))

    async def moving(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
        return ActResult(id=id, state=ActState.DONE, text=f"The cart is {next(seen)} yards away.")

    async with oda(tmp_path, budget="steps_per_turn = 10") as house:
        house.brain.script = insisting("look")
        async with house.life(moving, actions=ACTIONS) as life:
            await life.world.tell("Oda, watch the cart!")
            await life.until(lambda: life.saw("turn"))
            assert made(life) == ["look"] * 10
            assert life.saw("turn")[0]["ended"] == "out of steps"


async def test_somebody_who_asks_again_is_looked_for_again(tmp_path: Path) -> None:
    """C27: a line meant for the NPC is reason enough; what nobody asked for is not."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda r: calls("look") if r.round < 2 else words("(I see)")
        async with house.life(actions=ACTIONS) as life:
            for n in range(1, 4):
                await life.world.tell("Oda, is it open now?")
                await life.until(partial(_turns, life, n))
            assert made(life) == ["look"] * 6


async def test_it_holds_over_turns_and_over_a_restart_until_its_time_is_over(tmp_path: Path) -> None:
    """C27, P1: idle wakes, then a new process; after the window it is open again."""
    async with oda(tmp_path, wake="idle_s = 0.1\nidle_max_s = 0.1\ngather_s = 0.0", acting="same_call_window_s = 500.0") as house:
        house.hours = Hours()
        house.brain.script = lambda r: words("(so)") if r.round else calls("look")
        async with house.life(actions=ACTIONS, remembers=True) as life:
            await life.until(lambda: len(life.saw("turn")) >= 4)
            assert made(life) == ["look", "look"]
        async with house.life(actions=ACTIONS, remembers=True) as life:
            await life.until(lambda: len(life.saw("turn")) >= 2)
            assert made(life) == []
            house.hours.go(600.0)
            await life.until(lambda: made(life))


async def test_the_same_words_and_an_order_to_stop_are_not_its_business(tmp_path: Path) -> None:
    """C27: speech has a guard of its own, and stopping is always possible."""
    stop = Reply(content=[{"type": "tool_use", "name": "npc_stop", "input": {}}])
    async with oda(tmp_path, budget="steps_per_turn = 6") as house:
        house.brain.script = lambda _: stop
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, stop!")
            await life.until(lambda: life.saw("turn"))
            assert life.saw("turn")[0]["ended"] == "out of steps"
            assert all("nothing to stop" in r.results[0] for r in house.requests()[1:])


async def test_ten_of_the_same_at_once_are_two(tmp_path: Path) -> None:
    """C27, C3: each call has its result, in order, and the world was asked twice."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda r: words("(so)") if r.round else calls(*["pull"] * 10)
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, pull!")
            await life.until(lambda: life.saw("turn"))
            assert made(life) == ["pull"] * 2
            results = house.requests()[-1].results
            assert len(results) == 10
            assert sum("[not run" in text for text in results) == 8


async def test_the_runtimes_own_tools_are_guarded_too(tmp_path: Path) -> None:
    """C27: searching the same again and again finds the same."""
    search = Reply(content=[{"type": "tool_use", "name": "npc_recall", "input": {"words": "treasure"}}])
    async with oda(tmp_path, budget="steps_per_turn = 50") as house:
        house.brain.script = lambda _: search
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, where is it?")
            await life.until(lambda: life.saw("turn"))
            assert life.saw("turn")[0]["ended"] == REFUSED


async def test_unknown_tools_and_torn_arguments_end_the_turn_too(tmp_path: Path) -> None:
    """C27, C28: nothing that was called was run, whatever the reason."""
    kinds = [
        Reply(content=[{"type": "tool_use", "name": "dance", "input": {}}]),
        Reply(content=[{"type": "tool_use", "name": "look", "input": {"thing": ["a", "b"]}}]),
    ]
    async with oda(tmp_path, budget="steps_per_turn = 50") as house:
        count = iter(range(1_000))
        house.brain.script = lambda _: kinds[next(count) % 2]
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, dance!")
            await life.until(lambda: life.saw("turn"))
            assert life.saw("turn")[0]["ended"] == REFUSED
            assert made(life) == []
            assert len(house.requests()) == DENIED_STEPS
