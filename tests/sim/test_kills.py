"""The crash proof in small, as its users run it: real processes, real kills (W2, W3, C29, C34, C35)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from sim import product
from sim.kills.trial import Options, run

#: Of this seed's kills three are the world's, one is the NPC's, and one hits both while they get up.
KILLS = ("sim", "bench", "kills", "--kills", "6", "--seed", "260", "--within", "20", "--json")
PATIENCE_S = 300.0


@pytest.mark.timeout(PATIENCE_S)
async def test_nothing_is_lost_doubled_or_repeated_over_six_kills(tmp_path: Path) -> None:
    """W2, W3, C29, C34, C35: the world, the NPC, and both at once are killed; one object says that everything held."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "npc", *KILLS, stdout=pipe, stderr=pipe, cwd=tmp_path)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    figures = json.loads(out)
    assert figures["findings"] == [], err.decode()
    assert process.returncode == 0
    assert figures["kills"] == 6
    assert all(figures["killed"].values()), "each kind of kill"
    seen, acts = figures["observations"], figures["actions"]
    assert seen["told"] == seen["heard"] > 100
    assert (seen["lost"], seen["doubled"], seen["out_of_order"], acts["repeated"]) == (0, 0, 0, 0)
    assert acts["carried_out"] > 10
    assert figures["world_back_to_next_action_ms"]["max"] > 0
    assert _names(tmp_path) == [], "nothing is left behind"


def _names(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir()]


async def test_a_folder_with_an_earlier_life_in_it_is_refused(tmp_path: Path) -> None:
    """S3: the proof begins with an empty home, and says so before it starts anything."""
    (tmp_path / "home").mkdir()
    with pytest.raises(product.ProductError, match="name another folder"):
        await run(Options(kills=1, keep=tmp_path))
    assert _names(tmp_path) == ["home"]
