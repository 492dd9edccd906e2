"""Gathers one NPC's figures while it lives, and from its own log afterwards.

Invariant: it looks on and changes nothing and is bounded in memory however long the life. What a
request is made of, what it cost and how a fault ended is seen at the model's end; what the ladder did and how long it took is read from the
product's log once the run is over.
"""

from __future__ import annotations

import bisect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.messages_api import Inflated, Late, Record, label
from sim.report import parts
from sim.report.buckets import MOST, FillGrid, MarksGrid, SeriesGrid
from sim.report.figures import Fault, FaultKind, Life, Reset, Rung, clean

#: Names of the series and their units. Of a turn, unless said otherwise.
SERIES: Mapping[str, str] = {
    "input_tokens": "tokens",
    "output_tokens": "tokens",
    "dollars": "dollars",
    "cache_share": "share",  # of a request's input tokens
    "lag_ms": "ms",  # from the first line told to the first request that holds the last one
    "turn_ms": "ms",  # from the first line told to the end of the turn
    "request_ms": "ms",  # of a request, as the product waited for it
    "ladder_ms": "ms",  # of a request: the ladder and all that prepares it
    "cpu_ms": "ms",  # of the product's process
    "rss_mb": "MB",  # resident, after the turn
}
#: Kinds of events of the product's log that are of use here.
KINDS = ("request", "answer", "rung", "reset", "diary")
#: Single faults that are kept, and characters of a diary entry.
MOST_FAULTS, ENTRY_CHARS = 300, 4_000
#: Blocks at the end of a request among which the newest line is looked for.
_NEWEST_BLOCKS = 40


@dataclass(slots=True, kw_only=True)
class _Open:
    """A fault that no good answer has ended yet."""

    x: float
    turn: int
    order: int
    name: str
    where: str
    requests: int = 0


@dataclass(slots=True)
class _Kind:
    times: int = 0
    worst_requests: int = 0
    worst_turns: int = 0


