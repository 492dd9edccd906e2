"""A real Evennia server for tests: its own environment and a seeded game, built once under .cache/evennia, copied and started per run.

Everything listens on the loopback only, on ports that were free at the start, and ends by process id. What a run changes dies with its
copy of the game. Two runs at a time do not meet.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as sync_connect

from world_adapter import evennia_inputfuncs

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "evennia"
REQUIREMENT = "evennia>=5.0.1,<7"
# The series depends on the interpreter: 3.11 gets Evennia 5, 3.12 and newer get 6. Any other one may be named.
INTERPRETER = os.environ.get("NPC_EVENNIA_PYTHON", sys.executable)
START_S = 120.0
PORTS = ("WEB", "WEB_INTERNAL", "WEBSOCKET", "AMP")

SETTINGS = """
import os

TELNET_ENABLED = SSH_ENABLED = SSL_ENABLED = False
WEBSERVER_ENABLED = True  # without it the websocket is off too
WEBSERVER_PORTS = [(int(os.environ["EVENNIA_TEST_WEB"]), int(os.environ["EVENNIA_TEST_WEB_INTERNAL"]))]
WEBSOCKET_CLIENT_PORT = int(os.environ["EVENNIA_TEST_WEBSOCKET"])
AMP_PORT = int(os.environ["EVENNIA_TEST_AMP"])
WEBSERVER_INTERFACES = ["127.0.0.1"]
WEBSOCKET_CLIENT_INTERFACE = AMP_HOST = AMP_INTERFACE = "127.0.0.1"
LOGIN_THROTTLE_LIMIT = CREATION_THROTTLE_LIMIT = 1000
GAME_INDEX_ENABLED = False
"""

# Run once, in the game's folder: database, superuser, and the seed, where the server's first start would look for it too.
SETUP = """
import sys

import django

django.setup()
import evennia

evennia._init()
from django.core.management import call_command
from evennia import create_account, create_object
from evennia.accounts.models import AccountDB
from evennia.server import initial_setup
from evennia.server.models import ServerConfig

call_command("migrate", verbosity=0)
AccountDB.objects.create_superuser({admin[0]!r}, "", {admin[1]!r})
initial_setup.create_objects()

rooms = {{}}
for name, desc in {rooms!r}.items():
    rooms[name] = create_object("typeclasses.rooms.Room", key=name)
    rooms[name].db.desc = desc
for here, way, there in {exits!r}:
    create_object("typeclasses.exits.Exit", key=way, location=rooms[here], destination=rooms[there])
create_object("typeclasses.objects.Object", key="rusty mug", location=rooms["Tavern"])
for name, (password, home) in {people!r}.items():
    account = create_account(name, None, password, typeclass="typeclasses.accounts.Account")
    body = create_object("typeclasses.characters.Character", key=name, location=rooms[home], home=rooms[home])
    body.locks.add("puppet:pid(%s) or perm(Developer)" % account.id)
    account.characters.add(body)
    account.db._last_puppet = body
