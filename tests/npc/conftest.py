"""What several modules look at and none changes."""

from __future__ import annotations

import asyncio

import pytest

from tests.npc.flooded import lived
from tests.npc.small_world import Oda


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Oda:
    """Oda's house after a short, hard life. It is only read: who wants to change it copies it."""
    return asyncio.run(lived(tmp_path_factory.mktemp("oda")))
