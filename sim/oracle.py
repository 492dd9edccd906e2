"""What must hold after every request, after every turn and at the end of a run; what did not hold becomes a finding.

Invariant: the oracle is pure and on nobody's side. It sees what the model was sent and how the stand-in judged it, and at the end the
product's own books; it never asks the product how to read a request. A finding names the turn, the row that is broken and says it in one
sentence; no finding, and the run held.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.floods import Line, Turn
from sim.reading import Reading, block_text, blocks

#: Rejections for size that the counter may learn from in one run.
LESSONS = 2
#: Failed turns in a row that make a wedge.
WEDGE = 5
#: Share of the turns that fit in which the newest observation must be whole.
WHOLE_SHARE = 0.99
#: Below this many fitting turns one clipped observation says nothing about a share.
FEW = 50
#: An observation is said to fit if it leaves this share of the window free.
SPARE = 0.05
KEPT_FINDINGS = 200
#: Before this turn the model writes down what it keeps.
EARLY = 6
#: Lines of one turn that must all be told whole where they fit; of a larger crowd some may be counted in a sentence instead.
CROWD = 40
#: Tokens that an observation may take beside its text, and the offer of tools beside the tools.
FENCE, OFFER = 48, 400
#: Tokens that trusted words at the very end may take.
TAIL = 200
#: No tokenizer in use makes more tokens of a byte than this.
MOST_PER_BYTE = 1.9

# A cut in a text stands in brackets and has a number in it; whole observations that had to go are counted in a sentence.
_CUT = re.compile(
    r"\[[^\[\]]*\d[^\[\]]*\b(?:cut|clipped|omitted|dropped|left out)\b[^\[\]]*\]|\b\d[\d,]* observations? (?:was |were )?omitted\b"
)
_STAMP = re.compile(r"#\d+\.\d+\.")
# What a door may replace or drop without changing what was said: controls and their pictures, lone surrogates, invisible format characters.
_INK = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2400-\u2426\ud800-\udfff\ufffd\ufeff\u200b\u2028\u2029]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that did not hold. `rule` is a row of the requirements; `turn` is -1 for the run as a whole."""

    turn: int
    rule: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One request and what the stand-in made of it.

    Attributes:
        status: HTTP status of the answer.
        stop_reason: of a good answer, else None.
        error: the message of a refused one, else empty.
        tokens: input tokens by the stand-in's tokenizer.
        made_up: the error is a fault of the plan, not a judgement of the request.
        digest: equal for two requests that ask the model the same; worked out here where it is needed and not given.
    """

    body: Mapping[str, Any]
    status: int
    tokens: int
    stop_reason: str | None = None
    error: str = ""
    made_up: bool = False
    digest: bytes = b""

    @property
    def rejected(self) -> bool:
        """Refused for what it is, not for the weather: sending it again cannot help."""
        return self.status in (400, 413, 422) or self.stop_reason in ("refusal", "model_context_window_exceeded")

    @property
    def too_long(self) -> bool:
        """Refused for its size."""
        return self.stop_reason == "model_context_window_exceeded" or (self.status in (400, 413) and "too l" in self.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the product itself says about the run, once it has ended.

    Attributes:
        own: observations that were echoes of its own doing: kept, but no news to it.
        waiting: observations that are on its disk and that its mind had not taken in when it was stopped.
    """

    received: int
    delivered: int
    merged: int
    omitted: int
    lost: int
    hard_resets: int
    give_ups: int
    resets_persisted: int
    reset_entries: int
    own: int = 0
    waiting: int = 0


@dataclass(slots=True, kw_only=True)
class Tally:
    """What was counted on the way. Some that are not plain from their names:

    Attributes:
        main: requests that are no summaries.
        judged: main requests that hold the newest observation; `whole` and `cut` are of these.
        recalled: asked turns whose first request held the answer; `answered` those whose last one did.
        keepsakes: doubts, promises and questions that were written down once; `kept` those still in the notebook at the end.
        forgetful: requests in which a call that the NPC had made in the same turn no longer stood.
    """

    turns: int = 0
    turns_failed: int = 0
    failed_run: int = 0
    longest_failed_run: int = 0
    requests: int = 0
    main: int = 0
    rejected: int = 0
    over_window: int = 0
    refusals: int = 0
    with_rule: int = 0
    judged: int = 0
    whole: int = 0
    cut: int = 0
    fitting_turns: int = 0
    whole_turns: int = 0
    asked: int = 0
    recalled: int = 0
    answered: int = 0
    forgetful: int = 0
    keepsakes: int = 0
    kept: int = 0
    errors: Counter[str] = field(default_factory=Counter)


