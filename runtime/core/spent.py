"""What was spent: steps, calls and dollars, added up.

A step is a call of the mind itself, a call any call.
"""

from __future__ import annotations

from typing import NamedTuple


class Spent(NamedTuple):
    """Steps, calls and dollars, added up."""

    steps: int = 0
    calls: int = 0
    dollars: float = 0.0

    def plus(self, more: Spent) -> Spent:
        """Both together."""
        return Spent(self.steps + more.steps, self.calls + more.calls, self.dollars + more.dollars)

    def at_least(self, other: Spent) -> Spent:
        """The greater of each."""
        return Spent(max(self.steps, other.steps), max(self.calls, other.calls), max(self.dollars, other.dollars))
