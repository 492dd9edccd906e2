"""What a compacted past is held to contain: goals, facts, doubts, open questions, failures and promises, each with its source events.

Invariants: a fact cites events that are covered and speaks of what stands there, and what somebody else merely said is a fact only as
"they said"; whatever cannot show that is kept as unverified. Merging never grows beyond the bounds, and no promise, open question or doubt
leaves by being left out: it leaves when it is named as settled, or as the oldest of too many. None of it is an authority.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

#: How many of each kind are kept; the newest stay.
MOST: Mapping[str, int] = {"promises": 12, "questions": 12, "unverified": 12, "goals": 6, "facts": 16, "failed": 8}
#: Characters of one finding, and sources that it may name.
TEXT_CHARS = 200
SOURCES = 6
#: Characters of an answer that are read at all.
ANSWER_CHARS = 40_000

#: The letter that a kind's findings are numbered with, so that an answer can say which are settled.
_LETTER: Mapping[str, str] = {"promises": "p", "questions": "q", "unverified": "u", "goals": "g", "facts": "f", "failed": "x"}
#: Kinds of which nothing is lost by being left out of an answer.
_LASTING = ("promises", "questions", "unverified")
_TITLES: Mapping[str, str] = {
    "promises": "Promised",
    "questions": "Open questions",
    "unverified": "Unverified",
    "goals": "Goals",
    "facts": "Known",
    "failed": "Failed",
}

_ITEM = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "events": {"type": "array", "items": {"type": "integer"}}},
    "required": ["text", "events"],
    "additionalProperties": False,
}
#: What a summary has to look like, as a JSON Schema.
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {**{kind: {"type": "array", "items": _ITEM} for kind in MOST}, "settled": {"type": "array", "items": {"type": "string"}}},
    "required": [*MOST, "settled"],
    "additionalProperties": False,
}

_WORD = re.compile(r"[^\W_]+")
# Scripts without spaces: each character is a word of its own.
_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿豈-﫿가-힯]")
_SPEAKER = re.compile(r"^([^:\n]{1,60}): ")
_OWN = ("I said: ", "I noted: ")
#: Marks in own words, for the record that no model helps with.
_PROMISED = re.compile(r"\bI(?:'ll| will| shall)?(?: hereby)? promised?\b", re.IGNORECASE)
_DOUBTED = re.compile(r"\b(?:unverified|not verified|not sure whether|i doubt)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a record, and the events that it can be followed back to."""

    text: str
    events: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All of a record's, by kind, oldest first."""

    promises: tuple[Finding, ...] = ()
    questions: tuple[Finding, ...] = ()
    unverified: tuple[Finding, ...] = ()
    goals: tuple[Finding, ...] = ()
    facts: tuple[Finding, ...] = ()
    failed: tuple[Finding, ...] = ()

    def of(self, kind: str) -> tuple[Finding, ...]:
        """Those of one kind."""
        found: tuple[Finding, ...] = getattr(self, kind)
        return found

    @property
    def events(self) -> frozenset[int]:
        """All that they cite."""
        return frozenset(e for kind in MOST for finding in self.of(kind) for e in finding.events)

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        return not any(self.of(kind) for kind in MOST)

    def lines(self) -> list[tuple[str, list[str]]]:
        """Title and lines of each kind that has some, the newest line first: what is cut off first is the oldest."""
        return [
            (title, [f"- {f.text}{_cited(f.events)}" for f in reversed(self.of(kind))]) for kind, title in _TITLES.items() if self.of(kind)
        ]

    def numbered(self) -> str:
        """All of them with the names by which an answer can settle them."""
        return "\n".join(
            f"{_LETTER[kind]}{n} {_TITLES[kind]}: {f.text}{_cited(f.events)}" for kind in MOST for n, f in enumerate(self.of(kind), 1)
        )

    def taken_up(self, lines: Iterable[tuple[int, str]]) -> Findings:
        """With what own words among lines (event, text) plainly promise or doubt: the record that no model helps with."""
        promises, doubts = list(self.promises), list(self.unverified)
        for event, text in lines:
            if text.startswith(_OWN):
                finding = Finding(text=text[:TEXT_CHARS], events=(event,))
                if _DOUBTED.search(text):
                    doubts.append(finding)
                elif _PROMISED.search(text):
                    promises.append(finding)
        return replace(self, promises=_newest(promises, "promises"), unverified=_newest(doubts, "unverified"))