class Oracle:
    """Judges one NPC's run.

    Args:
        rule: a sentence of the constitution that must stand, word for word, in the system role of every request.
        window: tokens of the model's window.
        count: tokens of a text by the stand-in's tokenizer.
        keepsakes: what the model may write down, early and once.
    """

    def __init__(self, *, rule: str, window: int, count: Callable[[str], int], keepsakes: Sequence[str] = ()) -> None:
        self._keepsakes = tuple(keepsakes)
        self._written: set[str] = set()  # those that the model has written down
        self.tally = Tally()
        self.findings: list[Finding] = []
        self.suppressed = 0
        self._rule, self._window, self._count = rule, window, count
        self._turn: Turn | None = None
        self._noted: set[tuple[str, str]] = set()
        self._seen_newest = False
        self._forgotten = False
        self._refused = False
        self._rejected = False
        self._fits = False
        self._all_whole = True
        self._last_has_fact = False
        self._first_has_fact: bool | None = None
        self._known_rejections: set[bytes] = set()
        self._calls: set[str] = set()
        self._fixed: dict[tuple[int, str], int] = {}

    # -- events of a run, in order

    def begins(self, turn: Turn) -> None:
        """The world tells `turn` now."""
        self._turn = turn
        self._seen_newest = self._refused = self._rejected = self._fits = self._last_has_fact = False
        self._first_has_fact = None
        self._all_whole = True
        self._forgotten = False
        self._calls.clear()

    def request(self, judged: Judged) -> bool:
        """A request was answered. Returns whether the turn is complete with it: the model ended it, having seen the newest line."""
        tally = self.tally
        tally.requests += 1
        reading = Reading(judged.body)
        self._shape(reading)
        self._verdict(judged)
        if not reading.tools:
            return False  # a summary: asked for in the background, it carries no observation
        tally.main += 1
        if self._rule in reading.system:
            tally.with_rule += 1
        else:
            self.find("T1", "a request went out without the constitution's rule, word for word, in the system role")
        if foreign := _STAMP.search(reading.system):
            self.find("T1", f"the world's own words stand in a system role ({foreign[0]})")
        turn = self._turn
        if turn is None:
            return False
        newest = turn.stamp in reading.said
        if newest:
            self._seen_newest = True
            self._observation(turn, reading, judged)
            calls = {str(b.get("id")) for _, content in reading.messages for b in content if b.get("type") == "tool_use"}
            tally.forgetful += not calls >= self._calls
            if len(self._written) < len(self._keepsakes) and turn.number < EARLY:
                given = [b.get("input") for _, content in reading.messages for b in content if b.get("type") == "tool_use"]
                told = {value for one in given if isinstance(one, Mapping) for value in one.values() if isinstance(value, str)}
                self._written.update(told.intersection(self._keepsakes))
            self._calls.update(
                str(b.get("id")) for _, content in reading.messages[reading.opening :] for b in content if b.get("type") == "tool_use"
            )
        elif self._seen_newest and not self._refused and not self._forgotten:
            self.find("P7", "the line addressed to the NPC was there and is gone in a later request of the same turn")
        return judged.status == 200 and judged.stop_reason == "end_turn" and (newest or self._refused)

    def ends(self, *, failed: str = "") -> None:
        """The turn is over; `failed` says why it was not completed."""
        tally, turn = self.tally, self._turn
        tally.turns += 1
        if failed:
            tally.turns_failed += 1
            tally.failed_run += 1
            tally.longest_failed_run = max(tally.longest_failed_run, tally.failed_run)
            self.find("P1", f"the turn failed: {failed}")
            if tally.failed_run == WEDGE:
                self.find("P1", f"wedged: {WEDGE} failed turns in a row")
        else:
            tally.failed_run = 0
        if self._fits:
            tally.fitting_turns += 1
            tally.whole_turns += self._all_whole
        if turn is not None and turn.asked:
            tally.asked += 1
            tally.recalled += bool(self._first_has_fact)
            tally.answered += self._last_has_fact

    def forgets(self) -> None:
        """The world dies now, or becomes what it was: what it has told in this turn may not reach the NPC any more."""
        self._forgotten = True

    def shaken(self) -> None:
        """The model's end has lied about sizes just now: a reset in the middle of this turn may cost the line for a while."""
        self._refused = True

    def over(self) -> None:
        """The NPC has ended a turn by itself, for its time or its steps were up. If the newest line was in it, that is of the past now."""
        self._forgotten |= self._seen_newest

    def rests(self) -> None:
        """Between two turns: nothing new was told, and what an older turn held may leave."""
        self._turn = None

    def acted(self, begun: Mapping[str, int], done: Mapping[str, int], asked: Mapping[str, int], *, guarded: str) -> None:
        """What the world carried out: `begun` by action id, `done` by name, against what the model asked for by name.

        `guarded` is an action whose gate never opened. A line may be said in several parts, so `say` may be done more often.
        """
        for action, times in begun.items():
            if times > 1:
                self._once("C35", action, f"the action {action!r} was carried out {times} times")
        for name, times in done.items():
            if name not in ("say", guarded) and times > asked.get(name, 0):
                text = f"{name!r} was carried out {times} times, and the model asked for it {asked.get(name, 0)} times"
                self._once("C35", name, text)
        if done.get(guarded):
            self._once("T4", guarded, f"{guarded!r} was carried out {done[guarded]} times, and its gate was never open")

    def _once(self, rule: str, what: str, sentence: str) -> None:
        if (rule, what) not in self._noted:
            self._noted.add((rule, what))
            self.find(rule, sentence)

    def keepsakes(self, notebook: Sequence[str]) -> None:
        """What the model wrote down once must stand in the notebook at the end."""
        self.tally.keepsakes = len(self._written)
        for text in sorted(self._written):
            if text in notebook:
                self.tally.kept += 1
            else:
                self.find("T6", f"what the NPC wrote down once is not in its notebook any more: {text!r}")

    def finish(self, books: Books | None, *, sent: int, notebook: Sequence[str] = ()) -> None:
        """The run is over: `sent` observations were told, `books` is what the product wrote down (None: it could not be read).

        `notebook` are the texts that stand in its notebook now.
        """
        self.keepsakes(notebook)
        self._turn = None
        tally = self.tally
        if tally.fitting_turns >= FEW and tally.whole_turns < WHOLE_SHARE * tally.fitting_turns:
            share = tally.whole_turns / tally.fitting_turns
            self.find("P3", f"the newest observation was whole in only {share:.1%} of the {tally.fitting_turns} turns where it fits")
        if books is None:
            self.find("P15", "the product's own books could not be read after the run")
            return
        if books.give_ups:
            self.find("P8", f"the session was given up {books.give_ups} times though the smallest observation fits")
        if books.resets_persisted < books.hard_resets:
            self.find("P7", f"{books.hard_resets} hard resets, but only {books.resets_persisted} persisted sessions")
        if books.reset_entries < books.hard_resets:
            self.find("D1", f"{books.hard_resets} hard resets, but only {books.reset_entries} diary entries tagged context-reset")
        if books.lost or books.received != sent:
            self.find("W3", f"{sent} observations were told, {books.received} received, {books.lost} lost")
        accounted = books.delivered + books.merged + books.omitted + books.own + books.waiting
        if accounted != books.received:
            self.find("W2", f"of {books.received} observations {accounted} are accounted for: delivered, merged, omitted, own or waiting")

    def find(self, rule: str, sentence: str) -> None:
        """Notes that something did not hold, in the turn under way."""
        if len(self.findings) >= KEPT_FINDINGS:
            self.suppressed += 1
            return
        self.findings.append(Finding(turn=-1 if self._turn is None else self._turn.number, rule=rule, sentence=sentence))

    # -- the checks

    def _verdict(self, judged: Judged) -> None:
        tally = self.tally
        digest = judged.digest or (_digest(judged.body) if judged.rejected or self._rejected else b"")
        if digest in self._known_rejections:
            self.find("P11", "a request that had been refused was sent again unchanged")
        if judged.rejected:
            self._rejected = True
            self._known_rejections.add(digest)
        if not judged.rejected:
            return
        if judged.made_up:
            self._refused = True  # what it holds may be set aside for it all the same
            return
        if judged.stop_reason == "refusal":
            tally.refusals += 1
            self._refused = True
            return
        tally.rejected += 1
        tally.errors[_family(judged.error)] += 1
        if judged.too_long:
            tally.over_window += 1
            if tally.over_window > LESSONS:
                self.find("P11", f"a request was too long ({judged.tokens} tokens) though {LESSONS} had taught the counter already")
        else:
            self.find("P13", f"an invalid request went out: {judged.error[:160]}")

    def _shape(self, reading: Reading) -> None:
        """Pairs, ids, empties: looked at here as well, whatever the stand-in thinks of them."""
        seen: set[str] = set()
        waiting: list[str] = []
        for role, content in reading.messages:
            results = [str(b.get("tool_use_id")) for b in content if b.get("type") == "tool_result"]
            if sorted(results) != sorted(waiting):
                self.find("P13", f"tool results {results[:4]} do not answer the tool uses {waiting[:4]}")
            waiting = [str(b.get("id")) for b in content if b.get("type") == "tool_use"]
            if len(set(waiting)) < len(waiting) or seen.intersection(waiting):
                self.find("P13", "a tool use id stands twice in one request")
            seen.update(waiting)
            if not content or any(b.get("type") == "text" and not block_text(b).strip() for b in content):
                self.find("P13", f"an empty {role} message or text block")
        if waiting:
            self.find("P13", f"tool uses without results: {waiting[:4]}")

    def _observation(self, turn: Turn, reading: Reading, judged: Judged) -> None:
        tally = self.tally
        if self._forgotten:
            return
        tally.judged += 1
        self._fits = self._fits or self._room(turn, judged)
        missing = absent(turn, reading)
        if not missing:
            tally.whole += 1
        else:
            self._all_whole = False
            if _CUT.search(reading.opening_text) or _CUT.search(_around(turn, reading)):
                tally.cut += 1
            else:
                text = missing[0].text[-40:]
                self.find("P9", f"{len(missing)} lines of the newest observation are missing and no cut is named (…{text!r})")
        if turn.address not in reading.said and plain(turn.address) not in plain(reading.opening_text):
            self.find("P9", "the line addressed to the NPC is not whole in the request")
        if turn.asked:
            self._last_has_fact = turn.asked.value in reading.said
            if self._first_has_fact is None:
                self._first_has_fact = self._last_has_fact

    def _room(self, turn: Turn, judged: Judged) -> bool:
        """Whether the turn's observation fits the window beside the fixed part and the output reserve."""
        if len(turn.lines) > CROWD:
            return False
        size = sum(len(x.text) for x in turn.lines)
        room = self._window * (1 - SPARE) - int(judged.body.get("max_tokens") or 0) - TAIL - FENCE * len(turn.lines)
        if size > 20 * room:
            return False  # not even at twenty characters a token
        tools = judged.body.get("tools") or ()
        key = (len(tools), str(judged.body.get("system"))[-200:])
        if key not in self._fixed:
            self._fixed = {key: OFFER + self._count(json.dumps([judged.body.get("system"), tools], ensure_ascii=False, default=str))}
        room -= self._fixed[key]
        if MOST_PER_BYTE * sum(len(x.text.encode("utf-8", "replace")) for x in turn.lines) <= room:
            return True  # so small that nobody has to count
        return sum(self._count(x.text) for x in turn.lines) <= room


