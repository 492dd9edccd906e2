"""What is wrong with a frame that a world sent, by SPEC.md alone. Pure, and written without the product's own reader, which forgives.

Invariant: an empty answer means that the frame has every required field and each field that it has is of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Test: TypeAlias = Callable[[object], bool]

MAX_IDENT = 128
STATES = ("accepted", "done", "failed", "cancelled", "unknown")
SPEAKERS = ("player", "npc", "world", "operator")
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
MAX_SCHEMAS = 5_000
MAX_FAULTS = 20


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_ident(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_IDENT and value.isprintable() and not set(value) & set("\"'\\<>`")


def _maybe_ident(value: object) -> bool:
    return value == "" or is_ident(value)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2.0**64  # so neither NaN nor infinite


def is_whole(value: object) -> bool:
    """A whole number; it may come as a float."""
    return is_number(value) and float(value).is_integer()  # type: ignore[arg-type]


def is_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _positive(value: object) -> bool:
    return is_number(value) and value > 0  # type: ignore[operator]


def _count(value: object) -> bool:
    return is_whole(value) and value >= 0  # type: ignore[operator]


def _from_one(value: object) -> bool:
    return is_whole(value) and value >= 1  # type: ignore[operator]


def _one_of(*words: str) -> Test:
    return lambda value: value in words


def _priority(value: object) -> bool:
    return is_whole(value) and 0 <= value <= 9  # type: ignore[operator]


def _fraction(value: object) -> bool:
    return is_number(value) and 0 <= value <= 1  # type: ignore[operator]


def _anything(_value: object) -> bool:
    return True


#: Fields by op, each with its test and whether it must be there. Those of `actions` and of observations have their own table.
FRAMES: Mapping[str, Mapping[str, tuple[Test, bool]]] = {
    "hello": {
        "world": (is_ident, True), "epoch": (is_ident, True), "heartbeat_s": (_positive, True), "max_frame": (_from_one, True),
        "limits": (is_map, False), "time": (is_text, False),
    },
    "welcome": {
        "npc": (is_ident, True), "session": (is_ident, True), "resumed": (_is_flag, True), "next_seq": (_from_one, True),
        "lost": (_count, True),
    },
    "actions": {"version": (_anything, True), "actions": (lambda v: isinstance(v, list), True)},
    "obs": {},
    "batch": {"items": (lambda v: isinstance(v, list), True)},
    "act_result": {
        "id": (is_ident, True), "state": (_one_of(*STATES), True), "text": (is_text, False), "data": (is_map, False),
        "error": (is_map, False),
    },
    "act_progress": {"id": (is_ident, True), "text": (is_text, False), "fraction": (_fraction, False)},
    "gate": {"name": (is_ident, True), "value": (_anything, True), "why": (is_text, False)},
    "rollback": {"epoch": (is_ident, True), "since": (is_text, False)},
    "ping": {"n": (is_whole, True)},
    "pong": {"n": (is_whole, True)},
    "bye": {
        "code": (is_whole, True), "reason": (is_text, False), "retry_after_s": (is_number, False), "resumable": (_is_flag, False),
    },
}  # fmt: skip

_OBSERVATION: Mapping[str, tuple[Test, bool]] = {
    "seq": (_from_one, True), "t": (is_number, True), "kind": (is_ident, True), "text": (is_text, True), "wt": (is_text, False),
    "data": (is_map, False), "key": (_maybe_ident, False), "prio": (_priority, False), "from": (is_map, False), "to": (_maybe_ident, False),
    "self": (_is_flag, False),
}  # fmt: skip
_SPEAKER: Mapping[str, tuple[Test, bool]] = {"id": (is_text, False), "name": (is_text, False), "kind": (_one_of(*SPEAKERS), False)}
_ACTION: Mapping[str, tuple[Test, bool]] = {
    "name": (is_ident, True), "description": (is_text, True), "schema": (is_map, True), "effect": (_one_of("read", "write"), False),
    "reversible": (_is_flag, False), "reach": (_one_of("contained", "wide"), False), "kind": (_one_of("instant", "ongoing"), False),
    "moves_body": (_is_flag, False),
}  # fmt: skip


def fields(raw: Mapping[str, Any], table: Mapping[str, tuple[Test, bool]], *, what: str) -> list[str]:
    """What is wrong with the fields of one map; a null stands for a field that is left out."""
    faults = []
    for name, (test, required) in table.items():
        value = raw.get(name)
        if value is None:
            if required and not (name in raw and test is _anything):
                faults.append(f"{what} without {name}")
        elif not test(value):
            faults.append(f"{what}.{name} is {shown(value)}")
    return faults


def frame(raw: Mapping[str, Any]) -> list[str]:
    """What is wrong with a frame of a known op, its observations and actions apart."""
    op = raw["op"]
    return fields(raw, FRAMES[op], what=op)


def observation(raw: object) -> list[str]:
    """What is wrong with one observation."""
    if not isinstance(raw, dict):
        return [f"an item of a batch is {shown(raw)}"]
    what = f"obs {raw['seq']}" if _from_one(raw.get("seq")) else "obs"
    faults = fields(raw, _OBSERVATION, what=what)
    if isinstance(raw.get("from"), dict):
        faults += fields(raw["from"], _SPEAKER, what=f"{what}.from")
    return faults


def actions(listed: Sequence[object]) -> list[str]:
    """What is wrong with a list of actions."""
    faults: list[str] = []
    seen: set[object] = set()
    for each in listed:
        if not isinstance(each, dict):
            faults.append(f"an action is {shown(each)}")
            continue
        name = each.get("name")
        what = f"action {name}" if is_ident(name) else "an action"
        faults += fields(each, _ACTION, what=what)
        if is_ident(name):
            if name in seen:
                faults.append(f"{what} is listed twice")
            seen.add(name)
        if isinstance(each.get("schema"), dict):
            if each["schema"].get("type") != "object":
                faults.append(f"{what}: the schema's type is not object")
            faults += [f"{what}: {fault}" for fault in schema(each["schema"])]
    return faults


def schema(raw: object) -> list[str]:
    """What is wrong with a JSON Schema, as far as its everyday keywords go: types, properties, required, items, enum, bounds, combinations.

    However large or deep, no more than MAX_SCHEMAS parts of it are looked at.
    """
    faults: list[str] = []
    waiting: list[tuple[str, object]] = [("schema", raw)]
    for _ in range(MAX_SCHEMAS):
        if not waiting or len(faults) >= MAX_FAULTS:
            return faults
        at, part = waiting.pop()
        if isinstance(part, dict):
            wrong = [keyword for keyword, fits in _KEYWORDS.items() if keyword in part and not fits(part[keyword])]
            faults += [f"{at}.{keyword} is {shown(part[keyword])}" for keyword in wrong]
            waiting += _parts(at, part)
        elif not isinstance(part, bool):
            faults.append(f"{at} is {shown(part)}")
    return [*faults, f"schema has more than {MAX_SCHEMAS:,} parts"]


def _parts(at: str, part: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The schemas inside one."""
    found: list[tuple[str, object]] = [(f"{at}.{keyword}", part[keyword]) for keyword in _ONE if keyword in part]
    for keyword in _NAMED:
        if isinstance(inner := part.get(keyword), dict):
            found += [(f"{at}.{keyword}.{name}"[:200], each) for name, each in inner.items()]
    for keyword in _LISTED:
        if isinstance(inner := part.get(keyword), list):
            found += [(f"{at}.{keyword}[{number}]"[:200], each) for number, each in enumerate(inner)]
    return found


def _types(value: object) -> bool:
    return value in _TYPES if isinstance(value, str) else isinstance(value, list) and all(isinstance(k, str) and k in _TYPES for k in value)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _some(value: object) -> bool:
    return isinstance(value, list) and bool(value)


_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_KEYWORDS: Mapping[str, Test] = {
    "type": _types, "required": _texts, "enum": _is_list,
    **dict.fromkeys(_NAMED, is_map),
    **dict.fromkeys(_LISTED, _some),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
    **dict.fromkeys(("description", "title", "pattern", "format", "$ref"), is_text),
}  # fmt: skip


def shown(value: object) -> str:
    """A value as a report can bear it: short, on one line."""
    if isinstance(value, str | bytes):
        value = value[:80]
    elif isinstance(value, dict | list):
        value = _outline(value)
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _outline(value: object) -> object:
    """A container without what is in its containers, and without most of that."""
    if isinstance(value, dict):
        return {str(k)[:20]: v if isinstance(v, int | str) else "…" for k, v in list(value.items())[:4]}
    if isinstance(value, list):
        return [v if isinstance(v, int | str) else "…" for v in value[:4]]
    return type(value).__name__
