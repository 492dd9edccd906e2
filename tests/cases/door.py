"""Oda's house with a window of any size, and what the endpoint saw of her."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from npc.character import Character
from npc.home import Home
from npc.living import settings_of
from runtime.agent import TimedCount
from runtime.model.client import ModelClient, Timeouts
from runtime.model.profiles import profile
from runtime.model.retry import Policy
from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.small_world import COUNT, Life, Oda, SmallWorld
from world_adapter.client import WebsocketWorld
from world_adapter.frames import ActionSpec

LOOK = ActionSpec(name="look", description="Look at something.", schema={"type": "object", "properties": {"at": {"type": "string"}}})


@contextlib.asynccontextmanager
async def house(folder: Path, *, window: int = 12_000, provider: int = 0, description: str = "", **persona: str) -> AsyncIterator[Oda]:
    """Oda in a window of `window` tokens, at an endpoint whose own is `provider` (0: the same)."""
    oda = Oda(folder, **persona)
    oda.model = MessagesAPI(oda.brain, provider or window, on_request=oda.changes.tell, keep=2_000)
    oda.persona = oda.persona.adjusted(window=window)
    if description:
        character = oda.persona.character.model_copy(update={"description": description})
        oda.persona = oda.persona.model_copy(update={"character": character})
    async with oda.model:
        yield oda


async def turn(life: Life, text: str, **more: Any) -> None:
    """Tell one line and wait until the turn that it began is over."""
    before = len(life.saw("turn"))
    await life.world.tell(text, **more)
    await life.until(lambda: len(life.saw("turn")) > before)


async def stored(oda: Oda, *kinds: str) -> Sequence[Event]:
    """The events of a life that is over."""
    async with await Journal.open(oda.home / "session.db", read_only=True) as journal:
        return await journal.events(kinds=kinds, limit=100_000)


def refused(oda: Oda) -> list[str]:
    """What the endpoint refused, and why."""
    return [record.error_message or "" for record in oda.model.records if record.outcome == "refused"]


def failed(life: Life) -> list[Mapping[str, Any]]:
    """Turns that failed."""
    return [told for told in life.saw("turn") if told.get("failed")]


def look(*at: str) -> Reply:
    """The model looks at these, all at once."""
    return Reply(content=[{"type": "tool_use", "name": "look", "input": {"at": one}} for one in at])


def results(reading: Reading) -> list[Mapping[str, Any]]:
    """The blocks that answer the calls of the newest step."""
    return [block for block in reading.messages[-1][1] if block.get("type") == "tool_result"]


def shared(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a request begins with all that the one before it held, byte for byte, markers apart."""
    old, new = ([*_flat(body)] for body in (before, after))
    return new[: len(old)] == old


def _flat(body: Mapping[str, Any]) -> Iterable[str]:
    yield json.dumps(body.get("tools"), sort_keys=False)
    for part in (*body["system"], *(block for _, content in Reading(body).messages for block in content)):
        yield json.dumps({key: value for key, value in part.items() if key != "cache_control"}, sort_keys=False)


@contextlib.asynccontextmanager
async def wired(oda: Oda, url: str, *, timeouts: Timeouts | None = None, **options: Any) -> AsyncIterator[Life]:
    """A life of Oda on a real websocket; it ends in order with the block."""
    facts = profile(oda.persona.model.id)
    client = ModelClient(api_key="stand-in", base_url=oda.model.base_url, policy=Policy(tries=1), timeouts=timeouts)
    with Home(oda.home) as home:
        async with await Journal.open(home.database_path) as journal:

            def watch(what: str, data: Mapping[str, Any]) -> None:
                life.told.append((what, data))
                oda.changes.tell()

            character = Character(
                persona=oda.persona, home=home, journal=journal, model=client, world=WebsocketWorld(url, npc="Oda", **options),
                settings=settings_of(oda.persona, facts), count=TimedCount(COUNT), watch=watch,
            )  # fmt: skip
            life = Life(character, SmallWorld(oda.changes), oda.changes)
            life.task = asyncio.create_task(character.live())
            try:
                yield life
            finally:
                character.stop()
                await life.ended()
                await client.close()