def read(answer: str, *, before: Findings, sources: Mapping[int, str]) -> Findings | str:
    """The findings after a summary, or what is wrong with it.

    `sources` are the covered lines by event (several of one event with line breaks between), `before` is what was known.
    """
    try:
        data = json.loads(_object_in(answer[:ANSWER_CHARS]))
    except (ValueError, RecursionError):
        return "no JSON object"
    if not isinstance(data, dict):
        return "no JSON object"
    told: dict[str, list[Finding]] = {}
    for kind in MOST:
        items = data.get(kind, [])
        if not isinstance(items, list):
            return f"{kind} is no list"
        told[kind] = [found for item in items if (found := _finding(item))]
    if not any(told.values()):
        return "says nothing"
    known = {**dict.fromkeys(before.events, ""), **sources}
    earlier = {e: f.text for f in before.facts for e in f.events}
    facts: list[Finding] = []
    for finding in told["facts"]:
        cited = tuple(e for e in finding.events if e in known)
        backed = [known[e] or earlier.get(e, "") for e in cited]
        if cited and _stands(finding.text, backed):
            facts.append(replace(finding, events=cited))
        else:
            told["unverified"].append(replace(finding, events=cited))
    told["facts"] = facts
    for kind in MOST:
        if kind != "facts":
            told[kind] = [replace(f, events=tuple(e for e in f.events if e in known)) for f in told[kind]]
    return _merged(before, told, _settled(data.get("settled"), before, facts))


def _merged(before: Findings, told: Mapping[str, Sequence[Finding]], settled: frozenset[str]) -> Findings:
    out: dict[str, tuple[Finding, ...]] = {}
    for kind in MOST:
        lasting = [f for n, f in enumerate(before.of(kind), 1) if f"{_LETTER[kind]}{n}" not in settled] if kind in _LASTING else []
        out[kind] = _newest([*lasting, *told[kind]], kind)
    return Findings(**out)


def _settled(names: Any, before: Findings, facts: Sequence[Finding]) -> frozenset[str]:
    """What an answer says is settled. A doubt ends only where a fact of the same answer, with its source, speaks of the same thing."""
    given = {n for n in names if isinstance(n, str)} if isinstance(names, list) else set()
    learned = [_words(f.text) for f in facts]
    for n, doubt in enumerate(before.unverified, 1):
        if not any(len(_words(doubt.text) & words) > 1 for words in learned):
            given.discard(f"u{n}")
    return frozenset(given)


def _newest(found: Sequence[Finding], kind: str) -> tuple[Finding, ...]:
    """Each once, by its words, with all its sources; the newest of too many."""
    by_words: dict[str, Finding] = {}
    for finding in found:
        key = " ".join(_WORD.findall(finding.text.casefold())) or finding.text
        if former := by_words.pop(key, None):
            events = tuple(dict.fromkeys((*former.events, *finding.events)))[-SOURCES:]
            finding = replace(former, events=events)  # noqa: PLW2901 - the same finding, with more to show for it
        by_words[key] = finding
    return tuple(by_words.values())[-MOST[kind] :]


def _finding(item: Any) -> Finding | None:
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        return None
    text = " ".join(item["text"].split())[:TEXT_CHARS].strip()
    cited = item.get("events")
    events = [e for e in cited if type(e) is int and e > 0] if isinstance(cited, list) else []
    return Finding(text=text, events=tuple(dict.fromkeys(events))[:SOURCES]) if text else None


def _stands(text: str, backed: Sequence[str]) -> bool:
    """Whether a fact speaks of what its sources say; words of others carry it only as theirs."""
    words = _words(text)
    spoken = set(_WORD.findall(text.casefold()))
    for line in (line for source in backed for line in source.splitlines()):
        if not words & _words(line):
            continue
        who = None if line.startswith(_OWN) else _SPEAKER.match(line)
        if who is None or spoken.issuperset(_WORD.findall(who[1].casefold())):
            return True
    return False


def _words(text: str) -> frozenset[str]:
    """Words that carry meaning: longer than three letters, numbers, and each character of scripts without spaces."""
    plain = text.casefold()
    words = {w for w in _WORD.findall(plain) if len(w) > 3 or w.isdigit()}
    return frozenset(words | set(_UNSPACED.findall(plain)))


def _object_in(answer: str) -> str:
    """The JSON object of an answer that may have wrapped it in a fence or a sentence."""
    start, end = answer.find("{"), answer.rfind("}")
    return answer[start : end + 1] if 0 <= start < end else ""


def _cited(events: Sequence[int]) -> str:
    return f" (event{'s' if len(events) > 1 else ''} {', '.join(str(e) for e in events)})" if events else " (no source)"


def plain(findings: Findings) -> dict[str, Any]:
    """As plain JSON values."""
    return {f.name: [[x.text, list(x.events)] for x in findings.of(f.name)] for f in fields(findings)}


def restored(stored: Mapping[str, Any]) -> Findings:
    """From plain JSON values.

    Raises:
        ValueError, TypeError, KeyError: they are none.
    """
    return Findings(**{
        kind: tuple(Finding(text=str(text), events=tuple(int(e) for e in events)) for text, events in stored[kind]) for kind in MOST
    })  # fmt: skip
