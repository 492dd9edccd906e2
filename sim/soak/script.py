"""A life as a short file: who, which turns, which strikes; enough to live it again.

Invariant: reading what was written gives the same script; a file that is none is refused with one sentence that names what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from sim.soak.catalogue import CATALOGUE, Strike

VERSION = 1
MAX_BYTES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One NPC's life.

    Attributes:
        npc: its name.
        seed: of its flood and its model.
        window: tokens.
        turns: numbers of the flood's turns, in the order in which they are told.
        strikes: faults, by turn.
        bug: a fault of the harness itself to plant, for trying whether it is found; empty: none.
        found: rows that did not hold when this was written, for the reader.
    """

    npc: str
    seed: int
    window: int
    turns: Sequence[int]
    strikes: Sequence[Strike] = ()
    bug: str = ""
    found: Sequence[str] = field(default=())

    def without_strikes_out_of_turn(self) -> Script:
        """Strikes whose turn is not told can go."""
        told = set(self.turns)
        return replace(self, strikes=tuple(s for s in self.strikes if s.turn in told))

    def text(self) -> str:
        """As it is written to a file."""
        strikes = [{k: v for k, v in asdict(s).items() if k in ("turn", "fault") or v != _PLAIN[k]} for s in self.strikes]
        about = {"version": VERSION, "npc": self.npc, "seed": self.seed, "window": self.window, "turns": spans(self.turns)}
        more = {"bug": self.bug} if self.bug else {}
        lines = ",\n".join(f"    {json.dumps(s)}" for s in strikes)
        head = json.dumps({**about, **more, "found": list(self.found)}, ensure_ascii=False, indent=2)[:-2]
        return f'{head},\n  "strikes": [\n{lines}\n  ]\n}}\n' if strikes else f'{head},\n  "strikes": []\n}}\n'


_PLAIN = {"after_s": 0.0, "hits": 1, "seconds": 0.0, "point": ""}


@checked(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class _Strike:
    turn: int
    fault: str
    after_s: float = 0.0
    hits: int = 1
    seconds: float = 0.0
    point: str = ""


@checked(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class _File:
    version: int
    npc: str
    seed: int
    window: int
    turns: str
    strikes: list[_Strike]
    bug: str = ""
    found: list[str] = field(default_factory=list)


_FILE = TypeAdapter(_File)


def read(path: Path) -> Script:
    """The script in a file.

    Raises:
        ValueError: it is none, in one sentence.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} has {len(data):,} bytes; a script is a short file")
    try:
        file = _FILE.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path} is no script of a soak: {f'{where}: ' if where else ''}{first['msg']}") from error
    if file.version != VERSION:
        raise ValueError(f"{path} is a script of version {file.version}; this program reads version {VERSION}")
    if unknown := sorted({s.fault for s in file.strikes} - CATALOGUE.keys()):
        raise ValueError(f"{path} names faults that there are not: {', '.join(unknown)}")
    strikes = tuple(Strike(**_fields(s)) for s in file.strikes)
    return Script(
        npc=file.npc, seed=file.seed, window=file.window, turns=numbers(file.turns), strikes=strikes, bug=file.bug, found=tuple(file.found)
    )


def _fields(one: _Strike) -> Mapping[str, Any]:
    return {name: getattr(one, name) for name in ("turn", "fault", "after_s", "hits", "seconds", "point")}


def spans(turns: Sequence[int]) -> str:
    """`0-47,50`: numbers that follow each other as one span."""
    out: list[list[int]] = []
    for n in turns:
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in out)


def numbers(text: str) -> tuple[int, ...]:
    """What `spans` wrote.

    Raises:
        ValueError: it did not.
    """
    out: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        try:
            low, high = int(first), int(last or first)
        except ValueError:
            raise ValueError(f"turns are written as 0-47,50 and not as {part!r}") from None
        if not 0 <= low <= high or high - low > 1_000_000:
            raise ValueError(f"turns are written as 0-47,50 and not as {part!r}")
        out.extend(range(low, high + 1))
    return tuple(out)
