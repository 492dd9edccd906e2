"""A character in the test's own process: a world in memory, a real home and journal in a folder, the model's stand-in behind real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from npc.approvals.signing import Secret
from npc.character import Character
from npc.home import Home
from npc.living import settings_of
from npc.persona import Persona, parse_persona
from npc.secrets import Redactor
from runtime.agent import TimedCount
from runtime.core.effects import End
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.profiles import profile
from runtime.model.retry import Policy
from runtime.store.journal import Journal
from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.hours import Hours
from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation, Resume, Speaker
from world_adapter.world import Sink

PATIENCE_S = 15.0
BOB = Speaker(id="p1", name="Bob", kind="player")
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SAY = ActionSpec(name="say", description="Say something aloud.", schema=_TEXT)
WALK = ActionSpec(name="walk", description="Walk somewhere.", schema=_TEXT, kind="ongoing", moves_body=True)
COUNT = Counter.load().count
#: What the model writes into its diary unless it is told otherwise.
PAGE = "I kept the mill today, and Bob came by."

#: What becomes of an action, by its id and name; None: it is done.
Acting = Callable[[str, str], Awaitable[ActResult | None]]


class Changes:
    """Somebody does something, somebody else waits until it shows."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def tell(self, *_: object, **__: object) -> None:
        """Something has changed."""
        self._changed.set()

    async def until(self, done: Callable[[], object]) -> None:
        """Wait until `done()` is true."""
        async with asyncio.timeout(PATIENCE_S):
            while not done():
                self._changed.clear()
                await self._changed.wait()


