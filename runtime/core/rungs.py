"""The rungs of the ladder, one small function each, all of one shape: `(parts, goal) -> (parts, freed, note)`.

Invariants: no rung takes a tool use from its result, a rung that frees nothing says so by `freed == 0`, and none of them needs a
model, a network or a tokenizer file (`Parts.count` may be an estimate). Rungs 1 to 3 work on old turns first, oldest first, and
enter the current turn only when it alone is over the hard limit. What the current turn was told is touched by rung 5 alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .fence import fenced
from .messages import BLOCK_OVERHEAD, MESSAGE_OVERHEAD, Block, Count, Kind, Message, result_block, results_of, text_block, total, uses_of
from .record import Line, Record
from .repair import unanswered
from .sharing import ceiling_for, shares
from .tokens import clip

STUB_TOKENS = 40  # a result below this stays
FLOOR_BLOCK = 64  # what a text from outside keeps in the floor of trim
LEAST_RESULT = 48  # what one clipped result of the current step keeps
RESULTS_FLOOR = 96  # and all of them together, at least
RESULT_SHARE = 4  # the results of a step may be pressed down to a quarter of the room, not further, before the turn itself is reset
LEAST_SHOWN = 32  # what one part of the turn keeps behind a reset's marker, or it is left out and counted
_LEFT_OUT = re.compile(r"\[(\d+) (?:older parts of this turn|observations) left out")
LEFT_OUT = 16  # of the words that count those


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
        return total(self.messages) + self.aside

    @property
    def aside(self) -> int:
        """Raw tokens of the record."""
        return self.record_block.tokens if self.record_block else 0

    @property
    def current(self) -> int:
        """Index of the first message of the current turn."""
        n = len(self.messages)
        while n and self.messages[n - 1].turn == self.turn:
            n -= 1
        return n


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
    size, current = parts.tokens, parts.current
    evicted = 0
    # The exchanges of the current turn that were answered follow, only where it cannot fit otherwise.
    for span, goal_of_span in ((range(current), goal.want), (range(current + 1, unanswered(messages)), goal.limit)):
        for n in span:
            if size <= goal_of_span:
                break
            slim = _evicted(messages[n], messages[n - 1] if n else None, parts.count)
            if slim is not messages[n]:
                size -= messages[n].tokens - slim.tokens
                messages[n] = slim
                evicted += 1
    return _done(parts, replace(parts, messages=tuple(messages)), f"outputs of {evicted} messages evicted")


def _evicted(message: Message, before: Message | None, count: Count) -> Message:
    blocks: list[Block] = []
    changed = False
    for block in message.blocks:
        if block.kind in (Kind.TAIL, Kind.NOTEBOOK):
            changed = True
            continue
        if block.kind is Kind.TOOL_RESULT and block.tokens > STUB_TOKENS:
            stub = _stub(block, before, count)
            if stub.tokens * 3 // 2 < block.tokens:  # else what is freed is not worth what is lost
                blocks.append(stub)
                changed = True
                continue
        blocks.append(block)
    return message.having(blocks) if changed and blocks else message


def _stub(block: Block, before: Message | None, count: Count) -> Block:
    where = f", event {block.event}" if block.event else ""
    text = f"[output of {tool_of(block, before)} evicted: {block.tokens:,} tokens{where}]"
    return result_block(_id_of(block), text, count, error=bool(block.data.get("is_error")), event=block.event, gist=block.gist)


def _id_of(result: Block) -> str:
    return str(result.data["tool_use_id"])


def tool_of(result: Block, before: Message | None) -> str:
    """The name of the tool whose result this is, from the message before."""
    wanted = result.data["tool_use_id"]
    return next((str(u.data.get("name")) for u in (uses_of(before) if before else []) if u.data.get("id") == wanted), "a tool")


# ---------------------------------------------------------------- rung 2
def compact(parts: Parts, goal: Goal) -> Step:
    """Oldest whole turns go into the record, which stays bounded; the newest old turn is left to rung 3."""
    spans = _spans(parts.messages[: parts.current])
    # The record block will be written anew: reckon with its full room.
    size = total(parts.messages) + (parts.record_room if spans else 0)
    folded = 0
    while folded < len(spans) - 1 and size > goal.want:
        size -= total(spans[folded])
        folded += 1
    if not folded:
        return Step(parts, 0, "nothing to free")
    gone = [m for span in spans[:folded] for m in span]
    record = parts.record.folded(gist_of(gone), **range_of(gone), turns=folded)
    after = replace(parts, messages=parts.messages[len(gone) :], record=record, record_block=record.block(parts.record_room, parts.count))
    return _done(parts, after, f"{folded} turns compacted")


def _spans(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages by turn, in order: a turn's messages leave together with what answers them, so an exchange is never cut."""
    spans: list[list[Message]] = []
    for message in messages:
        if not spans or spans[-1][-1].turn != message.turn:
            spans.append([])
        spans[-1].append(message)
    return spans


