"""Files that must not be torn: whole or not at all, on disk before the call returns.

Invariant: after `replace_file` or `extend_file`, returned or raised, a reader finds either the old content or the new one, never a part.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

# Two edits within one tick of a file system's clock leave the same time stamp. Ticks are milliseconds on most and two seconds on the
# coarsest, so a file that was changed this recently is read again rather than trusted to be the one that was read.
_TICK_NS = 2_500_000_000


def replace_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put `data` in the place of `path` (temp file, fsync, rename, fsync of the folder). Raises OSError with the old content in place."""
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(target.parent)


def extend_file(path: Path, data: bytes) -> None:
    """Append `data` durably, making the file if need be. Raises OSError with the file as long as it was."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(fd).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(fd, data[written:])
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def reason(error: OSError) -> str:
    """What the system said, to go in brackets in a sentence: "no space left on device"."""
    return (error.strerror or str(error)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a poll found: the bytes, or (None) why there are none, to go on after the file's name: "is missing"."""

    data: bytes | None
    problem: str = ""


class WatchedFile:
    """A small file that people edit while the NPC runs: asked before every step, read only when it changed."""

    def __init__(self, path: Path, *, limit: int) -> None:
        self.path = path
        self._limit = limit
        self._stamp: tuple[int, int, int] | None = None
        self._settled = False
        self._last: Content | None = None

    def poll(self) -> Content | None:
        """The content if it is not what the last poll found, else None. A microsecond or two when nothing changed."""
        try:
            stat = self.path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._settled and stamp == self._stamp:
                return None
            with self.path.open("rb") as file:
                # The stamp is taken before the reading: what is written in between is seen as a change next time.
                stat = os.fstat(file.fileno())
                data = file.read(self._limit + 1)
            self._stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            self._settled = time.time_ns() - stat.st_mtime_ns > _TICK_NS
            content = Content(data=data)
            if len(data) > self._limit:
                content = Content(data=None, problem=f"is larger than {self._limit:,} bytes")
        except FileNotFoundError:
            self._settled, content = False, Content(data=None, problem="is missing")
        except OSError as error:
            self._settled, content = False, Content(data=None, problem=f"cannot be read ({reason(error)})")
        if content == self._last:
            return None
        self._last = content
        return content

    def forget(self) -> None:
        """Make the next poll read the file and return what it finds."""
        self._stamp, self._settled, self._last = None, False, None
