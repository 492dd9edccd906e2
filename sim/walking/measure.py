"""What yielding saves: a walking-heavy hour with it and without, in virtual time.

Invariant: both lives walk the same road by the same seed; everything between the world's word and the model's request is the product's own
(journal, inbox, wake conditions, digest, core, model client) and only the clock is not. Without yielding nothing polls: an accepted action
is a result at once, and ambient news starts turns as it does for an NPC that stands still.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npc.character import Character
from npc.home import Home
from npc.living import settings_of
from npc.persona import Persona, parse_persona
from runtime.agent import TimedCount
from runtime.core.values import Answer, Failure
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.profiles import profile
from runtime.model.retry import Policy
from runtime.store.journal import Journal
from sim.clock import Clock
from sim.messages_api import MessagesAPI, Record
from sim.walking import BOUND, DENSITIES, ORDINARY
from sim.walking.road import NPC, Postwoman, Road

#: Virtual seconds that each model call takes.
THINK_S = 2.0
PATIENCE_S = 60.0  # by the wall clock, for one thing to be dealt with
AFTER_S = 60.0  # virtual, for what is under way at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One life. Times are virtual seconds; latencies from an addressed line to the request that carries it."""

    yields: bool
    calls: int
    dollars: float
    tokens: int
    cache_read_share: float
    walks: int
    walking_share: float
    observations: int
    addressed: int
    missed: int
    latency_p50_s: float
    latency_max_s: float
    wakes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The same road twice."""

    road: str
    ambient_s: float
    on: Hour
    off: Hour

    @property
    def calls(self) -> float:
        """Share of model calls saved."""
        return 1.0 - self.on.calls / max(1, self.off.calls)

    @property
    def dollars(self) -> float:
        """Share of dollars saved."""
        return 1.0 - self.on.dollars / max(1e-9, self.off.dollars)

    @property
    def held(self) -> bool:
        """Whether no line was missed and, on the ordinary road, enough was saved."""
        enough = self.road != ORDINARY or self.calls >= BOUND
        return enough and not self.on.missed and not self.off.missed and self.on.addressed > 0


@dataclass(slots=True)
class _Bill:
    """What the stand-in was asked and bills."""

    calls: int = 0
    dollars: float = 0.0
    tokens: int = 0
    read: int = 0

    def add(self, record: Record) -> None:
        """One more request of a turn; diary entries and summaries are not counted."""
        if not record.body.get("tools"):
            return
        self.calls += 1
        self.dollars += record.dollars
        self.tokens += record.tokens
        self.read += record.usage.cache_read_tokens


class _Paced(ModelClient):
    """A model client whose calls take virtual time."""

    clock: Clock

    async def call(self, body: Mapping[str, Any], *, deadline_s: float | None = None) -> Answer | Failure:
        outcome = await super().call(body, deadline_s=deadline_s)
        await self.clock.sleep(THINK_S)
        return outcome


def persona(*, yields: bool) -> Persona:
    """Defaults but for the purse, so that it is the hour that decides and not the cap."""
    return parse_persona(
        f'[character]\nname = "{NPC}"\ndescription = "You carry the letters, a round of eight stations, every day."\n'
        f"[wake]\nyields = {str(yields).lower()}\n[budget]\ndollars_per_day = 1000.0\n"
    )


async def hour(*, yields: bool, seed: int, ambient_s: float, minutes: float) -> Hour:
    """One life on the road."""
    clock = Clock()
    road = Road(clock, seed=seed, ambient_s=ambient_s)
    who = persona(yields=yields)
    facts = profile(who.model.id)
    bill = _Bill()
    wakes: dict[str, int] = {}

    def watch(what: str, data: Mapping[str, Any]) -> None:
        if what == "woken from yield":
            wakes[str(data["reason"])] = wakes.get(str(data["reason"]), 0) + 1

    brain = Postwoman(lambda: road.tally, clock)
    with tempfile.TemporaryDirectory(prefix="npc-walking-") as folder:
        async with MessagesAPI(brain, who.model.window, clock=clock.now, on_request=bill.add, keep=1) as api:
            client = _Paced(api_key="stand-in", base_url=api.base_url, policy=Policy(tries=1))
            client.clock = clock
            with Home(Path(folder) / "home") as home:
                async with await Journal.open(home.database_path, clock=clock.now) as journal:
                    character = Character(
                        persona=who, home=home, journal=journal, model=client, world=road, settings=settings_of(who, facts),
                        count=TimedCount(Counter.load().count), clock=clock.now, later=clock.later, watch=watch,
                        cacheable=facts.min_cacheable,
                    )  # fmt: skip
                    life = asyncio.create_task(character.live())
                    try:
                        await _drive(character, road, clock, minutes * 60.0)
                    finally:
                        character.stop()
                        await asyncio.wait_for(life, PATIENCE_S)
                        await client.close()
    return _hour(bill, road, wakes, yields=yields, seconds=minutes * 60.0)


async def _drive(character: Character, road: Road, clock: Clock, seconds: float) -> None:
    """Move the clock from one thing to the next, each dealt with before the next is due."""
    await asyncio.wait_for(road.attached.wait(), PATIENCE_S)
    begin = clock.now()
    road.until = begin + seconds
    while True:
        await road.deliver()
        await _settled(character, clock)
        due = clock.next_due
        if due is None or due > begin + seconds + AFTER_S:
            return
        clock.advance(due)


async def _settled(character: Character, clock: Clock) -> None:
    """Nothing goes on but what waits for the clock."""
    quiet = asyncio.ensure_future(character.agent.quiet())
    asleep = asyncio.ensure_future(clock.asleep.wait())
    try:
        done, _ = await asyncio.wait({quiet, asleep}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise TimeoutError(f"nothing was dealt with for {PATIENCE_S:.0f} s, in state {character.agent.session.state}")
    finally:
        for task in (quiet, asleep):
            task.cancel()
        await asyncio.gather(quiet, asleep, return_exceptions=True)


def _hour(bill: _Bill, road: Road, wakes: Mapping[str, int], *, yields: bool, seconds: float) -> Hour:
    lines = list(road.tally.lines.values())
    waits = sorted(line.asked - line.said for line in lines if line.asked is not None)
    return Hour(
        yields=yields,
        calls=bill.calls,
        dollars=round(bill.dollars, 6),
        tokens=bill.tokens,
        cache_read_share=round(bill.read / max(1, bill.tokens), 4),
        walks=road.tally.walks,
        walking_share=round(road.tally.walking_s / seconds, 4),
        observations=road.tally.told,
        addressed=len(lines),
        missed=sum(line.answered is None for line in lines),
        latency_p50_s=round(waits[len(waits) // 2], 3) if waits else 0.0,
        latency_max_s=round(waits[-1], 3) if waits else 0.0,
        wakes=dict(wakes),
    )


async def measure(*, road: str = ORDINARY, seed: int = 7, minutes: float = 60.0) -> Saving:
    """The hour with yielding and without; `road` is one of `DENSITIES`."""
    ambient_s = DENSITIES[road]
    on = await hour(yields=True, seed=seed, ambient_s=ambient_s, minutes=minutes)
    off = await hour(yields=False, seed=seed, ambient_s=ambient_s, minutes=minutes)
    return Saving(road=road, ambient_s=ambient_s, on=on, off=off)


def rendered(savings: Sequence[Saving]) -> str:
    """The measurement as Markdown."""
    head = (
        "| road | one ambient observation in | model calls without | with | saved | dollars without | with | saved | lines meant for it "
        "| missed | line to request, median and longest | walks, share of the time |"
    )
    rows = (
        f"| {s.road} | {s.ambient_s:.0f} s | {s.off.calls} | {s.on.calls} | {s.calls:.0%} | {s.off.dollars:.4f} | {s.on.dollars:.4f} "
        f"| {s.dollars:.0%} | {s.on.addressed} | {s.on.missed} | {s.on.latency_p50_s:.1f} s, {s.on.latency_max_s:.1f} s "
        f"| {s.on.walks}, {s.on.walking_share:.0%} |"
        for s in savings
    )
    return "\n".join([head, "|---" * 12 + "|", *rows])
