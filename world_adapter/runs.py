"""Plain observations that travelled together, kept as they came: each becomes an `Observation` only where somebody looks at it.

Invariant: a run is, item for item, what `ops.read_observation` makes of the same frame; where that is not certain there is no run, and the
careful way is taken. Its rows are clean and are never changed.

What can be asked of each value by itself is asked by msgspec while it decodes (types, ranges, lengths, no unknown names); what is left is
asked of all rows at once. Together 1 µs an observation, half of what an unpacking without any question takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from typing import Annotated, Any, Literal, TypeAlias, overload

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from world_adapter import cleaning
from world_adapter.frames import DEFAULT_PRIO, Observation, Speaker

_Kind: TypeAlias = Literal[
    "speech", "whisper", "emote", "presence", "scene", "moved", "blocked", "hurt", "combat", "item", "time", "notice"
]  # fmt: skip
_Id: TypeAlias = Annotated[str, Meta(max_length=cleaning.MAX_ID)]
_Name: TypeAlias = Annotated[str, Meta(max_length=cleaning.MAX_NAME)]
_Integer: TypeAlias = Annotated[int, Meta(ge=cleaning.INT_MIN, le=cleaning.INT_MAX)]
_Number: TypeAlias = Annotated[float, Meta(ge=-1.7e308, le=1.7e308)]  # neither infinite nor NaN
_Short: TypeAlias = Annotated[str, Meta(max_length=1_024)]
# Flat, and so small that no limit of `cleaning` is near. Containers in it are for the careful way.
_Data: TypeAlias = Annotated[dict[_Id, _Short | _Integer | _Number | bool | None], Meta(max_length=64)]


#: Rows that are packed together: as many as mostly fit a page of a database.
PART = 48
#: A larger frame is not kept as it came, but in such parts.
KEPT = 192
#: Texts of no more characters together are not measured one by one.
_SHORT = 16_384


class Source(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A speaker as it came."""

    id: _Id
    name: _Name
    kind: Literal["player", "npc", "world", "operator"]


class _Fields(Struct, gc=False, forbid_unknown_fields=True, omit_defaults=True, rename={"speaker": "from", "own": "self"}):
    seq: Annotated[int, Meta(ge=1, le=cleaning.INT_MAX)]
    t: Annotated[float, Meta(ge=0.0, lt=9e18)]  # what is larger might have been an integer of more than 64 bits
    kind: _Kind
    text: Annotated[str, Meta(max_length=cleaning.MAX_TEXT)]
    wt: _Name | None = None
    data: _Data | None = None
    key: _Id | None = None
    prio: Annotated[int, Meta(ge=0, le=9)] = DEFAULT_PRIO
    speaker: Source | None = None
    to: _Id | None = None
    own: bool = False


class Row(_Fields, gc=False, omit_defaults=True):
    """An observation as it came, by the names of the wire."""


class _Lone(_Fields, gc=False, tag_field="op", tag="obs", omit_defaults=True):
    pass


class _Together(Struct, gc=False, forbid_unknown_fields=True, tag_field="op", tag="batch"):
    items: Annotated[list[Row], Meta(max_length=65_536)]


_encode = msgspec.msgpack.Encoder().encode


#: What is asked of all rows at once: their kinds and their merge keys, in the order of the rows.
Columns: TypeAlias = tuple[tuple[str, ...], tuple[str | None, ...]]


class Words:
    """What is known of rows without looking at each again.

    Attributes:
        kinds, tos, times, speakers: all of them; None for what is missing.
        owned: whether some are caused by the NPC itself.
        chars: characters in all texts together.
        longest: characters of the longest text, or somewhat more.
        rise: whether the numbers rise by one.
    """

    __slots__ = ("chars", "kinds", "longest", "owned", "rise", "speakers", "times", "tos")

    def __init__(
        self, kinds: set[str], tos: set[str | None], times: set[str | None], speakers: set[Source | None], owned: bool, chars: int,
        longest: int, rise: bool,
    ) -> None:  # fmt: skip
        self.kinds, self.tos, self.times, self.speakers = kinds, tos, times, speakers
        self.owned, self.chars, self.longest, self.rise = owned, chars, longest, rise

    @classmethod
    def joined(cls, runs: Sequence[Run]) -> Words:
        """Of several runs together."""
        every = [run.words for run in runs]
        ends = [(run.rows[0].seq, run.rows[-1].seq) for run in runs if run.rows]
        return cls(
            set().union(*[one.kinds for one in every]), set().union(*[one.tos for one in every]),
            set().union(*[one.times for one in every]), set().union(*[one.speakers for one in every]),
            any(one.owned for one in every), sum([one.chars for one in every]), max([one.longest for one in every], default=0),
            all(one.rise for one in every) and all(a[1] + 1 == b[0] for a, b in pairwise(ends)),
        )  # fmt: skip


