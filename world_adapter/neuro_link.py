"""One NPC in one game of the Neuro API, as a pure object: frames in, effects out, time as an argument (seconds of any steady clock).

Invariants:
- An action is sent at most once, one at a time, and only while the game offers it; every one asked for gets exactly one first result.
- At most one force is in force, the newest. It is told to the NPC, told again a bounded number of times, and never again once the game has
  accepted an answer, taken all its actions back, or started anew.
- What a game says while it owes a result is told after that result, in order.
- A broken link loses neither the actions nor the force: a game that comes back without a word still has both.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from world_adapter import cleaning
from world_adapter import neuro_wire as wire
from world_adapter.effects import ActionsChanged, Attached, Deliver, Detached, Effect, Hangup, Result, Send
from world_adapter.frames import ActResult, ActState, Limits, Observation, Speaker
from world_adapter.neuro_actions import Actions, Known
from world_adapter.neuro_force import Force, Patience

MAX_HELD = 1_000  # observations that wait for a result; beyond that memory counts for more than order
MAX_LATE = 64  # actions without a result whose true end may still come
MAX_QUEUED = 64
MAX_MALFORMED = 100  # in MALFORMED_S seconds: a peer that speaks something else
MALFORMED_S = 60.0
UNTITLED = "a game without a title"


@dataclass(slots=True, kw_only=True)
class Counters:
    """Frames that changed nothing, since the beginning."""

    malformed: int = 0
    unknown: int = 0
    stray: int = 0  # results of nothing that we asked for


@dataclass(slots=True, kw_only=True)
class _Act:
    """An action asked for. `by` is when its first result is due, `force` what it answers."""

    tag: str
    known: Known
    args: Mapping[str, Any]
    by: float
    force: Force | None = None


class NeuroLink:
    """The state of the game, whichever connection it comes by.

    Args:
        npc: the NPC's id, told to the game and to the NPC.
        display_name: how the game may call it.
        epoch: names this life of ours; observations are numbered under it, by the shell.
        patience: how long to wait for what.
    """

    def __init__(self, *, npc: str, display_name: str, epoch: str, patience: Patience | None = None) -> None:
        self.counters = Counters()
        self.actions = Actions()
        self._npc, self._display_name, self._epoch = npc, display_name, epoch
        self._patience = patience or Patience()
        self._effects: deque[Effect] = deque()
        self._game = ""
        self._session = ""
        self._connected = self._attached = self._titled = self._introduced = False
        self._greet_by: float | None = None
        self._gone_at: float | None = None
        self._gap_s: float | None = None  # to be told at the next attachment
        self._sent: _Act | None = None
        self._queue: deque[_Act] = deque()
        self._late: OrderedDict[str, _Act] = OrderedDict()
        self._held: deque[Observation] = deque()
        self._force: Force | None = None
        self._forces = 0
        self._told_at: float | None = None
        self._malformed: deque[float] = deque(maxlen=MAX_MALFORMED)
        self._leaving = 0
        self._leave_by: float | None = None

    # What a shell asks

    @property
    def game(self) -> str:
        """The title of the game, "" while it is not known."""
        return self._game

    @property
    def force(self) -> Force | None:
        """What the game waits for."""
        return self._force

    @property
    def deadline(self) -> float | None:
        """When `tick` is due, None for never."""
        times = [self._greet_by, self._leave_by, self._sent.by if self._sent else None, *(act.by for act in self._queue)]
        if self._may_tell and self._force is not None:
            times.append(self._force.due(self._told_at, self._patience))
        return min((time for time in times if time is not None), default=None)

    def effects(self) -> list[Effect]:
        """What is to be done now, in order; each once."""
        found, self._effects = list(self._effects), deque()
        return found

    # What happens to it

    def connected(self, session: str, now: float) -> None:
        """A game has connected."""
        self._session = session
        self._connected, self._attached, self._titled, self._introduced = True, False, False, False
        self._greet_by = now + self._patience.greet_s
        self._malformed.clear()
        if self._gone_at is not None:
            self._gap_s, self._gone_at = max(now - self._gone_at, 0.0), None

    def closed(self, why: str, now: float) -> None:
        """The connection has ended; `why` is one sentence."""
        if not self._connected:
            return
        self._connected = False
        self._greet_by = self._leave_by = None
        if self._sent is not None:
            self._lose(self._sent, f"{why} Whether it was done is not known.", "link_lost", now)
        for act in self._queue:
            self._fail(act.tag, "not_attached", f"{why} Nothing was sent.")
        self._queue.clear()
        self._release()
        self.actions.keep()
        if self._attached:
            self._attached, self._gone_at = False, now
            self._effects.append(Detached(why))

    def leave(self, now: float) -> None:
        """We go: the game is asked to save, then told that we are gone. Ends in a Hangup, at once if there is no game."""
        if self._leaving or not self._connected:
            return
        self._leaving, self._leave_by = 1, now + self._patience.leave_s
        self._effects.append(Send(wire.shutdown_graceful()))

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._greet_by is not None and now >= self._greet_by:
            self._greet_by = None
            self._attach(now)
            if not self._introduced:
                # The game was there before us, or has come back without a word: what can be done in it?
                self._effects.append(Send(wire.reregister()))
        if self._sent is not None and now >= self._sent.by:
            self._lose(self._sent, "The game did not say in time what came of it.", "timeout", now)
        for act in self._queue:
            if now >= act.by:
                self._fail(act.tag, "busy", "The game was busy with an earlier action; nothing was sent.")
        self._queue = deque(act for act in self._queue if now < act.by)
        self._next(now)
        if self._leave_by is not None and now >= self._leave_by:
            self._leave_on(now)
        if self._may_tell and self._force is not None:
            due = self._force.due(self._told_at, self._patience)
            if due is not None and now >= due:
                self._tell_force(self._force, now)

    def received(self, data: bytes | str, now: float) -> None:
        """One message of the game's; anything at all."""
        if not self._connected:
            return
        frame = wire.read(data)
        if isinstance(frame.said, wire.Malformed):
            self._count_malformed(now)
            return
        self._meet(frame.game, now)
        match frame.said:
            case wire.Startup():
                self._startup(now)
            case wire.Context(message=message, silent=silent):
                to = None if silent else self._npc
                self._observe(Observation(seq=0, t=0.0, kind="notice", text=message, prio=4 if silent else 7, speaker=self._speaker, to=to))
            case wire.Register(offers=offers, malformed=malformed):
                self._introduced = True
                self.counters.malformed += malformed
                if self.actions.register(offers):
                    self._offer()
            case wire.Unregister(names=names):
                self._unregister(names)
            case wire.ForceFrame():
                self._forced(frame.said, now)
            case wire.ResultFrame():
                self._result(frame.said, now)
            case wire.ShutdownReady():
                if self._leaving:
                    self._hang_up()
                else:
                    self._notice("The game has saved and is ready to be closed.")
            case wire.Unknown():
                self.counters.unknown += 1

    def act(self, *, tag: str, name: str, args: Mapping[str, Any], timeout_s: float, now: float) -> None:
        """Asks for an action; its first result comes as an effect within `timeout_s` seconds, at the latest by `tick` or `closed`."""
        known = self.actions.find(name)
        if not self._attached:
            self._fail(tag, "not_attached", "No game is connected; nothing was sent.")
        elif known is None:
            self._fail(tag, "unknown_action", f"The game offers no action {cleaning.name(name)}; nothing was sent.")
        elif self._leaving or len(self._queue) >= MAX_QUEUED:
            self._fail(tag, "busy", "The game cannot be asked for more now; nothing was sent.")
        else:
            self._queue.append(_Act(tag=tag, known=known, args=args, by=now + timeout_s))
            self._next(now)

    def query(self, tag: str) -> None:
        """What became of an action of an earlier life: games keep no record of that."""
        message = "This game keeps no record of what was done; whether it was done is not known."
        self._effects.append(Result(ActResult(id=tag, state=ActState.UNKNOWN, text=message, error_code="no_record", error_message=message)))

    # The game itself

    def _meet(self, title: str, now: float) -> None:
        """A frame under this title. A connection is of one game: the first title that it gives."""
        if title and not self._titled:
            self._titled = True
            if title != self._game:
                if self._attached:
                    self._attached = False
                    self._effects.append(Detached(f"The game on this link is {title}."))
                self.actions.clear()
                self._force = None
                self._game = title
        self._attach(now)

    def _attach(self, now: float) -> None:
        if self._attached:
            return
        self._attached = True
        world = self._game or UNTITLED
        self._effects.append(
            Attached(npc=self._npc, world=world, epoch=self._epoch, session="", resumed=False, lost=0, limits=Limits()),
        )
        self._effects.append(ActionsChanged(self.actions.specs))
        if self._gap_s is not None:
            self._notice(f"[You heard nothing of this game for {self._gap_s:.0f} seconds: the link was down.]")
            self._gap_s = None
        if self._force is not None:
            self._force.put_off(now + self._patience.remind_s)

    def _startup(self, now: float) -> None:
        self._introduced = True
        self._effects.append(Send(wire.startup(session=self._session, character=self._npc, display_name=self._display_name)))
        self._force = None
        if self._sent is not None:
            self._lose(self._sent, "The game has started anew meanwhile; whether it was done is not known.", "restarted", now)
        if self.actions.clear():
            self._offer()
        self._next(now)
        self._notice("The game has started.", key="startup")

    def _unregister(self, names: tuple[str, ...]) -> None:
        if not self.actions.unregister(names):
            return
        self._offer()
        if self._force is not None and not self.actions.names(self._force.frame.names):
            force, self._force = self._force, None
            # The answer that was sent may well be why: then its result says enough.
            if self._sent is None or self._sent.force is not force:
                self._notice("The game no longer waits for that choice.")

    def _offer(self) -> None:
        if self._attached:
            self._effects.append(ActionsChanged(self.actions.specs))

    # Forces

    @property
    def _may_tell(self) -> bool:
        """Whether a force could be told now: not while an answer to it may be under way."""
        return self._attached and self._sent is None and not self._queue and not self._leaving

    def _forced(self, frame: wire.ForceFrame, now: float) -> None:
        former = self._force
        if former is not None and former.frame == frame and not former.answered:
            former.asked_again(self._told_at, self._patience)
            return
        if not self.actions.names(frame.names) and self.actions.guess(frame.names):
            # The game knows these names, and we would too, had it told us (or an earlier process of ours).
            self._offer()
        self._forces += 1
        self._force = Force(number=self._forces, frame=frame, replaces=former is not None and not former.answered)
        due = self._force.due(self._told_at, self._patience)
        if self._attached and not self._leaving and due is not None and now >= due:
            self._tell_force(self._force, now)

    def _tell_force(self, force: Force, now: float) -> None:
        self._told_at = now
        choices = self.actions.names(force.frame.names)
        for observation in force.told(choices, npc=self._npc, speaker=self._speaker, now=now, patience=self._patience):
            self._observe(observation)

    # Actions and their results

    def _next(self, now: float) -> None:
        """Sends what waits, if nothing is under way; a game takes one action at a time."""
        while self._queue and self._sent is None:
            act = self._queue.popleft()
            if self.actions.find(act.known.spec.name) is None:
                self._fail(act.tag, "withdrawn", f"The game no longer offers {act.known.spec.name}; nothing was sent.")
                continue
            frame = wire.action(tag=act.tag, raw=act.known.raw, args=act.args)
            if frame is None:
                self._fail(act.tag, "too_large", "The arguments are too large for a game; nothing was sent.")
                continue
            if self._force is not None and act.known.raw in self._force.frame.names:
                act.force = self._force
                act.force.answered = True
            act.by = min(act.by, now + self._patience.result_s)
            self._sent = act
            self._effects.append(Send(frame))

    def _result(self, said: wire.ResultFrame, now: float) -> None:
        act = self._sent
        if act is not None and act.tag == said.raw:
            self._sent = None
            text = said.message if said.success else self._refused(act, said.message or "The game refused.", now)
            self._settle(act, said, text)
            self._release()
            self._next(now)
        elif (late := self._late.pop(said.raw, None)) is not None:
            self._settle(late, said, said.message)
        else:
            self.counters.stray += 1

    def _settle(self, act: _Act, said: wire.ResultFrame, text: str) -> None:
        if said.success:
            if act.force is not None and act.force is self._force:
                self._force = None
            self._effects.append(Result(ActResult(id=act.tag, state=ActState.DONE, text=text)))
        else:
            self._fail(act.tag, "refused", text)

    def _refused(self, act: _Act, message: str, now: float) -> str:
        """An answer came to nothing. Within a force that still stands the NPC is to try again, a bounded number of times."""
        force = act.force
        if force is None or force is not self._force:
            return message
        if force.refused(now, self._patience):
            choices = wire.listed(self.actions.names(force.frame.names))
            return f"{message}\nThe game still waits for one of: {choices}."
        self._force = None
        return f"{message}\nThat was attempt {force.refusals}; the game is not answered any more unless you want to."

    def _lose(self, act: _Act, message: str, code: str, now: float) -> None:
        """No result came. Whether the game did it is not known; should it tell after all, the NPC hears of it."""
        self._sent = None
        self._late[act.tag] = act
        while len(self._late) > MAX_LATE:
            self._late.popitem(last=False)
        text = self._refused(act, message, now)
        self._effects.append(
            Result(ActResult(id=act.tag, state=ActState.UNKNOWN, text=text, error_code=code, error_message=text)),
        )
        self._release()

    def _fail(self, tag: str, code: str, message: str) -> None:
        self._effects.append(Result(ActResult(id=tag, state=ActState.FAILED, text=message, error_code=code, error_message=message)))

    # Words for the NPC

    @property
    def _speaker(self) -> Speaker:
        return Speaker(id=cleaning.ident(self._game), name=self._game, kind="world")

    def _notice(self, text: str, *, key: str | None = None) -> None:
        self._observe(Observation(seq=0, t=0.0, kind="notice", text=text, key=key, prio=4, speaker=self._speaker))

    def _observe(self, observation: Observation) -> None:
        if self._sent is not None:
            self._held.append(observation)
            if len(self._held) < MAX_HELD:
                return
            self._release()
        else:
            self._effects.append(self._delivery(observation))

    def _release(self) -> None:
        while self._held:
            self._effects.append(self._delivery(self._held.popleft()))

    def _delivery(self, observation: Observation) -> Deliver:
        return Deliver(items=(observation,), world=self._game or UNTITLED, epoch=self._epoch)

    # Ends

    def _count_malformed(self, now: float) -> None:
        self.counters.malformed += 1
        self._malformed.append(now)
        if len(self._malformed) == MAX_MALFORMED and now - self._malformed[0] <= MALFORMED_S:
            self._malformed.clear()
            self._effects.append(Hangup(1008, "too many malformed messages"))

    def _leave_on(self, now: float) -> None:
        if self._leaving == 1:
            self._leaving, self._leave_by = 2, now + self._patience.leave_now_s
            self._effects.append(Send(wire.shutdown_immediate()))
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        self._leave_by = None
        self._effects.append(Hangup(1001, "the NPC leaves"))
