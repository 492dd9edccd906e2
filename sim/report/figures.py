"""The figures of a run as a file: what `--figures` writes, a page is drawn from, and `npc sim compare` reads.

Invariant: the shape is versioned and strict. A file is read only if it is of this shape, and what is read can be drawn: series run forward
in x, a bucket's least is not above its most, no number is infinite, and no list is longer than its bound. Sizes are in tokens, money in
dollars, shares from 0 to 1; every series names its own unit. What was not measured is missing or null, never zero.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

FORMAT: Literal["perpetual-npc figures"] = "perpetual-npc figures"
#: Rises with every change after which an older reader would misread a file.
VERSION: Literal[1] = 1
#: The parts of a request's context, in the order in which they are stacked; together they are all of it.
Part = Literal["tools", "system", "record", "observations", "own_words", "tool_results", "recalled", "notebook", "tail"]
PARTS: tuple[Part, ...] = get_args(Part)
#: No file holds longer lists than these.
MOST_BUCKETS, MOST_LIVES, MOST_ROWS = 20_000, 256, 20_000
MAX_FILE_BYTES = 64_000_000

Words = Annotated[str, Field(max_length=20_000)]
Name = Annotated[str, Field(max_length=200)]
Scalar = bool | int | float | str | None


class FiguresError(Exception):
    """A file holds no figures of this shape. One sentence."""


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _rising(values: tuple[float, ...]) -> tuple[float, ...]:
    if any(b <= a for a, b in itertools.pairwise(values)):
        raise ValueError("x must rise from bucket to bucket")
    return values


Numbers = Annotated[tuple[float, ...], Field(max_length=MOST_BUCKETS)]
Rising = Annotated[Numbers, AfterValidator(_rising)]
Counts = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=MOST_BUCKETS)]


class Axis(_Shape):
    """What x is. In a flood the turn's number, in a soak virtual hours."""

    name: Name = "turn"
    unit: Name = ""


class Series(_Shape):
    """One quantity over x, in buckets of equal width: what was least, the mean, and what was most in each; empty buckets are left out.

    Attributes:
        unit: of the values.
        width: of a bucket, in x.
        x: where each bucket begins.
        samples: how many values went in.
        median: of all values (from evenly spread ones where there are very many); `most_99` is what 99 of 100 lie below.
    """

    unit: Name = ""
    width: float = Field(gt=0)
    x: Rising
    low: Numbers
    mean: Numbers
    high: Numbers
    samples: int = Field(ge=0)
    median: float | None = None
    most_99: float | None = None

    @model_validator(mode="after")
    def _even(self) -> Self:
        if not len(self.x) == len(self.low) == len(self.mean) == len(self.high):
            raise ValueError("x, low, mean and high are of different lengths")
        if any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError("a bucket's least is above its most")
        return self


class Fill(_Shape):
    """What stood in the window, in buckets of requests: the fullest request of each by its parts, and the size of the emptiest.

    Attributes:
        limit: tokens of the window.
        parts: tokens of the fullest request's parts; they add up to its size.
        requests: how many requests went in; those without tools (summaries, diary entries) are not among them.
    """

    limit: int = Field(gt=0)
    width: float = Field(gt=0)
    x: Rising
    low: Counts
    parts: dict[Part, Counts]
    requests: int = Field(ge=0)

    @model_validator(mode="after")
    def _even(self) -> Self:
        if any(len(values) != len(self.x) for values in (self.low, *self.parts.values())):
            raise ValueError("x, low and the parts are of different lengths")
        return self

    @property
    def high(self) -> list[int]:
        """Size of each bucket's fullest request."""
        return [sum(each) for each in zip(*self.parts.values(), strict=True)] if self.parts else [0] * len(self.x)


class Marks(_Shape):
    """How often something came about, by bucket."""

    width: float = Field(gt=0)
    x: Rising
    times: Counts

    @model_validator(mode="after")
    def _even(self) -> Self:
        if len(self.x) != len(self.times):
            raise ValueError("x and times are of different lengths")
        return self


class Rung(_Shape):
    """One rung of the ladder over a life: how often it freed something, how often it could not, and how many tokens it took away."""

    name: Name
    ran: int = Field(ge=0)
    in_vain: int = Field(ge=0)
    freed: int = Field(ge=0)
    marks: Marks


class Reset(_Shape):
    """One hard reset. `before` and `after` are tokens of history, `entry` is the diary entry's id, `entry_text` its words."""

    x: float
    turn: int
    at: float
    reason: Words = ""
    before: int | None = None
    after: int | None = None
    stored: Name = ""
    entry: Name = ""
    author: Name = ""
    entry_text: Words = ""


