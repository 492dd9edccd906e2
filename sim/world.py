"""The village as a model: who is where, who walks, who fights, what lies about, and what each NPC perceives of it.

Invariant: pure. Time is data (seconds, from the caller), chance is the seed, and nothing happens but in `step(now)` and in what an NPC
does; so the same calls give the same village, and one step to a moment tells the same as many small steps to it.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sim import director, words
from sim.actions import SAY_CHARS
from sim.places import PLACES, route

DAWN, DUSK, NIGHT = 6 * 60, 18 * 60, 23 * 60
FULL_STRENGTH = 90
BLOW_EVERY_S = 1.1
CLOCK_EVERY_MINUTES = 60


@dataclass(slots=True, kw_only=True)
class Being:
    """Someone in the village. `kind` is player, npc or mob."""

    id: str
    name: str
    kind: Literal["player", "npc", "mob"]
    place: str
    strength: int = FULL_STRENGTH
    carries: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One observation for one NPC; fields as on the wire. `by` is a copy of who caused it, None for the world itself."""

    npc: str
    kind: str
    text: str
    wt: str
    by: Being | None = None
    to: str | None = None
    own: bool = False
    key: str | None = None
    prio: int = 5
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An ongoing action of an NPC came to its end."""

    npc: str
    act: str
    state: Literal["done", "failed", "cancelled"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an action brought at once. `accepted` means that an `Ended` follows; `code` is set where it failed."""

    state: Literal["accepted", "done", "failed"]
    text: str
    code: str = ""


@dataclass(slots=True, kw_only=True)
class _Walk:
    act: str
    legs: list[tuple[str, float]]


