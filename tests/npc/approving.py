"""Oda with gold in her chest: a world with an action that cannot be undone, a model that wants it, and the operator's command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from npc.approvals.records import Records
from npc.approvals.stored import Asker, Standing, Stored
from npc.cli.approvals import app
from npc.policy.asking import Request
from sim.messages_api import Reply
from sim.reading import Reading
from tests.npc.small_world import SAY, WALK, Life, Oda, oda, words
from world_adapter.frames import ActionSpec

GIVE = ActionSpec(
    name="give_gold",
    description="Give gold away, for ever.",
    schema={
        "type": "object",
        "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}},
        "required": ["to", "amount"],
    },
    reversible=False,
)
ACTIONS = (SAY, WALK, GIVE)
ORACLE = Asker(npc="Oda", identity="test")


def call(name: str, **arguments: Any) -> Reply:
    """The model calls one tool."""
    return Reply(content=[{"type": "tool_use", "name": name, "input": arguments}])


def gives(to: str = "Bob", amount: int = 5) -> Reply:
    """The model wants to give gold away, and says why."""
    why = {"type": "text", "text": "(He has earned it.)"}
    return Reply(content=[why, {"type": "tool_use", "name": "give_gold", "input": {"to": to, "amount": amount}}])


def generous(reading: Reading) -> Reply | None:
    """Whenever somebody says "gold", the model gives."""
    return gives() if "some gold" in reading.news and not reading.round else words("(well)") if reading.round else None


def chest(folder: Path, **persona: str) -> AbstractAsyncContextManager[Oda]:
    """Oda's house."""
    return oda(folder, **persona)


def given(life: Life) -> list[dict[str, Any]]:
    """What was given away, as the world was asked for it."""
    return [dict(args) for (_, name, _), args in zip(life.world.acts, life.world.arguments, strict=True) if name == "give_gold"]


def asked(house: Oda) -> list[Stored]:
    """All requests there are."""
    return Records(house.home).all()


def standings(house: Oda) -> list[Standing]:
    """How far each of them has come."""
    return [one.standing for one in asked(house)]


async def wait_for(life: Life, house: Oda, *wanted: Standing) -> None:
    """Until the requests stand so, as the watcher of this life sees it."""
    await life.until(lambda: len(life.saw("approval")) + len(life.saw("approval over")) and tuple(standings(house)) == wanted)


def cli(house: Oda | Path, *command: str) -> Result:
    """`npc approvals …` in this process, as a person types it."""
    home = house if isinstance(house, Path) else house.home
    return CliRunner().invoke(app, [*command, "--home", str(home)], env={"COLUMNS": "100"})


def said(result: Result) -> str:
    """What a command that was refused says."""
    return str(result.exception)


def listed(house: Oda | Path, *options: str) -> dict[str, Any]:
    """`npc approvals list --json`."""
    data: dict[str, Any] = json.loads(cli(house, "list", "--json", *options).stdout)
    return data


def told(house: Oda) -> str:
    """All news that the mind was ever shown."""
    return "\n".join(reading.news for reading in house.requests())


def results(house: Oda) -> Sequence[str]:
    """All tool results that it was shown."""
    return [text for reading in house.requests() for text in reading.results]


def request(**more: Any) -> Request:
    """A request that nobody made."""
    return Request(**{"action": "give_gold", "arguments": {"to": "Bob", "amount": 5}, "world": "memory://mill", **more})
