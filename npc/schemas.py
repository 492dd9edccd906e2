"""Schemas of a world's actions as a model's endpoint takes them.

Invariant: pure and total: whatever a world declares becomes a schema of type object that no endpoint refuses, for a request that is refused
for its tools is refused every time. One that is sound already stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from world_adapter.neuro_actions import plain_schema

_DEPTH = 12
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # what an endpoint takes as the name of an argument
_CHOICES = frozenset({"anyOf", "oneOf", "allOf"})


def schema_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, or what can be kept of it."""
    schema = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    if schema.get("type") == "object" and _CHOICES.isdisjoint(schema) and _sound(schema, _DEPTH) and _resolved(schema, schema, _DEPTH):
        return dict(schema)
    return dict(plain_schema(schema))


def brief_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The names and types of the arguments only."""
    plain = plain_schema(schema)
    properties = {name: {"type": inner["type"]} if "type" in inner else {} for name, inner in plain["properties"].items()}
    return {"type": "object", "properties": properties, **({"required": plain["required"]} if "required" in plain else {})}


def properties_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments that a schema declares, by name; whatever a world sent as such."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _sound(schema: object, depth: int) -> bool:
    """Whether each keyword that means something has a value that it may have."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, Mapping) or depth < 0:
        return False
    return all(key not in _KEYWORDS or _KEYWORDS[key](value, depth - 1) for key, value in schema.items())


def _schemas(value: object, depth: int) -> bool:
    return isinstance(value, Mapping) and all(_sound(inner, depth) for inner in value.values())


def _arguments(value: object, depth: int) -> bool:
    return _schemas(value, depth) and isinstance(value, Mapping) and all(_NAME.fullmatch(str(name)) for name in value)


def _some(value: object, depth: int) -> bool:
    return isinstance(value, list) and bool(value) and all(_sound(inner, depth) for inner in value)


def _type(value: object, _: int) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and all(isinstance(kind, str) and kind in _TYPES for kind in kinds) and len(set(kinds)) == len(kinds)


def _names(value: object, _: int) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _count(value: object, _: int) -> bool:
    return type(value) is int and value >= 0


def _number(value: object, _: int) -> bool:
    return type(value) in (int, float)


def _text(value: object, _: int) -> bool:
    return isinstance(value, str)


def _flag(value: object, _: int) -> bool:
    return isinstance(value, bool)


def _pattern(value: object, _: int) -> bool:
    # What only some dialects take is told in words instead.
    if not isinstance(value, str) or len(value) > 200 or re.search(r"\(\?(?![:=!])", value):
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _list(value: object, _: int) -> bool:
    return isinstance(value, list) and bool(value)


_KEYWORDS: Mapping[str, Callable[[object, int], bool]] = {
    "type": _type, "properties": _arguments, "required": _names, "enum": _list, "examples": _list, "pattern": _pattern,
    "multipleOf": lambda value, _: type(value) in (int, float) and value > 0,  # type: ignore[operator]  # what it is has just been asked
    **dict.fromkeys(("$defs", "definitions", "patternProperties", "dependentSchemas"), _schemas),
    **dict.fromkeys(("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"), _sound),
    **dict.fromkeys((*_CHOICES, "prefixItems"), _some),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("description", "title", "format", "$comment", "$ref"), _text),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _flag),
    # What would make another dialect of it, or send somebody elsewhere.
    **dict.fromkeys(("$schema", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary"), lambda *_: False),
}  # fmt: skip


def _resolved(value: object, whole: Mapping[str, Any], depth: int) -> bool:
    """Whether what it refers to is there."""
    if isinstance(value, list):
        return all(_resolved(inner, whole, depth - 1) for inner in value)
    if not isinstance(value, Mapping):
        return True
    if isinstance(ref := value.get("$ref"), str):
        root, _, rest = ref.partition("/")
        where, _, name = rest.partition("/")
        there = whole.get(where)
        if root != "#" or where not in ("$defs", "definitions") or not isinstance(there, Mapping) or name not in there:
            return False
    return all(_resolved(inner, whole, depth - 1) for inner in value.values())
