"""What a game lets an NPC do: registered, unregistered, kept over a broken link. Pure.

Invariant: whatever a game registers, the list is bounded as a whole, its names are distinct and clean, and every schema is one that a model
endpoint takes; the game's own name of an action is what is sent back to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from world_adapter import cleaning
from world_adapter.frames import ActionSpec
from world_adapter.neuro_wire import Offer

MAX_ACTIONS = 128
MAX_DESCRIPTION = 1_000  # characters
MAX_SCHEMA = 6_000  # characters of one schema
MAX_RAW_SCHEMA = 24_000  # the same before it is cleaned; beyond that nobody reads it
MAX_RAW_TOGETHER = 64_000  # of one frame: cleaning takes time, and there is no room for so much
MAX_NESTED = 6
MAX_TOGETHER = 32_000  # characters of all names, descriptions and schemas: they stand in every request

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # what an endpoint takes as the name of a property
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_TEXTS = frozenset({"description", "title", "format", "pattern"})
_CHOICES = frozenset({"anyOf", "oneOf", "allOf"})
_PLAIN = frozenset({"default", "const"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One action.

    Attributes:
        raw: the game's name for it.
        spec: what the NPC is offered.
        size: characters that it costs in every request.
        kept: from an earlier connection, which a new word of the game's replaces.
        guessed: named by a force and never registered.
    """

    raw: str
    spec: ActionSpec
    size: int
    kept: bool = False
    guessed: bool = False


class Actions:
    """The list of one game."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}  # by the game's name, in its order
        self.refused = 0  # offers that found no room

    def __len__(self) -> int:
        return len(self._known)

    @property
    def specs(self) -> tuple[ActionSpec, ...]:
        return tuple(known.spec for known in self._known.values())

    def find(self, name: str) -> Known | None:
        """The action that the NPC knows as `name`."""
        return next((known for known in self._known.values() if known.spec.name == name), None)

    def names(self, raws: Iterable[str]) -> tuple[str, ...]:
        """The NPC's names for those of the game's names that are on the list."""
        return tuple(self._known[raw].spec.name for raw in raws if raw in self._known)

    def register(self, offers: Sequence[Offer]) -> bool:
        """Adds what is not on the list; whether that changed it."""
        before = self.specs
        room = MAX_RAW_TOGETHER
        for offer in offers:
            former = self._known.get(offer.raw)
            if former is not None and not former.kept and not former.guessed:
                continue
            size = _size(offer.schema or {})
            room -= min(size, MAX_RAW_SCHEMA)
            if room < 0:
                self.refused += 1
            else:
                self._put(offer if size <= MAX_RAW_SCHEMA else replace(offer, schema=None), former)
        return self.specs != before

    def guess(self, raws: Sequence[str]) -> bool:
        """Puts names on the list that a game demands and never registered, or registered with an earlier process of ours."""
        before = len(self._known)
        for raw in raws:
            if raw not in self._known:
                self._put(Offer(raw=raw, description="", schema=None), None, guessed=True)
        return len(self._known) != before

    def unregister(self, raws: Sequence[str]) -> bool:
        """Takes names from the list; whether any was on it."""
        return bool([raw for raw in raws if self._known.pop(raw, None) is not None])

    def clear(self) -> bool:
        """Nothing holds any more; whether there was something."""
        had = bool(self._known)
        self._known.clear()
        return had

    def keep(self) -> None:
        """The link is gone. A game that comes back without a word about its actions still has them."""
        self._known = {raw: replace(known, kept=True) for raw, known in self._known.items()}

    def _put(self, offer: Offer, former: Known | None, *, guessed: bool = False) -> None:
        if former is None and len(self._known) >= MAX_ACTIONS:
            self.refused += 1
            return
        spec = ActionSpec(
            name=former.spec.name if former is not None else self._free(offer.raw),
            description=cleaning.cut(offer.description, MAX_DESCRIPTION) or "(The game did not say what this does.)",
            schema=plain_schema(offer.schema),
        )
        size = len(spec.name) + len(spec.description) + _size(spec.schema)
        others = sum(known.size for known in self._known.values() if known.raw != offer.raw)
        if others + size > MAX_TOGETHER:
            self.refused += 1
        else:
            self._known[offer.raw] = Known(raw=offer.raw, spec=spec, size=size, guessed=guessed)

    def _free(self, raw: str) -> str:
        """A clean name that no other action has."""
        taken = {known.spec.name for known in self._known.values()}
        plain = name = cleaning.ident(raw) or "action"
        number = 2
        while name in taken:
            name = f"{plain[: cleaning.MAX_ID - 8]}~{number}"
            number += 1
        return name


def plain_schema(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A schema of type object that an endpoint takes: keywords that are known and well-formed stay, all others go."""
    found = _schema(cleaning.mapping(schema) or {}, MAX_NESTED)
    top = {key: value for key, value in found.items() if key not in _CHOICES}  # endpoints refuse these at the top
    top = {"properties": {}, **top, "type": "object"}
    if _size(top) <= MAX_SCHEMA:
        return top
    # Names and types of the arguments say the most in the least room.
    short = {name: {"type": inner["type"]} if "type" in inner else {} for name, inner in top["properties"].items()}
    top = {"type": "object", "properties": short, **({"required": top["required"]} if "required" in top else {})}
    return top if _size(top) <= MAX_SCHEMA else {"type": "object", "properties": {}}


