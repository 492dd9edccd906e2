"""Tarnwick, the village of the simulator: its places, the ways between them, and what stands there.

Invariant: data, and pure searches over it. Every place can be reached from every other; a way takes the same seconds in both directions.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A room. `ways` leads to neighbours in so many seconds on foot; `things` can be looked at, `loose` can be taken as well."""

    id: str
    name: str
    text: str
    ways: Mapping[str, float]
    things: Mapping[str, str]
    loose: tuple[str, ...] = ()


_ALL = (
    Place(
        id="inn",
        name="the Lantern Inn",
        text="A low room with a long counter, a stove that ticks, and a lantern in every window.",
        ways={"square": 3.0},
        things={
            "stove": "Cast iron, older than the roof. Somebody scratched a fish into the door.",
            "counter": "Oak, with a hundred rings left by a hundred mugs.",
            "lantern": "Green glass. It has not gone out since the flood.",
        },
        loose=("tin whistle", "black bread"),
    ),
    Place(
        id="square",
        name="the square",
        text="Cobbles, a well with a crooked roof, and the bell tower that keeps its own time.",
        ways={"inn": 3.0, "market": 3.0, "smithy": 4.0, "bridge": 5.0},
        things={
            "well": "Deep. The bucket comes up with a little ice in it.",
            "bell tower": "The bell is called Old Greta. She is a quarter of an hour late.",
        },
        loose=("fallen shingle",),
    ),
    Place(
        id="market",
        name="the market",
        text="Stalls under patched canvas, shouting, cheese, geese, and a man who sells hinges.",
        ways={"square": 3.0, "bathhouse": 4.0},
        things={
            "hinge stall": "Hinges of every size, sorted by squeak.",
            "goose": "It looks back, and it is not impressed.",
        },
        loose=("pear", "glass bead"),
    ),
    Place(
        id="smithy",
        name="the smithy",
        text="Heat, sparks, and a wall of tools that have all been borrowed at least once.",
        ways={"square": 4.0},
        things={"anvil": "One horn is shorter than the other.", "bellows": "They sigh even when nobody works them."},
        loose=("horseshoe", "iron hook"),
    ),
    Place(
        id="bridge",
        name="the toll bridge",
        text="A stone arch over fast water. The toll hut has a chain, a bell and a very small window.",
        ways={"square": 5.0, "mill": 6.0, "pass": 12.0},
        things={"toll hut": "A sign: SONGS NO LONGER ACCEPTED.", "chain": "Wet, heavy, and polished by sleeves."},
    ),
    Place(
        id="mill",
        name="the mill",
        text="The wheel turns, the floor hums, and flour hangs in the light. The flood gate is shut with the miller's seal.",
        ways={"bridge": 6.0},
        things={
            "flood gate": "Two doors of larch, taller than a house. The seal in the middle is whole.",
            "wheel": "It turns, and every ninth turn it stumbles.",
        },
        loose=("sack of barley",),
    ),
    Place(
        id="bathhouse",
        name="the bathhouse",
        text="Steam, dripping beams, and somebody singing behind a curtain.",
        ways={"market": 4.0},
        things={"curtain": "It hides less than the singer thinks."},
        loose=("wool towel",),
    ),
    Place(
        id="pass",
        name="the pass",
        text="Wind, cairns and old snow. The village is a handful of lights below.",
        ways={"bridge": 12.0},
        things={"cairn": "Every stone has a letter on it. None of them spell anything."},
        loose=("eagle feather",),
    ),
)

PLACES: Mapping[str, Place] = {p.id: p for p in _ALL}


def route(start: str, goal: str) -> tuple[tuple[str, float], ...]:
    """The quickest way as legs (next place, seconds); empty when already there.

    Raises:
        KeyError: there is no such place.
    """
    if goal not in PLACES:
        raise KeyError(goal)
    ends: dict[str, tuple[float, str]] = {start: (0.0, "")}
    queue = [(0.0, start)]
    while queue:
        spent, here = heapq.heappop(queue)
        if here == goal:
            break
        for there, seconds in PLACES[here].ways.items():
            if there not in ends or spent + seconds < ends[there][0]:
                ends[there] = (spent + seconds, here)
                heapq.heappush(queue, (spent + seconds, there))
    legs: list[tuple[str, float]] = []
    here = goal
    while here != start:
        before = ends[here][1]
        legs.append((here, PLACES[before].ways[here]))
        here = before
    return tuple(reversed(legs))
