"""A disk that is really full, for this process, and how much memory the process holds.

Invariant: full means that the system refuses: no file can grow, whoever writes it and through whichever library. It ends with the block.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Bytes to which a file may grow on a full disk.
FULL = 1
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1_048_576
_depth = 0


@contextmanager
def full() -> Iterator[None]:
    """No file of this process can grow (EFBIG, which SQLite calls a full disk). May be nested."""
    global _depth  # noqa: PLW0603 - the limit is the process's own
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    _depth += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, hard))
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def resident_mb() -> float:
    """Megabytes of this process in memory; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_MB
    except (OSError, ValueError, IndexError):
        return 0.0