def _size(schema: Mapping[str, Any]) -> int:
    """Characters that it has as JSON."""
    try:
        return len(json.dumps(schema, ensure_ascii=False))
    except (ValueError, RecursionError):
        return 2 * MAX_RAW_SCHEMA


def _schema(raw: Mapping[str, Any], depth: int) -> dict[str, Any]:
    kept = {key: good for key, value in raw.items() if (good := _keyword(key, value, depth)) is not None}
    if "pattern" in kept:
        # Not every endpoint compiles every dialect; the model reads it all the same.
        kept["description"] = " ".join(filter(None, (kept.get("description"), f"(pattern: {kept.pop('pattern')})")))
    if "required" in kept:
        kept["required"] = [name for name in kept["required"] if name in kept.get("properties", {})]
        if not kept["required"]:
            del kept["required"]
    return kept


def _keyword(key: str, value: Any, depth: int) -> Any:
    """The value of a keyword if it is a sound one, else None."""
    if key == "type":
        kinds = [kind for kind in (value if isinstance(value, list) else [value]) if isinstance(kind, str) and kind in _TYPES]
        return None if not kinds else list(dict.fromkeys(kinds)) if isinstance(value, list) else kinds[0]
    if key in _TEXTS:
        return cleaning.cut(value, MAX_DESCRIPTION) if isinstance(value, str) else None
    if key in _COUNTS:
        return value if type(value) is int and value >= 0 else None
    if key in _BOUNDS:
        return value if type(value) in (int, float) else None
    if key == "multipleOf":
        return value if type(value) in (int, float) and value > 0 else None
    if key == "enum" and isinstance(value, list):
        return list({repr(item): item for item in value if not isinstance(item, dict | list)}.values()) or None
    if key in _PLAIN:
        return value if isinstance(value, str | int | float) else None
    if key == "uniqueItems":
        return value if type(value) is bool else None
    if key == "required" and isinstance(value, list):
        return list(dict.fromkeys(name for name in value if isinstance(name, str)))
    return _nested(key, value, depth - 1)


def _nested(key: str, value: Any, depth: int) -> Any:
    """The same for a keyword that holds schemas."""
    if key == "additionalProperties" and type(value) is bool:
        return value
    if depth < 0:
        return None
    if key == "properties" and isinstance(value, dict):
        return {name: _schema(inner, depth) if isinstance(inner, dict) else {} for name, inner in value.items() if _KEY.fullmatch(name)}
    if key in {"items", "additionalProperties"} and isinstance(value, dict):
        return _schema(value, depth)
    if key in _CHOICES and isinstance(value, list):
        return [_schema(inner, depth) for inner in value if isinstance(inner, dict)] or None
    return None
