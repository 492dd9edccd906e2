"""A road with a postwoman on it, in virtual time: the world, and a mind that does its rounds.

Invariants: time is data and moves only when somebody moves it, to the next thing that is due; the same seed is the same hour, whoever walks
it, but for what follows from when she sets out. Every line that is meant for her carries a stamp of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.clock import Clock
from sim.messages_api import Reply
from sim.reading import Reading
from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation, Resume, Speaker
from world_adapter.world import Sink

NPC = "Oda"
STATIONS = ("mill", "ford", "inn", "bridge", "smithy", "pass", "chapel", "quarry")
WALK_S = (40.0, 170.0)
PASSER_BY_EVERY_S = 180.0  # somebody speaks to her
BLOCKED_SHARE = 0.1  # of the walks
REACHED = "You have reached"
_STAMP = re.compile(r"#\d+\.0\.")
_END = re.compile(rf"({REACHED} the \w+|A cart lies across the road|You stop where you are) \(walk (\d+)\)")
_WORDS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_PLACE = {"type": "object", "properties": {"place": {"type": "string", "enum": list(STATIONS)}}, "required": ["place"]}
ACTIONS = (
    ActionSpec(name="say", description="Say something aloud.", schema=_WORDS),
    ActionSpec(name="go", description="Walk to a station. It takes a minute or three.", schema=_PLACE, kind="ongoing", moves_body=True),
)
_NAMES = ("Mira", "Bob", "Wren", "Tam", "Ilse", "Jory")
_AMBIENT = (
    ("presence", "{name} comes round the bend.", 3),
    ("presence", "{name} is gone behind the hedge.", 3),
    ("emote", "{name} shifts a heavy basket.", 3),
    ("speech", "{name} says: The rain will be back before evening.", 4),
    ("speech", "{name} says: They want four coppers for a goose now.", 4),
    ("notice", "A crow lands on a milestone.", 2),
    ("notice", "Wind goes through the barley.", 2),
    ("notice", "Somewhere a dog barks twice.", 2),
)


@dataclass(slots=True)
class _Walk:
    id: str
    place: str
    number: int
    blocked: bool


@dataclass(slots=True, kw_only=True)
class Line:
    """One line that was meant for her: when it was said, when a request carried it away, when she answered (virtual seconds)."""

    said: float
    asked: float | None = None
    answered: float | None = None


@dataclass(slots=True)
class Tally:
    """What happened on the road."""

    walks: int = 0
    walking_s: float = 0.0
    told: int = 0
    lines: dict[str, Line] = field(default_factory=dict)


class Road:
    """`World` without a link. `ambient_s`: something happens beside the road every so many seconds, on average."""

    url = "memory://road"

    def __init__(self, clock: Clock, *, seed: int, ambient_s: float) -> None:
        self.clock, self.tally = clock, Tally()
        self.until = float("inf")  # nothing begins after this
        self._ambient, self._speech, self._walks = (random.Random(f"road/{seed}/{what}") for what in ("ambient", "speech", "walks"))
        self._every = ambient_s
        self._sink: Sink | None = None
        self._seq = 0
        self._walk: _Walk | None = None
        self._set_out = 0.0
        self._waiting: list[Observation | ActResult] = []
        self._closed = asyncio.Event()
        self.attached = asyncio.Event()

    async def run(self, sink: Sink, resume: Resume | None) -> None:  # noqa: ARG002 (the seam gives both)
        """See `World.run`."""
        self._sink = sink
        sink.attached(npc=NPC, world="road", epoch="e1", session="s1", resumed=False, lost=0, limits=Limits())
        sink.actions_changed(ACTIONS)
        self._tell("scene", "You stand at the mill. The road goes on.", data={"room": "mill"})
        self._tell("notice", "Your round begins. The letters want to be carried.", to=NPC)
        self._plan(self._ambient, self._every, self._something)
        self._plan(self._speech, PASSER_BY_EVERY_S, self._passer_by)
        self.attached.set()
        await self._closed.wait()

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002, ARG002 - the seam's
        """See `World.act`."""
        if name == "say":
            for stamp in _STAMP.findall(str(args.get("text"))):
                if (line := self.tally.lines.get(stamp)) and line.answered is None:
                    line.answered = self.clock.now()
            return ActResult(id=id, state=ActState.DONE, text="said")
        if self._walk:
            await self.cancel(self._walk.id)
        self.tally.walks += 1
        blocked, seconds = self._walks.random() < BLOCKED_SHARE, self._walks.uniform(*WALK_S)
        walk = self._walk = _Walk(id=id, place=str(args.get("place")), number=self.tally.walks, blocked=blocked)
        self._set_out = self.clock.now()
        self.clock.later(self.clock.now() + seconds * (0.5 if walk.blocked else 1.0), lambda: self._arrive(walk))
        return ActResult(id=id, state=ActState.ACCEPTED, text="You set out.")

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.cancel`."""
        if self._walk and self._walk.id == id:
            self._end(self._walk, ActState.CANCELLED, f"You stop where you are (walk {self._walk.number}).")

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.query`: one life, nothing to ask about."""

    async def close(self) -> None:
        """See `World.close`."""
        self._closed.set()

    async def deliver(self) -> None:
        """Hand over what has happened, in order."""
        while self._sink and self._waiting:
            match self._waiting.pop(0):
                case ActResult() as end:
                    self._sink.finished(end)
                case Observation() as seen:
                    await self._sink.observed([seen], world="road", epoch="e1")

    # ------------------------------------------------------------ what happens
    def _plan(self, dice: random.Random, every: float, what: Callable[[], None]) -> None:
        at = self.clock.now() + dice.expovariate(1.0 / every)

        def happens() -> None:
            if self.clock.now() < self.until:
                what()
                self._plan(dice, every, what)

        self.clock.later(at, happens)

    def _something(self) -> None:
        kind, text, prio = self._ambient.choice(_AMBIENT)
        name = self._ambient.choice(_NAMES)
        speaker = Speaker(id=name, name=name, kind="player") if "{name}" in text else Speaker()
        self._tell(kind, text.format(name=name), speaker=speaker, prio=prio)

    def _passer_by(self) -> None:
        stamp, name = f"#{len(self.tally.lines) + 1}.0.", self._speech.choice(_NAMES)
        self.tally.lines[stamp] = Line(said=self.clock.now())
        words = f"{NPC}, have you a letter for me? {stamp}"
        self._tell("speech", words, speaker=Speaker(id=name, name=name, kind="player"), to=NPC, prio=7)

    def _arrive(self, walk: _Walk) -> None:
        if self._walk is not walk:
            return
        if walk.blocked:
            self._tell("blocked", "There is a cart in your way.", prio=6)
            self._end(walk, ActState.FAILED, f"A cart lies across the road (walk {walk.number}).")
        else:
            self._tell("moved", f"You reach the {walk.place}.", own=True, data={"room": walk.place})
            self._end(walk, ActState.DONE, f"{REACHED} the {walk.place} (walk {walk.number}).")

    def _end(self, walk: _Walk, state: ActState, text: str) -> None:
        self._walk = None
        self.tally.walking_s += max(0.0, min(self.clock.now(), self.until) - self._set_out)
        self._waiting.append(ActResult(id=walk.id, state=state, text=text))

    def _tell(self, kind: str, text: str, **more: Any) -> None:
        self._seq += 1
        self.tally.told += 1
        self._waiting.append(Observation(seq=self._seq, t=self.clock.now(), kind=kind, text=text, **more))


class Postwoman:
    """A mind that answers whoever speaks to her, walks on while she walks, and sets out for the next station when she has arrived."""

    def __init__(self, tally: Callable[[], Tally], clock: Clock) -> None:
        self._tally, self._clock = tally, clock
        self._stations = itertools.cycle(STATIONS[1:] + STATIONS[:1])
        self._goal = next(self._stations)
        self._walks = False
        self._ends: set[str] = set()  # of which walks she has heard

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """See `sim.messages_api.Brain`."""
        reading = Reading(request)
        if not reading.tools:
            return Reply(content=[{"type": "text", "text": "I carried the letters."}])
        lines = self._tally().lines
        open_ = [stamp for stamp in dict.fromkeys(_STAMP.findall(reading.news)) if stamp in lines and lines[stamp].answered is None]
        for stamp in open_:
            if lines[stamp].asked is None:
                lines[stamp].asked = self._clock.now()
        if open_:
            content = [_use("say", text=f"No letter today, come again tomorrow. {stamp}") for stamp in open_]
            return Reply(content=content)
        for how, number in _END.findall(reading.said):
            if number not in self._ends:
                self._ends.add(number)
                self._walks = False
                if how.startswith(REACHED):
                    self._goal = next(self._stations)
        if self._walks:
            return Reply(content=[{"type": "text", "text": "(I walk on.)"}])
        self._walks = True
        return Reply(content=[_use("go", place=self._goal)])


def _use(name: str, **arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": arguments}
