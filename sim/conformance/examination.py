"""The order in which a strange world is put to the test.

Invariant: only actions that the world itself calls `read` are asked for, besides those that the caller named and one that is on no list;
nothing is acknowledged that the caller did not allow to be. Each step stands on a connection of its own, so a world that falls over in
one is still asked the others.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgpack

from sim.conformance import shapes
from sim.conformance.probe import JSON, MSGPACK, Facts, Frame, Probe, Shut
from sim.conformance.rules import Finding, Ledger, Verdict
from sim.conformance.stream import Stream
from world_adapter.addresses import is_loopback

UNLISTED = "conformance-no-such-action"
AGENT = "npc-sim-conformance/1"
MAX_READS = 3  # read actions that are tried
MALFORMED = 10
REFUSED = frozenset({401, 403})


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        reply_s: for an answer.
        listen_s: for something to happen around the NPC.
        settle_s: for a second answer that should not come.
        silence_s: for the two heartbeats of silence altogether; a longer heartbeat is not waited for.
    """

    reply_s: float = 10.0
    listen_s: float = 3.0
    settle_s: float = 0.5
    silence_s: float = 75.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to examine, and what is allowed.

    Attributes:
        url: ws:// or wss://.
        npc: whom to attach as; whoever plays it now is thrown out.
        token: for the world, None for none.
        acts: actions to ask for beside the read ones, by name, with their arguments.
        patience: see there.
    """

    url: str
    npc: str
    token: str | None = None
    acts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it. `unreached` is why nothing could be checked at all, "" if something could."""

    plan: Plan
    findings: Sequence[Finding]
    world: str = ""
    subprotocol: str = ""
    tried: Sequence[str] = ()
    unknown_ops: Sequence[str] = ()
    unreached: str = ""

    @property
    def held(self) -> bool:
        """Nothing broken, and something looked at."""
        return not self.unreached and all(f.verdict is not Verdict.BROKEN for f in self.findings)


class _GaveUpError(Exception):
    """A step cannot go on: what it would have shown stays unseen."""


async def examine(plan: Plan, *, on_step: Callable[[str], None] = lambda _: None) -> Outcome:
    """Puts one world through all steps; `on_step` is told what is looked at next. Never raises for what the world does."""
    return await _Examination(plan, on_step).run()


