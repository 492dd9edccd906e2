"""The policy of one NPC: a verdict for every act, before it is begun.

Invariants: nothing is done without a verdict that allows it. What is not known, what fails and what takes too long is a no. While the
operator's file is broken every write is refused. Every refusal is an event (`policy refused`), every act that reaches wide another
(`wide action`), and the operator is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from npc.gates import Facts
from npc.policy.file import InForce, PolicyFile
from npc.policy.grid import Say, Standing, Verdict, decide, standing
from npc.policy.hooks import HOOKS, Act, Hooks, objection
from npc.policy.rates import Rates
from npc.policy.rules import Tool
from npc.secrets import Redactor
from npc.state import State
from runtime.store.journal import Journal
from world_adapter.frames import ActionSpec

#: An operator is told of acts of one name that reach wide once in so many seconds; each of them is an event.
PAGE_EACH_S = 3_600.0
SHOWN_CHARS = 200


async def _nothing() -> Facts:
    return Facts(state=State())


class Policy:
    """Judges. `path` is the operator's file; `speaks` knows the actions that say something, by name.

    `worlds` gives the names and the address of the world that the NPC is in, `facts` what a hook may look at; `tell` is for whoever
    watches, `page` tells the operator. Building it reads the file and raises `Misconfigured`.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Callable[[], float],
        path: Path | None = None,
        speaks: Callable[[str], bool] = lambda _: False,
        worlds: Callable[[], Iterable[str]] = lambda: (),
        facts: Callable[[], Awaitable[Facts]] = _nothing,
        tell: Callable[..., None] = lambda _what, **_: None,
        page: Callable[[str], None] = lambda _: None,
        redactor: Redactor | None = None,
        hooks: Hooks = HOOKS,
    ) -> None:
        self._journal, self._clock, self._speaks, self._worlds, self._facts = journal, clock, speaks, worlds, facts
        self._tell, self._page = tell, page
        self._file = PolicyFile(path, redactor=redactor or Redactor(), hooks=hooks)
        self._rates = Rates(clock)
        self._causes: tuple[int, frozenset[str]] = (-1, frozenset())
        self._broken = ""  # what the operator was told of
        self._told: dict[str, tuple[float, int]] = {}  # by action: when the operator was last told of it, and how often it was done since

    # ------------------------------------------------------------ the rules
    @property
    def in_force(self) -> InForce:
        """The rules as they were last read."""
        return self._file.current

    def injected(self, action: str) -> Mapping[str, str]:
        """Arguments that are filled in on the way to the world: secrets, so for the wire only, and for the worlds that the file names."""
        tool = self.in_force.rules.tools.get(action)
        return self.in_force.injected.get(action, {}) if tool and self._here(tool) else {}

    async def take_up(self) -> None:
        """What earlier lives did counts. Raises StoreError."""
        await self._rates.take_up(self._journal)

    def refresh(self) -> None:
        """Read the file afresh. The operator hears of a broken one at once, and when it is mended.

        Blocks on the disk, for a microsecond or two where nothing changed.
        """
        now = self._file.read()
        if now.broken != self._broken:
            self._broken = now.broken
            what = f"{now.broken}; until that is mended nothing is done but looking" if now.broken else "the rules are whole again"
            self._journal.append("policy broken" if now.broken else "policy mended", {"text": what})
            self._page(what)

    def standing(self, spec: ActionSpec) -> Standing:
        """What holds for an action."""
        return standing(spec, self.in_force.rules.tools.get(spec.name), speech=self._speaks(spec.name))

    def offered(self, actions: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
        """Of a world's actions those that the mind is shown: none that it may never use, and of each no argument that is filled in."""
        return tuple(_without(spec, self.injected(spec.name)) for spec in actions if not self._never(spec))

    def _never(self, spec: ActionSpec) -> str:
        """Why an action is out of the question, whatever its arguments and whoever asks, "" if it is not."""
        rules = self.in_force.rules
        if of := rules.releases.get(spec.name):
            return f"{spec.name} is the last step of {of}, and done by that alone"
        if rules.defaults.unlisted == "deny" and spec.name not in rules.tools:
            return f"the operator's rules do not name {spec.name}"
        verdict = decide(self.standing(spec), rules.defaults)
        return verdict.why if verdict.say is Say.DENY else ""

    def moved(self, turn: int, causes: Iterable[str]) -> None:
        """Who moved the NPC in a turn, besides those that are known already; where nobody did, it was itself."""
        known = self._causes[1] if self._causes[0] == turn else frozenset()
        self._causes = (turn, (known | frozenset(causes)) or frozenset({"self"}))

    def _here(self, tool: Tool) -> bool:
        """Whether it may be done in this world. A secret goes by the address alone, for a world can call itself what it likes."""
        names = [*self._worlds()]
        return tool.worlds is None or not {*tool.worlds}.isdisjoint(names[:1] if tool.inject else names)

    # ------------------------------------------------------------ before an act
    async def judge(self, spec: ActionSpec, arguments: Mapping[str, Any], *, turn: int, approved: bool = False) -> Verdict:
        """What becomes of an act. `approved`: a person has allowed just this, so nobody is asked again; all else holds."""
        try:
            self.refresh()
            verdict = await self._judged(spec, arguments, turn, approved=approved)
        except Exception as error:  # noqa: BLE001 - a check that fails is a no, whatever failed
            verdict = Verdict(say=Say.DENY, why=f"it could not be checked ({type(error).__name__})")
        if verdict.say is Say.DENY:
            self.refused(spec.name, verdict.why, turn=turn)
        return verdict

    async def _judged(self, spec: ActionSpec, arguments: Mapping[str, Any], turn: int, *, approved: bool) -> Verdict:
        force = self.in_force
        s = self.standing(spec)
        why = (
            self._barred(s)
            or self._never(spec)
            or self._misplaced(s.tool, turn, approved=approved)
            or self._given(spec.name, arguments)
            or self._limited(s)
            or await self._objection(s, arguments, turn)
        )
        if why:
            return Verdict(say=Say.DENY, why=why)
        verdict = decide(s, force.rules.defaults)
        if approved and verdict.say is Say.ASK:
            return replace(verdict, say=Say.ESCROW if s.tool.escrow else Say.ALLOW)
        return verdict

    def _misplaced(self, tool: Tool, turn: int, *, approved: bool) -> str:
        """Why it is not for here, or not for whoever asks. Behind what a person allowed stands that person."""
        if not self._here(tool):
            return "the operator's rules do not allow it in this world"
        causes = {"operator"} if approved else self._causes[1] if self._causes[0] == turn else set()
        if tool.asked_by is not None and (not causes or not causes <= {*tool.asked_by}):
            who = ", ".join(sorted(causes - {*tool.asked_by})) or "nobody that is known"
            return f"only {' or '.join(tool.asked_by) or 'nobody'} may bring you to it, and behind it now: {who}"
        return ""

    def _given(self, action: str, arguments: Mapping[str, Any]) -> str:
        taken = sorted({*self.injected(action)} & {*arguments})
        return f"{taken[0]} is filled in for you and not yours to give" if taken else ""

    async def _objection(self, s: Standing, arguments: Mapping[str, Any], turn: int) -> str:
        names = dict.fromkeys((*(() if s.effect == "read" else self.in_force.rules.defaults.hooks), *s.tool.hooks))
        if not names:
            return ""
        act = await self._act(s, arguments, turn)
        for name in names:
            if why := await objection(name, self.in_force.hooks[name], act):
                return why
        return ""

    async def _act(self, s: Standing, arguments: Mapping[str, Any], turn: int) -> Act:
        causes = self._causes[1] if self._causes[0] == turn else frozenset()
        return Act(
            action=s.action, arguments=arguments, facts=await self._facts(), effect=s.effect, reversible=s.reversible, reach=s.reach,
            causes=causes, world=next(iter(self._worlds()), ""),
        )  # fmt: skip

    async def check_held(self, spec: ActionSpec, arguments: Mapping[str, Any], held: Mapping[str, Any], *, turn: int) -> str:
        """What speaks against making a held thing final, "" for nothing: the escrow's own check, and all hooks once more."""
        try:
            self.refresh()
            s = self.standing(spec)
            if self.in_force.broken or s.tool.escrow is None:
                return "the operator's rules have changed meanwhile"
            act = replace(await self._act(s, arguments, turn), held=held)
            check = s.tool.escrow.check
            why = await objection(check, self.in_force.hooks[check], act) or await self._objection(s, arguments, turn)
        except Exception as error:  # noqa: BLE001 - a check that fails is a no, whatever failed
            why = f"it could not be checked ({type(error).__name__})"
        if why:
            self.refused(spec.name, why, turn=turn)
        return why

    def begin(self, spec: ActionSpec) -> str:
        """An action is about to leave, and is counted; or why it must not.

        Between this and the verdict others may have left, and the operator may have written other rules: long words are said in parts.
        """
        self.refresh()
        s = self.standing(spec)
        if why := self._barred(s) or self._never(spec) or self._limited(s):
            return why
        self._rates.count(spec.name)
        return ""

    def _barred(self, s: Standing) -> str:
        if not self.in_force.broken or s.effect == "read":
            return ""
        return "the operator's rules cannot be read just now, so nothing is done but looking"

    def _limited(self, s: Standing) -> str:
        return self._rates.refusal(s.action, s.tool, None if s.effect == "read" else self.in_force.rules.defaults)

    def count(self, action: str) -> None:
        """A step of an escrow is about to leave: it counts, and nothing holds it up half-way."""
        self._rates.count(action)

    # ------------------------------------------------------------ what is told
    def refused(self, action: str, why: str, *, turn: int) -> None:
        """An act was refused."""
        self._journal.append("policy refused", {"action": action, "why": why}, turn=turn)
        self._tell("policy refused", action=action, why=why)

    def wide(self, action: str, arguments: Mapping[str, Any], *, turn: int) -> None:
        """An act that touches more than the NPC and whom it deals with is about to be done."""
        self._journal.append("wide action", {"action": action, "args": arguments}, turn=turn)
        self._tell("wide action", action=action, args=dict(arguments))
        now = self._clock()
        at, since = self._told.get(action, (float("-inf"), 0))
        if at <= now < at + PAGE_EACH_S:
            self._told[action] = (at, since + 1)
            return
        self._told[action] = (now, 0)
        more = f", after {since} more of that name that you were not told of one by one" if since else ""
        self._page(f"the NPC does something that reaches wide: {action} {str(dict(arguments))[:SHOWN_CHARS]}{more}")


def _without(spec: ActionSpec, arguments: Mapping[str, str]) -> ActionSpec:
    """An action without some of its arguments."""
    if not arguments:
        return spec
    schema = dict(spec.schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        schema["properties"] = {name: told for name, told in properties.items() if name not in arguments}
    if isinstance(required := schema.get("required"), list):
        schema["required"] = [name for name in required if name not in arguments]
    return replace(spec, schema=schema)
