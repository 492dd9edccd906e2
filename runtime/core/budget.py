"""The window as a budget: how much the history may hold, and the marks at which the ladder starts and stops.

Invariants: marks are measured only on what can be evicted (usable window less fixed part and tail), so a large fixed part cannot
make the ladder run at every step and free nothing. The history is never denied the room of the smallest observation: whether that
fits is rung 6's question, asked with the factor that is assumed at the start, and beyond it the provider decides, not our estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .calibration import START

#: The smallest observation that must find room, in the provider's tokens: a line of chat with its fence and a named cut, or what a reset
#: leaves at least (its marker and the notice of a cut).
SMALLEST_OBSERVATION = 160
#: The same in raw tokens.
FLOOR = int(SMALLEST_OBSERVATION / START)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Sizes in the provider's tokens, marks as shares of the evictable room.

    Attributes:
        window: tokens one call may hold, input and output.
        output: tokens reserved for the answer.
        high: the ladder starts above this share, at a turn's opening.
        low: and goes down to this one.
        margin: share of the window kept free because counts are estimates.
        record: tokens that the compacted record may take, as a share of the room.
    """

    window: int
    output: int = 1024
    high: float = 0.60
    low: float = 0.06
    margin: float = 0.02
    record: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high <= 1:
            raise ValueError(f"marks must satisfy 0 < low < high <= 1, not low {self.low} and high {self.high}")

    @property
    def usable(self) -> int:
        """Input tokens that may be sent."""
        return self.window - self.reserve - int(self.window * self.margin) - 32

    @property
    def reserve(self) -> int:
        """The output reserve, never more than a quarter of the window."""
        return min(self.output, max(64, self.window // 4))

    def within(self, window: int) -> Budget:
        """The same budget in a smaller window, where the provider's own is smaller than the one that was set (0: not known)."""
        return replace(self, window=window) if 0 < window < self.window else self

    def room(self, *, fixed: int, factor: float, tail: int = 0, floor: int = FLOOR) -> Room:
        """The room for the history in raw tokens; `fixed`, `tail` and `floor` are raw, `factor` turns raw into the provider's."""
        history = max(floor, int((self.usable - 1) / factor) - fixed - tail)  # an estimate is rounded up by one
        return Room(
            limit=history,
            high=int(history * self.high),
            low=int(history * self.low),
            record=max(80, min(int(history * self.record), 600)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Raw tokens for the history: hard limit, both marks, and what of it the compacted record may take."""

    limit: int
    high: int
    low: int
    record: int

    def tightened(self, limit: int) -> Room:
        """The same room with a lower ceiling: the provider said no."""
        limit = min(limit, self.limit)
        return Room(limit=limit, high=min(self.high, limit), low=min(self.low, limit), record=self.record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One line of the table that rung 6 shows: a part of the request and its size in the provider's tokens."""

    name: str
    tokens: int


def misfit(budget: Budget, parts: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """None if the smallest observation fits beside the fixed parts; else every part with its size (rung 6)."""
    need = sum(p.tokens for p in parts) + SMALLEST_OBSERVATION
    if need <= budget.usable:
        return None
    return (
        *parts,
        Part(name="output reserve", tokens=budget.reserve),
        Part(name="safety margin", tokens=budget.window - budget.usable - budget.reserve),
        Part(name="smallest observation", tokens=SMALLEST_OBSERVATION),
    )
