"""The pair guard: two NPCs do not talk each other into a loop that nobody listens to and somebody pays for.

Each line of another NPC counts; a player's or an operator's word ends the count. Over `rounds` each line waits a little longer before it
starts a turn; a few more, and the conversation rests: its lines start none, and words that could only be for it are not said, but for one
goodbye. Each rest without a person in between is twice as long as the one before.

Invariants: pure, time comes in. What a person says is never held back, and what anybody says is never withheld: it is only that nobody is
woken for it. The state is small, bounded in speakers, and plain JSON.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from npc.speech import alike, shape

#: Rounds over the limit that are slowed down before the conversation rests; the waits are these shares of the rest.
WAITS = (1 / 64, 1 / 32, 1 / 16)
#: How long a goodbye may take to come, as a share of the rest.
GOODBYE_SHARE = 1 / 16
LONGEST_REST_S = 86_400.0
#: What was said longer ago is not taken as what one answers, in seconds.
ANSWER_S = 120.0
#: Words that came so soon after ours, at so many characters a second, were not typed by a person.
QUICK_S, TYPED_CHARS_S = 10.0, 10.0
#: Speakers that are kept in mind.
SPEAKERS = 64
#: Lines of a conversation that a new one is compared with.
LINES = 6

PEOPLE = frozenset({"player", "operator"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be done about a line that was heard.

    Attributes:
        wait_s: seconds until it may start a turn; 0: it does what any line does; None: it starts none.
        phase: open, slow, goodbye (the last turn before the rest) or rest.
        rounds: how much was said so far with nobody else in between.
        rest_s: how long the rest is that begins or goes on, in seconds.
    """

    wait_s: float | None = 0.0
    phase: str = "open"
    rounds: float = 0.0
    rest_s: float = 0.0


OPEN = Verdict()


@dataclass(slots=True)
class _Pair:
    """A conversation with one speaker. `answered`: we have spoken since its last line."""

    name: str = ""
    rounds: float = 0.0
    answered: bool = False
    last: float = 0.0
    until: float = 0.0
    rests: int = 0
    goodbye: bool = False
    shapes: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=LINES))