class _Examination:
    def __init__(self, plan: Plan, on_step: Callable[[str], None]) -> None:
        self.plan, self.patience = plan, plan.patience
        self.ledger = Ledger()
        self.facts = Facts(ledger=self.ledger, stream=Stream(self.ledger), send_s=self.patience.reply_s)
        self.on_step = on_step
        self.subprotocol = ""
        self.listed: dict[str, Frame] = {}
        self.tried: list[str] = []
        self.sent: dict[str, tuple[str, Mapping[str, Any]]] = {}  # name and arguments by action id
        self.asked: dict[str, int] = {}  # how often a final state of an id was asked for
        self.known: dict[str, Frame] = {}  # the final state of each id, as first told
        self.heard: list[int] = []  # numbers told on the first connection, none of them acknowledged
        self.next_seq = 1
        self.session = ""
        self._run = secrets.token_hex(4)
        self._ids = itertools.count(1)

    async def run(self) -> Outcome:
        steps: Sequence[tuple[str, Callable[[], Awaitable[None]]]] = (
            ("the subprotocols", self._subprotocols),
            ("what was not acknowledged", self._kept),
            ("resuming", self._resumes),
            ("malformed frames", self._malformed),
            ("a second attach", self._replaced),
            ("an NPC that does not exist", self._unknown_npc),
            ("a wrong token", self._token),
            ("silence", self._silence),
        )
        self.on_step("the greeting, and actions")
        try:
            await self._first()
        except _GaveUpError as error:
            return self._outcome(unreached=str(error))
        for name, step in steps:
            self.on_step(name)
            try:
                await step()
            except _GaveUpError as error:
                self.ledger.broken("welcome", f"when looking at {name}: {error}")
        return self._outcome()

    def _outcome(self, unreached: str = "") -> Outcome:
        if not unreached:
            self._finals()
            self.ledger.unseen("bye", "it closed no connection of its own accord meanwhile")
            self.ledger.unseen("observations", self._nothing_heard)
            self.ledger.unseen("numbering", self._nothing_heard)
        return Outcome(
            plan=self.plan, findings=self.ledger.findings(), world=self.facts.world, subprotocol=self.subprotocol, tried=self.tried,
            unknown_ops=sorted(self.facts.unknown_ops), unreached=unreached,
        )  # fmt: skip

    # Connections

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Probe]:
        """A connection whose hello has come."""
        opened = await Probe.open(
            self.plan.url, self.facts, token=self.plan.token, subprotocols=[self.subprotocol] if self.subprotocol else (MSGPACK, JSON),
        )
        if isinstance(opened, Shut):
            raise _GaveUpError(opened.why)
        try:
            hello = await opened.after(0, lambda f: f["op"] == "hello", self.patience.reply_s)
            if hello is None:
                raise _GaveUpError(f"no hello came{_closed(opened)}")
            yield opened
        finally:
            await opened.close()

    @asynccontextmanager
    async def attached(self, **fields: Any) -> AsyncIterator[Probe]:
        """A connection that was welcomed."""
        async with self.connected() as probe:
            await self.attach(probe, **fields)
            if probe.welcome is None:
                raise _GaveUpError(f"no welcome came{_closed(probe)}")
            yield probe

    async def attach(self, probe: Probe, *, npc: str = "", **fields: Any) -> None:
        """Attaches, and waits for the welcome or the end."""
        await probe.send("attach", npc=npc or self.plan.npc, agent=AGENT, **fields)
        await probe.after(0, lambda f: f["op"] == "welcome", self.patience.reply_s)

    def resume(self, seq: int, epoch: str = "") -> dict[str, Any]:
        """The `resume` of an attach."""
        return {"session": self.session, "epoch": epoch or self.facts.epoch, "seq": seq, "world": self.facts.world}

    # Steps

    async def _first(self) -> None:
        async with self.connected() as probe:
            self.subprotocol = probe.subprotocol
            await self.attach(probe, unheard_of={"by": "any version"})
            if probe.welcome is None:
                raise _GaveUpError(self._refused(probe))
            self.ledger.holds("hello")
            self._welcomed(probe.welcome)
            alive = await probe.alive(self.patience.reply_s)
            self.ledger.check("ping", alive, "no pong came")
            await probe.send("conformance.unheard-of", n=1)
            alive = await probe.alive(self.patience.reply_s)
            self.ledger.check("unknown-op", alive, f"after an unknown op no ping was answered{_closed(probe)}")
            number = next(self.facts.numbers)
            mark = len(probe.frames)
            await probe.send("ping", n=number, unheard_of=[1, {"a": None}])
            pong = await probe.after(mark, lambda f: f["op"] == "pong" and f.get("n") == number, self.patience.reply_s)
            self.ledger.check("unknown-keys", pong is not None, f"a ping with a key more was not answered{_closed(probe)}")
            await self._list(probe)
            await self._acts(probe)
            await probe.observed(3, self.patience.listen_s)
            self.heard = sorted(set(probe.seqs))
            await probe.cut()

    def _refused(self, probe: Probe) -> str:
        match probe.code:
            case 4004:
                return f"the world knows no NPC {self.plan.npc!r}: name one of its own with --npc"
            case 4001:
                return "the world refuses the token: put the NPC's into NPC_WORLD_TOKEN"
            case code if code is not None:
                return f"the world closed with {code} on the attach"
            case _:
                return f"no welcome came within {self.patience.reply_s:g} s of the attach"

    def _welcomed(self, welcome: Frame) -> None:
        self.session = str(welcome.get("session", ""))
        self.next_seq = int(welcome["next_seq"]) if shapes.is_whole(welcome.get("next_seq")) else 1
        fresh = welcome.get("resumed") is False
        self.ledger.check("welcome", fresh, "it says resumed to an attach without a resume", held=f"as {shapes.shown(welcome.get('npc'))}")

    async def _list(self, probe: Probe) -> None:
        listed = await probe.after(0, lambda f: f["op"] == "actions", self.patience.listen_s)
        if listed is None:
            self.ledger.unseen("actions", f"it sent no list within {self.patience.listen_s:g} s")
            return
        found = listed.get("actions")
        found = found if isinstance(found, list) else []
        faults = shapes.actions(found)
        for fault in faults:
            self.ledger.broken("actions", fault)
        if not faults:
            self.ledger.holds("actions", f"{len(found)} listed")
        self.listed = {str(each["name"]): each for each in found if isinstance(each, dict) and shapes.is_ident(each.get("name"))}

    # Actions

    async def _acts(self, probe: Probe) -> None:
        reads = [name for name, spec in self.listed.items() if spec.get("effect") == "read" and spec.get("moves_body") is not True]
        wanted = {name: sample(self.listed[name].get("schema")) for name in reads[:MAX_READS]} | dict(self.plan.acts)
        await self._act(probe, UNLISTED, {})
        ongoing = False
        for name, args in wanted.items():
            self.tried.append(name)
            ongoing = ongoing or self.listed.get(name, {}).get("kind") == "ongoing"
            await self._act(probe, name, args)
        if not ongoing:
            why = "no ongoing action was tried: name one with --act"
            self.ledger.unseen("accepted", why)
            self.ledger.unseen("cancel", why)
        for action in list(self.known):
            await self._again(probe, action)
        await self._never_seen(probe)

    async def _act(self, probe: Probe, name: str, args: Mapping[str, Any]) -> None:
        """One action, to its end; an ongoing one is cancelled."""
        action, mark = self._new_id(), len(probe.frames)
        await self._pace(probe)
        self.asked[action] = 1
        self.sent[action] = (name, args)
        await probe.send("act", id=action, name=name, args=dict(args))
        first = await probe.after(mark, _result_of(action), self.patience.reply_s)
        if first is None:
            self.ledger.broken("act-answered", f"{name} was not answered within {self.patience.reply_s:g} s{_closed(probe)}")
            return
        self.ledger.holds("act-answered")
        if name == UNLISTED and first.get("state") in {"done", "accepted"}:
            self.ledger.broken("act-answered", f"an action that is not on the list was answered with {first['state']}")
        last: Frame | None = first
        if first.get("state") == "accepted":
            spec = self.listed.get(name, {})
            self.ledger.check("accepted", spec.get("kind") == "ongoing", f"{name} is instant and was answered with accepted")
            await probe.send("cancel", id=action)
            last = await probe.after(mark, _final_of(action), self.patience.reply_s)
            why = f"{name} came to no end within {self.patience.reply_s:g} s of its cancel{_closed(probe)}"
            if last is None:
                self.ledger.broken("cancel", why)
                self.ledger.broken("accepted", why)
                return
            self.ledger.holds("cancel", f"{name} ended as {last.get('state')}")
        elif name != UNLISTED and self.listed.get(name, {}).get("kind") == "ongoing":
            self.ledger.unseen("cancel", f"{name} ended at once as {first.get('state')}")
            self.ledger.unseen("accepted", f"{name} ended at once as {first.get('state')}")
        if last is not None:
            self.known[action] = last

    async def _again(self, probe: Probe, action: str, *, later: bool = False) -> None:
        """Asks for a known id again: by query, by the same act, and by one of another name, which betrays a world that executes again."""
        rule = "act-remembered" if later else "act-once"
        query = await self._ask(probe, action, "query")
        if query is not None or not later:
            self._compare(rule if later else "query-known", action, query, "a query")
        for name, args in ((UNLISTED, {}),) if later else (self.sent[action], (UNLISTED, {})):
            await self._pace(probe)
            self._compare(rule, action, await self._ask(probe, action, "act", name=name, args=dict(args)), "the same id again")

    async def _ask(self, probe: Probe, action: str, op: str, **fields: Any) -> Frame | None:
        mark = len(probe.frames)
        self.asked[action] += 1
        await probe.send(op, id=action, **fields)
        return await probe.after(mark, _result_of(action), self.patience.reply_s)

    def _compare(self, rule: str, action: str, answer: Frame | None, how: str) -> None:
        known = self.known[action]
        if answer is None:
            self.ledger.broken(rule, f"{how} was not answered within {self.patience.reply_s:g} s")
            return
        same = all((answer.get(name) or None) == (known.get(name) or None) for name in ("state", "text", "data"))
        self.ledger.check(rule, same, f"{how} was answered with {_short(answer)} after {_short(known)}")

    async def _never_seen(self, probe: Probe) -> None:
        action, mark = self._new_id(), len(probe.frames)
        self.asked[action] = 1
        await probe.send("query", id=action)
        answer = await probe.after(mark, _result_of(action), self.patience.reply_s)
        state = "nothing" if answer is None else str(answer.get("state"))
        self.ledger.check("query-unknown", state == "unknown", f"it answered {state}")
        await probe.send("cancel", id=self._new_id())
        if not await probe.alive(self.patience.reply_s):
            self.ledger.broken("cancel", f"after a cancel of an unknown id no ping was answered{_closed(probe)}")
        await asyncio.sleep(self.patience.settle_s)

    def _finals(self) -> None:
        for action, asked in self.asked.items():
            came = len(self.facts.finals.get(action, ()))
            if came > asked:
                name = self.sent[action][0] if action in self.sent else "a query"
                self.ledger.broken("final-once", f"{name} was asked for {asked} times and had {came} final states")
            elif came:
                self.ledger.holds("final-once")

    async def _pace(self, probe: Probe) -> None:
        limits = probe.hello.get("limits") if probe.hello else None
        rate = limits.get("acts_per_s") if isinstance(limits, dict) else None
        if shapes.is_number(rate) and rate > 0:  # type: ignore[operator]
            await asyncio.sleep(min(1 / float(rate), self.patience.reply_s))  # type: ignore[arg-type]

    def _new_id(self) -> str:
        return f"conformance-{self._run}-{next(self._ids)}"

    # Numbers

    @property
    def _nothing_heard(self) -> str:
        return f"it told {self.plan.npc} nothing in {self.patience.listen_s:g} s: let something happen there, or wait longer (--listen)"

    async def _subprotocols(self) -> None:
        spoken = [self.subprotocol]
        for other in {MSGPACK, JSON} - {self.subprotocol}:
            opened = await Probe.open(self.plan.url, self.facts, token=self.plan.token, subprotocols=[other])
            if isinstance(opened, Probe):
                await opened.after(0, lambda f: f["op"] == "hello", self.patience.reply_s)
                await opened.close()
                spoken.append(other)
            elif opened.negotiated and "not offered" in opened.why:
                self.ledger.broken("subprotocol", opened.why)
        self.ledger.holds("subprotocol", " and ".join(name.removeprefix("npc-world.") for name in spoken))

    async def _kept(self) -> None:
        """The first connection was cut and had acknowledged nothing."""
        async with self.attached() as probe:
            for action in list(self.known)[:2]:
                await self._again(probe, action, later=True)
            if not self.heard:
                self.ledger.unseen("kept", self._nothing_heard)
                return
            await probe.observed(len(self.heard), self.patience.reply_s)
            missing = sorted(set(self.heard) - set(probe.seqs))
            why = f"{len(missing)} of {len(self.heard)} observations did not come again, the first is {missing[0] if missing else 0}"
            self.ledger.check("kept", not missing, why, held=f"{len(self.heard)} came again")
            self.heard = sorted(set(probe.seqs) | set(self.heard))
            if len(self.heard) >= 3:
                await probe.send("ack", seq=self.heard[0])
                await probe.alive(self.patience.reply_s)
            await probe.cut()

    async def _resumes(self) -> None:
        heard = self.heard
        # With three or more, one is acknowledged and one more is claimed by the resume alone.
        at = heard[1] if len(heard) >= 3 else heard[0] if len(heard) == 2 else heard[0] - 1 if heard else self.next_seq - 1
        async with self.attached(resume=self.resume(at)) as probe:
            welcome = probe.welcome or {}
            due = at + 1 + _lost(welcome)
            fits = welcome.get("resumed") is True and welcome.get("next_seq") == due
            said = f"resumed {welcome.get('resumed')}, next_seq {welcome.get('next_seq')}, lost {welcome.get('lost')}"
            self.ledger.check("resume", fits, f"a resume at {at} was welcomed with {said}", held=f"at {at}")
            rest = {seq for seq in heard if seq > at}
            if not rest:
                self.ledger.unseen("resend", self._nothing_heard)
                self.ledger.unseen("lost", self._nothing_heard)
                rest_came = True
            else:
                await probe.observed(len(rest), self.patience.reply_s)
                missing = rest - set(probe.seqs)
                why = f"{len(missing)} of {len(rest)} did not come again"
                rest_came = self.ledger.check("resend", not missing, why, held=f"{len(rest)} came")
            if heard and rest_came:
                await probe.send("ack", seq=heard[-1])
                await probe.alive(self.patience.reply_s)
        if heard:
            before = heard[0] - 1
            async with self.attached(resume=self.resume(before)) as probe:
                welcome = probe.welcome or {}
                due = before + 1 + _lost(welcome)
                said = f"next_seq {welcome.get('next_seq')}, lost {welcome.get('lost')}"
                why = f"a resume at {before}, all being acknowledged, was welcomed with {said}"
                self.ledger.check("lost", welcome.get("next_seq") == due, why, held=f"lost {welcome.get('lost')}")
                fresh = [seq for seq in heard if seq >= int(due)]
                await probe.observed(len(fresh), self.patience.reply_s)
                if missing := set(fresh) - set(probe.seqs):
                    self.ledger.broken("lost", f"{len(missing)} observations neither came nor were counted")
        async with self.attached(resume=self.resume(3, epoch=f"{self.facts.epoch}-never"[:128])) as probe:
            welcome = probe.welcome or {}
            self.ledger.check("other-epoch", welcome.get("resumed") is False, "a resume of an epoch that never was is called resumed")

    # Misuse

    async def _malformed(self) -> None:
        text = self.subprotocol == JSON
        kinds = (
            [b"{", b"[1, 2, 3]", b'{"n": 1}', b'{"op": 7}', b"nonsense"] if text
            else [b"\xc1", msgpack.packb([1, 2, 3]), msgpack.packb({"n": 1}), msgpack.packb({"op": 7}), b"\x82\xa2op"]
        )  # fmt: skip
        async with self.attached() as probe:
            await probe.send_raw(kinds[0])
            alive = await probe.alive(self.patience.reply_s)
            self.ledger.check("malformed-dropped", alive, f"after one malformed frame no ping was answered{_closed(probe)}")
            if not alive:
                self.ledger.unseen("malformed-closed", "one malformed frame was enough to end it")
                return
            for number in range(1, MALFORMED - 1):
                await probe.send_raw(kinds[number % len(kinds)])
            if not await probe.alive(self.patience.reply_s):
                self.ledger.broken("malformed-closed", f"nine malformed frames were enough{_closed(probe)}")
                return
            await probe.send_raw(kinds[0])
            code = await probe.until_closed(self.patience.reply_s)
            self.ledger.check("malformed-closed", code == 4002, f"after ten it {'stayed open' if code is None else f'closed with {code}'}")

    async def _replaced(self) -> None:
        async with self.attached() as older, self.attached() as newer:
            code = await older.until_closed(self.patience.reply_s)
            self.ledger.check("replaced", code == 4003, f"the older {'stayed open' if code is None else f'was closed with {code}'}")
            if not await newer.alive(self.patience.reply_s):
                self.ledger.broken("replaced", f"the newer one is of no use{_closed(newer)}")

    async def _unknown_npc(self) -> None:
        stranger = f"conformance-{secrets.token_hex(6)}"
        async with self.connected() as probe:
            await self.attach(probe, npc=stranger)
            if probe.welcome is not None:
                self.ledger.unseen("unknown-npc", f"it takes any name, {stranger} too")
                return
            code = await probe.until_closed(self.patience.reply_s)
            if code == 4001:
                self.ledger.unseen("unknown-npc", "the token is not for other names, so 4001 came first")
            else:
                self.ledger.check("unknown-npc", code == 4004, "it stayed open" if code is None else f"it closed with {code}")

    async def _token(self) -> None:
        wrong = f"conformance-{secrets.token_hex(8)}"
        opened = await Probe.open(self.plan.url, self.facts, token=wrong, subprotocols=[self.subprotocol])
        if isinstance(opened, Shut):
            refused = opened.status in REFUSED
            self.ledger.check("token", refused, f"the handshake failed: {opened.why}", held=f"with {opened.why} in the handshake")
            return
        try:
            await self.attach(opened)
            if opened.welcome is not None:
                if self.plan.token is None and is_loopback(urlsplit(self.plan.url).hostname or ""):
                    self.ledger.unseen("token", "it asks for none, which a world on loopback may do")
                else:
                    self.ledger.broken("token", "it lets a wrong token attach")
                return
            code = await opened.until_closed(self.patience.reply_s)
            self.ledger.check("token", code == 4001, "it stayed open" if code is None else f"it closed with {code}")
        finally:
            await opened.close()

    async def _silence(self) -> None:
        async with self.attached() as probe:
            beat = probe.hello.get("heartbeat_s") if probe.hello else None
            heartbeat_s = float(beat) if shapes.is_number(beat) else 30.0  # type: ignore[arg-type]
            slack_s = max(2.0, heartbeat_s / 4)
            slack_s += min(2.0, heartbeat_s)
            if 2 * heartbeat_s + slack_s > self.patience.silence_s:
                why = f"its heartbeat is {heartbeat_s:g} s: --silence {2 * heartbeat_s + slack_s:.0f} would wait for it"
                self.ledger.unseen("silence-asks", why)
                self.ledger.unseen("silence-ends", why)
                return
            loop = asyncio.get_running_loop()
            began = loop.time()  # before the last word that the world can have heard
            await probe.alive(self.patience.reply_s)
            probe.mute()
            mark = len(probe.frames)
            asked = await probe.after(mark, lambda f: f["op"] == "ping", 1.5 * heartbeat_s + slack_s / 2)
            if asked is None and probe.code is not None and loop.time() - began < 1.5 * heartbeat_s:
                self.ledger.unseen("silence-asks", "it closed first")
            else:
                self.ledger.check("silence-asks", asked is not None, f"no ping came in {loop.time() - began:.1f} s of silence")
            code = await probe.until_closed(max(0.0, 2 * heartbeat_s + slack_s - (loop.time() - began)))
            took = loop.time() - began
            early = code is not None and took < 1.95 * heartbeat_s
            ended = "it was still open" if code is None else "it closed"
            why = f"{ended} after {took:.1f} s of silence, its heartbeat is {heartbeat_s:g} s"
            self.ledger.check("silence-ends", code is not None and not early, why, held=f"after {took:.1f} s")


