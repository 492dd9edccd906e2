"""The websocket of an Evennia server: frames in and out, and the questions that order what comes in.

Frames are `[input, args, kwargs]` both ways. A server handles what one session sends in order, and its input `echo` gives back any word;
so a question, "where am I" and a word never used before, is answered once everything sent before it has been handled, and its answer
tells whether the server stands a character for us in a room at all. Invariant: answers are counted, never matched by guess; a word is
random per connection, so no player can speak it. Servers without `echo` never answer, and the caller goes by the clock.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

from world_adapter import cleaning
from world_adapter.errors import WorldRefused, WorldUnreachable

FIRST_RECEIVE_LIMIT = 4_194_304  # bytes taken in one frame; a usual client's 1 MiB ends the connection at one long `say` of a player
LAST_RECEIVE_LIMIT = 16_777_216  # bytes; to this it is raised when something larger ended a connection
TOO_BIG = 1009
OPEN_S, CLOSE_S = 10.0, 3.0

# The library logs every frame at DEBUG, the login with its password among them: its logger here never goes that low.
_quiet = logging.getLogger("world_adapter.evennia.websockets")
_quiet.setLevel(logging.INFO)


class LinkLost(Exception):  # noqa: N818 - an event in a link's life, not somebody's mistake
    """The connection is gone or of no use. The message is one plain sentence.

    Attributes:
        code: the close code, 0 where that is not how it ended.
    """

    def __init__(self, sentence: str, *, code: int = 0) -> None:
        super().__init__(sentence)
        self.code = code


class EvenniaWire:
    """One connection.

    Args:
        url: of the websocket.
        take: called with each frame that is no answer: input, args, kwargs.
        answer: called with the number of each answered question, after `place` was set.
        direct: never by way of the environment's proxy.
        receive_limit: bytes of one frame.

    Attributes:
        asked: number of the newest question.
        answered: number of the newest answered question.
        place: the room that the newest answer told, None while no character stands in one.
        tells_place: this server answers where we are, so None means something.
        odd_frames: how many frames could not be understood.
        ended: the connection is gone.
    """

    def __init__(
        self, url: str, *, take: Callable[[str, list[Any], dict[str, Any]], None], answer: Callable[[int], None], direct: bool = False,
        receive_limit: int = FIRST_RECEIVE_LIMIT,
    ) -> None:  # fmt: skip
        self.asked = 0
        self.answered = 0
        self.place: str | None = None
        self.tells_place = False
        self.odd_frames = 0
        self.ended = False
        self._url = url
        self._take = take
        self._answer = answer
        self._direct = direct
        self._receive_limit = receive_limit
        self._ws: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._told: str | None = None
        self._word = secrets.token_hex(6)
        self._echo = re.compile(rf"Echo returns: \[['\"]{self._word}-(\d+)['\"]\]")

    async def open(self) -> None:
        """Connects and begins to read.

        Raises:
            WorldRefused: the address is none.
            WorldUnreachable: no websocket answers there.
        """
        try:
            self._ws = await connect(
                self._url,
                subprotocols=[Subprotocol("v1.evennia.com")],  # the 6 series picks in its own order, older ones pick none
                max_size=self._receive_limit,
                open_timeout=OPEN_S,
                close_timeout=CLOSE_S,
                logger=_quiet,
                proxy=None if self._direct else True,
            )
        except InvalidURI as exc:
            raise WorldRefused(f"{self._url} is not the address of a websocket.") from exc
        except (OSError, InvalidHandshake, ConnectionClosed) as exc:
            refused = isinstance(exc, ConnectionRefusedError)
            why = "connection refused" if refused else " ".join(str(exc).split())[:200] or type(exc).__name__
            raise WorldUnreachable(f"No Evennia websocket answers at {self._url}: {why}.") from exc
        self._reader = asyncio.create_task(self._read(self._ws), name="evennia reader")

    async def wait_closed(self) -> tuple[int, str]:
        """Waits for the end of the connection: its close code, 1006 where there was none, and the reason given.

        Raises:
            Whatever `take` or `answer` raised, which also ends the connection.
        """
        if self._ws is None or self._reader is None:
            raise LinkLost("The connection was never opened.")
        await self._reader
        ours = self._ws.protocol.close_sent
        if ours is not None and ours.code == TOO_BIG:
            return TOO_BIG, "it sent more than we take in one frame"
        return self._ws.close_code or 1006, cleaning.name(self._ws.close_reason or "", 200)

    async def close(self) -> None:
        """Ends the connection in an orderly way. Idempotent."""
        if self._ws is not None:
            await self._ws.close()
        if self._reader is not None:
            await asyncio.wait({self._reader})

    async def send(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Sends one frame.

        Raises:
            LinkLost: the connection is gone.
        """
        if self._ws is None or self.ended:
            raise LinkLost("The link to the game is down.")
        try:
            await self._ws.send(json.dumps([name, args, kwargs]))
        except ConnectionClosed as exc:
            raise LinkLost("The link to the game is down.") from exc

    async def ask(self) -> int:
        """Asks where we are and for our next word back; the question's number is `asked` from the moment of the call."""
        self.asked += 1
        number = self.asked
        await self.send("get_value", name="location")
        await self.send("echo", f"{self._word}-{number}")
        return number

    async def answer_to(self, number: int, timeout_s: float) -> bool:
        """Waits for the answer to a question, and whether it came.

        Raises:
            LinkLost: the connection ended first.
        """
        return await self.until(lambda: self.answered >= number, timeout_s)

    async def until(self, ready: Callable[[], bool], timeout_s: float | None) -> bool:
        """Waits until `ready`, looked at after each frame, or for so long; whether it is.

        Raises:
            LinkLost: the connection ended first.
        """
        if not await self.quietly(ready, timeout_s) and self.ended:
            raise LinkLost("The link to the game is down.")
        return ready()

    async def quietly(self, ready: Callable[[], bool], timeout_s: float | None) -> bool:
        """As `until`, but the end of the connection only ends the waiting."""
        try:
            async with asyncio.timeout(timeout_s):
                while not ready() and not self.ended:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        return ready()

    async def _read(self, ws: ClientConnection) -> None:
        try:
            async for message in ws:
                self._frame(message)
                self._news.set()
        except ConnectionClosed:
            pass  # the code and the reason stay readable on the connection
        finally:
            self.ended = True
            self._news.set()

    def _frame(self, message: str | bytes) -> None:
        try:
            frame = json.loads(message)
        except (ValueError, RecursionError):
            frame = None
        match frame:
            case ["text", [str() as text, *_], dict()] if len(text) < 200 and (echo := self._echo.search(text)):
                self._told, self.place = None, self._told
                self.answered = max(self.answered, int(echo[1]))
                self._answer(int(echo[1]))
            case ["get_value", list(), {"name": "location", "value": value}]:
                self.tells_place = True
                self._told = cleaning.name(value)
            case [str() as name, list() as args, dict() as kwargs]:
                self._take(name, args, kwargs)
            case _:
                self.odd_frames += 1