class Village:
    """Tarnwick.

    Args:
        seed: any number; the same seed is the same village.
        now: the moment at which it begins, seconds.
        pace: minutes of the village's day in one second.
        bustle: how often something happens; 2 is twice as often.
        monster_tokens: length of the texts that nobody should have to read.
    """

    def __init__(self, *, seed: int, now: float = 0.0, pace: float = 6.0, bustle: float = 1.0, monster_tokens: int = 30_000) -> None:
        self.random = random.Random(f"tarnwick/{seed}")
        self.monster_tokens, self.bustle = monster_tokens, bustle
        self.beings: dict[str, Being] = {}
        self.loose: dict[str, list[str]] = {p.id: list(p.loose) for p in PLACES.values()}
        self.opened: dict[str, int] = {}  # how many scenes each NPC has had
        self.facts: dict[tuple[str, str], str] = {}  # (player, thing): what it is called, the longest not asked for first
        self._began, self._now, self._pace = now, now, pace
        self._serial = itertools.count(1)
        self._agenda: list[tuple[float, int, str, str]] = []
        self._walks: dict[str, _Walk] = {}
        self._events: list[Told | Ended] = []
        for n, name in enumerate(words.PLAYERS):
            place = self.random.choice(list(PLACES))
            self.beings[f"p{n}"] = Being(id=f"p{n}", name=name, kind="player", place=place, carries=[words.thing(self.random)])
        self._plan(now, "clock", "")
        self._plan(now + 1.0 / bustle, "beat", "")

    # -- what a caller does

    def enter(self, npc: str, name: str, *, place: str = "inn") -> None:
        """An NPC's body is here from now on; an id that is known already goes on where it stood."""
        body = self.beings.setdefault(npc, Being(id=npc, name=name, kind="npc", place=place))
        self.tell(npc, "scene", self.view(body), key="scene", data=self._entities(body.place), prio=4)
        self.tell(npc, "time", self._hour_text(), key="time", prio=2)

    def step(self, now: float) -> list[Told | Ended]:
        """Everything that happened up to `now`, oldest first. Time that goes backwards is ignored."""
        while self._agenda and self._agenda[0][0] <= now:
            due, _, what, who = heapq.heappop(self._agenda)
            self._now = max(self._now, due)
            match what:
                case "clock":
                    self._clock()
                case "beat":
                    pause = director.beat(self)
                    self._plan(self._now + pause / self.bustle, "beat", "")
                case "blow":
                    self._blow(who)
                case _:
                    self._leg(who, what)
        self._now = max(self._now, now)
        told, self._events = self._events, []
        return told

    @property
    def next_due(self) -> float:
        """The moment at which something will happen next."""
        return self._now if self._events else self._agenda[0][0]

    def act(self, npc: str, act: str, name: str, args: Mapping[str, Any]) -> Outcome:
        """What comes of an action, at the moment of the last step."""
        body = self.beings.get(npc)
        if body is None:
            return Outcome(state="failed", text="you are not in the village", code="absent")
        given = {k: str(v).strip() for k, v in args.items()}
        match name:
            case "look":
                return self._look(body, given.get("target", ""))
            case "say":
                return self._say(body, given.get("text", ""), given.get("to", ""))
            case "emote":
                self.tell_place(body.place, "emote", f"{body.name} {given.get('text', '')[:160]}", by=body)
                return Outcome(state="done", text="done")
            case "move_to":
                return self._set_out(body, act, given.get("place", ""))
            case "take":
                return self._take(body, given.get("item", ""))
            case "give":
                return self._give(body, given.get("item", ""), given.get("to", ""))
            case "inventory":
                return Outcome(state="done", text=f"You carry {_listed(body.carries) or 'nothing'}.")
            case "attack":
                return self._attack(body, given.get("target", ""))
            case _:
                return Outcome(state="failed", text=f"nobody here knows how to {name}", code="unknown_action")

    def cancel(self, npc: str, act: str) -> None:
        """Stops walking; the body stays where the last finished leg brought it."""
        walk = self._walks.get(npc)
        if walk and walk.act == act:
            del self._walks[npc]
            self._events.append(Ended(npc=npc, act=act, state="cancelled", text=f"You stop at {PLACES[self.beings[npc].place].name}."))

    # -- what the director does

    @property
    def minute(self) -> int:
        """Minute of the village's day."""
        return int(17 * 60 + (self._now - self._began) * self._pace) % 1440

    @property
    def night(self) -> bool:
        """Whether decent people sleep."""
        return self.minute >= NIGHT or self.minute < DAWN

    def npcs(self) -> list[Being]:
        """The NPCs' bodies, in the order in which they came."""
        return [b for b in self.beings.values() if b.kind == "npc"]

    def here(self, place: str, kind: str) -> list[Being]:
        """Beings of one kind in a place."""
        return [b for b in self.beings.values() if b.place == place and b.kind == kind]

    def moves(self, being: Being, place: str) -> None:
        """A player or mob goes to a place at once; NPCs on both ends see it."""
        if being.place != place:
            self.tell_place(being.place, "presence", f"{being.name} leaves towards {PLACES[place].name}.", by=being, prio=3)
            being.place = place
            self.tell_place(place, "presence", f"{being.name} comes in.", by=being, prio=4)

    def speaks(self, being: Being, text: str, *, to: Being | None = None) -> None:
        """Someone says a line aloud."""
        line = f'{being.name} says to {to.name}: "{text}"' if to else f'{being.name} says: "{text}"'
        self.tell_place(being.place, "speech", line, by=being, to=to, prio=7 if to else 5)

    def attacks(self, name: str, place: str) -> None:
        """A creature comes and there is a fight."""
        mob = Being(id=f"m{next(self._serial)}", name=name, kind="mob", place=place, strength=self.random.randint(25, 60))
        self.beings[mob.id] = mob
        self.tell_place(place, "combat", f"A {name} comes out of the dark!", by=mob, prio=8)
        self._plan(self._now + BLOW_EVERY_S / self.bustle, "blow", mob.id)

    def tell_place(self, place: str, kind: str, text: str, *, by: Being | None = None, to: Being | None = None, **fields: Any) -> None:
        """All NPCs in a place perceive something; whoever caused it perceives it as the own."""
        for npc in self.here(place, "npc"):
            self.tell(npc.id, kind, text, by=by, to=to.id if to else None, own=by is npc, **fields)

    def tell(self, npc: str, kind: str, text: str, *, by: Being | None = None, **fields: Any) -> None:
        """One NPC perceives something; `fields` as in `Told`."""
        copy = Being(id=by.id, name=by.name, kind=by.kind, place=by.place) if by else None
        self._events.append(Told(npc=npc, kind=kind, text=text, by=copy, wt=self.world_time, **fields))

    @property
    def world_time(self) -> str:
        """Day and hour, for people."""
        minutes = int(17 * 60 + (self._now - self._began) * self._pace)
        return f"day {1 + minutes // 1440}, {minutes % 1440 // 60:02d}:{minutes % 60:02d}"

    def view(self, body: Being) -> str:
        """What someone sees who looks around."""
        place = PLACES[body.place]
        others = [b.name for b in self.beings.values() if b.place == body.place and b is not body]
        lines = [f"You are in {place.name}. {place.text}", f"Ways lead to {_listed(sorted(place.ways))}."]
        if others:
            lines.append(f"Here: {_listed(others)}.")
        if self.loose[body.place]:
            lines.append(f"Lying about: {_listed(self.loose[body.place])}.")
        return "\n".join(lines)

    # -- what happens by itself

    def _plan(self, due: float, what: str, who: str) -> None:
        heapq.heappush(self._agenda, (due, next(self._serial), what, who))

    def _clock(self) -> None:
        for npc in self.npcs():
            self.tell(npc.id, "time", self._hour_text(), key="time", prio=2)
        self._plan(self._now + CLOCK_EVERY_MINUTES / self._pace, "clock", "")

    def _hour_text(self) -> str:
        word = "night" if self.night else "evening" if self.minute >= DUSK else "day"
        return f"It is {self.world_time}, {word}; {words.sky(self.random)}."

    def _blow(self, who: str) -> None:
        """One exchange of a fight. Everyone strikes the creature; it strikes back at one of them."""
        mob = self.beings.get(who)
        if mob is None:
            return
        r, place = self.random, mob.place
        fighters = [*self.here(place, "player"), *self.here(place, "npc")]
        if not fighters:
            del self.beings[who]  # it found nobody and went its way
            return
        foe = r.choice(fighters)
        harm = r.randint(1, 9)
        foe.strength = max(5, foe.strength - harm)
        text = f"The {mob.name} bites {foe.name} for {harm}; {foe.name} has {foe.strength} of {FULL_STRENGTH} left."
        self.tell_place(place, "combat", text, by=mob, prio=6, data={"foe": foe.id, "harm": harm, "left": foe.strength})
        if foe.kind == "npc":
            self.tell(foe.id, "hurt", f"The {mob.name} hurts you: {foe.strength} of {FULL_STRENGTH} left.", by=mob, prio=8)
            self.tell(foe.id, "notice", f"Your strength is {foe.strength} of {FULL_STRENGTH}.", key="strength", prio=4)
        if players := self.here(place, "player"):
            self._strike(r.choice(players), mob)
        if mob.id in self.beings:
            self._plan(self._now + BLOW_EVERY_S / self.bustle, "blow", who)

    def _strike(self, fighter: Being, mob: Being) -> str:
        harm = self.random.randint(4, 16)
        mob.strength -= harm
        text = f"{fighter.name} hits the {mob.name} for {harm}."
        if mob.strength <= 0:
            del self.beings[mob.id]
            trophy = f"{mob.name} tooth"
            self.loose[mob.place].append(trophy)
            text += f" It falls. A {trophy} lies on the ground."
        self.tell_place(mob.place, "combat", text, by=fighter, prio=6)
        return text

    def _leg(self, npc: str, act: str) -> None:
        """The next leg of a walk is done."""
        walk, body = self._walks.get(npc), self.beings.get(npc)
        if walk is None or body is None or walk.act != act:
            return
        there, _ = walk.legs.pop(0)
        before, body.place = body.place, there
        for onlooker in (*self.here(before, "npc"), *self.here(there, "npc")):
            if onlooker is not body:
                text = f"{body.name} walks from {PLACES[before].name} to {PLACES[there].name}."
                self.tell(onlooker.id, "presence", text, by=body, prio=3)
        self.tell(npc, "moved", f"You reach {PLACES[there].name}.", by=body, own=True, prio=4, data={"room": there})
        if walk.legs:
            self._plan(self._now + walk.legs[0][1], act, npc)
            return
        del self._walks[npc]
        self.tell(npc, "scene", self.view(body), key="scene", data=self._entities(there))
        self._events.append(Ended(npc=npc, act=act, state="done", text=f"You are in {PLACES[there].name}."))

    def _entities(self, place: str) -> dict[str, Any]:
        return {"room": place, "ways": dict(PLACES[place].ways), "who": [b.name for b in self.beings.values() if b.place == place]}

    # -- what an NPC does

    def _look(self, body: Being, target: str) -> Outcome:
        if not target:
            return Outcome(state="done", text=self.view(body))
        place, low = PLACES[body.place], target.lower()
        for name, text in place.things.items():
            if name in low:
                return Outcome(state="done", text=text)
        for being in self.beings.values():
            if being.place == body.place and being.name.lower() in low:
                carried = f", carrying {_listed(being.carries)}" if being.carries else ""
                return Outcome(state="done", text=f"{being.name}, {being.strength} of {FULL_STRENGTH} strong{carried}.")
        return Outcome(state="failed", text=f"You see no {target} here.", code="not_here")

    def _say(self, body: Being, text: str, to: str) -> Outcome:
        if not text:
            return Outcome(state="failed", text="You open your mouth and nothing comes.", code="empty")
        if len(text) > SAY_CHARS:
            return Outcome(state="failed", text=f"Too long to say in one breath; {SAY_CHARS} characters are the limit.", code="too_long")
        listener = next((b for b in self.beings.values() if b.place == body.place and to and b.name.lower() == to.lower()), None)
        self.speaks(body, text, to=listener)
        return Outcome(state="done", text="said")

    def _set_out(self, body: Being, act: str, place: str) -> Outcome:
        if place not in PLACES:
            text = f"No way leads to {place or 'nowhere'}; there are {_listed(sorted(PLACES))}."
            return Outcome(state="failed", text=text, code="no_such_place")
        if body.id in self._walks:
            self.cancel(body.id, self._walks[body.id].act)
        legs = route(body.place, place)
        if not legs:
            return Outcome(state="done", text=f"You are in {PLACES[place].name} already.")
        self._walks[body.id] = _Walk(act=act, legs=list(legs))
        self._plan(self._now + legs[0][1], act, body.id)
        return Outcome(state="accepted", text=f"You set out for {PLACES[place].name}, {sum(s for _, s in legs):.0f} seconds away.")

    def _take(self, body: Being, item: str) -> Outcome:
        lying = self.loose[body.place]
        found = next((x for x in lying if item and (item.lower() in x or x in item.lower())), None)
        if found is None:
            return Outcome(state="failed", text=f"No {item or 'such thing'} lies here.", code="not_here")
        lying.remove(found)
        body.carries.append(found)
        self.tell_place(body.place, "item", f"{body.name} picks up the {found}.", by=body, prio=4)
        return Outcome(state="done", text=f"You have the {found} now.")

    def _give(self, body: Being, item: str, to: str) -> Outcome:
        found = next((x for x in body.carries if item and item.lower() in x), None)
        taker = next((b for b in self.beings.values() if b.place == body.place and b is not body and b.name.lower() == to.lower()), None)
        if found is None or taker is None:
            missing = f"You carry no {item}." if found is None else f"{to} is not here."
            return Outcome(state="failed", text=missing, code="not_here")
        body.carries.remove(found)
        taker.carries.append(found)
        self.tell_place(body.place, "item", f"{body.name} gives the {found} to {taker.name}.", by=body, prio=4)
        return Outcome(state="done", text=f"{taker.name} takes the {found}.")

    def _attack(self, body: Being, target: str) -> Outcome:
        mob = next((b for b in self.here(body.place, "mob") if target.lower() in b.name or b.name in target.lower()), None)
        if mob is None:
            return Outcome(state="failed", text=f"There is no {target or 'creature'} here to strike.", code="not_here")
        return Outcome(state="done", text=self._strike(body, mob))


def _listed(names: list[str]) -> str:
    return ", ".join(names)
