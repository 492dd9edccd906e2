"""The error tree of the wire, on one page.

Faults of a peer are values wherever the caller can go on (a malformed frame, a failed action, a dropped link). Only what ends an
attachment, or what the caller must change before it can work, is an exception.
"""

from __future__ import annotations


class WorldError(Exception):
    """Base of everything that this package raises on purpose. The message is one plain sentence without secrets."""


class WorldRefused(WorldError):  # noqa: N818 - reads as what happened, as in the rest of the house
    """The world will not have us, and trying again unchanged cannot help: the sentence says what would.

    Attributes:
        code: the websocket close code or HTTP status that told us, 0 where there was none.
    """

    def __init__(self, sentence: str, *, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code


class WorldUnreachable(WorldError):  # noqa: N818 - reads as what happened, as in the rest of the house
    """Nothing answered at the address. Raised only where the caller asked not to wait for ever."""


class FrameTooLarge(WorldError):  # noqa: N818 - reads as what happened, as in the rest of the house
    """Our own frame would exceed the peer's `max_frame`; it was not sent.

    Attributes:
        size: bytes of the frame.
        limit: bytes that the peer takes.
    """

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(f"frame of {size} bytes exceeds the peer's limit of {limit}")
        self.size = size
        self.limit = limit


class WorldStoreError(WorldError):
    """What a world keeps over restarts cannot be read or written."""
