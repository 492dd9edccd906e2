"""Whose files these are: the operator's word counts only where nobody else could have written it.

Invariant: never raises for what it finds; anything that is not plainly the own user's, and his alone to write, is named in one sentence.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from npc.files import reason

#: The file of requests and decisions in a home.
NAME = "approvals.db"


def objection(home: Path, *, uid: int | None = None) -> str:
    """Why the file in this home cannot be trusted, "" if it can or is not there yet. `uid` is the user that it must belong to."""
    user = os.geteuid() if uid is None else uid
    try:
        folder = home.stat()
    except OSError as error:
        return f"{home} cannot be looked at ({reason(error)})"
    if folder.st_uid != user:
        return f"{home} belongs to another user: answer as the user that the NPC runs as"
    if folder.st_mode & stat.S_IWOTH:
        return f"everybody may write in {home}, so nobody can tell who decided: chmod o-w {home}"
    path = home / NAME
    for part in (path, home / f"{NAME}-journal"):
        try:
            found = part.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{part} cannot be looked at ({reason(error)})"
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return f"{part} is no plain file of its own: move it away"
        if found.st_uid != user:
            return f"{part} belongs to another user: answer as the user that the NPC runs as"
        if found.st_mode & 0o077:
            return f"others than you may read or write {part}: chmod 600 {part}"
    return ""


def make(path: Path) -> None:
    """An empty file that only its owner may read and write, unless there is one. Raises OSError."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
