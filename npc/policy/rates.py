"""How often actions were done, and whether that is often enough.

Invariants: what counts is what was to leave for the world, each action once, and it is counted from the journal's intents, so that a crash
forgives nothing; an act that the clock puts into the future counts as one of the moment at which that is seen, so that a clock that is set
back neither forgives it nor keeps it for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable

from npc.policy.rules import Defaults, Limits
from runtime.store.journal import Journal

DAY_S = 86_400.0
#: Times that are kept of one action: more than any limit can ask for.
KEPT = 10_001
#: Intents that are read at first when a life begins; more where a day had more.
READ, MOST_READ = 2_000, 200_000
#: Names that are kept before those without an act within a day are dropped.
NAMES = 1_000

_WINDOWS = (("per_minute", 60.0, "minute"), ("per_hour", 3_600.0, "hour"), ("per_day", DAY_S, "day"))


class Rates:
    """Of one NPC. `clock` gives unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._done: dict[str, deque[float]] = {}

    async def take_up(self, journal: Journal) -> None:
        """What earlier lives did within the last day. Raises StoreError."""
        limit, since = READ, self._clock() - DAY_S
        while True:
            events = await journal.events(kinds=("intent", "escrow"), limit=limit, newest=True)
            if len(events) < limit or events[0].at < since or limit >= MOST_READ:
                break
            limit *= 10
        # An act by way of an escrow has no intent under its own name: it counts from where the escrow began.
        self.load(
            (str(event.data.get("name" if event.kind == "intent" else "action")), event.at)
            for event in events
            if event.kind == "intent" or event.data.get("step") == "begun"
        )

    def load(self, acts: Iterable[tuple[str, float]]) -> None:
        """Acts by name and time, the oldest first, in the place of all that was counted before."""
        self._done.clear()
        for name, at in acts:
            self._done.setdefault(name, deque(maxlen=KEPT)).append(at)

    def count(self, action: str) -> None:
        """An action is about to be sent."""
        now = self._clock()
        if action not in self._done and len(self._done) >= NAMES:
            self._done = {name: times for name, times in self._done.items() if times[-1] > now - DAY_S}
        self._done.setdefault(action, deque(maxlen=KEPT)).append(now)

    def refusal(self, action: str, limits: Limits, defaults: Defaults | None = None) -> str:
        """Why it is not to be done again yet, "" if it may. `defaults` hold for each limit that `limits` leaves open."""
        now = self._clock()
        times = self._times(action, now)
        for name, seconds, word in _WINDOWS:
            most = _of(limits, defaults, name)
            if most is None:
                continue
            within = [at for at in times if at > now - seconds]
            if len(within) >= most:
                if not most:
                    return f"{action} is not to be done at all: its limit is 0 a {word}"
                wait = max(1, round(min(within[-int(most)] + seconds - now, seconds)))
                done = f"{action} was done {len(within)} times within {'an' if word == 'hour' else 'a'} {word}"
                return f"{done}, and {most:g} are the limit: again in {wait} s"
        cooldown = _of(limits, defaults, "cooldown_s")
        if cooldown and times and max(times) > now - cooldown:
            wait = max(1, round(min(max(times) + cooldown - now, cooldown)))
            return f"{action} was done a moment ago and rests for {cooldown:g} s: again in {wait} s"
        return ""

    def _times(self, action: str, now: float) -> Collection[float]:
        times = self._done.get(action)
        if times is None:
            return ()
        if max(times) > now:
            times = self._done[action] = deque((min(at, now) for at in times), maxlen=KEPT)
        return times


def _of(limits: Limits, defaults: Defaults | None, name: str) -> float | None:
    own: float | None = getattr(limits, name)
    return own if own is not None or defaults is None else getattr(defaults, name)