class FaultKind(_Shape):
    """All faults of one kind over a life.

    Attributes:
        where: what went wrong: model, world, disk or process.
        times: how often; `ended` says how many of them ended how.
        worst_requests: most requests from a fault to the next good answer; `worst_turns` most turns.
    """

    name: Name
    where: Name = "model"
    times: int = Field(ge=0)
    ended: dict[Name, int] = Field(default_factory=dict, max_length=50)
    worst_requests: int = Field(ge=0)
    worst_turns: int = Field(ge=0)
    marks: Marks


class Fault(_Shape):
    """One fault and how it ended."""

    x: float
    turn: int
    name: Name
    where: Name = "model"
    ended: Words
    requests: int = Field(default=0, ge=0)
    turns: int = Field(default=0, ge=0)


class Life(_Shape):
    """One NPC's.

    Attributes:
        series: by name, see `recorder.SERIES`.
        faults: single ones, those that took longest if there were too many to keep; `fault_kinds` counts all.
    """

    npc: Name
    turns: int = Field(ge=0)
    turns_failed: int = Field(ge=0)
    requests: int = Field(ge=0)
    dollars: float = Field(ge=0)
    exit_status: int | None = None
    fill: Fill | None = None
    series: dict[Name, Series] = Field(default_factory=dict, max_length=64)
    rungs: tuple[Rung, ...] = Field(default=(), max_length=64)
    resets: tuple[Reset, ...] = Field(default=(), max_length=MOST_ROWS)
    fault_kinds: tuple[FaultKind, ...] = Field(default=(), max_length=500)
    faults: tuple[Fault, ...] = Field(default=(), max_length=MOST_ROWS)


class Sentence(_Shape):
    """One of the verdict's; `held` is None for a figure without a judgement."""

    held: bool | None = None
    text: Words


class Found(_Shape):
    """Something that did not hold: the row of the requirements, and one sentence. `turn` is -1 for the run as a whole."""

    turn: int
    rule: Name
    sentence: Words


class Figures(_Shape):
    """A whole run.

    Attributes:
        kind: flood or soak.
        made_at: when it ended, ISO 8601, UTC.
        command: what made it.
        options: what it was asked for, by name.
        summary: figures of the whole run by name, as `--json` prints them; those that are numbers are compared.
        notes: what a reader has to know about how it was measured.
    """

    format: Literal["perpetual-npc figures"] = FORMAT
    version: Literal[1] = VERSION
    kind: Name = "flood"
    made_at: Name = ""
    command: Words = ""
    axis: Axis = Axis()
    options: dict[Name, Scalar] = Field(default_factory=dict, max_length=200)
    summary: dict[Name, Any] = Field(default_factory=dict, max_length=500)
    verdict: tuple[Sentence, ...] = Field(default=(), max_length=200)
    findings: tuple[Found, ...] = Field(default=(), max_length=MOST_ROWS)
    lives: tuple[Life, ...] = Field(default=(), max_length=MOST_LIVES)
    notes: tuple[Words, ...] = Field(default=(), max_length=100)

    @property
    def held(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def numbers(self) -> dict[str, float]:
        """The summary's numbers by name, those inside an object as `object.name`; what is no number is left out."""
        return dict(_numbers(self.summary))

    def write(self, path: Path) -> None:
        """To a file.

        Raises:
            OSError: it cannot be written.
        """
        path.write_text(self.model_dump_json(exclude_none=True) + "\n", encoding="utf-8")


def clean(value: Any, longest: int = 200) -> str:
    """A text from anywhere as it may stand in a file: cut to so many characters, and without what no encoding can hold."""
    text = str(value or "")
    return (text if len(text) <= longest else f"{text[: longest - 1]}…").encode("utf-8", "replace").decode()


def read(path: Path) -> Figures:
    """The figures in a file.

    Raises:
        FiguresError: it cannot be read, or is of another shape.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FiguresError(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB: no run's figures are.")
        raw = json.loads(path.read_bytes())
    except OSError as error:
        raise FiguresError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise FiguresError(f"{path} is no JSON; npc sim flood --figures FILE writes figures that can be compared.") from error
    if not isinstance(raw, Mapping) or raw.get("format") != FORMAT:
        raise FiguresError(f"{path} holds no figures of a run; npc sim flood --figures FILE writes them.")
    if raw.get("version") != VERSION:
        raise FiguresError(
            f"{path} holds figures of version {str(raw.get('version'))[:20]}, and this program reads version {VERSION}: make them anew."
        )
    try:
        return Figures.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:120]
        raise FiguresError(f"{path} holds figures of another shape: {where}: {first['msg']}.") from error


def _numbers(data: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    out: list[tuple[str, float]] = []
    for name, value in data.items():
        if isinstance(value, Mapping) and not prefix:
            out += _numbers(value, f"{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            out.append((f"{prefix}{name}", value))
    return out
