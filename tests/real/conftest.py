"""Real game servers, started on demand and at most once a session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.real import evennia_game, minecraft_game


@pytest.fixture(scope="session")
def evennia_server() -> Iterator[evennia_game.EvenniaServer]:
    """A running Evennia server with its seeded game. Skips where it cannot be installed, unless NPC_REQUIRE_REAL is set (as in CI)."""
    try:
        with evennia_game.running() as server:
            yield server
    except evennia_game.CannotInstallError as exc:
        if os.environ.get("NPC_REQUIRE_REAL"):
            raise
        pytest.skip(str(exc))


@pytest.fixture(scope="session")
def minecraft() -> minecraft_game.Packages:
    """The packages of the Minecraft bridge and of a server for it. Skips where they cannot be installed, unless NPC_REQUIRE_REAL is set."""
    try:
        return minecraft_game.installed()
    except minecraft_game.CannotInstallError as exc:
        if os.environ.get("NPC_REQUIRE_REAL"):
            raise
        pytest.skip(str(exc))
