"""One connection to an Evennia server, from login to close: the body, listening, and commands with their answers.

Evennia has no ids that tie an answer to a command, so a command travels between two questions of the wire. The answer to the first
proves that the server is up and the character in its body, which a reload or a reset takes away for seconds; what arrives until the
answer to the second, and is of a sort that the command can cause, is the command's answer. Invariant: no line is lost or told twice. It
goes to the command that caused it or to the ears, and a deed that others see too goes to both. A server without `echo` gets a window of
time instead of the questions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from world_adapter import cleaning, evennia_sight
from world_adapter.errors import WorldRefused, WorldUnreachable
from world_adapter.evennia_actions import Command
from world_adapter.evennia_exchange import Exchange, Verdict
from world_adapter.evennia_text import Ears, Heard, Room, html_to_text
from world_adapter.evennia_wire import FIRST_RECEIVE_LIMIT, EvenniaWire, LinkLost
from world_adapter.frames import ActState

MAX_MARKUP = 1_048_576  # characters of one text that are parsed, the rest is named as cut
MAX_PEOPLE = 200
MAX_OPEN = 8  # commands whose outcome is still awaited
STIRRING = frozenset({"presence", "item", "moved", "scene"})  # after these the room may look different


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        screen_s: until the game server behind the portal answers; a busy one queues connections.
        login_s: until a login or a body is there.
        ask_s: between two questions to a server that does not answer.
        settle_s: for an answer that comes after its command has returned.
        window_s: for an answer where the server has no `echo`.
        watch_s: between two looks whether the character is still in the game; they also keep servers from dropping us as idle.
        glance_s: from something that may have changed the room to asking how it is now, where the game has the drop-in.
    """

    screen_s: float = 20.0
    login_s: float = 15.0
    ask_s: float = 1.0
    settle_s: float = 1.0
    window_s: float = 3.0
    watch_s: float = 30.0
    glance_s: float = 0.5


class Ground(Protocol):
    """Who gets what one connection hears. Plain calls on the event loop's thread, in order."""

    def heard(self, heard: Heard) -> None:
        """A line that no command caused, or a deed of our own that others see too. Of kind "moved" when the NPC stands in another room."""

    def late(self, tag: str, verdict: Verdict) -> None:
        """What became of a command whose caller had given up waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Who we are to the server. The password is in no representation."""

    user: str
    password: str = field(repr=False)
    character: str = ""
    names: tuple[str, ...] = ()  # further ones that the NPC answers to


