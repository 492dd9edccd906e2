"""Arguments of a tool call, fitted to what the tool declares.

Invariants: total and bounded in time, whatever a world declares and whatever a model sends. What fits stays the very value that was sent;
what can safely be made to fit is, and is named; nothing is guessed, nothing loses a part of itself, text is never changed. What does not
fit is refused in one sentence that names the argument, what was expected and what was given.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from npc.coercion import canonical
from npc.schemas import schema_of
from npc.shapes import Meter, Shaped, TooMuchError
from npc.spelling import slip

#: What one call may hold: levels, values, characters of all text together, names of arguments.
DEPTH = 32
VALUES = 5_000
CHARS = 100_000
NAMES = 128
#: Fitted schemas that are kept, the newest.
KEPT = 512
#: The longest that is shown of a value, of what was expected, of a whole complaint, in characters.
SHOWN = 80
EXPECTED = 240
COMPLAINT = 500
#: Choices that are named.
CHOICES = 12

_KINDS = {
    "integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null", "array": "a list", "object": "an object",
    "string": "text",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Arguments that fit.

    Attributes:
        arguments: to be sent.
        changes: what was changed, one line each, for the log.
        notes: those of them that the model must be told: what it wrote and was not sent, or under another name.
        unchecked: the schema says more than can be checked here; the world checks it.
    """

    arguments: Mapping[str, Any]
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unchecked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Arguments that do not, and `why`, as a sentence without its full stop."""

    why: str


class _MisfitError(Exception):
    """Why the arguments do not fit."""


class Wardrobe:
    """The fitted schemas of many tools, each built when it is first called."""

    def __init__(self) -> None:
        self._tailors: OrderedDict[tuple[str, bool], tuple[Mapping[str, Any], Tailor]] = OrderedDict()

    def fit(self, name: str, schema: Mapping[str, Any], arguments: Mapping[str, Any], *, speaks: bool = False) -> Fitted | Misfit:
        """The arguments of a call of `name`, whose tool declares `schema`; `speaks`: see `Tailor`."""
        known = self._tailors.get((name, speaks))
        if known is None or known[0] is not schema:
            known = (schema, Tailor(name, schema, speaks=speaks))
            self._tailors[name, speaks] = known
        self._tailors.move_to_end((name, speaks))
        while len(self._tailors) > KEPT:
            self._tailors.popitem(last=False)
        return known[1].fit(arguments)


class Tailor:
    """Fits arguments to one tool.

    `speaks`: its words may be longer than the schema says, for they are said in parts, and an argument that it does not have is never left
    out if it may be the one whom the words are for: what was meant for one person would be said to all.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], *, speaks: bool = False, to: frozenset[str] | None = None) -> None:
        self._name, self._speaks = name, speaks
        self._to = ADDRESSEES if to is None else to
        try:
            self._schema: Mapping[str, Any] = schema_of(schema)
        except RecursionError:
            self._schema = {"type": "object"}
        properties = self._schema.get("properties", {})
        if speaks:
            properties = {n: _endless(inner) for n, inner in properties.items()}
            self._schema = {**self._schema, **({"properties": properties} if properties else {})}
        self._required = tuple(dict.fromkeys(self._schema.get("required", ())))
        self._more = self._schema.get("additionalProperties", None)
        # What is required is declared, if only by its name.
        self._properties: Mapping[str, Any] = {**dict.fromkeys(self._required, self._extra), **properties}
        open_ = self._more not in (None, False) or "patternProperties" in self._schema
        #: Whether an argument that is not declared is left out: so it is where others are declared and nothing is said of more.
        self._closed = self._more is False or (bool(properties) and not open_)
        self._shaped: dict[str, Shaped] = {}
        self._check: Any = None

    def fit(self, given: Mapping[str, Any]) -> Fitted | Misfit:
        """The arguments, fitted."""
        try:
            _bounded(given)
            return self._fit(given)
        except _MisfitError as refused:
            return Misfit(why=f"{self._name[:64]}: {refused}"[:COMPLAINT])
        except (TooMuchError, RecursionError):
            return Fitted(arguments=given, unchecked=True)

    def _fit(self, given: Mapping[str, Any]) -> Fitted:
        changes: list[str] = []
        notes: list[str] = []
        named = self._named(given, changes, notes)
        meter = Meter()
        fitted: dict[str, Any] = {}
        unchecked = False
        for name, value in named.items():
            if (schema := self._properties.get(name, self._extra)) is True:
                fitted[name] = value
                continue
            shaped = self._shape(name, schema)
            unchecked |= not shaped.whole
            try:
                made = shaped.adapter.validate_python(value, context=meter)
            except ValidationError as error:
                if value is None and name not in self._required:
                    changes.append(f"{name}: null, left out")
                    continue
                raise _MisfitError(_complaint(name, schema, value, error, self._schema)) from None
            if _equal(made, value):
                fitted[name] = value
            else:
                fitted[name] = made
                changes.append(f"{name}: {_shown(value)} became {_shown(made)}")
        if lacking := [name for name in self._required if name not in fitted]:
            surplus = [n for n in given if n not in self._properties]
            instead = f"; it has no {_list(surplus)}" if surplus and self._closed else ""
            raise _MisfitError(f"it needs {_list(lacking)}{instead}")
        if changes:
            _bounded(fitted)
        if unchecked or not self._whole:
            unchecked = self._further(fitted)
        return Fitted(arguments=fitted, changes=tuple(changes), notes=tuple(notes), unchecked=unchecked)

    # ------------------------------------------------------------ names
    def _named(self, given: Mapping[str, Any], changes: list[str], notes: list[str]) -> dict[str, Any]:
        """The arguments under the names that are declared."""
        if not self._closed or given.keys() <= self._properties.keys():
            return dict(given)
        surplus = [name for name in given if name not in self._properties]
        meant = self._meant(given, surplus)
        out: dict[str, Any] = {}
        for name, value in given.items():
            if name in self._properties:
                out[name] = value
            elif right := meant.get(name):
                out[right] = value
                changes.append(f"{_name(name)} became {right}")
                notes.append(f"{_name(name)} was taken for {right}")
            elif self._speaks and name.casefold() in self._to and value not in (None, "", [], {}):
                has = f"; it has {_list(list(self._properties))}" if self._properties else ""
                raise _MisfitError(f"it has no argument {_name(name)}, so it cannot be said to one person only{has}")
            else:
                changes.append(f"{_name(name)}: left out")
                notes.append(f"{_name(name)} was left out, for {self._name[:64]} has no such argument")
        return out

    def _meant(self, given: Mapping[str, Any], surplus: list[str]) -> Mapping[str, str]:
        """The names that can only be a required one, written carelessly."""
        lacking = [name for name in self._required if name not in given]
        if not lacking or len(surplus) > NAMES or len(lacking) > NAMES:
            return {}
        pairs = [(name, right) for name in surplus for right in lacking if slip(name, right)]
        names, rights = [name for name, _ in pairs], [right for _, right in pairs]
        return {name: right for name, right in pairs if names.count(name) == 1 and rights.count(right) == 1}

    # ------------------------------------------------------------ types
    @property
    def _extra(self) -> object:
        """The schema of what is not declared."""
        return self._more if isinstance(self._more, Mapping) else True

    def _shape(self, name: str, schema: object) -> Shaped:
        key = name if name in self._properties else ""
        if key not in self._shaped:
            self._shaped[key] = Shaped(schema, root=self._schema)
        return self._shaped[key]

    @property
    def _whole(self) -> bool:
        """Whether the schema says nothing of the arguments as a whole."""
        return self._schema.keys().isdisjoint(_TOGETHER)

    def _further(self, fitted: Mapping[str, Any]) -> bool:
        """What types cannot say; whether that could not be told."""
        if self._check is None:
            from npc.schema_check import SchemaCheck  # noqa: PLC0415 - a library that few worlds need and that takes long to load

            try:
                self._check = SchemaCheck(self._schema)
            except Exception:  # noqa: BLE001 (a library over a schema that somebody else wrote)
                self._check = False
        why = self._check.complaint(fitted) if self._check else None
        if why:
            raise _MisfitError(" ".join(why.split()))
        return why is None


