"""A real Minecraft server and our bridge to it, for tests: packages installed once under .cache/minecraft, processes started per test.

Everything listens on the loopback only, on ports that were free at the start, and ends by process id.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "minecraft"
BRIDGE = ROOT / "world_adapter" / "minecraft"
GAME = Path(__file__).parent / "minecraft"
VERSION = "1.18.2"
TOKEN = "oak bar 17"
PATIENCE_S = 60.0


class CannotInstallError(Exception):
    """The packages could not be installed on this machine; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Folders that are ready to run: our bridge with its tests, and the server for tests."""

    bridge: Path
    game: Path


def installed() -> Packages:
    """Both packages with what their lock files name, installed now if that was not done before.

    Raises:
        CannotInstallError: npm or node is missing, or npm failed.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise CannotInstallError(f"the Minecraft bridge needs {program}, which is not installed here")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Packages(bridge=_installed("bridge", BRIDGE), game=_installed("game", GAME))


def _installed(name: str, source: Path) -> Path:
    """The source's files beside node_modules that fit its lock file; the sources are copied anew each time, they are small."""
    wanted = hashlib.sha256((source / "package-lock.json").read_bytes() + (source / "package.json").read_bytes()).hexdigest()[:12]
    folder = CACHE / f"{name}-{wanted}"
    if not (folder / "complete").exists():
        for old in CACHE.glob(f"{name}-*"):
            shutil.rmtree(old, ignore_errors=True)
        folder.mkdir()
        for each in ("package.json", "package-lock.json"):
            shutil.copy(source / each, folder / each)
        # No scripts: nothing that a package brings may run or fetch anything at install time.
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise CannotInstallError(f"npm could not install the packages of {source.name}: {done.stdout.strip()[-300:]}")
        (folder / "complete").touch()
    for script in (*source.glob("*.*js"), *source.glob("test/*.js")):
        target = folder / script.relative_to(source)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(script.read_bytes())
    return folder


class Game:
    """A running Minecraft server, and players that are told what to do.

    `await game.do("join", name="Bob")`, `await game.do("say", name="Bob", text="hello")`, then
    `await game.hears("Bob", lambda text: "hi" in text)`.
    The wishes are those of `minecraft/game.cjs`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.port = 0
        self.lines: list[tuple[str, str]] = []  # who heard it, and what
        self._writer = writer
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(reader))

    async def do(self, wish: str, **args: Any) -> dict[str, Any]:
        """One wish, once it is carried out."""
        number = len(self._answers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"id": number, "do": wish, **args}).encode() + b"\n")
        said: dict[str, Any] = await asyncio.wait_for(answer, PATIENCE_S)
        assert "error" not in said, said["error"]
        return said

    async def hears(self, name: str, fits: Callable[[str], bool]) -> str:
        """The first line of chat, of all since the start, that a player heard and that fits."""
        found = ""

        def there() -> bool:
            nonlocal found
            found = next((text for who, text in self.lines if who == name and fits(text)), "")
            return bool(found)

        async with self._news:
            await asyncio.wait_for(self._news.wait_for(there), PATIENCE_S)
        return found

    async def listening(self) -> None:
        """Waits until the server takes players."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: self.port > 0), PATIENCE_S)

    async def end(self) -> None:
        """Hangs up."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            fact = json.loads(line)
            async with self._news:
                if "listening" in fact:
                    self.port = fact["listening"]
                elif "heard" in fact:
                    self.lines.append((fact["by"], fact["heard"]))
                else:
                    self._answers[fact["answer"]].set_result(fact)
                self._news.notify_all()


@asynccontextmanager
async def playing(packages: Packages, folder: Path, *, port: int = 0) -> AsyncIterator[Game]:
    """A Minecraft server on a port of its own, or on the one that is named."""
    connected: asyncio.Future[Game] = asyncio.get_running_loop().create_future()
    control = await asyncio.start_server(lambda reader, writer: connected.set_result(Game(reader, writer)), "127.0.0.1", 0)
    with _log(folder, "game") as log:
        process = await asyncio.create_subprocess_exec(
            *("node", str(packages.game / "game.cjs"), str(port or free_port()), str(control.sockets[0].getsockname()[1])),
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        game = await asyncio.wait_for(connected, PATIENCE_S)
        try:
            await game.listening()
            yield game
        finally:
            await game.end()
    finally:
        await _ended(process)
        control.close()
        await control.wait_closed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """A running bridge: where agents attach, its process, and what it wrote."""

    url: str
    process: Process
    log: Path


@asynccontextmanager
async def bridged(packages: Packages, folder: Path, game_port: int, *more: str) -> AsyncIterator[Bridge]:
    """Our bridge to a Minecraft server at a port of this machine. Agents must bear TOKEN."""
    path = folder / "bridge.log"
    where = ("--minecraft", f"127.0.0.1:{game_port}", "--listen", "0", "--version", VERSION)
    with _log(folder, "bridge") as log:
        process = await asyncio.create_subprocess_exec(
            *("node", str(packages.bridge / "main.js"), *where, *more),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "MINECRAFT_BRIDGE_TOKEN": TOKEN},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        said = (await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)).decode()
        assert said.startswith("listening on ws://127.0.0.1:"), said + path.read_text()
        yield Bridge(url=said.split()[2], process=process, log=path)
    finally:
        await _ended(process)


def _log(folder: Path, name: str) -> BinaryIO:
    folder.mkdir(exist_ok=True)
    return (folder / f"{name}.log").open("ab")


async def _ended(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()
    # What asyncio keeps of a pipe is freed with its transport.
    with contextlib.suppress(AttributeError):
        process._transport.close()  # type: ignore[attr-defined]


def free_port() -> int:
    """A port that nobody has just now."""
    with _bound() as taken:
        number: int = taken.getsockname()[1]
        return number


@contextmanager
def _bound() -> Iterator[socket.socket]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken
