"""What was heard from people, searchable, and brought back when it fits what is being said now.

Invariants: only lines of talk are kept, never recalled text; what is recalled is a quotation with its source event; nothing that stands in
the window already is recalled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npc.hearing import Heard
from npc.senses import recalled
from runtime.core.events import Memory
from runtime.core.messages import Count
from runtime.core.tokens import clip
from runtime.host import Result
from runtime.store.journal import Journal
from runtime.store.memories import terms_of

#: No evidence is said as such, never guessed around.
NO_EVIDENCE = "INSUFFICIENT_EVIDENCE: nothing that was heard matches."
QUERIES = 4  # lines of the newest news that may ask the memory
PER_QUERY = 2
SHOWN = 8  # lines that a search by words shows
CANDIDATES = 64  # that are looked at for one line: what was asked before has the same words as what asks now
_QUESTION = ("?", "？", "؟", ";")
SHARED_TERMS = 2  # a memory has to share so many words with the line that asks
RECALL_TOKENS = 1_200  # of one event read back


class Recollection:
    """The memory of one NPC over its journal."""

    def __init__(self, journal: Journal, count: Count) -> None:
        self._journal, self._count = journal, count

    def keep(self, lines: Sequence[Heard], event: int) -> None:
        """Remember lines of talk."""
        for line in lines:
            # Who said it is a word to find it by: people ask about what they told themselves.
            if terms := terms_of(line.text):
                terms += [t for t in terms_of(line.speaker) if t not in terms]
                # What was told to this NPC outlives what it merely overheard, and an answer outlives a question.
                weight = (2 - _asks(line.text)) if line.addressed else 0
                self._journal.remember(event=event, speaker=line.speaker, text=line.text, terms=" ".join(terms), weight=weight)

    async def matching(self, heard: Sequence[Heard], *, window: str, limit: int) -> tuple[Memory, ...]:
        """Memories that fit what was just said to this NPC, the best of each line, at most `limit`."""
        asking = [h for h in heard if h.addressed][-QUERIES:]
        found: dict[int, Memory] = {}
        for line in asking:
            terms = terms_of(line.text)
            if len(terms) < SHARED_TERMS:
                continue
            taken = 0
            who = [t for t in terms_of(line.speaker) if t not in terms]
            for memory in await self._journal.search([*terms, *who], limit=CANDIDATES):
                shared = set(terms) & set(memory.terms.split())
                known = memory.text == line.text or memory.text in window or memory.id in found
                if known or len(shared) < SHARED_TERMS or _asks(memory.text):
                    continue
                found[memory.id] = recalled(event=memory.event, speaker=memory.speaker, text=memory.text, count=self._count)
                taken += 1
                if taken >= PER_QUERY or len(found) >= limit:
                    break
        return tuple(found.values())[:limit]

    async def answer(self, arguments: Mapping[str, Any]) -> Result:
        """`npc_recall`: an event by its number, or lines by words."""
        event, words = arguments.get("event"), arguments.get("words")
        if isinstance(event, int) and not isinstance(event, bool):
            stored = await self._journal.read(event)
            if stored is None:
                return Result(text=f"INSUFFICIENT_EVIDENCE: there is no event {event}.", error=True)
            text = str(stored.data.get("text") or stored.data.get("content") or stored.data)
            return Result(text=clip(f"[event {event}, {stored.kind}] {text}", RECALL_TOKENS, self._count))
        if isinstance(words, str) and (terms := terms_of(words)):
            memories = await self._journal.search(terms, limit=SHOWN)
            if memories:
                return Result(text="\n".join(f"[event {m.event}] {m.speaker}: {m.text}" for m in memories))
        return Result(text=NO_EVIDENCE)


def _asks(text: str) -> bool:
    """Whether a line is a question: those who ask again want what was told, not what was asked."""
    return any(mark in text for mark in _QUESTION[:3]) or text.rstrip().endswith(_QUESTION)
