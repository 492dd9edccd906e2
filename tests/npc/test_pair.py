"""Two NPCs in one room, each as its operator runs it: a process of its own, a world on a real websocket, a model behind real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from runtime.store.journal import Journal
from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.lives import BOB, PATIENCE_S, SAY, start
from world_adapter.frames import Speaker
from world_adapter.server import Request, WorldServer

OTHER = {"Oda": "Mara", "Mara": "Oda"}
#: The guard's shortest way: three lines, three that wait, a goodbye; a round more at either end for who began and who is faster.
MOST_LINES = 20
#: Longer than any wait before a reply, with the rest below.
QUIET_S = 4.0
REST_S = 16.0
SUBJECTS = ("the frost", "a lame mule", "the toll", "white stones", "the ford", "old Tam", "bread", "a song", "the bell", "wolves", "rope")


class Chatterbox:
    """A model that answers whoever spoke, always, each time about something else."""

    def __init__(self) -> None:
        self._n = itertools.count()

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        reading = Reading(request)
        if reading.round:
            return Reply(content=[{"type": "text", "text": "(done)"}])
        n = next(self._n)
        one, two = SUBJECTS[n % len(SUBJECTS)], SUBJECTS[n * 7 // len(SUBJECTS) % len(SUBJECTS)]
        line = f"Bob, gladly: {one}." if "Bob (player)" in reading.news else f"Speaking of {one}, what of {two}?"
        return Reply(content=[{"type": "tool_use", "name": "say", "input": {"text": line}}])


class Room:
    """A room where everyone hears what is said, the other NPC as spoken to."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.changed = asyncio.Condition()
        self.there: set[str] = set()
        self.world = WorldServer("room", on_act=self._act, actions=[SAY], npcs=tuple(OTHER), on_attach=self.there.add)
        self.models = {npc: MessagesAPI(Chatterbox(), 12_000, keep=10_000) for npc in OTHER}

    async def _act(self, request: Request) -> str:
        text, other = str(request.args.get("text")), OTHER[request.npc]
        speaker = Speaker(id=request.npc, name=request.npc, kind="npc")
        async with self.changed:
            self.lines.append((request.npc, text))
            self.changed.notify_all()
        self.world.observe(request.npc, text, kind="speech", speaker=speaker, own=True)
        self.world.observe(other, text, kind="speech", speaker=speaker, to=other)
        return "Everyone heard you."

    async def until(self, done: Callable[[], bool], patience: float = PATIENCE_S) -> None:
        """Wait until what was said satisfies `done`."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(done), patience)

    async def quiet(self) -> None:
        """Wait until nobody has said anything for a while."""
        while True:
            before = len(self.lines)
            try:
                await self.until(lambda before=before: len(self.lines) > before, QUIET_S)  # type: ignore[misc]
            except TimeoutError:
                return
            assert len(self.lines) <= 4 * MOST_LINES, "they talk for ever"

    @property
    def calls(self) -> int:
        """Model calls of both."""
        return sum(len(model.records) for model in self.models.values())


@contextlib.asynccontextmanager
async def room(folder: Path, rounds: int) -> AsyncIterator[Room]:
    """Both NPCs attached, and Mara's first line said to Oda."""
    here = Room()
    async with contextlib.AsyncExitStack() as stack:
        for model in here.models.values():
            await stack.enter_async_context(model)
        await stack.enter_async_context(here.world)
        url = f"ws://127.0.0.1:{await here.world.listen('127.0.0.1', 0)}"
        for npc, model in here.models.items():
            persona = folder / f"{npc}.toml"
            persona.write_text(
                f'[character]\nname = "{npc}"\ndescription = "You like to talk."\n[wake]\nidle_s = 3600.0\nidle_max_s = 7200.0\n'
                f"[speech]\npair_rounds = {rounds}\npair_rest_s = {REST_S}\n",
                encoding="utf-8",
            )
            process = await start(url, "--persona", str(persona), "--home", str(folder / npc), "--base-url", model.base_url)
            stack.push_async_callback(end, process)
        async with asyncio.timeout(PATIENCE_S):
            while len(here.there) < len(OTHER):  # noqa: ASYNC110 - the server calls back without a loop's event
                await asyncio.sleep(0.02)
        here.world.observe("Oda", "Good evening.", kind="speech", speaker=Speaker(id="Mara", name="Mara", kind="npc"), to="Oda")
        yield here


async def end(process: asyncio.subprocess.Process) -> None:
    """End an NPC in order, and see that it does."""
    process.send_signal(signal.SIGTERM)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, out.decode()


async def test_without_the_guard_two_npcs_talk_for_ever(tmp_path: Path) -> None:
    """W6: what the guard is for: nothing else ends it."""
    async with room(tmp_path, rounds=0) as here:
        await here.until(lambda: len(here.lines) > MOST_LINES + 5)


async def test_with_it_they_rest_and_a_player_who_joins_is_answered_at_once(tmp_path: Path) -> None:
    """W6, P15: the calls between two NPCs are bounded, a player gets through, and the log says why."""
    async with room(tmp_path, rounds=3) as here:
        await here.quiet()
        talked, calls = len(here.lines), here.calls
        assert 6 <= talked <= MOST_LINES
        assert calls <= 2 * MOST_LINES + 4
        here.world.observe("Oda", "Oda, have you seen my goat?", kind="speech", speaker=BOB, to="Oda")
        await here.until(lambda: len(here.lines) > talked, QUIET_S)
        assert here.lines[talked][0] == "Oda"
        assert here.lines[talked][1].startswith("Bob, gladly")
        await here.quiet()
        assert here.calls - calls <= 2 * MOST_LINES
    decided = []
    for npc in OTHER:
        async with await Journal.open(tmp_path / npc / "session.db", read_only=True) as journal:
            decided += [e.data for e in await journal.events(kinds=("company",), limit=1_000)]
    assert {"slow", "goodbye", "rest"} <= {d["decided"] for d in decided}
    assert all(d["speaker"] in OTHER and d["rounds"] > 0 for d in decided)
