"""What is kept of a session that is about to be reset: the whole of it in the home, and an entry in the diary.

Invariant: ends well whatever the disk says; what could not be stored as it should be is told to the operator.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from diaries.chronicle import Happening, Reset, reset_entry
from npc.hearing import Ears
from npc.home import Dump, Home
from npc.told import from_journal
from runtime.store.errors import StoreError
from runtime.store.journal import Journal

HAPPENINGS = 400


class Chronicler:
    """Writes for one NPC. `page` tells the operator."""

    def __init__(self, *, home: Home, journal: Journal, ears: Ears, page: Callable[[str], None]) -> None:
        self._home, self._journal, self._ears, self._page = home, journal, ears, page
        self.told_through = 0  # newest event that an entry covers

    async def reset(self, facts: Reset, snapshot: Mapping[str, Any], *, turn: int, me: str) -> tuple[str, str]:
        """Store session and entry; returns on what the session lies, and the entry's text."""
        name = f"reset-{int(facts.at)}-turn-{turn}.json"
        dump = await asyncio.to_thread(self._dump, name, snapshot)
        happenings = await self._happenings(me)
        entry = reset_entry(replace(facts, kept=dump.path.name if dump.path else ""), happenings)
        kept = await asyncio.to_thread(self._home.keep_entry, entry)
        for alarm in (dump.alarm, kept.alarm):
            if alarm:
                self._page(alarm)
        if happenings:
            self.told_through = happenings[-1].event
        self._journal.append("diary", {"entry": kept.entry.id, "tags": list(kept.entry.tags), "how": kept.how}, turn=turn)
        words = f"Context reset: {facts.why}. The session is kept ({dump.how}), the diary has an entry ({kept.how})."
        if alarm := await asyncio.to_thread(self._home.append_log, words):
            self._page(alarm)
        return dump.how, kept.entry.text

    def _dump(self, name: str, snapshot: Mapping[str, Any]) -> Dump:
        return self._home.dump_session(name, json.dumps(snapshot, ensure_ascii=False))

    async def _happenings(self, me: str) -> list[Happening]:
        """What was heard and said since the last entry, the newest of it."""
        try:
            events = await self._journal.events(
                after=self.told_through, kinds=("observation", "answer"), limit=HAPPENINGS, newest=True
            )
        except StoreError:
            return []
        out: list[Happening] = []
        for event in events:
            if event.kind == "answer":
                words = " ".join(str(b.get("text") or "") for b in event.data.get("content", ()) if b.get("type") == "text")
                out += [Happening(kind="said", text=words, event=event.id)] if words.strip() else []
            else:
                lines = self._ears.heard(from_journal(event.data), me)
                out += [Happening(kind="heard", text=h.text, who=h.speaker, event=event.id) for h in lines]
        return out
