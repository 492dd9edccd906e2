"""The world of a soak: a flood that may die, come back under another epoch, or load an older save, on an address that stays.

Invariant: every action that is begun is counted by its id and by its name; the vault is never open, so whoever opened it has passed a gate.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from sim import actions
from sim.floods import Flood, Line, Turn
from world_adapter.frames import ActionSpec, Speaker
from world_adapter.server import ActFailed, Request, WorldServer

PORT = 8_765
URL = f"ws://127.0.0.1:{PORT}"
MAX_FRAME = 8 * 1024 * 1024
#: Virtual seconds of silence after which either side pings: long, for every ping of a quiet night has to be computed.
HEARTBEAT_S = 90.0
#: Virtual seconds of a walk.
WALK_S = (4.0, 120.0)
VAULT = "open_vault"
GATE = "seal_shown"
#: The bug that can be planted, for trying whether it is found.
VAULT_BUG = "vault"
#: Bytes of the observation that no first receive limit holds.
OVERSIZE = 4_400_000
_NOTHING = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
ACTIONS = (
    *actions.specs(),
    ActionSpec(name=VAULT, description="Open the vault under the mill.", schema=_NOTHING),
)


class Stage:
    """The world of one NPC.

    Attributes:
        told: observations over all epochs.
        forgiven: of these, how many a dying world had told and not heard to be stored: they may be lost.
        begun: actions by id.
        done: actions by name.
    """

    def __init__(self, flood: Flood, *, clock: Callable[[], float], dice: random.Random, bug: str = "") -> None:
        self._bug, self._seen = bug, set[str]()
        self.npc, self._flood, self._clock, self._dice = flood.npc, flood, clock, dice
        self.told = self.forgiven = 0
        self.begun: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._epochs = self._before = 0  # `_before`: told in earlier epochs
        self._dead = False
        self._turn: Turn | None = None
        self.server = self._made()

    def _made(self) -> WorldServer:
        self._epochs += 1
        return WorldServer(
            "flood", on_act=self._act, actions=ACTIONS, npcs=(self.npc,), max_frame=MAX_FRAME, epoch=f"e{self._epochs}", clock=self._clock,
            heartbeat_s=HEARTBEAT_S,
        )  # fmt: skip

    async def open(self) -> None:
        """Opens the door."""
        await self.server.listen("127.0.0.1", PORT)
        self.server.gate(self.npc, GATE, value=False, why="no seal was shown")

    async def close(self) -> None:
        """For good."""
        await self.server.close()

    def tell(self, turn: Turn) -> None:
        """All lines of a turn."""
        self._turn = turn
        for line in turn.lines:
            self._observe(line, turn)

    def tell_too_much(self) -> None:
        """One observation that makes a frame over every usual limit."""
        text = "The archive falls out of its window: " + "page after page after page " * (OVERSIZE // 27)
        self.server.observe(self.npc, text, kind="notice", prio=2)
        self.told += 1

    async def die(self, *, away_s: float) -> None:
        """The world's process dies, and a new one knows nothing of it."""
        if self._dead:
            return
        self._dead = True
        self._forgive()
        await self.server.close()
        await asyncio.sleep(away_s)
        self.forgiven += self.told - self._before  # it went on without anybody who could hear it
        self._before = self.told
        self.server = self._made()
        await self.open()
        self._dead = False

    def roll_back(self) -> None:
        """An older save is loaded."""
        if self._dead:
            return
        self._forgive()
        self._epochs += 1
        self.server.rollback(since=f"turn {max(0, (self._turn.number if self._turn else 0) - 3)}", epoch=f"e{self._epochs}")

    @property
    def outstanding(self) -> int:
        """Observations that were told in this epoch, and of which nobody has said that they are stored."""
        return self.newest - self.server.acked(self.npc)

    @property
    def newest(self) -> int:
        """The number told last in this epoch."""
        return self.told - self._before

    _before = 0  # told in earlier epochs

    def struck(self, fault: str) -> None:
        """A fault strikes. With the planted bug the vault falls open where two certain ones have struck: to be found and made short."""
        self._seen.add(fault)
        if self._bug == VAULT_BUG and self._seen >= {"kick", "sigterm"}:
            self.done[VAULT] += 1

    def _forgive(self) -> None:
        self.forgiven += self.outstanding
        self._before = self.told

    def _observe(self, line: Line, turn: Turn) -> None:
        speaker = Speaker(id=line.player, name=line.player, kind="player") if line.player else None
        self.server.observe(
            self.npc, line.text, kind=line.kind, data=line.data, key=line.key, prio=line.prio, own=line.own, speaker=speaker,
            to=self.npc if line.to_npc else None, wt=f"turn {turn.number}",
        )  # fmt: skip
        self.told += 1

    async def _act(self, request: Request) -> str:
        self.begun[request.id] += 1
        self.done[request.name] += 1
        turn = self._turn
        if turn is None:
            raise ActFailed("nothing has happened yet", code="too_early")
        if request.name == "move_to":
            await asyncio.sleep(self._dice.uniform(*WALK_S))
            return f"You have come to {request.args.get('place')}."
        result = self._flood.result(turn.number, request.name, request.args)
        if not result.ok:
            raise ActFailed(result.text, code="no_luck")
        return result.text
