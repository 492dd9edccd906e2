"""Whether what was told once is found again: a life of many memories on a real file, and what a search in it takes.

Invariant: what is told and asked is a function of the seed. It goes the way of the product: lines heard, through the gate, into the
journal, and back by what somebody says (or by the tool, with the words of the question). Times belong to this machine: of a search by the
wall clock, of a line heard by the processor's.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from npc.discretion import Discretion
from npc.hearing import Ears
from npc.memory import Recollection
from npc.told import to_journal
from runtime.model.counting import Counter as Tokens
from runtime.store.journal import Journal
from sim import words
from world_adapter.frames import Observation, Speaker

#: A life's first day, in seconds since 1970.
BEGAN = 1_800_000_000.0
DAY_S = 86_400.0
NPC = "Oda"
#: How a fact is told, and how the same player asks for it; in the second half the two share few words.
PHRASES = (
    ("Remember this for me: my {thing} is called {value}.", "do you still remember what my {thing} is called?"),
    ("Oda, I named my {thing} {value} after my aunt", "Oda, how did I name my {thing}?"),
    ("you know, the {thing} that I bought is a {value}", "what was the {thing} that I bought?"),
    ("my {thing} broke, {value} the smith will mend it", "who will mend my {thing}?"),
    ("I left my {thing} with {value} at the ford", "with whom did I leave my {thing}?"),
    ("I owe {value} three coins for the {thing}", "whom do I owe coins for a {thing}?"),
    ("if anybody asks, {value} has got the {thing}", "who has got the {thing} now?"),
    ("the {thing} was stolen by {value}, I saw it", "who stole the {thing} that I told you of?"),
    ("{value} taught me how to carry a {thing}", "who was it that taught me to carry the {thing}?"),
    ("the best {thing} is made by {value} in the north", "where do I get the best {thing}, and by whom is it made?"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of it.

    Attributes:
        memories: how many there were when it was asked.
        tries: facts told once, each asked for once, long after.
        by_itself: of these how many came back with the question; `by_tool`: by a search with its words.
        p50_ms, p99_ms: of one search, milliseconds.
        heard_us: of one line heard, microseconds: gate, guard and store, without the disk's own time.
        days, lines, bound: virtual days of the second life, lines told in it, and the setting.
        most: the most memories at any day's end.
        dropped: by kind, as the log says.
        gone: how many rows the database lost, as it counted itself.
    """

    memories: int
    tries: int
    by_itself: int
    by_tool: int
    p50_ms: float
    p99_ms: float
    heard_us: float
    days: int
    lines: int
    bound: int
    most: int
    dropped: dict[str, int]
    gone: int

    @property
    def found(self) -> int:
        """Found again by recall, in one of the two ways; the second is only taken where the first found nothing."""
        return self.by_itself + self.by_tool

    @property
    def missed_bounds(self) -> tuple[str, ...]:
        """The bounds that were missed, one sentence each."""
        out = []
        if self.found < 0.95 * self.tries:
            out.append(f"{self.found} of {self.tries} facts were found again; 95 in 100 is the bound")
        if self.p99_ms > 10.0:
            out.append(f"a search takes {self.p99_ms:.1f} ms at the 99th percentile; 10 ms is the bound")
        if self.most > self.bound:
            out.append(f"{self.most} memories at a day's end; the setting says {self.bound}")
        if self.gone != sum(self.dropped.values()):
            out.append(f"{self.gone} memories went, and the log tells of {sum(self.dropped.values())}")
        return tuple(out)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    player: Speaker
    told: str
    asked: str
    value: str


