"""From what a world tells to what the mind is shown: fenced, labelled, counted, with the lines worth remembering.

Invariant: pure; the text of an observation is never changed but for what could close its fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npc.hearing import Ears, Heard
from runtime.core.events import Memory, Observation
from runtime.core.fence import fenced
from runtime.core.messages import Count
from runtime.core.tokens import HEAD_SHARE, notice_of
from world_adapter import frames

#: What a compacted turn keeps of an observation: at most so many lines of talk, so long.
GIST_LINES = 3
GIST_CHARS = 200


def shown(observation: frames.Observation, *, event: int, ears: Ears, me: str, count: Count) -> Observation:
    """An observation as the mind sees it."""
    speaker = observation.speaker
    source = f"{speaker.name} ({speaker.kind})" if speaker and speaker.name else ""
    text = fenced(observation.text or "(no words)", event=event, kind=observation.kind, source=source, time=observation.wt or "")
    lines = ears.heard(observation, me)
    return Observation(
        text=text,
        tokens=count(text),
        event=event,
        urgent=ears.addressed(observation, me),
        priority=observation.prio,
        gist=gist_of(lines),
    )


def taken(observation: frames.Observation, *, event: int, limit: int) -> frames.Observation:
    """An observation on its way to the mind: known by its event, and never longer than `limit` characters, the cut named."""
    text = observation.text
    if len(text) > limit:
        head = int(limit * HEAD_SHARE)
        text = text[:head] + notice_of(len(text) - limit, event) + text[len(text) - (limit - head) :]
    return replace(observation, seq=event, text=text)


def gist_of(lines: Sequence[Heard]) -> tuple[str, ...]:
    """The lines that were meant for this NPC, shortened."""
    meant = [f"{h.speaker}: {h.text}"[:GIST_CHARS] for h in lines if h.addressed]
    return tuple(meant[-GIST_LINES:])


def recalled(*, event: int, speaker: str, text: str, count: Count) -> Memory:
    """A line heard earlier, as a memory."""
    line = fenced(f"{speaker}: {text}", tag="recalled", event=event)
    return Memory(text=line, tokens=count(line), event=event)


def summed_up(text: str, *, count: Count) -> Observation:
    """What happened while the mind was away, summed up; it quotes the world."""
    body = fenced(text, kind="digest", source="summed up from the log")
    return Observation(text=body, tokens=count(body), priority=6)


def notice(text: str, *, count: Count, urgent: bool = False, event: int = 0) -> Observation:
    """Words of the runtime itself, as an observation (trusted code speaks here, never a player)."""
    body = fenced(text, event=event, kind="notice", source="runtime")
    return Observation(text=body, tokens=count(body), event=event, urgent=urgent)
