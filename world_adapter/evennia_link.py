"""One connection to an Evennia server, from the handshake to the close: login, listening, and commands with their answers.

Evennia has no ids that tie an answer to a command. But a server runs what one session sends in order and at once, and its `echo` input
gives back any word of ours. So a command travels between two questions, each of them "where am I" and a word never used before. The
answer to the first proves that the server is up and the character in its body, which a reload or reset takes away for seconds; what
arrives until the second, and is of a sort that the command can cause, is the command's answer. Invariant: no line is lost or told
twice. It goes to the command that caused it or to the ears, and a deed that others see too goes to both. A server without `echo` gets a
window of time instead of the second question.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

from world_adapter import cleaning
from world_adapter.errors import WorldRefused, WorldUnreachable
from world_adapter.evennia_actions import Command
from world_adapter.evennia_exchange import Exchange, Verdict
from world_adapter.evennia_text import Ears, Heard, Room, html_to_text
from world_adapter.frames import ActState

MAX_FRAME = 4_194_304  # bytes taken in one frame; a usual client's 1 MiB ends the connection at one long `say` of a player
MAX_MARKUP = 1_048_576  # characters of one text that are parsed, the rest is named as cut
SCREEN_S = 20.0  # until the login screen answers; a busy server queues connections
LOGIN_S = 15.0
ASK_S = 1.0  # between two questions to a server that does not answer
SETTLE_S = 1.5  # for an answer that comes after its command has returned
WINDOW_S = 3.0  # for an answer where the server has no `echo`
WATCH_S = 30.0  # between two looks whether the character is still in the game; also keeps servers from dropping us as idle
MAX_PEOPLE = 200
MAX_OPEN = 8  # commands whose outcome is still awaited

# The library logs every frame at DEBUG, the login with its password among them: its logger here never goes that low.
_wire = logging.getLogger("world_adapter.evennia.wire")
_wire.setLevel(logging.INFO)


class Ground(Protocol):
    """Who gets what one connection hears. Plain calls on the event loop's thread, in order."""

    def heard(self, heard: Heard) -> None:
        """A line that no command caused, or a deed of our own that others see too. Of kind "moved" when the NPC stands in another room."""

    def late(self, tag: str, verdict: Verdict) -> None:
        """What became of a command whose caller had given up waiting."""


class LinkLost(Exception):  # noqa: N818 - an event in a link's life, not somebody's mistake
    """The connection is gone or of no use. The message is one plain sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who we are to the server. The password is in no representation."""

    user: str
    password: str = field(repr=False)
    character: str = ""
    names: tuple[str, ...] = ()  # further ones that the NPC answers to


