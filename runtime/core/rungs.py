"""The rungs of the ladder, one small function each, all of one shape: `(parts, goal) -> (parts, freed, note)`.

Invariants: no rung takes a tool use from its result, a rung that frees nothing says so by `freed == 0`, and none of them needs a
model, a network or a tokenizer file (`Parts.count` may be an estimate). Rungs 1 to 3 work on old turns first, oldest first, and
enter the current turn only when it alone is over the hard limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .messages import Block, Count, Kind, Message, result_block, results_of, text_block, total, uses_of
from .record import Line, Record
from .tokens import clip

STUB_TOKENS = 40  # a result that is not clearly larger than its stub stays
RESULT_FLOOR = 96  # what a clipped result of the current step keeps at least
FLOOR_BLOCK = 64  # what a text from outside keeps in the floor of trim
RESULT_SHARE = 4  # the results of a step may be pressed down to a quarter of the room, not further, before the turn itself is reset


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The history as the ladder sees it.

    Attributes:
        messages: without the record.
        turn: number of the current turn; its messages are the last ones.
        record: what is known of compacted turns; shown as `record_block`, if any.
        count: raw tokens of a text.
        record_room: raw tokens that the record block may take.
    """

    messages: tuple[Message, ...]
    turn: int
    record: Record
    record_block: Block | None
    count: Count
    record_room: int

    @property
    def tokens(self) -> int:
        """Raw tokens of all of it."""
        return total(self.messages) + (self.record_block.tokens if self.record_block else 0)

    @property
    def current(self) -> int:
        """Index of the first message of the current turn."""
        return next((n for n, m in enumerate(self.messages) if m.turn == self.turn), len(self.messages))


class Goal(NamedTuple):
    """Raw tokens to come down to: the low mark that is wanted, and the hard limit that must be."""

    want: int
    limit: int


class Step(NamedTuple):
    """What a rung did."""

    parts: Parts
    freed: int
    note: str


Rung = Callable[[Parts, Goal], Step]


def _done(before: Parts, after: Parts, note: str) -> Step:
    freed = before.tokens - after.tokens
    return Step(after, freed, note) if freed > 0 else Step(before, 0, "nothing to free")


# ---------------------------------------------------------------- rung 1
def evict_tool_outputs(parts: Parts, goal: Goal) -> Step:
    """Old tool outputs become stubs that name the tool, the size and the event; old tails and notebook copies go."""
    messages = list(parts.messages)
    over = parts.tokens - goal.want
    evicted = 0
    current = parts.current
    for n in range(current):
        if over <= 0:
            break
        slim = _evicted(messages[n], messages[n - 1] if n else None, parts.count)
        if slim is not messages[n]:
            over -= messages[n].tokens - slim.tokens
            messages[n] = slim
            evicted += 1
    # Exchanges of the current turn before the newest one, only where it cannot fit otherwise.
    over = total(messages) + (parts.record_block.tokens if parts.record_block else 0) - goal.limit
    for n in range(current + 1, len(messages) - 1):
        if over <= 0:
            break
        slim = _evicted(messages[n], messages[n - 1], parts.count)
        if slim is not messages[n]:
            over -= messages[n].tokens - slim.tokens
            messages[n] = slim
            evicted += 1
    return _done(parts, replace(parts, messages=tuple(messages)), f"outputs of {evicted} messages evicted")


def _evicted(message: Message, before: Message | None, count: Count) -> Message:
    blocks: list[Block] = []
    for block in message.blocks:
        if block.kind in (Kind.TAIL, Kind.NOTEBOOK):
            continue
        if block.kind is Kind.TOOL_RESULT and block.tokens > STUB_TOKENS:
            name = _tool_of(block, before)
            where = f", event {block.event}" if block.event else ""
            stub = f"[output of {name} evicted: {block.tokens:,} tokens{where}]"
            block = result_block(  # noqa: PLW2901 (the stub takes the block's place)
                str(block.data["tool_use_id"]), stub, count, error=bool(block.data.get("is_error")), event=block.event, gist=block.gist
            )
        blocks.append(block)
    if len(blocks) == len(message.blocks) and all(a is b for a, b in zip(blocks, message.blocks, strict=True)):
        return message
    return message.having(blocks) if blocks else message


