"""What a JSON Schema says beyond types and bounds: exclusive choices, conditions, dependencies, distinct items.

Invariants: total and bounded in time: a schema that keeps its reader busy, or that the library cannot read, checks nothing and says so; no
pattern runs without a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from npc.coercion import canonical
from npc.shapes import PATTERN_S, Meter, TooMuchError

#: Steps of one check. One is a keyword against a value, and takes a few microseconds.
STEPS = 3_000
#: Keywords within keywords. Deeper ones would end the stack, and the library does not survive that.
DEPTH = 60


class SchemaCheck:
    """One schema, and what it says of values."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._meter, self._depth = Meter(), 0
        words = {word: self._counted(check) for word, check in Draft202012Validator.VALIDATORS.items()} | {
            "pattern": self._counted(_pattern),
            "uniqueItems": self._counted(_distinct),
            # These search the names of all properties by patterns of the world's, without a limit.
            **dict.fromkeys(("patternProperties", "unevaluatedProperties", "unevaluatedItems"), _says_nothing),
            "additionalProperties": self._counted(_additional),
        }
        self._validator = extend(Draft202012Validator, words)(dict(schema))  # type: ignore[no-untyped-call]  # the library's own

    def complaint(self, value: Mapping[str, Any]) -> str | None:
        """What is wrong with a value, as a sentence; "" if nothing is, None if that cannot be told in time."""
        self._meter, self._depth = Meter(STEPS), 0
        try:
            error = next(self._validator.iter_errors(value), None)
        except Exception:  # noqa: BLE001 (a library over a schema that somebody else wrote: references to nothing, endless recursion, overflows)
            return None
        if error is None:
            return ""
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{where}: {error.message}" if where else error.message

    def _counted(self, check: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
        def counted(validator: Any, word: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
            self._meter.step(len(value) if isinstance(value, str) else 0)
            if self._depth >= DEPTH:
                raise TooMuchError
            self._depth += 1
            try:
                yield from check(validator, word, value, schema) or ()
            finally:
                self._depth -= 1

        return counted


def _says_nothing(*_: object) -> tuple[()]:
    return ()


def _additional(validator: Any, more: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if "patternProperties" not in schema:
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, more, value, schema) or ()


def _distinct(_validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if wanted and isinstance(value, list) and len({canonical(item) for item in value}) < len(value):
        yield ValidationError("the items must be distinct")


def _pattern(_validator: Any, pattern: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, str):
        return
    try:
        found = regex.search(pattern, value, timeout=PATTERN_S)
    except TimeoutError:
        raise TooMuchError from None
    if not found:
        yield ValidationError(f"must match {pattern[:80]}")
