"""Bytes of a request into JSON, as strictly as the real API reads them.

Invariant: what comes out can be encoded as UTF-8 again. Broken UTF-8, lone surrogates, NaN and nesting without end are refused in words,
never raised.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sim.api.validation import Refusal

MAX_BYTES = 32 * 1024 * 1024
TOO_LARGE = Refusal(status=413, error_type="request_too_large", message="Request exceeds the maximum size")
TOO_DEEP = Refusal(message="The request body is not valid JSON: nested too deeply")

_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode(raw: bytes) -> Any | Refusal:
    """The JSON value in a body, or why there is none."""
    if len(raw) > MAX_BYTES:
        return TOO_LARGE
    if _SURROGATE.search(raw) and (lone := _lone_surrogate(raw)) is not None:
        what, at = lone
        return _not_json(f"{what}: line 1 column {at + 1} (char {at})")
    try:
        return json.loads(raw, parse_constant=_no_constant)
    except RecursionError:
        return TOO_DEEP
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError among them
        return _not_json(str(error))


def _not_json(why: str) -> Refusal:
    return Refusal(message=f"The request body is not valid JSON: {why}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"unexpected {name}")


def _lone_surrogate(raw: bytes) -> tuple[str, int] | None:
    """The first escape that is half of a character, and where it stands."""
    high: int | None = None  # where the pair opened, if the last escape was a first half
    end = -1
    for escape in _ESCAPE.finditer(raw):
        code = int(escape[1], 16) if escape[1] else 0
        if high is not None and not (escape.start() == end and 0xDC00 <= code <= 0xDFFF):
            return "no low surrogate in string", high
        if high is None and 0xDC00 <= code <= 0xDFFF:
            return "no high surrogate in string", escape.start()
        high = escape.start() if 0xD800 <= code <= 0xDBFF else None
        end = escape.end()
    return None if high is None else ("no low surrogate in string", high)
