"""The Neuro API's frames as values, and the text that travels: what a game says is cleaned here, once. Pure.

Invariant: `read` never raises and keeps no state; a frame that exists is clean and bounded, but for the names of actions, which are the
game's own keys: they are kept as they came (`raw`), to be sent back, and never shown.

A game is the client. It says `{"command", "game", "data"}`, we say `{"command", "data"}`; the arguments of an action travel as JSON inside
a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from world_adapter import cleaning

MAX_FRAME = 1_048_576  # bytes
MAX_LISTED = 512  # actions or names of actions in one frame
MAX_RAW_NAME = 256  # characters
MAX_ARGUMENTS = 65_536  # characters of one action's arguments
MAX_CONTAINERS = 50_000  # lists and maps in one frame: each costs a hundred times its bytes
PRIORITIES: Mapping[str, int] = {"low": 6, "medium": 7, "high": 8, "critical": 9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """The game has started: nothing that it said before about actions holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Something that happens; a `silent` one asks for no answer."""

    message: str
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One action of `actions/register`; `schema` is whatever the game gave, None where it gave none."""

    raw: str
    description: str
    schema: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    offers: tuple[Offer, ...]
    malformed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregister:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceFrame:
    """The game waits for one of the named actions. `prio` is 6 to 9."""

    query: str
    state: str
    names: tuple[str, ...]
    prio: int = 6
    ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFrame:
    """What became of the action that we sent under `raw`."""

    raw: str
    success: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownReady:
    """The game has saved and may be closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A frame that was dropped, and why, in a few words without its content."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A well-formed frame with a command that the protocol does not know."""

    command: str


Said: TypeAlias = Startup | Context | Register | Unregister | ForceFrame | ResultFrame | ShutdownReady | Malformed | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class GameFrame:
    """One frame: the game's title, "" where it gave none, and what it says."""

    game: str
    said: Said


def read(data: bytes | str) -> GameFrame:
    """What one websocket message of a game says."""
    if len(data) > MAX_FRAME:
        return GameFrame(game="", said=Malformed(reason="too large"))
    try:
        text = data if isinstance(data, str) else data.decode("utf-8", "surrogatepass")
        if text.count("[") + text.count("{") > MAX_CONTAINERS:
            return GameFrame(game="", said=Malformed(reason="too many values"))
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        return GameFrame(game="", said=Malformed(reason=f"undecodable ({type(error).__name__})"))
    if type(raw) is not dict or type(raw.get("command")) is not str:
        return GameFrame(game="", said=Malformed(reason="no command"))
    reader = _READERS.get(raw["command"])
    body = raw.get("data")
    said = Unknown(command=cleaning.name(raw["command"])) if reader is None else reader(body if type(body) is dict else {})
    return GameFrame(game=cleaning.name(raw.get("game")), said=said)


Raw: TypeAlias = Mapping[str, Any]


def _context(raw: Raw) -> Said:
    message = cleaning.text(raw.get("message")).strip()
    # Only a plain false asks for an answer: an answer costs money.
    return Context(message=message, silent=raw.get("silent") is not False) if message else Malformed(reason="context without words")


def _register(raw: Raw) -> Said:
    listed = raw.get("actions")
    if type(listed) is not list:
        return Malformed(reason="registers no list")
    offers = [offer for offer in map(_offer, listed[:MAX_LISTED]) if offer is not None]
    return Register(offers=tuple(offers), malformed=len(listed) - len(offers))


def _offer(raw: object) -> Offer | None:
    if type(raw) is not dict or not _is_name(raw.get("name")):
        return None
    schema = raw.get("schema")
    described = cleaning.text(raw.get("description"))
    return Offer(raw=raw["name"], description=described, schema=schema if type(schema) is dict and schema else None)


def _unregister(raw: Raw) -> Said:
    names = _names(raw)
    return Malformed(reason="unregisters no list") if names is None else Unregister(names=names)


def _force(raw: Raw) -> Said:
    names = _names(raw)
    if not names:
        return Malformed(reason="forces no action")
    priority = raw.get("priority")
    return ForceFrame(
        query=cleaning.text(raw.get("query")).strip(),
        state=cleaning.text(raw.get("state")).strip(),
        names=names,
        prio=PRIORITIES.get(priority, 6) if type(priority) is str else 6,
        ephemeral=raw.get("ephemeral_context") is True,
    )


def _result(raw: Raw) -> Said:
    if type(raw.get("id")) is not str:
        return Malformed(reason="a result without an id")
    return ResultFrame(raw=raw["id"], success=raw.get("success") is True, message=cleaning.text(raw.get("message")).strip())


def _names(raw: Raw) -> tuple[str, ...] | None:
    listed = raw.get("action_names")
    if type(listed) is not list:
        return None
    return tuple(dict.fromkeys(name for name in listed[:MAX_LISTED] if _is_name(name)))


def _is_name(value: object) -> bool:
    # A lone surrogate could not be sent back in a frame of text.
    return type(value) is str and 0 < len(value) <= MAX_RAW_NAME and bool(value.strip()) and cleaning.unicode(value) == value


_READERS: Mapping[str, Callable[[Raw], Said]] = {
    "startup": lambda _: Startup(),
    "context": _context,
    "actions/register": _register,
    "actions/unregister": _unregister,
    "actions/force": _force,
    "action/result": _result,
    "shutdown/ready": lambda _: ShutdownReady(),
}


# What we say


def startup(*, session: str, character: str, display_name: str) -> bytes:
    """The answer to a game's `startup`."""
    return _write("startup", {"session": {"sessionId": session, "characterId": character, "displayName": display_name}})


def action(*, tag: str, raw: str, args: Mapping[str, Any]) -> bytes | None:
    """An action; a lone surrogate in what a model wrote becomes a replacement character, NaN becomes null. None if it is too large."""
    written = _dumps(cleaning.json_value(args))
    return _write("action", {"id": tag, "name": raw, "data": written}) if len(written) <= MAX_ARGUMENTS else None


def reregister() -> bytes:
    """Asks the game to say again which actions there are."""
    return _write("actions/reregister_all")


def shutdown_graceful() -> bytes:
    """We are going: save at the next good moment."""
    return _write("shutdown/graceful", {"wants_shutdown": True})


def shutdown_immediate() -> bytes:
    """We are gone in a moment: save what can be saved."""
    return _write("shutdown/immediate")


def _write(command: str, data: Mapping[str, Any] | None = None) -> bytes:
    frame = {"command": command} if data is None else {"command": command, "data": data}
    return _dumps(frame).encode("utf-8")


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def listed(names: Sequence[str], limit: int = 40) -> str:
    """Names in one line; beyond `limit` they are counted."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
