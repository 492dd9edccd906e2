"""The model's tools: the world's actions under their own names, and the runtime's own, which start with `npc_`.

Invariants: the same actions give the same tools in the same order, byte for byte; a name that the API would refuse is mapped, and mapped
back; a world's action can never take the name of one of ours; what a world declares beyond the room for it is told shorter, and left out
and named where that is not enough, so that no list of actions takes the mind's own place.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

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

    Attributes:
        actions: by tool name, those that found room.
        left_out: the world's names of those that did not.
        shortened: whether the others are told by the names and types of their arguments only.
    """

    def __init__(
        self, actions: Iterable[ActionSpec] = (), *, own: Sequence[Mapping[str, Any]] = (), room: int | None = None,
        count: Callable[[str], int] = len, first: str = "",
    ) -> None:  # fmt: skip
        self.actions: dict[str, ActionSpec] = {}
        self.left_out: tuple[str, ...] = ()
        self.shortened = False
        self._own = (RECALL, *own)
        for action in sorted(actions, key=lambda a: a.name):
            self.actions[self._name(action.name)] = action
        self._tools = {name: _tool(name, action) for name, action in self.actions.items()}
        if room is not None:
            self._fit(room, count, first)

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
        if any(action.kind == "ongoing" for action in self.actions.values()):
            out.append(dict(STOP))
        return [*out, *(dict(tool) for tool in self._tools.values())]


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