def gist_of(messages: Sequence[Message]) -> list[Line]:
    """The lines worth keeping of a span, in order, with their events."""
    return [Line(text=g, event=b.event) for m in messages for b in m.blocks for g in b.gist]


def range_of(messages: Sequence[Message]) -> dict[str, int]:
    """First and last event of a span."""
    events = [b.event for m in messages for b in m.blocks if b.event]
    return {"first": min(events, default=0), "last": max(events, default=0)}


# ---------------------------------------------------------------- rung 3
def trim(parts: Parts, goal: Goal) -> Step:
    """Drop by size: the rest of the old turns, then, above the hard limit, press the newest results, then drop old exchanges of this turn.

    Pressing comes first: a mind that no longer sees what it has just called calls it again.
    """
    notes: list[str] = []
    messages, record = _without_old_turns(parts, goal, notes)
    over = total(messages) + parts.aside - goal.limit
    newest = _newest_results(messages)
    if over > 0 and newest >= 0:
        floor = max(RESULTS_FLOOR, goal.limit // RESULT_SHARE)
        messages[newest] = _pressed(messages[newest], over, floor=floor, count=parts.count)
        notes.append("newest tool outputs clipped")
    messages = _without_old_exchanges(messages, goal.limit - parts.aside, notes)
    return _done(parts, replace(parts, messages=tuple(messages), record=record), ", ".join(notes) or "nothing old left")


def _without_old_turns(parts: Parts, goal: Goal, notes: list[str]) -> tuple[list[Message], Record]:
    """With as many old turns as the low mark allows; the newest of them stays, pressed, while the hard limit allows it."""
    spans, current = _spans(parts.messages[: parts.current]), list(parts.messages[parts.current :])
    size, dropped = parts.tokens, 0
    while dropped < len(spans) - 1 and size > goal.want:
        size -= total(spans[dropped])
        dropped += 1
    kept = [m for span in spans[dropped:] for m in span]
    if kept and size > goal.want:
        pressed = _floor(kept, size - goal.want, parts.count)
        if size - total(kept) + total(pressed) <= goal.limit:
            kept = pressed
            notes.append("the newest old turn pressed")
        else:
            kept, dropped = [], len(spans)
    if dropped:
        notes.append(f"{dropped} turns dropped")
    gone = [m for span in spans[:dropped] for m in span]
    record = parts.record.folded(gist_of(gone), **range_of(gone), turns=dropped) if gone else parts.record
    return [*kept, *current], record


def _newest_results(messages: Sequence[Message]) -> int:
    """Index of the results that the assistant has not answered yet; -1 if there are none."""
    return next((n for n in range(unanswered(messages), len(messages)) if results_of(messages[n])), -1)


def _without_old_exchanges(messages: list[Message], limit: int, notes: list[str]) -> list[Message]:
    """The messages without as many answered exchanges as it takes, oldest first, never the newest one."""
    size, exchanges = total(messages), 0
    while size > limit:
        newest = unanswered(messages)  # its calls are the message before, if they are answered by results
        kept = newest - 1 if newest < len(messages) and results_of(messages[newest]) else newest
        start = next((n for n, m in enumerate(messages[:kept]) if m.role == "assistant"), None)
        if start is None or kept >= len(messages):
            break
        end = start + 1
        while end < kept and messages[end].role == "assistant" and not uses_of(messages[end - 1]):
            end += 1  # an answer that was paused, and what went on from it
        while end < kept and messages[end].role == "user" and results_of(messages[end]):
            end += 1
        size -= total(messages[start:end])
        messages = messages[:start] + messages[end:]
        exchanges += 1
    if exchanges:
        notes.append(f"{exchanges} exchanges of this turn dropped")
    return messages


def _floor(messages: Sequence[Message], over: int, count: Count) -> list[Message]:
    """The messages with their texts from outside under a common ceiling, to lose `over` tokens if they can."""
    soft = (Kind.OBSERVATION, Kind.OUTCOME, Kind.TOOL_RESULT, Kind.RECALLED)
    sizes = [b.tokens for m in messages for b in m.blocks if b.kind in soft]
    ceiling = ceiling_for(sizes, max(0, sum(sizes) - over), least=FLOOR_BLOCK)
    return [_capped(m, soft, ceiling, count) for m in messages]


def _pressed(message: Message, over: int, *, floor: int, count: Count) -> Message:
    """The results of one message clipped so that together they lose `over` tokens, the largest first, by one common ceiling."""
    sizes = [b.tokens for b in message.blocks if b.kind is Kind.TOOL_RESULT]
    ceiling = ceiling_for(sizes, max(floor, sum(sizes) - over), least=LEAST_RESULT)
    return _capped(message, (Kind.TOOL_RESULT,), ceiling, count)


def _capped(message: Message, kinds: Sequence[Kind], ceiling: int, count: Count) -> Message:
    if all(b.tokens <= ceiling or b.kind not in kinds for b in message.blocks):
        return message
    return message.having([clipped(b, ceiling, count) if b.kind in kinds else b for b in message.blocks])


def clipped(block: Block, tokens: int, count: Count) -> Block:
    """A block in at most `tokens` raw tokens, overhead included (a text or a tool result); itself if cutting makes it no smaller."""
    if block.tokens <= tokens:
        return block
    text = clip(block.text, max(1, tokens - BLOCK_OVERHEAD), count, event=block.event, size=block.tokens - BLOCK_OVERHEAD)
    if block.kind is Kind.TOOL_RESULT:
        cut = result_block(_id_of(block), text, count, error=bool(block.data.get("is_error")), event=block.event, gist=block.gist)
    else:
        cut = text_block(block.kind, text, count, event=block.event, gist=block.gist)
    return cut if cut.tokens < block.tokens else block


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
    """Only the current observation stays, behind an explicit marker; pending results become plain text of it.

    Where not all of that fits the hard limit it is cut down to `goal.want`, the newest observation last. The result always fits the
    limit, as long as that holds marker, tail and the notice of a cut. It may be larger by the marker than a history that was nothing but
    the observation: `freed` is then negative. The caller has persisted the session and written the diary entry before this runs.
    """
    current = parts.messages[parts.current :]
    shown = [b for m in current for b in m.blocks if b.kind in (Kind.OBSERVATION, Kind.OUTCOME)]
    newest = max((n for n, b in enumerate(shown) if b.kind is Kind.OBSERVATION), default=-1)
    if (pending := _newest_results(current)) >= 0:
        shown += [_told(r, current[pending - 1] if pending else None, parts.count) for r in results_of(current[pending])]
    tails = [b for m in current for b in m.blocks if b.kind is Kind.TAIL][-1:]
    fixed = MESSAGE_OVERHEAD + sum(b.tokens for b in tails) + parts.count(marker) + BLOCK_OVERHEAD
    sizes = [b.tokens for b in shown]
    left_out = sum(int(n) for m in current for b in m.blocks if b.kind is Kind.MARKER for n in _LEFT_OUT.findall(b.text))
    if fixed + sum(sizes) + (LEFT_OUT if left_out else 0) > goal.limit:
        room = goal.limit - fixed - LEFT_OUT
        want = max(goal.want - fixed - LEFT_OUT, sizes[newest] if newest >= 0 and sizes[newest] <= room else 0)
        # The newest observation first, then what holds lines for this agent, then the newest: what an old exchange said is worth least.
        meant = [b.kind is Kind.OBSERVATION and bool(b.gist) for b in shown]
        order = sorted(range(len(shown)), key=lambda n: (n == newest, meant[n], n), reverse=True)
        given = shares(sizes, order, max(min(want, room), 1), least=LEAST_SHOWN)
        left_out += given.count(0)
        shown = [clipped(b, tokens, parts.count) for b, tokens in zip(shown, given, strict=True) if tokens]
    if left_out:  # by now, or by an earlier cut of the same turn, which stays named
        marker = f"{marker}\n[{left_out} older parts of this turn left out]"
    head = text_block(Kind.MARKER, marker, parts.count)
    after = replace(parts, messages=(Message("user", (head, *shown, *tails), parts.turn),), record=Record(), record_block=None)
    return Step(after, parts.tokens - after.tokens, "only the current observation stays")


def _told(result: Block, before: Message | None, count: Count) -> Block:
    """A pending result as a part of the observation, since its call is gone."""
    return outcome_block("result, whose call is gone", tool_of(result, before), result.text, count, event=result.event, gist=result.gist)


def outcome_block(what: str, tool: str, text: str, count: Count, *, event: int, gist: tuple[str, ...]) -> Block:
    """What a tool told, outside a tool result: fenced as everything from outside is."""
    return text_block(Kind.OUTCOME, fenced(text, event=event, kind=what, source=tool), count, event=event, gist=gist)


#: Rungs 1 to 4, in order. Rung 5 needs the session persisted first, rung 6 is `budget.misfit`.
LADDER: tuple[tuple[str, Rung], ...] = (
    ("evict_tool_outputs", evict_tool_outputs),
    ("compact", compact),
    ("trim", trim),
    ("shed_recall", shed_recall),
)