class EvenniaLink:
    """One connection. `open` logs in, `listen` runs until the end, `run` and `outcome` carry a command.

    Args:
        url: of the websocket.
        login: who we are to the server.
        ground: who gets what is heard.
        direct: never by way of the environment's proxy.
        patience: how long to wait for what.
        receive_limit: bytes of one frame.

    Attributes:
        name: the character's name, which is the NPC's id in this world.
        server: the name that the game gives itself, "" where it does not tell.
        room: where the NPC stands, as far as it was seen.
        last_tag: of the newest command that was sent, wholly or in part.
    """

    def __init__(
        self, url: str, login: Login, ground: Ground, *, direct: bool = False, patience: Patience | None = None,
        receive_limit: int = FIRST_RECEIVE_LIMIT,
    ) -> None:  # fmt: skip
        self.name = login.character or login.user
        self.server = ""
        self.room: Room | None = None
        self.last_tag = ""
        self._url = url
        self._login = login
        self._ground = ground
        self._patience = patience or Patience()
        self._wire = EvenniaWire(url, take=self._input, answer=self._answered, direct=direct, receive_limit=receive_limit)
        self._fenced = False  # the server answers questions
        self._logged_in = False
        self._called = ""  # the name that the server tells for us: the character's, or out of a body the account's
        self._became = ""  # the name in "You become …"
        self._screen: list[tuple[str, str, bool]] | None = []  # lines until `listen`, as (text, sort, from a channel)
        self._exchanges: list[Exchange] = []
        self._people: dict[str, None] = {}
        self._sees = False  # the game has the drop-in, which tells the room as data
        self._sight: Room | None = None  # the newest of it
        self._glance: asyncio.Task[None] | None = None

    # Opening

    async def open(self) -> None:
        """Connects, logs in and takes the character's body.

        Raises:
            WorldRefused: the login is wrong, or the account has nobody to play.
            WorldUnreachable: nothing answers, or not in time.
            LinkLost: the connection broke on the way.
        """
        await self._wire.open()
        try:
            await self._await_server()
            await self._log_in()
            await self._take_body()
        except BaseException:
            await self.close()
            raise

    async def _await_server(self) -> None:
        """Until the server itself answers and not only its portal: by `echo`, or where there is none by its login screen."""
        first = await self._wire.ask()
        for _ in range(round(self._patience.screen_s / self._patience.ask_s)):
            if await self._wire.answer_to(first, self._patience.ask_s):
                self._fenced = True
                # The screen is composed behind the scenes; waiting keeps it from being taken for an answer to the login.
                await self._wire.until(lambda: bool(self._screen), self._patience.window_s)
                return
            if self._screen and self._wire.asked >= 3:
                return
            await self._wire.ask()
        raise WorldUnreachable(f"The portal at {self._url} takes connections but its game server does not answer.")

    async def _log_in(self) -> None:
        user, password = self._login.user, self._login.password
        self._screen = []
        await self._wire.send("client_options", nocolor=True)
        if '"' in user + password:
            # The command cannot carry a quotation mark, the input function can.
            await self._wire.send("login", name=user, password=password)
        else:
            await self._wire.send("text", f'connect "{user}" "{password}"')
        end = await self._wire.ask()
        if self._fenced:
            await self._wire.until(lambda: self._logged_in or (self._wire.answered >= end and bool(self._screen)), self._patience.login_s)
        else:
            await self._wire.until(lambda: self._logged_in or bool(self._screen), self._patience.login_s)
            await self._wire.until(lambda: self._logged_in, self._patience.window_s)
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
            if self._fenced:
                await self._wire.send("get_inputfuncs")
            await self._wire.send("get_value", name="name")
            await self._wire.send("get_value", name="servername")
            end = await self._wire.ask()
            await self._wire.answer_to(end, self._patience.login_s if self._fenced else self._patience.window_s)
            if self._wire.place is not None or self._became:
                self.name = (self._called if self._wire.place is not None else "") or self._became or self.name
                if not wanted or wanted.casefold() == self.name.casefold():
                    return
            if attempt == 0:
                self._became = ""
                await self._wire.send("text", f"ic {wanted}".strip())
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
        early, self._screen = self._screen or [], None
        for text, sort, from_channel in early:
            if not text.startswith("You become "):
                self._route(text, sort, from_channel=from_channel)
        if self.room is None:
            await self._wire.send("text", "look")
        self._stirred()
        watch = asyncio.create_task(self._watch(), name="evennia watch")
        try:
            code, reason = await self._wire.wait_closed()
        finally:
            watch.cancel()
            if self._glance is not None:
                self._glance.cancel()
        reason = self._scrubbed(reason).rstrip(".")
        if code == 1000 and "elsewhere" in reason.casefold():
            raise WorldRefused(
                f"The Evennia server at {self._url} ended the link of {self._login.user!r} ({reason}): one account plays one NPC; "
                "stop the other one or give this one an account of its own.",
                code=code,
            )
        raise LinkLost(f"The game server closed the link (code {code}{f', {reason}' if reason else ''}).", code=code)

    async def _watch(self) -> None:
        with suppress(LinkLost):
            while True:
                await asyncio.sleep(self._patience.watch_s)
                await self._wire.send("text", "idle")
                if self._fenced:
                    await self._ready()

    async def close(self) -> None:
        """Ends the connection in an orderly way. Idempotent."""
        await self._wire.close()

    # Commands

    async def run(self, tag: str, command: Command) -> Exchange:
        """Sends one command and waits until the server has run it. Never two at once; the caller limits the time by cancelling.

        Cancelled before anything was sent it leaves nothing behind (`last_tag` tells), after that the outcome goes to `Ground.late`.

        Raises:
            LinkLost: nothing was sent, the link is gone or the character out of its body.
        """
        if self._fenced:
            await self._ready()
        exchange = Exchange(tag=tag, command=command, before=self._wire.place)
        # The number is taken before anything is awaited: its answer may overtake the end of the sending.
        exchange.end = self._wire.asked + 1
        self.last_tag = tag
        self._exchanges = [*self._exchanges[-MAX_OPEN + 1 :], exchange]
        with self._abandoning(exchange), suppress(LinkLost):
            await self._wire.send("text", command.line)
            if self._sees:
                await self._wire.send(evennia_sight.INPUT)
            await self._wire.ask()
            if self._fenced:
                await self._run_through(exchange)
            else:
                await self._wire.quietly(lambda: exchange.verdict is not None, self._patience.window_s)
                exchange.close(None)
                self._settle(exchange)
        return exchange

    async def _ready(self) -> None:
        """Until the server answers, however long a reload takes."""
        first = await self._wire.ask()
        while not await self._wire.answer_to(first, self._patience.ask_s):
            await self._wire.ask()
        if self._wire.tells_place and self._wire.place is None:
            await self.close()
            raise LinkLost("The character is no longer in its body.")

    async def _run_through(self, exchange: Exchange) -> None:
        while not await self._wire.until(lambda: exchange.closed or exchange.lost, 2 * self._patience.ask_s):
            # Answers come in order: one to a later question shows that this command was lost.
            await self._wire.ask()

    async def outcome(self, exchange: Exchange) -> Verdict:
        """What became of a command that was run; a walk may take its time, and others may run meanwhile.

        A link that broke, or a server that restarted, in between makes it "unknown".
        """
        if exchange.closed and self._fenced:
            with self._abandoning(exchange):
                patience = None if exchange.worth_waiting() else self._patience.settle_s
                await self._wire.quietly(lambda: exchange.verdict is not None, patience)
        self._drop(exchange)
        if exchange.verdict is not None:
            return exchange.verdict
        if exchange.lost:
            return Verdict(state=ActState.UNKNOWN, text="The game restarted meanwhile; whether it was done is not known.", code="lost")
        if self._wire.ended:
            return Verdict(state=ActState.UNKNOWN, text="The link broke meanwhile; whether it was done is not known.", code="link_lost")
        return exchange.conclude()

    @contextmanager
    def _abandoning(self, exchange: Exchange) -> Iterator[None]:
        """Whoever stops waiting leaves the exchange to those who listen: a later line may still decide it."""
        try:
            yield
        except asyncio.CancelledError:
            exchange.abandoned = True
            if not self._fenced:
                self._drop(exchange)
            raise

    def _drop(self, exchange: Exchange) -> None:
        self._exchanges = [other for other in self._exchanges if other is not exchange]

    # What arrives

    def _input(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        if name in {"text", "prompt"} and args and isinstance(args[0], str):
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
            self._screen = [] if self._screen is not None else None
        elif name == "get_value" and kwargs.get("name") == "name":
            self._called = cleaning.name(kwargs.get("value"))
        elif name == "get_value" and kwargs.get("name") == "servername":
            self.server = cleaning.name(kwargs.get("value"))
        elif name == "get_inputfuncs":
            self._sees = evennia_sight.is_offered(kwargs)
        elif name == evennia_sight.INPUT:
            self._told(evennia_sight.read_sight(kwargs))

    # What is seen, where the game has the drop-in

    def _told(self, sight: Room | None) -> None:
        """The room as data: it replaces what was read out of prose. News, if it differs from what is known of this room."""
        former, self._sight = self.room, sight
        if sight is None or self._screen is not None or any(not exchange.closed for exchange in self._exchanges):
            return  # with a command under way its outcome tells
        self._enter(sight)
        if former is None or former.data != sight.data:
            self._ground.heard(Heard(kind="scene", text=evennia_sight.put(sight), sort=evennia_sight.INPUT, room=sight))

    def _stirred(self) -> None:
        """The room may look different now: a glance soon, one for all that happens until then."""
        if self._sees and self._screen is None and (self._glance is None or self._glance.done()):
            self._glance = asyncio.create_task(self._look_again(), name="evennia glance")

    async def _look_again(self) -> None:
        await asyncio.sleep(self._patience.glance_s)
        with suppress(LinkLost):
            await self._wire.send(evennia_sight.INPUT)

    def _as_seen(self, room: Room) -> Room:
        """The room as the drop-in told it, if that was this one."""
        return self._sight if self._sight is not None and self._sight.name == room.name else room

    def _answered(self, number: int) -> None:
        """The server has handled everything up to question `number`."""
        for exchange in self._exchanges:
            if exchange.end == number:
                exchange.close(self._wire.place)
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
        if heard.kind in STIRRING:
            self._stirred()

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
        if verdict.room is not None and self._sees:
            verdict = exchange.verdict = replace(verdict, room=self._as_seen(verdict.room))
        if verdict.room is not None:
            self._enter(verdict.room)
            if exchange.walks:
                news = f"You are now in {verdict.room.name}."
                self._ground.heard(Heard(kind="moved", text=news, own=True, who=self.name, room=verdict.room))
                self._stirred()
        if exchange.abandoned:
            self._drop(exchange)
            self._ground.late(exchange.tag, verdict)

    def _scrubbed(self, text: str) -> str:
        """The text without our password, should a server ever send it back."""
        password = self._login.password
        return text.replace(password, "[…]") if len(password) >= 4 and password in text else text
