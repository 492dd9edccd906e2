"""What a line of an Evennia server means: HTML to text, then who did what to whom.

Evennia sends prose, not data: a line of HTML and at most one word for its sort (`say`, `whisper`, `pose`, `look`, `traverse`, …).
Invariant: nothing here loses words. A line that is not understood is a notice with its whole text; what is read out of it only adds to
it. The sort comes from the server and is believed; names inside the text are only names. The patterns are those of the default commands
in English, of the 5 and 6 series.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from world_adapter import cleaning

MAX_LISTED = 200  # exits, people or things that are read out of one room

# Tags that end a line in a browser; everything else of the markup is colour.
_BREAKS = frozenset({"br", "p", "div", "li", "tr", "table", "ul", "ol", "hr", "pre", "h1", "h2", "h3", "h4"})
_UNSEEN = frozenset({"script", "style"})
# No tag reaches over the start of the next one, so that a search never runs over the same characters twice.
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,15})(?:[\s/][^<>]*)?>")

# Builders see `Bob(#12)` where players see `Bob`.
_DBREF = re.compile(r"\(#\d+\)")

_VERBS = r"says|say|asks|ask|exclaims|exclaim|shouts|shout|yells|yell|mutters|mutter|murmurs|whispers|whisper|replies|answers"
_SPOKEN = re.compile(rf'^(?P<who>[^"\n]{{1,80}}?) (?P<verb>{_VERBS})(?: to (?P<to>[^"\n]{{1,200}}?))?[,:]? "(?P<words>.*)"$', re.DOTALL)
_SPOKEN_TYPED = re.compile(r'^(?P<who>[^"\n]{1,80}?) (?P<verb>\w+)(?: to (?P<to>[^"\n]{1,200}?))?[,:]? "(?P<words>.*)"$', re.DOTALL)
_PAGED = re.compile(r"^(?:Account )?(?P<who>[^:\n]{1,80}?) pages(?: \([^)\n]*\))?: (?P<words>.*)$", re.DOTALL)
_PAGED_OWN = re.compile(r"^You paged (?P<to>[^:\n]{1,200}?) with: '(?P<words>.*)'\.$", re.DOTALL)
_CHANNEL = re.compile(r"^\[(?P<channel>[^\]\n]{1,60})\] (?P<who>[^:\[\n]{1,80}): (?P<words>.*)$", re.DOTALL)
_CAME_OR_WENT = re.compile(r"^(?P<who>[^\n]{1,80}?) (?:has entered the game|has left the game|is leaving |arrives to |leaves? |enters? )")
_GAME_PRESENCE = re.compile(r"^(?P<who>[^\n]{1,80}?) has (?:entered|left) the game\b")
_HANDLED = re.compile(r"^(?P<who>[^\n]{1,80}?) (?:picks? up|drops?|gives?|puts?) (?P<what>[^\n]+)$")
_GAINED = re.compile(r"^(?P<who>[^\n]{1,80}?) gives you ")

# What the default commands answer when they did nothing. A game's refusal in other words is known by the absence of success.
_FAILED = re.compile(
    r"^(?:Could not find|Command '.*' is not available|More than one match|That can't be|Usage:|What do you want to do\?|Huh\?|Traceback |"
    r"You (?:can't|cannot|can not|could not|couldn't|aren't carrying|carry more than one|don't|do not|must|need to|keep .* to yourself)|"
    r"(?:Get|Give|Say|Drop|Look|Whisper|Go) what\?|An untrapped error|There is no|Sorry\b|No such)",
    re.DOTALL,
)
# Movement that has begun and will end by itself, as slow exits announce it.
_UNDER_WAY = re.compile(
    r"^You (?:start|begin|set off|set out|head|are now (?:walking|moving|travell?ing)|walk|climb|swim|ride)\b",
    re.IGNORECASE,
)

_LIST_BREAK = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
_BLANKS = re.compile(r"\n{3,}")


def html_to_text(markup: str) -> str:
    """The words that a browser would show: entities decoded, colour dropped, `<br>` a newline, no blank edges.

    Never fails, and takes time linear in the length whatever it is given; the standard library's parser takes minutes for a message of
    nothing but opened tags.
    """
    text = _entities("".join(_shown(markup))) if "<" in markup or "&" in markup else markup
    text = "\n".join(line.rstrip() for line in text.replace("\xa0", " ").split("\n"))
    return _BLANKS.sub("\n\n", text).strip()


def _shown(markup: str) -> Iterator[str]:
    """The markup without its tags, in pieces."""
    at = unseen = 0
    for tag in _TAG.finditer(markup):
        if not unseen:
            yield markup[at : tag.start()]
        at = tag.end()
        name = tag["name"].lower()
        if name in _UNSEEN:
            unseen = max(unseen + (-1 if tag["end"] else 1), 0)
        elif name in _BREAKS and not unseen:
            yield "\n"
    if not unseen:
        yield markup[at:]


def _entities(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:
        # A character number of thousands of digits is none.
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room as `look` shows it. Names as the game prints them, without numbers for builders."""

    name: str
    exits: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    exits_line: str = ""  # as printed; an exit's name may itself hold " and "

    @property
    def data(self) -> dict[str, object]:
        """The same for code, as JSON."""
        return {"room": self.name, "exits": list(self.exits), "people": list(self.people), "things": list(self.things)}

    def leads(self, exit_name: str) -> bool:
        """Whether an exit of that name is listed, whatever its case; also where its name holds a comma or "and"."""
        wanted = exit_name.strip()
        if not wanted:
            return False
        return re.search(rf"(?:^|, (?:and )?| and ){re.escape(wanted)}(?:$|, | and )", self.exits_line, re.IGNORECASE) is not None


