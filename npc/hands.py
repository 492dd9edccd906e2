"""The NPC's hands: the world's actions, run as tools.

Invariants: an intent is on disk before its action is sent; an action is sent once, and after a crash the world is asked what became of it;
an action's end reaches whoever waits for it, once, and no other call of the same id: action ids carry the operation; an action whose intent
cannot be stored is not sent, not now and not later.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from npc.body import Body
from npc.company import Company
from npc.discretion import Discretion
from npc.schemas import properties_of
from npc.speech import LONGEST_WAIT_S, Pace, field_of
from npc.told import from_journal
from npc.tools import Toolbox, missing
from npc.voice import UNKNOWN, Voice, addressee
from runtime.core.effects import Call
from runtime.host import Result
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter.frames import ActionSpec, ActResult, Limits
from world_adapter.world import World

ACT_TIMEOUT_S = 30.0
#: How long an action waits for a disk that takes nothing, before it is given up unsent. With the time above less than a tool may take.
STORE_S = 15.0
#: How long a stop waits to be told what came of it.
STOP_S = 3.0
#: What is told of an action that its world knows nothing of when it is asked.
NOT_KNOWN = "the world knows nothing of it: most likely it was never done, unless the world has started anew since"
#: Why an action was not even tried; such an end says nothing about whether its goal can be reached.
UNTRIED = frozenset({"not_attached", "busy", "not_in_game", "too_fast"})
#: How many of the newest intents are looked at for actions whose end was never told, and how many such are waited for.
OPEN_INTENTS = 500
#: How many of the newest events are looked at for words that may still come back.
RECENT_EVENTS = 200

#: Words in parentheses are thoughts, by the doctrine.
_SAYING = frozenset({"whisper", "shout", "yell", "tell"})  # actions that speak, besides the one that the persona names
_THOUGHT = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")

Tell = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An action whose end is still to come.

    Attributes:
        call: that it belongs to, "" for one of an earlier life.
        op: the operation of that call.
        name: of the action.
        action: as the world declared it, None for one of an earlier life.
        args: its arguments.
        turn: in which it was begun.
        part: of a speech, whose end nobody waits for.
    """

    call: str = ""
    op: int = 0
    name: str = ""
    action: ActionSpec | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    turn: int | None = None
    part: bool = False


