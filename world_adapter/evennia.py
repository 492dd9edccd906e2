"""Real Evennia servers as a `World`: `evennia+ws://HOST:PORT`, `evennia+wss://HOST:PORT`.

Evennia keeps nothing for those who are away and numbers nothing. Invariant: every attachment is an epoch of its own, numbered from 1
here, in the order heard; whatever was said while the link was down is gone, and the NPC is told for how long it heard nothing.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from world_adapter import cleaning
from world_adapter.addresses import is_loopback
from world_adapter.closing import backoff
from world_adapter.effects import ActionsChanged, Attached, Detached
from world_adapter.errors import WorldRefused, WorldUnreachable
from world_adapter.evennia_actions import ACTIONS, LINE_CHARS, Command, Expect, Refusal, plan
from world_adapter.evennia_exchange import Verdict
from world_adapter.evennia_link import EvenniaLink, Login, Patience
from world_adapter.evennia_text import Heard
from world_adapter.evennia_wire import FIRST_RECEIVE_LIMIT, LAST_RECEIVE_LIMIT, TOO_BIG, LinkLost
from world_adapter.frames import ActResult, ActState, Limits, Observation, Resume, Speaker
from world_adapter.outbox import Outbox
from world_adapter.world import Sink

DEFAULT_PORT = 4002
ACTS_PER_S = 3.0  # a command is five frames with its questions; the server drops what goes over 80 a second
BACKOFF_BASE_S, BACKOFF_CAP_S, BACKOFF_CAP_LOCAL_S = 0.5, 60.0, 2.0
STEADY_S = 30.0  # a link that lived so long was a good one, and the back-off starts afresh
DRAIN_S = 5.0
READS = frozenset({Expect.SEEN, Expect.CARRIED})  # commands that change nothing

_PRIO: Mapping[str, int] = {"speech": 5, "whisper": 7, "emote": 4, "presence": 3, "scene": 4, "moved": 6, "item": 5, "notice": 3}


class EvenniaWorld:
    """One account's character on one Evennia server. See `World` for the contract of the methods.

    Args:
        url: `evennia+ws://HOST[:PORT]`; `evennia+wss://` where the password would leave this machine.
        user: the account's name.
        password: its password; it appears in no log, message or representation.
        character: the character to play, "" for the one that the account has or played last.
        names: further names that the NPC answers to.
        allow_insecure: log in to another machine in the clear.
        attach_within_s: give up with WorldUnreachable if no login succeeded within so many seconds of `run`; None tries for ever. Once
            attached, it tries for ever in any case.
        patience: how long to wait for what.
        clock: unix seconds.

    Raises:
        WorldRefused: the address cannot be used.
    """

    kinds_known = False  # the game says who speaks, not whether that is a person

    def __init__(
        self,
        url: str,
        *,
        user: str,
        password: str,
        character: str = "",
        names: Sequence[str] = (),
        allow_insecure: bool = False,
        attach_within_s: float | None = 20.0,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._address = _Address.read(url)
        if not (self._address.secure or self._address.local or allow_insecure):
            raise WorldRefused(
                f"The password would travel to {self._address.host} in the clear: use evennia+wss://, or allow insecure links explicitly.",
            )
        if not user or not password:
            raise WorldRefused("An Evennia server wants a login: set NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD.")
        self._login = Login(user=user, password=password, character=character, names=tuple(names))
        self._patience = patience
        self._attach_within_s = attach_within_s
        self._clock = clock
        self._link: EvenniaLink | None = None
        self._out = Outbox(character or user, clock)
        self._closing = asyncio.Event()
        self._turnstile = asyncio.Lock()
        self._next_act = 0.0
        self._receive_limit = FIRST_RECEIVE_LIMIT
        self._heard_nothing_since: float | None = None
        self._npc = character or user

    @property
    def url(self) -> str:
        return self._address.url

    async def run(self, sink: Sink, resume: Resume | None) -> None:  # noqa: ARG002 - there is nothing to resume on such a server
        """As `World.run`; `resume` is of no use, for an Evennia server keeps nothing.

        Raises:
            WorldRefused: final; the sentence says what would help.
            WorldUnreachable: no login within `attach_within_s`.
        """
        link = asyncio.create_task(self._stay_attached(), name="evennia link")
        out = asyncio.create_task(self._out.deliver(sink), name="evennia delivery")
        closing = asyncio.create_task(self._closing.wait(), name="evennia close")
        try:
            await asyncio.wait({link, out, closing}, return_when=asyncio.FIRST_COMPLETED)
            link.cancel()
            await asyncio.wait({link})
            if not out.done():
                # What was heard is still the sink's, but a sink that hangs does not keep us.
                self._out.end()
                await asyncio.wait({out}, timeout=DRAIN_S)
        finally:
            for task in (link, out, closing):
                task.cancel()
            await asyncio.gather(link, out, closing, return_exceptions=True)
        for task in (out, link):
            if not task.cancelled() and (exc := task.exception()) is not None:
                raise exc

    async def close(self) -> None:
        self._closing.set()

    # Acts

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the protocol's own word
        link = self._link
        if link is None:
            return _failed(id, "not_attached", "The link to the game is down; nothing was sent.")
        done: list[Verdict] = []
        sent = False
        try:
            async with asyncio.timeout(timeout_s):
                planned = plan(name, args, link.room)
                if isinstance(planned, Refusal):
                    return _failed(id, planned.code, planned.message)
                for command in planned:
                    verdict = await self._carry_out(link, id, command)
                    sent = True
                    if verdict.code == "lost" and command.expects in READS:
                        verdict = await self._carry_out(link, id, command)  # a reload swallowed it, and looking twice harms nobody
                    done.append(verdict)
                    if done[-1].state is not ActState.DONE:
                        break
        except LinkLost as exc:
            if not done:
                return _failed(id, "not_attached", f"{exc} Nothing was sent.")
            done.append(Verdict(state=ActState.FAILED, text=f"{exc} The rest was not sent.", code="link_lost"))
        except TimeoutError:
            if not sent and link.last_tag != id:
                return _failed(id, "not_attached", f"The game did not answer within {timeout_s:g} s; nothing was sent.")
            said = f"The game did not say within {timeout_s:g} s what came of it."
            done.append(Verdict(state=ActState.UNKNOWN, text=said, code="timeout"))
        return _result(id, done)

    async def _carry_out(self, link: EvenniaLink, tag: str, command: Command) -> Verdict:
        async with self._turnstile:
            await self._pace()
            exchange = await link.run(tag, command)
        return await link.outcome(exchange)

    async def _pace(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._next_act - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._next_act = loop.time() + 1 / ACTS_PER_S

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """The server keeps no record of acts: the answer is always "unknown", and a look around tells more."""
        message = "This game keeps no record of what was done; look around to see."
        self._out.put(ActResult(id=id, state=ActState.UNKNOWN, text=message, error_code="no_record", error_message=message))

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """Nothing to do: all acts here are over at once, or walk on by the game's own rules."""

    # The link

    async def _stay_attached(self) -> None:
        """Connects, again and again; ends only by cancelling or when trying again cannot help."""
        loop = asyncio.get_running_loop()
        give_up_at = None if self._attach_within_s is None else loop.time() + self._attach_within_s
        cap = BACKOFF_CAP_LOCAL_S if self._address.local else BACKOFF_CAP_S
        attempt = 0
        while True:
            started = loop.time()
            try:
                await self._attach_once()
            except (LinkLost, WorldUnreachable) as exc:
                why = str(exc)
                if isinstance(exc, LinkLost) and exc.code == TOO_BIG:
                    # Somebody said more than we take in one frame. It is gone; the next one like it is heard.
                    self._receive_limit = min(4 * self._receive_limit, LAST_RECEIVE_LIMIT)
                if self._detach(why):
                    give_up_at = None
            except WorldRefused as exc:
                self._detach(str(exc))
                raise
            except asyncio.CancelledError:
                self._detach("We left the world.")
                raise
            if loop.time() - started >= STEADY_S:
                attempt = 0
            delay = backoff(attempt, random.random(), base_s=BACKOFF_BASE_S, cap_s=cap)
            attempt += 1
            if give_up_at is not None and loop.time() + delay > give_up_at:
                raise WorldUnreachable(why)
            await asyncio.sleep(delay)

    def _detach(self, why: str) -> bool:
        """The link is gone; whether there was one."""
        attached = self._link is not None
        if attached:
            self._link = None
            self._heard_nothing_since = self._clock()
            self._out.put(Detached(why))
        return attached

    async def _attach_once(self) -> None:
        epoch = f"{int(self._clock())}-{secrets.token_hex(4)}"
        link = EvenniaLink(
            self._address.socket, self._login, self, direct=self._address.local, patience=self._patience,
            receive_limit=self._receive_limit,
        )  # fmt: skip
        await link.open()
        try:
            place = f"{self._address.host}:{self._address.port}"
            self._npc = link.name
            world = f"{link.server}@{place}" if link.server else place
            self._out.put(
                Attached(
                    npc=link.name, world=world, epoch=epoch, session="", resumed=False, lost=0,
                    limits=Limits(say_chars=LINE_CHARS, acts_per_s=ACTS_PER_S),
                ),
            )  # fmt: skip
            self._out.put(ActionsChanged(ACTIONS))
            self._link = link
            if self._heard_nothing_since is not None:
                gap_s = max(self._clock() - self._heard_nothing_since, 0.0)
                self.heard(Heard(kind="notice", text=f"[You heard nothing of this world for {gap_s:.0f} seconds: the link was down.]"))
                self._heard_nothing_since = None
            await link.listen()
        finally:
            await link.close()

    def heard(self, heard: Heard) -> None:
        """From the link: one line for the NPC."""
        speaker = Speaker()
        if heard.own:
            speaker = Speaker(id=self._npc, name=self._npc, kind="npc")
        elif heard.who:
            speaker = Speaker(id=cleaning.ident(heard.who), name=cleaning.name(heard.who), kind="player")
        data: dict[str, Any] = dict(heard.room.data) if heard.room else {}
        if heard.words:
            data["words"] = cleaning.cut(heard.words, 2_000)  # the whole is in the text
        if heard.channel:
            data["channel"] = heard.channel
        if heard.sort:
            data["evennia"] = heard.sort
        self._out.observe(
            Observation(
                seq=0,
                t=self._clock(),
                kind=heard.kind,
                text=heard.text,
                data=cleaning.mapping(data) or None,
                # A room seen again and a prompt are states: only the newest matters to one who is behind.
                key="scene" if heard.kind == "scene" else "prompt" if heard.sort == "prompt" else None,
                prio=8 if heard.addressed else _PRIO.get(heard.kind, 3),
                speaker=speaker,
                to=self._npc if heard.addressed else None,
                own=heard.own,
            ),
        )

    def late(self, tag: str, verdict: Verdict) -> None:
        """From the link: the outcome of an act that was given up as unknown."""
        self._out.put(_result(tag, [verdict]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """Where the server is; `url` is as people write it, without secrets, `socket` what the library connects to."""

    url: str
    socket: str
    host: str
    port: int
    secure: bool

    @classmethod
    def read(cls, url: str) -> _Address:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError:
            raise WorldRefused("An Evennia server is named as evennia+ws://HOST:PORT or evennia+wss://HOST:PORT.") from None
        if parts.scheme not in {"evennia+ws", "evennia+wss"} or not host:
            raise WorldRefused("An Evennia server is named as evennia+ws://HOST:PORT or evennia+wss://HOST:PORT.")
        if parts.username or parts.password:
            raise WorldRefused("A login does not belong into the address: set NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD instead.")
        scheme = parts.scheme.removeprefix("evennia+")
        netloc = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return cls(
            url=f"{parts.scheme}://{netloc}{parts.path}",
            socket=f"{scheme}://{netloc}{parts.path or '/'}",
            host=host,
            port=port,
            secure=scheme == "wss",
        )

    @property
    def local(self) -> bool:
        """Whether it is this machine, for certain."""
        return is_loopback(self.host)


def _failed(tag: str, code: str, message: str) -> ActResult:
    return ActResult(id=tag, state=ActState.FAILED, text=message, error_code=code, error_message=message)


def _result(tag: str, verdicts: Sequence[Verdict]) -> ActResult:
    """One result for a run of commands: what all of them said, and the state of the last, which is the worst."""
    last = verdicts[-1]
    text = "\n".join(verdict.text for verdict in verdicts if verdict.text)
    data = last.room.data if last.room is not None else None
    if last.state is ActState.DONE:
        return ActResult(id=tag, state=last.state, text=text, data=data)
    return ActResult(id=tag, state=last.state, text=text, data=data, error_code=last.code, error_message=last.text)
