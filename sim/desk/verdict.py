"""What a run found: sentences that held or did not, and figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One sentence of the verdict, and whether it held."""

    held: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened: `figures` for scripts, `lines` for people."""

    figures: Mapping[str, Any]
    lines: tuple[Line, ...]

    @property
    def held(self) -> bool:
        """Whether all did."""
        return all(line.held for line in self.lines)
