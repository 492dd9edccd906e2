"""Worlds with hundreds of actions: what is shown, what must be looked for, and our own search where the model's endpoint has none.

Invariants: the same actions in any order give the same catalogue; a found action is called by the very checks of a shown one; nothing here
changes the list of tools, so that what was found never moves a byte of the prefix; an answer is bounded whatever the world declares.

Two ways, by what the endpoint can do:

`api` (Claude): every action is sent, marked `defer_loading`, beside the provider's search tool. The provider keeps them out of the prompt
and puts a definition into the conversation when the model has found it. No further call of ours, arguments checked as usual.

`own` (local models, gateways, models without it): `npc_find_tool` answers in words, `npc_do` calls what it named. Why a general caller, and
not the found actions as tools of their own: a local server keeps what it has worked out for as long as the beginning of the prompt stays
the same. The tools are its very beginning, so one more tool would have all of it read again, half a minute for a small model on a desk,
at each find. And why words with a call to copy, and no schema: small models copy an example well and follow a nested schema badly. They
also put the arguments beside the name, or into a string, or call a found action as if it were a tool; all of that is understood.
The search ranks by BM25 over names, words of the description and arguments, in any script; it needs no second model and takes well under a
millisecond.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from npc.persona import Persona
from npc.schemas import properties_of
from npc.spelling import suggestions
from runtime.core.calibration import START
from runtime.core.effects import Call
from runtime.core.tokens import clip
from runtime.host import Result
from runtime.model.profiles import profile
from runtime.store.memories import content_words
from world_adapter.frames import ActionSpec

Way = Literal["api", "own"]

FIND: Mapping[str, Any] = {
    "name": "npc_find_tool",
    "description": (
        "This world has many more actions than are among your tools. Say in a few words what you want to do, and you are told which "
        "actions do it and how each is called with npc_do."
    ),
    "input_schema": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
}
DO: Mapping[str, Any] = {
    "name": "npc_do",
    "description": "Do an action that npc_find_tool has named, with its arguments.",
    "input_schema": {
        "type": "object",
        "properties": {"action": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["action"],
    },
}
#: The provider's search by plain words. The other one takes patterns and gives the first matches in the order of the list, not the best.
API_SEARCH: Mapping[str, Any] = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}

#: So many actions are always all shown, more of them only while they take no more than this share of the window. What the provider's search
#: finds stays in the conversation as whole definitions, so it pays later than ours; measured by `npc sim bench tools`.
FEW = 16
SHARES: Mapping[Way, float] = {"own": 0.15, "api": 0.30}
#: How many actions one answer names, and the raw tokens of the answer and of one action in it.
SHOWN = 5
ANSWER_TOKENS = 900
ACTION_TOKENS = 240
#: What fits less than this share of what fits best is not named.
NEAR = 0.6
#: What of a query and of an action is looked at, in characters, and the most actions of one catalogue.
QUERY_CHARS = 500
WORDS_CHARS = 3_000
MOST = 10_000
TOPICS = 24
#: How much a word counts by where it stands.
IN_NAME, IN_ARGUMENT = 2, 1
#: Of actions that were found and used, so many are still known after the context was reset.
FAMILIAR = 12
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_.:/-]+")
_K1, _B = 1.2, 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """When and how actions have to be looked for.

    Attributes:
        way: who searches.
        above: more actions than this are searched, whatever their size.
        few: so many are all shown, whatever their size.
        room: raw tokens of all their definitions above which they are searched.
        always: actions that are shown all the same, by the world's names.
    """

    way: Way
    above: int
    few: int
    room: int
    always: tuple[str, ...] = ()

    def due(self, actions: int, tokens: Callable[[int], int]) -> bool:
        """Whether so many actions are searched; `tokens(room)` is the size of their definitions, counted no further than needed."""
        return actions > self.above or (actions > self.few and tokens(self.room) > self.room)


def search_of(persona: Persona, window: int) -> Search | None:
    """How this character looks for actions; None if its persona wants all of them shown. `window` is in tokens.

    The provider's own search is asked for where the model has it and the endpoint is the provider's: gateways and local servers that take
    a model's name seldom take its newest parameters, and a request that is refused for its tools is refused every time.
    """
    tools = persona.tools
    if tools.search == "off":
        return None
    way: Way = "own"
    if tools.search == "api" or (tools.search == "auto" and profile(persona.model.id).tool_search and _first_party(persona)):
        way = "api"
    room = int(window * SHARES[way] / START)
    return Search(way=way, above=tools.search_above, few=min(FEW, tools.search_above), room=room, always=tools.always)


def _first_party(persona: Persona) -> bool:
    host = urlsplit(persona.model.base_url or os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com").hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def spoken_name(name: str) -> str:
    """A name as words: `mineOre` and `mine_ore` are both `mine ore`."""
    return " ".join(_CAMEL.split(name))


class Catalogue:
    """The actions of a world that are not shown, by their tool names; found by words."""

    def __init__(self, actions: Mapping[str, ActionSpec], count: Callable[[str], int] = len) -> None:
        self.actions = dict(sorted(actions.items())[:MOST])
        self._count = count
        self._index: dict[str, dict[str, float]] = {}  # word: tool name: how much of it
        lengths = {name: self._enter(name, action) for name, action in self.actions.items()}
        mean = sum(lengths.values()) / max(1, len(lengths))
        self._norms = {name: _K1 * (1 - _B + _B * length / max(1.0, mean)) for name, length in lengths.items()}

    def _enter(self, name: str, action: ActionSpec) -> int:
        words: Counter[str] = Counter()
        for word in content_words(spoken_name(action.name)[:QUERY_CHARS]):
            words[word] += IN_NAME
        for word in content_words(action.description[:WORDS_CHARS]):
            words[word] += 1
        for argument, schema in list(properties_of(action.schema).items())[:50]:
            told = str(schema.get("description", "")) if isinstance(schema, Mapping) else ""
            for word in content_words(f"{spoken_name(str(argument))} {told}"[:QUERY_CHARS]):
                words[word] += IN_ARGUMENT
        for word, times in words.items():
            self._index.setdefault(word, {})[name] = times
        return sum(words.values())

    def found(self, words: str, *, limit: int = SHOWN) -> list[str]:
        """Tool names of what fits some words, the best first. An action that is named outright comes before all."""
        words = words[:QUERY_CHARS]
        named = [name for name in (words.strip(), words.strip().removesuffix("()")) if name in self.actions]
        scores: dict[str, float] = {}
        for word in dict.fromkeys(content_words(spoken_name(words))):
            entries = self._index.get(word, {})
            weight = math.log(1 + (len(self.actions) - len(entries) + 0.5) / (len(entries) + 0.5))
            for name, times in entries.items():
                scores[name] = scores.get(name, 0.0) + weight * times * (_K1 + 1) / (times + self._norms[name])
        least = NEAR * max(scores.values(), default=0.0)
        ranked = sorted((name for name in scores if scores[name] >= least), key=lambda name: (-scores[name], name))
        return list(dict.fromkeys((*named[:1], *ranked)))[:limit]

    def answer(self, arguments: Mapping[str, Any]) -> Result:
        """`npc_find_tool`."""
        words = next((v for v in (arguments.get("words"), *arguments.values()) if isinstance(v, str) and v.strip()), "")
        names = self.found(words)
        if not names:
            near = suggestions(words.strip(), self.actions) if words.strip() else ()
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            about = f"The actions here are about: {', '.join(self.topics)}"
            return Result(text=f"[nothing fits {words.strip()[:80]!r}.{hint} {about}]", error=True)
        lines = [f"{len(self.actions)} actions can be looked for; these fit best:"]
        room = ANSWER_TOKENS
        for name in names:
            line = clip(described(name, self.actions[name], brief=name != names[0]), ACTION_TOKENS, self._count)
            room -= self._count(line)
            if room < 0 and len(lines) > 1:
                break
            lines.append(line)
        return Result(text="\n".join([*lines, f"For example: {example(names[0], self.actions[names[0]])}"]))

    @property
    def topics(self) -> list[str]:
        """The words that most names have in common."""
        words = Counter(word for action in self.actions.values() for word in set(spoken_name(action.name).lower().split()))
        return [word for word, _ in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:TOPICS]]


def unwrapped(call: Call) -> Call:
    """The call that an `npc_do` stands for, whatever shape it came in; without a name it stays what it is."""
    given = dict(call.arguments)
    name = next((given.pop(key) for key in ("action", "name", "tool") if isinstance(given.get(key), str)), "").strip()
    if not name:
        return call
    inner: Any = next((given[key] for key in ("arguments", "input", "args", "parameters") if key in given), given)
    if isinstance(inner, str):
        try:
            inner = json.loads(inner) if inner.strip() else {}
        except (ValueError, RecursionError):
            return replace(call, name=name[:128], arguments={}, invalid=inner)
    if not isinstance(inner, Mapping):
        inner = {}
    return replace(call, name=name[:128], arguments=dict(inner))


def described(name: str, action: ActionSpec, *, brief: bool = False) -> str:
    """An action in one line: how it is called, and what it does. What may be left out has a question mark.

    `brief`: without what the world says of each argument.
    """
    text = " ".join(action.description.split())[:300]
    needed = _required(action)
    declared = list(properties_of(action.schema).items())[:20]
    arguments = [f"{n}{'' if n in needed else '?'}: {_kind(schema, brief=brief)}" for n, schema in declared]
    return f"- {name}({', '.join(arguments)}){': ' if text else ''}{text}"


def example(name: str, action: ActionSpec) -> str:
    """A call to copy."""
    declared, needed = properties_of(action.schema), _required(action)
    arguments = {str(n): _sample(schema) for n, schema in declared.items() if n in needed}
    return f"npc_do {json.dumps({'action': name, 'arguments': arguments}, ensure_ascii=False)}"[:600]


def _required(action: ActionSpec) -> set[str]:
    needed = action.schema.get("required")
    return {n for n in needed if isinstance(n, str)} if isinstance(needed, Sequence) and not isinstance(needed, str) else set()


def _kind(schema: object, *, brief: bool) -> str:
    """What an argument may be: its choices, its type with its bounds, and what it means."""
    if not isinstance(schema, Mapping):
        return "anything"
    if isinstance(choices := schema.get("enum"), Sequence) and not isinstance(choices, str):
        kind = "|".join(json.dumps(choice, ensure_ascii=False, default=str)[:80] for choice in choices[:20])[:400]
    elif schema.get("type") in ("object", "array"):
        kind = json.dumps({k: v for k, v in schema.items() if k != "description"}, ensure_ascii=False, default=str)[:300]
    else:
        kind = str(schema.get("type") or "anything")
        bounds = [str(schema[key]) if key in schema else "" for key in ("minimum", "maximum")]
        kind = f"{kind} {bounds[0]}..{bounds[1]}" if any(bounds) else kind
    told = "" if brief else " ".join(str(schema.get("description") or "").split())[:160]
    return f"{kind} ({told})" if told else kind


def _sample(schema: object) -> Any:
    if not isinstance(schema, Mapping):
        return "..."
    if isinstance(choices := schema.get("enum"), Sequence) and choices and not isinstance(choices, str):
        return choices[0]
    return {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}.get(str(schema.get("type")), "...")


class Familiar:
    """What was found and used, for a mind whose context was reset: names and arguments, the newest last, few."""

    def __init__(self) -> None:
        self._used: dict[str, None] = {}

    def used(self, name: str) -> None:
        """An action that has to be looked for was used."""
        self._used.pop(name, None)
        self._used[name] = None
        while len(self._used) > FAMILIAR:
            del self._used[next(iter(self._used))]

    def told(self, way: str, actions: Mapping[str, ActionSpec]) -> str:
        """One line of them as far as they are still offered, "" if there are none."""
        known = [f"{name}({', '.join(map(str, properties_of(actions[name].schema)))})"[:120] for name in self._used if name in actions]
        how = "npc_do calls them" if way == "own" else "search for them by name"
        return f"Actions that you have found and used before ({how}): {', '.join(known)}" if known else ""

    def dump(self) -> list[str]:
        """As plain JSON."""
        return list(self._used)

    def load(self, stored: object) -> None:
        """From a checkpoint; nonsense is nothing."""
        self._used = dict.fromkeys(n for n in stored[-FAMILIAR:] if isinstance(n, str)) if isinstance(stored, list) else {}
