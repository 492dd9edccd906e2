"""The entries that the runtime writes in the NPC's name when the NPC cannot, and what an entry of the NPC's own must be to be taken.

Pure: facts in, an `Entry` out. Invariant: whatever the facts are, however many and however long, the entry is first-person prose of at most
200 words in which the words of others stand only between quotation marks that they cannot close.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from diaries.entry import CONTEXT_RESET, Entry
from diaries.occasions import Occasion
from diaries.text import clean_line, clean_text

#: The longest entry of the NPC's own, in words and in characters (for scripts without spaces).
MAX_WORDS = 200
MAX_CHARS = 2_000

# The shares of the 200 words: what is left of them are the fixed words below.
_QUOTE_WORDS = 24
_DOING_WORDS = 24
_WHY_WORDS = 20
_PLACE_WORDS = 6
_NAME_WORDS = 3
_NAMES = 5
_KEPT_WORDS = 2
_KEPT_CHARS = 80  # a file's name
# Scripts without spaces are one "word"; this many characters of them stand for it.
_CHARS_PER_WORD = 8

_QUOTE_MARKS = re.compile('["“”„‟«»「」『』]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing from the event log: somebody's words (`heard`, from `who`), own words (`said`), an own action (`did`), a sight (`saw`), a
    `thought`.
    """

    kind: Literal["heard", "said", "did", "saw", "thought"]
    text: str
    who: str = ""
    event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What is known about a hard reset.

    `at` is unix seconds. `why` goes on after "because" ("nothing smaller made it fit"). `context_tokens` is how large the context
    had grown, `window_tokens` what one call may hold. `doing` names the task in hand, `kept` the dump of the session. `events` are the
    first and the last that the entry covers; left out, those of the happenings.
    """

    at: float
    why: str
    context_tokens: int
    window_tokens: int
    doing: str = ""
    place: str = ""
    world_time: str = ""
    kept: str = ""
    epoch: str = ""
    events: tuple[int, int] | None = None


def reset_entry(reset: Reset, happenings: Sequence[Happening]) -> Entry:
    """The entry for a hard reset, written by the runtime. `happenings` are those since the last entry, oldest first."""
    numbers = [happening.event for happening in happenings if happening.event > 0]
    events = reset.events or ((min(numbers), max(numbers)) if numbers else None)
    # What sets this entry apart comes first: a list of entries shows only the beginnings.
    paragraphs = (
        [_work(reset, happenings), *_talk(happenings)],
        [_reason(reset), _scene(reset)],
        [_rest(reset, events), "I go on from what is before me now."],
    )
    return Entry(
        at=reset.at,
        text="\n\n".join(" ".join(sentence for sentence in sentences if sentence) for sentences in paragraphs),
        author="runtime",
        world_time=reset.world_time,
        place=reset.place,
        tags=(CONTEXT_RESET,),
        events=events,
        epoch=reset.epoch,
    )


def day_entry(
    occasion: Occasion, happenings: Sequence[Happening], *, events: tuple[int, int], epoch: str = "", promises: Sequence[str] = (),
    places: Sequence[str] = (),
) -> Entry:  # fmt: skip
    """The entry of an occasion in plain words: whom I met, what I did, where I was, what I have promised. `events` is what it covers."""
    deeds = [h for h in happenings if h.kind == "did" and h.text.strip()]
    seen = [h for h in happenings if h.kind == "saw" and h.text.strip()]
    paragraphs = (
        [_OPENING[occasion.kind], *(f"This I mark: {_clip(what, _QUOTE_WORDS).rstrip('.')}." for what in occasion.what[-2:])],
        [
            *_talk([h for h in happenings if h.kind != "saw"]),
            f"I did {len(deeds):,} {'thing' if len(deeds) == 1 else 'things'}, the last was this: "
            f"{_clip(deeds[-1].text, _DOING_WORDS).rstrip('.')}." if deeds else "",
            f"The last thing I saw: {_quote(seen[-1].text)}" if seen else "",
        ],
        [
            _where(places, occasion),
            f"I must not forget: {_quote(promises[-1])}" if promises else "",
        ],
    )  # fmt: skip
    texts = (" ".join(sentence for sentence in sentences if sentence) for sentences in paragraphs)
    return Entry(
        at=occasion.at, text="\n\n".join(text for text in texts if text), author="runtime", world_time=occasion.world_time,
        place=occasion.place, tags=(occasion.kind,), events=events, epoch=epoch,
    )  # fmt: skip


_OPENING = {
    "day-end": "The day is over, and I had no words of my own for it.",
    "milestone": "Something has come about that I want to keep.",
    "shutdown": "I lay down the pen here; where I go on, I go on from this.",
    "rollback": "What stands here came before the world was set back.",
}


def _where(places: Sequence[str], occasion: Occasion) -> str:
    names = [name for name in (_clip(place, _PLACE_WORDS) for place in dict.fromkeys(places)) if name][-_NAMES:]
    if len(names) > 1:
        return f"I was at {', '.join(names[:-1])} and {names[-1]}."
    return f"I was at {name}." if (name := names[0] if names else _clip(occasion.place, _PLACE_WORDS)) else ""


def own_words(text: str) -> tuple[str, str]:
    """What a model wrote as an entry, clean, and why it cannot be one ("" if it can): empty, too long, or no prose at all."""
    text = _TITLE.sub("", clean_text(text, 2 * MAX_CHARS)).strip()
    if not re.search(r"\w", text):
        return text, "it is empty"
    if len(text.split()) > MAX_WORDS or len(text) > MAX_CHARS:
        return text, f"it is longer than {MAX_WORDS} words"
    if _NO_PROSE.search(text):
        return text, "it is no prose"
    return text, ""


# A heading over the entry is nothing that the page has not got already.
_TITLE = re.compile(r"\A\s*(?:#{1,6}\s.*|\*\*[^*\n]{1,80}\*\*\s*)(?:\n|\Z)")
# JSON, code, and the tags that tools and prompts are made of.
_NO_PROSE = re.compile(r"\A\s*[\[{]|```|</?\s*[a-z_:]+[^<>\n]{0,80}>|\btool_use\b", re.IGNORECASE)


def _scene(reset: Reset) -> str:
    place, time = _clip(reset.place, _PLACE_WORDS), _clip(reset.world_time, _PLACE_WORDS)
    if place and time:
        return f"I write this at {place}; the world's clock says {time}."
    if place:
        return f"I write this at {place}."
    return f"The world's clock says {time}." if time else ""


def _reason(reset: Reset) -> str:
    why = _clip(reset.why, _WHY_WORDS).rstrip(".!")
    because = f" because {why}" if why else ""
    size = f"my thoughts had come to {reset.context_tokens:,} tokens, where {reset.window_tokens:,} are what I can hold at once"
    return f"Then I had to let go of everything that I held in mind{because}: {size}."


def _work(reset: Reset, happenings: Iterable[Happening]) -> str:
    doing = _clip(reset.doing, _DOING_WORDS).rstrip(".")
    if doing:
        return f"I was in the middle of this: {doing}."
    deeds = [happening.text for happening in happenings if happening.kind == "did" and happening.text.strip()]
    if deeds:
        return f"The last thing I did was this: {_clip(deeds[-1], _DOING_WORDS).rstrip('.')}."
    return ""


def _talk(happenings: Sequence[Happening]) -> Iterable[str]:
    heard = [happening for happening in happenings if happening.kind == "heard" and happening.text.strip()]
    said = [happening for happening in happenings if happening.kind == "said" and happening.text.strip()]
    seen = [happening for happening in happenings if happening.kind == "saw" and happening.text.strip()]
    if heard:
        yield f"I had been speaking with {_people(heard)}."
        yield f"The last words I heard came from {_name(heard[-1].who)}: {_quote(heard[-1].text)}"
    else:
        yield "Nobody had spoken to me since I last wrote."
    if said:
        yield f"The last words I said were: {_quote(said[-1].text)}"
    if seen and not heard:
        yield f"The last thing I saw: {_quote(seen[-1].text)}"


def _people(heard: Sequence[Happening]) -> str:
    """Who spoke, the latest first: "Oda", "Oda and Bram", "Oda, Bram, Ilse and 4 others"."""
    names = list(dict.fromkeys(_name(happening.who) for happening in reversed(heard)))
    rest = len(names) - _NAMES
    if rest > 0:
        return f"{', '.join(names[:_NAMES])} and {rest:,} {'other' if rest == 1 else 'others'}"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _rest(reset: Reset, events: tuple[int, int] | None) -> str:
    kept = _clip(reset.kept, _KEPT_WORDS, _KEPT_CHARS)
    where = f" is kept as {kept}" if kept else ""
    span = f" stands in the log as events {events[0]} to {events[1]}" if events else ""
    if not (where or span):
        return ""
    return f"All of it{where}{' and' if where and span else ''}{span}."


def _name(who: str) -> str:
    return _clip(who, _NAME_WORDS) or "somebody"


def _quote(text: str) -> str:
    """Somebody's words between marks of which none is left inside."""
    return f"“{_clip(text, _QUOTE_WORDS)}”"


def _clip(text: str, words: int, chars: int = 0) -> str:
    """At most `words` words and `chars` characters (by default as many as such words have), no quotation marks; an ellipsis marks a cut."""
    chars = chars or words * _CHARS_PER_WORD
    # The first cut keeps the rest of the work small when somebody shouts a megabyte.
    head = clean_line(_QUOTE_MARKS.sub("'", text[: chars * 4]), chars)
    parts = head.split()
    return head if len(parts) <= words else f"{' '.join(parts[:words]).rstrip(',;:')}…"