class EvenniaLink:
    """One connection. `open` logs in, `listen` runs until the end, `perform` carries one command at a time.

    Args:
        url: of the websocket.
        login: who we are to the server.
        ground: who gets what is heard.
        direct: never by way of the environment's proxy.

    Attributes:
        name: the character's name, which is the NPC's id in this world.
        server: the name that the game gives itself, "" where it does not tell.
        room: where the NPC stands, as far as it was seen.
        odd_frames: how many frames could not be understood.
        last_tag: of the newest command that was sent, wholly or in part.
    """

    def __init__(self, url: str, login: Login, ground: Ground, *, direct: bool = False) -> None:
        self.name = login.character or login.user
        self.server = ""
        self.room: Room | None = None
        self.odd_frames = 0
        self.last_tag = ""
        self._direct = direct
        self._url = url
        self._login = login
        self._ground = ground
        self._ws: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._ended = False
        # Questions and their answers, by number; a server answers in order.
        self._word = secrets.token_hex(6)
        self._echo = re.compile(rf"Echo returns: \[['\"]{self._word}-(\d+)['\"]\]")
        self._asked = 0
        self._answered = 0
        self._fenced = False
        # Where the server last said that we are; only while it stands a character in a room does it say so.
        self._told: str | None = None
        self._place: str | None = None
        self._tells_place = False
        self._logged_in = False
        self._called = ""  # the name that the server tells for us: the character's, or out of a body the account's
        self._became = ""  # the name in "You become …"
        self._screen: list[tuple[str, str, bool]] | None = []  # lines until `listen`, as (text, sort, from a channel)
        self._exchanges: list[Exchange] = []
        self._people: dict[str, None] = {}

    # Opening

    async def open(self) -> None:
        """Connects, logs in and takes the character's body.

        Raises:
            WorldRefused: the login is wrong, or the account has nobody to play.
            WorldUnreachable: nothing answers, or not in time.
            LinkLost: the connection broke on the way.
        """
        try:
            self._ws = await connect(
                self._url,
                subprotocols=[Subprotocol("v1.evennia.com")],  # the 6 series picks in its own order, older ones pick none
                max_size=MAX_FRAME,
                open_timeout=10,
                close_timeout=3,
                logger=_wire,
                proxy=None if self._direct else True,
            )
        except InvalidURI as exc:
            raise WorldRefused(f"{self._url} is not the address of a websocket.") from exc
        except (OSError, InvalidHandshake, ConnectionClosed) as exc:
            why = " ".join(str(exc).split())[:200] or type(exc).__name__
            raise WorldUnreachable(f"No Evennia websocket answers at {self._url}: {why}.") from exc
        self._reader = asyncio.create_task(self._read(self._ws), name="evennia reader")
        try:
            await self._await_server()
            await self._log_in()
            await self._take_body()
        except BaseException:
            await self.close()
            raise

    async def _await_server(self) -> None:
        """Until the server itself answers and not only its portal: by `echo`, or where there is none by its login screen."""
        first = await self._ask()
        for _ in range(round(SCREEN_S / ASK_S)):
            if await self._answer_to(first, ASK_S):
                self._fenced = True
                # The screen is composed behind the scenes; waiting keeps it from being taken for an answer to the login.
                await self._until(lambda: bool(self._screen), WINDOW_S)
                return
            if self._screen and self._asked >= 3:
                return
            await self._ask()
        raise WorldUnreachable(f"The portal at {self._url} takes connections but its game server does not answer.")

    async def _log_in(self) -> None:
        user, password = self._login.user, self._login.password
        self._screen = []
        await self._send("client_options", nocolor=True)
        if '"' in user + password:
            # The command cannot carry a quotation mark, the input function can.
            await self._send("login", name=user, password=password)
        else:
            await self._send("text", f'connect "{user}" "{password}"')
        end = await self._ask()
        if self._fenced:
            await self._until(lambda: self._logged_in or (self._answered >= end and bool(self._screen)), LOGIN_S)
        else:
            await self._until(lambda: self._logged_in or bool(self._screen), LOGIN_S)
            await self._until(lambda: self._logged_in, WINDOW_S)
        if not self._logged_in:
            self._refuse_login()

    def _refuse_login(self) -> None:
        said = " ".join(" ".join(text.split()) for text, _, _ in self._screen or ())[:200].rstrip(".")
        if not said:
            raise WorldUnreachable(f"The server at {self._url} did not answer the login.")
        if "too many" in said.casefold():
            raise WorldUnreachable(f"The server at {self._url} asks to wait: {said}.")
        raise WorldRefused(
            f"The Evennia server at {self._url} refused the login of {self._login.user!r} ({said}); "
            "check NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD.",
        )

    async def _take_body(self) -> None:
        """Into the character: the server puts accounts that have one into it, `ic` does it for the others."""
        wanted = self._login.character
        for attempt in range(2):
            await self._send("get_value", name="name")
            await self._send("get_value", name="servername")
            end = await self._ask()
            await self._answer_to(end, LOGIN_S if self._fenced else WINDOW_S)
            if self._place is not None or self._became:
                self.name = (self._called if self._place is not None else "") or self._became or self.name
                if not wanted or wanted.casefold() == self.name.casefold():
                    return
            if attempt == 0:
                self._became = ""
                await self._send("text", f"ic {wanted}".strip())
        raise WorldRefused(
            f"The account {self._login.user!r} at {self._url} has no character {wanted or 'to play'}; "
            "create one on the server or name another.",
        )

    # Life

    async def listen(self) -> None:
        """Until the connection ends; first what was heard during the login.

        Raises:
            WorldRefused: somebody else logged in with this account.
            LinkLost: it ended for another reason.
        """
        if self._reader is None or self._ws is None:
            raise LinkLost("The connection was never opened.")
        early, self._screen = self._screen or [], None
        for text, sort, from_channel in early:
            if not text.startswith("You become "):
                self._route(text, sort, from_channel=from_channel)
        if self.room is None:
            await self._send("text", "look")
        watch = asyncio.create_task(self._watch(), name="evennia watch")
        try:
            await self._reader
        finally:
            watch.cancel()
        code, reason = self._ws.close_code, self._scrubbed(cleaning.name(self._ws.close_reason or "", 200)).rstrip(".")
        if code == 1000 and "elsewhere" in reason.casefold():
            raise WorldRefused(
                f"The Evennia server at {self._url} ended the link of {self._login.user!r} ({reason}): one account plays one NPC; "
                "stop the other one or give this one an account of its own.",
                code=1000,
            )
        raise LinkLost(f"The game server closed the link (code {code}{f', {reason}' if reason else ''}).")

    async def _watch(self) -> None:
        try:
            while True:
                await asyncio.sleep(WATCH_S)
                await self._send("text", "idle")
                if self._fenced:
                    await self._ready()
        except LinkLost:
            return

    async def close(self) -> None:
        """Ends the connection in an orderly way. Idempotent."""
        if self._ws is not None:
            await self._ws.close()
        if self._reader is not None:
            await asyncio.wait({self._reader})

    # Commands

    async def perform(self, tag: str, command: Command) -> Verdict:
        """Sends one command and waits for what becomes of it. Never two at once; the caller limits the time by cancelling.

        Cancelled before anything was sent it leaves nothing behind (`last_tag` tells), after that the outcome goes to `Ground.late`.
        A link that breaks in between makes the verdict "unknown".

        Raises:
            LinkLost: nothing was sent, the link is gone or the character out of its body.
        """
        if self._fenced:
            await self._ready()
        exchange = Exchange(tag=tag, command=command, before=self._place)
        # The number is taken before anything is awaited: its answer may overtake the end of the sending.
        exchange.end = self._asked + 1
        self.last_tag = tag
        self._exchanges = [*self._exchanges[-MAX_OPEN + 1 :], exchange]
        try:
            await self._send("text", command.line)
            await self._ask()
            verdict = await self._outcome(exchange)
        except asyncio.CancelledError:
            exchange.abandoned = True
            if not self._fenced:
                self._drop(exchange)  # nothing would ever close it
            raise
        self._drop(exchange)
        return verdict

    async def _ready(self) -> None:
        """Until the server answers, however long a reload takes."""
        first = await self._ask()
        while not await self._answer_to(first, ASK_S):
            await self._ask()
        if self._tells_place and self._place is None:
            await self.close()
            raise LinkLost("The character is no longer in its body.")

    async def _outcome(self, exchange: Exchange) -> Verdict:
        if not self._fenced:
            await self._quietly(lambda: exchange.verdict is not None, WINDOW_S)
            exchange.close(None)
            self._settle(exchange)
            return exchange.verdict or (self._broken() if self._ended else exchange.conclude())
        while not (exchange.closed or exchange.lost or self._ended):
            await self._quietly(lambda: exchange.closed or exchange.lost, 2 * ASK_S)
            if not (exchange.closed or exchange.lost or self._ended):
                # Answers come in order: one to a later question shows that this command was lost.
                await self._ask()
        if exchange.closed and exchange.verdict is None:
            await self._quietly(lambda: exchange.verdict is not None, None if exchange.worth_waiting() else SETTLE_S)
        if exchange.verdict is not None:
            return exchange.verdict
        if exchange.lost:
            return Verdict(state=ActState.UNKNOWN, text="The game restarted meanwhile; whether it was done is not known.", code="lost")
        return self._broken() if self._ended else exchange.conclude()

    @staticmethod
    def _broken() -> Verdict:
        return Verdict(state=ActState.UNKNOWN, text="The link broke meanwhile; whether it was done is not known.", code="link_lost")

    # Sending

    async def _send(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        if self._ws is None or self._ended:
            raise LinkLost("The link to the game is down.")
        try:
            await self._ws.send(json.dumps([name, args, kwargs]))
        except ConnectionClosed as exc:
            raise LinkLost("The link to the game is down.") from exc

    async def _ask(self) -> int:
        """Asks where we are and for our next word back; returns the question's number."""
        self._asked += 1
        number = self._asked
        await self._send("get_value", name="location")
        await self._send("echo", f"{self._word}-{number}")
        return number

    async def _until(self, ready: Callable[[], bool], timeout_s: float | None) -> None:
        """Waits until `ready` or for so long.

        Raises:
            LinkLost: the connection ended first.
        """
        await self._quietly(ready, timeout_s)
        if self._ended and not ready():
            raise LinkLost("The link to the game is down.")

    async def _answer_to(self, number: int, timeout_s: float) -> bool:
        """Waits for the answer to a question, and whether it came."""
        await self._until(lambda: self._answered >= number, timeout_s)
        return self._answered >= number

    async def _quietly(self, ready: Callable[[], bool], timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not ready() and not self._ended:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return

    # Receiving

    async def _read(self, ws: ClientConnection) -> None:
        try:
            async for message in ws:
                self._frame(message)
                self._news.set()
        except ConnectionClosed:
            pass  # the code and the reason stay readable on the connection
        finally:
            self._ended = True
            self._news.set()

    def _frame(self, message: str | bytes) -> None:
        try:
            frame = json.loads(message)
        except (ValueError, RecursionError):
            frame = None
        match frame:
            case [str() as name, list() as args, dict() as kwargs]:
                self._input(name, args, kwargs)
            case _:
                self.odd_frames += 1

    def _input(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        if name in {"text", "prompt"} and args and isinstance(args[0], str):
            if len(args[0]) < 200 and (echo := self._echo.search(args[0])):
                self._answer(int(echo[1]))
                return
            text = self._scrubbed(cleaning.text(html_to_text(cleaning.cut(args[0], MAX_MARKUP))))
            sort = cleaning.word(kwargs.get("type"), "prompt" if name == "prompt" else "")
            if self._screen is None:
                self._route(text, sort, from_channel="from_channel" in kwargs)
            elif text:
                self._screen.append((text, sort, "from_channel" in kwargs))
                if became := re.fullmatch(r"You become (.{1,80})\.", text):
                    self._became = cleaning.name(became[1])
        elif name == "logged_in":
            self._logged_in = True
            self._screen = []
        elif name == "get_value":
            self._value(kwargs.get("name"), kwargs.get("value"))

    def _value(self, name: object, value: object) -> None:
        if name == "location":
            self._told = cleaning.name(value)
            self._tells_place = True
            if not self._fenced:
                self._place = self._told
        elif name == "name":
            self._called = cleaning.name(value)
        elif name == "servername":
            self.server = cleaning.name(value)

    def _answer(self, number: int) -> None:
        """The server has run everything up to question `number`."""
        self._answered = max(self._answered, number)
        self._place, self._told = self._told, None
        for exchange in self._exchanges:
            if exchange.end == number:
                exchange.close(self._place)
                self._settle(exchange)
            elif exchange.end < number and not exchange.closed:
                exchange.lost = True
        self._exchanges = [exchange for exchange in self._exchanges if not (exchange.abandoned and exchange.lost)]

    def _route(self, text: str, sort: str, *, from_channel: bool) -> None:
        if not text:
            return
        heard = Ears(name=self.name, aliases=self._login.names, people=self._people).hear(text, sort=sort, from_channel=from_channel)
        # A command that is running has the first claim, one that runs on after its close (a long walk) the second.
        for exchange in sorted(self._exchanges, key=lambda each: each.closed):
            if exchange.take(heard):
                if heard.kind in {"speech", "whisper", "emote"}:
                    self._ground.heard(replace(heard, own=True, addressed=False, who=self.name))
                self._settle(exchange)
                return
        if heard.room is not None:
            heard = self._seen(heard, heard.room)
        elif heard.who and not heard.own:
            self._meet(heard.who)
        self._ground.heard(heard)

    def _seen(self, heard: Heard, room: Room) -> Heard:
        """A room that nobody asked to see: the same one again, or somebody moved us."""
        elsewhere = self.room is not None and room.name != self.room.name
        self._enter(room)
        return replace(heard, kind="moved") if elsewhere else heard

    def _enter(self, room: Room) -> None:
        self.room = room
        for name in room.people:
            self._meet(name)

    def _meet(self, name: str) -> None:
        self._people.pop(name, None)
        self._people[name] = None
        if len(self._people) > MAX_PEOPLE:
            del self._people[next(iter(self._people))]

    def _settle(self, exchange: Exchange) -> None:
        """What follows from an outcome, once, when it is there."""
        verdict = exchange.verdict
        if verdict is None and exchange.abandoned and exchange.closed and not exchange.worth_waiting():
            verdict = exchange.conclude()
        if verdict is None or exchange.settled or not exchange.closed:
            return
        exchange.settled = True
        if verdict.room is not None:
            self._enter(verdict.room)
            if exchange.walks:
                news = f"You are now in {verdict.room.name}."
                self._ground.heard(Heard(kind="moved", text=news, own=True, who=self.name, room=verdict.room))
        if exchange.abandoned:
            self._drop(exchange)
            self._ground.late(exchange.tag, verdict)

    def _drop(self, exchange: Exchange) -> None:
        self._exchanges = [other for other in self._exchanges if other is not exchange]

    def _scrubbed(self, text: str) -> str:
        """The text without our password, should a server ever send it back."""
        password = self._login.password
        return text.replace(password, "[…]") if len(password) >= 4 and password in text else text
