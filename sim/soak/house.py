"""The NPC's house: the product as it is, in processes of its own kind that end in order, are killed, and come back.

Invariant: a life that was killed is not asked to do anything: its files are copied as they lie at that very instant, its machine is dark at
once, and the next life begins from the copy. That is what `kill -9` leaves: what was written to files is there, what was only in memory is
not, a transaction under way is in the log half or not at all. What a power cut may do besides (pages that the system had not yet written
out are lost) is not in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import Any

from npc.character import Character
from npc.figures import figures
from npc.home import Home
from npc.living import settings_of
from npc.persona import Persona
from runtime.agent import TimedCount
from runtime.core.effects import End
from runtime.model.client import ModelClient
from runtime.model.profiles import profile
from runtime.store.errors import StoreError
from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.soak.network import MACHINE, Network
from sim.soak.stage import URL
from world_adapter.client import WebsocketWorld
from world_adapter.frames import ActProgress, Gate, Rollback

DATABASE = "session.db"
#: Virtual seconds that an orderly stop may take, and how long a killed life's tasks are waited for before they are forgotten.
STOP_S, BURY_S = 120.0, 60.0
#: Real milliseconds that SQLite itself waits for a lock; the product's own patience is virtual and stays as it is.
BUSY_MS = 2

#: Virtual seconds between two looks of its duties at a file: at the usual two a quiet day would be 43,200 of them.
LOOK_S = 60.0

Watch = Callable[[str, Mapping[str, Any]], None]


class WatchedJournal(Journal):
    """The product's journal; whoever kills may do so at any thing that is put into it."""

    at: Callable[[str], None] = staticmethod(lambda _: None)

    def append(self, kind: str, data: Mapping[str, Any], *, turn: int = 0) -> int:
        """See `Journal.append`."""
        number = super().append(kind, data, turn=turn)
        self.at(kind)
        return number

    def checkpoint(self, name: str, text: str) -> None:
        """See `Journal.checkpoint`."""
        super().checkpoint(name, text)
        self.at("checkpoint")

    async def commit(self) -> None:
        """See `Journal.commit`."""
        await super().commit()
        self.at("commit")


