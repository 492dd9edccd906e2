"""What happened to an NPC, in the words of its event log: what was heard, said, done, seen and thought.

Invariant: bounded whatever the log holds; a line is as it was when it happened, and nothing that was recalled is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diaries.chronicle import Happening
from npc.hearing import Ears
from npc.told import from_journal
from runtime.core.messages import Count
from runtime.store.events import Event
from runtime.store.journal import Journal

#: Events that are looked at, the newest of the span.
HAPPENINGS = 400
#: How many are read to find those, where the span ends in the past.
READ = 2_000
#: The longest text of one, in characters.
CHARS = 240
#: Sights of less than this priority are no matter for a diary.
PRIORITY = 3
KINDS = ("observation", "answer", "gate set")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Happenings, oldest first, and the places where they were."""

    happenings: tuple[Happening, ...] = ()
    places: tuple[str, ...] = ()


async def span(journal: Journal, ears: Ears, *, me: str, say: str, aloud: bool, after: int, through: int) -> Span:
    """What happened after one event and up to another. `say` is the action that speaks, `aloud`: plain words are spoken too.

    Raises:
        StoreError: the log cannot be read.
    """
    events = await journal.events(after=after, kinds=KINDS, limit=HAPPENINGS if through >= journal.last_id else READ, newest=True)
    chosen = [event for event in events if event.id <= through][-HAPPENINGS:]
    if not chosen and events and events[0].id > through:  # so much came since that the newest are none of it
        chosen = [e for e in await journal.events(after=after, kinds=KINDS, limit=HAPPENINGS) if e.id <= through]
    happenings: list[Happening] = []
    places: dict[str, None] = {}
    for event in chosen:
        match event.kind:
            case "observation":
                happenings += _told(event, ears, me)
                if place := place_in(event.data):
                    places[place] = None
            case "answer":
                happenings += _answered(event, say, aloud=aloud)
            case _:
                words = f"{event.data.get('name')} is {event.data.get('value')}. {event.data.get('why') or ''}"
                happenings.append(Happening(kind="saw", text=_line(words), event=event.id))
    return Span(happenings=tuple(happenings), places=tuple(places))


def place_in(data: Mapping[str, Any]) -> str:
    """Where the NPC is, if the data of an observation event say so."""
    if data.get("kind") not in ("scene", "moved") or not isinstance(inner := data.get("data"), Mapping):
        return ""
    return next((inner[name] for name in ("room", "place") if isinstance(inner.get(name), str)), "")


def shown(happenings: Iterable[Happening], *, tokens: int, count: Count) -> str:
    """The happenings as lines, the newest that fit into `tokens` raw tokens; talk goes before sights. What is left out is counted."""
    lines = [(happening.kind != "saw", n, _SHOWN[happening.kind](happening)) for n, happening in enumerate(happenings)]
    kept: dict[int, str] = {}
    for _, n, line in sorted(lines, reverse=True):
        tokens -= count(line) + 1
        if tokens < 0:
            break
        kept[n] = line
    omitted = len(lines) - len(kept)
    first = [f"({omitted} more things happened before and between)"] if omitted else []
    return "\n".join([*first, *(kept[n] for n in sorted(kept))])


_SHOWN: Mapping[str, Callable[[Happening], str]] = {
    "heard": lambda h: f'- {h.who} said: "{h.text}"',
    "said": lambda h: f'- I said: "{h.text}"',
    "did": lambda h: f"- I did: {h.text}",
    "saw": lambda h: f"- I saw: {h.text}",
    "thought": lambda h: f"- I thought: {h.text}",
}


def _told(event: Event, ears: Ears, me: str) -> Iterator[Happening]:
    observation = from_journal(event.data)
    if observation.own:
        return
    lines = ears.heard(observation, me)
    for line in lines:
        yield Happening(kind="heard", text=_line(line.text), who=line.speaker, event=event.id)
    if not lines and observation.prio >= PRIORITY and not observation.key and (text := _line(observation.text)):
        yield Happening(kind="saw", text=text, event=event.id)


def _answered(event: Event, say: str, *, aloud: bool) -> Iterator[Happening]:
    content = event.data.get("content")
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, Mapping):
            continue
        if block.get("type") == "text" and (words := _line(str(block.get("text") or ""))):
            thought = not aloud or (words.startswith("(") and words.endswith(")"))
            yield Happening(kind="thought" if thought else "said", text=words.strip("() ") if thought else words, event=event.id)
        elif block.get("type") == "tool_use":
            name, given = str(block.get("name")), block.get("input")
            texts = [value for value in given.values() if isinstance(value, str | int)] if isinstance(given, Mapping) else []
            words = _line(", ".join(str(text) for text in texts))
            if name == say:
                yield Happening(kind="said", text=words, event=event.id)
            elif name == "npc_note":
                yield Happening(kind="did", text=f"note down: {words}", event=event.id)
            elif not name.startswith("npc_"):
                yield Happening(kind="did", text=f"{name}: {words}" if words else name, event=event.id)


def _line(text: str) -> str:
    """On one line, cut where it is long."""
    line = " ".join(text[: 4 * CHARS].split())
    return line if len(line) <= CHARS else f"{line[: CHARS - 1]}…"
