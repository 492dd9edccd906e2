"""What the drop-in `npc_look` tells of a room (see `evennia_inputfuncs`), read and put into words. Pure.

Invariant: what comes is a server's word and yet cleaned like any other; an answer that cannot be read is none, and the prose of `look`
stands in for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from world_adapter import cleaning
from world_adapter.evennia_text import MAX_LISTED, Room, html_to_text, plain_name

INPUT = "npc_look"
MAX_NAME_MARKUP = 500  # characters of one name with its markup


def is_offered(kwargs: Mapping[str, Any]) -> bool:
    """Whether the answer to `get_inputfuncs` lists the drop-in."""
    return INPUT in kwargs


def read_sight(kwargs: Mapping[str, Any]) -> Room | None:
    """The room that was told, None where the character stands in none or nothing can be read."""
    name = _name(kwargs.get("room"))
    if not name:
        return None
    exits = _names(kwargs.get("exits"))
    return Room(
        name=name, exits=exits, people=_names(kwargs.get("people")), things=_names(kwargs.get("things")), exits_line=", ".join(exits),
    )  # fmt: skip


def put(room: Room) -> str:
    """The room in words, for a model."""
    parts = ((room.exits, "Exits"), (room.people, "Here"), (room.things, "Things"))
    return "\n".join([room.name, *(f"{label}: {', '.join(names)}" for names, label in parts if names)])


def _names(raw: object) -> tuple[str, ...]:
    return tuple(name for each in raw[:MAX_LISTED] if (name := _name(each))) if isinstance(raw, list) else ()


def _name(raw: object) -> str:
    return cleaning.name(plain_name(html_to_text(raw[:MAX_NAME_MARKUP]))) if isinstance(raw, str) else ""
