"""What a real game server once told an agent, as a scenario.

Invariant: pure once it is read. Each frame that came in becomes at most a bounded number of lines, by what its server's format says and
not by what an adapter would make of it; a frame that is not understood is told as it is, never left out. A recording begins anew when it
has come to its end.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sim import words
from sim.floods import Flood, Kind, Line, Result, Turn, said_to, stamped
from sim.scenarios.files import ScenarioError
from world_adapter.evennia_text import html_to_text

MAX_FILE_BYTES, MAX_LINE_CHARS = 64_000_000, 4_000_000
#: Lines of one frame and of one turn, and characters of a line.
MOST_OF_A_FRAME, MOST_OF_A_TURN, MOST_CHARS = 200, 5_000, 40_000
#: Seconds of the recording in one turn of a flood, and between its end and its beginning.
TURN_S, PAUSE_S = 10.0, 1.0
SLOWEST, FASTEST = 0.1, 100.0
_SAID = re.compile(r'^(?P<who>[^\n"]{1,60}?) (?:says|whispers|shouts)[^"\n]{0,40}"(?P<words>.*)"\s*$', re.DOTALL)
_STATE = frozenset({"entityMoved", "move", "forcedMove", "time", "physicsTick", "physicTick", "chunkColumnLoad", "health"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A line and when it came, in seconds from the recording's beginning."""

    at: float
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording as it is told to one NPC: a `floods.Script`.

    Attributes:
        moments: in their order; never empty.
        speed: seconds of the recording in one second.
        seed: of the lines that are said to the NPC, which no recording of another agent holds.
    """

    name: str
    moments: Sequence[Moment]
    speed: float = 1.0
    seed: int = 7
    window: int = 10_000
    npc: str = "Oda"
    starts: Sequence[float] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", tuple(moment.at for moment in self.moments))

    @property
    def lasts(self) -> float:
        """Seconds from its beginning to where it begins anew."""
        return self.moments[-1].at + PAUSE_S

    def turn(self, number: int) -> Turn:
        """See `floods.Script`: so many seconds of the recording, and somebody who speaks to the NPC."""
        span = TURN_S * self.speed
        lines = [moment.line for moment in self.between(number * span, (number + 1) * span)]
        r = random.Random(f"{self.seed}/recording/{number}")
        call = words.call(r)
        return Turn(number=number, kind=Kind.CHAT, lines=stamped([*lines, said_to(self.npc, call.player, call.words)], number))

    def result(self, number: int, name: str, args: Mapping[str, Any]) -> Result:
        """See `floods.Script`; the recording's own results belong to another agent's actions."""
        return Flood(seed=self.seed, window=self.window, npc=self.npc, ask_every=0, poison_every=0).result(number, name, args)

    def between(self, begin: float, end: float) -> list[Moment]:
        """What comes from one moment up to another, `MOST_OF_A_TURN` at most; times may lie far beyond its end."""
        out: list[Moment] = []
        for rounds in range(int(begin // self.lasts), int(end // self.lasts) + 1):
            past = rounds * self.lasts
            found = self.moments[bisect_left(self.starts, begin - past) : bisect_left(self.starts, end - past)]
            out += [replace(moment, at=moment.at + past) for moment in found[: MOST_OF_A_TURN - len(out)]]
            if len(out) >= MOST_OF_A_TURN:
                break
        return out


def read(path: Path, *, speed: float = 1.0, seed: int = 7, window: int = 10_000, npc: str = "Oda") -> Recording:
    """A recording from a file of JSON lines `{"t": seconds, "dir": "in" or "out", "frame": …}`; what the agent sent is left out.

    Raises:
        ScenarioError: it cannot be read, or holds nothing that was told.
    """
    if not SLOWEST <= speed <= FASTEST:
        raise ScenarioError(f"a recording is played at {SLOWEST:g} to {FASTEST:g} times its speed, not {speed:g}")
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ScenarioError(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB")
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from error
    moments = [moment for number, row in enumerate(text.split("\n"), 1) if row.strip() for moment in _moments(path, number, row)]
    if not moments:
        raise ScenarioError(f"{path} holds nothing that was told to an agent")
    moments.sort(key=lambda moment: moment.at)
    first = moments[0].at
    return Recording(
        name=path.stem, moments=tuple(replace(m, at=m.at - first) for m in moments), speed=speed, seed=seed, window=window, npc=npc
    )


def _moments(path: Path, number: int, row: str) -> Iterator[Moment]:
    try:
        data = json.loads(row) if len(row) <= MAX_LINE_CHARS else None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, Mapping) or "frame" not in data or not isinstance(data.get("t"), int | float):
        raise ScenarioError(f'{path}, line {number}: expected {{"t": seconds, "dir": "in" or "out", "frame": …}}')
    at = float(data["t"])
    if not 0 <= at < 1e9:
        raise ScenarioError(f"{path}, line {number}: {at:g} is no time in seconds")
    if data.get("dir") != "out":
        for line in list(_lines(data["frame"]))[:MOST_OF_A_FRAME]:
            if line.text.strip():
                yield Moment(at=at, line=replace(line, text=line.text[:MOST_CHARS]))


def _lines(frame: Any) -> Iterator[Line]:
    """By the shape of the frame: Evennia's is a list, the Minecraft bridge's and the Neuro API's are objects, Showdown's is text."""
    match frame:
        case [str() as command, [*texts], *rest]:
            sort = rest[0].get("type") if rest and isinstance(rest[0], Mapping) else None
            yield from _evennia(command, texts, str(sort or ""))
        case {"command": str() as command, **more}:
            yield from _neuro(command, more.get("data"))
        case {"event": str() as event, **more}:
            yield from _minecraft(event, more.get("args") if "args" in more else more.get("data"))
        case {"_note": str()}:
            return  # the recorder's own remark: a connection came or went
        case str():
            for row in frame.split("\n"):
                yield from _showdown(row)
        case _:
            yield Line(kind="notice", text=_raw(frame), prio=3)


def _evennia(command: str, texts: Sequence[Any], sort: str) -> Iterator[Line]:
    kinds = {"say": "speech", "whisper": "speech", "pose": "emote", "look": "scene", "traverse": "presence", "inventory": "item"}
    for text in texts:
        plain = html_to_text(str(text))
        said = _SAID.match(plain) if sort in ("say", "whisper") else None
        yield Line(kind=kinds.get(sort, "notice"), text=plain, player=said["who"] if said else "")
    if not texts and command != "text":
        yield Line(kind="notice", text=command.replace("_", " "), prio=3)


def _neuro(command: str, data: Any) -> Iterator[Line]:
    given = data if isinstance(data, Mapping) else {}
    match command:
        case "context":
            yield Line(kind="notice", text=str(given.get("message") or ""), prio=3 if given.get("silent") else 5)
        case "actions/force":
            yield Line(kind="notice", text=f"{given.get('state') or ''}\n{given.get('query') or ''}".strip(), prio=7)
        case "action/result":
            yield Line(kind="notice", text=str(given.get("message") or ("done" if given.get("success") else "that failed")), prio=6)
        case _:
            yield Line(kind="notice", text=f"{command}: {_raw(data)}" if data else command, prio=3)


def _minecraft(event: str, told: Any) -> Iterator[Line]:
    first = told[0] if isinstance(told, list) and told else told
    if event == "chat":
        who, said = (told[0], told[1]) if isinstance(told, list) and len(told) > 1 else ("", "")
        if isinstance(told, Mapping):
            who, said = told.get("from"), told.get("text")
        yield Line(kind="speech", text=f'{who} says: "{said}"', player=str(who or ""))
    elif event in ("message", "messagestr"):
        yield Line(kind="notice", text=str(first.get("text") if isinstance(first, Mapping) else first), prio=4)
    elif event in _STATE:
        number = first.get("id") if isinstance(first, Mapping) else None
        key = event if number is None else f"{event} {number}"
        yield Line(kind="moved" if "ove" in event else "notice", text=f"{event} {_raw(first)}".strip(), key=key, prio=2)
    else:
        yield Line(kind="notice", text=f"{event} {_raw(told)}".strip(), prio=3)


def _showdown(row: str) -> Iterator[Line]:
    kind, _, rest = row.removeprefix("|").partition("|")
    match kind:
        case "c" | "c:":
            fields = rest.split("|", 2) if kind == "c:" else ["", *rest.split("|", 1)]
            if len(fields) == 3:
                yield Line(kind="speech", text=f'{fields[1].strip()} says: "{fields[2]}"', player=fields[1].strip())
        case "request":
            yield Line(kind="notice", text=f"request {rest}", key="request", prio=7)
        case "" | "t:":
            return
        case _:
            yield Line(kind="notice", text=row.replace("|", " ").strip(), prio=5)


def _raw(value: Any) -> str:
    """As JSON on one line, nothing of it for nothing."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)[:MOST_CHARS] if value not in (None, [], {}) else ""
