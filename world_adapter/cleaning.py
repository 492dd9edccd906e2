"""The door: everything that a peer sends is cleaned here, once, and nowhere else.

Invariant: no function here raises, whatever it is given, and what comes out is valid Unicode without control characters, finite, within
64 bits, and bounded in size, depth and number of values. Cleaning never judges meaning: `<|endoftext|>`, a million spaces or "ignore your
rules" are ordinary text. What is taken away is named in place, so nobody mistakes a cut text for a whole one.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

MAX_TEXT = 1_048_576  # characters of one text
MAX_NAME = 80  # characters of a display name
MAX_ID = 128  # characters of an identifier
MAX_WORD = 32  # characters of a kind, a code, a version
MAX_DEPTH = 16  # levels of nested values
MAX_VALUES = 10_000  # scalars, lists and maps in one `data`
MAX_VALUE_TEXT = 262_144  # characters in all texts and keys of one `data` together
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_REPLACEMENT = "�"
_SURROGATE = re.compile("[\ud800-\udfff]")
# All of C0 and C1 but tab, line feed and carriage return. C0 has pictures (NUL is U+2400); a terminal must not obey the rest either.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CONTROL_BYTES = bytes([c for c in range(128) if _CONTROL.match(chr(c))])
_PICTURES: Mapping[int, str] = {
    **{c: chr(0x2400 + c) for c in range(0x20)},
    0x7F: "␡",
    **dict.fromkeys(range(0x80, 0xA0), _REPLACEMENT),
}
# In a name, what could end a quote, a tag or an escape becomes a look-alike; invisible format characters go (bidi overrides, tags), but
# for the two joiners that emoji and several scripts are written with.
_NAME_MARKS = str.maketrans({**dict.fromkeys('"“”„‟«»`´', "'"), "\\": "/", "<": "‹", ">": "›"})
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
_PLAIN_ID = re.compile(r"[\w.:/@#+-]{1,128}", re.ASCII)


def unicode(value: str) -> str:
    """The same text with each surrogate as U+FFFD (the codecs have joined proper pairs before)."""
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub(_REPLACEMENT, value)
    return value


def text(value: object, limit: int = MAX_TEXT) -> str:
    """A text for the model: scalars as they read, anything else as nothing. Over `limit` characters the middle goes, the cut is named."""
    if type(value) is not str:
        value = _scalar_text(value)
    if len(value) > limit:
        value = cut(value, limit)
    if value.isprintable() and value.isascii():
        return value
    value = unicode(value)
    return value.translate(_PICTURES_IN_TEXT) if _CONTROL.search(value) else value


def untouched(value: str) -> bool:
    """Whether `text` would leave every character of `value` as it is."""
    if value.isascii():
        raw = value.encode()
        return len(raw.translate(None, _CONTROL_BYTES)) == len(raw)  # a third of the time of the two below
    return value.isprintable() or (not _CONTROL.search(value) and unicode(value) == value)


def cut(value: str, limit: int) -> str:
    """`value` within `limit` characters: three quarters head, one quarter tail, and between them how many characters are missing."""
    if len(value) <= limit:
        return value
    room = max(limit - len(f"[… {len(value)} characters cut …]"), 0)
    tail = room // 4
    head = room - tail
    return f"{value[:head]}[… {len(value) - room} characters cut …]{value[len(value) - tail :]}"


def name(value: object, limit: int = MAX_NAME) -> str:
    """One short line that cannot end the quote, tag or line that it will stand in; may be empty."""
    if type(value) is not str:
        value = _scalar_text(value)
    if len(value) <= limit and value.isascii() and value.isalnum():
        return value
    # A hostile name may be a megabyte; what is far beyond the limit need not be looked at.
    line = " ".join(unicode(value[: limit * 8]).split())
    line = _INVISIBLE.sub("", line.translate(_PICTURES).translate(_NAME_MARKS)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def ident(value: object) -> str:
    """An identifier. Sane ones pass unchanged; others are flattened, and over-long ones end in a digest so that they stay distinct."""
    if type(value) is not str:
        if type(value) is not int:
            return ""
        value = str(value) if INT_MIN <= value <= INT_MAX else ""
    if _PLAIN_ID.fullmatch(value):
        return value
    if len(value) <= MAX_ID:
        return name(value, MAX_ID)
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{name(value, MAX_ID - 20)}~{digest}"


def word(value: object, default: str) -> str:
    """A short single word such as a kind or an error code, `default` where there is none."""
    if type(value) is str and value.isascii() and value.isidentifier() and len(value) <= MAX_WORD:
        return value
    return name(value, MAX_WORD).replace(" ", "_") or default


def integer(value: object, default: int, low: int = INT_MIN, high: int = INT_MAX) -> int:
    """A whole number between `low` and `high`; a whole float counts as one (some languages have no other), a bool does not."""
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        return default
    return min(max(value, low), high)


def number(value: object, default: float, low: float = -1e300, high: float = 1e300) -> float:
    """A finite number between `low` and `high`."""
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        value = float(value)
    if type(value) is not float or not math.isfinite(value):
        return default
    return min(max(value, low), high)


def optional_number(value: object, low: float, high: float) -> float | None:
    """A finite number between `low` and `high`, None where there is none."""
    found = number(value, math.nan, low, high)
    return None if math.isnan(found) else found


def mapping(value: object) -> dict[str, Any] | None:
    """A JSON object for code: bounded in depth, values and characters, keys texts. None where `value` is no map."""
    if not isinstance(value, dict):
        return None
    cleaned = json_value(value)
    return cleaned if isinstance(cleaned, dict) else None


def json_value(value: object) -> Any:
    """Any value as JSON can hold it: no NaN or infinity (None), integers beyond 64 bits as text, bytes as base64, cuts named in place."""
    return _Values().clean(value, MAX_DEPTH)


class _Values:
    """One walk through one value, with what is left of its allowance."""

    __slots__ = ("chars", "values")

    def __init__(self) -> None:
        self.values = MAX_VALUES
        self.chars = MAX_VALUE_TEXT

    def clean(self, value: object, depth: int) -> Any:
        self.values -= 1
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is str:
            return self.text(value)  # type: ignore[arg-type]  # kind says so
        if isinstance(value, int):
            return value if INT_MIN <= value <= INT_MAX else _scalar_text(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, bytes | bytearray):
            return self.text(base64.b64encode(value[: MAX_VALUE_TEXT]).decode("ascii"))
        if isinstance(value, str):
            return self.text(str(value))
        if isinstance(value, Mapping | list | tuple):
            if depth <= 0:
                return "[cut: nested too deeply]"
            return self.members(value, depth - 1) if isinstance(value, Mapping) else self.items(value, depth - 1)
        return None

    def members(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for done, (key, member) in enumerate(value.items()):
            if self.values <= 0:
                found["[cut]"] = f"{len(value) - done} more values"
                break
            found[self.text(key if type(key) is str else _scalar_text(key), MAX_ID)] = self.clean(member, depth)
        return found

    def items(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        found: list[Any] = []
        for done, item in enumerate(value):
            if self.values <= 0:
                found.append(f"[cut: {len(value) - done} more values]")
                break
            found.append(self.clean(item, depth))
        return found

    def text(self, value: str, limit: int = MAX_VALUE_TEXT) -> str:
        # A floor of one mark's length keeps the cut named even when nothing is left of the allowance.
        found = text(value, max(min(limit, self.chars), 48))
        self.chars -= len(found)
        return found


def _scalar_text(value: object) -> str:
    """How a scalar reads; nothing for None, containers and foreign objects."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python refuses to print integers of more than 4,300 digits.
        return str(value) if value.bit_length() < 4096 else "[cut: an integer of more than 4,000 bits]"
    return repr(value) if isinstance(value, float) and math.isfinite(value) else ""


_PICTURES_IN_TEXT = {c: p for c, p in _PICTURES.items() if chr(c) not in "\t\n\r"}
