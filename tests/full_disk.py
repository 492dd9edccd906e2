"""Disks that are really full, for tests: a tiny file system where one can be mounted, else a limit on the size of files.

Both run the test's code in a process of its own, so that neither a mount nor a limit outlives it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def on_small_disk(code: str, folder: Path, *, kilobytes: int) -> Any:
    """Run `code` with `disk`, a Path on a file system of this size, `elsewhere`, a Path on another, and `fill()`, which leaves no room.

    Returns what the code left in `result`. Skips the test where nothing can be mounted.
    """
    if not _can_mount():
        pytest.skip("mounting a small file system needs root or user namespaces")
    disk, elsewhere = folder / "disk", folder / "elsewhere"
    disk.mkdir()
    elsewhere.mkdir()
    mount = f"mount -t tmpfs -o size={kilobytes}k tmpfs '{disk}' && exec '{sys.executable}' -"
    # The file system belongs to the process's own name space and goes with it.
    return _run(["unshare", *_user(), "--mount", "sh", "-c", mount], _FILL, code, disk=disk, elsewhere=elsewhere)


def with_small_files(code: str, folder: Path, *, limit: int) -> Any:
    """Run `code` with `disk`, a Path, and `full(True)`/`full(False)`: while full, no file grows beyond `limit` bytes (EFBIG)."""
    return _run([sys.executable, "-"], _LIMIT.format(limit=limit), code, disk=folder, elsewhere=folder)


def _run(command: list[str], tools: str, code: str, *, disk: Path, elsewhere: Path) -> Any:
    head = f"from pathlib import Path\ndisk, elsewhere = Path({str(disk)!r}), Path({str(elsewhere)!r})\n"
    script = head + tools + textwrap.dedent(code) + "\nimport json\nprint(json.dumps(result))\n"
    environment = {**os.environ, "TMPDIR": str(elsewhere), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, input=script, text=True, capture_output=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@cache
def _can_mount() -> bool:
    try:
        probe = ["unshare", *_user(), "--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"]
        return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False


def _user() -> list[str]:
    return [] if os.getuid() == 0 else ["--map-root-user"]


_FILL = """
import errno
def fill():
    with (disk / "ballast").open("ab", buffering=0) as file:
        for size in (4096, 256, 16, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
def free():
    (disk / "ballast").unlink()
"""

_LIMIT = """
import resource
def full(now):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit} if now else hard, hard))
"""
