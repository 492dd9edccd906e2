"""The numbers of one NPC's observations, over all connections of a check. Pure.

Invariant: a number that was once told must mean the same for as long as its epoch lasts, as far back as is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sim.conformance import shapes
from sim.conformance.rules import Ledger

MAX_REMEMBERED = 20_000


class Stream:
    """What was told under which number, and what a connection must tell next."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: dict[tuple[str, int], str] = {}
        self._epoch = ""
        self._first = self._next = 1
        self._highest = 0

    def begin(self, epoch: str, next_seq: int) -> None:
        """A connection was welcomed, or a rollback began a new epoch."""
        if epoch != self._epoch:
            self._highest = 0
        self._epoch, self._first, self._next = epoch, next_seq, next_seq

    def take(self, raw: Mapping[str, Any]) -> int:
        """The next observation of the connection; answers its number, 0 if it has none."""
        faults = shapes.observation(raw)
        for fault in faults:
            self._ledger.broken("observations", fault)
        seq = raw.get("seq") if isinstance(raw, dict) else None
        if not shapes.is_whole(seq) or int(seq) < 1:  # type: ignore[arg-type]
            return 0
        if not faults:
            self._ledger.holds("observations")
        number = int(seq)  # type: ignore[arg-type]
        if number > self._next:
            self._ledger.broken("numbering", f"{number} came where {self._next} was due")
        elif number < self._first:
            self._ledger.broken("numbering", f"{number} came after a welcome with next_seq {self._first}")
        self._next = max(self._next, number + 1)
        self._same(number, raw)
        return number

    def _same(self, number: int, raw: Mapping[str, Any]) -> None:
        words = json.dumps([raw.get(name) for name in ("kind", "text", "from", "to", "key", "data")], sort_keys=True, default=repr)
        former = self._told.setdefault((self._epoch, number), words)
        if former != words:
            self._ledger.broken("numbering", f"{number} was told again with another meaning")
        else:
            self._highest = max(self._highest, number)
            self._ledger.holds("numbering", f"up to {self._highest}")
        if len(self._told) > MAX_REMEMBERED:
            del self._told[next(iter(self._told))]
