"""A JSON Schema as a pydantic type that takes what fits, and what can safely be made to fit.

Invariants: pure, total and bounded for every schema that `npc.schemas.schema_of` lets through: what is recursive, too large, or a keyword
that pydantic has no word for is left out of the type and said so (`Shaped.whole` is false), never guessed. Patterns cannot take long:
pydantic's own engine is linear, and what that one does not know has a time limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Required

import regex
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WrapValidator,
)
from pydantic_core import PydanticCustomError, SchemaError
from typing_extensions import TypedDict

from npc.coercion import Choice, canonical, to_boolean, to_integer, to_list, to_number, to_object, to_text

#: Nodes of one schema that are looked at, its references followed.
NODES = 256
#: How deep references and lists of choices may go.
DEPTH = 12
#: The longest list of choices of one argument that is looked at.
CHOICES = 4_000
#: Steps of one fitting; more are taken by no honest schema.
STEPS = 20_000
#: Characters of text that are read in one step.
CHARS_A_STEP = 20
#: Seconds for one pattern that only a backtracking engine knows.
PATTERN_S = 0.02

#: What says something about a value; everything else is for people.
_CONSTRAINTS = frozenset(
    {
        "type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "then", "else", "properties", "required",
        "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired",
        "dependentSchemas", "dependencies", "unevaluatedProperties", "items", "prefixItems", "contains", "minContains", "maxContains",
        "minItems", "maxItems", "uniqueItems", "unevaluatedItems", "minLength", "maxLength", "pattern", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
#: The keywords of each type that its pydantic type says in full.
_SAID: Mapping[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "integer": frozenset({*_BOUNDS, "multipleOf"}),
    "number": frozenset({*_BOUNDS, "multipleOf"}),
    "boolean": frozenset(),
    "null": frozenset(),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
#: The types that each keyword says something about: the others take it with indifference.
_OF = {word: frozenset(kind for kind, said in _SAID.items() if word in said) for said in _SAID.values() for word in said}
#: Characters that a list or an object counts for where it is compared.
_COMPOUND = 4_000
#: What pydantic raises over a schema that it does not take as a type.
_NO_TYPE = (SchemaError, PydanticUserError, RecursionError, OverflowError, ValueError, TypeError)
_PLAIN = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore")


class TooMuchError(Exception):
    """A schema that keeps its reader busy: the fitting ends here."""


class Meter:
    """Counts the steps of one fitting. Pass one as the validation context."""

    def __init__(self, steps: int = STEPS) -> None:
        self._left = steps

    def step(self, size: int = 0) -> None:
        """One more, and some for a text of so many characters.

        Raises:
            TooMuchError: they are used up.
        """
        self._left -= 1 + size // CHARS_A_STEP
        if self._left < 0:
            raise TooMuchError


class Shaped:
    """The type of one schema.

    Attributes:
        adapter: takes a value and gives the fitted one, with a `Meter` as the context.
        whole: whether the type says all that the schema does.
    """

    def __init__(self, schema: object, *, root: Mapping[str, Any]) -> None:
        self._root, self._nodes = root, 0
        self.whole = True
        try:
            self.adapter: TypeAdapter[Any] = TypeAdapter(self._type(schema, ()))
        except _NO_TYPE:
            self.adapter, self.whole = TypeAdapter(Any), False

    def _unsaid(self) -> Any:
        self.whole = False
        return Any

    def _type(self, schema: object, refs: tuple[str, ...]) -> Any:
        self._nodes += 1
        if self._nodes > NODES or len(refs) > DEPTH:
            return self._unsaid()
        if not isinstance(schema, Mapping):
            return Any if schema is True else self._unsaid()
        said = _CONSTRAINTS.intersection(schema)
        if "$ref" in said:
            self.whole &= said == {"$ref"}
            return self._referred(schema["$ref"], refs)
        if "enum" in said or "const" in said:
            self.whole &= said <= {"type", "enum"} or said <= {"type", "const"}
            values = [schema["const"]] if "const" in said else list(schema["enum"])
            return _one_of(Choice(values)) if len(values) <= CHOICES else self._unsaid()
        if choices := said & {"anyOf", "oneOf", "allOf"}:
            return self._chosen(schema, said, choices, refs)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
        if not kinds:
            return self._unsaid() if said else Any
        told = frozenset().union(*(_SAID[kind] for kind in kinds))
        self.whole &= all(word == "type" or word in told or (word in _OF and _OF[word].isdisjoint(kinds)) for word in said)
        types = [_TYPES[kind](self, schema, (*refs, "")) for kind in kinds]
        return types[0] if len(types) == 1 else _any_of(types)

    def _referred(self, ref: str, refs: tuple[str, ...]) -> Any:
        if ref in refs:
            return self._unsaid()  # it holds itself
        _, where, name = ref.split("/", 2)
        return self._type(self._root[where][name], (*refs, ref))

    def _chosen(self, schema: Mapping[str, Any], said: frozenset[str], choices: frozenset[str], refs: tuple[str, ...]) -> Any:
        if len(choices) > 1 or len(said) > 1:
            return self._unsaid()
        (word,) = choices
        inner = [self._type(choice, (*refs, "")) for choice in schema[word]]
        if len(inner) == 1:
            return inner[0]
        if word == "allOf":
            return self._unsaid()
        self.whole &= word == "anyOf"  # that it fits only one of them is said by nobody here
        return _any_of(inner)

    # ------------------------------------------------------------ by type
    def _text(self, schema: Mapping[str, Any], _: tuple[str, ...]) -> Any:
        limits = {pydantic: schema[word] for word, pydantic in (("minLength", "min_length"), ("maxLength", "max_length")) if word in schema}
        found: Any = Annotated[str, Field(strict=True, **limits)]
        if isinstance(pattern := schema.get("pattern"), str):
            found = Annotated[found, self._matching(pattern)]
        return Annotated[found, _made(to_text)]

    def _matching(self, pattern: str) -> Any:
        try:
            TypeAdapter(Annotated[str, Field(pattern=pattern)])
        except SchemaError:
            try:
                return AfterValidator(_Backtracking(pattern))
            except (regex.error, OverflowError, RecursionError):
                self.whole = False
                return None
        return Field(pattern=pattern)

    def _integer(self, schema: Mapping[str, Any], _: tuple[str, ...]) -> Any:
        rounding = {"minimum": math.ceil, "maximum": math.floor, "exclusiveMinimum": math.floor, "exclusiveMaximum": math.ceil}
        limits: dict[str, Any] = {
            _BOUNDS[word]: rounded(schema[word]) for word, rounded in rounding.items() if word in schema and math.isfinite(schema[word])
        }
        if (step := schema.get("multipleOf")) is not None:
            if float(step).is_integer():
                limits["multiple_of"] = int(step)
            else:
                self.whole = False
        return Annotated[int, Field(strict=True, **limits), _made(to_integer)]

    def _number(self, schema: Mapping[str, Any], _: tuple[str, ...]) -> Any:
        limits: dict[str, Any] = {pydantic: float(schema[word]) for word, pydantic in _BOUNDS.items() if word in schema}
        if "multipleOf" in schema:
            limits["multiple_of"] = float(schema["multipleOf"])
        return Annotated[float, Field(strict=True, **limits), WrapValidator(_itself), _made(to_number)]

    def _boolean(self, _schema: Mapping[str, Any], _: tuple[str, ...]) -> Any:
        return Annotated[bool, Field(strict=True), _made(to_boolean)]

    def _nothing(self, _schema: Mapping[str, Any], _: tuple[str, ...]) -> Any:
        return Annotated[None, _made(_same)]

    def _list(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> Any:
        inner = self._type(schema.get("items", True), refs)
        limits = {pydantic: schema[word] for word, pydantic in (("minItems", "min_length"), ("maxItems", "max_length")) if word in schema}
        return Annotated[list[inner], Field(strict=True, **limits), _made(to_list)]  # type: ignore[valid-type]  # made at run time

    def _object(self, schema: Mapping[str, Any], refs: tuple[str, ...]) -> Any:
        properties = schema.get("properties", {})
        required = frozenset(schema.get("required", ()))
        more = schema.get("additionalProperties", True)
        if not properties and not required:
            # What is forbidden is left out where there are names, and refused where there are none.
            inner = self._type(more, refs)
            return Annotated[dict[str, inner], Field(strict=True), _made(to_object)]  # type: ignore[valid-type]  # made at run time
        self.whole &= isinstance(more, bool)
        names = {*properties, *required}
        fields = {name: self._type(properties.get(name, True), refs) for name in sorted(names)}
        found = TypedDict("found", {n: Required[t] if n in required else t for n, t in fields.items()}, total=False)  # type: ignore[misc]  # a world's names
        found.__pydantic_config__ = _PLAIN if more is False else ConfigDict(**{**_PLAIN, "extra": "allow"})  # type: ignore[attr-defined]  # pydantic's seam
        return Annotated[found, _made(to_object)]


_TYPES: Mapping[str, Callable[[Shaped, Mapping[str, Any], tuple[str, ...]], Any]] = {
    "string": Shaped._text,  # noqa: SLF001 - the table of this class's own methods
    "integer": Shaped._integer,  # noqa: SLF001
    "number": Shaped._number,  # noqa: SLF001
    "boolean": Shaped._boolean,  # noqa: SLF001
    "null": Shaped._nothing,  # noqa: SLF001
    "array": Shaped._list,  # noqa: SLF001
    "object": Shaped._object,  # noqa: SLF001
}


def _made(convert: Callable[[object], object]) -> BeforeValidator:
    def before(value: Any, info: ValidationInfo) -> Any:
        _step(info, len(value) if isinstance(value, str) else 0)
        return convert(value)

    return BeforeValidator(before)


def _step(info: ValidationInfo, size: int = 0) -> None:
    if isinstance(info.context, Meter):
        info.context.step(size)


def _same(value: object) -> object:
    return value


def _itself(value: Any, handler: Callable[[Any], Any]) -> Any:
    """A number as it came, once it has been checked: 5 stays 5 where pydantic would make 5.0 of it."""
    handler(value)
    return value


class _Backtracking:
    """A pattern with what only a backtracking engine knows, such as looking ahead. One that takes too long says nothing."""

    def __init__(self, pattern: str) -> None:
        self._pattern = regex.compile(pattern)

    def __call__(self, value: str) -> str:
        try:
            found = self._pattern.search(value, timeout=PATTERN_S)
        except TimeoutError:
            raise TooMuchError from None
        if not found:
            raise PydanticCustomError("pattern", "Text should match the pattern")
        return value


def _one_of(choice: Choice) -> Any:
    def find(value: Any, info: ValidationInfo) -> Any:
        _step(info, 0 if value is None or isinstance(value, (str, int, float)) else _COMPOUND)
        if not (found := choice.find(value)):
            raise PydanticCustomError("choice", "Value should be one of the choices")
        return found[0]

    return Annotated[Any, BeforeValidator(find)]


def _any_of(types: Sequence[Any]) -> Any:
    """Whatever fits one of the types as it is; else what it can be made, where that is only one thing."""
    adapters = [TypeAdapter(each) for each in types]

    def find(value: Any, info: ValidationInfo) -> Any:
        made: dict[str, Any] = {}
        for adapter in adapters:
            _step(info)
            try:
                fitted = adapter.validate_python(value, context=info.context)
            except ValidationError:
                continue
            made[key := canonical(fitted)] = fitted
            _step(info, len(key))
        if (same := canonical(value)) in made:
            return made[same]
        if len(made) != 1:
            raise PydanticCustomError("any_of", "Value should be of one of the types")
        return next(iter(made.values()))

    return Annotated[Any, BeforeValidator(find)]
