"""What happens next in the village: one small scene at a time, so that an NPC's life is worth watching.

Invariant: the director decides by the village's own dice and hour alone. Every NPC is led through the opening once; afterwards scenes come
by chance, many in the evening and few at night.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from sim import words
from sim.floods import LATE_POISON

if TYPE_CHECKING:
    from sim.world import Being, Village

#: The first scenes of an NPC's life, in order: a little of everything, so that a minute shows what there is.
#: A page right after the annals: they have just made the ladder clear the window, so the page is still in it at the next scene.
OPENING = (
    *("greet", "tell", "chatter", "greet", "crowd", "hunt", "news", "tell", "trade", "annals", "page", "greet", "ask", "order"),
    *("crowd", "story", "ask", "bag", "hunt", "chatter", "greet", "gift", "look", "annals", "page", "ask", "news", "ask"),
)
_EVENING = (
    *(("greet", 14), ("chatter", 14), ("news", 8), ("trade", 7), ("tell", 6), ("ask", 7), ("hunt", 8), ("crowd", 7)),
    *(("story", 5), ("bag", 4), ("look", 4), ("go", 5), ("gift", 4), ("order", 4), ("comings", 8), ("annals", 1)),
)
_NOISES = ("Somewhere an owl asks the same question twice.", "The wheel of the mill stumbles and goes on.", "Rain, then no rain.")
_NIGHT = (("comings", 5), ("noise", 6), ("greet", 1), ("hunt", 1))


def beat(village: Village) -> float:
    """Lets one thing happen around one NPC and returns the seconds until the next (at bustle 1)."""
    r = village.random
    if npcs := village.npcs():
        npc = r.choice(npcs)
        step = village.opened.get(npc.id, 0)
        village.opened[npc.id] = step + 1
        if step < len(OPENING):
            scene = OPENING[step]
        else:
            names, weights = zip(*(_NIGHT if village.night else _EVENING), strict=True)
            scene = r.choices(names, weights)[0]
        SCENES.get(scene, _asks_for(scene))(village, npc, r)
    return r.uniform(6.0, 14.0) if village.night else r.uniform(1.2, 2.4)


def _company(village: Village, npc: Being, r: random.Random, name: str = "") -> Being:
    """A player who stands with the NPC: one who is there, or one who comes in. Crowds thin out by themselves."""
    here = village.here(npc.place, "player")
    if len(here) > 5:
        village.moves(here.pop(r.randrange(len(here))), r.choice(("square", "market", "bathhouse")))
    if name:
        player = next(b for b in village.beings.values() if b.name == name)
    elif here and r.random() < 0.7:
        return r.choice(here)
    else:
        player = r.choice([b for b in village.beings.values() if b.kind == "player"])
    village.moves(player, npc.place)
    return player


def _asks_for(wish: str) -> Callable[[Village, Being, random.Random], None]:
    def scene(village: Village, npc: Being, r: random.Random) -> None:
        village.speaks(_company(village, npc, r), words.call(r, wish).words, to=npc)

    return scene


def _chatter(village: Village, npc: Being, r: random.Random) -> None:
    for _ in range(r.randint(2, 4)):
        village.speaks(_company(village, npc, r), r.choice(words.CHATTER))


def _tell(village: Village, npc: Being, r: random.Random) -> None:
    player = _company(village, npc, r)
    thing, value = r.choice(words.THINGS), words.coined(r)
    village.facts[player.name, thing] = value
    village.speaks(player, f"Remember this for me: my {thing} is called {value}.", to=npc)


def _ask(village: Village, npc: Being, r: random.Random) -> None:
    if not village.facts:
        _tell(village, npc, r)
        return
    # Asked for are the older ones, that is what a window forgets; each goes to the end of the queue.
    told = list(village.facts)
    name, thing = r.choice(told[: max(2, len(told) // 2)])
    village.facts[name, thing] = village.facts.pop((name, thing))
    village.speaks(_company(village, npc, r, name), f"Do you still remember what my {thing} is called?", to=npc)


def _hunt(village: Village, npc: Being, r: random.Random) -> None:
    _company(village, npc, r)
    village.attacks(r.choice(words.MOBS), npc.place)


def _crowd(village: Village, npc: Being, r: random.Random) -> None:
    view, things = words.prose(r, r.randint(300, 900)), words.ledger(r, r.randint(100, 400))
    text = f"It has become crowded here.\n{view}\nWhat stands about:\n{things}"
    village.tell_place(npc.place, "scene", text, data={"room": npc.place, "crowd": r.randint(20, 60)})


def _annals(village: Village, npc: Being, r: random.Random) -> None:
    reader = _company(village, npc, r)
    text = f"{reader.name} unrolls the annals of Tarnwick and reads all of it aloud:\n{words.annals(r, village.monster_tokens)}"
    village.tell_place(npc.place, "scene", text, by=reader)
    village.speaks(reader, "what is going on here tonight?", to=npc)


def _order(village: Village, npc: Being, r: random.Random) -> None:
    village.speaks(_company(village, npc, r), r.choice(words.ORDERS).format(npc=npc.name), to=npc)


def _gift(village: Village, npc: Being, r: random.Random) -> None:
    player = _company(village, npc, r)
    if not player.carries:
        player.carries.append(words.thing(r))
    item = player.carries.pop()
    npc.carries.append(item)
    village.tell_place(npc.place, "item", f"{player.name} gives you a {item}.", by=player, to=npc, prio=6)
    village.speaks(player, "what are you carrying?", to=npc)


def _page(village: Village, npc: Being, r: random.Random) -> None:
    """What the stand-in lets pass today and declines tomorrow, so that the way out of a refused history is seen."""
    player = _company(village, npc, r)
    text = f"{player.name} shows a torn page around: “three parts of {LATE_POISON} to one of {r.choice(words.THINGS)} …”"
    village.tell_place(npc.place, "item", text, by=player)
    village.speaks(player, "look at this thing, is it worth anything?", to=npc)


def _comings(village: Village, npc: Being, r: random.Random) -> None:
    player = r.choice([b for b in village.beings.values() if b.kind == "player"])
    village.moves(player, npc.place if player.place != npc.place else "square")


def _noise(village: Village, npc: Being, r: random.Random) -> None:
    village.tell_place(npc.place, "notice", r.choice(_NOISES), prio=2)


SCENES: dict[str, Callable[[Village, Being, random.Random], None]] = {
    "chatter": _chatter,
    "tell": _tell,
    "ask": _ask,
    "hunt": _hunt,
    "crowd": _crowd,
    "annals": _annals,
    "order": _order,
    "gift": _gift,
    "page": _page,
    "comings": _comings,
    "noise": _noise,
}
