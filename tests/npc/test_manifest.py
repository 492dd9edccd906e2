"""Whether a life is taken up again or begun afresh is decided by what the home vouches for. Row: T14."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npc.manifest import Manifest
from tests.npc.small_world import Oda, oda, words

MARK = "our cat is called Zibeline"


async def lived(house: Oda, said: str) -> str:
    """One life in which one line is heard; the request that it led to."""
    async with house.life() as life:
        await life.world.tell(said)
        await life.until(lambda: life.saw("turn"))
    return json.dumps(house.requests()[-1].body["messages"])


@pytest.mark.parametrize("harm", ["missing", "torn", "changed", "another", "list", "empty"])
async def test_what_nobody_vouches_for_is_set_aside_and_not_taken_up(tmp_path: Path, harm: str) -> None:
    """T14: missing, torn, changed by hand or of another journal means a fresh start, the old session kept as a file, nothing told twice."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda _: words("(hm)")
        await lived(house, MARK)
        path = house.home / "manifest.json"
        match harm:
            case "missing":
                path.unlink()
            case "torn":
                path.write_bytes(path.read_bytes()[:40])
            case "changed":
                path.write_text(path.read_text().replace('"lives": 1', '"lives": 7'))
            case "another":
                Manifest(npc="Oda", identity="somebody else").write(path)
            case "list":
                path.write_text("[]")
            case "empty":
                path.write_text("")
        opening = await lived(house, "Oda, good day")
        assert MARK not in opening
        assert opening.count("good day") == 1
        kept = list((house.home / "sessions").glob("set-aside-*.json"))
        assert [MARK in one.read_text() for one in kept] == [True]
        assert "good day" in await lived(house, "Oda, good night")  # from here on the home vouches for it again


async def test_what_is_vouched_for_is_taken_up(tmp_path: Path) -> None:
    """T14: whole means resume; the file says how often and whether the last life ended in order."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda _: words("(hm)")
        await lived(house, MARK)
        assert MARK in await lived(house, "Oda, good day")
        manifest = Manifest.read(house.home / "manifest.json")
        assert isinstance(manifest, Manifest)
        assert (manifest.npc, manifest.lives) == ("Oda", 2)
        assert manifest.ended_at >= manifest.begun_at > 0
        assert json.loads((house.home / "manifest.json").read_text())["version"] == 1
