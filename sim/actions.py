"""What an NPC can do in the village, as the wire declares it.

Invariant: a constant list in a constant order, so that the model's tools never change under a cached prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.places import PLACES
from world_adapter.frames import ActionSpec

SAY_CHARS = 400


def _schema(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required), "additionalProperties": False}


def _text(description: str, longest: int = 80) -> dict[str, Any]:
    return {"type": "string", "description": description, "maxLength": longest}


def specs(*, walking: bool = True) -> tuple[ActionSpec, ...]:
    """The actions. `walking`: `move_to` takes time and moves the body; without it one arrives at once."""
    return (
        ActionSpec(
            name="look",
            description="Look around, or closely at something or someone here.",
            schema=_schema(target=_text("what to look at; leave out to look around")),
            effect="read",
            reversible=True,
        ),
        ActionSpec(
            name="say",
            description="Say a line aloud. Everyone here hears it.",
            schema=_schema(("text",), text=_text("the words", SAY_CHARS), to=_text("whom you say it to, if anyone")),
        ),
        ActionSpec(
            name="emote",
            description="Do something small that others see, in the third person: `wipes the counter`.",
            schema=_schema(("text",), text=_text("what you are seen doing", 160)),
            reversible=True,
        ),
        ActionSpec(
            name="move_to",
            description="Walk to a place. It takes a while.",
            schema=_schema(("place",), place={"type": "string", "enum": sorted(PLACES)}),
            reversible=True,
            kind="ongoing" if walking else "instant",
            moves_body=walking,
        ),
        ActionSpec(
            name="take",
            description="Pick up something that lies here.",
            schema=_schema(("item",), item=_text("what")),
            reversible=True,
        ),
        ActionSpec(
            name="give",
            description="Give something you carry to someone here.",
            schema=_schema(("item", "to"), item=_text("what"), to=_text("whom")),
        ),
        ActionSpec(name="inventory", description="See what you carry.", schema=_schema(), effect="read", reversible=True),
        ActionSpec(
            name="attack",
            description="Strike a creature that threatens people here.",
            schema=_schema(("target",), target=_text("which creature")),
        ),
    )
