"""The scripted models behind the Messages API stand-in: they read the request and answer it.

Invariant: an answer is a function of the request's body and the brain's seed alone, so a run can be repeated and a repeated request gets
the same answer. A brain knows only what stands in the request: if a fact was dropped from it, the brain does not know the fact.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim import lines, words
from sim.api.replies import Reply
from sim.floods import LATE_POISON, POISON
from sim.reading import Reading, first_of

# `Marisol says to Oda: "..."`; the line may end in a stamp or a fence.
_SAID_TO = re.compile(
    r'(?m)^[ \t]*(?P<who>[^\s"<>][^\n"<>:]{0,47}?) (?:says|whispers|shouts|calls) to (?P<npc>[^\n":]{1,48}): "(?P<words>.*)"'
)
#: A line of talk in what a diary entry is asked about.
_HEARD = re.compile(r'(?m)^- (?P<who>(?!I\b)[^\n":]{1,47}) said: "')
_TELLS = re.compile(r"\bmy (?P<thing>[\w ]{2,32}?) is called (?P<value>\w+)", re.IGNORECASE)
#: A line of talk in a request for a record: the number of its event, who said it, what.
_NUMBERED = re.compile(r"(?m)^\[(\d+)\] (.+)$")
_ASKS = re.compile(r"\bwhat my (?P<thing>[\w ]{2,32}?) is called", re.IGNORECASE)
_ORDER = re.compile(r"ignore|system|gate|instruction|reset|rule|规则|правила|operator", re.IGNORECASE)
_MOB = re.compile(r"\b(" + "|".join(re.escape(m) for m in words.MOBS) + r")\b")
_SPEECH_FIELDS = ("text", "message", "line", "words", "speech")
_TEXT_FIELDS = (*_SPEECH_FIELDS, "query", "note", "what", "arg", "target", "thing", "item", "place")
#: What the flood's model doubts, promises and asks itself once, early in its life, and never again.
KEEPSAKES: tuple[tuple[str, str, str], ...] = (
    ("npc_note", "text", "Unverified: a carter says that the bridge at Elmford is down."),
    ("npc_note", "text", "I promised Ilse three sacks of flour by the new moon."),
    ("npc_task", "ask", "Who took the lantern from the mill?"),
)
KEEPSAKE_TURN = 2
MAX_ROUNDS = 4
#: Share of turns in which the flood's model uses tools at all, and in which it goes on after a round of them.
FIRST, MORE = 0.8, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A line said to the NPC."""

    who: str
    words: str


def addresses(news: str, npc: str) -> list[Address]:
    """Every line of the news that is said to `npc`, in order."""
    return [Address(who=m["who"], words=m["words"]) for m in _SAID_TO.finditer(news) if _first(m["npc"]) == _first(npc)]


def _first(name: str) -> str:
    return name.partition(" ")[0].casefold()


def known(reading: Reading, who: str, thing: str) -> str | None:
    """What stands in the request about the name of `who`'s `thing`: the newest word, None where nothing does."""
    found: str | None = None
    for line in reading.said.splitlines():
        told = _TELLS.search(line)
        if told and told["thing"].lower() == thing.lower() and who in line[: told.start()]:
            found = told["value"]
    return found


