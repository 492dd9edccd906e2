"""A home whose journal gave way to a fresh one."""

from __future__ import annotations

from pathlib import Path

from tests.npc.small_world import oda


async def test_the_life_after_the_one_that_lost_its_journal_is_taken_up(tmp_path: Path) -> None:
    """C35: a fresh journal has a new identity, and the manifest vouches for that one from then on, or each later life is lost too."""
    async with oda(tmp_path) as house:
        async with house.life():
            pass
        (house.home / "session.db").unlink()
        async with house.life() as second:
            await second.world.tell("Oda, good day.")
            await second.until(lambda: second.world.said)
        async with house.life() as third:
            alarms = [str(alarm["text"]) for alarm in third.saw("alarm")]
            turn = third.character.agent.session.turn
    assert not [text for text in alarms if "begins afresh" in text]
    assert turn >= 1
