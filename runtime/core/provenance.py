"""What each request was made of, written down in little room and read back whole.

Invariants: what was written is exact: whatever cannot be had again from an event of the log stands in the request's own line; the lines of
the log from the last key line on give all of a request, and a line that is missing between them is found out; `sum` proves it.

A line holds, besides sizes: `key` and `from` (the numbers of the last key line and of the request before, 0 in a key line), `fixed` and
`standing` (where those texts are), `tail` and `blocks` in order, the record first. In `blocks` a pair [a, b] stands for the blocks a to b
of the request before; any other item is [kind, turn, event, tokens, source]. The source is what the text comes from: nothing for the whole
result in that event, a number for that part of the answer in that event, a list for whole observations (pairs of numbers, or the text of
one that has none) or for where a result was cut, a text or a block for itself, {"=": lines} for lines of which pairs are those of the text
of this kind before.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .events import Prepared
from .layout import Fixed, Shape
from .messages import Block, Kind, Message

#: Requests, and as many new blocks as there are blocks at all, after which a line tells everything anew.
KEY_EVERY = 32
#: Answers and results that are held until the next request shows them.
HELD = 64
#: Characters of the longest result that is held.
HELD_CHARS = 200_000
#: Where in an item the source stands, if it has one.
SOURCE = 4

_ANSWERS = (Kind.SAID, Kind.TOOL_USE, Kind.SERVED, Kind.OTHER)
_BY_LINES = (Kind.RECORD, Kind.NOTEBOOK, Kind.TAIL)
Entry = list[Any]
_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str).encode


# ------------------------------------------------------------ small things that both sides need
def part_of_answer(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of an answer as it stands in a history."""
    match raw.get("type"):
        case "text":
            return {"type": "text", "text": raw.get("text")}
        case "tool_use":
            return {"type": "tool_use", "id": raw.get("id"), "name": raw.get("name"), "input": raw.get("input")}
        case _:
            return {k: v for k, v in raw.items() if not k.startswith("_")}


def whole_result(call: str, text: str, *, error: bool) -> dict[str, Any]:
    """A tool result that nothing was done to, as it stands in a history."""
    data: dict[str, Any] = {"type": "tool_result", "tool_use_id": call, "content": text if text.strip() else "(nothing)"}
    return {**data, "is_error": True} if error else data


def ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Rising numbers as pairs of first and last."""
    out: list[list[int]] = []
    for n in numbers:
        if out and out[-1][1] + 1 == n:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def checked(data: Mapping[str, Any]) -> int:
    """A block's checksum."""
    match data.get("type"), data.get("content"):
        case "text", _:
            words = str(data.get("text"))
        case "tool_result", str(content):
            words = f"{data.get('tool_use_id')} {data.get('is_error')} {content}"
        case _:
            words = _ENCODE(data)
    return zlib.crc32(words.encode("utf-8", "replace"))


def summed(checks: Iterable[int]) -> str:
    """The checksum of a history, from those of its blocks, the record's first."""
    return f"{zlib.crc32(array('L', checks).tobytes()):08x}"


def _by_lines(text: str, before: str) -> list[Any]:
    """The lines of a text, those that stand in the one before as pairs of places there."""
    places = {line: n for n, line in reversed(list(enumerate(before.split("\n"))))} if before else {}
    out: list[Any] = []
    for line in text.split("\n"):
        n = places.get(line)
        if n is None:
            out.append(line)
        elif out and isinstance(out[-1], list) and out[-1][1] == n:
            out[-1][1] = n + 1
        else:
            out.append([n, n + 1])
    return out


def _from_lines(lines: Sequence[Any], before: str) -> str:
    known = before.split("\n")
    out: list[str] = []
    for line in lines:
        out += [line] if isinstance(line, str) else known[line[0] : line[1]]
    return "\n".join(out)


# ------------------------------------------------------------ writing
@dataclass(slots=True)
class _Shown:
    """The request before: its messages (the record as one of them), and for each the blocks with their entries and checksums."""

    units: list[object] = field(default_factory=list)
    blocks: list[tuple[Block, ...]] = field(default_factory=list)
    entries: list[list[Entry]] = field(default_factory=list)
    checks: list[list[int]] = field(default_factory=list)