class Recorder:
    """One life's.

    Args:
        npc: its name.
        limit: tokens of the model's window.
        width: of the first buckets, in x.
        most: buckets of each series.
        clock: seconds that lags are measured by.
        wall: unix seconds by which the product stamps its log.
    """

    def __init__(
        self,
        npc: str,
        *,
        limit: int,
        width: float = 1.0,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.npc = npc
        self._clock, self._wall, self._width, self._most = clock, wall, width, most
        self._series = {name: SeriesGrid(unit, width=width, most=most) for name, unit in SERIES.items()}
        self._fill = FillGrid(limit, width=width, most=most)
        self._x, self._turn, self._stamp, self._told = 0.0, -1, "", 0.0
        self._began: list[tuple[float, float, int]] = []  # wall, x and number of each turn
        self._requests, self._failed, self._dollars = 0, 0, 0.0
        self._in, self._out, self._cost = 0, 0, 0.0
        self._open: list[_Open] = []
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._ended: dict[tuple[str, str], Counter[str]] = {}
        self._marks: dict[tuple[str, str], MarksGrid] = {}
        self._faults: list[Fault] = []
        self._rungs: dict[str, tuple[Counter[str], MarksGrid]] = {}
        self._resets: list[Reset] = []
        self._reset: dict[str, Any] = {}

    # -- while it lives

    def begins(self, x: float, turn: int, *, stamp: str = "") -> None:
        """A turn is told now; `stamp` ends its last line and stands in no other."""
        self._x, self._turn, self._stamp, self._told = x, turn, stamp, self._clock()
        self._began.append((self._wall(), x, turn))
        self._in, self._out, self._cost = 0, 0, 0.0

    def request(self, record: Record) -> None:
        """A request, as soon as it is known what comes of it."""
        self._requests += 1
        usage = record.usage
        self._in += usage.total_input
        self._out += usage.output_tokens
        self._cost += record.dollars
        self._dollars += record.dollars
        if usage.total_input:
            self._series["cache_share"].add(self._x, usage.cache_read_tokens / usage.total_input)
        if record.units and record.body.get("tools"):
            self._fill.add(self._x, parts.sizes(record.body, record.units))
            if self._stamp and _holds(record.body, self._stamp):
                self._series["lag_ms"].add(self._x, 1e3 * (self._clock() - self._told))
                self._stamp = ""
        self._fate(record)

    def fault(self, name: str, *, where: str) -> None:
        """Something else went wrong: in the world, on the disk, or with the process."""
        key = (where, name)
        kind = self._kinds.setdefault(key, _Kind())
        kind.times += 1
        self._marks.setdefault(key, MarksGrid(width=self._width, most=self._most)).add(self._x)
        self._open.append(_Open(x=self._x, turn=self._turn, order=len(self._began), name=name, where=where))

    def ends(self, *, failed: bool = False, cpu_ms: float | None = None, rss_mb: float | None = None) -> None:
        """The turn is over."""
        self._failed += failed
        x, told = self._x, self._series
        if not failed:
            told["turn_ms"].add(x, 1e3 * (self._clock() - self._told))
        told["input_tokens"].add(x, self._in)
        told["output_tokens"].add(x, self._out)
        told["dollars"].add(x, self._cost)
        if cpu_ms is not None:
            told["cpu_ms"].add(x, cpu_ms)
        if rss_mb is not None:
            told["rss_mb"].add(x, rss_mb)

    def _fate(self, record: Record) -> None:
        """What went wrong with this request, and what it ends by going well."""
        mild = bool(record.faults) and all(isinstance(f, Late | Inflated) for f in record.faults)
        well = record.outcome == "answered" and record.stop_reason not in ("refusal", "model_context_window_exceeded")
        for each in self._open:
            each.requests += 1
        if well and (mild or not record.faults):
            self._close()
        names = [label(fault) for fault in record.faults]
        if not names and record.outcome == "refused":
            names = [f"rejected_{record.status}"]
        elif not names and not well:
            names = [str(record.stop_reason or record.outcome)]
        for name in names:
            self.fault(name, where="model")
        if well and mild:
            self._close(all_the_same=True)

    def _close(self, *, all_the_same: bool = False) -> None:
        """The model has given a good answer."""
        for each in self._open:
            turns = len(self._began) - each.order
            how = "answered all the same" if all_the_same else _later(each.requests, turns)
            self._end(each, how, turns)
        self._open.clear()

    def _end(self, fault: _Open, how: str, turns: int) -> None:
        key = (fault.where, fault.name)
        kind = self._kinds[key]
        kind.worst_requests, kind.worst_turns = max(kind.worst_requests, fault.requests), max(kind.worst_turns, turns)
        self._ended.setdefault(key, Counter())[how] += 1
        self._faults.append(
            Fault(x=fault.x, turn=fault.turn, name=fault.name, where=fault.where, ended=how, requests=fault.requests, turns=turns)
        )
        if len(self._faults) > 2 * MOST_FAULTS:
            self._faults = _worst(self._faults)

    # -- when it is over

    def log(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Events of the product's log, oldest first, those of `KINDS`; may be called for one page after the other."""
        for event in events:
            data = event.get("data")
            if not isinstance(data, Mapping):
                continue
            x, turn = self._when(float(event.get("at") or 0.0))
            match event.get("kind"):
                case "request" if "policy_ms" in data:
                    self._series["ladder_ms"].add(x, float(data["policy_ms"]))
                case "answer" if "seconds" in data:
                    self._series["request_ms"].add(x, 1e3 * float(data["seconds"]))
                case "diary" if "context-reset" in (data.get("tags") or ()):
                    self._reset |= {"entry": clean(data.get("entry")), "author": clean(data.get("author"))}
                case "reset":
                    self._reset |= {
                        "reason": clean(data.get("reason"), 500), "stored": clean(data.get("how")), "x": x, "turn": turn,
                        "at": float(event.get("at") or 0.0), "before": _whole(data.get("tokens")),
                    }  # fmt: skip
                case "rung":
                    self._rung(x, data)
                case _:
                    pass

    def _rung(self, x: float, data: Mapping[str, Any]) -> None:
        name = clean(data.get("rung"))
        counts, marks = self._rungs.setdefault(name, (Counter(), MarksGrid(width=self._width, most=self._most)))
        if data.get("failed"):
            counts["in_vain"] += 1
            return
        counts["ran"] += 1
        before, after = _whole(data.get("before")), _whole(data.get("after"))
        counts["freed"] += max(0, (before or 0) - (after or 0))
        marks.add(x)
        if name == "hard_reset" and "at" in self._reset:
            self._reset |= {"before": before, "after": after}
            self._keep_reset()

    def _keep_reset(self) -> None:
        if "at" in self._reset:
            self._resets.append(Reset(**self._reset))
        self._reset = {}

    @property
    def has_resets(self) -> bool:
        """Whether the diary has to be read."""
        return bool(self._resets or self._reset)

    def entries(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """The diary's entries, as it exports them: the words go to the resets that they are about."""
        texts = {clean(e.get("id")): clean(e.get("text"), ENTRY_CHARS) for e in entries}
        self._keep_reset()
        self._resets = [r.model_copy(update={"entry_text": texts.get(r.entry, r.entry_text)}) for r in self._resets]

    def _when(self, at: float) -> tuple[float, int]:
        """Where in x, and in which turn, something was logged."""
        n = bisect.bisect_right(self._began, at, key=lambda each: each[0]) - 1
        return (self._began[max(n, 0)][1], self._began[max(n, 0)][2]) if self._began else (0.0, 0)

    def life(self, *, exit_status: int | None = None) -> Life:
        """All of it. Faults that are open still did not end before the run did."""
        for each in self._open:
            self._end(each, "not ended when the run was", len(self._began) - each.order)
        self._open.clear()
        self._keep_reset()
        series = {name: grid.series() for name, grid in self._series.items()}
        return Life(
            npc=self.npc,
            turns=len(self._began),
            turns_failed=self._failed,
            requests=self._requests,
            dollars=round(self._dollars, 8),
            exit_status=exit_status,
            fill=self._fill.fill(),
            series={name: found for name, found in series.items() if found is not None},
            rungs=tuple(
                Rung(name=name, ran=counts["ran"], in_vain=counts["in_vain"], freed=counts["freed"], marks=marks.marks())
                for name, (counts, marks) in self._rungs.items()
            ),
            resets=tuple(self._resets),
            fault_kinds=tuple(
                FaultKind(
                    name=name, where=where, times=kind.times, ended=dict(self._ended.get((where, name), {})),
                    worst_requests=kind.worst_requests, worst_turns=kind.worst_turns, marks=self._marks[where, name].marks(),
                )
                for (where, name), kind in sorted(self._kinds.items())
            ),
            faults=tuple(sorted(_worst(self._faults), key=lambda f: (f.x, f.turn))),
        )  # fmt: skip


def _later(requests: int, turns: int) -> str:
    if turns > 0:
        return "good again a turn later" if turns == 1 else f"good again {turns} turns later"
    return "good again at the next request" if requests == 1 else "good again within the turn"


def _worst(faults: list[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda f: (-f.turns, -f.requests))[:MOST_FAULTS]


def _holds(body: Mapping[str, Any], stamp: str) -> bool:
    """Whether the newest blocks of a request hold the stamp. From the end: that is where the news is."""
    left = _NEWEST_BLOCKS
    for message in reversed(body.get("messages") or ()):
        content = message.get("content")
        if isinstance(content, str):
            content = [{"text": content}]
        for block in reversed(content or ()):
            if stamp in str(block.get("text") or block.get("content") or ""):
                return True
            left -= 1
            if not left:
                return False
    return False


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
