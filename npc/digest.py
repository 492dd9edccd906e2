"""What happened while the body acted, summed up for a mind that wakes.

Invariants: pure; what is to stay whole stays whole and in its order, the newest observation always; all else is counted by kind and source,
with the newest of each, in at most `chars` characters; every observation is still to be read by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from world_adapter.frames import Observation

CHARS = 1_600
LINE_CHARS = 160
SOURCE_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """`kept` are the observations that stay, `text` sums up the `count` others; "" and 0 where nothing was summed up."""

    kept: tuple[Observation, ...]
    text: str = ""
    count: int = 0


@dataclass(slots=True, kw_only=True)
class _Group:
    count: int
    newest: Observation
    prio: int


def digest(
    observations: Sequence[Observation], *, whole: Callable[[Observation], bool], doing: str, seconds: float, above: int, chars: int = CHARS
) -> Digest:
    """Sum up all but what is to stay `whole`, if that is more than `above`. `doing` completes "while you ...", known by event as `seq`."""
    stay = [whole(o) for o in observations]
    if stay:
        stay[-1] = True
    summed = [o for o, keep in zip(observations, stay, strict=True) if not keep]
    if len(summed) <= above:
        return Digest(kept=tuple(observations))
    groups: dict[tuple[str, str], _Group] = {}
    for o in summed:
        key = (o.kind, _source(o))
        group = groups.setdefault(key, _Group(count=0, newest=o, prio=o.prio))
        group.count, group.newest, group.prio = group.count + 1, o, max(group.prio, o.prio)
    span = f"events {summed[0].seq} to {summed[-1].seq}"
    head = f"While you {doing} ({seconds:.0f} s): {len(summed)} observations, {span}; the newest of each:"
    lines, left, untold = [head], chars - len(head), 0
    # What matters most first, so that it is the rest that a full budget leaves out; both are counted.
    for (kind, source), group in sorted(groups.items(), key=lambda item: (item[1].prio, item[1].newest.seq), reverse=True):
        line = _line(kind, source, group)
        if len(line) + 1 > left:
            untold += group.count
            continue
        lines.append(line)
        left -= len(line) + 1
    if untold:
        lines.append(f"- and {untold} more of other kinds and sources")
    kept = tuple(o for o, keep in zip(observations, stay, strict=True) if keep)
    return Digest(kept=kept, text="\n".join(lines), count=len(summed))


def _line(kind: str, source: str, group: _Group) -> str:
    words = " ".join(group.newest.text.split())
    words = words if len(words) <= LINE_CHARS else f"{words[: LINE_CHARS - 1]}…"
    times = f" {group.count}×" if group.count > 1 else ""
    return f"- {kind}{f', {source}' if source else ''}:{times} [event {group.newest.seq}] {words}"


def _source(observation: Observation) -> str:
    speaker = observation.speaker
    return " ".join(speaker.name.split())[:SOURCE_CHARS] if speaker else ""