class Run(Sequence[Observation]):
    """Rows as a sequence of observations. Made by `of`, `joined`, and by the readers below.

    Attributes:
        rows: the rows.
        words: what is known of all of them.
        columns: of the frames that they came in.
        packed: how many came together, and the MessagePack array of them as it came; empty where it has to be written yet.
    """

    __slots__ = ("_parts", "columns", "packed", "rows", "words")

    def __init__(self, rows: list[Row], words: Words, columns: Sequence[Columns], packed: Sequence[tuple[int, bytes]] = ()) -> None:
        self.rows = rows
        self.words = words
        self.columns = columns
        self.packed = packed or [(len(rows), b"")]
        self._parts: Sequence[tuple[int, bytes]] = ()

    @classmethod
    def of_rows(cls, rows: list[Row]) -> Run:
        """A run of clean rows."""
        return _looked_over(rows)[0]

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> Run:
        """A run of observations that are there already."""
        return cls.of_rows([_row(o) for o in observations])

    @classmethod
    def joined(cls, runs: Sequence[Run]) -> Run:
        """All of several runs, in their order."""
        if len(runs) == 1:
            return runs[0]
        return cls(
            [*chain.from_iterable([run.rows for run in runs])], Words.joined(runs),
            [*chain.from_iterable([run.columns for run in runs])], [*chain.from_iterable([run.packed for run in runs])],
        )  # fmt: skip

    def parts(self) -> Sequence[tuple[int, bytes]]:
        """The rows as MessagePack arrays of maps by the names of the wire, each with how many it holds: about `PART`.

        What came that way is given as it came: with defaults or without, names in any order. Written once, however often it is asked for.
        """
        if not self._parts:
            self._parts = [*_together(self._arrays())]
            self.packed = self._parts
        return self._parts

    def _arrays(self) -> Iterator[tuple[int, bytes]]:
        """As it came; where that cannot be kept, written anew."""
        at = 0
        for number, data in self.packed:
            if data:
                yield number, data
            else:
                for start in range(at, at + number, PART):
                    part = self.rows[start : min(start + PART, at + number)]
                    yield len(part), _encode(part)
            at += number

    @property
    def kinds(self) -> Sequence[str]:
        """The kind of each row."""
        return self._column(0)

    @property
    def keys(self) -> Sequence[str | None]:
        """The merge key of each row."""
        return self._column(1)

    def _column(self, number: int) -> Sequence[Any]:
        columns = self.columns
        return columns[0][number] if len(columns) == 1 else [*chain.from_iterable([column[number] for column in columns])]

    def owned(self, positions: Iterable[int]) -> Run:
        """The same with these marked as the NPC's own."""
        rows = list(self.rows)
        for n in positions:
            rows[n] = msgspec.structs.replace(rows[n], own=True)
        return Run.of_rows(rows)

    def at(self, index: int) -> Observation:
        """One of them."""
        row = self.rows[index]
        return observed(row, seq=row.seq)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> Run: ...
    def __getitem__(self, index: int | slice) -> Observation | Run:
        return Run.of_rows(self.rows[index]) if isinstance(index, slice) else self.at(index)

    def __iter__(self) -> Iterator[Observation]:
        return map(self.at, range(len(self.rows)))

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of equal observations."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(other) == len(self) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple([row.seq for row in self.rows]))

    def __repr__(self) -> str:
        return f"Run({list(islice(self, 3))!r}{', …' if len(self) > 3 else ''})"


class Draft:
    """An observation while it is being filled in.

    A frozen dataclass pays object.__setattr__ for each of its eleven fields. This twin has the same slots, is filled by plain assignment
    and then becomes an Observation: a third of the time at thousands a second (3.9 µs against 1.3 µs).
    """

    __slots__ = Observation.__slots__

    def __init__(
        self, seq: int, t: float, kind: str, text: str, wt: str | None, data: Mapping[str, Any] | None, key: str | None, prio: int,
        speaker: Speaker | None, to: str | None, own: bool,
    ) -> None:
        self.seq = seq
        self.t = t
        self.kind = kind
        self.text = text
        self.wt = wt
        self.data = data
        self.key = key
        self.prio = prio
        self.speaker = speaker
        self.to = to
        self.own = own


def observed(row: Row, *, seq: int) -> Observation:
    """A row as the observation that it is, known by the number `seq`."""
    draft: Any = Draft(
        seq, row.t, row.kind, row.text, row.wt, row.data, row.key, row.prio, None if row.speaker is None else speaker_of(row.speaker),
        row.to, row.own,
    )
    draft.__class__ = Observation
    observation: Observation = draft
    return observation


@lru_cache(maxsize=4_096)
def speaker_of(source: Source) -> Speaker:
    """A source as the speaker that it is."""
    return Speaker(id=source.id, name=source.name, kind=source.kind)