def _tool_of(result: Block, before: Message | None) -> str:
    wanted = result.data["tool_use_id"]
    return next((str(u.data.get("name")) for u in (uses_of(before) if before else []) if u.data.get("id") == wanted), "a tool")


# ---------------------------------------------------------------- rung 2
def compact(parts: Parts, goal: Goal) -> Step:
    """Oldest whole turns go into the record, which stays bounded; the newest old turn is left to rung 3."""
    current = parts.current
    turns = list(dict.fromkeys(m.turn for m in parts.messages[:current]))
    record, messages = parts.record, list(parts.messages)
    block = parts.record_block
    folded = 0
    # The record block will be written anew: reckon with its full room.
    spare = parts.record_room if turns else 0
    while turns[folded:-1] and total(messages) + spare > goal.want:
        span = [m for m in messages if m.turn == turns[folded]]
        messages = messages[len(span) :]
        record = record.folded(gist_of(span), **range_of(span), turns=1)
        folded += 1
    if folded:
        block = record.block(parts.record_room, parts.count)
    return _done(parts, replace(parts, messages=tuple(messages), record=record, record_block=block), f"{folded} turns compacted")


def gist_of(messages: Sequence[Message]) -> list[Line]:
    """The lines worth keeping of a span, in order, with their events."""
    return [Line(text=g, event=b.event) for m in messages for b in m.blocks for g in b.gist]


def range_of(messages: Sequence[Message]) -> dict[str, int]:
    """First and last event of a span."""
    events = [b.event for m in messages for b in m.blocks if b.event]
    return {"first": min(events, default=0), "last": max(events, default=0)}


