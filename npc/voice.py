"""The NPC's voice: words go to the world in parts, one after the other, no faster than somebody reads them.

Invariants: one thing is said at a time, in the order in which it was asked for; a speech of several parts is one call with one result,
which says how much of it was heard; while it goes on the mind is free, and it ends with the first part that is refused, with newer words,
with an order to stop, and with the life. Each part is an action of its own, with an intent of its own, and none is begun twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from npc.company import Company
from npc.speech import cleaned, field_of, limit_of, reading_s, split
from runtime.agent import Agent
from runtime.core.effects import Call
from runtime.host import Result
from world_adapter.frames import ActionSpec

#: Nobody listens to more parts than this in one go.
MAX_PARTS = 12
#: Lines of one answer that may come at once; each further one waits until the one before could be read.
AT_ONCE = 3
#: So long a call to speak waits for others to end, in seconds, before it is ongoing.
HURRY_S = 0.25
GIST_CHARS = 220
UNSAID_CHARS = 300
#: How a result begins that leaves open whether an action was done: such words may have been heard, and are not said again by mistake.
UNKNOWN = "[the outcome is unknown"
_ADDRESSEES = ("to", "target", "recipient", "who", "whom", "player", "listener", "name")

Log = Callable[[str, Mapping[str, Any]], object]


class Perform(Protocol):
    """Runs one action on the world, its intent stored before; `part`: nobody waits for the end of this one alone."""

    async def __call__(self, action: ActionSpec, call: Call, *, op: int, turn: int, part: bool = False) -> Result:
        """See the class."""


class _Speech:
    """One call to speak, under way."""

    def __init__(self, action: ActionSpec, call: Call, field: str, parts: tuple[str, ...], *, op: int, turn: int) -> None:
        self.action, self.call, self.field, self.op, self.turn = action, call, field, op, turn
        self.parts = parts
        self.said: list[str] = []
        self.skipped = 0  # parts that had been said a moment ago
        self.last = Result()
        self.why = ""  # why it ended before its end
        self.cut = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing more of it will be said."""
        return bool(self.why) or len(self.said) + self.skipped == len(self.parts)

    def stop(self, why: str) -> None:
        """Say nothing more of it."""
        self.why = self.why or why
        self.cut.set()

    def result(self) -> Result:
        """What the mind is told."""
        gist = (f"I said: {' '.join(' '.join(self.said).split())}"[:GIST_CHARS],) if self.said else ()
        done, all_ = len(self.said) + self.skipped, len(self.parts)
        if self.why:
            if all_ == 1:
                return self.last
            left = " ".join(self.parts[done:])
            unsaid = left if len(left) <= UNSAID_CHARS else f"{left[:UNSAID_CHARS]}..."
            return Result(text=f"[said {done} of {all_} parts, then stopped: {self.why}; not said: {unsaid}]", error=True, gist=gist)
        text = self.last.text if all_ == 1 else f"{self.last.text} [said in {all_} parts]".strip()
        if self.skipped:
            text += f" [{self.skipped} of them not again: you said the same a moment ago]"
        return Result(text=text, gist=gist)