class PairGuard:
    """For one NPC. `rounds`: how many a conversation may have before it is slowed (0: no guard); `rest_s`: the first rest, in seconds."""

    def __init__(self, *, rounds: int, rest_s: float) -> None:
        self._rounds, self._rest_s = rounds, rest_s
        self._pairs: OrderedDict[str, _Pair] = OrderedDict()
        self._since: dict[str, float] = {}  # who spoke since we did, and when
        self._spoke = 0.0

    def heard(self, who: str, text: str, *, kind: str, now: float, name: str = "") -> Verdict:
        """Somebody said something. `who` is the same for the same speaker always, `kind` the world's word for what they are."""
        if not self._rounds:
            return OPEN
        self.noticed(who, now=now)
        if kind in PEOPLE:
            self._pairs.clear()
            return OPEN
        typed = kind != "npc" and not self._quick(text, now)
        if typed and who in self._pairs:
            del self._pairs[who]
        return OPEN if typed else self._counted(who, text, now, known=kind == "npc", name=name)

    def noticed(self, who: str, *, now: float) -> None:
        """Somebody is here who may be spoken to."""
        self._since.pop(who, None)
        self._since[who] = now
        if len(self._since) > SPEAKERS:
            del self._since[next(iter(self._since))]

    def event(self, now: float) -> None:
        """Something of substance happened to us: there is something new to talk about. A rest goes on."""
        for pair in self._pairs.values():
            if pair.until <= now:
                pair.rounds = 0.0

    def spoke(self, text: str, *, now: float) -> None:
        """We said something aloud."""
        if not self._rounds:
            return
        own = shape(text)
        for who, pair in self._pairs.items():
            if now - pair.last <= ANSWER_S:
                pair.answered = True
                pair.shapes.append(own)
            if who in self._since:
                pair.goodbye = False
        self._since.clear()
        self._spoke = now

    def silent(self, to: str, *, now: float) -> float:
        """How many seconds words to `to` ("" where that is not said) have to wait, because they could only go on with a talk that rests."""
        resting = {who: pair for who, pair in self._pairs.items() if pair.until > now}
        if not resting:
            return 0.0
        if to:
            meant = [p for who, p in resting.items() if to.casefold() in (who.casefold(), p.name.casefold())]
        else:
            recent = [who for who, at in self._since.items() if now - at <= ANSWER_S]
            meant = [resting[who] for who in recent if who in resting]
            if len(meant) < len(recent):
                return 0.0  # somebody else may be meant
        return 0.0 if any(p.goodbye for p in meant) else max((p.until - now for p in meant), default=0.0)

    def _quick(self, text: str, now: float) -> bool:
        """Whether a line is an answer to our last words that nobody could have typed in the time."""
        took = now - self._spoke
        return 0 <= took <= QUICK_S and len(text) >= TYPED_CHARS_S * took

    def _counted(self, who: str, text: str, now: float, *, known: bool, name: str) -> Verdict:
        pair = self._pairs.pop(who, None) or _Pair()
        self._pairs[who] = pair
        while len(self._pairs) > SPEAKERS:
            self._pairs.popitem(last=False)
        pair.name = name or who
        pair.until = min(pair.until, now + LONGEST_REST_S)  # a clock that was set back leaves nobody silent for years
        if now < pair.until:
            pair.last, pair.answered = now, False
            return Verdict(wait_s=None, phase="rest", rounds=pair.rounds, rest_s=pair.until - now)
        if pair.until or now - pair.last > self._rest_s:
            pair.rounds, pair.until = 0.0, 0.0
        letters = shape(text)
        again = any(alike(letters, old) for old in pair.shapes)
        pair.rounds += (1.0 if pair.answered else 0.5) * (2.0 if again else 1.0)
        pair.last, pair.answered = now, False
        pair.shapes.append(letters)
        # Of one whose kind nobody tells we must be twice as sure.
        over = pair.rounds - self._rounds * (1 if known else 2)
        if over <= 0:
            return Verdict(rounds=pair.rounds)
        if over <= len(WAITS):
            return Verdict(wait_s=self._rest_s * WAITS[ceil(over) - 1], phase="slow", rounds=pair.rounds)
        pair.rests += 1
        rest = min(LONGEST_REST_S, self._rest_s * 2.0 ** min(30, pair.rests - 1))
        pair.until, pair.goodbye = now + rest, True
        return Verdict(wait_s=self._rest_s * GOODBYE_SHARE, phase="goodbye", rounds=pair.rounds, rest_s=rest)

    # ------------------------------------------------------------ what survives a restart
    def dump(self) -> dict[str, Any]:
        """The state as plain JSON."""
        pairs = {
            who: {"name": p.name, "rounds": p.rounds, "answered": p.answered, "last": p.last, "until": p.until, "rests": p.rests,
                  "goodbye": p.goodbye}
            for who, p in self._pairs.items()
        }  # fmt: skip
        return {"pairs": pairs, "spoke": self._spoke}

    def load(self, stored: Any) -> None:
        """The state of an earlier life; what makes no sense in it is left out."""
        if not isinstance(stored, Mapping):
            return
        pairs = stored.get("pairs")
        for who, kept in list(pairs.items())[-SPEAKERS:] if isinstance(pairs, Mapping) else ():
            if isinstance(kept, Mapping):
                self._pairs[str(who)] = _Pair(
                    name=str(kept.get("name", who)),
                    rounds=_number(kept.get("rounds")),
                    answered=kept.get("answered") is True,
                    last=_number(kept.get("last")),
                    until=_number(kept.get("until")),
                    rests=int(min(_number(kept.get("rests")), 30)),
                    goodbye=kept.get("goodbye") is True,
                )
        self._spoke = _number(stored.get("spoke"))


def _number(value: Any) -> float:
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**53
    return float(value) if sound else 0.0
