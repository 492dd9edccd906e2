"""Secrets: where they come from, and the one who takes them out of everything that is written, shown or sent to a model.

Invariants: a secret is read from the environment or from a file, never from an argument or a file of settings, and where the operator's
rules name its file, nobody else may read that; no text that `Redactor.text` returns holds a known secret, not as JSON or HTML writes it, as
an address does, in hexadecimal, nor in base64, alone or with something before it; what holds none comes back as the same object.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
import os
import re
import stat
import urllib.parse
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

from npc.errors import Misconfigured

#: What stands in the place of a secret.
MARK = "[secret]"
#: Shorter ones are not looked for: they would be found in half of all words. In characters.
SHORTEST = 6
#: Shorter keys for a model are words such as `none`, for an endpoint of one's own that asks for no key.
SHORTEST_KEY = 12
#: The largest file of a secret, in bytes, and how deep a value is looked into.
MAX_FILE, DEPTH = 65_536, 64

T = TypeVar("T")


class Redactor:
    """Knows every secret of one process."""

    def __init__(self, *secrets: str) -> None:
        self._forms: tuple[str, ...] = ()
        self._bytes: tuple[bytes, ...] = ()
        self._shortest = 0
        for secret in secrets:
            self.add(secret)

    def __repr__(self) -> str:
        return "Redactor()"

    def add(self, secret: str | None, *, shortest: int = SHORTEST) -> None:
        """One more secret; None and what is shorter than `shortest` characters is not looked for."""
        if secret is None or len(secret) < shortest:
            return
        raw = secret.encode("utf-8", "surrogatepass")
        quoted = json.dumps(secret, ensure_ascii=False)[1:-1]
        forms = {
            secret, quoted, json.dumps(secret)[1:-1], json.dumps(quoted, ensure_ascii=False)[1:-1], repr(secret)[1:-1],
            html.escape(secret), html.escape(secret, quote=False), *_addressed(raw), *_in_base64(raw), raw.hex(), raw.hex().upper(),
        }  # fmt: skip
        forms = {form for form in forms if form not in MARK}  # what stands in the mark itself would never be gone
        # The longest first: a form may stand within another one.
        self._forms = tuple(sorted({*self._forms, *forms}, key=lambda form: (-len(form), form)))
        self._bytes = tuple(form.encode("utf-8", "surrogatepass") for form in self._forms)
        self._shortest = min(map(len, self._forms), default=0)

    def holds(self, data: bytes) -> bool:
        """Whether a secret stands in some bytes."""
        return any(form in data for form in self._bytes)

    def text(self, text: str) -> str:
        """A text without secrets."""
        if len(text) < self._shortest:
            return text  # most names, kinds and keys
        for form in self._forms:
            if form in text:
                text = text.replace(form, MARK)
        return text

    def value(self, value: Any, depth: int = DEPTH) -> Any:
        """JSON values, or frozen dataclasses of them, without secrets, keys included."""
        if not self._forms or value is None or isinstance(value, (bool, float)):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            return MARK if str(value) in self._forms else value
        if depth == 0:
            return MARK if self.holds(repr(value).encode("utf-8", "surrogatepass")) else value
        if isinstance(value, Mapping):
            cleaned = {self.text(k) if isinstance(k, str) else k: self.value(v, depth - 1) for k, v in value.items()}
            pairs = zip(value.items(), cleaned.items(), strict=False)
            return value if len(value) == len(cleaned) and all(a is b and c is d for (a, c), (b, d) in pairs) else cleaned
        if isinstance(value, (list, tuple)):
            items = [self.value(item, depth - 1) for item in value]
            if all(a is b for a, b in zip(value, items, strict=True)):
                return value
            return items if isinstance(value, list) else tuple(items)
        return value

    def fields(self, value: T) -> T:
        """A frozen dataclass without secrets in its fields."""
        if not self._forms or not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changed = {}
        for field in dataclasses.fields(value):
            before = getattr(value, field.name)
            after = self.fields(before) if dataclasses.is_dataclass(before) else self.value(before)
            if after is not before:
                changed[field.name] = after
        return dataclasses.replace(value, **changed) if changed else value

    def processor(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """For structlog, as the last one before the renderer: a log line without secrets."""
        plain = (str, int, float, bool, type(None), Mapping, list, tuple)
        return {self.text(name): self.value(v if isinstance(v, plain) else repr(v)) for name, v in event.items()}


def _addressed(raw: bytes) -> set[str]:
    """As addresses have it, with hexadecimal digits of either case."""
    forms = {urllib.parse.quote(raw, safe=""), urllib.parse.quote_plus(raw)}
    return forms | {re.sub("%..", lambda found: found[0].lower(), form) for form in forms}


def _in_base64(raw: bytes) -> set[str]:
    """In base64, alone and with one, two or more bytes before it: that part of it which depends on nothing but the secret."""
    out = {base64.b64encode(raw).decode().rstrip("=")}
    for before in range(3):
        text = base64.b64encode(bytes(before) + raw).decode()
        out.add(text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6])
    return out | {form.replace("+", "-").replace("/", "_") for form in out}


class CleanStream(io.TextIOBase):
    """A stream of text, such as standard error, to which no secret is written."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream, self._redactor = stream, redactor

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """As that of the stream behind."""
        return self._stream.encoding

    def write(self, text: str) -> int:
        """Write a text; how long it was."""
        self._stream.write(self._redactor.text(text))
        return len(text)

    def flush(self) -> None:
        """See the stream behind."""
        self._stream.flush()

    def isatty(self) -> bool:
        """See the stream behind."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """See the stream behind."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Yes."""
        return True


def from_environment(name: str) -> str | None:
    """A secret from the environment, or from the file that NAME_FILE names; None where there is neither. Raises `Misconfigured`."""
    if value := os.environ.get(name):
        return value
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise Misconfigured(f"{name}_FILE names {path}, which cannot be read ({type(error).__name__})") from error
    return None


def resolved(source: str, *, use: str) -> str:
    """The secret behind `env:NAME` or `file:PATH`. Raises `Misconfigured` where there is none, or where others could read it.

    `use` says what it is for, in the message.
    """
    kind, _, place = source.partition(":")
    if kind == "env":
        value = os.environ.get(place, "")
        if not value:
            raise Misconfigured(f"the secret for {use} is not there: set {place} in the environment")
    else:
        value = _private(Path(place), use)
    if len(value) < SHORTEST:
        raise Misconfigured(f"the secret for {use} has less than {SHORTEST} characters, too few to be kept out of texts: take a longer one")
    return value


def _private(path: Path, use: str) -> str:
    try:
        # Without waiting for a writer, should it be a pipe.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno())
            if not stat.S_ISREG(mode.st_mode) or mode.st_mode & 0o077:
                raise Misconfigured(f"the secret for {use} is in {path}, which others may read: chmod 600 {path}")
            return file.read(MAX_FILE).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = type(error).__name__
        raise Misconfigured(f"the secret for {use} cannot be read from {path} ({why}): name a text file of mode 0600") from error
