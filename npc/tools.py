"""The model's tools: the world's actions under their own names, and the runtime's own, which start with `npc_`.

Invariants: the same actions give the same tools in the same order, byte for byte; a name that the API would refuse is mapped, and mapped
back; a world's action can never take the name of one of ours; what a world declares beyond the room for it is told shorter, and left out
and named where that is not enough, so that no list of actions takes the mind's own place. Above a number of actions they are looked for
(`npc.catalogue`), and what is shown then does not depend on what there is to be found.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from npc.catalogue import API_SEARCH, DO, FIND, Catalogue, Search
from npc.schemas import brief_schema, schema_of
from world_adapter.frames import ActionSpec

OWN = "npc_"
_ALLOWED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
DESCRIPTION_CHARS = 1_000
BRIEF_CHARS = 120
#: Tokens around the words of a tool.
OVERHEAD = 12
#: Beyond so many characters for each token of room nobody need count them.
CHARS_EACH = 16
#: What a request may hold of tools that are only sent to be found: the provider takes no more of them, and it goes over the wire each time.
MOST_DEFERRED = 10_000
DEFERRED_CHARS = 4_000_000
#: Tokens that the definition of one of them may always have.
LEAST_DEFINITION = 300

RECALL: Mapping[str, Any] = {
    "name": "npc_recall",
    "description": "Search what you heard before by words, or read one event in full by its number.",
    "input_schema": {
        "type": "object",
        "properties": {
            "event": {"type": "integer"},
            "words": {"type": "string"},
        },
    },
}
STOP: Mapping[str, Any] = {
    "name": "npc_stop",
    "description": "Stop a walk or another long action that is under way: the one of that tool, or all.",
    "input_schema": {"type": "object", "properties": {"action": {"type": "string"}}},
}


class Toolbox:
    """The tools of one list of actions, beside the runtime's `own`.

    The world's take at most `room` tokens as `count` counts them (None: any number). `first` is the action that goes before all others.
    With `search` most of a long list is not shown but found; the room is that of what is shown.

    Attributes:
        actions: by tool name, those that found room.
        left_out: the world's names of those that did not.
        shortened: whether the others are told by the names and types of their arguments only.
        catalogue: those that have to be looked for, None where all are shown.
        way: who looks for them, "" where all are shown.
    """

    def __init__(
        self, actions: Iterable[ActionSpec] = (), *, own: Sequence[Mapping[str, Any]] = (), room: int | None = None,
        count: Callable[[str], int] = len, first: str = "", search: Search | None = None,
    ) -> None:  # fmt: skip
        self.actions: dict[str, ActionSpec] = {}
        self.left_out: tuple[str, ...] = ()
        self.shortened = False
        self.catalogue: Catalogue | None = None
        self.way = ""
        self._own = (RECALL, *own)
        for action in sorted(actions, key=lambda a: a.name):
            self.actions[self._name(action.name)] = action
        self._tools = {name: _tool(name, action) for name, action in self.actions.items()}
        self._deferred: dict[str, dict[str, Any]] = {}
        hidden = self._hidden(search, count, first) if search else {}
        if room is not None:
            self._fit(room, count, first)
        self.actions |= hidden  # what is found is run like what is shown

    def _hidden(self, search: Search, count: Callable[[str], int], first: str) -> dict[str, ActionSpec]:
        """Take away the actions that are not shown but found, and return them."""
        if not search.due(len(self.actions), lambda room: _size(self._tools.values(), room, count)):
            return {}
        shown = {first, *search.always}
        hidden = {name: action for name, action in self.actions.items() if action.name not in shown}
        self.catalogue, self.way = Catalogue(hidden, count), search.way
        tools = {name: self._tools.pop(name) for name in hidden}
        self.actions = {name: action for name, action in self.actions.items() if name not in hidden}
        if search.way == "own":
            return hidden
        # What is found stands in the conversation as long as this, without a question to us.
        most = max(LEAST_DEFINITION, search.room // 2)
        large = [name for name, tool in tools.items() if _size([tool], most, count) > most]
        tools |= {name: _brief(name, hidden[name]) for name in large}
        flood = {name for name in large if _size([tools[name]], most, count) > most}
        lengths = {name: len(json.dumps(tool)) for name, tool in tools.items()}
        room = DEFERRED_CHARS
        for name in sorted(tools, key=lambda n: (lengths[n], n)):
            room -= lengths[name]
            if name in flood or room < 0 or len(self._deferred) >= MOST_DEFERRED:
                self.left_out = (*self.left_out, hidden.pop(name).name)
            else:
                self._deferred[name] = {**tools[name], "defer_loading": True}
        return hidden

    def _fit(self, room: int, count: Callable[[str], int], first: str) -> None:
        if _size(self._tools.values(), room, count) <= room:
            return
        self.shortened = True
        self._tools = {name: _brief(name, action) for name, action in self.actions.items()}
        sizes = {name: _size([tool], room, count) for name, tool in self._tools.items()}
        # The smallest first: so most of them stay, and one that is a flood by itself does not.
        for name in sorted(self.actions, key=lambda n: (self.actions[n].name != first, sizes[n], n)):
            room -= sizes[name]
            if room < 0:
                self.left_out = (*self.left_out, self.actions.pop(name).name)
                del self._tools[name]

    def _name(self, name: str) -> str:
        """The tool name of an action: its own, unless the API would refuse it or it would collide."""
        if _ALLOWED.fullmatch(name) and not name.startswith(OWN) and name not in self.actions:
            return name
        plain = _FORBIDDEN.sub("_", name)[:48].strip("_") or "action"
        mapped = f"{'world_' if plain.startswith(OWN) else ''}{plain}_{zlib.crc32(name.encode('utf-8', 'replace')):08x}"[:64]
        number, free = 2, mapped
        while free in self.actions:
            free = f"{mapped[:58]}_{number}"
            number += 1
        return free

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as the API takes them."""
        out: list[dict[str, Any]] = [dict(tool) for tool in self._own]
        # Where actions are looked for, one of them may be long at any time; the list of tools does not change with them.
        if self.way or any(action.kind == "ongoing" for action in self.actions.values()):
            out.append(dict(STOP))
        out += [dict(tool) for tool in {"own": (FIND, DO), "api": (API_SEARCH,)}.get(self.way, ())]
        return [*out, *(dict(tool) for tool in self._tools.values()), *(self._deferred[name] for name in sorted(self._deferred))]


def _tool(name: str, action: ActionSpec) -> dict[str, Any]:
    description = " ".join(action.description.split())[:DESCRIPTION_CHARS]
    return {"name": name, "input_schema": schema_of(action.schema), **({"description": description} if description else {})}


def _brief(name: str, action: ActionSpec) -> dict[str, Any]:
    description = " ".join(action.description.split())[:BRIEF_CHARS]
    return {"name": name, "input_schema": brief_schema(action.schema), **({"description": description} if description else {})}


def _size(tools: Iterable[Mapping[str, Any]], room: int, count: Callable[[str], int]) -> int:
    """Tokens of some tools, or more than `room`."""
    taken = 0
    for tool in tools:
        text = json.dumps(tool, ensure_ascii=False)
        if len(text) > CHARS_EACH * room or taken > room:
            return room + 1
        taken += count(text) + OVERHEAD
    return taken


def missing(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Required arguments that are not there."""
    required = schema.get("required")
    return [k for k in required if isinstance(k, str) and k not in arguments] if isinstance(required, list) else []
