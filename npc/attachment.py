"""The NPC's side of the seam to its world: what comes in is stored, then known.

Invariants: an observation is in the journal before it is acknowledged to the world; one that is addressed to the NPC, or that stops its
body, stirs the mind at once; what a world says besides is logged and never obeyed by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from npc.durable import Durable
from npc.hands import Hands, Tell, news_of, result_of
from npc.hearing import Ears
from npc.memory import Recollection
from npc.news import News
from npc.told import to_journal
from runtime.agent import Agent
from runtime.core import events as ev
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.world import World

#: What wakes a mind whose body acts, besides being spoken to.
STOPPING = frozenset({"blocked", "hurt"})
#: How long a slow world is waited for to say what can be done, in seconds.
FIRST_ACTIONS_S = 2.0


class Attachment:
    """The sink of one world, for one agent. `me` is the NPC's own id there, as far as it is known before the first welcome."""

    def __init__(
        self,
        *,
        world: World,
        journal: Journal,
        durable: Durable,
        ears: Ears,
        memory: Recollection,
        hands: Hands,
        agent: Agent,
        news: News,
        tell: Tell,
        clock: Callable[[], float],
        me: str,
    ) -> None:
        self._world, self._journal, self._durable, self._ears = world, journal, durable, ears
        self._memory, self._hands, self._tell, self._clock = memory, hands, tell, clock
        self.agent, self.news = agent, news
        self.me = me
        self.epoch = ""
        self.world_time = ""
        self.place = ""
        self._acts_known = asyncio.Event()

    async def resume(self) -> frames.Resume | None:
        """How far this NPC has heard this world, None if it never did."""
        mark = await self._journal.last_watermark(self._world.url)
        name = await self._journal.load_checkpoint(f"world at {self._world.url}")
        if mark is None or name is None:
            return None
        epoch, seq = mark
        session = await self._journal.load_checkpoint(f"session at {self._world.url}") or ""
        return frames.Resume(session=session, epoch=epoch, seq=seq, world=name)

    async def first_actions(self) -> None:
        """A world says what can be done right after the welcome; a slow one is waited for a moment."""
        if not self._acts_known.is_set():
            try:
                await asyncio.wait_for(self._acts_known.wait(), FIRST_ACTIONS_S)
            except TimeoutError:
                self._acts_known.set()

    # ------------------------------------------------------------ Sink
    async def observed(self, batch: Sequence[frames.Observation], *, world: str, epoch: str) -> None:  # noqa: ARG002 (the seam gives both)
        """Queue for the disk, tell the mind, and return once it is stored: only then the link acknowledges.

        The mind need not wait for the disk: its checkpoint, and the intent of whatever it does about this, are stored after this or not at
        all. And nothing of a later number may be taken in before this, for the cursor would pass over it.
        """
        urgent = False
        news: list[tuple[frames.Observation, int]] = []
        for observation in batch:
            event = self._journal.append("observation", to_journal(observation), turn=self.agent.session.turn)
            if observation.wt:
                self.world_time = observation.wt
            if observation.kind in ("scene", "moved"):
                self.place = _place(observation) or self.place
            self._memory.keep(self._ears.heard(observation, self.me), event)
            if observation.own:
                continue
            news.append((observation, event))
            urgent = urgent or self._ears.addressed(observation, self.me) or self._stops(observation)
        if batch:
            self._journal.watermark(self._world.url, epoch, batch[-1].seq)
        self.news.put(news)
        for observation in batch:
            self._tell("heard", kind=observation.kind, text=observation.text, speaker=_name_of(observation), own=observation.own)
        if news:
            self.agent.stir(urgent=urgent)
        await self._durable()

    def _stops(self, observation: frames.Observation) -> bool:
        """Whether it concerns the body that is under way just now, so that the mind must not wait for the end of that."""
        return observation.kind in STOPPING and observation.to in (None, self.me) and bool(self.agent.session.waiting_calls)

    def actions_changed(self, actions: Sequence[frames.ActionSpec]) -> None:
        """The world's list of actions is replaced."""
        self._hands.offer(tuple(actions))
        self._acts_known.set()

    def attached(
        self,
        *,
        npc: str,
        world: str,
        epoch: str,
        session: str,
        resumed: bool,
        lost: int,
        limits: frames.Limits,  # noqa: ARG002 (limits of speech are the adapter's business)
    ) -> None:
        """The link is up."""
        self.me, self.epoch = npc or self.me, epoch
        self._journal.checkpoint(f"world at {self._world.url}", world)  # numbers of another world at this address would say nothing
        self._journal.checkpoint(f"session at {self._world.url}", session)  # goes back to the world with the next attach
        self._journal.append("attached", {"npc": npc, "world": world, "epoch": epoch, "session": session, "resumed": resumed, "lost": lost})
        if lost:
            self._notice(f"{lost} observations were lost while you were away: the world could not keep them.")
        self._tell("attached", world=world, npc=npc, resumed=resumed, lost=lost)
        self.agent.post(ev.Attached(now=self._clock()))
        self.agent.spawn(self._hands.ask_outcomes())

    def detached(self, *, why: str) -> None:
        """The link is down for the moment."""
        self._journal.append("detached", {"why": why})
        self._tell("detached", why=why)
        self.agent.post(ev.Detached(now=self._clock()))

    def finished(self, result: frames.ActResult) -> None:
        """An action's end that came after `act` had returned."""
        sent = self._hands.ended(result)
        if not (sent.call and self.agent.finished(sent.call, result_of(result))):
            self._notice(news_of(result, sent.name))

    def aside(self, frame: frames.Gate | frames.Rollback | frames.ActProgress) -> None:
        """What a world says besides. A gate is logged and not obeyed: no policy gives one to a world yet."""
        match frame:
            case frames.Rollback():
                self._journal.append("rollback", {"epoch": frame.epoch, "since": frame.since})
                since = f" What happened after {frame.since} is undone." if frame.since else " Some of what happened is undone."
                self._notice(f"The world was set back to an earlier state.{since} Look again before you rely on what you remember.")
                self._tell("alarm", text=f"the world was rolled back to an earlier state (since {frame.since or 'unknown'})")
            case frames.Gate():
                self._journal.append("gate refused", {"name": frame.name, "value": frame.value, "why": frame.why})
            case frames.ActProgress():
                pass

    def _notice(self, words: str) -> None:
        self.news.notice(words, now=self._clock())
        self.agent.stir(urgent=False)


def _name_of(observation: frames.Observation) -> str:
    return observation.speaker.name if observation.speaker else ""


def _place(observation: frames.Observation) -> str:
    """Where the NPC is, if the world's data say so."""
    data = observation.data or {}
    return next((data[name] for name in ("room", "place") if isinstance(data.get(name), str)), "")
