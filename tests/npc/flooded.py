"""A short, hard life in a small window: large outputs, crowds, facts that are asked for again, a restart, and hard resets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.messages_api import Reply
from sim.reading import Reading
from tests.npc.small_world import Life, Oda, oda, use, words
from world_adapter.frames import ActResult, ActState, Speaker

RULE = "Never give the mill key to anyone who does not show the seal."
WINDOW = 5_600
CROWD = Speaker(id="p9", name="Kid", kind="player")


async def acting(number: str, name: str) -> ActResult | None:
    """Every third action has much to tell, and a walk goes on."""
    if name == "walk":
        return ActResult(id=number, state=ActState.ACCEPTED)
    size = 300 if int(number.rpartition("-")[2]) % 3 == 0 else 3
    return ActResult(id=number, state=ActState.DONE, text=" ".join(f"sack {n} of barley" for n in range(size)))


def mind(reading: Reading) -> Reply | None:
    """Talks and works at once, looks things up, doubts, refuses what is unspeakable, and ends its turn."""
    if "unspeakable" in reading.said.rpartition("Bob")[2]:
        return Reply(content=[], stop_reason="refusal")
    if reading.round == 0 and "walk" in reading.said.rpartition("Bob")[2]:
        return use("walk", "to the ford")
    if reading.round == 0:
        told = {"type": "text", "text": "\x1b[2JNote to self: the ledger is unverified."}
        said = {"type": "tool_use", "name": "say", "input": {"text": "I hear you, and I count the sacks."}}
        looked = {"type": "tool_use", "name": "npc_recall", "input": {"words": "Halvard ferryman"}}
        return Reply(content=[told, said, looked])
    return use("say", "Another sack.") if reading.round == 1 else words("(done)")


def more(life: Life, what: str, than: int) -> Callable[[], bool]:
    """Whether whoever watches was told of one more."""
    return lambda: len(life.saw(what)) > than


async def turns(life: Life, first: int, last: int) -> None:
    """Live these turns."""
    for n in range(first, last):
        for k in range(n % 7):
            await life.world.tell(f"passer-by {n}.{k} talks of turnips, carts and the weather on the road", to=None, speaker=CROWD)
        if n == 2:
            await life.world.tell("the ferryman of Tarnwick is called Halvard Moss, remember that")
        before, yields = len(life.saw("turn")), len(life.saw("yield"))
        long = "grain and flour and chaff " * 330 if n % 9 == 5 else ""
        walk = ", please walk to the ford" if n % 11 == 7 and n % 10 != 9 else ""
        walk = walk or (", and now something unspeakable" if n % 20 == 15 else "")
        asks = "what was the ferryman of Tarnwick called, was it Halvard?" if n % 10 == 9 else f"how goes it, {n}{walk}?"
        await life.world.tell(f"{asks} {long}".strip())
        if "walk" in walk:
            await life.until(more(life, "yield", yields))
            life.world.end(-1)
        await life.until(more(life, "turn", before))


async def lived(folder: Path, *, number: int = 60, window: int = WINDOW) -> Oda:
    """Oda's house after so many turns, in two lives."""
    # Whatever passes by waits for the line that is meant for her: the turns are the same on a slow machine.
    async with oda(folder, wake="idle_s = 3600.0\nidle_max_s = 7200.0\ngather_s = 60.0") as house:
        house.persona = house.persona.adjusted(window=window)
        house.brain.script = mind
        house.home.mkdir(parents=True)
        (house.home / "constitution.md").write_text(f"1. {RULE}\n2. Be kind.\n", encoding="utf-8")
        (house.home / "persona.toml").write_text(house.persona.to_toml(), encoding="utf-8")
        for first, last in ((0, number // 2), (number // 2, number)):
            async with house.life(acting) as life:
                await turns(life, first, last)
        return house


async def events(home: Path, *kinds: str) -> Sequence[Event]:
    """All events of these kinds."""
    async with await Journal.open(home / "session.db", read_only=True) as journal:
        return await journal.events(kinds=kinds, limit=100_000)


def received(house: Oda) -> list[Mapping[str, Any]]:
    """The bodies of the mind's requests, as the endpoint received them."""
    return [{k: v for k, v in r.body.items() if k != "stream"} for r in house.model.records if r.body.get("tools")]
