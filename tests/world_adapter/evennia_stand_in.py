"""A tiny server that speaks Evennia's websocket as the real one was seen to: frames, order, wording, faults. One account, two rooms."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

USER, NAME = "warden", "Warden"
SCREEN = '<br><span class="color-012">====</span><br> Welcome to <span class="color-010">standin</span>, version 5.0.1!<br>'
ROOMS = {
    "Tavern": "A smoky tavern with a long oak bar.<br>Exits: north<br>Characters: Bob<br>You see: a rusty mug",
    "Yard": "A muddy yard behind the tavern.<br>Exits: south and old gate<br>Characters: Carol",
}
EXITS = {("Tavern", "north"): "Yard", ("Yard", "south"): "Tavern"}


class StandIn:
    """Listens on a free port of the loopback. Attributes may be changed at any time.

    Attributes:
        sights: what the drop-in tells of the room, where the game has it.
        has_echo: knows the inputs `echo` and `get_value`.
        password: of the account.
        puppets: puts the account into its character at login.
        up: the server behind the portal runs; while it does not, inputs are lost.
        deaf_after: commands whose answers, and all that follows, are lost once the command has run.
        scripted: answers to commands, instead of the built-in ones: (text, sort) pairs, or a coroutine function.
        commands: every command that ran.
        swallowed: inputs lost while the server was down.
    """

    def __init__(self) -> None:
        self.password = "correct horse 7"
        self.sights: dict[str, Any] | None = None
        self.has_echo = True
        self.puppets = True
        self.up = True
        self.deaf_after: set[str] = set()
        self.scripted: dict[str, list[tuple[str, str]]] = {}
        self.commands: list[str] = []
        self.logins = 0
        self.swallowed = 0
        self.room = "Tavern"
        self.ran = asyncio.Condition()
        self.in_body = False
        self._ws: ServerConnection | None = None
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        quiet = logging.getLogger("tests.evennia_stand_in")
        quiet.setLevel(logging.WARNING)  # its side of the wire would show the login
        self._server = await serve(self._session, "127.0.0.1", 0, logger=quiet, max_size=None)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"evennia+ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    async def tell(self, text: str, sort: str = "", **kwargs: Any) -> None:
        """One line to the NPC, as HTML."""
        await self.frame("text", [text], {**({"type": sort} if sort else {}), **kwargs})

    async def frame(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        await self.raw(json.dumps([name, args, kwargs]))

    async def raw(self, message: str | bytes) -> None:
        assert self._ws is not None
        await self._ws.send(message)

    async def hang_up(self, code: int = 1000, reason: str = "") -> None:
        assert self._ws is not None
        await self._ws.close(code, reason)

    async def until(self, ready: Callable[[], bool]) -> None:
        """Waits until something that `ready` looks at has happened here."""
        async with asyncio.timeout(10), self.ran:
            await self.ran.wait_for(ready)

    async def look(self) -> None:
        await self.tell(f"{self.room}<br>{ROOMS[self.room]}", "look")

    async def _session(self, ws: ServerConnection) -> None:
        self._ws, self.in_body = ws, False
        if self.up:
            await self.tell(SCREEN)
        try:
            async for message in ws:
                name, args, kwargs = json.loads(message)
                if self.up:
                    await self._input(name, args, kwargs)
                else:
                    self.swallowed += 1
                async with self.ran:
                    self.ran.notify_all()
        except ConnectionClosed:
            return

    async def _input(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        if name == "text":
            await self._command(args[0])
        elif name == "login":
            await self._log_in(kwargs["name"] == USER and kwargs["password"] == self.password)
        elif name == "echo" and self.has_echo:
            await self.tell(f"Echo returns: ['{args[0]}'], {{}}")
        elif name == "get_inputfuncs":
            await self.frame("get_inputfuncs", [], {"echo": "", "get_value": ""} | ({"npc_look": ""} if self.sights is not None else {}))
        elif name == "npc_look" and self.sights is not None:
            await self.frame("npc_look", [], {"room": self.room, **self.sights})
        elif name == "get_value" and self.has_echo:
            values = {"name": NAME if self.in_body else USER, "servername": "standin"}
            if self.in_body:
                values["location"] = self.room
            if kwargs["name"] in values:
                await self.frame("get_value", [], {"name": kwargs["name"], "value": values[kwargs["name"]], "options": {}})

    async def _log_in(self, fits: bool) -> None:
        if not fits:
            await self.tell('<span class="color-001">Username and/or password is incorrect.</span>')
            return
        self.logins += 1
        await self.frame("logged_in", [], {"options": {}})
        if self.puppets:
            await self._take_body()
        else:
            await self.tell("You are out-of-character (OOC).<br>Use ic to get back into the game.")

    async def _take_body(self) -> None:
        self.in_body = True
        await self.tell(f"<br>You become {NAME}.<br>")
        await self.look()

    async def _command(self, line: str) -> None:
        verb, _, rest = line.partition(" ")
        if verb == "connect":
            await self._log_in(rest == f'"{USER}" "{self.password}"')
            return
        if verb == "idle":
            return
        self.commands.append(line)
        if line in self.deaf_after:
            self.up = False
            return
        if line in self.scripted:
            for text, sort in self.scripted[line]:
                await self.tell(text, sort)
        elif verb == "ic":
            await self._take_body()
        elif verb == "say":
            await self.tell(f'You say, "<span class="">{rest.replace("||", "|")}</span>"', "say")
        elif verb == "pose":
            await self.tell(f"{NAME} {rest}", "pose")
        elif line == "look":
            await self.look()
        elif verb == "get":
            await self.tell(f"You pick up a {rest}." if rest == "rusty mug" else f"Could not find &#x27;{rest}&#x27;.")
        elif (self.room, line) in EXITS:
            self.room = EXITS[self.room, line]
            await self.look()
        else:
            await self.tell(f"Command '{line}' is not available. Type \"help\" for help.")