#: Names of arguments that say whom something is for.
ADDRESSEES = frozenset({"to", "target", "recipient", "who", "whom", "player", "listener"})
#: Keywords about an object as a whole, which no type of one argument says.
_TOGETHER = frozenset(
    {
        "not", "if", "then", "else", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies",
        "propertyNames", "patternProperties", "unevaluatedProperties", "$ref", "enum", "const",
    }
)  # fmt: skip


def _endless(schema: object) -> object:
    """The schema of an argument without its longest length."""
    return {word: value for word, value in schema.items() if word != "maxLength"} if isinstance(schema, Mapping) else schema


def _bounded(arguments: Mapping[str, Any]) -> None:
    """Raises `_MisfitError` for what is too deep, too large or no JSON."""
    values = chars = 0
    open_: list[tuple[Any, int]] = [(arguments, 0)]
    while open_:
        value, depth = open_.pop()
        values += 1
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise _MisfitError("a number must be finite")
        elif isinstance(value, (Mapping, list, tuple)):
            if depth >= DEPTH:
                raise _MisfitError(f"the arguments are nested deeper than {DEPTH} levels")
            if len(value) > VALUES:
                values = VALUES  # more than are looked at
            elif isinstance(value, Mapping):
                chars += sum(len(name) for name in value if isinstance(name, str))
                open_ += [(inner, depth + 1) for inner in value.values()]
            else:
                open_ += [(inner, depth + 1) for inner in value]
        if values > VALUES or len(open_) > VALUES:
            raise _MisfitError(f"the arguments hold more than {VALUES:,} values")
        if chars > CHARS:
            raise _MisfitError(f"the arguments are longer than {CHARS:,} characters")


