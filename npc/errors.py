"""What a person sees when it does not work: one sentence with the way out, and an exit code.

Invariant: everything that ends a command on purpose is an `NpcError`; the command line prints its message and exits with its code, without
a traceback. Anything else that reaches the command line is a defect of ours and shows one.
"""

from __future__ import annotations

from typing import ClassVar

# The names say what happened rather than that it is an error: they are read in `raise Misconfigured(…)`.


class NpcError(Exception):
    """The command failed. The message is one line for the person who typed it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        # A path may hold bytes that are no UTF-8; the sentence about it must print all the same.
        super().__init__(" ".join(message.encode(errors="replace").decode().split()))


class Usage(NpcError):  # noqa: N818 - named for what happened, see above
    """The command was typed wrong: an unknown folder, a day that is no day."""

    exit_code = 2


class Misconfigured(NpcError):  # noqa: N818 - named for what happened, see above
    """A file or a setting must be mended before the NPC can live: persona, constitution, home folder, a window too small (rung 6)."""

    exit_code = 3


class WorldRefusedUs(NpcError):  # noqa: N818 - named for what happened, see above
    """The world cannot be reached or does not let this NPC in."""

    exit_code = 4


class ModelRefusedUs(NpcError):  # noqa: N818 - named for what happened, see above
    """The model's endpoint does not take the key, the permission or the model's name."""

    exit_code = 5
