"""Reading people's TOML files: what is wrong in them is said with its line and with what to write instead.

Invariant: whatever is wrong with a file is one sentence that names its line and what to write instead.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from npc.errors import Misconfigured

_SECRETS = frozenset({"api_key", "apikey", "key", "token", "auth_token", "password", "secret", "credentials"})


def parse(text: str, *, where: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises `Misconfigured` with the line of the fault; `where` names the file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why, place = str(error), ""
        found = re.fullmatch(r"(?s)(.*) \(at (?:line (\d+), column \d+|end of document)\)", why)
        if found:
            why = found[1]
            line = int(found[2]) if found[2] else text.count("\n") + 1
            place = f", line {line}"
        raise Misconfigured(
            f'{where}{place}: this is not TOML ({_lower(why)}); lines look like name = "Maren" or window = 32000, long texts go between """'
        ) from error
    except RecursionError as error:
        raise Misconfigured(f"{where}: this is nested too deep; a persona has sections with plain values") from error


def complaint(error: ValidationError, model: type[BaseModel], where: str, text: str = "") -> str:
    """One sentence about the first thing in `text` (by line) that `model` did not take, and how many more there are."""
    lines = _lines_of(text)
    found = []
    for detail in error.errors(include_url=False):
        path = tuple(str(part) for part in detail["loc"])
        line = next((lines[path[:size]] for size in range(len(path), 0, -1) if path[:size] in lines), 0)
        found.append((line, _sentence(detail, path, model)))
    found.sort(key=lambda item: item[0] or float("inf"))
    line, sentence = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}{f', line {line}' if line else ''}: {sentence}{more}"


def _sentence(detail: ErrorDetails, path: tuple[str, ...], model: type[BaseModel]) -> str:
    row = next((n for n, part in enumerate(path) if part.isdecimal()), 0)
    if row and (path[row + 1 :] or detail["type"] == "value_error"):
        return _row(detail, path[:row], path[row + 1 :], model)
    section, key = path[:-1], path[-1]
    if detail["type"] == "extra_forbidden":
        return _unknown(key, section, model)
    field = _field(path, model)
    name = f"[{path[0]}] {path[1]}" if len(path) > 1 else f"[{path[0]}]"
    example = _example(path, field)
    if detail["type"] == "missing":
        return f"{name} is missing{example}" if section else f"the section [{key}] is missing: write [{key}] and under it its keys"
    return f"{name} {_must(detail)}{example}"


def _row(detail: ErrorDetails, table: tuple[str, ...], path: tuple[str, ...], model: type[BaseModel]) -> str:
    """What is wrong in one of several tables of a name, such as [[wake.when]]."""
    name = f"[[{'.'.join(table)}]]"
    if detail["type"] == "extra_forbidden":
        field = _field(table, model)
        rows = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)] if field else []
        known = sorted({key for kind in rows for key in kind.model_fields})
        near = get_close_matches(path[0].casefold(), known, n=1, cutoff=0.6)
        return f"{name} has no key {_shown(path[0])}; {f'did you mean {near[0]}?' if near else 'known here: ' + ', '.join(known)}"
    return " ".join([name, *path[:1], _must(detail)])


def _unknown(key: str, section: tuple[str, ...], model: type[BaseModel]) -> str:
    """What to write instead of a key that means nothing here."""
    shown = _shown(key)
    sections = {name: set(_fields(field)) for name, field in model.model_fields.items()}
    here = f"[{section[0]}] has no key {shown}" if section else f"there is no section or key {shown}"
    if key.casefold().replace("-", "_") in _SECRETS:
        return f"{here}, and secrets never stand in this file: put the model's key into the environment as ANTHROPIC_API_KEY"
    known = sections.get(section[0], set()) if section else set(sections)
    if section and key in sections:
        return f"{here}; {key} is a section of its own: write [{key}] on a line and its keys under it"
    near = get_close_matches(key.casefold(), sorted(known), n=1, cutoff=0.6)
    if near:
        return f"{here}; did you mean {near[0] if section else f'[{near[0]}]'}?"
    home = [name for name, keys in sections.items() if key in keys]
    if home:
        return f"{here}; {key} belongs under [{home[0]}]"
    elsewhere = {other: name for name, keys in sections.items() for other in keys}
    near = get_close_matches(key.casefold(), sorted(elsewhere), n=1, cutoff=0.75)
    if near:
        return f"{here}; did you mean {near[0]} under [{elsewhere[near[0]]}]?"
    return f"{here}; known here: {', '.join(sorted(known))}"


