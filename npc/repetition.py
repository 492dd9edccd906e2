"""The same call with the same result is not made for ever.

A call is a tool with its arguments. What has given the same each time is not called once more, and whoever asks is told what it gave. A
result that differs, another place, a line meant for the NPC, or another call that changed something open it again, and so does time. Calls
that alternate are found as those in a row are, for each is counted by itself.

Invariants: pure, time comes in; bounded; what it keeps is plain JSON, and whatever stands in an old checkpoint is no reason to fail.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npc.coercion import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Calls that are kept, the newest.
KEPT = 64
#: Characters of a result that are told again.
TOLD = 200
#: Times beyond this are none, in unix seconds.
FAR = 1e12


@dataclass(slots=True, kw_only=True)
class _Call:
    """One call: what it gave last, in words too, when it gave just that in a row, and after how many changes."""

    result: str = ""
    words: str = ""
    times: list[float] = field(default_factory=list)
    changes: int = 0


class Repetition:
    """What was called and what it gave. Of `tries` calls in a row within `window_s` seconds that give the same, the last is not made."""

    def __init__(self, *, tries: int = 3, window_s: float = 60.0) -> None:
        self._tries, self._window_s = tries, window_s
        self._calls: dict[str, _Call] = {}
        self._open: dict[str, int] = {}  # calls under way
        self._changes = 0  # so far, as far as one can tell

    def changed(self) -> None:
        """What any call gave before may be otherwise now."""
        self._changes += 1

    def refusal(self, name: str, arguments: Mapping[str, Any], *, now: float) -> str:
        """Why it is not called once more, as a sentence with the way out; "" if it may be."""
        key = _key(name, arguments)
        known = self._calls.get(key)
        # A clock that was set back makes no call young again.
        same = [at for at in known.times if 0 <= now - at < self._window_s] if known and known.changes == self._changes else []
        open_ = self._open.get(key, 0)
        if len(same) + open_ < self._tries - 1 or not (same or open_):
            return ""
        if not known or not same:
            return f"{name} with these very arguments is under way {_times(open_)}; wait for what it gives, or do something else"
        left = max(1.0, same[0] + self._window_s - now)
        return (
            f"{name} with these very arguments has given the same {_times(len(same))}, the last time: {known.words} Do something else, or "
            f"end your turn; it is open again in {left:.0f} s, or when you are elsewhere or are told something new"
        )

    @contextmanager
    def under_way(self, name: str, arguments: Mapping[str, Any]) -> Iterator[None]:
        """A call that is being made: the same beside it counts it, though nobody knows yet what it gives."""
        key = _key(name, arguments)
        self._open[key] = self._open.get(key, 0) + 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def gave(
        self, name: str, arguments: Mapping[str, Any], result: str, words: str = "", *, now: float, changes: bool = False
    ) -> None:  # fmt: skip
        """What a call gave, and the same in `words` for people. `changes`: its tool may change something."""
        key, digest = _key(name, arguments), hashlib.blake2b(result.encode("utf-8", "replace"), digest_size=16).hexdigest()
        call = self._calls.pop(key, None) or _Call()
        new = call.result != digest
        if changes and new:
            self.changed()
        if new or call.changes != self._changes:
            call.times = []
        words = " ".join((words or result).split())[:TOLD]
        call.words = words if words.endswith((".", "!", "?", "]")) else f"{words or 'nothing'}."
        call.result, call.changes = digest, self._changes
        call.times = [*call.times, now][-self._tries :]
        self._calls[key] = call
        while len(self._calls) > KEPT:
            del self._calls[next(iter(self._calls))]

    # ------------------------------------------------------------ over a restart
    def dump(self) -> dict[str, Any]:
        """As plain JSON."""
        calls = {key: [call.result, call.words, call.times, call.changes] for key, call in self._calls.items()}
        return {"changes": self._changes, "calls": calls}

    def load(self, stored: object) -> None:
        """What was dumped. Anything else is nothing."""
        calls, changes = (stored.get("calls"), stored.get("changes")) if isinstance(stored, Mapping) else (None, None)
        if not isinstance(calls, Mapping) or type(changes) is not int:
            return
        self._changes = changes
        for key, row in list(calls.items())[-KEPT:]:
            match row:
                case [str(result), str(words), [*times], int(count)]:
                    when = [float(at) for at in times if type(at) in (int, float) and abs(at) < FAR][-self._tries :]
                    self._calls[str(key)] = _Call(result=result, words=words[: TOLD + 1], times=when, changes=count)


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    text = json.dumps([name, canonical(arguments)])
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