def plain_name(name: str) -> str:
    """A name without the database number that builders see."""
    return _DBREF.sub("", name).strip()


def _names(line: str) -> tuple[str, ...]:
    return tuple(name for part in _LIST_BREAK.split(line)[:MAX_LISTED] if (name := cleaning.name(part)))


def read_room(text: str) -> Room | None:
    """The room that a `look` shows, its first line the name. None where there is no such line."""
    lines = [_DBREF.sub("", line).strip() for line in text.split("\n")]
    title = next((line for line in lines if line), "")
    found: dict[str, str] = {}
    for line in lines:
        for label in ("Exits:", "Characters:", "You see:"):
            if line.startswith(label):
                # The last one counts: a description, which comes first, may hold anything.
                found[label] = line[len(label) :].strip()
    if not title or title.startswith(("Exits:", "Characters:", "You see:")):
        return None
    exits = found.get("Exits:", "")
    return Room(
        name=cleaning.name(title),
        exits=_names(exits),
        people=_names(found.get("Characters:", "")),
        things=_names(found.get("You see:", "")),
        exits_line=exits,
    )


def is_failure(text: str) -> bool:
    """Whether the text is what the default commands answer when they did nothing."""
    return _FAILED.match(text) is not None


def is_under_way(text: str) -> bool:
    """Whether the text says that a walk has begun, so that its end is worth waiting for."""
    return _UNDER_WAY.match(text) is not None


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether one of the names is spoken in the text: as a whole word, or anywhere for scripts that put no space between words."""
    folded = text.casefold()
    for name in names:
        wanted = name.casefold().strip()
        if not wanted or wanted not in folded:
            continue
        if not wanted.isascii() and not any(ch.isupper() or ch.islower() for ch in wanted):
            return True
        if re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", folded):
            return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One line, understood as far as it goes.

    Attributes:
        kind: of the protocol's kinds.
        text: the whole line.
        sort: Evennia's own word for the line, "" for none.
        who: the name of the one who caused it, "" for the game itself.
        own: caused by this NPC.
        addressed: whispered to, given to, or naming this NPC; never set on own lines.
        words: what was said, for lines of speech.
        channel: the channel that carried it, "" for the room.
        room: what a `look` showed.
    """

    kind: str
    text: str
    sort: str = ""
    who: str = ""
    own: bool = False
    addressed: bool = False
    words: str = ""
    channel: str = ""
    room: Room | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Who is listening: the NPC's name in the world, what else it answers to, and whom it has seen (for names of several words)."""

    name: str
    aliases: tuple[str, ...] = ()
    people: Collection[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    def is_me(self, name: str) -> bool:
        return name.casefold() == self.name.casefold() or name in {"You", "you"}

    def hear(self, text: str, *, sort: str = "", from_channel: bool = False) -> Heard:
        """What the line means to this NPC.

        Args:
            text: the line as plain text.
            sort: the `type` that the server gave, "" for none.
            from_channel: the server said that a channel carried it.
        """
        if from_channel:
            return self._channel(text, sort)
        if sort in {"say", "whisper"}:
            return self._spoken(text, sort)
        if sort == "pose":
            return self._posed(text)
        if sort == "look":
            return Heard(kind="scene", text=text, sort=sort, room=read_room(text))
        if sort == "inventory":
            return Heard(kind="item", text=text, sort=sort)
        if sort:
            # Every other sort that moves something is named after the move: traverse, teleport, move, get, give, …
            if moved := _CAME_OR_WENT.match(text):
                return Heard(kind="presence", text=text, sort=sort, who=plain_name(moved["who"]))
            return Heard(kind="notice", text=text, sort=sort)
        return self._untyped(text)

    def _spoken(self, text: str, sort: str) -> Heard:
        said = _SPOKEN_TYPED.match(text)
        if said is None:
            # The game's own words for talking: still speech, by someone unknown.
            kind = "whisper" if sort == "whisper" else "speech"
            return Heard(kind=kind, text=text, sort=sort, words=text, addressed=sort == "whisper" or mentions(text, self.names))
        return self._said(text, sort, said)

    def _said(self, text: str, sort: str, said: re.Match[str]) -> Heard:
        who, words, to = plain_name(said["who"]), said["words"], plain_name(said["to"] or "")
        own = self.is_me(who)
        whispered = sort == "whisper" or said["verb"].startswith("whisper")
        if own:
            addressed = False
        elif whispered:
            # Only the receivers hear a whisper, so without a name it is ours.
            addressed = not to or self.is_me(to) or mentions(to, self.names)
        else:
            addressed = (bool(to) and (self.is_me(to) or mentions(to, self.names))) or mentions(words, self.names)
        return Heard(
            kind="whisper" if whispered else "speech",
            text=text,
            sort=sort,
            who=self.name if own else who,
            own=own,
            addressed=addressed,
            words=words,
        )

    def _posed(self, text: str) -> Heard:
        who = self._leading_name(text)
        own = self.is_me(who)
        return Heard(kind="emote", text=text, sort="pose", who=who, own=own, addressed=not own and mentions(text[len(who) :], self.names))

    def _leading_name(self, text: str) -> str:
        """The name that a pose begins with: the longest one known, else its first word."""
        known = [name for name in (self.name, *self.people) if re.match(rf"{re.escape(name)}(?!\w)", text, re.IGNORECASE)]
        if known:
            longest = max(known, key=len)
            return self.name if longest.casefold() == self.name.casefold() else longest
        first = re.match(r"[^\s,:']+", text)
        return plain_name(first.group()) if first else ""

    def _channel(self, text: str, sort: str) -> Heard:
        said = _CHANNEL.match(text)
        if said is None:
            return Heard(kind="notice", text=text, sort=sort)
        who, words = plain_name(said["who"]), said["words"]
        own = self.is_me(who)
        return Heard(
            kind="speech",
            text=text,
            sort=sort,
            who=self.name if own else who,
            own=own,
            addressed=not own and mentions(words, self.names),
            words=words,
            channel=said["channel"],
        )

    def _untyped(self, text: str) -> Heard:
        if said := _SPOKEN.match(text):
            return self._said(text, "", said)
        if paged := _PAGED.match(text):
            return Heard(kind="whisper", text=text, who=plain_name(paged["who"]), addressed=True, words=paged["words"], channel="page")
        if paged := _PAGED_OWN.match(text):
            return Heard(kind="whisper", text=text, who=self.name, own=True, words=paged["words"], channel="page")
        if came := _GAME_PRESENCE.match(text):
            return Heard(kind="presence", text=text, who=plain_name(came["who"]))
        if handled := _HANDLED.match(text):
            who = plain_name(handled["who"])
            own = self.is_me(who)
            return Heard(
                kind="item",
                text=text,
                who=self.name if own else who,
                own=own,
                addressed=not own and _GAINED.match(text) is not None,
            )
        return Heard(kind="notice", text=text)