def _equal(made: object, value: object) -> bool:
    """Whether nothing was changed: of one type and equal."""
    if type(made) is not type(value):
        return False
    return made == value if isinstance(made, (str, int, float)) else canonical(made) == canonical(value)


# ------------------------------------------------------------ words
def _complaint(name: str, schema: object, value: object, error: ValidationError, root: Mapping[str, Any]) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    text = f"{_name(name)} must be {expected(schema, root)}, not {_shown(value)}"
    if where := ".".join(str(part) for part in first["loc"]):
        text += f" (at {where[:SHOWN]}: {first['msg'][:1].lower()}{first['msg'][1:SHOWN]})"
    return text


def expected(schema: object, root: Mapping[str, Any], depth: int = 3) -> str:
    """What a schema asks for, in words."""
    if not isinstance(schema, Mapping) or depth < 0:
        return "something else"
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.count("/") == 2:
        _, where, name = ref.split("/")
        return expected(root.get(where, {}).get(name), root, depth - 1)
    if isinstance(choices := schema.get("enum"), list):
        more = f" or {len(choices) - CHOICES} others" if len(choices) > CHOICES else ""
        return f"one of {', '.join(_shown(choice) for choice in choices[:CHOICES])}{more}"[:EXPECTED]
    if "const" in schema:
        return _shown(schema["const"])
    for word in ("anyOf", "oneOf"):
        if isinstance(inner := schema.get(word), list):
            return " or ".join(dict.fromkeys(expected(each, root, depth - 1) for each in inner[:CHOICES]))[:EXPECTED]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = " or ".join(_KINDS.get(kind, "something else") for kind in kinds) or "something else"
    if kinds == ["array"] and isinstance(schema.get("items"), Mapping):
        words += f" of which each is {expected(schema['items'], root, depth - 1)}"
    return f"{words}{_limits(schema)}"[:EXPECTED]


def _limits(schema: Mapping[str, Any]) -> str:
    words = {
        "minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "up to {}", "exclusiveMaximum": "below {}",
        "multipleOf": "in steps of {}", "minLength": "of at least {} characters", "maxLength": "of at most {} characters",
        "minItems": "with at least {} of them", "maxItems": "with at most {} of them", "pattern": "that matches {}",
    }  # fmt: skip
    said = [text.format(str(schema[word])[:SHOWN]) for word, text in words.items() if word in schema]
    return f" {' '.join(said)}" if said else ""


def _shown(value: object) -> str:
    """A value as it is shown, shortened."""
    if isinstance(value, str) and len(value) > SHOWN:
        value = f"{value[:SHOWN]}…"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= SHOWN + 4 else f"{text[:SHOWN]}…"


def _name(name: str) -> str:
    return json.dumps(name[:SHOWN], ensure_ascii=False)


def _list(names: list[str]) -> str:
    more = f" and {len(names) - CHOICES} more" if len(names) > CHOICES else ""
    return ", ".join(_name(name) for name in names[:CHOICES]) + more
