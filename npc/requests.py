"""A request of an NPC as it was sent, put together again from the event log.

Invariants: what is shown is exact or said not to be (`Sent.exact`: the checksum that was written when it left agrees); reading changes
nothing. Only what today's log holds can be shown: of requests from before this was written down nothing is guessed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from npc.errors import NpcError, Usage
from npc.hearing import Ears
from npc.news import longest
from npc.senses import shown, taken
from npc.told import from_journal
from runtime.core import layout, provenance
from runtime.core.layout import Fixed, Shape, request
from runtime.core.messages import Block, Kind, Message
from runtime.core.provenance import SOURCE, Gap, Makeup, Unfolding
from runtime.store.events import Event
from runtime.store.journal import Journal

PAGE = 64
#: Events that are read together lie at most so far apart.
SPAN = 400
#: Kinds of events that say what a request lacks and why.
WHY = ("rung", "left out", "set aside", "thinking dropped", "repair", "cut further", "drained", "summary", "reset")
_ANSWERS = (Kind.SAID, Kind.TOOL_USE, Kind.SERVED, Kind.OTHER)
_NOBODY = Ears(())
#: What reading a log raises whose events hold something else than they should.
DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a request, in the order in which it was sent.

    Attributes:
        name: what it is.
        source: where it comes from, in words.
        tokens: in the provider's tokens, by the factor of that time.
        text: as the model read it; "" where the log has lost it.
        event: its event, 0 for none.
        turn: that it belongs to, 0 for none.
    """

    name: str
    source: str
    tokens: int
    text: str
    event: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request as it was sent.

    Attributes:
        event: of the log.
        data: what its event says.
        body: of the call.
        exact: the history is, byte for byte, what was sent.
        missing: events that the log has lost.
        window, reserve: tokens.
        lacking: names of fixed fields that are not in it.
        parts: all of it in order.
        why: the events that say what is not in it, since the request before.
        budgets: room of each part in tokens, by name.
    """

    event: Event
    data: Mapping[str, Any]
    body: Mapping[str, Any]
    exact: bool
    missing: tuple[int, ...]
    window: int
    reserve: int
    lacking: tuple[str, ...]
    parts: tuple[Part, ...]
    why: tuple[Event, ...] = ()
    budgets: Mapping[str, int] = field(default_factory=dict)


async def number_of(journal: Journal, step: str) -> int:
    """The number of the request that somebody means by `step`: an event's number, `turn.step`, or `last`.

    Raises:
        Usage: there is no such request.
    """
    step = step.strip().lower()
    if step == "last":
        found = await journal.events(kinds=("request",), limit=1, newest=True)
        if not found:
            raise Usage("there is no request in this log yet: the NPC has not asked its model anything")
        return found[0].id
    turn, dot, number = step.partition(".")
    if not turn.isdecimal() or (dot and not number.isdecimal()):
        raise Usage(f"{step!r} is no step: give the number of a request's event, TURN.STEP such as 12.1, or last")
    if not dot:
        event = await journal.read(int(turn)) if int(turn) < 2**63 else None
        if event is None or event.kind != "request":
            what = f"a {event.kind}" if event else "not there"
            raise Usage(f"event {turn} is {what}, and no request: npc log --kind request lists them")
        return event.id
    async for one in _pages(journal, kinds=("request",)):
        # Steps count from 1 for people, as the budget meter does; of one that was tried again, the last try counts.
        if one.turn == int(turn) and int(one.data.get("step", -1)) + 1 == int(number):
            best = one
            while (again := await journal.events(after=best.id, kinds=("request",), limit=1)) and (
                again[0].turn == best.turn and again[0].data.get("step") == best.data.get("step")
            ):
                best = again[0]
            return best.id
    raise Usage(f"there is no request {turn}.{number}: npc log --kind request lists those there are, as turn and step")


async def _pages(journal: Journal, *, kinds: Sequence[str], after: int = 0, before: int = 2**63 - 1) -> AsyncIterator[Event]:
    """Events between two numbers, both left out."""
    while page := await journal.events(after=after, kinds=kinds, limit=PAGE):
        for event in page:
            if event.id >= before:
                return
            yield event
        after = page[-1].id


async def sent(journal: Journal, number: int) -> Sent:
    """The request of this event.

    Raises:
        NpcError: the log does not say what was in it.
    """
    event = await journal.read(number)
    if event is None or event.kind != "request":
        raise Usage(f"event {number} is no request")
    if "blocks" not in event.data:
        raise NpcError(f"event {number} is of an older version, which did not write down what a request was made of")
    try:
        makeup = await _unfolded(journal, event)
        return await _put_together(journal, event, makeup)
    except (Gap, *DAMAGE) as gap:
        what = str(gap) if isinstance(gap, Gap) else f"its log is damaged ({type(gap).__name__}: {gap})"
        raise NpcError(f"the request of event {number} cannot be put together: {what}") from gap


async def _unfolded(journal: Journal, event: Event) -> Makeup:
    unfolding = Unfolding()
    if first := int(event.data["key"] or 0):
        async for one in _pages(journal, kinds=("request",), after=first - 1, before=event.id):
            unfolding.take(one.id, one.data)
    return unfolding.take(event.id, event.data)


async def _put_together(journal: Journal, event: Event, makeup: Makeup) -> Sent:
    fixed_event = await journal.read(makeup.fixed)
    if fixed_event is None or fixed_event.kind != "fixed":
        raise Gap(f"the log has lost event {makeup.fixed}, its fixed part")
    fixed, data = provenance.fixed_in(fixed_event.data), event.data
    shape, window = shape_of(fixed_event.data), int(fixed_event.data.get("window") or 0)
    standing = await standing_of(journal, makeup.standing)
    texts = Texts(journal, window=window)
    await texts.load(makeup.entries)
    record, messages, missing = texts.history(makeup.entries)
    body = request(
        shape, fixed, record, messages, max_tokens=int(data.get("cap") or 0), tail=makeup.tail, warm=int(data.get("warm") or 0)
    )
    blocks = (*([record] if record else []), *(b for m in messages for b in m.blocks))
    total = provenance.summed(provenance.checked(block.data) for block in blocks)
    factor = int(data["estimate"]) / max(1, int(data["raw"]))
    parts = _fixed_parts(fixed, makeup, factor) + _parts(makeup.entries, record, messages, factor)
    tail_tokens = int(data["raw"]) - int(data["history"]) - fixed.tokens
    if shape.tail_as_system:
        source = f"event {makeup.standing}, and the meter"
        parts.append(Part(name="tail", source=source, tokens=int(tail_tokens * factor), text=makeup.tail))
    before = int(data.get("from") or 0) or await _before(journal, event.id)
    why = [one async for one in _pages(journal, kinds=WHY, after=before, before=event.id)]
    reserve = int(data.get("cap") or 0)
    return Sent(
        event=event,
        data=data,
        body=body,
        exact=not missing and total == makeup.sum,
        missing=tuple(missing),
        window=window,
        reserve=reserve,
        lacking=tuple(lacking(body, fixed, *_tail_of(makeup, standing, inside=not shape.tail_as_system, step=int(data.get("step") or 0)))),
        parts=tuple(parts),
        why=tuple(why),
        budgets={
            "fixed part and tail": int((int(data["raw"]) - int(data["history"])) * factor),
            "history, at most": int(int(data.get("limit") or 0) * factor),
            "history, the ladder starts at": int(int(data.get("high") or 0) * factor),
            "record of older turns, at most": int(int(data.get("record_room") or 0) * factor),
            "answer": reserve,
        },
    )


def _tail_of(
    makeup: Makeup, standing: tuple[tuple[str, str], ...], *, inside: bool, step: int
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The tail that a request has to show, and what must stand in it.

    Where it is part of the turn's opening (`inside`) it is as old as that: a gate that was set since is told with the next one.
    """
    if not inside:
        return makeup.tail, standing
    newest = next((str(entry[SOURCE]) for entry in reversed(makeup.entries) if entry[0] == Kind.TAIL), makeup.tail)
    return newest, () if step else standing


