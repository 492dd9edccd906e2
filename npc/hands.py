"""The NPC's hands: the world's actions, run as tools.

Invariants: an intent is on disk before its action is sent; an action is sent once, and after a crash the world is asked what became of it;
an action's end reaches whoever waits for it, once, and no other call of the same id: action ids carry the operation; an action whose intent
cannot be stored is not sent, not now and not later; its gate is read once more when all waiting is over, just before it leaves.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from npc.body import Body, strives
from npc.callcheck import CallCheck
from npc.catalogue import Search
from npc.company import Company
from npc.discretion import Discretion
from npc.policy.asking import Asks, Request
from npc.policy.escrow import Escrows
from npc.policy.grid import Say, Verdict
from npc.policy.policy import Policy
from npc.repetition import Repetition
from npc.schemas import properties_of
from npc.speech import LONGEST_WAIT_S, Pace, field_of
from npc.told import from_journal
from npc.tools import OWN, Toolbox, missing
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
#: Actions that speak, besides the one that the persona names.
SAYING = frozenset({"whisper", "shout", "yell", "tell"})
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
    them, and are looked for as `search` says; `discretion` looks at all words before they leave. `policy` gives
    the verdict on every act, and `asks` puts before a person what it wants asked (None: then it is not done); `context` gives the mind's
    words beside a call, and what it read before.
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
        search: Search | None = None,
        repetition: Repetition | None = None,
        policy: Policy | None = None,
        asks: Asks | None = None,
        context: Callable[[Call], tuple[str, tuple[str, ...]]] = lambda _: ("", ()),
        store_s: float = STORE_S,
        stop_s: float = STOP_S,
    ) -> None:
        self.body, self._refuse, self._own, self._discretion = body, refuse, tuple(own), discretion
        self._room, self._count, self._search = room, count, search
        self.policy = policy or Policy(journal, clock=time.time, speaks=lambda name: name == say or name in SAYING)
        self.asks, self._context = asks, context
        self._declared: tuple[ActionSpec, ...] = ()  # all that the world has, what the mind is not shown too
        self._world_known = asyncio.Event()
        self._judging = asyncio.Lock()
        self.escrows = Escrows(
            journal, world=world.url, perform=self._step, find=self._find, page=lambda text: tell("alarm", text=text)
        )
        self._offered: tuple[ActionSpec, ...] | None = None
        self._offered_by = self.policy.in_force  # the rules by which they are
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
        self.check = CallCheck(
            log=journal.append, tell=tell, clock=body.clock, standing=lambda: body.standing, repetition=repetition or Repetition()
        )  # fmt: skip
        self.notice: Callable[[str], None] = lambda _words: None  # tells the mind what no result will tell it
        self.voice = Voice(company=company, perform=self._act, log=journal.append)

    def offer(self, actions: tuple[ActionSpec, ...]) -> None:
        """The world's list of actions is replaced; the same list again, as after each attach, changes nothing."""
        self._declared, self._offered_by = actions, self.policy.in_force
        self._world_known.set()
        actions = self.policy.offered(actions)
        if actions == self._offered:
            return
        self._offered = actions
        self.toolbox = Toolbox(actions, own=self._own, room=self._room, count=self._count, first=self._say, search=self._search)
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

    def search_ourselves(self) -> bool:
        """The endpoint does not know its own search: from now on ours is used. Whether that changed anything."""
        if self._search is None or self._search.way != "api":
            return False
        self._search, known, self._offered = replace(self._search, way="own"), self._offered is not None, None
        if known:
            self.offer(self._declared)
        return True

    def heed(self) -> None:
        """The operator's rules are as their file says now: what the mind is shown goes by them."""
        self.policy.refresh()
        # An act may have come across the new rules before.
        if self._offered is not None and self.policy.in_force is not self._offered_by:
            self.offer(self._declared)

    def limit(self, limits: Limits) -> None:
        """What the world bears from one NPC is as it says now."""
        self.voice.say_chars, self._pace = limits.say_chars, Pace(limits.acts_per_s)

    @property
    def names(self) -> list[str]:
        """All tools that are shown."""
        return [str(tool["name"]) for tool in self.tools if "input_schema" in tool]

    def own_schema(self, name: str) -> Mapping[str, Any] | None:
        """What one of the runtime's own tools declares, None where it is none that is shown."""
        if not name.startswith(OWN):
            return None
        return next((tool["input_schema"] for tool in self.tools if tool["name"] == name), None)

    @property
    def moving(self) -> list[str]:
        """Names of the long actions under way that move the body."""
        going = (self._sent.get(number) for number in self._going)
        return list(dict.fromkeys(sent.name for sent in going if sent and sent.action and sent.action.moves_body))

    @property
    def doing(self) -> str:
        """What the body does just now, or did last, as it completes "while you ..."."""
        return "were speaking" if self.voice.speaking else self._busy_with or "were busy"

    async def run(self, call: Call, *, op: int, turn: int) -> Result:
        """Run a call of one of the world's actions."""
        action = self.toolbox.actions.get(call.name)
        if action is None:
            return self.check.unknown(call, self.names, among=self.toolbox.actions, turn=turn)
        speaks = self._speaks(action)
        checked = self.check.fitted(call, action.schema, turn=turn, speaks=speaks)
        if isinstance(checked, Result):
            return checked
        if not speaks and (refused := self.check.repeated(action.name, checked.call, turn=turn)):
            return refused
        with self.check.under_way(action.name, checked.call):
            result = await self._permitted(action, checked.call, op=op, turn=turn)
        if checked.note and result.ongoing:
            self.notice(f"About your call of {call.name}: {checked.note}")
        return checked.told(result)

    def _speaks(self, action: ActionSpec) -> bool:
        return action.name == self._say or action.name in SAYING

    async def _permitted(self, action: ActionSpec, call: Call, *, op: int, turn: int) -> Result:
        """Run a call that can be made, if it may be."""
        verdict, why = await self._judged(action, call, turn=turn)
        if why:
            return Result(text=f"[not done: {why}]", error=True, denied=True)
        if verdict.say is Say.ASK:
            return await self._ask(action, call, verdict, op=op, turn=turn)
        return await self._do(action, call, verdict, op=op, turn=turn)

    async def run_approved(self, request: Request, *, turn: int = 0, call_id: str = "") -> Result:
        """Do what a person allowed, as it was frozen. Everything is checked again but the approval itself, and may still refuse.

        `call_id` stands in the intent, so that a later life can tell whether it was begun.
        """
        action = self._find(request.action)
        call = Call(id=call_id, name=request.action, arguments=request.arguments)
        if request.world != self._world.url or action is None:
            return Result(text=f"[not done: this world has no {request.action[:64]} now]", error=True)
        if lacking := missing(action.schema, {**call.arguments, **self.policy.injected(action.name)}):
            return Result(text=f"[not done: {action.name} needs {', '.join(lacking)} now]"[:500], error=True)
        verdict, why = await self._judged(action, call, turn=turn, approved=True)
        if why:
            return Result(text=f"[not done: {why}]", error=True)
        return await self._do(action, call, verdict, op=request.op, turn=turn, wait=True)

    async def _judged(self, action: ActionSpec, call: Call, *, turn: int, approved: bool = False) -> tuple[Verdict, str]:
        """The verdict on an act, and why it is not to be done, "" if nothing speaks against it."""
        async with self._judging:  # one after the other: what was called first is done first
            verdict = await self.policy.judge(action, call.arguments, turn=turn, approved=approved)
            return verdict, await self._refusal(action, call, verdict, turn=turn)

    async def _refusal(self, action: ActionSpec, call: Call, verdict: Verdict, *, turn: int) -> str:
        """Why an act is not to be done, "" if nothing speaks against it; the order is that of the checks."""
        if verdict.say is Say.DENY:
            return verdict.why
        if self._refuse and (why := await self._refuse(action.name)):
            return why
        if why := await self._indiscreet(action, call.arguments):
            return why
        if why := self.body.refusal(action, call.arguments):
            self._journal.append("goal refused", {"name": action.name, "args": call.arguments, "why": why}, turn=turn)
            self._tell("goal refused", action=action.name, why=why)
        return why

    async def _do(self, action: ActionSpec, call: Call, verdict: Verdict, *, op: int, turn: int, wait: bool = False) -> Result:
        """What is allowed is done, by way of its escrow where it has to be. `wait`: until all of a speech is said."""
        tool = self.policy.standing(action).tool
        if verdict.say is Say.ESCROW and tool.escrow:

            async def check(held: Mapping[str, Any]) -> str:
                again = await self.policy.check_held(action, call.arguments, held, turn=turn)
                return again or (await self._refuse(action.name) if self._refuse else "")

            if why := self.policy.begin(action):
                return self._refused(action, why, turn=turn)
            if verdict.wide:
                self.policy.wide(action.name, call.arguments, turn=turn)
            return await self.escrows.run(action, tool.escrow, call, check, op=op, turn=turn)
        if verdict.say is not Say.ALLOW:
            return self._refused(action, verdict.why, turn=turn)
        if verdict.wide:
            self.policy.wide(action.name, call.arguments, turn=turn)
        if self._speaks(action):
            return await self.voice.speak(action, call, op=op, turn=turn, wait=wait)
        return await self._act(action, call, op=op, turn=turn)

    async def _ask(self, action: ActionSpec, call: Call, verdict: Verdict, *, op: int, turn: int) -> Result:
        """Put an act before a person. It is not done now, whatever they are told."""
        if self.asks is None:
            return self._refused(action, f"{verdict.why}, and nobody can be asked here", turn=turn)
        standing = self.policy.standing(action)
        try:
            why, read = self._context(call)
            request = Request(
                action=action.name, arguments=call.arguments, why=why, read=read, reversible=standing.reversible, reach=standing.reach,
                rule=verdict.why, turn=turn, op=op, call=call.id, world=self._world.url,
            )  # fmt: skip
            said = await self.asks.ask(request)
        except Exception as error:  # noqa: BLE001 - whatever fails where a person should be asked, nobody has said yes
            return self._refused(action, f"{verdict.why}, and nobody could be asked ({type(error).__name__})", turn=turn)
        return Result(text=f"[not done yet: {said}]", error=True, denied=True)

    def _refused(self, action: ActionSpec, why: str, *, turn: int) -> Result:
        self.policy.refused(action.name, why, turn=turn)
        return Result(text=f"[not done: {why}]", error=True, denied=True)

    def _find(self, name: str) -> ActionSpec | None:
        """An action of the world by its own name, whether the mind is shown it or not."""
        return next((action for action in self._declared if action.name == name), None)

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
        call = Call(id=f"plain-{turn}", name=action.name, arguments=arguments)
        verdict, why = await self._judged(action, call, turn=turn)
        if why:
            return Result(text=f"[not said: {why}]", error=True)
        if verdict.say is not Say.ALLOW:
            return await self._ask(action, call, verdict, op=0, turn=turn)
        if verdict.wide:
            self.policy.wide(action.name, arguments, turn=turn)
        return await self.voice.speak(action, call, op=0, turn=turn, wait=True)

    async def _indiscreet(self, action: ActionSpec, arguments: Mapping[str, Any]) -> str:
        """Why an action would tell somebody what is none of his business, "" if it would not. Looking at something tells nobody."""
        if self._discretion is None or (action.effect == "read" and action.name not in SAYING and action.name != self._say):
            return ""
        return await self._discretion.refusal(action.name, arguments, to=addressee(arguments))

    async def _step(self, action: ActionSpec, call: Call, *, op: int, turn: int, back: bool) -> tuple[ActResult | None, str]:
        """One step of an escrow, with what the world said of it."""
        answers: list[ActResult] = []
        result = await self._act(action, call, op=op, turn=turn, part=True, answers=answers, back=back)
        return (answers[0], "") if answers else (None, result.text.strip("[]"))

    async def _act(
        self, action: ActionSpec, call: Call, *, turn: int, op: int = 0, part: bool = False, answers: list[ActResult] | None = None,
        back: bool = False,
    ) -> Result:  # fmt: skip
        """Send an action. `answers`: it is a step of an escrow, and takes what the world says of it; `back`: the one that gives back."""
        step = answers is not None  # half-way is no place to stop
        if wait := self._pace.wait_s(asyncio.get_running_loop().time(), however_long=step):
            if wait > LONGEST_WAIT_S and not step:
                return Result(text="[not done: the world takes no more acts in this time; do less at once]", error=True, denied=True)
            await asyncio.sleep(wait)
        if step:
            self.policy.count(action.name)
        elif why := self.policy.begin(action):
            return self._refused(action, why, turn=turn)
        number = f"{self.identity}-{op}-{self._journal.last_id + 1}"
        self._journal.append("intent", {"action": number, "call": call.id, "name": action.name, "args": call.arguments}, turn=turn)
        sent = Sent(call=call.id, op=op, name=action.name, action=action, args=call.arguments, turn=turn, part=part)
        self._expect(number, sent)
        try:
            async with asyncio.timeout(self._store_s):
                await self._durable()
        except TimeoutError:
            # Sent an hour later, when there is room again, it would surprise everybody.
            return self._unsent(number, "the disk takes nothing just now, so it could not be written down first; not sent", turn=turn)
        # The verdict may be half a minute old: an act waits for its pace and for the disk, words for those before them.
        if self._refuse and not back and (why := await self._refuse(action.name)):
            return self._unsent(number, why, turn=turn, denied=True)
        self._tell("act", action=action.name, args=dict(call.arguments))
        answer = await self._world.act(id=number, name=action.name, args=call.arguments, timeout_s=ACT_TIMEOUT_S)
        if answers is not None:
            answers.append(answer)
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

    def _unsent(self, number: str, why: str, *, turn: int, denied: bool = False) -> Result:
        """An action whose intent is stored, or may be, is not sent."""
        self._sent.pop(number, None)
        self._journal.append("outcome", {"action": number, "state": "failed", "text": "not sent"}, turn=turn)
        return Result(text=f"[not done: {why}]", error=True, denied=denied)

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
        # Goals that are out of reach are counted by the body, which knows more about them.
        if sent.action and tried and not self._speaks(sent.action) and not (result.error and strives(sent.action)):
            self.check.gave(sent.name, sent.args, result, changes=sent.action.effect == "write")
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
            if (name == self._say or name in SAYING) and isinstance(arguments, Mapping):
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

    async def mend(self) -> list[str]:
        """Give back what an earlier life left in escrow, as soon as the world has said what can be done; what the mind is to be told."""
        return await self.escrows.take_up(before=self.begun, there=self._world_known)


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
