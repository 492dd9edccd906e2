"""Very many values over x, kept as few buckets: what was least, the mean and what was most in each.

Invariant: bounded in memory whatever comes, and honest: every value is in exactly one bucket, so no peak is ever lost. When there would be
too many buckets their width doubles. x may come in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from sim.report.figures import PARTS, Fill, Marks, Part, Series

#: Buckets of a life's series, where nothing else is said: about as many as a page has pixels to show them in.
MOST = 600
#: Values that percentiles are taken from.
_KEPT = 8_192

T = TypeVar("T")


class Grid(Generic[T]):
    """Buckets by x.

    Args:
        merge: two buckets' contents as one; the earlier in x comes first.
        width: of a bucket at first, in x.
        most: buckets.
    """

    def __init__(self, merge: Callable[[T, T], T], *, width: float = 1.0, most: int = MOST) -> None:
        self.width = width
        self._merge, self._most = merge, max(2, most)
        self._cells: dict[int, T] = {}

    def add(self, x: float, content: T) -> None:
        """Puts something where x is."""
        self._put(math.floor(x / self.width), content)
        while len(self._cells) > self._most:
            self.width *= 2
            cells, self._cells = self._cells, {}
            for at in sorted(cells):
                self._put(at // 2, cells[at])

    def _put(self, at: int, content: T) -> None:
        self._cells[at] = self._merge(self._cells[at], content) if at in self._cells else content

    def columns(self) -> tuple[tuple[float, ...], list[T]]:
        """Where each bucket begins, and what is in it, in the order of x."""
        order = sorted(self._cells)
        return tuple(at * self.width for at in order), [self._cells[at] for at in order]


class SeriesGrid:
    """One quantity."""

    def __init__(self, unit: str = "", *, width: float = 1.0, most: int = MOST) -> None:
        self._unit = unit
        self._grid: Grid[tuple[int, float, float, float]] = Grid(_together, width=width, most=most)
        self._kept: list[float] = []
        self._every, self._samples = 1, 0

    def add(self, x: float, value: float) -> None:
        """One value; what is no finite number is left out."""
        if not (math.isfinite(value) and math.isfinite(x)):
            return
        self._grid.add(x, (1, value, value, value))
        if self._samples % self._every == 0:
            self._kept.append(value)
            if len(self._kept) > _KEPT:
                self._kept, self._every = self._kept[::2], self._every * 2
        self._samples += 1

    def series(self, digits: int = 6) -> Series | None:
        """As it stands in a file; None where there was no value."""
        x, cells = self._grid.columns()
        if not cells:
            return None
        ordered = sorted(self._kept)
        return Series(
            unit=self._unit,
            width=self._grid.width,
            x=x,
            low=tuple(round(low, digits) for _, _, low, _ in cells),
            mean=tuple(round(total / n, digits) for n, total, _, _ in cells),
            high=tuple(round(high, digits) for _, _, _, high in cells),
            samples=self._samples,
            median=round(_at(ordered, 0.5), digits),
            most_99=round(_at(ordered, 0.99), digits),
        )


class FillGrid:
    """What stood in the window: of each bucket the fullest request, and the size of the emptiest."""

    def __init__(self, limit: int, *, width: float = 1.0, most: int = MOST) -> None:
        self._limit, self._requests = limit, 0
        self._grid: Grid[tuple[int, int, tuple[int, ...]]] = Grid(_fullest, width=width, most=most)

    def add(self, x: float, sizes: Sequence[int]) -> None:
        """One request's sizes, in the order of `PARTS`."""
        total = sum(sizes)
        self._grid.add(x, (total, total, tuple(sizes)))
        self._requests += 1

    def fill(self) -> Fill | None:
        """As it stands in a file; None where there was no request."""
        x, cells = self._grid.columns()
        if not cells:
            return None
        parts: dict[Part, tuple[int, ...]] = {}
        for n, name in enumerate(PARTS):
            parts[name] = tuple(sizes[n] for _, _, sizes in cells)
        return Fill(
            limit=self._limit, width=self._grid.width, x=x, low=tuple(low for low, _, _ in cells), parts=parts, requests=self._requests
        )


class MarksGrid:
    """How often something came about."""

    def __init__(self, *, width: float = 1.0, most: int = MOST) -> None:
        self._grid: Grid[int] = Grid(int.__add__, width=width, most=most)

    def add(self, x: float) -> None:
        """Once more, at x."""
        self._grid.add(x, 1)

    def marks(self) -> Marks:
        """As they stand in a file."""
        x, times = self._grid.columns()
        return Marks(width=self._grid.width, x=x, times=tuple(times))


def _together(a: tuple[int, float, float, float], b: tuple[int, float, float, float]) -> tuple[int, float, float, float]:
    return a[0] + b[0], a[1] + b[1], min(a[2], b[2]), max(a[3], b[3])


def _fullest(a: tuple[int, int, Any], b: tuple[int, int, Any]) -> tuple[int, int, Any]:
    return min(a[0], b[0]), max(a[1], b[1]), b[2] if b[1] > a[1] else a[2]


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
