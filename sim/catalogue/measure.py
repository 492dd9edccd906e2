"""The same errands in the same manor three times: every action shown, the provider's search, our own.

Invariants: the product is whole (character, hands, core, model client; only the world and the model are stand-ins); prices, cache and
what a search brings into the prompt are the stand-in's, which reads and bills the request again after each search of the provider's.
Ratios are of one run.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from npc.character import Character
from npc.home import Home
from npc.living import settings_of
from npc.persona import Persona, parse_persona
from runtime.agent import TimedCount
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.profiles import profile
from runtime.model.retry import Policy
from runtime.store.journal import Journal
from sim.catalogue import BOUND, COST_BOUND, NARROW
from sim.catalogue.manor import NPC, SAY, Errand, Manor, actions, errands
from sim.catalogue.mind import Housekeeper
from sim.clock import Clock
from sim.messages_api import MessagesAPI, Record

#: Ways, by the persona's `[tools] search`.
WAYS = ("off", "api", "own")
NAMES = {"off": "every action shown", "api": "the provider's search", "own": "our own search"}
PATIENCE_S = 60.0  # by the wall clock, for one errand
BETWEEN_S = 20.0  # virtual, from one errand to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One way. Tokens are the provider's, as billed; dollars are of all requests of turns."""

    way: str
    turns: int
    done: int
    given_up: int
    searches: int
    requests: int
    rejected: int
    tokens_a_request: float
    largest_request: int
    dollars_a_1000_turns: float
    dollars_a_1000_done: float
    cache_read_share: float
    output_tokens_a_turn: float

    @property
    def done_share(self) -> float:
        """Share of the errands that were done."""
        return self.done / max(1, self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All ways over the same errands."""

    actions: int
    window: int
    model: str
    seed: int
    rounds: tuple[Round, ...]

    def cost(self, way: str) -> float:
        """What an errand that is done costs, as a share of what it costs where every action is shown as far as there is room."""
        by_way = {one.way: one.dollars_a_1000_done for one in self.rounds}
        return by_way[way] / by_way["off"] if by_way.get("off") else 1.0

    @property
    def missed_bounds(self) -> list[str]:
        """What did not hold, one sentence each."""
        out = []
        for one in self.rounds:
            if one.rejected:
                out.append(f"{NAMES[one.way]}: {one.rejected} requests were rejected")
            if one.way == "off":
                continue
            if one.done_share < BOUND:
                out.append(f"{NAMES[one.way]}: {one.done} of {one.turns} errands done, less than {BOUND:.0%}")
            if self.actions >= 300 and self.window <= NARROW and len(self.rounds) == len(WAYS) and self.cost(one.way) > COST_BOUND:
                out.append(f"{NAMES[one.way]}: costs {self.cost(one.way):.0%} of showing every action, more than {COST_BOUND:.0%}")
        return out

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        rows = [{**asdict(one), "cost_of_all_shown": round(self.cost(one.way), 4)} for one in self.rounds]
        head = {"actions": self.actions, "window": self.window, "model": self.model, "seed": self.seed}
        return {**head, "rounds": rows, "missed_bounds": self.missed_bounds}


def persona(way: str, *, window: int, model: str) -> Persona:
    """Defaults but for the purse and the way."""
    text = (
        f'[character]\nname = "{NPC}"\ndescription = "You keep the manor of Harrowmere in order, and do what its people ask for."\n'
        f'[tools]\nsearch = "{way}"\nsearch_above = 0\n[budget]\ndollars_per_day = 1000.0\n'
        '[wake]\ngather_s = 0.0\n[diary]\nwritten_by = "runtime"\n'
    )
    return parse_persona(text).adjusted(model=model, window=window)


async def lived(way: str, *, number: int, tasks: Sequence[Errand], window: int, model: str) -> Round:
    """One life with all errands."""
    who, clock, mind, manor = persona(way, window=window, model=model), Clock(), Housekeeper(tasks), Manor([SAY, *actions(number)])
    facts, records, changed = profile(who.model.id), list[Record](), asyncio.Event()
    ended = 0

    def watch(what: str, data: object) -> None:  # noqa: ARG001 (the seam gives it)
        nonlocal ended
        if what == "turn":
            ended += 1
            changed.set()

    def billed(record: Record) -> None:
        if record.body.get("tools"):
            records.append(record)

    with tempfile.TemporaryDirectory(prefix="npc-catalogue-") as folder:
        async with MessagesAPI(mind, window, clock=clock.now, on_request=billed, keep=1) as api:
            client = ModelClient(api_key="stand-in", base_url=api.base_url, policy=Policy(tries=1))
            with Home(Path(folder) / "home") as home:
                async with await Journal.open(home.database_path, clock=clock.now) as journal:
                    character = Character(
                        persona=who, home=home, journal=journal, model=client, world=manor, settings=settings_of(who, facts),
                        count=TimedCount(Counter.load().count), clock=clock.now, later=clock.later, watch=watch,
                        cacheable=facts.min_cacheable,
                    )  # fmt: skip
                    life = asyncio.create_task(character.live())
                    try:
                        await asyncio.wait_for(manor.attached.wait(), PATIENCE_S)
                        for n, errand in enumerate(tasks, 1):
                            await manor.tell(errand.words, at=clock.now())
                            async with asyncio.timeout(PATIENCE_S):
                                while ended < n:
                                    changed.clear()
                                    await changed.wait()
                            clock.advance(clock.now() + BETWEEN_S)
                    finally:
                        character.stop()
                        await asyncio.wait_for(life, PATIENCE_S)
                        await client.close()
    return _round(way, tasks, manor, mind, records)


def _round(way: str, tasks: Sequence[Errand], manor: Manor, mind: Housekeeper, records: Sequence[Record]) -> Round:
    left = list(manor.acts)
    done = 0
    for errand in tasks:
        wanted = (errand.action, {"amount": errand.amount, "care": "usual"})
        if wanted in left:
            left.remove(wanted)
            done += 1
    answered = [record for record in records if record.outcome == "answered"]
    total = sum(record.usage.total_input for record in answered)
    return Round(
        way=way,
        turns=len(tasks),
        done=done,
        given_up=mind.unseen,
        searches=mind.looked,
        requests=len(answered),
        rejected=len(records) - len(answered),
        tokens_a_request=round(total / max(1, len(answered)), 1),
        largest_request=max((record.tokens for record in answered), default=0),
        dollars_a_1000_turns=round(1_000 * sum(record.dollars for record in answered) / max(1, len(tasks)), 4),
        dollars_a_1000_done=round(1_000 * sum(record.dollars for record in answered) / max(1, done), 4),
        cache_read_share=round(sum(record.usage.cache_read_tokens for record in answered) / max(1, total), 4),
        output_tokens_a_turn=round(sum(record.usage.output_tokens for record in answered) / max(1, len(tasks)), 1),
    )


def measure(*, number: int, tasks: int, window: int, model: str, seed: int, ways: Sequence[str] = WAYS) -> Comparison:
    """All ways one after the other."""
    asked = errands(tasks, actions=number, seed=seed)
    rounds = tuple(asyncio.run(lived(way, number=number, tasks=asked, window=window, model=model)) for way in ways)
    return Comparison(actions=number, window=window, model=model, seed=seed, rounds=rounds)


def rendered(found: Comparison) -> str:
    """The measurement as Markdown."""
    head = (
        f"{found.actions} actions, window {found.window:,}, {found.model}\n\n"
        "| | errands done | searches | requests | tokens a request | largest request | $ per 1,000 turns | $ per 1,000 done "
        "| of all shown | read from cache |"
    )
    rows = (
        f"| {NAMES[one.way]} | {one.done} of {one.turns} | {one.searches} | {one.requests} | {one.tokens_a_request:,.0f} "
        f"| {one.largest_request:,} | {one.dollars_a_1000_turns:.2f} | {one.dollars_a_1000_done:.2f} | {found.cost(one.way):.0%} "
        f"| {one.cache_read_share:.0%} |"
        for one in found.rounds
    )
    return "\n".join([head, "|---" * 10 + "|", *rows])
