"""Many observations at once (W2): all are stored, what is meant for the NPC is heard at once, and the rest costs next to nothing."""

from __future__ import annotations

from pathlib import Path

from npc.crowd import Allowance, look
from npc.hearing import Ears
from tests.npc.small_world import Life, oda
from tests.npc.test_character import books, stored
from world_adapter.frames import Observation, Speaker
from world_adapter.runs import Run

ME = "Oda"


def guest(n: int) -> Speaker:
    return Speaker(id=f"p{n}", name=f"Guest{n}", kind="player")


def crowd(first: int, many: int) -> list[Observation]:
    """A busy square: people walk, people talk."""
    return [
        Observation(seq=n, t=1.0, kind="moved", text=f"Guest{n % 20} walks.", key=f"at:{n % 20}", prio=2, speaker=guest(n % 20))
        if n % 4
        else Observation(seq=n, t=1.0, kind="speech", text=f"Guest{n % 20} talks of the weather, number {n}.", speaker=guest(n % 20))
        for n in range(first, first + many)
    ]


async def told(life: Life, observations: list[Observation]) -> None:
    await life.world.here.observed(Run.of(observations), world="mill", epoch="e1")


async def test_a_line_for_the_npc_in_the_middle_of_a_flood_is_answered_and_everything_is_stored(tmp_path: Path) -> None:
    """W2, C35: two thousand others at once, one for Oda; each is an event, and the watcher is told how many it was not shown."""
    async with oda(tmp_path) as house:
        async with house.life() as life:
            flood = crowd(1, 2_000)
            flood[700] = Observation(seq=701, t=1.0, kind="speech", text="Oda, where is the key?", speaker=guest(3), to=ME)
            await told(life, flood)
            await life.until(lambda: "I hear you." in life.world.said)
            assert any("where is the key" in reading.news for reading in house.requests())
            assert sum(data["count"] for data in life.saw("more heard")) + len(life.saw("heard")) >= 2_000
            assert len(life.saw("heard")) < 100
        events = await stored(house.home, "observation")
        assert [e.data["seq"] for e in events if e.data["seq"]] == list(range(1, 2_001))
        figures = await books(house.home)
        assert figures["received"] == 2_000
        assert figures["lost"] == 0
        assert figures["delivered"] + figures["merged"] + figures["omitted"] + figures["waiting"] == 2_000


async def test_own_words_in_a_crowd_are_no_news(tmp_path: Path) -> None:
    """W6: an echo is stored as own, whether the world marks it or not."""
    async with oda(tmp_path) as house:
        async with house.life() as life:
            flood = crowd(1, 60)
            flood[10] = Observation(seq=11, t=1.0, kind="speech", text="Flour!", speaker=Speaker(id="x", name="Oda", kind="npc"), own=True)
            flood[20] = Observation(seq=21, t=1.0, kind="speech", text="Flour!", speaker=Speaker(id=ME, name="Oda", kind="npc"))
            await told(life, flood)
        events = {e.data["seq"]: e.data for e in await stored(house.home, "observation")}
        assert events[11].get("self") is True
        assert events[21].get("self") is True
        assert sum(bool(data.get("self")) for data in events.values()) == 2
        assert (await books(house.home))["own"] == 2


def test_what_may_be_meant_for_the_npc_is_always_looked_at() -> None:
    """W2: however little is left of the allowance; by id, by name, by whisper, by the operator; and what may wake a body that acts."""
    flood = crowd(1, 400)
    wanted = {
        10: Observation(seq=11, t=1.0, kind="speech", text="psst", speaker=guest(1), to=ME),
        20: Observation(seq=21, t=1.0, kind="speech", text="ask the miller, ask Oda", speaker=guest(1)),
        30: Observation(seq=31, t=1.0, kind="whisper", text="psst", speaker=guest(1)),
        40: Observation(seq=41, t=1.0, kind="notice", text="Look here.", speaker=Speaker(id="op", name="op", kind="operator")),
    }
    other = {
        50: Observation(seq=51, t=1.0, kind="hurt", text="It hurts.", to=ME),
        60: Observation(seq=61, t=1.0, kind="speech", text="not for you", speaker=guest(1), to="somebody"),
    }
    for n, observation in {**wanted, **other}.items():
        flood[n] = observation
    nothing = Allowance(lambda: 0.0, at_once=0)
    seen = look(Run.of(flood), ears=Ears(["Oda"]), me=ME, waking=lambda kind: kind == "hurt", allowance=nothing)
    assert seen.addressed == {*wanted, 50}
    assert set(seen.close) == {*wanted, 50}


def test_the_overheard_are_heard_one_by_one_before_anybody_twice() -> None:
    """W2: a small allowance goes to as many speakers as it can."""
    now = 0.0
    allowance = Allowance(lambda: now, a_second=10.0, at_once=5)
    seen = look(Run.of(crowd(1, 400)), ears=Ears(["Oda"]), me=ME, waking=None, allowance=allowance)
    speakers = {crowd(1, 400)[n].speaker for n in seen.close}
    assert len(seen.close) == len(speakers) == 5
    assert look(Run.of(crowd(1, 40)), ears=Ears(["Oda"]), me=ME, waking=None, allowance=allowance).close == []
    now = 0.35
    assert len(look(Run.of(crowd(1, 40)), ears=Ears(["Oda"]), me=ME, waking=None, allowance=allowance).close) == 3
