"""The game's side of the Neuro API, for tests: recorded games, a link driven by hand, and a client on a real websocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from world_adapter.effects import ActionsChanged, Attached, Deliver, Detached, Hangup, Result, Send
from world_adapter.frames import ActResult, Observation
from world_adapter.neuro_force import Patience
from world_adapter.neuro_link import NeuroLink

RECORDINGS = Path(__file__).parent / "recordings"
TICTACTOE, ESCAPE, GUESS = (
    f"neuro_{name}" for name in ("tictactoe", "terminal_escape_faults_reconnect", "guess_number_endless_force")
)
GAME = "Parlour Games"
PATIENCE_S = 10.0
_E = TypeVar("_E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that happened in a recorded game; `frame` is a map, a text that was no frame, or what the recorder noted."""

    t: float
    inward: bool
    frame: Any

    @property
    def note(self) -> str:
        return str(self.frame.get("_note", "")) if isinstance(self.frame, dict) else ""

    @property
    def command(self) -> str:
        return str(self.frame.get("command", "")) if isinstance(self.frame, dict) else ""


def recording(name: str) -> Iterator[Row]:
    """A game with a real client library, as it was recorded."""
    for line in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        yield Row(t=row["t"], inward=row["dir"] == "in", frame=row["frame"])


def frame(command: str, game: str = GAME, **data: Any) -> str:
    """A frame of a game's."""
    return json.dumps({"command": command, "game": game, **({"data": data} if data else {})})


def offer(*names: str, schema: Mapping[str, Any] | None = None) -> str:
    """Registers actions."""
    listed = [{"name": name, "description": f"Does {name}.", **({} if schema is None else {"schema": schema})} for name in names]
    return frame("actions/register", actions=listed)


def force(*names: str, query: str = "Your turn.", **more: Any) -> str:
    """Forces one of these actions."""
    return frame("actions/force", query=query, action_names=list(names), **more)


def result(tag: str, message: str = "", *, success: bool = True) -> str:
    """The result of an action."""
    return frame("action/result", id=tag, success=success, **({"message": message} if message else {}))


class Table:
    """A link with a clock that only the test moves, and all that it ever wanted, sorted."""

    def __init__(self, **patience: Any) -> None:
        self.patience = Patience(**patience)
        self.link = NeuroLink(npc="warden", display_name="The Warden", epoch="e1", patience=self.patience)
        self.now = 100.0
        self.wanted: list[Any] = []

    @classmethod
    def set(cls, *names: str, **patience: Any) -> Self:
        """A game that has started and offers these actions."""
        table = cls(**patience)
        table.connect()
        table.says(frame("startup"))
        if names:
            table.says(offer(*names))
        return table

    def connect(self) -> None:
        self.link.connected("s1", self.now)
        self._take()

    def close(self) -> None:
        self.link.closed("The game has closed the link.", self.now)
        self._take()

    def says(self, *frames: str | bytes) -> None:
        for each in frames:
            self.link.received(each, self.now)
        self._take()

    def act(self, tag: str, name: str, timeout_s: float = 30.0, **args: Any) -> None:
        self.link.act(tag=tag, name=name, args=args, timeout_s=timeout_s, now=self.now)
        self._take()

    def leave(self) -> None:
        self.link.leave(self.now)
        self._take()

    def later(self, seconds: float) -> None:
        """Time passes, and every deadline on the way is kept."""
        end = self.now + seconds
        for _ in range(1_000):
            due = self.link.deadline
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.link.tick(self.now)
            self._take()
        else:
            raise AssertionError("a deadline that does not move: the shell would spin")
        self.now = end

    def _take(self) -> None:
        self.wanted += self.link.effects()

    def all(self, kind: type[_E]) -> list[_E]:
        return [effect for effect in self.wanted if isinstance(effect, kind)]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """What the game got."""
        return [json.loads(effect.data) for effect in self.all(Send)]

    @property
    def acts(self) -> list[tuple[str, str, Any]]:
        """Actions that the game got: id, name, arguments."""
        data = [each["data"] for each in self.sent if each["command"] == "action"]
        return [(each["id"], each["name"], json.loads(each["data"])) for each in data]

    @property
    def told(self) -> list[Observation]:
        """What the NPC was told."""
        return [item for effect in self.all(Deliver) for item in effect.items]

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.told]

    @property
    def forces(self) -> list[Observation]:
        return [each for each in self.told if each.kind == "force"]

    def waits(self) -> bool:
        """Whether a force is in force."""
        return self.link.force is not None

    @property
    def results(self) -> dict[str, ActResult]:
        """By id; that there is never a second one but of an unknown first is asserted here."""
        found: dict[str, ActResult] = {}
        for effect in self.all(Result):
            former = found.get(effect.result.id)
            assert former is None or former.state == "unknown", "one result per action"
            found[effect.result.id] = effect.result
        return found

    @property
    def offered(self) -> list[str]:
        """The names on the newest list of actions."""
        lists = self.all(ActionsChanged)
        return [spec.name for spec in lists[-1].actions] if lists else []

    @property
    def worlds(self) -> list[str]:
        return [effect.world for effect in self.all(Attached)]

    @property
    def gone(self) -> list[str]:
        return [effect.why for effect in self.all(Detached)]

    @property
    def hangups(self) -> list[int]:
        return [effect.code for effect in self.all(Hangup)]


class Game:
    """A game on a real websocket. `async with Game(port) as game: await game.says(…); await game.gets("action")`."""

    def __init__(self, port: int, **how: Any) -> None:
        self._port, self._how = port, how
        self.got: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None
        self._read = 0
        self._news = asyncio.Condition()
        self._ws: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._ws = await connect(f"ws://127.0.0.1:{self._port}", proxy=None, **self._how)
        self._reader = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        assert self._ws is not None
        assert self._reader is not None
        await self._ws.close()
        await self._reader

    async def _listen(self) -> None:
        assert self._ws is not None
        try:
            while True:
                message = await self._ws.recv()
                assert isinstance(message, str), "the protocol knows text frames only"
                self.got.append(json.loads(message))
                await self._tell()
        except ConnectionClosed as closed:
            self.closed = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
            await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def says(self, *messages: str | bytes) -> None:
        assert self._ws is not None
        for message in messages:
            await self._ws.send(message)

    async def breaks(self) -> None:
        """The line breaks, without a word."""
        assert self._ws is not None
        self._ws.transport.abort()
        await self._ws.wait_closed()

    async def gets(self, command: str) -> dict[str, Any]:
        """The next frame with this command among those not looked at before; the ones before it count as looked at."""

        def found() -> bool:
            while self._read < len(self.got):
                self._read += 1
                if self.got[self._read - 1]["command"] == command:
                    return True
            return False

        await self.until(found)
        return self.got[self._read - 1]

    async def until(self, ready: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: bool(ready()))
