"""The world's half of npc-world v1, sans-I/O: frames, game events and time in, effects out. No loop, no clock, no socket.

Invariant: an observation has one number and is sent again until it is acknowledged; an action id is executed at most once, ever, over all
connections; one NPC has at most one guest, the newest. Nothing that an agent sends raises. Where there is a store, nothing is said and no
action begins before what it rests on is stored.

`Host` holds what outlives connections; each connection is one `Guest` of it. A guest's frames are pulled by `Guest.next_message`, so a
slow agent costs no memory beyond what is kept for replay anyway. After every call into a host, `Host.awake` names the guests with
something to do, and `Host.changes` what is to be stored; `Host.stored` says that it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from world_adapter.codec import Codec
from world_adapter.frames import (
    Act,
    Actions,
    ActionSpec,
    ActProgress,
    ActResult,
    ActState,
    Attach,
    Bye,
    Close,
    Gate,
    Hello,
    Limits,
    Observation,
    Rollback,
    Welcome,
    WorldFrame,
)
from world_adapter.guest import Arrived, Execute, Guest, HostEffect, Left, Stop
from world_adapter.keeping import Kept
from world_adapter.lives import Life
from world_adapter.replay import Replay, resumable

__all__ = ["Arrived", "Execute", "Guest", "Host", "HostEffect", "Left", "Stop"]


class Host:
    """One world. `authorise(npc, token)` decides who may be the mind of whom; `npcs` None takes any id.

    With `stored` somebody takes `changes`, stores them and says so by `Host.stored`; without, this life of the world is all there is.
    `kept` is what was stored by earlier ones.
    """

    def __init__(
        self,
        *,
        world: str,
        epoch: str,
        authorise: Callable[[str, str], bool],
        npcs: Collection[str] | None = None,
        actions: Sequence[ActionSpec] = (),
        heartbeat_s: float = 30.0,
        max_frame: int = 1_048_576,
        limits: Limits | None = None,
        keep: int = 10_000,
        stored: bool = False,
        kept: Kept | None = None,
    ) -> None:
        self.world = world
        self.epoch = epoch
        self.npcs = npcs
        self.time = ""
        self.heartbeat_s = heartbeat_s
        self.max_frame = max_frame
        self._limits = limits or Limits()
        self._authorise = authorise
        self._actions = Actions(version="1", actions=tuple(actions))
        self._keep = keep
        self._lives: dict[str, Life] = {}
        self._connections = 0
        self._awake: dict[Guest, None] = {}
        self._stored = stored
        self._changed: dict[str, None] = {}  # NPCs of whom something is to be stored
        self._epoch_changed = stored and (kept is None or kept.epoch != epoch)
        self._batch = 1  # the number of the changes that gather now
        self._safe = 0  # changes up to this number are stored
        self._held: deque[tuple[int, Guest, HostEffect]] = deque()
        self._waiting: dict[Guest, None] = {}  # guests with something to say that is not stored yet
        Replay(keep=keep)  # refuses a window below the protocol's at once and not with the first NPC
        for life in kept.lives if kept is not None else ():
            self.life(life.npc).restore(life, same_epoch=not self._epoch_changed)
            if self._epoch_changed:
                self._changed[life.npc] = None

    def guest(self, codec: Codec, token: str, *, now: float) -> Guest:
        """A new connection. Its hello is ready to be pulled."""
        self._connections += 1
        guest = Guest(self, codec, token, now, number=self._connections)
        guest.say(
            Hello(
                world=self.world, epoch=self.epoch, heartbeat_s=self.heartbeat_s, max_frame=self.max_frame, limits=self._limits,
                time=self.time,
            ),
        )
        return guest

    def awake(self) -> list[Guest]:
        """Takes the guests that have effects or messages since the last call."""
        taken = list(self._awake)
        self._awake.clear()
        return taken

    # What is stored

    @property
    def mark(self) -> int:
        """The number of the changes that everything so far rests on: once they are stored, it may be said."""
        return self._batch if self._changed or self._epoch_changed else self._batch - 1

    def safe(self, mark: int) -> bool:
        """Whether the changes of that number are stored."""
        return mark <= self._safe or not self._stored

    def changes(self) -> Kept | None:
        """Takes what is to be stored now, None if nothing. `stored` is to be said of it before this is asked again."""
        if not self._changed and not self._epoch_changed:
            return None
        changes = Kept(world=self.world, epoch=self.epoch, lives=tuple(self._lives[npc].changes() for npc in self._changed))
        self._changed.clear()
        self._epoch_changed = False
        self._batch += 1
        return changes

    def stored(self, changes: Kept) -> None:
        """These changes are stored: what waited for them may be said and done."""
        self._safe = self._batch - 1
        for life in changes.lives:
            self._lives[life.npc].stored(life)
        while self._held and self.safe(self._held[0][0]):
            _, guest, effect = self._held.popleft()
            guest.want(effect)
        self._awake.update(self._waiting)
        self._waiting.clear()

    def unfinished(self) -> list[Execute]:
        """Actions that have begun and not ended: after a start from a store, those that the end of an earlier process broke off."""
        return [
            Execute(npc, act, ongoing=life.acts.get(act.id) is not None) for npc, life in self._lives.items() for act in life.unfinished
        ]

    def _change(self, life: Life) -> None:
        if self._stored:
            self._changed[life.npc] = None

    # What the game tells

    def observe(self, npc: str, **fields: Any) -> int:
        """Tells one NPC one thing, attached or not: the fields of an Observation but `seq`, which is given here and answered."""
        life = self.life(npc)
        fields["text"] = _text(fields["text"])
        seq = life.replay.newest + 1
        life.tell(Observation(seq=seq, **fields))
        self._change(life)
        if life.guest is not None:
            self._awake[life.guest] = None
        return seq

    def finish(self, npc: str, result: ActResult) -> bool:
        """What became of an action, for its agent and for every later question. A final result stands: False if there was one already."""
        life = self.life(npc)
        if (text := _text(result.text)) is not result.text:
            result = replace(result, text=text)
        if not life.end(result):
            return False
        self._change(life)
        self._tell(life, result)
        return True

    def progress(self, npc: str, progress: ActProgress) -> None:
        """How far an action is; nobody listening is fine."""
        self._tell(self.life(npc), progress)

    def gate(self, npc: str, gate: Gate) -> None:
        """Sets a gate of one NPC; kept by name and said again at every attach, so that it arrives."""
        life = self.life(npc)
        life.gate(gate)
        self._change(life)
        self._tell(life, gate)

    def set_actions(self, actions: Sequence[ActionSpec], npc: str | None = None) -> None:
        """Replaces the actions of one NPC, or of all that have none of their own."""
        listed = Actions(version=str(int(self._actions.version) + 1), actions=tuple(actions))
        if npc is None:
            self._actions = listed
        else:
            self.life(npc).actions = listed
        for name, life in self._lives.items():
            if name == npc or (npc is None and life.actions is None):
                self._tell(life, listed)

    def rollback(self, epoch: str, since: str) -> None:
        """An older save was loaded: all streams start again under `epoch`. What actions were executed is still known."""
        self.epoch = epoch
        self._epoch_changed = self._stored
        for life in self._lives.values():
            life.rollback()
            self._change(life)
            if life.guest is not None:
                life.guest.restart(Rollback(epoch=epoch, since=since))

    def farewell(self, guest: Guest, *, retry_after_s: float) -> None:
        """Says goodbye to a guest: it may come again after so many seconds."""
        guest.say(Bye(code=Close.RETRY, reason="going away", retry_after_s=retry_after_s))
        guest.hang_up(Close.RETRY, "going away")

    def attached(self, npc: str) -> bool:
        """Whether an agent is attached as `npc` now."""
        life = self._lives.get(npc)
        return life is not None and life.guest is not None

    def acked(self, npc: str) -> int:
        """Up to which number the agent has everything on its disk."""
        return self.life(npc).replay.acked

    def newest(self, npc: str) -> int:
        """The number given last."""
        return self.life(npc).replay.newest

    def kept(self, npc: str) -> float:
        """Up to which number the observations are stored, and so may be sent."""
        return self.life(npc).kept

    # What guests ask of their host

    def life(self, npc: str) -> Life:
        found = self._lives.get(npc)
        if found is None:
            found = self._lives[npc] = Life(npc, keep=self._keep, session=f"{self.epoch}/{npc}", stored=self._stored)
        return found

    def admit(self, guest: Guest, attach: Attach) -> None:
        """Decides on an attach and answers it."""
        npc = attach.npc
        # The token first: whoever has none learns not even which names exist.
        if not self._authorise(npc, guest.token):
            guest.hang_up(Close.UNAUTHORISED, "not authorised")
            return
        if self.npcs is not None and npc not in self.npcs:
            guest.hang_up(Close.UNKNOWN_NPC, "unknown npc")
            return
        life = self.life(npc)
        former = life.guest
        if former is not None and former.number > guest.number:
            # The attach of a connection whose agent has long come back by another: late, not newer.
            guest.hang_up(Close.REPLACED, "replaced by a newer attach")
            return
        life.guest = guest
        if former is not None and former is not guest:
            former.hang_up(Close.REPLACED, "replaced by a newer attach")
        seq = resumable(attach.resume, world=self.world, epoch=self.epoch)
        newest = life.replay.newest
        next_seq, lost = life.resume(seq)
        if life.replay.newest != newest:
            self._change(life)
        welcome = Welcome(npc=npc, session=life.session, resumed=seq is not None, next_seq=next_seq, lost=lost)
        guest.enter(welcome, life.actions or self._actions, *life.gates.values())
        guest.want(Arrived(npc, attach.agent, seq is not None))

    def perform(self, guest: Guest, npc: str, act: Act) -> None:
        """Starts an action unless its id is known; then says what is known of it."""
        life = self.life(npc)
        if act.id in life.acts:
            known = life.acts[act.id]
            if known is not None:
                guest.say(known)
            return
        listed = {spec.name: spec for spec in (life.actions or self._actions).actions}
        spec = listed.get(act.name)
        if spec is None:
            why = f"this world has no action {act.name!r}"
            self.finish(npc, ActResult(id=act.id, state=ActState.FAILED, error_code="unknown_action", error_message=why))
            return
        life.begin(act)
        self._change(life)
        if spec.kind == "ongoing":
            self.finish(npc, ActResult(id=act.id, state=ActState.ACCEPTED))
        self.hold(guest, Execute(npc, act, spec.kind == "ongoing"))

    def hold(self, guest: Guest, effect: HostEffect) -> None:
        """Wants an effect as soon as what led to it is stored."""
        if self.safe(self.mark):
            guest.want(effect)
        else:
            self._held.append((self.mark, guest, effect))

    def answer(self, guest: Guest, npc: str, action: str) -> None:
        """What became of an action."""
        acts = self.life(npc).acts
        if action not in acts:
            guest.say(ActResult(id=action, state=ActState.UNKNOWN))
        else:
            guest.say(acts[action] or ActResult(id=action, state=ActState.ACCEPTED))

    def depart(self, guest: Guest, npc: str) -> bool:
        """A guest's connection is gone; False if another had taken its place."""
        life = self.life(npc)
        if life.guest is not guest:
            return False
        life.guest = None
        return True

    def stir(self, guest: Guest) -> None:
        self._awake[guest] = None

    def wait(self, guest: Guest) -> None:
        """A guest has something to say as soon as more is stored."""
        self._waiting[guest] = None

    def _tell(self, life: Life, frame: WorldFrame) -> None:
        if life.guest is not None:
            life.guest.say(frame)


def _text(value: object) -> str:
    """What a game gave as words; some games have numbers or nothing there."""
    return value if isinstance(value, str) else "" if value is None else str(value)
