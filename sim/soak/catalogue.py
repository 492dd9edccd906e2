"""The faults of the soak by name: where each strikes, how often, for how long, and in which numbers.

Invariant: a name means one thing for ever, since scripts of failing runs hold names; every strike is fully drawn beforehand, so that a
script alone says what happens.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: Share of an NPC's turns that each fault strikes, unless said otherwise.
RATE = 0.009
#: Of the strikes, how many fall on a turn that another one strikes already.
TOGETHER = 0.25
#: The first turns are fair: a life has begun when something happens to it.
FAIR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault in one turn.

    Attributes:
        turn: of the flood, by its number.
        after_s: virtual seconds after the turn was told.
        hits: how many requests, frames or tries it touches, for those that are counted.
        seconds: how long it lasts, for those that last; how far, for a clock that jumps.
        point: where, for a kill: the kind of what was just put into the journal; for others empty.
    """

    turn: int
    fault: str
    after_s: float = 0.0
    hits: int = 1
    seconds: float = 0.0
    point: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A fault that there is.

    Attributes:
        domain: model, world, disk or process.
        what: one line for people.
        hits: least and most, drawn unevenly: mostly few.
        seconds: least and most.
        after_s: when in the turn at most.
        points: of which one is drawn.
    """

    domain: str
    what: str
    hits: tuple[int, int] = (1, 1)
    seconds: tuple[float, float] = (0.0, 0.0)
    after_s: float = 0.0
    points: tuple[str, ...] = field(default=())


#: After which event of the journal the process is killed. `commit`: right after a transaction is on disk.
POINTS = ("observation", "request", "answer", "intent", "outcome", "tool_result", "turn", "checkpoint", "commit", "reset", "drained")

CATALOGUE: Mapping[str, Kind] = {
    "rate_limit": Kind(domain="model", what="429 with Retry-After", hits=(1, 8)),
    "spend_cap": Kind(domain="model", what="429 without Retry-After", hits=(1, 8)),
    "server_error": Kind(domain="model", what="500", hits=(1, 8)),
    "overloaded": Kind(domain="model", what="529", hits=(1, 8)),
    "silent": Kind(domain="model", what="a stream in which nothing more comes", hits=(1, 5)),
    "cut": Kind(domain="model", what="a stream whose connection breaks", hits=(1, 6)),
    "clean_end": Kind(domain="model", what="a stream that ends well, without a stop", hits=(1, 6)),
    "error_event": Kind(domain="model", what="an error in the middle of a stream", hits=(1, 6)),
    "refusal": Kind(domain="model", what="the model declines", hits=(1, 4)),
    "cut_tool_call": Kind(domain="model", what="max_tokens in the middle of a tool call", hits=(1, 3)),
    "garbage_arguments": Kind(domain="model", what="arguments that are no JSON", hits=(1, 3)),
    "empty_answer": Kind(domain="model", what="an answer with nothing in it", hits=(1, 3)),
    "context_exceeded": Kind(domain="model", what="the prompt is called too long, though it is not", hits=(1, 3)),
    "usage_1_8": Kind(domain="model", what="the model counts 1.8 times as many tokens", hits=(2, 12)),
    "outage": Kind(domain="model", what="an hour in which every request fails", seconds=(3_600.0, 3_600.0), after_s=3.0),
    "drop": Kind(domain="world", what="frames of the world that never come", hits=(1, 4), after_s=0.5),
    "delay": Kind(domain="world", what="frames that come late", hits=(1, 6), seconds=(0.5, 40.0), after_s=0.5),
    "duplicate": Kind(domain="world", what="frames that come twice", hits=(1, 6), after_s=0.5),
    "reorder": Kind(domain="world", what="frames in the wrong order", hits=(2, 6), after_s=0.5),
    "half_open": Kind(domain="world", what="a connection over which nothing more comes, and that does not end", after_s=8.0),
    "new_epoch": Kind(domain="world", what="the world dies and comes back knowing nothing", seconds=(0.5, 90.0), after_s=8.0),
    "rollback": Kind(domain="world", what="the world loads an older save", after_s=8.0),
    "oversize": Kind(domain="world", what="an observation of over 4 MiB in one frame"),
    "malformed": Kind(domain="world", what="frames that are no frames", hits=(1, 14), after_s=4.0),
    "kick": Kind(domain="world", what="the world throws the NPC out", hits=(1, 3), after_s=8.0),
    "disk_full": Kind(domain="disk", what="no file can grow", seconds=(20.0, 900.0), after_s=4.0),
    "locked": Kind(domain="disk", what="another process holds the database", seconds=(0.5, 30.0), after_s=4.0),
    "damaged_page": Kind(domain="disk", what="pages of the database are garbage at the next start", hits=(1, 3)),
    "kill": Kind(domain="process", what="kill -9 at a persisted effect", points=POINTS, hits=(1, 3)),
    "sigterm": Kind(domain="process", what="stopped in order and started again", after_s=9.0),
    "clock_forward": Kind(domain="process", what="the clock jumps forward", seconds=(60.0, 100_000.0), after_s=9.0),
    "clock_back": Kind(domain="process", what="the clock jumps back", seconds=(60.0, 20_000.0), after_s=9.0),
}
DOMAINS = ("model", "world", "disk", "process")


def chosen(faults: str, single: Iterable[str] = ()) -> dict[str, float]:
    """Rates by name. `faults`: `all`, `none`, or names and domains with commas between; `single`: NAME:RATE, which count in any case.

    Raises:
        ValueError: a name or rate that is none, in a sentence.
    """
    rates: dict[str, float] = {}
    for word in filter(None, (part.strip() for part in faults.split(","))):
        rates |= dict.fromkeys(_named(word), RATE)
    for one in single:
        name, _, rate = one.partition(":")
        try:
            share = float(rate) if rate else RATE
        except ValueError:
            share = math.nan
        if not 0 <= share <= 1:
            raise ValueError(f"the rate of {name} must be a share of the turns, from 0 to 1, not {rate!r}")
        rates |= dict.fromkeys(_named(name), share)
    return {name: rate for name, rate in rates.items() if rate}


def _named(word: str) -> Sequence[str]:
    if word == "none":
        return ()
    if word == "all":
        return tuple(CATALOGUE)
    if word in CATALOGUE:
        return (word,)
    if found := [name for name, kind in CATALOGUE.items() if kind.domain == word]:
        return found
    raise ValueError(f"no fault is called {word!r}; there are {', '.join((*DOMAINS, *CATALOGUE))}, all and none")


def plan(rates: Mapping[str, float], *, turns: int, seed: int) -> list[Strike]:
    """Draws a life's strikes, in the order of their turns. Each fault strikes as often as its rate says, not only on the average."""
    strikes: list[Strike] = []
    taken: list[int] = []
    for name, rate in rates.items():
        dice = random.Random(f"soak/{seed}/{name}")
        expected = rate * turns
        times = int(expected) + (dice.random() < expected % 1)
        for _ in range(times):
            together = taken and dice.random() < TOGETHER
            turn = dice.choice(taken) if together else dice.randrange(min(FAIR, turns - 1), turns)
            strikes.append(strike(name, turn, dice))
            taken.append(turn)
    return sorted(strikes, key=lambda s: (s.turn, s.after_s, s.fault))


def strike(name: str, turn: int, dice: random.Random) -> Strike:
    """One, drawn."""
    kind = CATALOGUE[name]
    least, most = kind.hits
    low, high = kind.seconds
    return Strike(
        turn=turn,
        fault=name,
        after_s=round(dice.uniform(0, kind.after_s), 2),
        hits=least + int((most - least + 1) * dice.random() ** 2.5) if most > least else least,
        seconds=round(math.exp(dice.uniform(math.log(low), math.log(high))), 1) if low else 0.0,
        point=dice.choice(kind.points) if kind.points else "",
    )


#: Chooses a strike's number again, smaller; for shrinking.
Smaller = Callable[[Strike], Iterable[Strike]]
