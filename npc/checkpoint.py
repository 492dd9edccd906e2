"""Checkpoints in words: what an NPC writes into its log for whoever goes on from there, and what a mind without a past is given to read.

Invariants: a checkpoint is a few lines whatever the state holds; a beginning holds the state first, then the end of the log, then the last
entries of the diary, and keeps to its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diaries import DiaryError, Entry
from npc.home import Home
from npc.notebook import shown
from npc.state import State
from runtime.core.messages import Count
from runtime.core.tokens import clip

#: How many of each list a checkpoint names, and the longest of them in characters.
NAMED = 5
CHARS = 200
#: How many diary entries a mind without a past is given, and the raw tokens of all that it is given: at most, and as a share of the window.
ENTRIES = 3
MOST = 1_500
SHARE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an NPC stands beside its state. `dollars` are today's, `event` is the newest of the log."""

    place: str = ""
    world_time: str = ""
    turn: int = 0
    event: int = 0
    dollars: float = 0.0
    promises: Sequence[str] = ()
    unverified: Sequence[str] = ()


def checkpoint(why: str, state: State, standing: Standing) -> str:
    """A checkpoint as an entry of the log; `why` it is made: `half hour`, `reset`, `shutdown`."""
    at = ", ".join(part for part in (standing.place, standing.world_time) if part)
    notes = state.notes_for_future_self
    unanswered = [f"{asked.id}: {asked.question}" for asked in state.operator_questions if not asked.answer]
    lines = [
        *(f"{name}: {_line(value)}" for name, value in (("Phase", state.phase), ("Next", state.next_action)) if value),
        *_list("Open question", state.open_questions),
        *_list("Asked the operator", unanswered),
        *_list("Promised", (text for text in standing.promises if text not in notes)),
        *_list("Unverified", (text for text in standing.unverified if text not in notes)),
        *_list("Noted", notes),
    ]
    head = f"Checkpoint ({why}): turn {standing.turn}, event {standing.event}, ${standing.dollars:.2f} today{f', at {at}' if at else ''}."
    return "\n".join([head, *([""] if lines else []), *(f"- {line}" for line in lines)])


def beginning(home: Home, *, count: Count, window: int) -> str:
    """What a mind is given that has no past before it. Blocks on the disk."""
    room = min(MOST, window // SHARE)
    state = shown(home.state())
    tail = home.log_tail(room)  # a third of the room at three characters to a token
    try:
        entries = home.diary.entries(last=ENTRIES).entries
    except DiaryError:
        entries = ()
    parts = [state] if state else []
    if tail:
        parts.append(f"The end of your log:\n{clip(tail, max(60, room // 3), count)}")
    if entries:
        each = max(60, room // (2 * len(entries)))
        parts.append("The last entries of your diary:\n" + "\n".join(_entry(entry, each, count) for entry in entries))
    return "\n\n".join(parts)


def _entry(entry: Entry, tokens: int, count: Count) -> str:
    undone = f"did not happen after all, {entry.undone}" if entry.undone else ""
    head = " · ".join(part for part in (entry.world_time or entry.day, entry.place, undone) if part)
    return f"- {head}: {clip(' '.join(entry.text.split()), tokens, count)}"


def _list(name: str, texts: Iterable[str]) -> list[str]:
    return [f"{name}: {_line(text)}" for text in list(texts)[-NAMED:]]


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CHARS else f"{line[: CHARS - 1]}…"
