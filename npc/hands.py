"""The NPC's hands: the world's actions, run as tools.

Invariants: an intent is on disk before its action is sent; an action is sent once, and after a crash the world is asked what became of it;
an action's end reaches whoever waits for it, once; an action whose intent cannot be stored is not sent, not now and not later.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from npc.tools import NOTE, RECALL, Toolbox, missing
from runtime.core.effects import Call
from runtime.host import Result
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter.frames import ActionSpec, ActResult
from world_adapter.world import World

ACT_TIMEOUT_S = 30.0
#: How long an action waits for a disk that takes nothing, before it is given up unsent. With the time above less than a tool may take.
STORE_S = 15.0
#: How many of the newest intents are looked at for actions whose end was never told, and how many such are waited for.
OPEN_INTENTS = 500

#: Words in parentheses are thoughts, by the doctrine.
_THOUGHT = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")

Tell = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An action whose end is still to come: the call that it belongs to ("" for one of an earlier life), and its name."""

    call: str
    name: str


class Hands:
    """Runs actions on one world.

    `durable` returns when the journal is on disk, and is waited for `store_s` seconds; `tell` is for whoever watches.
    """

    def __init__(
        self, *, journal: Journal, world: World, durable: Callable[[], Awaitable[None]], tell: Tell, say: str, store_s: float = STORE_S
    ) -> None:
        self.toolbox = Toolbox()
        self.tools = self.toolbox.tools
        self.version = 0
        self.identity = ""
        self.begun = 0  # newest event of the lives before this one
        self._journal, self._world, self._durable, self._tell, self._say = journal, world, durable, tell, say
        self._store_s = store_s
        self._sent: dict[str, Sent] = {}  # by action id, oldest first
        self._asked = False
        self._spoke_in = -1  # the newest turn with words aloud

    def offer(self, actions: tuple[ActionSpec, ...]) -> None:
        """The world's list of actions is replaced; the same list again, as after each attach, changes nothing."""
        self.toolbox = Toolbox(actions)
        if (tools := self.toolbox.tools) != self.tools:
            self.tools = tools
            self.version += 1

    @property
    def names(self) -> str:
        """All tools there are, for an error message."""
        return ", ".join([*self.toolbox.actions, str(RECALL["name"]), str(NOTE["name"])])[:800]

    async def run(self, call: Call, *, turn: int) -> Result:
        """Run a call of one of the world's actions."""
        action = self.toolbox.actions.get(call.name)
        if action is None:
            return Result(text=f"[not run: there is no tool {call.name[:64]!r}; there are: {self.names}]", error=True)
        if lacking := missing(action.schema, call.arguments):
            return Result(text=f"[not run: {call.name} needs {', '.join(lacking)}]"[:500], error=True)
        return await self._act(action, call, turn=turn)

    async def say(self, text: str, *, turn: int) -> None:
        """Speak plain words aloud, for a model that ignores tools: not after it has spoken by the action, and not its thoughts."""
        action = self.toolbox.actions.get(self._say)
        text = _THOUGHT.sub("", text)
        if action is None or not text.strip() or self._spoke_in == turn:
            return
        argument = next(iter(action.schema.get("properties") or {"text": {}}), "text")
        await self._act(action, Call(id=f"plain-{turn}", name=action.name, arguments={argument: text.strip()}), turn=turn)

    async def _act(self, action: ActionSpec, call: Call, *, turn: int) -> Result:
        number = f"{self.identity}-{self._journal.last_id + 1}"
        self._journal.append("intent", {"action": number, "call": call.id, "name": action.name, "args": call.arguments}, turn=turn)
        self._expect(number, Sent(call=call.id, name=action.name))
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
            return Result(ongoing=True)
        if answer.state != "unknown":
            self._sent.pop(number, None)
            self._journal.append("outcome", {"action": number, "state": str(answer.state)}, turn=turn)
        self._tell("done", action=action.name, state=str(answer.state), text=answer.text)
        result = result_of(answer)
        words = next((v for v in call.arguments.values() if isinstance(v, str) and v.strip()), "")
        if action.name == self._say and words and not result.error:
            # Own words aloud are kept when the turn is compacted.
            return Result(text=result.text, gist=(f"I said: {' '.join(words.split())}"[:220],))
        return result

    def _expect(self, number: str, sent: Sent) -> None:
        self._sent[number] = sent
        while len(self._sent) > OPEN_INTENTS:
            del self._sent[next(iter(self._sent))]  # a world that never tells ends

    def ended(self, answer: ActResult) -> Sent:
        """An action's end that came after `act` had returned, or before; what it is the end of."""
        sent = self._sent.pop(answer.id, Sent(call="", name=""))
        self._journal.append("outcome", {"action": answer.id, "state": str(answer.state), "text": answer.text})
        self._tell("done", action=sent.name or answer.id, state=str(answer.state), text=answer.text)
        return sent

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
                open_[str(event.data.get("action"))] = Sent(call="", name=str(event.data.get("name", "")))
        for number, sent in open_.items():
            self._expect(number, sent)
        for number in open_:
            await self._world.query(number)


def result_of(answer: ActResult) -> Result:
    """What the model is told of an action."""
    if answer.state == "done":
        return Result(text=answer.text or "done")
    if answer.state == "unknown":
        return Result(text=f"[the outcome is unknown: {answer.error_message or 'no answer in time'}]", error=True)
    return Result(text=f"[{answer.state}] {answer.text or answer.error_message or answer.error_code or ''}".strip(), error=True)


def news_of(answer: ActResult, name: str) -> str:
    """The same as news, for a mind that does not wait for it any more."""
    return f"What became of your earlier action {name or answer.id}: {answer.state}. {answer.text or answer.error_message or ''}".strip()


def arguments_text(arguments: Mapping[str, Any], name: str) -> str:
    """A text argument, or "" where it is none."""
    value = arguments.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""
