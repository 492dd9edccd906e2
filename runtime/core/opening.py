"""A turn's opening: memories and notebook first, then the news, then (where it cannot travel as a system message) the tail.

Invariants: the newest news is always there, whole if it fits or with a named cut; what had to be left out is counted in the text; an
urgent item is left out last.
"""

from __future__ import annotations

from collections.abc import Sequence

from .events import Memory, Observation
from .fence import fenced
from .messages import BLOCK_OVERHEAD, Block, Count, Kind, text_block
from .rungs import ceiling_for, clipped

#: What can never fit is cut to this share of the room, so that the turn has some left to act in.
CUT_SHARE = 0.7
SMALL = 200  # news items below this many raw tokens share a block
SHARED = 600  # up to this many
LEAST = 64  # below this ceiling, items are left out instead of being cut further


def opening(
    observations: Sequence[Observation],
    recalled: Sequence[Memory],
    notebook: str,
    tail: str,
    *,
    limit: int,
    count: Count,
) -> tuple[Block, ...]:
    """The blocks of an opening message, never empty; news never take more than the room that there is (`limit`, raw tokens)."""
    blocks: list[Block] = []
    if recalled:
        blocks.append(text_block(Kind.RECALLED, "\n".join(m.text for m in recalled), count, event=recalled[-1].event))
    if notebook.strip():
        blocks.append(text_block(Kind.NOTEBOOK, fenced(notebook, tag="notebook"), count))
    aside = sum(b.tokens for b in blocks)
    blocks += news(observations, limit=limit - aside - 96, count=count)
    if tail.strip():
        blocks.append(text_block(Kind.TAIL, tail, count))
    return tuple(blocks)


def news(observations: Sequence[Observation], *, limit: int, count: Count) -> list[Block]:
    """The news as blocks of at most `limit` raw tokens together."""
    if not observations:
        return [text_block(Kind.OBSERVATION, fenced("Nothing new has happened.", kind="notice", source="runtime"), count)]
    items, omitted = list(observations), 0
    room = max(LEAST, limit)
    if sum(o.tokens for o in items) + 8 * len(items) > room:
        room = max(LEAST, int(limit * CUT_SHARE))
        # Least important first, older before newer; the newest item and urgent ones go last.
        by_need = sorted(range(len(items)), key=lambda n: (n == len(items) - 1, items[n].urgent, items[n].priority, n))
        gone: set[int] = set()
        for n in by_need[:-1]:
            kept = len(items) - len(gone)
            if sum(min(items[k].tokens, LEAST) + 8 for k in range(len(items)) if k not in gone) <= room or kept == 1:
                break
            gone.add(n)
        omitted = len(gone)
        items = [o for n, o in enumerate(items) if n not in gone]
    blocks = _grouped(items)
    if sum(b.tokens for b in blocks) > room:
        ceiling = ceiling_for([b.tokens for b in blocks], room)
        blocks = [clipped(b, ceiling, count) for b in blocks]
    if omitted:
        first, last = observations[0].event, observations[-1].event
        text = f"{omitted} observations omitted between events {first} and {last}: there was no room."
        note = fenced(text, kind="notice", source="runtime")
        blocks.insert(0, text_block(Kind.OBSERVATION, note, count))
    return blocks


def _grouped(items: Sequence[Observation]) -> list[Block]:
    """Small neighbours share a block: fewer blocks, same order."""
    blocks: list[Block] = []
    run: list[Observation] = []

    def close() -> None:
        if run:
            data = {"type": "text", "text": "\n".join(o.text for o in run)}
            gist = tuple(g for o in run for g in o.gist)
            # Counted when they came in: the sum is the size, so that a huge text is not tokenized again.
            size = sum(o.tokens + 1 for o in run) + BLOCK_OVERHEAD
            blocks.append(Block(kind=Kind.OBSERVATION, data=data, tokens=size, event=run[-1].event, gist=gist))
            run.clear()

    for item in items:
        if item.tokens > SMALL or sum(o.tokens for o in run) + item.tokens > SHARED:
            close()
        run.append(item)
        if item.tokens > SMALL:
            close()
    close()
    return blocks