# ---------------------------------------------------------------- rung 3
def trim(parts: Parts, goal: Goal) -> Step:
    """Drop by size: the rest of the old turns, then, above the hard limit, old exchanges of this turn, then press its newest results."""
    messages = list(parts.messages)
    aside = parts.record_block.tokens if parts.record_block else 0
    record, notes = parts.record, []
    dropped = 0
    while messages and messages[0].turn != parts.turn and total(messages) + aside > goal.want:
        # A turn's messages leave together with what answers them: an exchange is never cut.
        first = messages[0].turn
        if not any(m.turn not in (first, parts.turn) for m in messages):
            pressed = _floor(messages, first, total(messages) + aside - goal.want, parts.count)
            if total(pressed) + aside <= goal.limit:
                messages = pressed
                notes.append("the newest old turn pressed")
                break  # the floor: the newest old turn stays, pressed, while the hard limit allows it
        span = [m for m in messages if m.turn == first]
        messages = messages[len(span) :]
        record = record.folded(gist_of(span), **range_of(span), turns=1)
        dropped += 1
    if dropped:
        notes.append(f"{dropped} turns dropped")
    exchanges = 0
    while total(messages) + aside > goal.limit:
        start = next((n for n, m in enumerate(messages) if m.role == "assistant"), None)
        if start is None or start + 2 >= len(messages):
            break
        end = start + 1
        while end < len(messages) and messages[end].role == "user" and results_of(messages[end]):
            end += 1
        if end >= len(messages):
            break  # never the newest exchange
        del messages[start:end]
        exchanges += 1
    if exchanges:
        notes.append(f"{exchanges} exchanges of this turn dropped")
    if (over := total(messages) + aside - goal.limit) > 0 and messages and results_of(messages[-1]):
        messages[-1] = _pressed(messages[-1], over, floor=max(RESULT_FLOOR, goal.limit // RESULT_SHARE), count=parts.count)
        notes.append("newest tool outputs clipped")
    return _done(parts, replace(parts, messages=tuple(messages), record=record), ", ".join(notes) or "nothing old left")


def _floor(messages: Sequence[Message], turn: int, over: int, count: Count) -> list[Message]:
    """The messages with the outside texts of one turn under a common ceiling, to lose `over` tokens if they can."""
    soft = (Kind.OBSERVATION, Kind.TOOL_RESULT, Kind.RECALLED)
    sizes = [b.tokens for m in messages if m.turn == turn for b in m.blocks if b.kind in soft]
    ceiling = max(FLOOR_BLOCK, ceiling_for(sizes, max(0, sum(sizes) - over)))
    return [
        m if m.turn != turn else m.having([clipped(b, ceiling, count) if b.kind in soft else b for b in m.blocks]) for m in messages
    ]


def _pressed(message: Message, over: int, *, floor: int, count: Count) -> Message:
    """The results of one message clipped so that together they lose `over` tokens, the largest first, by one common ceiling."""
    sizes = [b.tokens for b in message.blocks if b.kind is Kind.TOOL_RESULT]
    target = max(floor, sum(sizes) - over)
    ceiling = ceiling_for(sizes, target)
    return message.having([clipped(b, ceiling, count) if b.kind is Kind.TOOL_RESULT else b for b in message.blocks])


def ceiling_for(sizes: Sequence[int], target: int) -> int:
    """The common ceiling under which `sizes` sum to at most `target`: small ones stay whole, large ones share what is left."""
    left, ordered = target, sorted(sizes)
    for n, size in enumerate(ordered):
        share = left // (len(ordered) - n)
        if size > share:
            return max(RESULT_FLOOR // 2, share)
        left -= size
    return max(ordered, default=0)


def clipped(block: Block, tokens: int, count: Count) -> Block:
    """A block in at most `tokens` raw tokens, overhead included (a text or a tool result)."""
    if block.tokens <= tokens:
        return block
    text = clip(block.text, max(1, tokens - 4), count, event=block.event)
    if block.kind is Kind.TOOL_RESULT:
        return result_block(
            str(block.data["tool_use_id"]), text, count, error=bool(block.data.get("is_error")), event=block.event, gist=block.gist
        )
    return text_block(block.kind, text, count, event=block.event, gist=block.gist)


# ---------------------------------------------------------------- rung 4
def shed_recall(parts: Parts, goal: Goal) -> Step:  # noqa: ARG001 (one shape for all rungs)
    """Recalled memories go, the current turn's too, and so does the record."""
    messages = []
    for message in parts.messages:
        kept = [b for b in message.blocks if b.kind not in (Kind.RECALLED, Kind.NOTEBOOK)]
        messages.append(message if len(kept) == len(message.blocks) or not kept else message.having(kept))
    return _done(parts, replace(parts, messages=tuple(messages), record_block=None), "recalled memories, notebook and record shed")


# ---------------------------------------------------------------- rung 5
def hard_reset(parts: Parts, goal: Goal, *, marker: str) -> Step:
    """Only the current observation stays, behind an explicit marker; pending results become plain text of it; clipped to fit.

    The caller has persisted the session and written the diary entry before this runs.
    """
    current = parts.messages[parts.current :]
    shown = [b for m in current for b in m.blocks if b.kind is Kind.OBSERVATION]
    if current and (pending := results_of(current[-1])):
        before = current[-2] if len(current) > 1 else None
        for result in pending:
            lead = f"[result of your {_tool_of(result, before)}, whose call is gone]\n"
            shown.append(text_block(Kind.OBSERVATION, lead + result.text, parts.count, event=result.event, gist=result.gist))
    tails = [b for m in current for b in m.blocks if b.kind is Kind.TAIL]
    head = text_block(Kind.MARKER, marker, parts.count)
    room = goal.limit - head.tokens - sum(b.tokens for b in tails) - 8
    if sum(b.tokens for b in shown) > room:
        ceiling = ceiling_for([b.tokens for b in shown], room)
        shown = [clipped(b, ceiling, parts.count) for b in shown]
    message = Message("user", (head, *shown, *tails), parts.turn)
    return _done(parts, replace(parts, messages=(message,), record=Record(), record_block=None), "only the current observation stays")


#: Rungs 1 to 4, in order. Rung 5 needs the session persisted first, rung 6 is `budget.misfit`.
LADDER: tuple[tuple[str, Rung], ...] = (
    ("evict_tool_outputs", evict_tool_outputs),
    ("compact", compact),
    ("trim", trim),
    ("shed_recall", shed_recall),
)