class _Life:
    """A memory, told what a village says."""

    def __init__(self, journal: Journal, seed: int, clock: Callable[[], float]) -> None:
        self.journal = journal
        self.random = random.Random(seed)
        self.ears = Ears((NPC,))
        self.discretion = Discretion(journal, ears=self.ears, me=lambda: NPC)
        self.memory = Recollection(journal, Tokens.load().count, ears=self.ears, discretion=self.discretion, clock=clock)
        self.memory.attached(world="village", epoch="e1", me=NPC)
        self.players = [Speaker(id=f"p{n}", name=name, kind="player") for n, name in enumerate(words.PLAYERS)]
        self.heard = 0
        self.took_s = 0.0

    def hear(self, text: str, by: Speaker, *, to: str | None = None) -> None:
        """One line of talk."""
        o = Observation(seq=self.heard + 1, t=0.0, kind="speech", text=text, speaker=by, to=to)
        event = self.journal.append("observation", to_journal(o))
        began = time.process_time()
        self.memory.keep(self.ears.heard(o, NPC), event)
        self.took_s += time.process_time() - began
        self.heard += 1

    def gossip(self) -> None:
        """Something that somebody says, a fifth of it to the NPC; hardly ever twice the same."""
        r = self.random
        by = words.pick(r, self.players)
        text = f"{words.pick(r, words.CHATTER)} {words.sentence(r)}" if r.random() < 0.5 else words.sentence(r)
        self.hear(text, by, to=NPC if r.random() < 0.2 else None)

    def fact(self, n: int) -> _Fact:
        """The fact of a number: another player, thing and phrase each."""
        r = random.Random(f"{self.random.random()}/{n}")
        told, asked = PHRASES[n % len(PHRASES)]
        given = {"thing": words.THINGS[(n * 7) % len(words.THINGS)], "value": words.coined(r)}
        return _Fact(
            player=self.players[(n * 5 + n // len(self.players)) % len(self.players)], told=told.format(**given),
            asked=asked.format(**given), value=given["value"],
        )  # fmt: skip


def measure(
    *, memories: int = 10_000, tries: int = 100, days: int = 10, lines_a_day: int = 4_000, bound: int = 20_000, seed: int = 7,
    folder: Path | None = None,
) -> Figures:  # fmt: skip
    """Run both lives. `bound` is the setting `[memory] lines` of the second one."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        return asyncio.run(
            _measure(Path(made), memories=memories, tries=tries, days=days, lines_a_day=lines_a_day, bound=bound, seed=seed)
        )


async def _measure(folder: Path, *, memories: int, tries: int, days: int, lines_a_day: int, bound: int, seed: int) -> Figures:
    now = [BEGAN]

    def clock() -> float:
        return now[0]

    async with await Journal.open(folder / "told.db", clock=clock, memory_lines=2 * memories + 1_000) as journal:
        life = _Life(journal, seed, clock)
        facts = [life.fact(n) for n in range(tries)]
        by_itself, by_tool, kept, took = await _ask(life, facts, memories, now)
        heard_us = life.took_s / max(1, life.heard) * 1e6
    async with await Journal.open(folder / "days.db", clock=clock, memory_lines=bound) as journal:
        life = _Life(journal, seed + 1, clock)
        most, dropped, gone = await _days(life, days, lines_a_day, now, folder / "days.db")
        told = life.heard
    hundredths = quantiles(took, n=100, method="inclusive") if len(took) > 1 else [0.0] * 99
    return Figures(
        memories=kept, tries=tries, by_itself=by_itself, by_tool=by_tool, p50_ms=hundredths[49], p99_ms=hundredths[98], heard_us=heard_us,
        days=days, lines=told, bound=bound, most=most, dropped=dropped, gone=gone,
    )  # fmt: skip


async def _ask(life: _Life, facts: list[_Fact], memories: int, now: list[float]) -> tuple[int, int, int, list[float]]:
    """Tell the facts among the first tenth of what is said, the rest, and ask for all.

    Gives how many came back by themselves and by the tool, how many memories there are, and the times of the searches.
    """
    early = max(1, memories // 10 // max(1, len(facts)))
    for fact in facts:
        life.hear(fact.told, fact.player, to=NPC)
        for _ in range(early):
            life.gossip()
    await life.journal.commit()
    while (kept := life.journal.memories) < memories:
        for _ in range(min(1_000, memories - kept)):
            life.gossip()
            now[0] += 60.0
        await life.journal.commit()
    by_itself = by_tool = 0
    took: list[float] = []
    for n, fact in enumerate(facts):
        o = Observation(seq=1, t=0.0, kind="speech", text=f"{NPC}, {fact.asked}", speaker=fact.player, to=NPC)
        heard = life.ears.heard(o, NPC)
        began = time.perf_counter()
        found = await life.memory.matching(heard, window="", limit=8, turn=n + 1)
        took.append((time.perf_counter() - began) * 1e3)
        if any(fact.value in memory.text for memory in found):
            by_itself += 1
            continue
        began = time.perf_counter()
        result = await life.memory.answer({"words": f"{fact.player.name} {fact.asked}"})
        took.append((time.perf_counter() - began) * 1e3)
        by_tool += fact.value in result.text
    return by_itself, by_tool, life.journal.memories, took


async def _days(life: _Life, days: int, lines_a_day: int, now: list[float], path: Path) -> tuple[int, dict[str, int], int]:
    """So many days of gossip, each with its end; the most memories, what was dropped by kind, and how many rows went."""
    with sqlite3.connect(path) as counting:
        counting.execute("CREATE TABLE gone(n INTEGER)")
        counting.execute("INSERT INTO gone VALUES (0)")
        counting.execute("CREATE TRIGGER counted AFTER DELETE ON memories BEGIN UPDATE gone SET n = n + 1; END")
    counting.close()
    most = 0
    for day in range(1, days + 1):
        life.memory.day_ends(f"day {day}, 06:00")
        for n in range(lines_a_day):
            life.gossip()
            now[0] += DAY_S / lines_a_day
            if n % 500 == 0:
                await life.journal.commit()
        if life.memory.day_ends(f"day {day + 1}, 00:00"):
            await life.memory.consolidate()
        await life.journal.commit()
        most = max(most, life.journal.memories)
    dropped: Counter[str] = Counter()
    for event in await life.journal.events(kinds=("memory dropped",), limit=100_000):
        dropped.update({kind: int(number) for kind, number in event.data.items() if kind != "kept"})
    with sqlite3.connect(path) as counting:
        gone = int(counting.execute("SELECT n FROM gone").fetchone()[0])
    counting.close()
    return most, dict(dropped), gone


def rendered(found: Figures) -> str:
    """The figures for people."""
    dropped = ", ".join(f"{number:,} {kind}" for kind, number in sorted(found.dropped.items())) or "nothing"
    return (
        f"{found.found} of {found.tries} facts told once were found again among {found.memories:,} memories: {found.by_itself} came back "
        f"with the question, {found.by_tool} more by a search.\n"
        f"A search takes {found.p50_ms:.1f} ms (median), {found.p99_ms:.1f} ms at the 99th percentile; a line heard "
        f"{found.heard_us:.0f} us.\n"
        f"Over {found.days} days with {found.lines:,} lines there were at most {found.most:,} memories at a day's end, of {found.bound:,} "
        f"allowed; dropped, as the log says: {dropped}."
    )