class Provenance:
    """Writes the lines of one life. Use: `given` with what was prepared, `request` when one leaves, `logged` with its number."""

    def __init__(self) -> None:
        self._shown = _Shown()
        self._answers: dict[int, Sequence[Mapping[str, Any]]] = {}
        self._results: dict[int, Mapping[str, Any]] = {}
        self._items: list[tuple[str, int]] = []  # observations that were given, and how many of them were shown already
        self._taken = 0
        self._texts: dict[str, str] = {}
        self._notebook: str | None = None
        self._fixed: Fixed | None = None
        self._shape: Shape | None = None
        self._standing: object = None
        self._numbers = {"fixed": 0, "standing": 0}
        self._key = self._last = self._requests = self._new = 0

    # what the events of the log hold
    def answered(self, event: int, content: Sequence[Mapping[str, Any]]) -> None:
        """An answer was logged."""
        self._answers[event] = [part_of_answer(raw) for raw in content]
        _bounded(self._answers)

    def resulted(self, event: int, call: str, text: str, *, error: bool) -> None:
        """A tool's result was logged."""
        if len(text) <= HELD_CHARS:
            self._results[event] = whole_result(call, text, error=error)
            _bounded(self._results)

    # what is logged once
    def changed(self, given: Prepared, shape: Shape, *, window: int, reserve: int) -> list[tuple[str, dict[str, Any]]]:
        """The texts that are to be logged before the next request, since they are others than those of the last one: kinds and data."""
        out: list[tuple[str, dict[str, Any]]] = []
        if given.fixed is not self._fixed or shape != self._shape:
            self._fixed, self._shape = given.fixed, shape
            out.append(("fixed", {**fixed_out(given.fixed), "shape": asdict(shape), "window": window, "reserve": reserve}))
        if given.standing != self._standing:
            self._standing = given.standing
            out.append(("standing", {"texts": [list(pair) for pair in given.standing]}))
        return out

    def stored(self, kind: str, event: int) -> None:
        """Such a text was logged under this number."""
        self._numbers[kind] = event

    # lines
    def given(self, given: Prepared) -> dict[str, Any]:
        """What was prepared, apart from the texts above, the tail and the history."""
        self._items, self._taken = [(o.text, o.event) for o in given.observations], 0
        out: dict[str, Any] = {}
        if given.observations:
            seen: list[Any] = []
            for o in given.observations:
                if not o.event:
                    seen.append([o.text, o.priority])
                elif seen and isinstance(seen[-1][0], int) and seen[-1][1] + 1 == o.event:
                    seen[-1][1] = o.event
                else:
                    seen.append([o.event, o.event])
            out["observations"] = seen
        if given.recalled:
            out["recalled"] = [[m.event, m.text] for m in given.recalled]
        if given.notebook != self._notebook:
            self._notebook = out["notebook"] = given.notebook
        if given.through:
            out["through"] = given.through
        return out

    def request(self, messages: Sequence[Message], record: Block | None, tail: str) -> dict[str, Any]:
        """The makeup of a request that leaves now."""
        units: list[object] = [*([record] if record else []), *messages]
        before = self._shown
        keep = 0
        for old, new in zip(before.units, units, strict=False):
            if old is not new:
                break
            keep += 1
        after = _Shown(
            units=units, blocks=before.blocks[:keep], entries=before.entries[:keep], checks=before.checks[:keep]
        )
        places = _places(before, keep)
        kept = sum(map(len, after.blocks))
        line: list[Any] = [[0, kept]] if kept else []
        for unit in units[keep:]:
            blocks, turn = ((unit,), 0) if isinstance(unit, Block) else (unit.blocks, unit.turn) if isinstance(unit, Message) else ((), 0)
            entries: list[Entry] = []
            checks: list[int] = []
            for block in blocks:
                if (found := places.get(id(block))) is not None:
                    place, entry, check = found
                    if line and _is_pair(line[-1]) and line[-1][1] == place:
                        line[-1][1] = place + 1
                    else:
                        line.append([place, place + 1])
                else:
                    entry, check = self._entry(block, turn), checked(block.data)
                    line.append(self._shorter(entry))
                    self._new += 1
                entries.append(entry)
                checks.append(check)
            after.blocks.append(tuple(blocks))
            after.entries.append(entries)
            after.checks.append(checks)
        self._shown = after
        size = sum(map(len, after.blocks))
        self._requests += 1
        if not self._last or (self._requests >= KEY_EVERY and self._new >= size):
            return self._anew(tail)
        head = {"key": self._key, "from": self._last, **self._numbers}
        return {**head, "tail": self._told(Kind.TAIL, tail), "blocks": line, "sum": self._sum}

    def logged(self, event: int) -> None:
        """The request was logged under this number."""
        self._last = event
        self._key = self._key or event

    def _anew(self, tail: str) -> dict[str, Any]:
        self._key = self._last = self._requests = self._new = 0
        self._texts = {}
        line = [self._shorter(entry) for entries in self._shown.entries for entry in entries]
        return {"key": 0, "from": 0, **self._numbers, "tail": self._told(Kind.TAIL, tail), "blocks": line, "sum": self._sum}

    @property
    def _sum(self) -> str:
        return summed(check for checks in self._shown.checks for check in checks)

    def _shorter(self, entry: Entry) -> Entry:
        kind = Kind(entry[0])
        if kind in _BY_LINES and isinstance(entry[-1], str):
            return [*entry[:-1], self._told(kind, entry[-1])]
        return entry

    def _told(self, kind: Kind, text: str) -> Any:
        lines = _by_lines(text, self._texts.get(kind, ""))
        self._texts[kind] = text
        return {"=": lines} if any(isinstance(line, list) for line in lines) else text

    def _entry(self, block: Block, turn: int) -> Entry:
        head: Entry = [str(block.kind), turn, block.event, block.tokens]
        own = block.data["text"] if block.data.get("type") == "text" else dict(block.data)
        if block.kind in _ANSWERS and (parts := self._answers.get(block.event)):
            return [*head, parts.index(block.data) if block.data in parts else own]
        if block.kind is Kind.TOOL_RESULT and (whole := self._results.get(block.event)):
            if whole == block.data:
                return head
            if cut := _cut_of(block.data, whole):
                return [*head, cut]
        if block.kind is Kind.OBSERVATION and isinstance(own, str) and (seen := self._seen(own)):
            return [*head, seen]
        return [*head, own]

    def _seen(self, text: str) -> list[Any]:
        """The observations that were given and that this text is made of, nothing if it is made of anything else."""
        out: list[Any] = []
        at, end = 0, self._taken
        for n in range(self._taken, len(self._items)):
            words, event = self._items[n]
            if text.startswith(words, at) and text[at + len(words) : at + len(words) + 1] in ("", "\n"):
                at, end = at + len(words) + 1, n + 1
                if not event:
                    out.append(words)
                elif out and isinstance(out[-1], list) and out[-1][1] + 1 == event:
                    out[-1][1] = event
                else:
                    out.append([event, event])
                if at > len(text):
                    self._taken = end
                    return out
        return []


