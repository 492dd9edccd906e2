"""The model's tools: the world's actions under their own names, and the runtime's own, which start with `npc_`.

Invariants: the same actions give the same tools in the same order, byte for byte; a name that the API would refuse is mapped, and mapped
back; a world's action can never take the name of one of ours.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from world_adapter.frames import ActionSpec

OWN = "npc_"
_ALLOWED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
DESCRIPTION_CHARS = 1_000

RECALL: Mapping[str, Any] = {
    "name": "npc_recall",
    "description": "Search what you heard before by words, or read one event in full by its number.",
    "input_schema": {
        "type": "object",
        "properties": {
            "event": {"type": "integer", "description": "number of an event"},
            "words": {"type": "string", "description": "what to search for"},
        },
    },
}
NOTE: Mapping[str, Any] = {
    "name": "npc_note",
    "description": "Write one line into your notebook for your future self: a promise, an open question, something unverified.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


class Toolbox:
    """The tools of one list of actions."""

    def __init__(self, actions: Iterable[ActionSpec] = ()) -> None:
        self.actions: dict[str, ActionSpec] = {}
        for action in sorted(actions, key=lambda a: a.name):
            self.actions[self._name(action.name)] = action

    def _name(self, name: str) -> str:
        """The tool name of an action: its own, unless the API would refuse it or it would collide."""
        if _ALLOWED.fullmatch(name) and not name.startswith(OWN) and name not in self.actions:
            return name
        plain = _FORBIDDEN.sub("_", name)[:48].strip("_") or "action"
        mapped = f"{'world_' if plain.startswith(OWN) else ''}{plain}_{zlib.crc32(name.encode('utf-8', 'replace')):08x}"[:64]
        while mapped in self.actions:
            mapped = f"{mapped[:62]}_2"
        return mapped

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as the API takes them."""
        out: list[dict[str, Any]] = [dict(RECALL), dict(NOTE)]
        for name, action in self.actions.items():
            description = " ".join(action.description.split())[:DESCRIPTION_CHARS]
            tool: dict[str, Any] = {"name": name, "input_schema": schema_of(action.schema)}
            if description:
                tool["description"] = description
            out.append(tool)
        return out


def schema_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that the API takes: an object at the top."""
    return dict(schema) if schema.get("type") == "object" else {"type": "object", "properties": {}}


def missing(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Required arguments that are not there."""
    required = schema.get("required")
    return [str(k) for k in required if k not in arguments] if isinstance(required, list) else []
