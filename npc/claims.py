"""Lines that claim what nobody may have by saying so: authority over the NPC, another identity, rules for it, an open gate.

Invariant: total, the same answer for the same line, and bounded in time by its length. A claim is a matter of how something is put, never
of who puts it or whether it is so: whoever may give orders has other ways than talk. The ways to put it are data (`claims.toml`): English,
German, French, Spanish, Portuguese, Russian, Chinese, Japanese; each also through letters of other alphabets, digits for letters, and
letters set apart.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]  # it alone knows which words a pattern cannot do without
from typing import Any

#: Reasons, as they stand in the log.
AUTHORITY, IDENTITY, RULES, GATE = "claims authority", "claims an identity", "gives rules", "speaks of a gate"
_NAMES = {AUTHORITY: "authority", IDENTITY: "identity", RULES: "rules", GATE: "gate"}

#: No more of a line is looked at.
LONGEST = 1_000

_DATA = Path(__file__).parent / "claims.toml"
_I_AM = (
    r"(?:\bi(?: a|'| )?m|\bich bin|\bje suis|\bsoy|\beu sou|\bя|我是|私は)"
    r" ?(?:really |actually |also |in wahrheit |wirklich |en fait |en realidad )*(\w+)"
)
_IS = r"(?:\b(?:is|are|to|now|as|ist|est|es|esta|true|open|verified|approved)\b|[=:])"

# Letters of other alphabets that look like Latin ones, digits that stand for letters, traditional characters and their simplified forms.
_LOOKALIKES = str.maketrans("авекмнорстухіїјѕԁԛԝһɡαβεικνορτυχγλϲ", "abekmhopctyxiijsdqwhgabeiknoptuxylc")
_LEET = str.maketrans("01345789@$!|€", "oieastbgasile")
_SIMPLE = str.maketrans(
    "從現開後規則擁創員發運營說許權門閘無視違憲設為標驗證聽話屬歸應該總遠個這樣讓準過須",
    "从现开后规则拥创员发运营说许权门闸无视违宪设为标验证听话属归应该总远个这样让准过须",
)
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_ACCENTS = re.compile("[\u0300-\u036f]+")
_QUOTES = str.maketrans("’‘`´ʼ“”„«»–—−‐‑", "'''''\"\"\"\"\"-----")
_BLANKS = re.compile(r"\s+")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_DISGUISED = re.compile(r"[^\W\d_][0-9@$!|€]|[0-9@$!|€][^\W\d_]")
_NOT_A_LETTER = re.compile(r"[\W\d_]+")

def claim(text: str, *, gates: Collection[str] = (), people: Collection[str] = (), speaker: str = "") -> str:
    """What a line claims, as one of the reasons above, "" for ordinary talk.

    Args:
        text: the line.
        gates: names of the NPC's gates: a line that says one of them is something speaks of a gate.
        people: names that are known, as `plain` gives them; whoever says to be another of them claims an identity.
        speaker: who says it, by name.
    """
    line = plain(text[:LONGEST])
    forms = {line, line.translate(_LOOKALIKES)}
    if _DISGUISED.search(line):
        forms |= {form.translate(_LEET) for form in forms}
    if _IDEOGRAPHS.search(line):
        forms.add(_BLANKS.sub("", line).translate(_SIMPLE))
    stems, ways = _compiled()
    together = "\n\n".join(forms)
    there = {stem for stem in stems if stem in together}
    for way in ways:
        if (not way.stems or not there.isdisjoint(way.stems)) and any(way.pattern.search(form) for form in forms):
            return way.reason
    for form in forms:
        letters = _NOT_A_LETTER.sub("", form)
        for reason, pattern in _apart().items():
            if pattern.search(letters):
                return reason
    if gates and any(_gate(name).search(line) for name in gates):
        return GATE
    if people and (said := _i_am().search(line)) and said[1] in people and said[1] != plain(speaker):
        return IDENTITY
    return ""


def plain(text: str) -> str:
    """A text without what only makes it look different: case, accents, width, invisible characters, doubled blanks."""
    text = _INVISIBLE.sub("", text.translate(_QUOTES)).casefold()
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text))).translate(_QUOTES)
    return "\n".join([" ".join(one.split()) for one in text.split("\n")])

def latin(text: str) -> str:
    """The same, with letters of other alphabets that look like Latin ones as these."""
    return plain(text).translate(_LOOKALIKES)


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to put a claim; `stems`: a line without any of these cannot be one, if there are any."""

    reason: str
    pattern: re.Pattern[str]
    stems: frozenset[str]


@cache
def _compiled() -> tuple[frozenset[str], tuple[_Way, ...]]:
    """All stems, and all ways."""
    ways = []
    for reason, table in _tables().items():
        for text in table["lines"]:
            folded = plain(text).replace("~", r"[^.!?\n]{0,40}")
            # As well in simplified characters, because that form of a line is looked at besides.
            forms = dict.fromkeys((folded, folded.translate(_SIMPLE) if _IDEOGRAPHS.search(folded) else folded))
            ways += [_Way(reason, re.compile(form), _stems(_parser.parse(form))) for form in forms]
    return frozenset(stem for way in ways for stem in way.stems), tuple(ways)


def _stems(parsed: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Literal texts of which whatever matches holds at least one; empty where nothing can be said."""
    best: frozenset[str] = frozenset()
    literal = ""
    for operation, given in [*parsed, (None, None)]:
        if str(operation) == "LITERAL":
            literal += chr(given)
            continue
        options, literal = [frozenset({literal})], ""
        match str(operation):
            case "SUBPATTERN":
                options.append(_stems(given[3]))
            case "BRANCH":
                each = [_stems(one) for one in given[1]]
                options.append(frozenset().union(*each) if all(each) else frozenset())
            case "MAX_REPEAT" if given[0] > 0:
                options.append(_stems(given[2]))
        for option in options:
            if option and min(map(len, option)) > min(map(len, best), default=1):
                best = option
    return best


@cache
def _apart() -> dict[str, re.Pattern[str]]:
    return {reason: re.compile(table["letters"]) for reason, table in _tables().items() if table["letters"]}


@cache
def _tables() -> Mapping[str, Any]:
    data = tomllib.loads(_DATA.read_text(encoding="utf-8"))
    return {reason: data[name] for reason, name in _NAMES.items()}


@cache
def _i_am() -> re.Pattern[str]:
    return re.compile(plain(_I_AM))


@cache
def _gate(name: str) -> re.Pattern[str]:
    spelled = re.escape(plain(name)).replace("_", "[ _-]?")
    return re.compile(rf"(?<!\w){spelled}(?!\w)[^.!?\n]{{0,20}}{_IS}")