def _row(o: Observation) -> Row:
    speaker = o.speaker and Source(o.speaker.id, o.speaker.name, o.speaker.kind)  # type: ignore[arg-type]  # clean, so it is one of them
    return Row(o.seq, o.t, o.kind, o.text, o.wt, o.data, o.key, o.prio, speaker, o.to, o.own)  # type: ignore[arg-type]  # the same


# Reading


def _looked_over(rows: list[Row], packed: Sequence[tuple[int, bytes]] = ()) -> tuple[Run, str]:
    """A run, and everything in it that is free text.

    Each row is taken apart once, and what is asked then is asked of a whole column.
    """
    seqs, _, kinds, texts, times, datas, keys, _, speakers, tos, owned = zip(*map(astuple, rows), strict=True) if rows else ((),) * 11
    told = "".join(texts)
    chars = len(told)
    first = seqs[0] if rows else 0
    longest = chars if chars <= _SHORT else max(map(len, texts))
    rise = seqs == tuple(range(first, first + len(rows)))
    words = Words(set(kinds), set(tos), set(times), set(speakers), True in owned, chars, longest, rise)
    more = [data for data in datas if data]
    if more:
        values = [value for data in more for value in data.values() if type(value) is str]
        told = "".join([told, *chain.from_iterable(more), *values])
    return Run(rows, words, [(kinds, keys)], packed), told


def reader(decode: Callable[[bytes], _Lone | _Together], head: bytes) -> Callable[[bytes], Run | None]:
    """Reads a frame's bytes as a run, None where it is no frame of plain observations with rising numbers.

    Args:
        decode: bytes to a frame of the two kinds.
        head: what stands before the items in frames that hold nothing else, where those are MessagePack; they are kept as they came.
    """

    def read(data: bytes) -> Run | None:
        try:
            frame = decode(data)
            if isinstance(frame, _Lone):
                f = frame
                rows, packed = [Row(f.seq, f.t, f.kind, f.text, f.wt, f.data, f.key, f.prio, f.speaker, f.to, f.own)], b""
            else:
                rows = frame.items
                packed = data[len(head) :] if head and len(rows) <= KEPT and data.startswith(head) else b""
            run, told = _looked_over(rows, [(len(rows), packed)] if packed else ())
            return run if rows and run.words.rise and cleaning.untouched(told) and _clean(run) else None
        except (ValueError, RecursionError):
            return None  # not one of these frames, or a word that would not stay what it is

    return read


#: A map of two, whose first is the name of the frame and whose second are the items: so most worlds write it.
_HEAD = b"\x82\xa2op\xa5batch\xa5items"

plain_msgpack = reader(msgspec.msgpack.Decoder(_Lone | _Together).decode, _HEAD)
plain_json = reader(msgspec.json.Decoder(_Lone | _Together).decode, b"")


def _together(arrays: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Small arrays joined to larger ones."""
    number, small = 0, list[bytes]()
    for count, data in arrays:
        if count >= PART and not small:
            yield count, data
            continue
        number += count
        small.append(data)
        if number >= PART:
            yield number, _array(number, small)
            number, small = 0, []
    if number:
        yield number, _array(number, small)


def _array(number: int, arrays: Sequence[bytes]) -> bytes:
    """Arrays as one, of `number` items together."""
    if len(arrays) == 1:
        return arrays[0]
    head = bytes([0x90 | number]) if number < 16 else b"\xdc" + number.to_bytes(2, "big")
    return b"".join([head, *[data[1 if data[0] < 0xDC else 3 if data[0] == 0xDC else 5 :] for data in arrays]])


def _clean(run: Run) -> bool:
    """Whether `cleaning` would leave every name as it is.

    Raises:
        ValueError: it would not.
    """
    words = run.words
    for source in words.speakers - _known_sources:
        if source is not None:
            _kept_source(source)
    for key in words.tos.union(run.keys) - _known_ids:
        if key is not None:
            _kept_id(key)
    for time in words.times:
        if time is not None:
            _kept_name(time)
    return True


# What was found clean once, as much of it as is worth its memory.
_known_ids: set[str | None] = set()
_known_sources: set[Source | None] = set()
_KNOWN = 8_192


def _kept_id(word: str) -> None:
    if not word or cleaning.ident(word) != word:
        raise ValueError("not an identifier as it stands")
    if len(_known_ids) >= _KNOWN:
        _known_ids.clear()
    _known_ids.add(word)


def _kept_source(source: Source) -> None:
    if (source.id and cleaning.ident(source.id) != source.id) or (source.name and cleaning.name(source.name) != source.name):
        raise ValueError("not a speaker as it stands")
    if len(_known_sources) >= _KNOWN:
        _known_sources.clear()
    _known_sources.add(source)


@lru_cache(maxsize=4_096)  # (what raises is not kept by it)
def _kept_name(word: str) -> None:
    if not word or cleaning.name(word) != word:
        raise ValueError("not a name as it stands")
