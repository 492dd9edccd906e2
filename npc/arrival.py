"""Where the body is, by the world's account, and whether that contradicts a world that says "done".

Invariants: pure; a position is what the world told as data, never read out of words; where it tells none, or in other words than the goal
was given in, nothing is concluded. A contradiction needs both places known by names of one vocabulary, or both in coordinates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from world_adapter.frames import ActionSpec, Observation

#: Kinds of observations whose data tell where the body is.
KINDS = frozenset({"moved", "scene"})
_NAMES = ("room", "place", "location", "room_name", "place_name")
_POINTS = ("pos", "position", "coords", "xyz")
_AXES = ("x", "y", "z")
#: Arguments that name where an action leads.
_TARGETS = ("place", "room", "location", "destination", "goal", "target", "to", "where")
_NEAR = ("range", "radius", "distance", "within")
#: How near counts as there, in the world's own units, where the action does not say.
NEAR = 2.0
_FILL = re.compile(r"[\W_]+")
_ARTICLE = re.compile(r"^(?:the|a|an) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where the body is: its names as the world told them, the best to show first, and coordinates by axis."""

    names: tuple[str, ...] = ()
    at: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """For the mind."""
        name = self.names[0][:80] if self.names else ""
        point = _shown(self.at)
        return f"{name} ({point})" if name and point else name or point

    def same(self, other: Position) -> bool:
        """Whether the body has not moved between the two, as far as they tell."""
        if self.at and other.at and self.at.keys() == other.at.keys():
            return _apart(self.at, other.at) <= NEAR
        return keys(self) == keys(other)


#: Keys under which a world may keep the NPC's own place; one that holds the NPC's own id is another.
_OWN_KEYS = frozenset({"self", "me", "body", "pos", "position", "place", "room", "location", "here", "scene", "moved", "coords"})


def of_another(observation: Observation, me: str) -> bool:
    """Whether a movement is somebody else's: told from another, or of an entity, or under a key that is not this NPC's (`me`, its id)."""
    if observation.kind != "moved" or observation.own or (me and observation.to == me):
        return False
    speaker, key, entity = observation.speaker, observation.key, (observation.data or {}).get("entity")
    if entity is not None and entity != me:
        return True
    if speaker and speaker.kind != "world" and (speaker.id or speaker.name) and me not in (speaker.id, speaker.name):
        return True
    return key is not None and key.casefold() not in _OWN_KEYS and not (me and me.casefold() in key.casefold())


def told(observation: Observation) -> Position | None:
    """Where an observation says that the body is now; None where it does not say."""
    data = observation.data
    if observation.kind not in KINDS or not data:
        return None
    names: list[str] = []
    for key in _NAMES:
        value = data.get(key)
        if isinstance(value, Mapping):
            names += [v for v in (value.get("name"), value.get("id")) if isinstance(v, str) and v.strip()]
        elif isinstance(value, str) and value.strip():
            names.append(value)
    at = next((p for key in _POINTS if (p := _point(data.get(key)))), None) or _point(data) or {}
    return Position(names=tuple(dict.fromkeys(names)), at=at) if names or at else None


def keys(position: Position) -> frozenset[str]:
    """The names of a position as they are compared."""
    return frozenset(key for name in position.names if (key := _key(name)))


def contradiction(action: ActionSpec, arguments: Mapping[str, Any], position: Position | None, known: Collection[str] = ()) -> str:
    """What is wrong with a "done" of this action, as a sentence; "" where the position agrees or nothing can be concluded.

    `known` are the names, as `keys` gives them, under which this world has told positions before.
    """
    if not action.moves_body or position is None:
        return ""
    names = keys(position)
    for argument in _TARGETS:
        value = arguments.get(argument)
        if not isinstance(value, str) or not (target := _key(value)):
            continue
        if target in names:
            return ""
        if names and (target in known or _one_list(action, argument, target, names)):
            return f"the world says done, but by its own account you are at {position.words}, not at {value[:80]}"
    goal = _point(arguments) or next((p for key in (*_POINTS, *_TARGETS) if (p := _point(arguments.get(key)))), None)
    if goal and position.at and (axes := goal.keys() & position.at.keys()):
        near = max([NEAR, *(n + 1.0 for key in _NEAR if (n := _number(arguments.get(key))) is not None)])
        if _apart({a: goal[a] for a in axes}, position.at) > near:
            return f"the world says done, but by its own account you are at {position.words}, not at {_shown(goal)}"
    return ""


def _one_list(action: ActionSpec, argument: str, target: str, names: Collection[str]) -> bool:
    """Whether the action's schema lists goal and position among the same choices."""
    properties = action.schema.get("properties")
    schema = properties.get(argument) if isinstance(properties, Mapping) else None
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(choices, list):
        return False
    listed = {_key(choice) for choice in choices if isinstance(choice, str)}
    return target in listed and not listed.isdisjoint(names)


def _key(name: str) -> str:
    return _ARTICLE.sub("", _FILL.sub(" ", name[:400].casefold()).strip())


def _point(value: object) -> dict[str, float] | None:
    """Coordinates by axis: of a map with x and one more, or of a list of two or three numbers."""
    if isinstance(value, Mapping):
        found = {axis: n for axis in _AXES if (n := _number(value.get(axis))) is not None}
        return found if len(found) > 1 else None
    if isinstance(value, (list, tuple)) and len(value) in (2, 3):
        numbers = [_number(v) for v in value]
        if all(n is not None for n in numbers):
            return {axis: n for axis, n in zip(_AXES, numbers, strict=False) if n is not None}
    return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return None
    return float(value)


def _apart(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    return math.hypot(*(a[axis] - b[axis] for axis in a))


def _shown(at: Mapping[str, float]) -> str:
    return ", ".join(f"{axis} {at[axis]:g}" for axis in _AXES if axis in at)
