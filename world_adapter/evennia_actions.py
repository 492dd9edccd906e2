"""What an NPC can do on an Evennia server, and the command that does it.

Invariant: whatever the arguments hold, exactly one of the eight commands below is sent, never another one. Arguments stand where a
command takes text or a name, on one line, without the signs that the game's markup or its parser would act on; `move` alone becomes a
command by its own words, so it takes nothing but an exit that the room shows or a direction of the compass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from world_adapter import cleaning
from world_adapter.evennia_text import Room
from world_adapter.frames import ActionSpec

LINE_CHARS = 1_000  # of speech in one command; the server's own limit is 6,000, a reader's patience is shorter
MAX_LINES = 8
NAME_CHARS = 80

_DIRECTIONS: Mapping[str, str] = {
    "n": "north", "s": "south", "e": "east", "w": "west", "ne": "northeast", "nw": "northwest", "se": "southeast", "sw": "southwest",
    "u": "up", "d": "down", "in": "in", "out": "out",
}  # fmt: skip
_ALL_DIRECTIONS = frozenset(_DIRECTIONS) | frozenset(_DIRECTIONS.values())


def _schema(required: Mapping[str, str], optional: Mapping[str, str] | None = None) -> dict[str, Any]:
    properties = {name: {"type": "string", "description": text} for name, text in {**required, **(optional or {})}.items()}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


ACTIONS: tuple[ActionSpec, ...] = (
    ActionSpec(
        name="say",
        description="Say something aloud; everyone in the room hears it.",
        schema=_schema({"text": "the words, without quotation marks"}),
    ),
    ActionSpec(
        name="whisper",
        description="Say something to one person in the room; nobody else hears it.",
        schema=_schema({"to": "the name of the person", "text": "the words"}),
    ),
    ActionSpec(
        name="emote",
        description="Do something visible. It is shown to the room behind your name: 'nods slowly.'",
        schema=_schema({"text": "what you do, beginning with a verb in the third person"}),
        reversible=True,
    ),
    ActionSpec(
        name="move",
        description="Walk through an exit of this room.",
        schema=_schema({"exit": "the exit's name as the room lists it, for example north"}),
        reversible=True,
        moves_body=True,
    ),
    ActionSpec(
        name="look",
        description="Look at the room, or at one person, thing or exit in it.",
        schema=_schema({}, {"at": "whom or what to look at; leave it out for the room"}),
        effect="read",
        reversible=True,
    ),
    ActionSpec(
        name="get",
        description="Pick up a thing that lies here.",
        schema=_schema({"thing": "its full name as the room lists it, without the article"}),
        reversible=True,
    ),
    ActionSpec(
        name="give",
        description="Give a thing that you carry to someone here.",
        schema=_schema({"thing": "its full name", "to": "the name of the person"}),
    ),
    ActionSpec(
        name="inventory",
        description="See what you carry.",
        schema=_schema({}),
        effect="read",
        reversible=True,
    ),
)


class Expect(StrEnum):
    """What a command's success looks like."""

    SPOKEN = "spoken"
    ARRIVED = "arrived"
    SEEN = "seen"
    CARRIED = "carried"
    HANDLED = "handled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One line for the server and how to know what became of it. `words` is what an echo of speech must contain."""

    line: str
    expects: Expect
    words: str = ""
    of_room: bool = False  # a `look` at the room itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why nothing was sent, for the model to read."""

    code: str
    message: str


def one_line(value: object) -> str:
    """Text as one command can carry it: one line, the game's colour mark doubled so that it is shown and not obeyed."""
    return " ".join(cleaning.text(value).split()).replace("|", "||")


def one_name(value: object) -> str:
    """A name as a command takes it: short, without the signs that part a command's arguments."""
    return " ".join(re.sub(r"[=,|]", " ", cleaning.name(value, NAME_CHARS)).split())