def _cut_of(data: Mapping[str, Any], whole: Mapping[str, Any]) -> list[Any]:
    """Where a result was cut, if it is the whole one but for that: characters before, the notice, characters behind."""
    text, full = data.get("content"), whole["content"]
    if not isinstance(text, str) or {**data, "content": full} != whole:
        return []
    start = text.find("\n[... ")
    end = text.find(" ...]\n", start) + 6
    if start < 0 or end < start or not (full.startswith(text[:start]) and full.endswith(text[end:])):
        return []
    return [start, text[start:end], len(text) - end]


def cut_again(whole: Mapping[str, Any], cut: Sequence[Any]) -> dict[str, Any]:
    """A whole result cut as it was then."""
    start, notice, behind = int(cut[0]), str(cut[1]), int(cut[2])
    text = str(whole["content"])
    return {**whole, "content": text[:start] + notice + text[len(text) - behind :]}


def _places(shown: _Shown, keep: int) -> dict[int, tuple[int, Entry, int]]:
    """Where the blocks stood that are not kept as they were, and what is known of them."""
    out: dict[int, tuple[int, Entry, int]] = {}
    place = sum(map(len, shown.blocks[:keep]))
    for blocks, entries, checks in zip(shown.blocks[keep:], shown.entries[keep:], shown.checks[keep:], strict=True):
        for block, entry, check in zip(blocks, entries, checks, strict=True):
            out[id(block)] = place, entry, check
            place += 1
    return out