async def _before(journal: Journal, number: int) -> int:
    """The request before a key line."""
    span = SPAN
    while True:
        after = max(0, number - span)
        numbers = [event.id async for event in _pages(journal, kinds=("request",), after=after, before=number)]
        if numbers or not after:
            return numbers[-1] if numbers else 0
        span *= 8


async def standing_of(journal: Journal, number: int) -> tuple[tuple[str, str], ...]:
    """The standing texts of an event."""
    event = await journal.read(number) if number else None
    return standing_in(event.data) if event and event.kind == "standing" else ()


def standing_in(data: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The same from its data."""
    return tuple((str(name), str(text)) for name, text in data.get("texts") or ())


def shape_of(data: Mapping[str, Any]) -> Shape:
    """How requests with this fixed part were sent."""
    told = data.get("shape") or {}
    try:
        return Shape(**told)
    except TypeError as error:
        raise Gap(f"the shape of a request is told in another way ({error})") from error


def lacking(body: Mapping[str, Any], fixed: Fixed, tail: str, standing: Sequence[tuple[str, str]]) -> list[str]:
    """Names of the fixed fields that a request lacks."""
    return [*layout.lacking(body, fixed), *layout.tail_lacking(body, tail, standing)]


# ------------------------------------------------------------ texts
class Texts:
    """The texts that entries name, from their events."""

    def __init__(self, journal: Journal, *, window: int) -> None:
        self._journal, self.limit = journal, longest(window)
        self._events: dict[int, Event] = {}

    async def load(self, entries: Iterable[Sequence[Any]]) -> None:
        """Read what they name."""
        wanted: set[int] = set()
        for kind, _, number, _, *source in entries:
            if not source or isinstance(source[0], int) or kind == Kind.TOOL_RESULT:
                wanted.add(number)
            elif kind == Kind.OBSERVATION and isinstance(source[0], list):
                wanted.update(n for item in source[0] if isinstance(item, list) for n in range(item[0], item[1] + 1))
        numbers = sorted(wanted - self._events.keys())
        at = 0
        while at < len(numbers):
            # Neighbours are read together.
            end = at
            while end + 1 < len(numbers) and numbers[end + 1] - numbers[at] < SPAN:
                end += 1
            kinds = ("answer", "observation", "tool_result")
            found = await self._journal.events(after=numbers[at] - 1, kinds=kinds, limit=numbers[end] - numbers[at] + 1)
            self._events |= {e.id: e for e in found if e.id in wanted}
            at = end + 1

    def history(self, entries: Iterable[Sequence[Any]]) -> tuple[Block | None, list[Message], list[int]]:
        """Record, messages and the events that are missing."""
        record: Block | None = None
        messages: list[Message] = []
        missing: list[int] = []
        for entry in entries:
            kind, turn, number, tokens = Kind(entry[0]), int(entry[1]), int(entry[2]), int(entry[3])
            data = self._data(kind, number, *entry[4:])
            if data is None:
                missing.append(number)
                data = {"type": "text", "text": f"[event {number} is missing in the log]"}
            block = Block(kind=kind, data=data, tokens=tokens, event=number)
            if kind is Kind.RECORD:
                record = block
                continue
            role = "assistant" if kind in _ANSWERS else "user"
            if messages and messages[-1].role == role and messages[-1].turn == turn:
                messages[-1] = messages[-1].having((*messages[-1].blocks, block))
            else:
                messages.append(Message("assistant" if role == "assistant" else "user", (block,), turn))
        return record, messages, missing

    def _data(self, kind: Kind, number: int, *source: Any) -> Mapping[str, Any] | None:
        told = source[0] if source else None
        if isinstance(told, str):
            return {"type": "text", "text": told}
        if isinstance(told, dict):
            return told
        if isinstance(told, list) and kind is Kind.OBSERVATION:
            parts = [part for item in told for part in ([item] if isinstance(item, str) else self._observations(item[0], item[1]))]
            return None if None in parts else {"type": "text", "text": "\n".join(str(p) for p in parts)}
        event = self._events.get(number)
        if event is None:
            return None
        if isinstance(told, int):
            content = event.data.get("content") or ()
            return provenance.part_of_answer(content[told]) if event.kind == "answer" and told < len(content) else None
        if event.kind != "tool_result":
            return None
        whole = provenance.whole_result(str(event.data.get("call")), str(event.data.get("text")), error=bool(event.data.get("error")))
        return provenance.cut_again(whole, told) if told else whole

    def _observations(self, first: int, last: int) -> list[str | None]:
        out: list[str | None] = []
        for number in range(first, last + 1):
            event = self._events.get(number)
            out.append(self.observation(event) if event and event.kind == "observation" else None)
        return out

    def observation(self, event: Event) -> str:
        """An observation as the mind was shown it."""
        told = taken(from_journal(event.data), event=event.id, limit=self.limit)
        return shown(told, event=event.id, ears=_NOBODY, me="", count=len).text


# ------------------------------------------------------------ parts, for people
_SOURCES = {
    Kind.RECORD: "compacted turns",
    Kind.RECALLED: "memory",
    Kind.NOTEBOOK: "state.json",
    Kind.TAIL: "standing texts and the meter",
    Kind.MARKER: "the runtime",
    Kind.OUTCOME: "the end of an action",
}


def _fixed_parts(fixed: Fixed, makeup: Makeup, factor: float) -> list[Part]:
    source = f"event {makeup.fixed}"
    sizes = dict(fixed.sizes)
    names = ", ".join(str(tool.get("name")) for tool in fixed.tools)
    out = [Part(name="tools", source=f"{source}: {len(fixed.tools)} of them", tokens=int(sizes.get("tools", 0) * factor), text=names)]
    rest = [(name, size) for name, size in fixed.sizes if name != "tools"]
    for (name, size), text in zip(rest, fixed.system, strict=False):
        out.append(Part(name=name, source=source, tokens=int(size * factor), text=text))
    return [part for part in out if part.tokens]


def _parts(entries: Sequence[Sequence[Any]], record: Block | None, messages: Sequence[Message], factor: float) -> list[Part]:
    blocks: list[tuple[int, Block]] = [(0, record)] if record else []
    blocks += [(m.turn, b) for m in messages for b in m.blocks]
    out = []
    for (turn, block), entry in zip(blocks, entries, strict=True):
        source = _SOURCES.get(block.kind, "")
        told = entry[4] if len(entry) > SOURCE else None
        if block.event:
            source = f"{source}, event {block.event}" if source else f"event {block.event}"
        if block.kind is Kind.OBSERVATION and (span := _span(told)):
            source = f"events {span[0]} to {span[1]}"
        whole = told is None if block.kind is Kind.TOOL_RESULT else not isinstance(told, str)
        cut = not whole and block.event and block.kind in (Kind.OBSERVATION, Kind.TOOL_RESULT)
        source = f"{source}, not whole" if cut else source
        tokens = int(block.tokens * factor)
        out.append(Part(name=str(block.kind), source=source, tokens=tokens, text=block.text, event=block.event, turn=turn))
    return out


def _span(told: Any) -> tuple[int, int] | None:
    """First and last of several observations."""
    numbers = [n for item in told if isinstance(item, list) for n in item] if isinstance(told, list) else []
    return (numbers[0], numbers[-1]) if numbers and numbers[0] != numbers[-1] else None