def split_speech(text: str, limit: int = LINE_CHARS) -> list[str]:
    """The text in lines of at most `limit` characters, cut after a sentence where there is one, else between words, else anywhere."""
    lines: list[str] = []
    while len(text) > limit:
        head = text[:limit]
        ends = [match.end() for match in re.finditer(r"[.!?…]['\")\]]?\s|[。！？]", head)]
        cut = ends[-1] if ends and ends[-1] > limit // 3 else head.rfind(" ") + 1
        if cut <= limit // 3:
            cut = limit
            if head.endswith("|") and (len(head) - len(head.rstrip("|"))) % 2:
                cut -= 1  # a doubled mark stays together
        lines.append(text[:cut].strip())
        text = text[cut:].strip()
    if text:
        lines.append(text)
    return lines


def plan(name: str, args: Mapping[str, Any], room: Room | None) -> tuple[Command, ...] | Refusal:
    """The commands that carry out an action in the given room, in order, or why there are none."""
    spec = next((spec for spec in ACTIONS if spec.name == name), None)
    if spec is None:
        return Refusal(code="unknown_action", message=f"This world has no action called {cleaning.name(name)}.")
    required: list[str] = spec.schema["required"]
    missing = [arg for arg in required if not one_line(args.get(arg))]
    if missing:
        return Refusal(code="bad_args", message=f"{name} needs {' and '.join(missing)}.")
    if name in {"say", "whisper"}:
        return _speech(name, args)
    if name == "emote":
        return _emote(args)
    if name == "move":
        return _move(one_name(args["exit"]), room)
    if name == "look":
        at = one_name(args.get("at"))
        at = "" if at.casefold() in {"", "here", "room", "around"} else at
        return (Command(line=f"look {at}".strip(), expects=Expect.SEEN, of_room=not at),)
    if name == "get":
        return (Command(line=f"get {one_name(args['thing'])}", expects=Expect.HANDLED),)
    if name == "give":
        return (Command(line=f"give {one_name(args['thing'])} = {one_name(args['to'])}", expects=Expect.HANDLED),)
    return (Command(line="inventory", expects=Expect.CARRIED),)


def _speech(name: str, args: Mapping[str, Any]) -> tuple[Command, ...] | Refusal:
    lines = split_speech(one_line(args["text"]))
    if len(lines) > MAX_LINES:
        return Refusal(code="too_long", message=f"Nobody listens that long: say it in {LINE_CHARS * MAX_LINES} characters or less.")
    start = "say "
    if name == "whisper":
        to = one_name(args["to"])
        if not to:
            return Refusal(code="bad_args", message="whisper needs the name of one person.")
        start = f"whisper {to} = "
    return tuple(Command(line=start + line, expects=Expect.SPOKEN, words=line.replace("||", "|")) for line in lines)


def _emote(args: Mapping[str, Any]) -> tuple[Command, ...] | Refusal:
    # A pose goes through the game's formatter: braces are fields in it (an unknown one ends in a traceback), `$name(` a function.
    text = one_line(args["text"]).translate(str.maketrans("{}", "()"))
    text = re.sub(r"\$(?=\w+\()", "$ ", text)
    if len(text) > LINE_CHARS:
        return Refusal(code="too_long", message=f"A gesture is short: {LINE_CHARS} characters or less.")
    gap = "" if text[0] in "'," else " "
    return (Command(line=f"pose{gap}{text}", expects=Expect.SPOKEN, words=text.replace("||", "|").lstrip(": ")),)


def _move(wanted: str, room: Room | None) -> tuple[Command, ...] | Refusal:
    wanted = re.sub(r"^(?:go |walk )?(?:to )?(?:the )?", "", wanted, flags=re.IGNORECASE)
    exits = room.exits_line if room else ""
    if room and exits:
        long = _DIRECTIONS.get(wanted.casefold(), wanted)
        found = next((exit_name for exit_name in (wanted, long) if room.leads(exit_name)), None)
        if found is None:
            return Refusal(code="no_exit", message=f"There is no exit called {wanted} in {room.name}. Exits: {exits}.")
        return (Command(line=found, expects=Expect.ARRIVED),)
    if wanted.casefold() not in _ALL_DIRECTIONS:
        return Refusal(code="no_exit", message="This place shows no exits; only directions such as north, up or out can be tried.")
    return (Command(line=wanted.casefold(), expects=Expect.ARRIVED),)