def _is_pair(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], int)


def _bounded(held: dict[int, Any]) -> None:
    while len(held) > HELD:
        del held[next(iter(held))]


# ------------------------------------------------------------ reading
class Gap(Exception):  # noqa: N818 - named for what is there: a line of the log that is missing
    """A line is missing, or is none; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makeup:
    """One request, read back: the entries of its blocks in order, each with its own text in full where it has one."""

    number: int
    fixed: int
    standing: int
    tail: str
    entries: tuple[tuple[Any, ...], ...]
    sum: str


class Unfolding:
    """Reads lines in their order, from a key line on."""

    def __init__(self) -> None:
        self._entries: tuple[tuple[Any, ...], ...] = ()
        self._texts: dict[str, str] = {}
        self._last = 0

    def take(self, number: int, data: Mapping[str, Any]) -> Makeup:
        """The request of the next line.

        Raises:
            Gap: it is not the next one, or is damaged.
        """
        try:
            if not data["key"]:
                self._entries, self._texts = (), {}
            elif data["from"] != self._last:
                raise Gap(f"the log has lost event {data['from']}, the request before {number}, on which that one builds")
            entries: list[tuple[Any, ...]] = []
            for item in data["blocks"]:
                if _is_pair(item):
                    entries += self._entries[item[0] : item[1]]
                else:
                    entries.append(self._whole(item))
            tail = self._text(Kind.TAIL, data["tail"])  # last, as it was written
            self._entries, self._last = tuple(entries), number
            return Makeup(
                number=number, fixed=int(data["fixed"]), standing=int(data["standing"]), tail=tail, entries=self._entries,
                sum=str(data["sum"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise Gap(f"event {number} does not say what the request was made of ({type(error).__name__}: {error})") from error

    def _whole(self, item: Sequence[Any]) -> tuple[Any, ...]:
        kind, *_ = item
        if Kind(kind) in _BY_LINES and len(item) > SOURCE:
            return (*item[:-1], self._text(Kind(kind), item[-1]))
        return tuple(item)

    def _text(self, kind: Kind, told: Any) -> str:
        text = told if isinstance(told, str) else _from_lines(told["="], self._texts.get(kind, ""))
        self._texts[kind] = text
        return text


# ------------------------------------------------------------ the fixed part
def fixed_out(fixed: Fixed) -> dict[str, Any]:
    """A fixed part as data of an event."""
    names = [name for name, _ in fixed.sizes[1:]]
    return {
        "tools": [dict(tool) for tool in fixed.tools],
        "system": [[name, text] for name, text in zip(names, fixed.system, strict=True)],
        "tokens": fixed.tokens,
        "sizes": [list(size) for size in fixed.sizes],
        "must": [list(pair) for pair in fixed.must],
    }


def fixed_in(data: Mapping[str, Any]) -> Fixed:
    """And back, with what it was checked against.

    Raises:
        Gap: it is none.
    """
    try:
        return Fixed(
            tools=tuple(data["tools"]),
            system=tuple(str(text) for _, text in data["system"]),
            tokens=int(data["tokens"]),
            sizes=tuple((str(name), int(size)) for name, size in data["sizes"]),
            must=tuple((str(name), str(text)) for name, text in data["must"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Gap(f"a fixed part cannot be read ({type(error).__name__}: {error})") from error