def sample(schema: object) -> dict[str, Any]:
    """Arguments that a schema asks for, as harmless as they come: what is required, by its default, first choice or type."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return {}
    required = schema.get("required")
    wanted = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return {name: _value(schema["properties"].get(name)) for name in wanted}


def _value(schema: object) -> Any:
    if not isinstance(schema, dict):
        return ""
    for keyword in ("default", "const"):
        if keyword in schema:
            return schema[keyword]
    for keyword in ("enum", "examples"):
        if isinstance(schema.get(keyword), list) and schema[keyword]:
            return schema[keyword][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    least = schema.get("minimum", 1)
    plain: Mapping[object, Any] = {"integer": least, "number": least, "boolean": False, "array": [], "object": {}}
    return plain.get(kind, "here") if isinstance(kind, str) else "here"


def _result_of(action: str) -> Callable[[Frame], bool]:
    return lambda f: f["op"] == "act_result" and f.get("id") == action


def _final_of(action: str) -> Callable[[Frame], bool]:
    return lambda f: f["op"] == "act_result" and f.get("id") == action and f.get("state") != "accepted"


def _lost(welcome: Frame) -> int:
    return int(welcome["lost"]) if shapes.is_whole(welcome.get("lost")) else 0


def _short(result: Frame) -> str:
    text = result.get("text")
    return f"{result.get('state')} {shapes.shown(text)}" if text else str(result.get("state"))


def _closed(probe: Probe) -> str:
    return "" if probe.code is None else f" (it closed with {probe.code})"
