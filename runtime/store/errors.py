"""What can go wrong with the store, on one page."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not do it now; one sentence. Nothing that was queued is lost by it."""


class DamagedError(StoreError):
    """The file is no sound database any more."""
