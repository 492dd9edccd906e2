"""The measurement of intake (W2, W3) measures what it says: everything told is stored and acknowledged, every line reaches a request."""

from __future__ import annotations

import asyncio

from rich.console import Console

from sim.intake import Flood, Intake, Race, _missed, measure, rendered


async def test_a_small_flood_is_stored_acknowledged_and_answered() -> None:
    """W2, W3: real sockets, a real disk, a world and a model in processes of their own."""
    found = await asyncio.to_thread(measure, rounds=1, count=2_000, batch=50, seconds=2.0, rate=500.0, addressed=2.0)
    (race,) = found.races
    assert race.bare > 0
    assert race.durable > 0
    assert 0 < race.acks < 2_000 / 50
    assert found.flood is not None
    assert found.flood.told == found.flood.stored == found.flood.acked > 500
    assert found.flood.lines > 0
    assert found.flood.missed == 0
    assert found.flood.requests > 0


def test_a_bound_that_is_missed_is_named() -> None:
    """The command's exit status hangs on it."""
    flood = Flood(
        rate=1.0, seconds=1.0, told=3, stored=2, acked=3, lag=(1.0, 51.0, 60.0), reply=(1.0, 2.0, 3.0), lines=2, missed=1, requests=1,
        memory=(100.0, 150.0),
    )  # fmt: skip
    found = Intake(batch=10, races=[Race(bare=100.0, durable=30.0, acks=1)], flood=flood)
    assert len(_missed(found)) == 5
    console = Console(width=120, record=True, quiet=True)
    console.print(rendered(found))
    assert not _missed(Intake(batch=10, races=[Race(bare=100.0, durable=60.0, acks=1)]))