class Voice:
    """Speaks by `perform`. `say_chars`: what the world takes at once; `mind`: whose words they are, None: speeches are waited for."""

    def __init__(self, *, company: Company, perform: Perform, log: Log, read: Callable[[str], float] = reading_s) -> None:
        self.say_chars: int | None = None
        self.mind: Agent | None = None
        self.told: Callable[[str, Call, int], None] = lambda _words, _call, _turn: None  # hears what was said
        self._company, self._perform, self._log, self._read = company, perform, log, read
        self._mouth = asyncio.Lock()
        self._speech: _Speech | None = None
        self._ready_at = 0.0  # by the loop's clock: when what was said last has been read
        self._queued = 0  # calls that wait for the mouth without the mind
        self._hushed, self._why_hushed = 0, ""  # how often all was to be silent, and why last
        self._answer = (-1, -1)  # turn and operation of the newest words
        self._lines = 0  # how many of them were said

    @property
    def speaking(self) -> bool:
        """Whether a speech of several parts is under way, or words wait for the end of one."""
        return self._speech is not None or self._queued > 0

    def hush(self, why: str) -> None:
        """Whatever is being said ends with the part that is out already, and what waits behind it is not said."""
        self._hushed, self._why_hushed = self._hushed + 1, why
        if self._speech:
            self._speech.stop(why)

    def remember(self, name: str, arguments: Mapping[str, Any], *, at: float) -> None:
        """Words of an earlier life, said `at` (unix seconds)."""
        if field := field_of({}, arguments):
            call = Call(id="", name=name, arguments=arguments)
            self._company.speaks(cleaned(str(arguments[field])), to=_to(call, field), at=at)

    async def speak(self, action: ActionSpec, call: Call, *, op: int, turn: int, wait: bool = False) -> Result:
        """Say what a call of a speaking action holds. `wait`: until all of it is said, else a speech of several parts is ongoing."""
        field = field_of(action.schema, call.arguments)
        if field is None or not (words := cleaned(str(call.arguments[field]))):
            return await self._perform(action, call, op=op, turn=turn)
        if (before := self._speech) and not ((before.turn, before.op) == (turn, op) or self._awaited(before)):
            self.hush("you spoke anew")
        if self.mind is None or wait:
            await self._mouth.acquire()
            return await self._aloud(action, call, field, words, op=op, turn=turn, wait=wait)
        try:
            async with asyncio.timeout(HURRY_S):
                await self._mouth.acquire()
        except TimeoutError:
            # Something longer is being said: these words come after it, and the mind does not wait for that.
            self._queued += 1
            self.mind.spawn(self._later(action, call, field, words, op=op, turn=turn, mind=self.mind, hushed=self._hushed))
            return Result(ongoing=True)
        return await self._aloud(action, call, field, words, op=op, turn=turn, wait=False)

    async def _later(
        self, action: ActionSpec, call: Call, field: str, words: str, *, op: int, turn: int, mind: Agent, hushed: int
    ) -> None:
        """Words whose turn to be said has not come yet; none of them are said any more once all is to be silent."""
        try:
            await self._mouth.acquire()
            if hushed != self._hushed:
                self._end()
                result = Result(text=f"[not said: {self._why_hushed}]", error=True)
            else:
                result = await self._aloud(action, call, field, words, op=op, turn=turn, wait=True)
        except Exception as error:  # noqa: BLE001 (a fault of ours must not leave the call open for ever)
            self._log("alarm", {"text": f"a speech failed: {error!r}"[:500]})
            result = Result(text=f"[not said: {type(error).__name__}]", error=True)
        finally:
            self._queued -= 1
        if not result.ongoing:
            mind.finished(call.id, op, result)

    async def _aloud(self, action: ActionSpec, call: Call, field: str, words: str, *, op: int, turn: int, wait: bool) -> Result:
        """The same, by whoever has the mouth; it is let go in the end."""
        handed_over = False
        try:
            if refused := self._refused(call, field, words):
                return refused
            parts = split(words, limit_of(action.schema, field, self.say_chars))
            speech = _Speech(action, call, field, parts, op=op, turn=turn)
            self._speech = speech if len(parts) > 1 else None
            if self._answer != (turn, op):
                self._answer, self._lines, self._ready_at = (turn, op), 0, 0.0
            await self._next(speech)
            if speech.last.ongoing and len(parts) == 1:
                return speech.last
            if not speech.over and not wait and self.mind:
                self.mind.spawn(self._rest(speech, self.mind))
                handed_over = True
                return Result(ongoing=True)
            while not speech.over:
                await self._next(speech)
            return speech.result()
        finally:
            if not handed_over:
                self._end()

    def _awaited(self, speech: _Speech) -> bool:
        """Whether the mind still waits for a speech, so that it has not thought again since."""
        return self.mind is not None and speech.call.id in self.mind.session.waiting_calls

    def _end(self) -> None:
        self._speech = None
        self._mouth.release()

    async def _rest(self, speech: _Speech, mind: Agent) -> None:
        try:
            while not speech.over:
                await self._next(speech)
        except Exception as error:  # noqa: BLE001 (a fault of ours must not leave the call open for ever)
            self._log("alarm", {"text": f"a speech failed: {error!r}"[:500]})
            speech.stop(type(error).__name__)
        finally:
            self._end()
        mind.finished(speech.call.id, speech.op, speech.result())

    def _refused(self, call: Call, field: str, words: str) -> Result | None:
        """Why these words are not said at all."""
        to = _to(call, field)
        if (ago := self._company.repeated(words, to=to)) is not None:
            self._log("not said", {"why": "said before", "ago_s": round(ago, 3), "text": words[:GIST_CHARS]})
            return Result(text=f"[not said again: you said the same words {ago:.0f} s ago, and nobody has spoken since]", denied=True)
        if seconds := self._company.silent(addressee(call.arguments)):
            self._log("not said", {"why": "pair rests", "rest_s": round(seconds, 3), "text": words[:GIST_CHARS]})
            text = f"[not said: your talk with them rests for another {seconds:.0f} s; do something else, or end your turn]"
            return Result(text=text, error=True, denied=True)
        return None

    async def _next(self, speech: _Speech) -> None:
        """The next part, once the one before has been read."""
        n = len(speech.said) + speech.skipped
        words, to, alone = speech.parts[n], _to(speech.call, speech.field), len(speech.parts) == 1
        if n >= MAX_PARTS:
            speech.stop("nobody listens to more at once, say the rest later if it matters")
            return
        if not alone and self._company.repeated(words, to=to, but=speech.said) is not None:
            speech.skipped += 1
            return
        loop = asyncio.get_running_loop()
        if (pause := self._ready_at - loop.time()) > 0 and not await self._paused(speech, pause):
            return
        call = Call(id=speech.call.id, name=speech.call.name, arguments={**speech.call.arguments, speech.field: words})
        # Known before it leaves: the echo may be faster than the result.
        self._company.speaks(words, to=to)
        speech.last = await self._perform(speech.action, call, op=speech.op, turn=speech.turn, part=not alone)
        if speech.last.error:
            if not speech.last.text.startswith(UNKNOWN):
                self._company.unsaid(words)
            speech.stop(speech.last.text.strip("[]"))
            return
        speech.said.append(words)
        self.told(words, speech.call, speech.turn)
        self._lines += 1
        if not speech.over or self._lines >= AT_ONCE:
            self._ready_at = loop.time() + self._read(words)

    @staticmethod
    async def _paused(speech: _Speech, seconds: float) -> bool:
        """Whether nobody stopped the speech in so many seconds."""
        try:
            await asyncio.wait_for(speech.cut.wait(), seconds)
        except TimeoutError:
            return True
        return False


def _to(call: Call, field: str) -> str:
    """All that makes the same words another saying: whom they are said to, how, by which action."""
    others = (f"{k}={v}" for k, v in sorted(call.arguments.items()) if k != field and isinstance(v, str))
    return " ".join((call.name, *others))


def addressee(arguments: Mapping[str, Any]) -> str:
    return next((v.strip() for k in _ADDRESSEES if isinstance(v := arguments.get(k), str) and v.strip()), "")