def _must(detail: ErrorDetails) -> str:
    """What the value must be, and what it is."""
    context: Mapping[str, Any] = detail.get("ctx", {})
    kind = detail["type"]
    given = detail["input"]
    wanted = {
        "string_type": 'must be a text in "quotes"',
        "int_type": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "bool_type": "must be true or false",
        "tuple_type": 'must be a list of texts such as ["one", "two"]',
        "model_type": "must be a section of its own, with its keys under it",
        "string_too_short": "must not be empty",
        "string_too_long": f"must have at most {context.get('max_length')} characters",
        "too_long": f"must have at most {context.get('max_length')} items",
        "string_pattern_mismatch": "must be one plain word of letters, digits and . _ : / @ -",
        "literal_error": f"must be {context.get('expected')}",
    }.get(kind)
    if kind == "dict_type":
        return "must be a table with its keys under it"  # what stands there instead may be a secret
    if kind == "value_error":
        # Our own validators say it all.
        return str(context.get("error", detail["msg"]))
    if kind in {"string_too_long", "too_long", "string_too_short"}:
        return str(wanted)
    return f"{wanted or _lower(detail['msg'].replace('Input should', 'must'))}, not {_shown(given)}"


def _example(path: Sequence[str], field: FieldInfo | None) -> str:
    """What could be written, from the default where there is one."""
    if field is None or len(path) < 2:
        return ""
    default = field.get_default(call_default_factory=True)
    if default is None or field.is_required():
        return f': for example {path[1]} = "…"' if field.is_required() else "; or leave the line out"
    return f": for example {path[1]} = {_json(default or ['one', 'two'] if isinstance(default, tuple) else default)}"


def _field(path: Sequence[str], model: type[BaseModel]) -> FieldInfo | None:
    section = model.model_fields.get(path[0])
    return _fields(section).get(path[1]) if section is not None and len(path) > 1 else section


def _fields(section: FieldInfo) -> dict[str, FieldInfo]:
    kind = section.annotation
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}


def _shown(value: Any) -> str:
    """A value as it may stand in a sentence: one line, short."""
    if isinstance(value, (str, bool, int, float)):
        text = _json(value)
    else:
        text = "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a date or time"
    text = " ".join(text.replace('"""', '"').split())
    return text if len(text) <= 60 else f"{text[:59]}…"



def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=(.*)$""")


def _lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line (from 1) of every table and key of a valid TOML text, by path. Good enough to point at a line, no parser."""
    found: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    rows: Counter[tuple[str, ...]] = Counter()
    inside = ""  # the quotes that a text of several lines waits for
    for number, line in enumerate(text.split("\n"), start=1):
        if inside:
            if inside in line:
                inside = ""
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            section = _path(header[1])
            if line.lstrip().startswith("[["):
                found.setdefault(section, number)
                rows[section] += 1
                section = (*section, str(rows[section] - 1))
            found.setdefault(section, number)
        elif key:
            found.setdefault((*section, *_path(key[1])), number)
            inside = _left_open(key[2])
    return found


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _left_open(value: str) -> str:
    """The triple quotes that begin in this value and do not end in it."""
    openings: Iterable[str] = (quotes for quotes in ('"""', "'''") if value.lstrip().startswith(quotes))
    return next((quotes for quotes in openings if value.count(quotes) == 1), "")


def _json(value: Any) -> str:
    """A text, number, truth value or list of them; JSON's forms of these are TOML's."""
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)  # JSON writes NaN, TOML nan
