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


class Words:
    """What is known of rows without looking at each again.

    Attributes:
        kinds, tos, times: all kinds, addressees and times of the world; None for what is missing.
        ids, names, roles: of all speakers.
        owned: whether some are caused by the NPC itself.
        chars: characters in all texts together.
        longest: characters of the longest text.
        rise: whether the numbers rise by one.
    """

    __slots__ = ("chars", "ids", "kinds", "longest", "names", "owned", "rise", "roles", "times", "tos")

    def __init__(self, rows: Sequence[Row]) -> None:
        # Few speak much: what is asked of each of them is asked once.
        sources = [source for source in {row.speaker for row in rows} if source is not None]
        lengths = [len(row.text) for row in rows]
        self.kinds: set[str] = {row.kind for row in rows}
        self.tos: set[str | None] = {row.to for row in rows}
        self.times: set[str | None] = {row.wt for row in rows}
        self.owned = True in {row.own for row in rows}
        self.ids: set[str] = {source.id for source in sources}
        self.names: set[str] = {source.name for source in sources}
        self.roles: set[str] = {source.kind for source in sources}
        self.chars, self.longest = sum(lengths), max(lengths, default=0)
        first = rows[0].seq if rows else 0
        self.rise = [row.seq for row in rows] == list(range(first, first + len(rows)))

    @classmethod
    def joined(cls, runs: Sequence[Run]) -> Words:
        """Of several runs together."""
        words = cls(())
        every = [run.words for run in runs]
        for name in ("kinds", "tos", "times", "ids", "names", "roles"):
            setattr(words, name, set().union(*[getattr(one, name) for one in every]))
        words.owned = any(one.owned for one in every)
        words.chars, words.longest = sum([one.chars for one in every]), max([one.longest for one in every], default=0)
        ends = [(run.rows[0].seq, run.rows[-1].seq) for run in runs if run.rows]
        words.rise = all(one.rise for one in every) and all(a[1] + 1 == b[0] for a, b in pairwise(ends))
        return words


class Run(Sequence[Observation]):
    """Rows as a sequence of observations; `rows` are the rows, `words` what is known of all of them."""

    __slots__ = ("rows", "words")

    def __init__(self, rows: list[Row], words: Words | None = None) -> None:
        self.rows = rows
        self.words = words or Words(rows)

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> Run:
        """A run of observations that are there already."""
        return cls([_row(o) for o in observations])

    @classmethod
    def joined(cls, runs: Sequence[Run]) -> Run:
        """All of several runs, in their order."""
        if len(runs) == 1:
            return runs[0]
        return cls(list(chain.from_iterable([run.rows for run in runs])), Words.joined(runs))

    def parts(self, size: int = PART) -> Iterator[tuple[int, bytes]]:
        """The rows `size` by `size`, as MessagePack arrays of maps by the names of the wire, each with how many it holds."""
        for start in range(0, len(self.rows), size):
            part = self.rows[start : start + size]
            yield len(part), _encode(part)

    def owned(self, positions: Iterable[int]) -> Run:
        """The same with these marked as the NPC's own."""
        rows = list(self.rows)
        for n in positions:
            rows[n] = msgspec.structs.replace(rows[n], own=True)
        return Run(rows)

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
        return Run(self.rows[index]) if isinstance(index, slice) else self.at(index)

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


def reader(decode: Callable[[bytes], _Lone | _Together]) -> Callable[[bytes], Run | None]:
    """Reads a frame's bytes as a run, None where it is no frame of plain observations with rising numbers."""

    def read(data: bytes) -> Run | None:
        try:
            frame = decode(data)
            if isinstance(frame, _Lone):
                f = frame
                run = Run([Row(f.seq, f.t, f.kind, f.text, f.wt, f.data, f.key, f.prio, f.speaker, f.to, f.own)])
            else:
                run = Run(frame.items)
            return run if run.rows and run.words.rise and _clean(run) else None
        except (ValueError, RecursionError):
            return None  # not one of these frames, or a word that would not stay what it is

    return read


plain_msgpack = reader(msgspec.msgpack.Decoder(_Lone | _Together).decode)
plain_json = reader(msgspec.json.Decoder(_Lone | _Together).decode)


def _clean(run: Run) -> bool:
    """Whether `cleaning` would leave every text and name as it is.

    Raises:
        ValueError: it would not.
    """
    rows, words = run.rows, run.words
    for word in words.ids:
        if word:
            _kept_id(word)
    for word in words.names:
        if word:
            _kept_name(word)
    for key in {row.key for row in rows}.union(words.tos):
        if key is not None:
            _kept_id(key)
    for time in words.times:
        if time is not None:
            _kept_name(time)
    texts = [row.text for row in rows]
    for data in [row.data for row in rows if row.data]:
        texts += data
        texts += [value for value in data.values() if type(value) is str]
    return cleaning.untouched("".join(texts))


# What raises is not kept by the cache.


@lru_cache(maxsize=8_192)
def _kept_id(word: str) -> None:
    if not word or cleaning.ident(word) != word:
        raise ValueError("not an identifier as it stands")


@lru_cache(maxsize=4_096)
def _kept_name(word: str) -> None:
    if not word or cleaning.name(word) != word:
        raise ValueError("not a name as it stands")