class SmallWorld:
    """`World` without a link: what it tells is told at once. `acting` decides what becomes of an action."""

    url = "memory://mill"

    def __init__(self, changes: Changes, acting: Acting | None = None, actions: Sequence[ActionSpec] = (SAY, WALK)) -> None:
        self.acting, self.actions = acting, actions
        self.acts: list[tuple[str, str, str]] = []  # id, name, text
        self.arguments: list[Mapping[str, Any]] = []  # of the same
        self.queries: list[str] = []
        self.limits = Limits()
        self.cancels: list[str] = []
        self.stops, self.remembers = True, False
        self.resume: Resume | None = None
        self.sink: Sink | None = None
        self._changes, self._seq, self._there = changes, 0, False
        self._closed = asyncio.Event()

    @property
    def said(self) -> list[str]:
        """Everything said aloud."""
        return [text for _, name, text in self.acts if name == "say"]

    @property
    def here(self) -> Sink:
        """The attached character."""
        assert self.sink
        return self.sink

    async def run(self, sink: Sink, resume: Resume | None) -> None:
        """See `World.run`."""
        self.sink, self.resume = sink, resume
        self._seq = resume.seq if resume else 0
        self.attach()
        await self._closed.wait()

    def attach(self) -> None:
        """The link comes up."""
        self._there = True
        self.here.attached(npc="Oda", world="mill", epoch="e1", session="s1", resumed=bool(self.resume), lost=0, limits=self.limits)
        self.here.actions_changed(self.actions)
        self._changes.tell()

    def detach(self) -> None:
        """The link goes down."""
        self._there = False
        self.here.detached(why="the link is down")

    async def tell(self, text: str, *, to: str | None = "Oda", kind: str = "speech", speaker: Speaker | None = BOB, **more: Any) -> None:
        """One observation, durable when this returns; `more` are further fields of it."""
        self._seq += 1
        seen = Observation(seq=self._seq, t=time.time(), kind=kind, text=text, speaker=speaker, to=to, **more)
        await self.here.observed([seen], world="mill", epoch="e1")

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the seam's
        """See `World.act`."""
        if not self._there:
            return ActResult(id=id, state=ActState.FAILED, error_code="not_attached", error_message="the link is down")
        self.acts.append((id, name, str(args.get("text"))))
        self.arguments.append(args)
        result = await self.acting(id, name) if self.acting else None
        self._changes.tell()
        return result or ActResult(id=id, state=ActState.DONE, text="done")

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.query`: this world remembers nothing, or else says nothing while the action goes on."""
        self.queries.append(id)
        self._changes.tell()
        if self.remembers:
            return
        self.here.finished(ActResult(id=id, state=ActState.UNKNOWN))

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.cancel`: what is under way stops at once."""
        self.cancels.append(id)
        if self.stops:
            self.here.finished(ActResult(id=id, state=ActState.CANCELLED, text="You stop by the ford."))
        self._changes.tell()

    def end(self, number: int, state: ActState = ActState.DONE, text: str = "You are at the mill.") -> None:
        """The long action that was asked for as the so-many-th ends."""
        self.here.finished(ActResult(id=self.acts[number][0], state=state, text=text))

    async def close(self) -> None:
        """See `World.close`."""
        self._closed.set()


def use(name: str, text: str) -> Reply:
    """The model calls one tool."""
    return Reply(content=[{"type": "tool_use", "name": name, "input": {"text": text}}])


def words(text: str) -> Reply:
    """The model ends its turn with plain words."""
    return Reply(content=[{"type": "text", "text": text}])


class Scripted:
    """A model that does what `script` says, and otherwise answers each line once."""

    def __init__(self) -> None:
        self.script: Callable[[Reading], Reply | None] = lambda _: None
        self.aside: Callable[[Reading], Reply] = lambda _: words(PAGE)

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        reading = Reading(request)
        if not reading.tools:
            return self.aside(reading)
        return self.script(reading) or (words("(done)") if reading.round else use("say", "I hear you."))


class Life:
    """One life of Oda."""

    def __init__(self, character: Character, world: SmallWorld, changes: Changes) -> None:
        self.character, self.world = character, world
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.until = changes.until
        self.task: asyncio.Task[End] | None = None

    def saw(self, what: str) -> list[Mapping[str, Any]]:
        """What whoever watches was told of one kind."""
        return [data for kind, data in self.told if kind == what]

    async def ended(self) -> End:
        """How it ended."""
        assert self.task
        return await asyncio.wait_for(self.task, PATIENCE_S)


class Oda:
    """Oda's house: it outlives her lives."""

    def __init__(self, folder: Path, **persona: str) -> None:
        self.home = folder / "home"
        self.changes = Changes()
        self.brain = Scripted()
        self.hours: Hours | None = None  # a clock that the test turns
        self.webhook_secret: Secret | None = None
        self.redactor: Redactor | None = None  # who knows the secrets
        self.model = MessagesAPI(self.brain, 12_000, on_request=self.changes.tell, keep=1_000)
        tables = {"wake": "idle_s = 3600.0\nidle_max_s = 7200.0\ngather_s = 0.0"} | persona
        more = "\n".join(f"[{table}]\n{keys}" for table, keys in tables.items())
        text = f'[character]\nname = "Oda"\ndescription = "You keep the mill."\n{more}\n'
        self.persona: Persona = parse_persona(text).adjusted(window=12_000)

    @contextlib.asynccontextmanager
    async def life(
        self, acting: Acting | None = None, *, actions: Sequence[ActionSpec] = (SAY, WALK), remembers: bool = False
    ) -> AsyncIterator[Life]:
        """A life, attached; it ends in order with the block."""
        facts = profile(self.persona.model.id)
        chosen = replace(settings_of(self.persona, facts), outage_s=0.02, outage_max_s=0.1)
        client = ModelClient(api_key="stand-in", base_url=self.model.base_url, policy=Policy(tries=1))
        with Home(self.home) as home:
            async with await Journal.open(home.database_path) as journal:
                world = SmallWorld(self.changes, acting, actions)
                world.remembers = remembers

                def watch(what: str, data: Mapping[str, Any]) -> None:
                    life.told.append((what, data))
                    self.changes.tell()

                character = Character(
                    persona=self.persona, home=home, journal=journal, model=client, world=world, settings=chosen,
                    count=TimedCount(COUNT), watch=watch, clock=self.hours.clock if self.hours else time.time,
                    sleep=self.hours.sleep if self.hours else asyncio.sleep, webhook_secret=self.webhook_secret,
                    redactor=self.redactor,
                )  # fmt: skip
                life = Life(character, world, self.changes)
                life.task = asyncio.create_task(character.live())
                try:
                    await life.until(lambda: world.sink)
                    yield life
                finally:
                    character.stop()
                    await life.ended()
                    await client.close()

    def requests(self) -> Sequence[Reading]:
        """All requests of the mind that were answered."""
        return [reading for reading in self._answered if reading.tools]

    def asides(self) -> Sequence[Reading]:
        """All small calls beside the mind that were answered: summaries, diary entries."""
        return [reading for reading in self._answered if not reading.tools]

    @property
    def _answered(self) -> Sequence[Reading]:
        return [Reading(r.body) for r in self.model.records if r.outcome == "answered"]


@contextlib.asynccontextmanager
async def oda(folder: Path, **persona: str) -> AsyncIterator[Oda]:
    """Oda's house with the model's stand-in beside it; `persona` are further tables of her persona."""
    house = Oda(folder, **persona)
    async with house.model:
        yield house
