"""The NPC's hands: the world's actions, run as tools.

Invariants: an intent is on disk before its action is sent; an action is sent once, and after a crash the world is asked what became of it;
an action's end reaches whoever waits for it, once.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from npc.tools import NOTE, RECALL, Toolbox, missing
from runtime.core.effects import Call
from runtime.host import Result
from runtime.store.journal import Journal
from world_adapter.frames import ActionSpec, ActResult
from world_adapter.world import World

ACT_TIMEOUT_S = 30.0
#: How many of the newest intents are looked at for actions whose end was never told.
OPEN_INTENTS = 500

#: Words in parentheses are thoughts, by the doctrine.
_THOUGHT = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")

Tell = Callable[..., None]


class Hands:
    """Runs actions on one world. `durable` returns when the journal is on disk; `tell` is for whoever watches."""

    def __init__(self, *, journal: Journal, world: World, durable: Callable[[], Awaitable[None]], tell: Tell, say: str) -> None:
        self.toolbox = Toolbox()
        self.tools = self.toolbox.tools
        self.version = 0
        self.identity = ""
        self._journal, self._world, self._durable, self._tell, self._say = journal, world, durable, tell, say
        self._calls: dict[str, str] = {}  # action id -> call id
        self._spoke_in = -1  # the newest turn with words aloud

    def offer(self, actions: tuple[ActionSpec, ...]) -> None:
        """The world's list of actions is replaced."""
        self.toolbox = Toolbox(actions)
        self.tools = self.toolbox.tools
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
        await self._durable()
        self._calls[number] = call.id
        self._tell("act", action=action.name, args=dict(call.arguments))
        answer = await self._world.act(id=number, name=action.name, args=call.arguments, timeout_s=ACT_TIMEOUT_S)
        if answer.state == "accepted":
            return Result(ongoing=True)
        if answer.state != "unknown":
            self._calls.pop(number, None)
            self._journal.append("outcome", {"action": number, "state": str(answer.state)}, turn=turn)
        self._tell("done", action=action.name, state=str(answer.state), text=answer.text)
        result = result_of(answer)
        words = next((v for v in call.arguments.values() if isinstance(v, str) and v.strip()), "")
        if action.name == self._say and words and not result.error:
            self._spoke_in = turn
            # Own words aloud are kept when the turn is compacted.
            return Result(text=result.text, gist=(f"I said: {' '.join(words.split())}"[:220],))
        return result

    def ended(self, answer: ActResult) -> str:
        """An action's end that came after `act` had returned; the call that it belongs to, or ""."""
        self._journal.append("outcome", {"action": answer.id, "state": str(answer.state), "text": answer.text})
        self._tell("done", action=answer.id, state=str(answer.state), text=answer.text)
        return self._calls.pop(answer.id, "")

    async def ask_outcomes(self) -> None:
        """Ask what became of actions of an earlier life whose end was never told."""
        open_: dict[str, None] = {}
        for event in await self._journal.events(kinds=("intent", "outcome"), limit=2 * OPEN_INTENTS, newest=True):
            if event.kind == "intent":
                open_[str(event.data.get("action"))] = None
            else:
                open_.pop(str(event.data.get("action")), None)
        for number in open_:
            if number not in self._calls:
                await self._world.query(number)


def result_of(answer: ActResult) -> Result:
    """What the model is told of an action."""
    if answer.state == "done":
        return Result(text=answer.text or "done")
    if answer.state == "unknown":
        return Result(text=f"[the outcome is unknown: {answer.error_message or 'no answer in time'}]", error=True)
    return Result(text=f"[{answer.state}] {answer.text or answer.error_message or answer.error_code or ''}".strip(), error=True)


def news_of(answer: ActResult) -> str:
    """The same as news, for a mind that does not wait for it any more."""
    return f"What became of your action {answer.id}: {answer.state}. {answer.text or answer.error_message or ''}".strip()


def arguments_text(arguments: Mapping[str, Any], name: str) -> str:
    """A text argument, or "" where it is none."""
    value = arguments.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""
