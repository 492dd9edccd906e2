"""A bounded memory of what was worked out before.

Invariant: holds at most twice as many entries as it is told; what was asked for lately is kept longest.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Two generations: what the older one is asked for moves to the younger, and the rest of the older goes when the younger is full.

    Args:
        size: entries of one generation.
    """

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int) -> None:
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        self._size = size

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def get(self, key: K) -> V | None:
        """What is remembered of `key`."""
        value = self._new.get(key)
        if value is None and (value := self._old.get(key)) is not None:
            self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember it."""
        if len(self._new) >= self._size:
            self._old, self._new = self._new, {}
        self._new[key] = value