class House:
    """One NPC over all its lives.

    Args:
        persona: who it is.
        folder: where its homes lie; each kill makes another one.
        base_url: of the model.
        network: that it is on.
        clock: unix seconds, as its machine's clock shows them.
        watch: sees what the product shows to whoever watches.
        count: tokens of a text.
    """

    def __init__(
        self, persona: Persona, folder: Path, *, base_url: str, network: Network, clock: Callable[[], float], watch: Watch,
        count: Callable[[str], int],
    ) -> None:  # fmt: skip
        self.persona, self._folder, self._base_url, self._network = persona, folder, base_url, network
        self._clock, self._watch, self._count = clock, watch, count
        self.path = folder / "home-0"
        self.lives = 0
        self.kills = 0
        self.ends: deque[End] = deque(maxlen=20)
        self._died: Callable[[str], bool] | None = None
        self._task: asyncio.Task[End] | None = None
        self._character: Character | None = None
        self._journal: WatchedJournal | None = None
        self._buried: list[asyncio.Task[End]] = []
        self._machine = ""
        self.stopping = False  # somebody has asked it to end, and sees to what follows

    # -- the process

    @property
    def alive(self) -> asyncio.Task[End] | None:
        """The life that goes on, None where there is none."""
        return self._task

    @property
    def character(self) -> Character | None:
        """Of the life that goes on."""
        return self._character

    def start(self) -> None:
        """Begin a life in the home as it lies there."""
        if self._task is not None:
            return
        self.stopping = False
        self.lives += 1
        self._watch("life begins", {"number": self.lives})
        self._machine = f"{self.persona.character.name}/{self.lives}"
        context = copy_context()
        context.run(MACHINE.set, self._machine)
        self._task = asyncio.get_running_loop().create_task(self._live(self._machine), context=context)

    async def _live(self, machine: str) -> End:
        who, facts = self.persona, profile(self.persona.model.id)
        loop = asyncio.get_running_loop()

        def watch(what: str, data: Mapping[str, Any]) -> None:
            if machine == self._machine:
                self._watch(what, data)

        def aside(frame: Gate | Rollback | ActProgress) -> None:
            character.attachment.aside(frame)

        home = Home(self.path, clock=self._clock)
        home.open(who)
        client = ModelClient(api_key="stand-in", base_url=self._base_url, clock=loop.time)
        try:
            journal = await WatchedJournal.open(home.database_path, clock=self._clock, memory_lines=who.memory.lines)
            try:
                with contextlib.suppress(StoreError):
                    await journal._database.rows(f"PRAGMA busy_timeout = {BUSY_MS}")  # noqa: SLF001 - waiting in C would cost real time
                world = WebsocketWorld(URL, npc=who.character.name, on_aside=aside, attach_within_s=None)
                character = Character(
                    persona=who, home=home, journal=journal, model=client, world=world, settings=settings_of(who, facts),
                    count=TimedCount(self._count), clock=self._clock, watch=watch, cacheable=facts.min_cacheable, sleep=_leisurely,
                )  # fmt: skip
                journal.at = lambda kind: self._effect(kind, machine)
                if machine == self._machine:
                    self._character, self._journal = character, journal
                return await character.live()
            finally:
                try:
                    await journal.close()
                except StoreError as error:
                    watch("alarm", {"text": f"the end of the journal could not be written: {error}"})
        finally:
            await client.close()
            home.close()

    async def stop(self) -> End | None:
        """In order, as SIGTERM does it. None if it does not end."""
        task = self._task
        if task is None:
            return None
        self.stopping = True
        if self._character is None and not task.done():  # it has not got so far: wait until it has
            await asyncio.wait([task], timeout=1.0)
        if self._character is not None:
            self._character.stop()
        await asyncio.wait([task], timeout=STOP_S)
        if self._task is not task:  # killed on the way
            return self.ends[-1]
        return self.ended() if task.done() else None

    def ended(self) -> End:
        """Takes note of the end of a life that is over."""
        assert self._task is not None  # noqa: S101 - only asked of a life
        task, self._task, self._character, self._journal = self._task, None, None, None
        self._machine = ""
        error = task.exception() if not task.cancelled() else None
        end = End(code=1, message=f"it broke: {error!r}"[:500]) if error else task.result()
        self.ends.append(end)
        return end

    def kill_at(self, die: Callable[[str], bool] | None) -> None:
        """From now on each thing that is put into the journal is an occasion to die: `die(kind)` says whether it is the one."""
        self._died = die

    def _effect(self, kind: str, machine: str) -> None:
        if self._died is not None and machine == self._machine and self._died(kind):
            self.kill()

    def kill(self) -> bool:
        """Now, whatever it is doing. False if it does not live."""
        task = self._task
        if task is None or not self._machine:
            return False
        self._died = None
        self.kills += 1
        copy = self._folder / f"home-{self.kills}"
        copied(self.path, copy)
        self._network.unplug(self._machine)
        before, self.path = self.path, copy
        self._task = self._character = self._journal = None
        self._machine = ""
        self.ends.append(End(code=137, message="killed"))
        self._buried.append(task)
        asyncio.get_running_loop().call_soon(task.cancel)
        task.add_done_callback(lambda _: shutil.rmtree(before, ignore_errors=True))
        return True

    async def buried(self) -> int:
        """Waits for the tasks of killed lives; how many would not end."""
        waiting, self._buried = self._buried, []
        if waiting:
            await asyncio.wait(waiting, timeout=BURY_S)
        for task in waiting:
            if task.done() and not task.cancelled():
                task.exception()
        return sum(not task.done() for task in waiting)

    # -- the disk

    def damage(self, pages: int, dice: random.Random) -> bool:
        """Garbage in the database's file, while nobody lives."""
        path = self.path / DATABASE
        if self._task is not None or not path.exists():
            return False
        size, page = path.stat().st_size, 8_192
        with path.open("r+b") as file:
            for _ in range(pages):
                file.seek(dice.randrange(max(1, size // page)) * page + dice.randrange(512))
                file.write(dice.randbytes(2_048))
        return True

    @property
    def set_aside(self) -> int:
        """How many databases of this home were damaged and begun afresh."""
        return sum(not path.name.endswith(("-wal", "-shm")) for path in self.path.glob(f"{DATABASE}.damaged-*"))

    def lock(self) -> sqlite3.Connection | None:
        """Another process that holds the database: close it to let go. None if it cannot be had."""
        holder = sqlite3.connect(self.path / DATABASE, timeout=0.2, isolation_level=None)
        try:
            holder.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            holder.close()
            return None
        return holder

    async def events(self, kinds: Collection[str], *, after: int) -> AsyncIterator[Event]:
        """Of its log, while nobody lives; none if it cannot be read."""
        try:
            async with await Journal.open(self.path / DATABASE, clock=self._clock, read_only=True) as journal:
                while page := await journal.events(after=after, kinds=kinds):
                    for event in page:
                        yield event
                    after = page[-1].id
        except StoreError:
            return

    async def status(self) -> Mapping[str, Any] | None:
        """What `npc status` says of the home, while nobody lives; None if its journal cannot be read."""
        try:
            async with await Journal.open(self.path / DATABASE, clock=self._clock, read_only=True) as journal:
                return (await figures(journal)).as_json()
        except StoreError:
            return None


async def _leisurely(seconds: float) -> None:
    await asyncio.sleep(max(seconds, LOOK_S))


def copied(home: Path, to: Path) -> None:
    """The bytes of a home at this instant. The log of the database first: what it holds stays true of every later state of the file."""
    to.mkdir(parents=True)
    logs = sorted(home.glob("*-wal"))
    for path in logs:
        shutil.copyfile(path, to / path.name)
    for path in sorted(home.rglob("*")):
        target = to / path.relative_to(home)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.suffix != ".lock" and not path.name.endswith(("-wal", "-shm")):
            with contextlib.suppress(FileNotFoundError):  # a file that is just being replaced
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
