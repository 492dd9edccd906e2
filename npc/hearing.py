"""Who said what: lines of talk in what a world tells, and which of them are meant for this NPC.

Invariant: pure and total: any text gives lines or none, in time linear in its length. A line heard is a quotation; that somebody said a
thing makes it neither true nor an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from npc.confidence import wants_silence
from runtime.store.memories import CONFIDED, PUBLIC, WHISPERED
from world_adapter.frames import Observation, Speaker

#: Longer lines are no talk that one could remember; they are cut here.
LINE_CHARS = 400
#: A name has at most so many words; more in front of a colon are a description of what somebody does.
NAME_WORDS = 3
#: A text of more lines than this is scanned only at its head and its end.
LINES_READ = 400
TALK = frozenset({"speech", "whisper"})

# `Mira: hello`, `Mira says, "hello"`, `Mira says to you (3f2a): hello`. A name is short and holds no brackets, quotes or colons.
_SAID = re.compile(
    r"^\s*(?P<who>[^\s\"'{}\[\]()<>=:,.;!?|][^\"{}\[\]<>=:\n|]{0,39}?)"
    r"(?:\s+(?:says?|whispers?|asks?|shouts?|yells?|tells?)\b(?P<to>[^:\"“\n]{0,60}?)(?:[:,]\s*|\s+(?=[\"“]))|:\s+)"
    r"(?P<text>\S.*)$"
)
_YOU = re.compile(r"\byou\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One line of talk.

    Attributes:
        speaker: who said it, by name.
        text: the words.
        addressed: whether they are meant for this NPC.
        subject: whose words they are, by an id that nobody else can take where the world gives ids.
        sensitivity: PUBLIC, CONFIDED or WHISPERED, see `runtime.store.memories`.
        authorised: whether the speaker may give orders.
    """

    speaker: str
    text: str
    addressed: bool
    # How a line is guarded is no part of what was said.
    subject: str = field(default="", compare=False)
    sensitivity: int = field(default=PUBLIC, compare=False)
    authorised: bool = field(default=False, compare=False)


def subject_of(speaker: Speaker) -> str:
    """Who somebody is: by the world's id where it gives one, else by name."""
    return f"id:{speaker.id}" if speaker.id else f"name:{speaker.name.casefold()}"


class Ears:
    """Knows the names that the NPC goes by."""

    def __init__(self, names: Iterable[str]) -> None:
        words = sorted({n.strip() for n in names if n.strip()}, key=len, reverse=True)
        self._name = re.compile("|".join(rf"(?<!\w){re.escape(w)}(?!\w)" for w in words), re.IGNORECASE) if words else None

    def named(self, text: str) -> bool:
        """Whether a text speaks of this NPC by name."""
        return bool(self._name and self._name.search(text))

    def addressed(self, observation: Observation, me: str) -> bool:
        """Whether an observation is meant for this NPC: sent to it, whispered, or talk that holds its name."""
        if observation.own:
            return False
        if observation.to is not None:
            return observation.to == me
        if observation.speaker and observation.speaker.kind == "operator":
            return True
        return observation.kind == "whisper" or (observation.kind in TALK and self.named(observation.text))

    def heard(self, observation: Observation, me: str) -> list[Heard]:
        """The lines of talk in an observation."""
        if observation.own:
            return []
        speaker = observation.speaker
        if observation.kind in TALK and speaker and speaker.name:
            addressed = self.addressed(observation, me)
            words = " ".join(observation.text.split())
            if len(words) <= 2 * LINE_CHARS and (told := _SAID.match(words)) and told["who"].strip() == speaker.name:
                words = _unquoted(told["text"])  # a world that tells speech as `Mira says: ...`
            level = _level(words, whispered=observation.kind == "whisper", addressed=addressed)
            return [
                Heard(
                    speaker=speaker.name, text=words[:LINE_CHARS], addressed=addressed, subject=subject_of(speaker), sensitivity=level,
                    authorised=speaker.kind == "operator",
                )
            ]  # fmt: skip
        # What somebody shows about, such as a page that quotes another, is that somebody's own word.
        shown_by = subject_of(speaker) if speaker and speaker.kind != "world" and (speaker.id or speaker.name) else ""
        return list(self._scan(observation.text, shown_by))

    def _scan(self, text: str, shown_by: str) -> Iterator[Heard]:
        for line in _some(text.splitlines()):
            if len(line) > LINE_CHARS * 2 or not (found := _SAID.match(line)):
                continue
            to, who = found["to"] or "", found["who"].strip()
            words = _unquoted(found["text"])
            if words and len(who.split()) <= NAME_WORDS:
                addressed = bool(_YOU.search(to)) or self.named(to) or self.named(words)
                whispered = "whisper" in line[: found.start("text")]
                # A name in a text is no id that the world gave.
                yield Heard(
                    speaker=who, text=words[:LINE_CHARS], addressed=addressed, subject=shown_by or f"told:{who.casefold()}",
                    sensitivity=_level(words, whispered=whispered, addressed=addressed),
                )  # fmt: skip


def _level(words: str, *, whispered: bool, addressed: bool) -> int:
    """How a line is to be guarded: speech is heard by all who are there, whoever it is meant for, but may ask to be kept all the same."""
    if whispered:
        return WHISPERED
    return CONFIDED if addressed and wants_silence(words) else PUBLIC


def _unquoted(words: str) -> str:
    return words.strip().strip('"“”').strip()


def _some(lines: Sequence[str]) -> Sequence[str]:
    if len(lines) <= LINES_READ:
        return lines
    half = LINES_READ // 2
    return [*lines[:half], *lines[-half:]]
