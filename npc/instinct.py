"""The body without its mind: reflexes are carried out by the same hands, by the same rules, and told to the mind afterwards.

Invariants: each deed is in the journal before it is begun, and its action's intent before that is sent; one deed at a time, few of them
wait; the mind is told once and in one line; the log says from when to when nobody was at home.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable

import structlog

from npc.hands import Hands
from npc.reflexes import Deed, Reflexes, key_of, told
from npc.schemas import properties_of
from npc.speech import field_of
from runtime.core.effects import Absent, Call
from runtime.host import Result
from runtime.store.journal import Journal
from world_adapter.frames import ActionSpec, Observation

log = structlog.get_logger("npc")

#: Deeds that wait, and lines for the NPC that nobody has answered yet.
WAITING = 16
UNANSWERED = 32
#: Deeds of earlier lives that are read.
REMEMBERED = 1_000
#: People that are counted before the mind is told.
COUNTED = 10_000
#: Arguments by which actions name whom they are for.
_FOR = ("to", "target", "recipient", "who", "whom", "player", "listener", "name")

NONE, ALL = "none", "all"


class Instinct:
    """Of one NPC whose action for speaking is `say`.

    `write` appends to log.md, `spawn` runs something beside the loop, `me` gives the NPC's own id in the world, `addressed` whether
    something is meant for it, `away` for what the mind is not asked at this moment; `clock` gives unix seconds.
    """

    def __init__(
        self, reflexes: Reflexes, *, on: bool, hands: Hands, journal: Journal, say: str, me: Callable[[], str],
        addressed: Callable[[Observation], bool], write: Callable[[str], object], spawn: Callable[[Awaitable[None]], None],
        tell: Callable[..., None], clock: Callable[[], float], away: Callable[[], str],
    ) -> None:  # fmt: skip
        self._reflexes, self._on, self._hands, self._journal, self._say = reflexes, on, hands, journal, say
        self._me, self._addressed, self._write, self._spawn, self._tell, self._clock = me, addressed, write, spawn, tell, clock
        self._away = away
        self.level, self._why, self._since = NONE, "", 0.0
        self._unanswered: OrderedDict[str, tuple[Observation, int]] = OrderedDict()
        self._waiting: deque[Deed] = deque(maxlen=WAITING)
        self._busy = False
        self._deeds: dict[str, dict[str, str]] = {}  # by kind: whom, key and name
        self._told_since = 0.0  # when the deeds began that the mind does not know of

    async def take_up(self, level: str) -> None:
        """What earlier lives did, and whether the mind is away now."""
        known = 0.0
        for event in await self._journal.events(kinds=("reflex", "reflexes told"), limit=REMEMBERED, newest=True):
            if event.kind == "reflexes told":
                self._deeds.clear()
                continue
            kind, key, person = (str(event.data.get(name) or "") for name in ("kind", "key", "person"))
            self._reflexes.knows(kind, key, at=event.at)
            self._count(kind, key, person, event.at)
            known = event.at
        if level != NONE:
            self.level, self._why, self._since = level, "the budget is spent", known or self._clock()

    # ------------------------------------------------------------ what happens
    def absent(self, effect: Absent) -> None:
        """The mind goes, or comes back."""
        before, self.level = self.level, effect.level
        now = self._clock()
        if self.level == NONE and not self._since:
            self._write("The mind is asked again, in a new life.")
            self._tell("reflexes", level=NONE, why="a new life")
            return
        if self.level == NONE:
            minutes = max(0.0, now - self._since) / 60
            done = ", ".join(f"{kind} {len(whom)}" for kind, whom in self._deeds.items()) or "nothing that the mind does not know"
            self._write(f"The mind is back after {minutes:.1f} min on reflexes ({self._why}). By reflex: {done}.")
            self._tell("reflexes", level=NONE, why=self._why)
            return
        self._why = effect.why
        if before == NONE:
            self._since = now
            self._write(f"Living on reflexes from now on: {effect.why}.")
            if self._on and self._reflexes.rules.stay and self._hands.moving:
                self._put(Deed(kind="stay"))
        self._tell("reflexes", level=self.level, why=effect.why)
        if self.level == ALL:
            unanswered, self._unanswered = self._unanswered, OrderedDict()
            for observation, event in unanswered.values():
                self._meet(observation, event)

    def answered(self) -> None:
        """The mind acts or speaks: what was said to it until now is its own affair."""
        self._unanswered.clear()

    def noticed(self, observation: Observation, event: int) -> None:
        """An observation came in. To be called for each that is not one of a crowd."""
        if observation.own or not self._on:
            return
        if self.level == NONE:
            self._reflexes.saw(observation, now=self._clock())
        if self.level != ALL and (key := key_of(observation.speaker)) and self._addressed(observation):
            self._unanswered[key] = (observation, event)
            while len(self._unanswered) > UNANSWERED:
                self._unanswered.popitem(last=False)
        if self.level != NONE:
            self._meet(observation, event)

    def _meet(self, observation: Observation, event: int) -> None:
        if self._away() == NONE:
            return  # with the hour the money has come back: this very line wakes the mind
        deed = self._reflexes.meets(
            observation, me=self._me(), now=self._clock(), event=event, addressed=self._addressed(observation), alone=self.level == ALL
        )
        if deed:
            self._put(deed)

    # ------------------------------------------------------------ what is done
    def _put(self, deed: Deed) -> None:
        self._waiting.append(deed)
        if not self._busy:
            self._busy = True
            self._spawn(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._do(self._waiting.popleft())
        finally:
            self._busy = False

    async def _do(self, deed: Deed) -> None:
        if deed.kind != "flee" and self._away() == NONE:
            return  # the mind is back, and speaks for itself
        call = self._call(deed)
        if deed.kind != "stay" and call is None:
            return
        number = self._journal.append("reflex", {"kind": deed.kind, "key": deed.key, "person": deed.person, "event": deed.event})
        self._count(deed.kind, deed.key, deed.person, self._clock())
        try:
            result = await (self._hands.run(call, op=0, turn=0) if call else self._stay())
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a reflex that fails is no reason to have none
            log.exception("a reflex failed", kind=deed.kind)
            result = Result(text=f"{type(error).__name__}", error=True)
        if result.error:
            self._journal.append("reflex failed", {"reflex": number, "kind": deed.kind, "why": result.text[:300]})
        self._tell("reflex", kind=deed.kind, person=deed.person, failed=result.error)

    async def _stay(self) -> Result:
        results = [await self._hands.stop(name, turn=0) for name in self._hands.moving]
        return results[-1] if results else Result()

    def _call(self, deed: Deed) -> Call | None:
        """The call of a deed, None where this world has no such action."""
        rules = self._reflexes.rules
        wanted = rules.flee if deed.kind == "flee" else self._say
        tools = self._hands.toolbox.actions
        name = next((tool for tool, action in tools.items() if action.name == wanted), None)
        if name is None or deed.kind == "stay":
            return None
        arguments = dict(rules.flee_with) if deed.kind == "flee" else _spoken(tools[name], deed)
        return Call(id=f"reflex-{self._journal.last_id + 1}", name=name, arguments=arguments)

    # ------------------------------------------------------------ what is told
    def _count(self, kind: str, key: str, person: str, at: float) -> None:
        if not self._deeds:
            self._told_since = at
        whom = self._deeds.setdefault(kind, {})
        if len(whom) < COUNTED:
            whom[key or f"{len(whom)}"] = person

    def account(self) -> str:
        """What was done by reflex since it was told last, in a line; asked once, it counts as told."""
        minutes = max(1.0, (self._clock() - (min(self._since, self._told_since) or self._told_since)) / 60)
        line = told(self._deeds, why=self._why or "the mind was away", minutes=minutes)
        if line:
            self._journal.append("reflexes told", {"text": line, "deeds": {kind: len(whom) for kind, whom in self._deeds.items()}})
            self._deeds.clear()
        return line


def _spoken(action: ActionSpec, deed: Deed) -> dict[str, str | float | bool]:
    """The arguments with which a world's action says the words, to the person where it wants to know to whom."""
    names = dict.fromkeys(properties_of(action.schema) or ("text",), "")
    words = field_of(action.schema, names) or "text"
    required = action.schema.get("required")
    wants = [name for name in required if name in _FOR and name != words] if isinstance(required, list) else []
    return {words: deed.words, **dict.fromkeys(wants, deed.person)}
