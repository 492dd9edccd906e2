"""The operator's file of rules, read afresh whenever it changed.

Invariant: at the start a file that is wrong ends in `Misconfigured`. From then on there are always rules: while the file is broken, or gone
though it was there, the last good ones stay and `broken` says what is wrong. Whoever judges refuses every write then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from npc.errors import Misconfigured
from npc.files import WatchedFile
from npc.policy.hooks import HOOKS, Hook, Hooks
from npc.policy.rules import Rules, parse_rules
from npc.secrets import Redactor, resolved

#: The largest file, in bytes.
MAX_FILE = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The rules in force: with the functions and the secrets that they name. `broken`: what is wrong with the file, "" for nothing."""

    rules: Rules = field(default_factory=Rules)
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    injected: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)  # by action, then by argument
    broken: str = ""


class PolicyFile:
    """The rules in `path` (None: there is no file, and never will be). `redactor` learns every secret before it is used."""

    def __init__(self, path: Path | None, *, redactor: Redactor, hooks: Hooks = HOOKS) -> None:
        """Read it. Raises `Misconfigured`."""
        self._path, self._redactor, self._hooks = path, redactor, hooks
        self._file = WatchedFile(path, limit=MAX_FILE) if path else None
        self._there = False  # whether the file ever was
        self.current = InForce()
        if (broken := self.read().broken) and path:
            raise Misconfigured(broken)

    def read(self) -> InForce:
        """The rules in force now; the same object while nothing changed. Blocks on the disk, never raises."""
        content = self._file.poll() if self._file else None
        if content is None:
            return self.current
        if content.data is None:
            # A file that was never there is no file; one that is gone may have forbidden what is asked for now.
            if content.problem != "is missing" or self._there:
                self.current = replace(self.current, broken=f"{self._path} {content.problem}")
            return self.current
        self._there = True
        try:
            self.current = self._parsed(content.data)
        except Misconfigured as error:
            self.current = replace(self.current, broken=str(error))
        except Exception as error:  # noqa: BLE001 - whatever somebody's file or code does to us while it is read, the rules are not whole
            self.current = replace(self.current, broken=f"{self._path} cannot be understood ({type(error).__name__})")
        return self.current

    def _parsed(self, data: bytes) -> InForce:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise Misconfigured(f"{self._path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from None
        rules = parse_rules(text, where=str(self._path))
        try:
            hooks = {name: self._hooks.find(name) for name in rules.functions}
            injected = {
                name: {argument: self._secret(source, f"{argument} of {name}") for argument, source in tool.inject.items()}
                for name, tool in rules.tools.items()
                if tool.inject
            }
        except Misconfigured as error:
            raise Misconfigured(f"{self._path}: {error}") from None
        return InForce(rules=rules, hooks=hooks, injected=injected)

    def _secret(self, source: str, use: str) -> str:
        value = resolved(source, use=use)
        self._redactor.add(value)
        return value
