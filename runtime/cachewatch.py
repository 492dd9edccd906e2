"""Watching that the prompt cache is really read: a silent invalidator costs ten times the money and shows nowhere else.

Invariant: one alarm per silence; a read ends the silence.
"""

from __future__ import annotations

from runtime.core.values import Usage

#: Entries live five minutes from their last use.
TIME_TO_LIVE_S = 300.0
#: So many answers in a row without a read are no accident: a rung moves the prefix once, not three times running.
PATIENCE = 3


class CacheWatch:
    """Sees the usage of each answer. `minimum` is the model's least cacheable length in tokens."""

    def __init__(self, minimum: int) -> None:
        self.minimum = minimum
        self._last = float("-inf")
        self._missed = 0
        self._told = False

    def saw(self, now: float, usage: Usage) -> str:
        """Take one answer in; returns a sentence for the operator when something is wrong, else ""."""
        warm = now - self._last < TIME_TO_LIVE_S
        self._last = now
        if usage.cache_read_tokens or not warm or usage.total_input < self.minimum * 1.25:
            if usage.cache_read_tokens:
                self._missed, self._told = 0, False
            return ""
        self._missed += 1
        if self._missed < PATIENCE or self._told:
            return ""
        self._told = True
        return (
            f"the prompt cache was not read in {self._missed} calls running, so the input costs up to ten times as much: "
            "does the endpoint cache at all, and is something in the fixed part changing at each call?"
        )
