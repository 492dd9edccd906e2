"""`manifest.json`: what a home vouches for, and so whether a life is taken up again or begun afresh.

Invariant: the file is on disk whole before a life begins; one that is missing, torn or of another NPC's journal vouches for nothing, and
then the session is begun afresh while the old one is set aside, never deleted.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from npc.files import reason, replace_file

VERSION = 1
#: The largest file that is read, in bytes.
MAX_FILE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One home's.

    Attributes:
        npc: the character's name.
        identity: of the journal beside it.
        lives: how often it was begun.
        begun_at: unix seconds of the life that is, or was the last.
        ended_at: unix seconds at which that ended in order; 0 while it lasts, or if it was cut short.
    """

    npc: str
    identity: str
    lives: int = 1
    begun_at: float = 0.0
    ended_at: float = 0.0

    @classmethod
    def read(cls, path: Path) -> Self | str:
        """The manifest in a file, or what is wrong with it, to go on after the file's name: "is missing"."""
        try:
            with path.open("rb") as file:
                data = json.loads(file.read(MAX_FILE))
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read ({reason(error)})"
        except (ValueError, RecursionError):
            return "is torn"
        check = data.pop("check", None) if isinstance(data, dict) else None
        if check != _check(data) or data.pop("version", None) != VERSION:
            return "is torn or was changed by hand"
        try:
            return cls(**data)
        except TypeError:
            return "is of another version"

    def write(self, path: Path) -> str:
        """Put it in the file, durably; returns why the disk did not take it, "" if it did."""
        data = {"version": VERSION, **asdict(self)}
        try:
            replace_file(path, (json.dumps({**data, "check": _check(data)}, ensure_ascii=False, indent=2) + "\n").encode())
        except OSError as error:
            return reason(error)
        return ""

    def begun(self, now: float) -> Self:
        """For the next life."""
        return replace(self, lives=self.lives + 1, begun_at=now, ended_at=0.0)

    def ended(self, now: float) -> Self:
        """For a life that ended in order."""
        return replace(self, ended_at=now)


def new_identity(now: float) -> str:
    """The identity of a journal that is begun now (unix seconds)."""
    return f"{int(now * 1000):x}"


def born(identity: str) -> float:
    """When the journal of an identity was begun; 0 where it does not say."""
    try:
        return int(identity, 16) / 1000
    except ValueError:
        return 0.0


def _check(data: Any) -> int:
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())
