"""A turn's opening: what the turn is given to think with first, then the news, then (where it cannot travel as a system message) the tail.

Invariants: the newest news is always there, whole if it alone fits or else with a named cut; urgent news comes next; memories and notebook
take only what the news leaves; what had to be left out is counted in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .events import Memory, Observation
from .fence import fenced
from .messages import BLOCK_OVERHEAD, MESSAGE_OVERHEAD, Block, Count, Kind, text_block
from .rungs import clipped
from .sharing import shares
from .tokens import CUT, clip

#: Where not all of the news fits, it is cut to this share of the room, so that the turn has some left to act in.
CUT_SHARE = 0.7
SMALL = 200  # news items below this many raw tokens share a block
SHARED = 600  # up to this many
LEAST = 32  # an item gets at least this much or is left out
EACH = 8  # raw tokens beside an item's own
NOTE = 20  # of the line that counts what was left out
NAMED = 32  # things left out that the log names one by one


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """What did not find room, for the log: what kind, event and raw tokens of each, and of what was cut the tokens that stayed."""

    cut: list[list[Any]] = field(default_factory=list)
    omitted: list[list[Any]] = field(default_factory=list)

    def saw(self, kind: Kind, event: int, tokens: int, given: int) -> None:
        """Something of `tokens` was given the room of `given`."""
        if not given:
            self.omitted.append([str(kind), event, tokens])
        elif given < tokens:
            self.cut.append([str(kind), event, tokens, given])

    @property
    def plain(self) -> dict[str, Any]:
        """As data of an event, empty if everything found room. Of many that were omitted the first and last are named."""
        out: dict[str, Any] = {"cut": self.cut} if self.cut else {}
        for kind in sorted({str(row[0]) for row in self.omitted}):
            rows = [row for row in self.omitted if row[0] == kind]
            events = [row[1] for row in rows]
            if len(rows) > NAMED:
                events = [events[0], events[-1]]
            out.setdefault("omitted", {})[kind] = {"count": len(rows), "tokens": sum(row[2] for row in rows), "events": events}
        return out


def opening(
    observations: Sequence[Observation],
    recalled: Sequence[Memory],
    notebook: str,
    tail: str,
    *,
    limit: int,
    count: Count,
    marker: str = "",
    late: Sequence[Block] = (),
    left_out: LeftOut | None = None,
) -> tuple[Block, ...]:
    """The blocks of an opening message, never empty, of at most `limit` raw tokens with the message's own (while that holds the smallest
    observation); `marker` is a line of the runtime's own about what went before, `late` are ends of actions that were under way. What did
    not find room is put into `left_out`.
    """
    lost = left_out or LeftOut()
    last = [text_block(Kind.TAIL, tail, count)] if tail.strip() else []
    first = [text_block(Kind.MARKER, marker, count)] if marker else []
    left = limit - MESSAGE_OVERHEAD - sum(b.tokens for b in (*first, *last))
    told = news(observations, limit=left, count=count, left_out=lost) if observations or not late else []
    left -= sum(b.tokens for b in told)
    ends: list[Block] = []
    for block in late:
        if left >= 2 * LEAST:
            ends.append(clipped(block, max(LEAST, left // 2), count))
            left -= ends[-1].tokens
            lost.saw(block.kind, block.event, block.tokens, ends[-1].tokens)
        else:
            lost.saw(block.kind, block.event, block.tokens, 0)
    given: list[Block] = []
    if notebook.strip():
        if left >= 2 * LEAST:
            given.append(notebook_block(notebook, left // 2, count))
            left -= given[0].tokens
        if not given or CUT in given[0].text:
            lost.saw(Kind.NOTEBOOK, 0, count(notebook), given[0].tokens if given else 0)
    memories: list[Memory] = []
    for memory in recalled:
        left -= memory.tokens + 1
        if left < EACH:
            break
        memories.append(memory)
    for memory in recalled[len(memories) :]:
        lost.saw(Kind.RECALLED, memory.event, memory.tokens, 0)
    if memories:
        given.insert(0, text_block(Kind.RECALLED, "\n".join(m.text for m in memories), count, event=memories[-1].event))
    return (*first, *given, *ends, *told, *last)


def notebook_block(notebook: str, tokens: int, count: Count) -> Block:
    """The notebook in at most `tokens` raw tokens."""
    return text_block(Kind.NOTEBOOK, clip(fenced(notebook, tag="notebook"), tokens - BLOCK_OVERHEAD, count), count)


def news(observations: Sequence[Observation], *, limit: int, count: Count, left_out: LeftOut | None = None) -> list[Block]:
    """The news as blocks of at most `limit` raw tokens together (while that holds one item's least share)."""
    if not observations:
        return [text_block(Kind.OBSERVATION, fenced("Nothing new has happened.", kind="notice", source="runtime"), count)]
    items = list(observations)
    if sum(o.tokens + EACH for o in items) <= limit:
        return _grouped(items)
    newest = len(items) - 1
    order = sorted(range(len(items)), key=lambda n: (n == newest, items[n].urgent, items[n].priority, n), reverse=True)
    limit -= NOTE if len(items) > 1 else 0
    room = max(int(limit * CUT_SHARE), min(limit, LEAST + EACH))
    if items[newest].tokens + EACH <= limit:
        room = max(room, items[newest].tokens + EACH)
    given = shares([o.tokens + EACH for o in items], order, room, least=LEAST + EACH)
    kept = [_cut(o, max(1, tokens - EACH), count) for o, tokens in zip(items, given, strict=True) if tokens]
    if left_out is not None:
        for item, tokens in zip(items, given, strict=True):
            left_out.saw(Kind.OBSERVATION, item.event, item.tokens + EACH, tokens)
    blocks = _grouped(kept)
    if omitted := len(items) - len(kept):
        words = f"[{omitted} observations left out, events {items[0].event} to {items[-1].event}]"
        blocks.insert(0, text_block(Kind.MARKER, words, count))
    return blocks


def _cut(item: Observation, tokens: int, count: Count) -> Observation:
    if item.tokens <= tokens:
        return item
    text = clip(item.text, tokens, count, event=item.event, size=item.tokens)
    return replace(item, text=text, tokens=count(text))


def _grouped(items: Sequence[Observation]) -> list[Block]:
    """Small neighbours share a block: fewer blocks, same order.

    The newest item and the last urgent one have their own, so that a later cut can tell them from the rest.
    """
    apart = {len(items) - 1, max((n for n, o in enumerate(items) if o.urgent), default=-1)}
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

    for n, item in enumerate(items):
        alone = item.tokens > SMALL or n in apart
        if alone or sum(o.tokens for o in run) + item.tokens > SHARED:
            close()
        run.append(item)
        if alone:
            close()
    close()
    return blocks
