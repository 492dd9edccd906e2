"""Values that say plainly what another type was asked for: "5" for a number, a single thing for a list of one.

Invariants: pure and total. What has the type already stays the very same value; a conversion loses nothing, guesses nothing, and text stays
text; what cannot be converted comes back as it was, for the check behind this to refuse.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: The longest text that is read as a number, and as JSON, in characters.
NUMBER_CHARS = 32
JSON_CHARS = 100_000
#: Whole floats above this are no longer exact.
EXACT = 2**53

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


class _TwiceError(ValueError):
    """A name stands twice in a JSON object: which of the two is meant would be a guess."""


def to_integer(value: object) -> object:
    """Whole numbers, also as text or as a float without a fraction."""
    if isinstance(value, str):
        value = _number(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    return value


def to_number(value: object) -> object:
    """Numbers, also as text; a whole one stays whole."""
    return _number(value) if isinstance(value, str) else value


def to_boolean(value: object) -> object:
    """Truth values, also as the words true and false."""
    if not isinstance(value, str) or len(value) > NUMBER_CHARS:
        return value
    return {"true": True, "false": False}.get(value.strip().lower(), value)


def to_text(value: object) -> object:
    """Text, and whole numbers in digits, as models write ids."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= EXACT else value


def to_list(value: object) -> object:
    """Lists, also as JSON text; a single value is a list of one. What begins like a JSON list and is none is left alone: it is torn."""
    if isinstance(value, list) or value is None:
        return value
    if isinstance(value, str) and value.lstrip().startswith("["):
        read = _json(value)
        return read if isinstance(read, list) else value
    return [value]


def to_object(value: object) -> object:
    """Objects, also as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        read = _json(value)
        return read if isinstance(read, dict) else value
    return value


class Choice:
    """One of a list of values: the very value, or the only one that differs in case, blanks or quotation marks around a number."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._exact = {canonical(value): value for value in values}
        self._near: dict[str, list[Any]] = {}
        for value in self._exact.values():
            self._near.setdefault(_folded(value), []).append(value)

    def __contains__(self, value: object) -> bool:
        return canonical(value) in self._exact

    def find(self, value: object) -> tuple[Any, ...]:
        """The value that is meant, alone; nothing where none is, or more than one."""
        if (key := canonical(value)) in self._exact:
            return (self._exact[key],)
        near = self._near.get(_folded(value), [])
        return tuple(near) if len(near) == 1 else ()


def canonical(value: object) -> str:
    """A JSON value as text that is equal for equal values: 5 and 5.0 are, true and 1 are not. Long ones take time."""
    return json.dumps(value if isinstance(value, str) else _plain(value), sort_keys=True, default=str)


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def _folded(value: object) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return " ".join(text.split()).casefold()


def _number(text: str) -> object:
    """The number that a text is, the text where it is none."""
    trimmed = text.strip()
    if len(trimmed) > NUMBER_CHARS or not _NUMBER.fullmatch(trimmed):
        return text
    number = float(trimmed) if "." in trimmed else int(trimmed)
    return number if math.isfinite(number) else text


def _json(text: str) -> object:
    """The value of a JSON text, None where it is none."""
    if len(text) > JSON_CHARS:
        return None
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_never)
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _TwiceError
    return found


def _never(name: str) -> object:
    raise ValueError(name)