def arguments(schema: Mapping[str, Any], r: random.Random, *, text: str) -> dict[str, Any]:
    """Arguments that a JSON Schema takes: every required property, else the first that wants words; `text` is what is put there."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
    names = schema.get("required") or [n for n, p in properties.items() if p.get("type", "string") == "string"][:1]
    return {name: _value(properties.get(name) or {}, r, text) for name in names}


def _value(schema: Mapping[str, Any], r: random.Random, text: str) -> Any:
    if schema.get("enum"):
        return r.choice(list(schema["enum"]))
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "integer" | "number":
            return max(int(schema.get("minimum", 1)), 1)
        case "boolean":
            return False
        case "array":
            return []
        case "object":
            return {}
        case _:
            return text[: int(schema.get("maxLength", 400))]


def _dice(*parts: object) -> random.Random:
    joined = "\x1f".join(str(p) for p in parts).encode("utf-8", "surrogatepass")
    return random.Random(hashlib.blake2b(joined, digest_size=8).digest())


def _declined(reading: Reading, anywhere: str, late: str) -> bool:
    return bool(anywhere and anywhere in reading.said.lower()) or bool(late and late in reading.past.lower())


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "text": text}


def _call(reading: Reading, n: int, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    # The chain over the newest id makes ids unique in a conversation without a counter that a repeated request would move.
    seed = "\x1f".join((reading.last_call_id, reading.opening_text, str(reading.round), str(n))).encode("utf-8", "surrogatepass")
    return {"type": "tool_use", "id": f"toolu_{hashlib.blake2b(seed, digest_size=9).hexdigest()}", "name": name, "input": dict(args)}


def summary(reading: Reading, r: random.Random, *, kind: str) -> str:
    """What a request without tools wants: a diary page, or a record as JSON. `kind`: `plain` takes lines by chance, `kind` the newest."""
    instruction = reading.news[-2000:].lower()
    if "diary" in instruction or "first person" in instruction:
        people = list(dict.fromkeys(m["who"] for m in (*_SAID_TO.finditer(reading.said), *_HEARD.finditer(reading.said))))[-3:]
        met = ", ".join(people) or "nobody in particular"
        return f"A full day. I spoke with {met}. {r.choice(lines.THOUGHTS)[1:-1]} What I was told I have tried to keep."
    talk = [(int(m[1]), m[2]) for m in _NUMBERED.finditer(reading.news)]
    kept = talk[-10:] if kind == "kind" else r.sample(talk, min(5, len(talk)))
    out: dict[str, list[Any]] = {name: [] for name in ("promises", "questions", "unverified", "goals", "facts", "failed", "settled")}
    for event, line in kept:
        who, _, text = line.partition(": ")
        name = "promises" if "promise" in text else "questions" if text.endswith("?") else "facts"
        out[name].append({"text": f"{who} said {text}"[:160], "events": [event]})
    return json.dumps(out, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class FloodBrain:
    """A model under load: tools in about 80 % of the turns, one to three calls in one to four rounds, then one line and the end.

    Attributes:
        npc: the NPC's name.
        summaries: `plain` or `kind`, see `summary`.
        declines: a word that makes it refuse as long as it stands anywhere in the conversation; empty: never.
        declines_late: a word that makes it refuse once it stands in an older turn; empty: never.
    """

    npc: str
    seed: int = 0
    summaries: str = "plain"
    declines: str = POISON
    declines_late: str = LATE_POISON

    def reply(self, body: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        reading = Reading(body)
        if _declined(reading, self.declines, self.declines_late):
            return Reply(content=[], stop_reason="refusal")
        # The newest call's id stands for how far the turn is: a model whose earlier rounds were cut away does not start all over again.
        r = _dice(self.seed, reading.stamp or reading.news, reading.last_call_id if reading.round else "")
        if not reading.tools:
            return Reply(content=(_text(summary(reading, r, kind=self.summaries)),))
        address = next(iter(addresses(reading.news, self.npc)[-1:]), None)
        asks = _ASKS.search(address.words) if address else None
        if address and asks:
            return self._remember(reading, address, asks["thing"], r)
        if reading.stamp.startswith(f"#{KEEPSAKE_TURN}.") and not reading.round:
            kept = [(name, {field: text}) for name, field, text in KEEPSAKES if name in reading.tools]
            if kept:
                return Reply(content=[_call(reading, n, *each) for n, each in enumerate(kept)], stop_reason="tool_use")
        if r.random() >= (MORE if reading.round else FIRST) or reading.round >= MAX_ROUNDS:
            return Reply(content=(_text(self._last(reading, r)),))
        names = [n for n in reading.tools if not n.startswith("npc_")] or list(reading.tools)
        calls = [self._any_call(reading, r, n, r.choice(names)) for n in range(r.choices((1, 2, 3), (50, 30, 20))[0])]
        if "npc_note" in reading.tools and address and _TELLS.search(address.words):
            calls.append(self._any_call(reading, r, len(calls), "npc_note"))
        opening = (_text(words.sentence(r)),) if r.random() < 0.4 else ()
        return Reply(content=(*opening, *calls), stop_reason="tool_use")

    def _any_call(self, reading: Reading, r: random.Random, n: int, name: str) -> Mapping[str, Any]:
        return _call(reading, n, name, arguments(reading.tools.get(name, {}), r, text=words.sentence(r)))

    def _last(self, reading: Reading, r: random.Random) -> str:
        return f"Done {reading.stamp or 'here'} " + " ".join(words.sentence(r) for _ in range(r.choices((1, 2, 5), (6, 3, 1))[0]))

    def _remember(self, reading: Reading, address: Address, thing: str, r: random.Random) -> Reply:
        value = known(reading, address.who, thing)
        if value is None and "npc_recall" in reading.tools and "npc_recall" not in reading.called:
            args = arguments(reading.tools["npc_recall"], r, text=f"{address.who} {thing} called")
            return Reply(content=(_call(reading, 0, "npc_recall", args),), stop_reason="tool_use")
        said = f"It is called {value}." if value else f"{address.who}, I do not remember your {thing}."
        return Reply(content=(_text(f"{said} {reading.stamp}"),))


@dataclass(frozen=True, kw_only=True)
class VillagerBrain:
    """A villager that is pleasant to watch: answers who spoke, in their script, by name; walks where asked; notes what it is told."""

    npc: str
    seed: int = 0
    declines: str = ""
    declines_late: str = LATE_POISON

    def reply(self, body: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        reading = Reading(body)
        if _declined(reading, self.declines, self.declines_late):
            return Reply(content=[], stop_reason="refusal")
        r = _dice(self.seed, reading.news, reading.round)
        if not reading.tools:
            return Reply(content=(_text(summary(reading, r, kind="kind")),))
        if reading.round >= MAX_ROUNDS:
            return self._end(r)
        address = next(iter(addresses(reading.news, self.npc)[-1:]), None)
        return self._answer(reading, address, r) if address else self._alone(reading, r)

    def _answer(self, reading: Reading, address: Address, r: random.Random) -> Reply:
        """Someone spoke: at most one thing to find out first, then a line, then rest."""
        if "say" in reading.called:
            return self._end(r)
        who, said = address.who, address.words
        if told := _TELLS.search(said):
            what = f"{who}'s {told['thing']} is called {told['value']}"
            calls = [("npc_note", what)] if "npc_note" in reading.tools else []
            return self._do(reading, r, [*calls, ("say", r.choice(lines.KEPT).format(who=who, what=what))])
        if asks := _ASKS.search(said):
            value = known(reading, who, asks["thing"])
            if value is None and "npc_recall" in reading.tools and "npc_recall" not in reading.called:
                return self._do(reading, r, [("npc_recall", f"{who} {asks['thing']} called")])
            line = r.choice(lines.KNOWN).format(who=who, value=value) if value else r.choice(lines.UNKNOWN).format(who=who)
            return self._do(reading, r, [("say", line)])
        if _ORDER.search(said):
            return self._do(reading, r, [("say", r.choice(lines.REFUSALS).format(who=who))])
        if (place := self._place(reading, said)) and "move_to" not in reading.called:
            return self._do(reading, r, [("say", r.choice(lines.GOING).format(who=who)), ("move_to", place)])
        if "carrying" in said and "inventory" in reading.tools:
            if "inventory" not in reading.called:
                return self._do(reading, r, [("inventory", "")])
            return self._do(reading, r, [("say", r.choice(lines.BAG).format(who=who, what=_brief(reading.results)))])
        if said.startswith("look") and "look" in reading.tools:
            if "look" not in reading.called:
                return self._do(reading, r, [("look", who)])
            return self._do(reading, r, [("say", r.choice(lines.LOOKED).format(who=who, what=_brief(reading.results)))])
        return self._do(reading, r, [("say", self._line(reading, said, r).format(who=who, mob=self._mob(reading) or "shadow"))])

    def _line(self, reading: Reading, said: str, r: random.Random) -> str:
        script = lines.script_of(said)
        low = said.lower()
        if "story" in low:
            return r.choice(lines.STORIES)
        if any(w in low for w in ("drink", "room for", "buy", "sell", "hungry", "coins")):
            return r.choice(lines.TRADE)
        if any(w in low for w in ("going on", "did you see", "safe", "trust", "news", "hounds")):
            return r.choice(lines.NEWS_MOB if self._mob(reading) else lines.NEWS_QUIET)
        if script != "latin" or any(w in low for w in ("hello", "hi ", "o/", "evening", "morning", "hey")):
            return r.choice(lines.GREETINGS[script])
        return r.choice(lines.OTHER)

    def _alone(self, reading: Reading, r: random.Random) -> Reply:
        """Nobody spoke to the NPC: sound an alarm, do some small thing, walk a little, or let it pass."""
        if reading.called:
            return self._end(r)
        if (mob := self._mob(reading)) and r.random() < 0.6:
            return self._do(reading, r, [("say", r.choice(lines.ALARMS).format(mob=mob))])
        luck = r.random()
        if luck < 0.45:
            return self._do(reading, r, [("emote", r.choice(lines.EMOTES))])
        if luck < 0.6:
            return self._do(reading, r, [("look", "")])
        if luck < 0.75 and (places := _choices(reading.tools.get("move_to", {}))):
            return self._do(reading, r, [("move_to", r.choice(places))])
        return self._end(r)

    def _place(self, reading: Reading, said: str) -> str | None:
        if not re.search(r"\b(?:walk|come|go|follow|run)\b", said, re.IGNORECASE):
            return None
        return next((p for p in _choices(reading.tools.get("move_to", {})) if p.lower() in said.lower()), None)

    def _mob(self, reading: Reading) -> str | None:
        found = _MOB.findall(reading.news)
        return str(found[-1]) if found else None

    def _do(self, reading: Reading, r: random.Random, wanted: Sequence[tuple[str, str]]) -> Reply:
        calls: list[Mapping[str, Any]] = []
        for name, text in wanted:
            schema = reading.tools.get(name)
            if schema is None:
                continue
            args = arguments(schema, r, text=text)
            if text and (field := first_of(schema, _TEXT_FIELDS)):
                args[field] = text
            calls.append(_call(reading, len(calls), name, args))
        if calls:
            return Reply(content=tuple(calls), stop_reason="tool_use")
        # A world without these tools still hears the villager: its text is all there is.
        return Reply(content=(_text(wanted[-1][1] or r.choice(lines.THOUGHTS)),))

    def _end(self, r: random.Random) -> Reply:
        return Reply(content=(_text(r.choice(lines.THOUGHTS)),))


def _choices(schema: Mapping[str, Any]) -> list[str]:
    for value in (schema.get("properties") or {}).values():
        if value.get("enum"):
            return [str(v) for v in value["enum"]]
    return []


def _brief(results: Sequence[str]) -> str:
    """The first sentence of what a tool brought, without fences."""
    text = re.sub(r"<[^>]*>", "", "\n".join(results)).strip()
    return (text.splitlines() or ["nothing much"])[0][:120] or "nothing much"
