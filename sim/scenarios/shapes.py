"""What a scenario's file may hold.

Invariant: strict; a word that is not here, or a number out of its bounds, is an error and never ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

What = Literal[
    "time", "strength", "stir", "blow", "foes", "scene", "speech", "step", "monster", "hostile", "order", "npc", "spam", "lines",
]  # fmt: skip
Wish = Literal["", "greet", "news", "trade", "go", "bag", "look", "story"]
Words = Annotated[str, Field(min_length=1, max_length=20_000)]
Name = Annotated[str, Field(max_length=80)]
#: A text is at most so many tokens, whatever a file asks for.
MOST_TOKENS = 150_000


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Tell(_Shape):
    """Something that is told in a turn.

    Attributes:
        what: kind of thing, see docs/scenarios.md.
        times: how often, at least and at most.
        chance: share of the turns in which it is told at all.
        tokens: size of what has one, at least and at most.
        windows: the same in windows of the model; goes before `tokens`.
        lines: the words to choose from, for `lines`, `npc`, `spam` and `speech`; `{npc}` stands for the NPC's name.
        player: who says it; otherwise somebody of the village.
        key: makes it state, of which only the newest value counts.
        kind: of the wire, for `lines`.
    """

    what: What
    times: tuple[Annotated[int, Field(ge=0, le=2_000)], Annotated[int, Field(ge=0, le=2_000)]] = (1, 1)
    chance: float = Field(default=1.0, gt=0, le=1)
    tokens: tuple[Annotated[int, Field(ge=1, le=MOST_TOKENS)], Annotated[int, Field(ge=1, le=MOST_TOKENS)]] | None = None
    windows: tuple[Annotated[float, Field(gt=0, le=20)], Annotated[float, Field(gt=0, le=20)]] | None = None
    lines: tuple[Words, ...] = Field(default=(), max_length=1_000)
    player: Name = ""
    key: Name = ""
    kind: Name = "notice"

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for name, pair in (("times", self.times), ("tokens", self.tokens), ("windows", self.windows)):
            if pair is not None and pair[0] > pair[1]:
                raise ValueError(f"{name} goes from the least to the most, not from {pair[0]} to {pair[1]}")
        if self.what == "lines" and not self.lines:
            raise ValueError('what = "lines" needs lines')
        return self


class Phase(_Shape):
    """A stretch of turns that are alike.

    Attributes:
        turns: how many.
        tell: what is told in each of them, in this order.
        wish: what the line said to the NPC at the end of each turn is about; anything if empty.
        calls: words to choose that line from instead.
        caller: who says it; otherwise somebody of the village.
        undo: before its first turn the world loads an older save, and so many turns have not happened.
    """

    name: Name = ""
    turns: int = Field(ge=1, le=100_000)
    tell: tuple[Tell, ...] = Field(default=(), max_length=50)
    wish: Wish = ""
    calls: tuple[Words, ...] = Field(default=(), max_length=1_000)
    caller: Name = ""
    undo: int = Field(default=0, ge=0, le=10_000)


class Part(_Shape):
    """A stretch of turns of other scenarios; several, parted by commas, at the same time."""

    scenario: Annotated[str, Field(min_length=1, max_length=400)]
    turns: int = Field(ge=1, le=100_000)


class Results(_Shape):
    """What the NPC's actions bring: sizes in tokens, and the shares of those that fail or bring nothing."""

    tokens: tuple[Annotated[int, Field(ge=1, le=MOST_TOKENS)], Annotated[int, Field(ge=1, le=MOST_TOKENS)]]
    failing: float = Field(default=0.03, ge=0, le=1)
    empty: float = Field(default=0.01, ge=0, le=1)


class File(_Shape):
    """A whole file: phases, or parts that are other scenarios. It begins anew when it has come to its end.

    Attributes:
        about: one sentence.
        pace_s: seconds of a turn in real time.
        facts: players tell facts, and ask for them much later.
        results: what actions bring; as in the flood if left out.
    """

    about: Annotated[str, Field(min_length=1, max_length=500)]
    pace_s: float = Field(default=8.0, ge=0.05, le=3_600)
    facts: bool = True
    results: Results | None = None
    phase: tuple[Phase, ...] = Field(default=(), max_length=100)
    part: tuple[Part, ...] = Field(default=(), max_length=100)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.phase) == bool(self.part):
            raise ValueError("a scenario has phases or parts, and not both")
        return self
