"""One NPC as its world knows it, attached or not: its stream, its actions, its gates, and what of them is not stored yet.

Invariant: what is in memory is what a store holds plus what the next `changes` brings; an action's final result stands.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING

from world_adapter.frames import Act, Actions, ActResult, Gate, Observation
from world_adapter.keeping import KeptAct, KeptLife
from world_adapter.replay import Replay

if TYPE_CHECKING:
    from world_adapter.guest import Guest

KNOWN_ACTS = 100_000  # action ids remembered per NPC, and their results


class Life:
    """One NPC in one world.

    Attributes:
        kept: observations up to this number are stored, so that they may be sent; infinite where nothing is ever stored.
        acts: by id, oldest first; None: an instant action that still runs.
        actions: where they differ from the world's.
    """

    __slots__ = (
        "_afresh", "_asked", "_changed_acts", "_changed_gates", "_forgotten", "_handed", "_keep", "actions", "acts", "gates", "guest",
        "kept", "npc", "replay", "session",
    )  # fmt: skip

    def __init__(self, npc: str, *, keep: int, session: str, stored: bool) -> None:
        self.npc = npc
        self.session = session
        self.replay = Replay(keep=keep)
        self.guest: Guest | None = None
        self.acts: OrderedDict[str, ActResult | None] = OrderedDict()
        self.gates: dict[str, Gate] = {}
        self.actions: Actions | None = None
        self.kept: float = 0 if stored else math.inf
        self._keep = keep
        self._asked: dict[str, Act] = {}  # what has not ended
        self._handed = 0  # observations up to this number were given to the store
        self._changed_acts: dict[str, None] = {}
        self._changed_gates: dict[str, None] = {}
        self._forgotten: list[str] = []
        self._afresh = False

    def restore(self, kept: KeptLife, *, same_epoch: bool) -> None:
        """Goes on where an earlier process stopped. Under another epoch only the actions are the same."""
        for act in kept.acts:
            self.acts[act.id] = act.result
            if act.act is not None and (act.result is None or not act.result.final):
                self._asked[act.id] = act.act
        if same_epoch:
            self.replay.restore(newest=kept.newest, acked=kept.acked, kept=kept.told)
            self.gates = {gate.name: gate for gate in kept.gates}
            self.kept = self._handed = kept.newest
        else:
            self._afresh = True

    @property
    def unfinished(self) -> list[Act]:
        """Actions that have begun and not ended, oldest first."""
        return list(self._asked.values())

    def tell(self, observation: Observation) -> None:
        """The next observation."""
        self.replay.add(observation)

    def resume(self, seq: int | None) -> tuple[int, int]:
        """An agent attaches that has everything up to `seq`: see `Replay.begin`."""
        newest = self.replay.newest
        answer = self.replay.begin(seq)
        if self.replay.newest != newest:
            self._restart_numbers()  # the agent knows of numbers that we never gave
        return answer

    def begin(self, act: Act) -> None:
        """An action is asked for, for the first time."""
        self.acts[act.id] = None
        self._asked[act.id] = act
        self._changed_acts[act.id] = None

    def end(self, result: ActResult) -> bool:
        """What became of an action; False if a final result stands already."""
        known = self.acts.get(result.id)
        if known is not None and known.final:
            return False
        self.acts[result.id] = result
        self._changed_acts[result.id] = None
        if result.final:
            self._asked.pop(result.id, None)
        while len(self.acts) > KNOWN_ACTS:
            gone, _ = self.acts.popitem(last=False)
            self._asked.pop(gone, None)
            self._changed_acts.pop(gone, None)
            self._forgotten.append(gone)
        return True

    def gate(self, gate: Gate) -> None:
        """A gate is set."""
        self.gates[gate.name] = gate
        self._changed_gates[gate.name] = None

    def rollback(self) -> None:
        """The past is undone: numbers begin again. What actions were executed is still known."""
        self.replay = Replay(keep=self._keep)
        self.gates.clear()
        self._changed_gates.clear()
        self._restart_numbers()

    def changes(self) -> KeptLife:
        """Takes what is to be stored since the last call."""
        replay = self.replay
        told = tuple(replay.since(self._handed))
        change = KeptLife(
            npc=self.npc, newest=replay.newest, acked=replay.acked, first=replay.first, told=told, afresh=self._afresh,
            acts=tuple(KeptAct(id=name, act=self._asked.get(name), result=self.acts[name]) for name in self._changed_acts),
            gates=tuple(self.gates[name] for name in self._changed_gates), forgotten=tuple(self._forgotten),
        )  # fmt: skip
        self._handed = replay.newest
        self._afresh = False
        self._changed_acts, self._changed_gates, self._forgotten = {}, {}, []
        return change

    def stored(self, change: KeptLife) -> None:
        """What `changes` gave is stored. Numbers of a stream that has begun anew meanwhile say nothing any more."""
        if not self._afresh:
            self.kept = change.newest

    def _restart_numbers(self) -> None:
        self._handed = 0
        self._afresh = True
        if self.kept != math.inf:
            self.kept = 0
