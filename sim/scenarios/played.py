"""Scenarios as turns that are told to one NPC.

Invariant: a pure function of (seed, turn). Scenarios that are told at the same time keep their own dice, so that each tells the same
whether it is alone or not; their lines are mixed, and one line is said to the NPC at the end.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim import words
from sim.floods import SPEAKING, Flood, Kind, Line, Result, Turn, asked_line, nasty, said_to, speech, stamped, told_line
from sim.scenarios.files import Scenario
from sim.scenarios.shapes import MOST_TOKENS, Phase, Tell

#: What a turn is called after, by the first thing of these that its phase tells.
_KINDS: Mapping[str, Kind] = {
    "monster": Kind.MONSTER, "hostile": Kind.HOSTILE, "order": Kind.HOSTILE, "blow": Kind.FIGHT, "foes": Kind.FIGHT, "scene": Kind.DENSE,
    "step": Kind.WALK, "speech": Kind.CHAT, "npc": Kind.CHAT, "spam": Kind.CHAT, "lines": Kind.CHAT,
}  # fmt: skip
#: Lines of one turn, whatever the files ask for.
MOST_LINES = 5_000
_NPCS = ("Bram the smith", "Wenna of the mill", "Toll keeper Ysolde")


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What scenarios tell one NPC: a `floods.Script`.

    Attributes:
        scenarios: told at the same time.
        seed: another seed is another life.
        window: tokens that the model may hold.
        npc: the NPC's name.
        ask_every: as in a flood, where the first scenario has facts.
    """

    scenarios: Sequence[Scenario]
    seed: int
    window: int
    npc: str = "Oda"
    ask_every: int = 50

    @property
    def pace_s(self) -> float:
        """Seconds of a turn in real time: the quickest scenario's."""
        return min(one.file.pace_s for one in self.scenarios)

    def turn(self, number: int) -> Turn:
        """See `floods.Script`."""
        turn = self.unstamped(number)
        return replace(turn, lines=stamped(turn.lines, number))

    def unstamped(self, number: int) -> Turn:
        """The same as people would hear it, without a number at the end of each line."""
        told = [found for one in self.scenarios for found in one.at(number)]
        streams = [
            list(self._lines(random.Random(f"{self.seed}/scenario/{n}/{scenario.name}/{number}"), phase))
            for n, (scenario, phase, _) in enumerate(told)
        ]
        lines = _mixed(random.Random(f"{self.seed}/mixed/{number}"), streams)[:MOST_LINES]
        fact, asked = self._facts.facts(number) if self.scenarios[0].file.facts else (None, None)
        if fact is not None:
            lines.append(told_line(fact, self.npc))
        lines.append(asked_line(asked, self.npc) if asked else self._call(random.Random(f"{self.seed}/call/{number}"), told[0][1]))
        kind = Kind.TOLD if fact else Kind.ASKED if asked else _kind(told[0][1])
        undone = max((phase.undo for _, phase, passed in told if not passed), default=0)
        return Turn(number=number, kind=kind, told=fact, asked=asked, lines=tuple(lines), undone=min(undone, number))

    def result(self, number: int, name: str, args: Mapping[str, Any]) -> Result:
        """See `floods.Script`."""
        wanted = self.scenarios[0].at(number)[0][0].file.results
        if wanted is None or name in SPEAKING:
            return self._facts.result(number, name, args)
        asked = json.dumps(args, sort_keys=True, ensure_ascii=True, default=str)
        r = random.Random(f"{self.seed}/result/{number}/{name}/{asked}")
        luck = r.random()
        if luck < wanted.failing:
            return Result(text=f"{name}: there is nothing like that here.", ok=False)
        if luck < wanted.failing + wanted.empty:
            return Result(text="")
        mark = f"{name} {number}/{r.getrandbits(24):06x}"
        return Result(text=f"[{mark}]\n{words.prose(r, r.randint(*wanted.tokens))}\n[that was {mark}]")

    @property
    def _facts(self) -> Flood:
        return Flood(seed=self.seed, window=self.window, npc=self.npc, ask_every=self.ask_every, poison_every=0)

    def _call(self, r: random.Random, phase: Phase) -> Line:
        call = words.call(r, phase.wish)
        said = r.choice(phase.calls).replace("{npc}", self.npc) if phase.calls else call.words
        return said_to(self.npc, phase.caller or call.player, said)

    def _lines(self, r: random.Random, phase: Phase) -> Iterator[Line]:
        for tell in phase.tell:
            if r.random() < tell.chance:
                spammed = r.choice(tell.lines) if tell.lines else r.choice(words.CHATTER)
                who = tell.player or r.choice(words.PLAYERS)
                for n in range(r.randint(*tell.times)):
                    yield self._line(r, tell, n, spammed=spammed, spammer=who)

    def _line(self, r: random.Random, tell: Tell, n: int, *, spammed: str, spammer: str) -> Line:
        line = self._told(r, tell, n, spammed=spammed, spammer=spammer)
        return replace(line, key=tell.key or line.key)

    def _told(self, r: random.Random, tell: Tell, n: int, *, spammed: str, spammer: str) -> Line:
        match tell.what:
            case "time":
                return Line(kind="time", text=f"The bell strikes {r.randint(1, 12)}; {words.weather(r)}", key="weather", prio=3)
            case "strength":
                return Line(kind="notice", text=f"Your strength is {r.randint(20, 90)} of 90", key="strength", prio=4)
            case "stir":
                return Line(kind="emote", text=words.sentence(r), prio=4)
            case "blow":
                return Line(kind="combat", text=words.blow(r), prio=6)
            case "foes":
                return Line(kind="combat", text="Who fights whom:\n" + words.ledger(r, self._size(r, tell, (300, 900))), prio=5)
            case "scene":
                size = self._size(r, tell, (700, 1800))
                seen = f"What you see.\n{words.prose(r, size * 2 // 3)}\nWhat stands here:\n{words.ledger(r, max(1, size // 3))}"
                return Line(kind="scene", text=seen, data={"things": r.randint(8, 40)})
            case "step":
                start = n == 0
                text = "You set out." if start else f"On the way, {words.sentence(r)}"
                return Line(kind="moved", text=text, own=start, prio=4)
            case "monster":
                return Line(kind="scene", text=f"The annals are read aloud:\n{words.annals(r, self._size(r, tell, (4_000, 20_000)))}")
            case "hostile":
                return Line(kind="speech", text=nasty(r, self.npc), player=r.choice(words.PLAYERS))
            case "order":
                return said_to(self.npc, tell.player or r.choice(words.PLAYERS), r.choice(words.ORDERS).replace("{npc}", self.npc))
            case "npc":
                said = r.choice(tell.lines) if tell.lines else words.call(r).words
                return said_to(self.npc, tell.player or _NPCS[0], said.replace("{npc}", self.npc), speaker="npc")
            case "spam":
                return Line(kind="speech", text=f'{spammer} says: "{spammed}"'.replace("{npc}", self.npc), player=spammer)
            case "lines":
                return Line(kind=tell.kind, text=r.choice(tell.lines).replace("{npc}", self.npc), player=tell.player)
            case _:
                if not tell.lines:
                    return speech(r)
                player = tell.player or r.choice(words.PLAYERS)
                return Line(kind="speech", text=f'{player} says: "{r.choice(tell.lines)}"'.replace("{npc}", self.npc), player=player)

    def _size(self, r: random.Random, tell: Tell, usual: tuple[int, int]) -> int:
        if tell.windows is not None:
            return max(1, min(int(self.window * r.uniform(*tell.windows)), MOST_TOKENS))
        return r.randint(*(tell.tokens or usual))


def _mixed(r: random.Random, streams: list[list[Line]]) -> list[Line]:
    """Streams as one, each in its own order."""
    order = [n for n, stream in enumerate(streams) for _ in stream]
    if len(streams) > 1:
        r.shuffle(order)
    heads = [iter(stream) for stream in streams]
    return [next(heads[n]) for n in order]


def _kind(phase: Phase) -> Kind:
    return next((_KINDS[tell.what] for tell in phase.tell if tell.what in _KINDS), Kind.TICK)
