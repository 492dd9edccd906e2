"""What came of one life: what was asked, called, said, spent and written, as far as it can be read from outside.

Invariant: everything here is read from requests and answers as they passed, from the world's own account, and from the files of the home;
nothing from what the product says of itself, but for its log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.core.values import Answer, Outcome
from sim.reading import Reading, block_text, blocks


@dataclass(slots=True, kw_only=True)
class Called:
    """One tool call. `result` is what the model was shown of it, None where it never was."""

    id: str
    name: str
    args: Mapping[str, Any]
    step: int
    turn: int = 0
    result: str | None = None
    error: bool = False

    @property
    def key(self) -> str:
        """Equal for the same call with the same result in the same turn."""
        return json.dumps([self.turn, self.name, self.args, self.result], sort_keys=True, ensure_ascii=False, default=str)


@dataclass(slots=True)
class Ear:
    """Hears every request and its outcome, over all lives of a case."""

    turn: int = 0  # the mind's, as whoever leads the case knows it
    steps: int = 0
    asides: int = 0
    requests: int = 0
    rejected: int = 0
    without_rule: int = 0
    dollars: float = 0.0
    calls: list[Called] = field(default_factory=list)
    last: Mapping[str, Any] = field(default_factory=dict)
    constitution: str = ""
    faulty: bool = False  # the model is made to fail just now: what it rejects is no fault of the request
    rejections: list[str] = field(default_factory=list)
    _by_id: dict[str, Called] = field(default_factory=dict)

    def hear(self, body: Mapping[str, Any], outcome: Outcome) -> None:
        """One more call."""
        self.dollars += outcome.dollars or 0.0
        if not body.get("tools"):
            self.asides += 1
            return
        self.requests += 1
        self.last = body
        self._results(body)
        system = "\n".join(block_text(b) for b in blocks(body.get("system")))
        self.without_rule += self.constitution.strip() not in system
        if isinstance(outcome, Answer):
            self.steps += 1
            for block in outcome.content:
                if block.get("type") == "tool_use":
                    self._call(block)
        elif outcome.status in (400, 413) and not self.faulty:
            self.rejected += 1
            self.rejections.append(outcome.message)

    def _call(self, block: Mapping[str, Any]) -> None:
        called = Called(
            id=str(block.get("id")), name=str(block.get("name")), args=dict(block.get("input") or {}), step=self.steps, turn=self.turn
        )
        self.calls.append(called)
        self._by_id[called.id] = called

    def _results(self, body: Mapping[str, Any]) -> None:
        for message in body.get("messages") or ():
            for block in blocks(message.get("content")) if message.get("role") == "user" else ():
                called = self._by_id.get(str(block.get("tool_use_id"))) if block.get("type") == "tool_result" else None
                if called is not None and called.result is None:
                    parts = blocks(block.get("content"))
                    called.result = block_text(parts[0]) if parts else ""
                    called.error = bool(block.get("is_error"))

    @property
    def last_text(self) -> str:
        """All that the model read last, the system part included."""
        reading = Reading(self.last)
        return f"{reading.system}\n{reading.said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A life as it went.

    Attributes:
        asked: the actions that the world was asked for, in order, with their arguments.
        facts: of the world, in the end.
        state: state.json as JSON.
        diary, log: their words.
        events: kinds of the log's events, with how often.
        turns, failed_turns: of all lives of the case.
        resolved_at: the turn and step in which the goal was reached, None if it was not.
        dollars: of all calls; seconds: virtual; wall_s: as a clock on the wall says.
        trouble: why the case could not be led to its end, "" if it could.
    """

    steps: int
    turns: int
    failed_turns: int
    requests: int
    rejected: int
    rejections: Sequence[str]
    without_rule: int
    dollars: float
    seconds: float
    wall_s: float
    calls: Sequence[Called]
    asked: Sequence[tuple[str, Mapping[str, Any]]]
    said: Sequence[str]
    facts: Mapping[str, Any]
    state: Mapping[str, Any]
    diary: str
    log: str
    events: Mapping[str, int]
    resets: int
    last_request: str
    resolved_at: tuple[int, int] | None = None
    trouble: str = ""

    @property
    def repeats(self) -> int:
        """Calls that had been made before in their turn, with the same arguments and the same result."""
        return sum(times - 1 for times in Counter(call.key for call in self.calls).values())
