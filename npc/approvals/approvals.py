"""The NPC's side of approvals: acts that wait for a person are put down, and what was approved is done once.

Invariants: a request is on disk before the mind hears of it; nothing but the operator's word, bound to the digest of what he saw, leads to
the act; it is claimed on disk before it is begun, and what was claimed in an earlier life is begun again only where the journal has no
intent of it; how each request ends is told to the mind once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from npc.approvals.card import clock as time_of_day
from npc.approvals.records import DamagedRecordsError, Decision, Limits, Records
from npc.approvals.stored import Asker, Standing, Stored
from npc.approvals.visible import folded
from npc.approvals.webhook import Webhook
from npc.errors import NpcError
from npc.policy.asking import Request
from runtime.host import Result
from runtime.store.errors import StoreError
from runtime.store.events import Event
from runtime.store.journal import Journal

log = structlog.get_logger("npc.approvals")

#: How an act ended that went by way of an escrow, by the last step of that.
_ESCROWED = {
    "released": Standing.DONE, "over": Standing.FAILED, "reverted": Standing.FAILED, "stuck": Standing.UNKNOWN,
}  # fmt: skip
#: The newest claims, and ends that were told, among which one is looked for.
RECENT = 2_000
#: So many intents and outcomes after the claim are looked through for what became of an approved act.
FOLLOWED = 5_000
#: After so many seconds nobody waits any more to hear from the world what became of one.
PATIENCE_S = 3_600.0

#: Does what was approved under an operation id, after all other checks: `Hands.run_approved`.
Perform = Callable[[Request, str], Awaitable[Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the approvals need of the NPC that they belong to.

    Attributes:
        notice: makes news of some words of the runtime, urgent or not.
        page: tells the operator of something that is wrong.
        show: tells whoever watches.
        spawn: runs something beside the loop.
        there: whether the NPC is in this world just now, and knows what can be done there.
        turn: the turn it is in.
        write_log: a line for the operator in log.md; blocks on the disk.
    """

    notice: Callable[[str, bool], None]
    page: Callable[[str], None]
    show: Callable[[str, Mapping[str, Any]], None]
    spawn: Callable[[Awaitable[None]], None]
    there: Callable[[str], bool]
    turn: Callable[[], int]
    write_log: Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What the journal says of an approved act: whether it was begun, and how it ended (None: not yet)."""

    begun: bool
    standing: Standing | None = None
    text: str = ""


class Approvals:
    """Of one NPC; `npc.policy.asking.Asks`. `take_up` before anything else, then `look` every second."""

    def __init__(
        self, *, records: Records, limits: Limits, npc: str, journal: Journal, around: Surroundings, perform: Perform,
        clock: Callable[[], float], webhook: Webhook | None = None,
    ) -> None:  # fmt: skip
        self._records, self._limits, self._npc, self._journal = records, limits, npc, journal
        self._around, self._perform, self._clock, self._webhook = around, perform, clock, webhook
        self._identity = ""
        self._ready = False  # the file is there and may be written
        self._live = True  # there may be something to look after
        self._newest = 0
        self._doing: set[int] = set()  # what this life carries out
        self._posting: set[int] = set()
        self._fault = ""  # what was told to the operator and still is so

    # -- the mind's side

    async def ask(self, request: Request) -> str:
        """See `Asks.ask`: put it down, tell the operator, and say what the mind is to know meanwhile."""
        asker = Asker(npc=self._npc, identity=self._identity)
        try:
            await self._prepare()
            asked = await asyncio.to_thread(self._records.ask, request, asker, self._limits, now=self._clock())
        except (NpcError, StoreError) as error:
            self._failed(error)
            return "a person must allow this, and the request could not be stored, so nobody was asked"
        self._live = True
        stored = asked.stored
        if stored is None:
            self._write("approval not asked", {"name": request.action, "why": asked.why})
            return f"{asked.why}; go on with something else"
        if not asked.new and stored.standing is not Standing.OPEN:
            return f"just this was approved already, request {stored.id}, and is being done: you will be told"
        if asked.new:
            self._newest = stored.number
            await self._announce(stored, request)
        again = "" if asked.new else " already"
        lapses = time_of_day(stored.lapses_at)
        return f"waits for the operator{again}: request {stored.id}; it lapses at {lapses}; go on with something else, you will be told"

    async def _announce(self, stored: Stored, request: Request) -> None:
        data = {
            "number": stored.number, "id": stored.id, "name": request.action, "args": dict(request.arguments), "rule": request.rule,
            "digest": stored.digest, "lapses_at": stored.lapses_at,
        }  # fmt: skip
        self._write("approval asked", data)
        self._around.show("approval", {"id": stored.id, "action": request.action, "lapses": time_of_day(stored.lapses_at)})
        words = f"{stored.id} waits for you until {time_of_day(stored.lapses_at)}: {folded(request.action)}"
        await asyncio.to_thread(self._around.write_log, f"For the operator: {words}. `npc approvals list` shows it.")
        self._post(stored)

    # -- the routine's side

    async def take_up(self, identity: str) -> None:
        """What an earlier life left: requests that wait go on waiting, what it had begun is looked up in the journal."""
        self._identity = identity
        asked = await self._journal.events(kinds=("approval asked",), limit=1, newest=True)
        self._newest = max((_number(event) for event in asked), default=0)
        if not self._records.path.exists() and not self._newest:
            self._live = False
            return  # nothing was ever asked: a home without a file of requests stays without
        try:
            await self._prepare()
            for stored in await asyncio.to_thread(self._records.all, live=True):
                if stored.standing is Standing.ACTING:
                    await self._pick_up(stored)
        except (NpcError, StoreError) as error:
            self._failed(error)

    async def _pick_up(self, stored: Stored) -> None:
        """Claimed by an earlier life: nothing was begun, or the journal says what came of it, or the world will."""
        if stored.operation != self._operation(stored.number):
            await self._finish(stored, Standing.UNKNOWN, "it was begun in a life whose journal is gone")
            return
        fate = await self._fate(stored)
        if not fate.begun:
            await asyncio.to_thread(self._records.release, stored.number)
            self._write("approval released", {"id": stored.id})
        elif fate.standing:
            await self._finish(stored, fate.standing, fate.text)

    async def look(self) -> None:
        """Look after everything that is not over: what lapses, what was decided, what was begun, and what the mind is to be told."""
        if not self._live:
            return
        try:
            await self._prepare()
            live = await asyncio.to_thread(self._records.all, live=True)
            now = self._clock()
            if any(_due(stored, now) for stored in live):
                for over in await asyncio.to_thread(self._records.lapse, now=now):
                    self._write("approval lapsed", {"id": over.id, "why": over.outcome})
            for stored in live:
                if not _due(stored, now):
                    await self._look_after(stored)
            untold = await asyncio.to_thread(self._records.untold)
            for stored in untold:
                await self._tell(stored)
            self._live = bool(live)
        except (NpcError, StoreError) as error:
            self._failed(error)
        else:
            self._fault = ""

    async def _look_after(self, stored: Stored) -> None:
        if stored.number in self._doing:
            return
        if stored.standing is Standing.OPEN:
            if not stored.posted:
                self._post(stored)
        elif stored.standing is Standing.APPROVED:
            if self._around.there(_world_of(stored)):
                self._doing.add(stored.number)
                self._around.spawn(self._carry_out(stored.number))
        elif (fate := await self._fate(stored)).standing:
            await self._finish(stored, fate.standing, fate.text)
        elif self._clock() > stored.good_until + PATIENCE_S:
            await self._finish(stored, Standing.UNKNOWN, "the world never said what came of it")

    # -- doing

    async def _carry_out(self, number: int) -> None:
        """Claim what was approved, do it, and write down what came of it."""
        try:
            operation = self._operation(number)
            claimed = await asyncio.to_thread(self._records.claim, number, operation, now=self._clock(), home=self._identity)
            if claimed is None:
                return
            data = {"id": claimed.id, "digest": claimed.digest, "by": claimed.by, "operation": claimed.operation}
            self._write("approval begun", data)
            try:
                result = await self._perform(claimed.request, claimed.operation)
            except Exception as error:  # whatever fails here is told and written down: the claim must not stay without an end
                log.exception("an approved act failed", request=claimed.id)
                result = Result(text=f"[it failed: {type(error).__name__}]", error=True)
            fate = await self._fate(claimed)
            if fate.begun and fate.standing is None:
                self._around.notice(f"The operator approved {claimed.id} ({claimed.request.action}): it has begun.", True)
                return  # how it ends is told, and is found in the journal then
            standing = fate.standing or (Standing.REFUSED if result.error else Standing.DONE)
            await self._finish(claimed, standing, result.text or fate.text)
        except (NpcError, StoreError) as error:
            self._failed(error)
        finally:
            self._doing.discard(number)

    async def _finish(self, stored: Stored, standing: Standing, outcome: str) -> None:
        if ended := await asyncio.to_thread(self._records.finish, stored.number, standing, outcome, now=self._clock()):
            await self._tell(ended)

    async def _fate(self, stored: Stored) -> Fate:
        """What the journal says of it. An intent is on disk before anything is sent: without one, nothing was.

        The claim is in the journal before the intent, so one is looked for behind it, however much has happened since.
        """
        claims = await self._journal.events(kinds=("approval begun",), limit=RECENT, newest=True)
        claim = next((event for event in claims if event.data.get("operation") == stored.operation), None)
        if claim is None:
            return Fate(begun=False)
        events = await self._journal.events(after=claim.id, kinds=("intent", "outcome", "escrow"), limit=FOLLOWED)
        mine = [event for event in events if event.data.get("call") == stored.operation]
        if escrow := next((event for event in mine if event.kind == "escrow"), None):
            steps = [event for event in events if event.kind == "escrow" and event.data.get("of") == escrow.id]
            last = steps[-1].data if steps else {}
            return Fate(begun=True, standing=_ESCROWED.get(str(last.get("step"))), text=str(last.get("why", "")))
        begun = [str(event.data.get("action")) for event in mine if event.kind == "intent"]
        if not begun:
            return Fate(begun=False)
        ends = {str(event.data.get("action")): event for event in events if event.kind == "outcome"}
        ended = [ends[action] for action in begun if action in ends]
        if len(ended) < len(begun):
            return Fate(begun=True)
        text = "; ".join(dict.fromkeys(str(event.data.get("text") or "") for event in ended))
        return Fate(begun=True, standing=_worst(ended), text=text)

    def _operation(self, number: int) -> str:
        return f"approved-A{number}-{self._identity}"

    # -- telling

    async def _tell(self, stored: Stored) -> None:
        """How a request ended is news for the mind, once: the journal takes the news and the mark of it in one transaction."""
        events = await self._journal.events(kinds=("approval told",), limit=RECENT, newest=True)
        if not any(event.data.get("id") == stored.id for event in events):
            self._write("approval told", {"id": stored.id, "standing": str(stored.standing), "outcome": stored.outcome})
            self._around.notice(_news(stored), stored.standing is not Standing.LAPSED)
            self._around.show("approval over", {"id": stored.id, "standing": str(stored.standing), "outcome": folded(stored.outcome)})
        await self._journal.commit()
        await asyncio.to_thread(self._records.told, stored.number)

    def _post(self, stored: Stored) -> None:
        if self._webhook and stored.number not in self._posting:
            self._posting.add(stored.number)
            self._around.spawn(self._posted(stored, self._webhook))

    async def _posted(self, stored: Stored, webhook: Webhook) -> None:
        """What was not taken at all stays marked as being posted: it is not tried again in this life."""
        try:

            def page(why: str) -> None:
                self._around.page(f"the webhook at {webhook.host} and {stored.id}: {why}; `npc approvals list` shows the request")

            posted = await webhook.post(stored, slow=page)
            if posted.why:
                page(posted.why)
            if posted.taken:
                await asyncio.to_thread(self._records.posted, stored.number)
            data = {"id": stored.id, "taken": posted.taken, "why": posted.why}
            self._write("approval posted", data)
            self._around.show("approval posted", data)
            if posted.decision:
                await self._decide(posted.decision)
        except (NpcError, StoreError) as error:
            self._failed(error)

    async def _decide(self, decision: Decision) -> None:
        answered = await asyncio.to_thread(self._records.decide, decision, now=self._clock())
        self._write("approval answered", {"id": f"A{decision.number}", "by": decision.by, "said": answered.said, "ok": answered.ok})

    # -- what goes wrong

    async def _prepare(self) -> None:
        """The file is there and sound, or what is wrong with it is raised."""
        if not self._ready:
            if aside := await asyncio.to_thread(self._records.begin, after=self._newest, now=self._clock()):
                self._around.page(aside)
            self._ready = True

    def _failed(self, error: NpcError | StoreError) -> None:
        """Nothing is approved while the file cannot be trusted or used; the operator hears of it once."""
        if isinstance(error, DamagedRecordsError) or not self._records.path.exists():
            self._ready = False
        if str(error) != self._fault:
            self._fault = str(error)
            self._around.page(f"approvals: {error}")

    def _write(self, kind: str, data: Mapping[str, Any]) -> None:
        self._journal.append(kind, data, turn=self._around.turn())


def _due(stored: Stored, now: float) -> bool:
    """Whether its time is over."""
    return (stored.standing is Standing.OPEN and stored.lapses_at <= now) or (
        stored.standing is Standing.APPROVED and stored.good_until <= now
    )


def _world_of(stored: Stored) -> str:
    try:
        return stored.request.world
    except ValueError:
        return ""


def _worst(ended: list[Event]) -> Standing:
    """Of several parts of one act the worst end."""
    states = {str(event.data.get("state")) for event in ended}
    if "unknown" in states:
        return Standing.UNKNOWN
    contradicted = any(event.data.get("contradicted") for event in ended)
    return Standing.DONE if states == {"done"} and not contradicted else Standing.FAILED


def _news(stored: Stored) -> str:
    """What the mind is told of an end. Who says what stays apart: the outcome is the world's word, the reason the operator's."""
    try:
        what = f"{stored.id} ({folded(stored.request.action)})"
    except ValueError:
        what = stored.id
    because = f" He writes: {stored.because}" if stored.because else ""
    outcome = f' What came of it: "{folded(stored.outcome)}"' if stored.outcome else ""
    match stored.standing:
        case Standing.DENIED:
            return f"The operator denied {what}: it was not done; do not ask for the same again.{because}"
        case Standing.LAPSED:
            return f"{what} lapsed and was not done: {stored.outcome}."
        case Standing.DONE:
            return f"The operator approved {what}: it is done.{outcome}{because}"
        case Standing.REFUSED:
            return f"The operator approved {what}, but it was not done, another check refused it.{outcome}{because}"
        case Standing.FAILED:
            return f"The operator approved {what}, and it was tried in vain.{outcome}{because}"
        case _:
            return f"The operator approved {what}, and it is unknown whether it was done: look before you go on.{outcome}{because}"


def _number(event: Event) -> int:
    number = event.data.get("number")
    return number if isinstance(number, int) else 0