ServerConfig.objects.conf("last_initial_setup_step", "done")
"""

ROOMS = {"Tavern": "A smoky tavern with a long oak bar.", "Yard": "A muddy yard behind the tavern."}
EXITS = [("Tavern", "north", "Yard"), ("Yard", "south", "Tavern")]
# Two that a test plays, one in each room, and some to be NPCs: each test has its own, so none finds what another left.
NPCS = ("Warden", "Maren", "Odo", "Ilse", "Tamm", "Runa")
PEOPLE = {name: (f"oak bar 17 {name}", "Yard" if name == "Carol" else "Tavern") for name in ("Bob", "Carol", *NPCS)}
ADMIN = ("admin", "oak bar 17 admin")
SEED = SETUP.format(admin=ADMIN, people=PEOPLE, rooms=ROOMS, exits=EXITS)


class CannotInstallError(Exception):
    """Evennia could not be installed on this machine; the message says what pip said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A login of the seeded game, which plays the character of the same name."""

    name: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenniaServer:
    """A running server.

    Attributes:
        port: of the websocket, on 127.0.0.1.
        folder: the game's folder, with its logs.
        people: logins by name. "Bob" stands in the Tavern and "Carol" in the Yard, for scripted players; the names of NPCS all begin in
            the Tavern, whose exit `north` leads to the Yard and back by `south`; "admin" may do anything.
    """

    port: int
    folder: Path
    people: Mapping[str, Account]

    @property
    def url(self) -> str:
        return f"evennia+ws://127.0.0.1:{self.port}"


class ScriptedPlayer:
    """A person at a keyboard: a plain websocket client that knows nothing of the adapter.

    `async with ScriptedPlayer(server, "Bob") as bob: await bob.do("say hello"); await bob.hears(lambda text: "hello" in text)`
    """

    def __init__(self, server: EvenniaServer, name: str) -> None:
        self._server = server
        self._account = server.people[name]
        self._read = 0
        self.lines: list[str] = []
        self._ws: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        self._ws = await connect(f"ws://127.0.0.1:{self._server.port}/", proxy=None)
        await self.hears(lambda text: "Welcome" in text)
        await self.do(f'connect "{self._account.name}" "{self._account.password}"')
        await self.hears(lambda text: text == f"You become {self._account.name}.")
        await self.hears(lambda text: "Exits:" in text or self._account.name == ADMIN[0])
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        assert self._ws is not None
        with contextlib.suppress(ConnectionClosed):
            await self.do("quit")
        await self._ws.close()

    async def do(self, command: str) -> None:
        """Types one command."""
        assert self._ws is not None
        await self._ws.send(json.dumps(["text", [command], {}]))

    async def hears(self, fits: Callable[[str], bool], within_s: float = 20.0) -> str:
        """The next line that fits, among those not looked at before; the ones before it count as looked at."""
        assert self._ws is not None
        deadline = time.monotonic() + within_s
        while True:
            while self._read < len(self.lines):
                self._read += 1
                if fits(self.lines[self._read - 1]):
                    return self.lines[self._read - 1]
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                frame = json.loads(await self._ws.recv())
            if frame[0] == "text":
                self.lines.append(_plain(frame[1][0]))


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<br\s*/?>", "\n", markup))).strip()


@contextmanager
def running(*, drop_in: bool = False) -> Iterator[EvenniaServer]:
    """A server with the seeded game, from a cold start if need be; stopped at the end whatever happens. With `drop_in` it can `npc_look`.

    Raises:
        CannotInstallError: there is no Evennia for this machine.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    _sweep()
    python, seeded = _seeded_game()
    folder = Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=CACHE))
    game = folder / "game"
    try:
        shutil.copytree(seeded, game)
        if drop_in:
            # As docs/evennia.md tells people to.
            shutil.copyfile(evennia_inputfuncs.__file__, game / "server" / "conf" / "npc_inputfuncs.py")
            with (game / "server" / "conf" / "settings.py").open("a") as settings:
                settings.write('\nINPUT_FUNC_MODULES += ["server.conf.npc_inputfuncs"]\n')
        environment = _environment(python, game)
        with _processes(python, game, environment):
            port = int(environment["EVENNIA_TEST_WEBSOCKET"])
            people = {name: Account(name=name, password=password) for name, (password, _) in PEOPLE.items()}
            people[ADMIN[0]] = Account(name=ADMIN[0], password=ADMIN[1])
            yield EvenniaServer(port=port, folder=game, people=people)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _seeded_game() -> tuple[Path, Path]:
    """The environment's Python and a game after its first start, made now if this is the first time."""
    series = subprocess.run(
        [INTERPRETER, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    venv = CACHE / f"venv-{series}"
    python = venv / "bin" / "python"
    game = CACHE / f"game-{series}-{hashlib.sha256((SETTINGS + SEED + REQUIREMENT).encode()).hexdigest()[:12]}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "complete").exists():
            shutil.rmtree(venv, ignore_errors=True)
            _install(venv)
            (venv / "complete").touch()
        if not game.exists():
            _seed(python, game)
    return python, game


def _install(venv: Path) -> None:
    try:
        subprocess.run([INTERPRETER, "-m", "venv", venv], check=True, capture_output=True, text=True)
        subprocess.run(
            [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    except (subprocess.CalledProcessError, OSError) as exc:
        said = getattr(exc, "stderr", "") or str(exc)
        raise CannotInstallError(f"Evennia cannot be installed here: {said.strip().splitlines()[-1] if said.strip() else exc!r}") from exc


def _seed(python: Path, game: Path) -> None:
    """Makes the game's folder by the launcher, then its database with the seed in it."""
    with tempfile.TemporaryDirectory(prefix="seed-", dir=CACHE) as scratch:
        made = Path(scratch) / "game"
        _call([python.parent / "evennia", "--init", "game"], cwd=Path(scratch), environment=dict(os.environ))
        with (made / "server" / "conf" / "settings.py").open("a") as settings:
            settings.write(SETTINGS)
        _call([python, "-c", SEED], cwd=made, environment=_environment(python, made))
        made.rename(game)


def _call(command: list[str | Path], *, cwd: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=START_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"making the game failed: {done.stdout[-2000:]}")


def _environment(python: Path, game: Path) -> dict[str, str]:
    with contextlib.ExitStack() as held:
        ports = []
        for _ in PORTS:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            ports.append(taken.getsockname()[1])
    chosen = {f"EVENNIA_TEST_{name}": str(port) for name, port in zip(PORTS, ports, strict=True)}
    # The portal starts the server anew after a reload, and looks for the program on the path.
    path = f"{python.parent}:{os.environ.get('PATH', '')}"
    return dict(os.environ) | chosen | {"PATH": path, "PYTHONPATH": str(game), "DJANGO_SETTINGS_MODULE": "server.conf.settings"}


@contextmanager
def _processes(python: Path, game: Path, environment: dict[str, str]) -> Iterator[None]:
    """Portal and server in the foreground as our children, without the launcher, which would take as long again."""
    place = subprocess.run(
        [python, "-c", "import importlib.util as u; print(u.find_spec('evennia').submodule_search_locations[0])"],
        check=True, capture_output=True, text=True, cwd=CACHE,
    ).stdout.strip()  # fmt: skip
    children: list[subprocess.Popen[bytes]] = []
    try:
        for name, script in (("portal", "portal/portal.py"), ("server", "server.py")):
            log = game / "server" / "logs" / f"{name}.out"
            with log.open("wb") as output:
                child = subprocess.Popen(
                    [python.parent / "twistd", "--nodaemon", f"--python={place}/server/{script}", f"--pidfile={game}/server/{name}.pid"],
                    cwd=game, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                )  # fmt: skip
            children.append(child)
            if name == "portal":
                # A server that finds no portal waits ever longer before it tries again.
                _wait(lambda: _listens(int(environment["EVENNIA_TEST_AMP"])), "the portal did not start", child, log)
            else:
                _wait(lambda: _echoes(int(environment["EVENNIA_TEST_WEBSOCKET"])), "the server did not start", child, log)
        yield
    finally:
        # A reload replaces the server by a process that is not our child.
        _end_all(game)
        for child in children:
            child.kill()
            child.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _echoes(port: int) -> bool:
    """Whether the server behind the portal answers. A new connection waits in a queue, so one is asked a few times."""
    try:
        with sync_connect(f"ws://127.0.0.1:{port}/", proxy=None) as ws:
            for _ in range(20):
                ws.send(json.dumps(["echo", ["up"], {}]))
                with contextlib.suppress(TimeoutError):
                    while "Echo" not in str(ws.recv(timeout=0.5)):
                        pass
                    return True
    except (OSError, ConnectionClosed):
        pass
    return False


def _wait(ready: Callable[[], bool], what: str, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not ready():
        if time.monotonic() > deadline or child.poll() is not None:
            raise RuntimeError(f"{what} within {START_S:g} s: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _sweep() -> None:
    """Ends what a test run left behind that was itself killed, and removes its copy of the game (where the system tells who lives)."""
    for folder in CACHE.glob("run-*-*"):
        if Path("/proc/self").exists() and not Path(f"/proc/{folder.name.split('-')[1]}").exists():
            _end_all(folder / "game")
            shutil.rmtree(folder, ignore_errors=True)


def _end_all(game: Path) -> None:
    """Ends the server and the portal of a game by the ids that they wrote down, if those are still theirs."""
    for name in ("server", "portal"):
        file = game / "server" / f"{name}.pid"
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int(file.read_text())
            if not Path("/proc/self").exists() or str(file).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                _end(pid)


def _end(pid: int) -> None:
    """Ends one process that we started, in good order if it will."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            os.kill(pid, 0)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