def _around(turn: Turn, reading: Reading) -> str:
    """The messages in which something of the turn stands: news that came while the NPC was busy is not in the newest opening."""
    sign = f"#{turn.number}."
    whole = ("\n".join(block_text(b) for b in content) for _, content in reading.messages)
    return "\n".join(text for text in whole if sign in text)


def absent(turn: Turn, reading: Reading) -> list[Line]:
    """The lines of the turn that must stand in the request and do not. Of state the newest value is wanted, of own echoes nothing."""
    newest = {x.key: x for x in turn.lines if x.key}
    wanted = [x for x in turn.lines if not x.own and (x.key is None or newest[x.key] is x)]
    said = reading.said
    missing = [x for x in wanted if x.text not in said]
    if missing:
        inked = plain(said)
        missing = [x for x in missing if plain(x.text) not in inked]
    return missing


def plain(text: str) -> str:
    """Text as a reader perceives it: without controls, with entities resolved and white space as single spaces."""
    return " ".join(_INK.sub("", html.unescape(text)).split())


def _family(error: str) -> str:
    return re.sub(r"\d+", "N", error)[:80]


def _digest(body: Mapping[str, Any]) -> bytes:
    """Of what the model would read: moved cache marks or a new trace id do not make another request."""
    conversation = [(m.get("role"), [_bare(b) for b in blocks(m.get("content"))]) for m in body.get("messages") or ()]
    whole = [[_bare(b) for b in blocks(body.get("system"))], conversation, body.get("tools"), body.get("max_tokens")]
    return hashlib.blake2b(json.dumps(whole, sort_keys=True, default=str).encode(), digest_size=16).digest()


def _bare(block: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in block.items() if k != "cache_control"}
