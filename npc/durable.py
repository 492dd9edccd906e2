"""Waiting for the disk: what is stored before anybody is told that it is.

Invariant: returns only when all that was queued before it is on disk; a disk that takes nothing is told to the operator once, not by
everyone who waits and at every try.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from runtime.store.errors import StoreError
from runtime.store.journal import Journal

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 10.0


class Durable:
    """For one journal; `page` tells the operator. Call it and await the result."""

    def __init__(self, journal: Journal, page: Callable[[str], None]) -> None:
        self._journal, self._page = journal, page
        self._fault = ""  # what keeps the journal from being written now

    async def __call__(self) -> None:
        """Wait for the disk, however long it takes: nothing is acknowledged that is not stored."""
        wait = FIRST_WAIT_S
        while True:
            try:
                await self._journal.commit()
            except StoreError as error:
                if not self._fault:
                    self._page(str(error))
                self._fault = str(error)
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT_S, wait * 2)
            else:
                if self._fault:
                    self._fault = ""
                    self._page("the journal is written again")
                return
