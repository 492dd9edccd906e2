"""Games on the real client library `neuro-api`, in an environment of its own (its loop is trio's), built once under .cache/neuro.

Everything stays on the loopback; a game ends with the test that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "neuro"
REQUIREMENT = "neuro-api>=4,<5"
SCRIPT = Path(__file__).with_name("neuro_tables.py")


class CannotInstallError(Exception):
    """The library could not be installed on this machine; the message says what pip said."""


def interpreter() -> Path:
    """The Python that has the library, installed now if this is the first time.

    Raises:
        CannotInstallError: there is none for this machine.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    venv = CACHE / f"venv-{sys.version_info.major}.{sys.version_info.minor}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "complete").exists():
            shutil.rmtree(venv, ignore_errors=True)
            try:
                subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True, text=True)
                subprocess.run(
                    [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
            except (subprocess.CalledProcessError, OSError) as exc:
                said = (getattr(exc, "stderr", "") or "").strip() or repr(exc)
                raise CannotInstallError(f"neuro-api cannot be installed here: {said.splitlines()[-1]}") from exc
            (venv / "complete").touch()
    return venv / "bin" / "python"


class RunningGame:
    """A game in a process of its own; `lines` is what it told so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.ended = False
        self._news = asyncio.Condition()

    async def read(self) -> None:
        """Takes in what the game tells, until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._news:
                try:
                    self.lines.append(json.loads(line))
                except ValueError:
                    self.lines.append({"what": "noise", "text": line.decode(errors="replace")})
                self._news.notify_all()
        async with self._news:
            self.ended = True
            self._news.notify_all()

    def all(self, what: str) -> list[dict[str, Any]]:
        """What it told of one sort."""
        return [line for line in self.lines if line["what"] == what]

    async def until(self, ready: Callable[[], bool], within_s: float = 60.0) -> None:
        """Waits until what it told satisfies `ready`."""
        try:
            async with asyncio.timeout(within_s), self._news:
                await self._news.wait_for(lambda: ready() or self.ended)
        except TimeoutError:
            raise AssertionError(f"not within {within_s:g} s; the game told: {self.lines[-20:]}") from None
        assert ready(), f"the game ended; it told: {self.lines[-20:]}"

    async def tells(self, what: str, times: int = 1, within_s: float = 60.0) -> dict[str, Any]:
        """Waits until it has told this so often; the newest."""
        await self.until(lambda: len(self.all(what)) >= times, within_s)
        return self.all(what)[-1]


@asynccontextmanager
async def playing(python: Path, name: str, port: int) -> AsyncIterator[RunningGame]:
    """A game that connects to 127.0.0.1:`port`, again and again."""
    process = await asyncio.create_subprocess_exec(
        python, SCRIPT, name, f"ws://127.0.0.1:{port}", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, limit=1 << 24,
    )  # fmt: skip
    game = RunningGame(process)
    reader = asyncio.create_task(game.read())
    try:
        yield game
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await reader
