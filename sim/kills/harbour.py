"""A world that expects to be killed: a process of its own, durable, that tells an NPC numbered things all the time and lets it act.

Invariant: what it is about to do stands on its standard output first, one JSON line at a time, written whole: whoever reads them to their
end after a kill -9 knows everything that this process told or did. It is run by `trial`, not by people.

    python -m sim.kills.harbour PORT STORE LIFE NPC

Each thing told has a name of its own, `LIFE.N`, whatever number it travels under. SIGUSR1 ends the telling: one last line is spoken to the
NPC, and `settled` is printed once its agent has everything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
import time
from typing import Any

import structlog

from world_adapter.frames import ActionSpec, Speaker
from world_adapter.keeping_sqlite import SqliteStore
from world_adapter.server import ActFailed, Request, WorldServer

WORLD = "harbour"
#: Seconds between two things that happen, at least and at most.
PAUSE_S = (0.01, 0.07)
#: Every so many things are spoken to the NPC; of the others every third is the state of a gull.
SPOKEN, STATE, GULLS = 7, 3, 4
#: Seconds that an action takes, at most.
MARK_S, CARRY_S = 0.02, 0.25
_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ACTIONS = (
    ActionSpec(name="mark", description="Write a number on the wall.", schema=_NUMBER),
    ActionSpec(name="carry", description="Carry the crate of that number over the pier.", schema=_NUMBER, kind="ongoing", moves_body=True),
)
FERRYMAN = Speaker(id="p1", name="Ansel", kind="player")


def say(**fields: Any) -> None:
    """One line, in one write: a pipe takes it whole or not at all."""
    os.write(1, (json.dumps(fields) + "\n").encode())


class Harbour:
    """One life of the world."""

    def __init__(self, store: str, life: int, npc: str) -> None:
        self.life, self.npc = life, npc
        self.random = random.Random(life)
        self.count = 0
        self.settling = asyncio.Event()
        self.server = WorldServer(
            WORLD, on_act=self.act, actions=ACTIONS, store=SqliteStore(store), on_interrupted=self.interrupted, on_attach=self.attached
        )

    def attached(self, npc: str) -> None:
        say(attached=npc, at=time.monotonic())

    async def act(self, request: Request) -> str:
        say(act=request.id, name=request.name, n=request.args.get("n"), at=time.monotonic())
        await asyncio.sleep(self.random.uniform(0, MARK_S if request.name == "mark" else CARRY_S))
        return f"{request.name} {request.args.get('n')}: done"

    async def interrupted(self, request: Request) -> str:
        """It knows no more than that it had begun."""
        say(interrupted=request.id, name=request.name)
        raise ActFailed("The harbour went under while you did this.", code="interrupted")

    def tell(self) -> None:
        """The next thing happens. The line is written before anything can be sent: the loop is ours until then."""
        self.count += 1
        name = f"{self.life}.{self.count}"
        last = self.settling.is_set()
        if last or self.count % SPOKEN == 0:
            words = "that was all" if last else "did you hear that?"
            text = f'Ansel says to {self.npc}: "Event {name}, {words}"'
            seq = self.server.observe(self.npc, text, kind="speech", speaker=FERRYMAN, to=self.npc, prio=7)
            say(told=seq, name=name, spoken=True)
        elif self.count % STATE == 0:
            key = f"gull-{self.random.randrange(GULLS)}"
            seq = self.server.observe(self.npc, f"Event {name}: {key} is at the pier.", kind="moved", key=key, prio=1)
            say(told=seq, name=name, key=key)
        else:
            say(told=self.server.observe(self.npc, f"Event {name}: a wave breaks.", kind="notice", prio=3), name=name)

    async def live(self, port: int) -> None:
        """Until it is told to settle; then it waits for SIGTERM, or for its death."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, self.settling.set)
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        async with self.server:
            found = await self.server.listen("127.0.0.1", port)
            say(up=found, epoch=self.server.epoch, at=time.monotonic())
            while not self.settling.is_set():
                self.tell()
                try:
                    await asyncio.wait_for(self.settling.wait(), self.random.uniform(*PAUSE_S))
                except TimeoutError:
                    continue
            self.tell()
            await self.server.until_acked(self.npc)
            say(settled=self.server.acked(self.npc), name=f"{self.life}.{self.count}")
            await ended.wait()


def main() -> None:
    """The process."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    port, store, life, npc = sys.argv[1:]
    asyncio.run(_live(int(port), store, int(life), npc))


async def _live(port: int, store: str, life: int, npc: str) -> None:
    await Harbour(store, life, npc).live(port)


if __name__ == "__main__":
    main()
