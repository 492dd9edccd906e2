"""The NPC's side of the seam to its world: what comes in is stored, then known.

Invariants: an observation is in the journal before it is acknowledged to the world; one that is addressed to the NPC, or that stops its
body or that the persona declares to wake it while its body acts, stirs the mind at once; a keyed state of low priority stirs it never, and
is read with the next turn; what a world says besides is logged and never obeyed by itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from itertools import islice

from npc.arrival import KINDS, of_another
from npc.chronicler import Chronicler
from npc.company import Taken
from npc.crowd import MANY, Allowance, look
from npc.durable import Durable
from npc.gates import Gates
from npc.hands import Hands, Sent, Tell, news_of
from npc.hearing import Ears
from npc.memory import Recollection
from npc.news import News
from npc.told import to_journal
from npc.wake import Wakes
from runtime.agent import Agent
from runtime.core import events as ev
from runtime.host import Result
from runtime.store.journal import Journal
from world_adapter import frames
from world_adapter.runs import Run
from world_adapter.world import World

#: How long a slow world is waited for to say what can be done, in seconds.
FIRST_ACTIONS_S = 2.0
#: Of many observations at once: how many are shown to whoever watches, how many of the newest may tell where the body is, and after how
#: many seconds of remembering the others on the loop have their turn.
SHOWN = 16
PLACES = 8
#: A state (keyed, for nobody in particular) of this priority or less starts no turn by itself.
QUIET_PRIO = 2
REST_AFTER_S = 0.005

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
        chronicler: Chronicler,
        hands: Hands,
        gates: Gates,
        agent: Agent,
        news: News,
        tell: Tell,
        clock: Callable[[], float],
        me: str,
        wakes: Wakes,
    ) -> None:
        self._wakes = wakes
        self._world, self._journal, self._durable, self._ears, self._gates = world, journal, durable, ears, gates
        self._memory, self._hands, self._tell, self._clock = memory, hands, tell, clock
        self._chronicler = chronicler
        self.agent, self.news = agent, news
        self.me = me
        self.epoch = ""
        self.world_time = ""
        self.place = ""
        self.noticed: Callable[[frames.Observation, int], None] = lambda _observation, _event: None  # the body, beside the mind
        self._acts_known = asyncio.Event()
        self._allowance = Allowance(clock)

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
        if isinstance(batch, Run) and len(batch) >= MANY:
            await self._crowd(batch, epoch)
            return
        why = ""
        acts = self.agent.body_acts
        news: list[tuple[frames.Observation, int]] = []
        loud = False
        later: list[tuple[int, Taken]] = []
        for heard in [self._hands.company.take(observation, self.me) for observation in batch]:
            observation = heard.observation
            event = self._journal.append("observation", to_journal(observation), turn=self.agent.session.turn)
            self._chronicler.noticed(event, world_time=observation.wt or "", place=self.place)
            if observation.wt:
                self.world_time = observation.wt
            self._placed(observation)
            if len(batch) < MANY:
                self._memory.keep(heard.lines, event, shown=observation)
            else:
                later.append((event, heard))
            self._tell("heard", kind=observation.kind, text=observation.text, speaker=_name_of(observation), own=observation.own)
            if heard.why:
                self._guarded(heard, event)
            if observation.own:
                continue
            news.append((observation, event))
            if heard.wait_s == 0:
                urgent = self._urgent(observation, acts=acts)
                loud, why = loud or bool(urgent) or not _quiet(observation), urgent or why
                self.noticed(observation, event)
        if batch:
            self._journal.watermark(self._world.url, epoch, batch[-1].seq)
        self.news.put(news)
        if loud:
            self.agent.stir(urgent=bool(why), why=why)
        await self._keep(later)
        self._dated()
        await self._durable()

    async def _crowd(self, run: Run, epoch: str) -> None:
        """The same for many at once: most of them are stored and wait without becoming observations, see `npc.crowd`."""
        acts, me, turn = self.agent.body_acts, self.me, self.agent.session.turn
        seen = look(run, ears=self._ears, me=me, waking=self._wakes.may if acts else None, allowance=self._allowance)
        taken = [(n, self._hands.company.take(run.at(n), me)) for n in seen.close]
        if echoes := [n for n, heard in taken if heard.observation.own]:
            run, own = run.owned(echoes), seen.own.union(echoes)
            addressed = seen.addressed.difference(echoes)
        else:
            own, addressed = seen.own, seen.addressed
        first = self._journal.append_run("observation", run.parts(), turn=turn)
        self._journal.watermark(self._world.url, epoch, run.rows[-1].seq)
        times = [row.wt for row in run.rows if row.wt] if run.words.times != {None} else []
        self.world_time = times[-1] if times else self.world_time
        self._chronicler.noticed(first + len(run) - 1, world_time=times[-1] if times else "", place=self.place)
        places = (run.at(n) for n in range(len(run) - 1, -1, -1) if run.rows[n].data and run.rows[n].kind in KINDS)
        for observation in [*islice((o for o in places if not of_another(o, me)), PLACES)][::-1]:
            self._placed(observation)
        silent = own.union([n for n, heard in taken if heard.wait_s != 0])
        loud = any(
            (row.key is None or row.prio > QUIET_PRIO or n in addressed) and n not in silent for n, row in enumerate(run.rows)
        )
        why = ""
        for n, heard in taken:
            if heard.why:
                self._guarded(heard, first + n)
            if heard.wait_s == 0 and n not in own:
                why = self._urgent(heard.observation, acts=acts) or why
                self.noticed(heard.observation, first + n)
        self.news.put_run(run, first=first, addressed=addressed, besides=own)
        self._tell_crowd(run, addressed)
        if loud or why:
            self.agent.stir(urgent=bool(why), why=why)
        await self._keep([(first + n, heard) for n, heard in taken])
        self._dated()
        await self._durable()

    async def _keep(self, taken: Sequence[tuple[int, Taken]]) -> None:
        """Behind the news, and with pauses: lines that are remembered, by their events, take longer than all the rest."""
        rested = time.perf_counter()
        for event, heard in taken:
            self._memory.keep(heard.lines, event, shown=heard.observation)
            if time.perf_counter() - rested > REST_AFTER_S:
                await asyncio.sleep(0)
                rested = time.perf_counter()

    def _dated(self) -> None:
        """At the end of a day of this world its memory is consolidated."""
        if self._memory.day_ends(self.world_time):
            self.agent.spawn(self._memory.consolidate())

    def _placed(self, observation: frames.Observation) -> None:
        """Where the NPC is, if an observation says that."""
        if observation.kind in KINDS and not of_another(observation, self.me):
            self.place = _place(observation) or self.place
            self._hands.body.saw(observation)

    def _tell_crowd(self, run: Run, addressed: set[int]) -> None:
        """Whoever watches sees what was meant for the NPC and the newest of the rest, and how many more there were."""
        shown = sorted({*sorted(addressed)[-SHOWN:], *range(max(0, len(run) - SHOWN // 2), len(run))})
        for n in shown:
            o = run.at(n)
            self._tell("heard", kind=o.kind, text=o.text, speaker=_name_of(o), own=o.own)
        if more := len(run) - len(shown):
            self._tell("more heard", count=more)

    def _guarded(self, heard: Taken, event: int) -> None:
        """An own echo, or the pair guard's word about a line: it is news like any other, but wakes nobody at once."""
        self._journal.append("company", {"event": event, **(heard.why or {})}, turn=self.agent.session.turn)
        if heard.notice:
            self.news.notice(heard.notice, now=self._clock())
        if heard.wait_s:
            self.agent.spawn(self._stir_after(heard.wait_s))

    async def _stir_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.agent.stir(urgent=False)

    def _urgent(self, observation: frames.Observation, *, acts: bool) -> str:
        """Why it must not wait, "" if it may: it is meant for this NPC, or its body `acts` and the mind wants to be woken for this."""
        if self._ears.addressed(observation, self.me):
            self._hands.body.words += 1
            return "operator" if observation.speaker and observation.speaker.kind == "operator" else "addressed"
        if not acts or not self._wakes.may(observation.kind):
            return ""
        if observation.kind == "blocked" and observation.to in (None, self.me):
            self._hands.blocked(observation.text)
        return self._wakes.reason(observation, me=self.me, place=self.place)

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
        limits: frames.Limits,
    ) -> None:
        """The link is up."""
        if epoch != self.epoch:
            self._hands.check.repetition.changed()  # another world, or an earlier state of it
        self.me, self.epoch = npc or self.me, epoch
        self._chronicler.epoch = epoch
        self._memory.attached(world=world, epoch=epoch, me=self.me)
        self._hands.limit(limits)
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
        if self._hands.doubtful(sent, result):
            self.agent.spawn(self._doubt(sent, result))
        else:
            told = self._hands.stopping(result)
            self._end(sent, result, self._hands.settled(sent, result), told=told)

    async def _doubt(self, sent: Sent, answer: frames.ActResult) -> None:
        """A world that says "done" while its own word about the position says otherwise: the news of the move may be on its way."""
        result = await self._hands.judged(sent, answer)
        self._end(sent, answer, result, told=False)

    def _end(self, sent: Sent, answer: frames.ActResult, result: Result, *, told: bool) -> None:
        """To whoever waits for it; a late one of an older generation is a line of news and nothing else."""
        if sent.part and not result.error:
            return  # the speech that it is a part of goes on, or has said so
        owed = bool(sent.call) and not sent.part and self.agent.finished(sent.call, sent.op, result, told=told)
        if not owed and not told:
            self._notice(news_of(answer, sent.name, result))

    def aside(self, frame: frames.Gate | frames.Rollback | frames.ActProgress) -> None:
        """What a world says besides. A gate is set only where the persona gives it to the world."""
        match frame:
            case frames.Rollback():
                here = {"before": self.epoch, "world_time": self.world_time, "place": self.place}
                event = self._journal.append("rollback", {"epoch": frame.epoch, "since": frame.since, **here})
                self.epoch, self.world_time = frame.epoch or self.epoch, frame.since or self.world_time
                self._chronicler.set_back(epoch=frame.epoch, since=frame.since)
                self._hands.check.repetition.changed()
                self._memory.epoch = self.epoch
                self.agent.spawn(self._undo(frame.since, event))
                since = f" What happened after {frame.since} is undone." if frame.since else " Some of what happened is undone."
                self._notice(f"The world was set back to an earlier state.{since} Look again before you rely on what you remember.")
                self._tell("alarm", text=f"the world was rolled back to an earlier state (since {frame.since or 'unknown'})")
            case frames.Gate():
                self.agent.spawn(self._gate(frame))
            case frames.ActProgress():
                pass

    async def _undo(self, since: str, event: int) -> None:
        """What is known of a future that did not happen after all is marked so; the log names the rollbacks."""
        await self._memory.rolled_back(since, upto=event)
        await self._chronicler.undo()

    async def _gate(self, frame: frames.Gate) -> None:
        if await self._gates.from_world(frame.name, frame.value, frame.why):
            self._tell("gate", name=frame.name, value=frame.value, why=frame.why)
            self._notice(f"The world's own rules say: {frame.name} is {json.dumps(frame.value)}. {frame.why}".strip())

    def _notice(self, words: str) -> None:
        self.news.notice(words, now=self._clock())
        self.agent.stir(urgent=False)


def _name_of(observation: frames.Observation) -> str:
    return observation.speaker.name if observation.speaker else ""


def _quiet(observation: frames.Observation) -> bool:
    """Whether it is one of the many small changes that nobody needs to be called for."""
    return observation.key is not None and observation.prio <= QUIET_PRIO


def _place(observation: frames.Observation) -> str:
    """Where the NPC is, if the world's data say so."""
    data = observation.data or {}
    return next((data[name] for name in ("room", "place") if isinstance(data.get(name), str)), "")