class Hands:
    """Runs actions on one world.

    `durable` returns when the journal is on disk, and is waited for `store_s` seconds; `tell` is for whoever watches; `body` is what is
    known of the body, `company` of who talks with it; `refuse` says why an action is not to be done now, "" if it is; an order to stop is
    answered within `stop_s` seconds; `own` are the runtime's tools beside the world's, which take at most `room` tokens as `count` counts
    them; `discretion` looks at all words before they leave.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        world: World,
        durable: Callable[[], Awaitable[None]],
        tell: Tell,
        say: str,
        body: Body,
        company: Company,
        refuse: Callable[[str], Awaitable[str]] | None = None,
        own: Sequence[Mapping[str, Any]] = (),
        discretion: Discretion | None = None,
        room: int | None = None,
        count: Callable[[str], int] = len,
        store_s: float = STORE_S,
        stop_s: float = STOP_S,
    ) -> None:
        self.body, self._refuse, self._own, self._discretion = body, refuse, tuple(own), discretion
        self._room, self._count = room, count
        self._offered: tuple[ActionSpec, ...] | None = None
        self._missed: set[str] = set()  # actions that found no room, as far as that was told
        self.toolbox = Toolbox(own=self._own)
        self.tools = self.toolbox.tools
        self.version = 0
        self.identity = ""
        self.begun = 0  # newest event of the lives before this one
        self._journal, self._world, self._durable, self._tell, self._say = journal, world, durable, tell, say
        self._store_s, self._stop_s = store_s, stop_s
        self._going: dict[str, None] = {}  # ids of long actions under way
        self._stopping: dict[str, asyncio.Future[ActResult]] = {}
        self._blocked: set[str] = set()  # those of them that the world has said to be blocked
        self._busy_with = ""
        self._sent: dict[str, Sent] = {}  # by action id, oldest first
        self._asked = False
        self._spoke_in = -1  # the newest turn with words aloud
        self.company, self._pace = company, Pace(None)
        self.voice = Voice(company=company, perform=self._act, log=journal.append)

    def offer(self, actions: tuple[ActionSpec, ...]) -> None:
        """The world's list of actions is replaced; the same list again, as after each attach, changes nothing."""
        if actions == self._offered:
            return
        self._offered = actions
        self.toolbox = Toolbox(actions, own=self._own, room=self._room, count=self._count, first=self._say)
        left = self.toolbox.left_out
        if new := set(left) - self._missed:
            # A world that changes its list all the time is no reason to say so all the time.
            self._missed = new if len(self._missed) > OPEN_INTENTS else self._missed | new
            text = f"the world offers more than the window has room for: {len(left)} actions are left out ({', '.join(left)[:300]})"
            self._journal.append("alarm", {"text": text})
            self._tell("alarm", text=text)
        if (tools := self.toolbox.tools) != self.tools:
            self.tools = tools
            self.version += 1

    def limit(self, limits: Limits) -> None:
        """What the world bears from one NPC is as it says now."""
        self.voice.say_chars, self._pace = limits.say_chars, Pace(limits.acts_per_s)

    @property
    def names(self) -> str:
        """All tools there are, for an error message."""
        return ", ".join(str(tool["name"]) for tool in self.tools)[:800]

    @property
    def doing(self) -> str:
        """What the body does just now, or did last, as it completes "while you ..."."""
        return "were speaking" if self.voice.speaking else self._busy_with or "were busy"

    async def run(self, call: Call, *, op: int, turn: int) -> Result:
        """Run a call of one of the world's actions."""
        action = self.toolbox.actions.get(call.name)
        if action is None:
            return Result(text=f"[not run: there is no tool {call.name[:64]!r}; there are: {self.names}]", error=True)
        if lacking := missing(action.schema, call.arguments):
            return Result(text=f"[not run: {call.name} needs {', '.join(lacking)}]"[:500], error=True)
        if self._refuse and (why := await self._refuse(action.name)):
            return Result(text=f"[not done: {why}]", error=True)
        if why := await self._indiscreet(action, call.arguments):
            return Result(text=f"[not done: {why}]", error=True)
        if why := self.body.refusal(action, call.arguments):
            self._journal.append("goal refused", {"name": action.name, "args": call.arguments, "why": why}, turn=turn)
            self._tell("goal refused", action=action.name, why=why)
            return Result(text=f"[not run: {why}]", error=True)
        if action.name == self._say or action.name in _SAYING:
            return await self.voice.speak(action, call, op=op, turn=turn)
        return await self._act(action, call, op=op, turn=turn)

    async def stop(self, wanted: str, *, turn: int) -> Result:
        """Stop the long actions under way, all or those of one name, and say how they ended, if the world tells it soon."""
        if named := self.toolbox.actions.get(wanted):
            wanted = named.name  # a tool may have to be called otherwise than its action
        going = {number: sent for number in self._going if (sent := self._sent.get(number)) and wanted in ("", sent.name)}
        if self.voice.speaking and wanted in ("", self._say):
            self.voice.hush("you stopped")
            if not going:
                return Result(text="you fall silent")
        if not going:
            return Result(text="[nothing to stop: no such long action is under way]", error=True)
        ends = {number: asyncio.get_running_loop().create_future() for number in going}
        self._stopping |= ends
        try:
            for number, sent in going.items():
                self._journal.append("cancel", {"action": number, "name": sent.name}, turn=turn)
                self._tell("cancel", action=sent.name)
                await self._world.cancel(number)
            await asyncio.wait(ends.values(), timeout=self._stop_s)
        finally:
            for number in ends:
                self._stopping.pop(number, None)
        lines = []
        for number, sent in going.items():
            if ends[number].done():
                answer = ends[number].result()
                lines.append(f"{sent.name}: {answer.state}. {answer.text or answer.error_message or ''}".strip())
            else:
                lines.append(f"{sent.name}: the world was asked to stop it; how it ends will be told")
        return Result(text="\n".join(lines))

    async def say(self, text: str, *, turn: int) -> Result | None:
        """Speak plain words aloud, for a model that ignores tools: not after it has spoken by the action, and not its thoughts.

        What came of it, None where nothing was to be said.
        """
        action = self.toolbox.actions.get(self._say)
        text = _THOUGHT.sub("", text)
        if action is None or not text.strip() or self._spoke_in == turn:
            return None
        names = dict.fromkeys(properties_of(action.schema) or ("text",), "")
        arguments = {field_of(action.schema, names) or "text": text.strip()}
        if why := await self._indiscreet(action, arguments):
            return Result(text=f"[not said: {why}]", error=True)
        return await self.voice.speak(action, Call(id=f"plain-{turn}", name=action.name, arguments=arguments), op=0, turn=turn, wait=True)

    async def _indiscreet(self, action: ActionSpec, arguments: Mapping[str, Any]) -> str:
        """Why an action would tell somebody what is none of his business, "" if it would not. Looking at something tells nobody."""
        if self._discretion is None or (action.effect == "read" and action.name not in _SAYING and action.name != self._say):
            return ""
        return await self._discretion.refusal(action.name, arguments, to=addressee(arguments))

    async def _act(self, action: ActionSpec, call: Call, *, turn: int, op: int = 0, part: bool = False) -> Result:
        if wait := self._pace.wait_s(asyncio.get_running_loop().time()):
            if wait > LONGEST_WAIT_S:
                return Result(text="[not done: the world takes no more acts in this time; do less at once]", error=True)
            await asyncio.sleep(wait)
        number = f"{self.identity}-{op}-{self._journal.last_id + 1}"
        self._journal.append("intent", {"action": number, "call": call.id, "name": action.name, "args": call.arguments}, turn=turn)
        sent = Sent(call=call.id, op=op, name=action.name, action=action, args=call.arguments, turn=turn, part=part)
        self._expect(number, sent)
        try:
            async with asyncio.timeout(self._store_s):
                await self._durable()
        except TimeoutError:
            # Sent an hour later, when there is room again, it would surprise everybody.
            self._sent.pop(number, None)
            self._journal.append("outcome", {"action": number, "state": "failed", "text": "not sent"}, turn=turn)
            return Result(text="[not done: the disk takes nothing just now, so it could not be written down first; not sent]", error=True)
        self._tell("act", action=action.name, args=dict(call.arguments))
        answer = await self._world.act(id=number, name=action.name, args=call.arguments, timeout_s=ACT_TIMEOUT_S)
        if action.name == self._say and answer.state in ("accepted", "done"):
            self._spoke_in = turn
        if answer.state == "accepted":
            if number in self._sent:  # its end may have overtaken this
                self._going[number] = None
                self._busy_with = "were on your way" if action.moves_body else f"were busy with {action.name}"
            return Result(ongoing=True)
        self._tell("done", action=action.name, state=str(answer.state), text=answer.text)
        result = result_of(answer)
        if answer.state != "unknown":
            self._sent.pop(number, None)
            result = await self.judged(sent, answer)
        elif part and number in self._sent:
            self._sent[number] = replace(sent, part=False, call="")  # the speech ends here, so what became of this part is told for itself
        return result

    def _expect(self, number: str, sent: Sent) -> None:
        self._sent[number] = sent
        while len(self._sent) > OPEN_INTENTS:
            oldest = next(iter(self._sent))  # a world that never tells ends
            del self._sent[oldest]
            self._going.pop(oldest, None)
            self._blocked.discard(oldest)

    def blocked(self, why: str) -> None:
        """The world says that the body is blocked: what moves it was tried in vain, unless it gets there all the same."""
        for number in self._going:
            sent = self._sent.get(number)
            if sent and sent.action and sent.action.moves_body and number not in self._blocked:
                self._blocked.add(number)
                self.body.tried(sent.action, sent.args, reached=False, why=why)

    def ended(self, answer: ActResult) -> Sent:
        """An action's end that came after `act` had returned, or before; what it is the end of. `judged` or `settled` comes next."""
        sent = self._sent.pop(answer.id, Sent())
        self._going.pop(answer.id, None)
        self._tell("done", action=sent.name or answer.id, state=str(answer.state), text=answer.text)
        return sent

    def doubtful(self, sent: Sent, answer: ActResult) -> bool:
        """Whether the world's own word about the position speaks against this end, as far as it has come."""
        return answer.state == "done" and sent.action is not None and bool(self.body.contradicts(sent.action, sent.args))

    async def judged(self, sent: Sent, answer: ActResult) -> Result:
        """What the model is told of an end, after the news of a move had its time to come."""
        why = await self.body.doubt(sent.action, sent.args) if sent.action and self.doubtful(sent, answer) else ""
        return self.settled(sent, answer, contradicted=why)

    def settled(self, sent: Sent, answer: ActResult, *, contradicted: str = "") -> Result:
        """The end is written down, and what the model is told of it. `contradicted`: why it is not believed."""
        if answer.state == "unknown":
            answer = replace(answer, text=answer.text or answer.error_message or NOT_KNOWN)
        data = {"action": answer.id, "state": str(answer.state), "text": answer.text}
        self._journal.append("outcome", data | ({"contradicted": contradicted} if contradicted else {}), turn=sent.turn or 0)
        result = result_of(answer)
        if contradicted:
            result = Result(text=f"[{contradicted}] {answer.text}".strip(), error=True)
            self._tell("contradicted", action=sent.name, why=contradicted)
        counted = answer.id in self._blocked
        self._blocked.discard(answer.id)
        tried = answer.state == "done" or (answer.state == "failed" and answer.error_code not in UNTRIED)
        if sent.action and tried and not (counted and result.error):
            self.body.tried(sent.action, sent.args, reached=not result.error, why=contradicted or answer.text or answer.error_message or "")
        if (stop := self._stopping.get(answer.id)) and not stop.done():
            stop.set_result(answer)
        return result

    def stopping(self, answer: ActResult) -> bool:
        """Whether an order to stop waits to hear of this end, so that it is told there."""
        return answer.id in self._stopping

    async def remember_words(self) -> None:
        """What was said aloud shortly before this life: it may still come back as an echo, and is not said again."""
        for event in await self._journal.events(kinds=("intent", "observation"), limit=RECENT_EVENTS, newest=True):
            if event.kind == "observation":
                self.company.heard(from_journal(event.data))
                continue
            name, arguments = event.data.get("name"), event.data.get("args")
            if (name == self._say or name in _SAYING) and isinstance(arguments, Mapping):
                self.voice.remember(str(name), arguments, at=event.at)

    async def ask_outcomes(self) -> None:
        """Ask what became of actions of an earlier life whose end was never told; once a life, the link repeats it where it must."""
        if self._asked:
            return
        self._asked = True
        try:
            events = await self._journal.events(kinds=("intent", "outcome"), limit=2 * OPEN_INTENTS, newest=True)
        except StoreError:
            self._asked = False  # the next attach asks
            raise
        open_: dict[str, Sent] = {}
        # This life's actions have somebody who waits for them; what is asked of an action that is not sent yet would be taken for its end.
        for event in events:
            if event.kind == "outcome":
                open_.pop(str(event.data.get("action")), None)
            elif event.id <= self.begun:
                open_[str(event.data.get("action"))] = Sent(name=str(event.data.get("name", "")))
        for number, sent in open_.items():
            self._expect(number, sent)
            self._going[number] = None  # for all that is known; it can be stopped until its end is told
        for number in open_:
            await self._world.query(number)


def result_of(answer: ActResult) -> Result:
    """What the model is told of an action."""
    if answer.state == "done":
        return Result(text=answer.text or "done")
    if answer.state == "unknown":
        return Result(text=f"{UNKNOWN}: {answer.error_message or answer.text or 'no answer in time'}]", error=True)
    return Result(text=f"[{answer.state}] {answer.text or answer.error_message or answer.error_code or ''}".strip(), error=True)


def news_of(answer: ActResult, name: str, result: Result) -> str:
    """The same as news, for a mind that does not wait for it any more."""
    if answer.state == "unknown":
        words = answer.text or answer.error_message or NOT_KNOWN
        return f"What became of your earlier action {name or answer.id}: unknown. {words[:1].upper()}{words[1:]}".rstrip()
    if answer.state == "done" and result.error:
        return f"What became of your earlier action {name or answer.id}: {result.text}"
    return f"What became of your earlier action {name or answer.id}: {answer.state}. {answer.text or answer.error_message or ''}".strip()


def arguments_text(arguments: Mapping[str, Any], name: str) -> str:
    """A text argument, or "" where it is none."""
    value = arguments.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""
