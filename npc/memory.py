"""What this NPC remembers over the length of its life: kept through a gate, and brought back to those who may read it.

Invariants: nothing gets in but through `npc.remembering`, so recalled text never does; nothing gets out but by a reader, so that a private
line comes back only when the same subject asks, and never one that the world has undone. What is recalled is a quotation with its source
event; nothing that stands in the window already is recalled again. How good a memory is for a question is decided in one place, the score
in `runtime.store.memories`.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from diaries.calendar import later, world_day
from npc.claims import claim
from npc.confidence import Audience
from npc.discretion import Discretion
from npc.hearing import LINE_CHARS, Ears, Heard
from npc.remembering import DAY_S, TALK, Candidate, Category, Refusals, Refuse, asks, judged
from npc.senses import recalled
from npc.told import from_journal
from runtime.core.events import Memory
from runtime.core.messages import Count
from runtime.core.tokens import clip
from runtime.host import Result
from runtime.store.errors import StoreError
from runtime.store.events import Event
from runtime.store.journal import Journal
from runtime.store.memories import PUBLIC, WHISPERED, Reader, terms_of
from world_adapter.frames import Observation

#: No evidence is said as such, never guessed around.
NO_EVIDENCE = "INSUFFICIENT_EVIDENCE: nothing that was heard matches."
QUERIES = 4  # lines of the newest news that may ask the memory
PER_QUERY = 2
SHOWN = 8  # lines that a search by words shows
CANDIDATES = 64  # that are looked at for one line: what was asked before has the same words as what asks now
SHARED_TERMS = 2  # a memory has to share so many words with the line that asks
RECALL_TOKENS = 1_200  # of one event read back
#: Kinds of observation that show a place or a thing.
_SHOWING = frozenset({"scene", "item"})
#: Recalled lines that own words are held against, and the share of own words that makes them a repetition.
_RECALLED, _REPEATS = 256, 0.6
#: Observations that are looked at to find when an undone time began.
_READ = 5_000
#: The shortest time between two consolidations, in seconds: a world may call any moment a new day.
_REST_S = 60.0
_UNDONE = "undone memories"


class Recollection:
    """The memory of one NPC over its journal.

    `ears` and `discretion` are this NPC's own (without them nothing private is known as such), `overheard_days` how long is kept what was
    not told to it (0: for ever), `gates` the names of its gates, `clock` unix seconds.
    """

    def __init__(
        self, journal: Journal, count: Count, *, ears: Ears | None = None, discretion: Discretion | None = None,
        overheard_days: float = 30.0, gates: Sequence[str] = (), clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._journal, self._count, self._clock = journal, count, clock
        self._ears = ears or Ears(())
        self.discretion = discretion or Discretion(journal, ears=self._ears, me=lambda: "")
        self._overheard_s, self._gates = overheard_days * DAY_S, tuple(gates)
        self._refusals = Refusals()
        self._recalled: deque[frozenset[str]] = deque(maxlen=_RECALLED)
        self._undone: list[tuple[int, int]] = []
        self._day = ""
        self._consolidated = 0.0
        self.world, self.epoch, self.me = "", "", ""

    async def take_up(self) -> None:
        """What earlier lives left. Never raises: what cannot be read is an alarm."""
        try:
            await self.discretion.take_up()
            stored = json.loads(await self._journal.load_checkpoint(_UNDONE) or "[]")
            self._undone = [(int(first), int(last)) for first, last in stored]
        except (StoreError, ValueError, TypeError) as error:
            self._journal.append("alarm", {"text": f"confidences of earlier lives are not known: {error}"})

    def attached(self, *, world: str, epoch: str, me: str) -> None:
        """Where the NPC is now."""
        self.world, self.epoch, self.me = world, epoch or self.epoch, me
        self.discretion.world = world

    # ------------------------------------------------------------ in
    def keep(self, lines: Sequence[Heard], event: int, *, shown: Observation | None = None) -> None:
        """Remember lines of talk, and what the world has `shown`, as far as the gate lets them in."""
        self.discretion.learn(lines, event)
        for line in lines:
            category = Category.HEARD if line.sensitivity == PUBLIC else Category.CONFIDED
            subject = line.subject or f"name:{line.speaker.casefold()}"
            self._admit(
                Candidate(
                    category=category, text=line.text, speaker=line.speaker, subject=subject, event=event, world=self.world,
                    epoch=self.epoch, sensitivity=line.sensitivity, addressed=line.addressed, authorised=line.authorised,
                )
            )  # fmt: skip
        if shown is not None and not lines:
            self._saw(shown, event)

    def _saw(self, o: Observation, event: int) -> None:
        """What the world's own code shows, with data: a newer look at the same place takes the place of the older."""
        if o.kind not in _SHOWING or not o.data or o.own or (o.speaker is not None and o.speaker.kind != "world"):
            return
        where = next((str(o.data[name]) for name in ("room", "place", "id", "name") if isinstance(o.data.get(name), str)), o.key or "")[:80]
        seen = Candidate(
            category=Category.SEEN, text=" ".join(o.text[: 2 * LINE_CHARS].split())[:LINE_CHARS], speaker=f"seen {where}".strip(),
            subject=f"seen:{where}", event=event, world=self.world, epoch=self.epoch,
        )  # fmt: skip
        self._admit(seen, about=f"{o.kind} {where}" if where else "")

    def said(self, text: str, *, to: str, closed: bool, turn: int) -> None:
        """Own words were spoken; `closed`: where only `to` could hear them. Words that repeat what was recalled are no new memory."""
        event = self._journal.append("said", {"text": text, "to": to, "closed": closed}, turn=turn)
        terms = frozenset(terms_of(text))
        if any(_repeats(terms, old) for old in self._recalled):
            return
        whom = self.discretion.who(to) if closed else frozenset()
        self._admit(
            Candidate(
                category=Category.SAID, text=text[:LINE_CHARS], speaker="you", subject=next(iter(whom), "self"), event=event,
                world=self.world, epoch=self.epoch, sensitivity=WHISPERED if closed else PUBLIC,
            )
        )  # fmt: skip

    def _admit(self, candidate: Candidate, *, about: str = "") -> None:
        terms = terms_of(candidate.text)
        if not terms:
            return
        now = self._clock()
        people = self.discretion.people
        verdict = judged(candidate, now=now, overheard_s=self._overheard_s, gates=self._gates, people=people)
        if isinstance(verdict, Refuse):
            if (data := self._refusals.refused(candidate, verdict.reason, now=now)) is not None:
                self._journal.append("memory refused", data)
            return
        # Who said it is a word to find it by: people ask about what they told themselves.
        terms += [term for term in terms_of(candidate.speaker) if term not in terms]
        self._journal.remember(
            event=candidate.event, speaker=candidate.speaker, text=candidate.text, terms=" ".join(terms), weight=verdict.weight,
            label=verdict.label, about=about,
        )  # fmt: skip

    # ------------------------------------------------------------ out
    async def matching(self, heard: Sequence[Heard], *, window: str, limit: int, turn: int = 0) -> tuple[Memory, ...]:
        """Memories that fit what was just said to this NPC, the best of each line, at most `limit`. `window`: what stands there already."""
        self.discretion.hears(heard, turn=turn)
        asking = [h for h in heard if h.addressed][-QUERIES:]
        found: dict[int, Memory] = {}
        for line in asking:
            terms = terms_of(line.text)
            if len(terms) < SHARED_TERMS:
                continue
            taken = 0
            who = [t for t in terms_of(line.speaker) if t not in terms]
            reader = Reader(world=self.world, subjects=frozenset({line.subject} - {""}), purposes=frozenset({TALK}))
            for memory in await self._journal.search([*terms, *who], limit=CANDIDATES, reader=reader):
                shared = set(terms) & set(memory.terms.split())
                known = memory.text == line.text or memory.text in window or memory.id in found
                if known or len(shared) < SHARED_TERMS or asks(memory.text):
                    continue
                found[memory.id] = recalled(event=memory.event, speaker=memory.speaker, text=memory.text, count=self._count)
                self._recalled.append(frozenset(memory.terms.split()))
                taken += 1
                if taken >= PER_QUERY or len(found) >= limit:
                    break
        return tuple(found.values())[:limit]

    async def answer(self, arguments: Mapping[str, Any]) -> Result:
        """`npc_recall`: an event by its number, or lines by words; of what is private only what those may hear who are answered now."""
        event, words = arguments.get("event"), arguments.get("words")
        if isinstance(event, int) and not isinstance(event, bool):
            stored = await self._journal.read(event)
            if stored is None:
                return Result(text=f"INSUFFICIENT_EVIDENCE: there is no event {event}.", error=True)
            return await self._read(stored)
        if isinstance(words, str) and (terms := terms_of(words)):
            reader = Reader(world=self.world, subjects=self.discretion.askers)
            memories = await self._journal.search(terms, limit=SHOWN, reader=reader)
            if memories:
                self._recalled.extend(frozenset(m.terms.split()) for m in memories)
                return Result(text="\n".join(f"[event {m.event}, {_when(m.at)}] {m.speaker}: {m.text}" for m in memories))
        return Result(text=NO_EVIDENCE)

    async def _read(self, stored: Event) -> Result:
        text = str(stored.data.get("text") or stored.data.get("content") or stored.data)
        if await self._withheld(stored, text):
            self._journal.append("memory withheld", {"source": stored.id, "from": sorted(self.discretion.askers)})
            return Result(text=f"[withheld: event {stored.id} holds what somebody else told you in confidence]", error=True)
        undone = ", undone since: the world was set back" if any(first < stored.id <= last for first, last in self._undone) else ""
        self._recalled.append(frozenset(terms_of(text[:LINE_CHARS])))
        return Result(text=clip(f"[event {stored.id}, {stored.kind}, {_when(stored.at)}{undone}] {text}", RECALL_TOKENS, self._count))

    async def _withheld(self, stored: Event, text: str) -> bool:
        askers = self.discretion.askers
        if stored.kind == "observation":
            lines = self._ears.heard(from_journal(stored.data), self.me)
            if any(line.sensitivity != PUBLIC and line.subject not in askers for line in lines):
                return True
        return bool(await self.discretion.carried(text, Audience(subjects=askers, closed=True)))

    # ------------------------------------------------------------ the world is set back, a day ends
    async def rolled_back(self, since: str, *, upto: int) -> None:
        """The world is at its time `since` again, as the event `upto` says: what was remembered after that time is undone."""
        if not since:
            self._journal.append("memory undone", {"since": "", "why": "the world did not say since when"})
            return
        told = [e for e in await self._journal.events(kinds=("observation",), limit=_READ, newest=True) if e.id < upto]
        dated = [(e.id, when) for e in told if isinstance(when := e.data.get("wt"), str) and when]
        before = [number for number, when in dated if when == since or later(when, since) is False]
        if not before and not any(later(when, since) for _, when in dated):
            self._journal.append("memory undone", {"since": since, "why": "nothing that was told says when that was"})
            return
        first = before[-1] if before else told[0].id - 1
        self.undo(since=first, upto=upto)

    def undo(self, *, since: int, upto: int) -> None:
        """What was remembered of this world in the events after `since`, up to `upto`, is no fact any more."""
        self._journal.undo(world=self.world, since=since, upto=upto)
        self._undone = [*self._undone[-63:], (since, upto)]
        self._journal.checkpoint(_UNDONE, json.dumps(self._undone))
        self._journal.append("memory undone", {"after": since, "through": upto})

    def day_ends(self, world_time: str) -> bool:
        """Whether a day is over, by the world's time or where that names none by ours: then it is time to consolidate."""
        now = self._clock()
        day = world_day(world_time) or datetime.fromtimestamp(now, UTC).date().isoformat()
        if day == self._day:
            return False
        first, self._day = not self._day, day
        if first or now - self._consolidated < _REST_S:
            return False
        self._consolidated = now
        return True

    async def consolidate(self) -> None:
        """Drop what is over, said twice or beyond the bound; what went is in the log by kind and number."""
        try:
            dropped = await self._journal.consolidate()
        except StoreError as error:
            self._journal.append("alarm", {"text": f"the memory was not consolidated: {error}"})
            return
        self._journal.append("memory consolidated", {"dropped": dropped, **self._refusals.besides()})


def _repeats(terms: frozenset[str], old: frozenset[str]) -> bool:
    """Whether words say again what others said."""
    both = len(terms & old)
    return both >= SHARED_TERMS and both >= _REPEATS * min(len(terms), len(old))


def _when(at: float) -> str:
    """When something was told, by the real clock: what is read here is as old as that."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def warm() -> None:
    """Make ready what looks at lines of talk, so that the first one does not wait for it."""
    terms_of("warm")
    claim("warm")
