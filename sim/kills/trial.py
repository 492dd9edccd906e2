"""A world and an NPC under kill -9: both as their users run them, in processes of their own, killed at seeded random instants.

Invariant: this process only starts, kills (by process id), listens and writes down; what held is `judge`'s to say. Instants are drawn
from the seed; what the two are doing at that moment is what the machine made of it, so a run finds other moments each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sim import product
from sim.kills.judge import Disk, Mind, Verdict, World, judge
from sim.messages_api import MessagesAPI, Record, Reply
from sim.reading import Reading

NPC = "Oda"
WINDOW = 16_000
RULE = "Never leave the pier."
PERSONA = """
[wake]
idle_s = 3600.0
idle_max_s = 7200.0
gather_s = 0.0

[budget]
dollars_per_day = 100000.0

[memory]
recall = false
"""
#: Shares of the kinds of kill, and of those that do not wait until the last one is got over.
KINDS = (("world", 0.45), ("npc", 0.45), ("both", 0.1))
HASTY = 0.15
#: Seconds that it goes well between two kills, at most; and how long after its start a process is killed that is not waited for.
CALM_S, HASTY_WORLD_S, HASTY_NPC_S = 0.5, 0.7, 2.5
#: Model calls of one turn after which the stand-in rests, and the share of its actions that take time.
ROUNDS, CARRIED = 2, 0.25
PATIENCE_S = 120.0
PORTS = range(20_000, 30_000)  # below those that the system gives to clients: one that asks a closed port may be answered by itself
_KILLED = -signal.SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run.

    Attributes:
        kills: how many processes are killed.
        within_s: seconds in which the NPC must act again once the world is back.
        keep: a folder for the NPC's home and the world's store; None for a temporary one that is removed.
    """

    kills: int = 200
    seed: int = 7
    within_s: float = 1.0
    keep: Path | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was done and seen.

    Attributes:
        killed: how often each was, by kind of kill.
        hasty: how many of the kills came before the last one was got over.
        back_ms: from the world's listening to the next action carried out, where the NPC had stayed alive.
        start_ms: from the start of an NPC's process to its first action.
        attach_ms: from the start of an NPC's process to its first attach.
    """

    killed: dict[str, int] = field(default_factory=dict)
    hasty: int = 0
    back_ms: list[float] = field(default_factory=list)
    start_ms: list[float] = field(default_factory=list)
    attach_ms: list[float] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    requests: int = 0
    asked: int = 0
    seconds: float = 0.0

    @property
    def kills(self) -> int:
        """Processes killed."""
        return sum(n * (1 + (kind == "both")) for kind, n in self.killed.items())


async def run(options: Options, *, on_kill: Callable[[Outcome], None] = lambda _: None) -> Outcome:
    """Runs it to the end; `on_kill` is called after each kill.

    Raises:
        product.ProductError: the product or the world did not start.
    """
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(TemporaryDirectory(prefix="npc-kills-", ignore_cleanup_errors=True)))
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "home").exists():
            raise product.ProductError(f"{folder / 'home'} exists already: name another folder, this begins with an empty one")
        trial = _Trial(options, folder, on_kill)
        start = time.monotonic()
        async with MessagesAPI(trial, WINDOW, on_request=trial.requested, keep=1) as api:
            await trial.live(api.base_url)
        trial.outcome.seconds = time.monotonic() - start
        return trial.outcome


class _Trial:
    """A run under way. It is also the model: each of its calls has a number that it never gives again."""

    def __init__(self, options: Options, folder: Path, on_kill: Callable[[Outcome], None]) -> None:
        self.options, self.folder, self.on_kill = options, folder, on_kill
        self.outcome = Outcome()
        self.world, self.mind = World(), Mind()
        self.random = random.Random(options.seed)  # instants and victims
        self.whims = random.Random(options.seed + 1)  # the model's
        self.harbour: _Harbour | None = None
        self.npc: product.Attached | None = None
        self.port = _free_port()
        self.lives = 0
        self.changed = asyncio.Event()
        self.base_url = ""
        # Moments on the clock that all processes of a machine share: attached_at is the first since the NPC's start.
        self.up_at = self.attached_at = self.acted_at = self.npc_at = 0.0
        self.fresh_world = self.fresh_npc = False  # started since the last action
        self.settled = ""

    # The model

    def reply(self, body: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        reading = Reading(body)
        offered = [name for name in ("mark", "carry") if name in reading.tools]
        if not offered or reading.round >= ROUNDS:
            return Reply(content=[{"type": "text", "text": "(The tide turns.)"}])
        calls = []
        for _ in range(self.whims.choice((1, 1, 2))):
            name = "carry" if self.whims.random() < CARRIED and "carry" in offered else offered[0]
            number = len(self.mind.asked) + 1
            self.mind.asked[number] = name
            calls.append({"type": "tool_use", "name": name, "input": {"n": number}})
        return Reply(content=calls)

    def requested(self, record: Record) -> None:
        """A request has come."""
        self.mind.sent(record.body)
        if record.outcome == "refused":
            self.outcome.verdict.find("P13", f"a request was refused: {record.error_message}")
        self._stir()

    # The world

    def printed(self, line: Mapping[str, Any]) -> None:
        """A line of one of the world's processes."""
        self.world.printed(line)
        out, at = self.outcome, float(line.get("at", 0.0))
        if "up" in line:
            self.up_at, self.fresh_world = at, True
        elif "attached" in line:
            self.attached_at = self.attached_at or at
        elif "act" in line:
            if self.fresh_npc and self.attached_at > self.up_at:  # the world was there all the while
                out.attach_ms.append(1e3 * (self.attached_at - self.npc_at))
                out.start_ms.append(1e3 * (at - self.npc_at))
            elif self.fresh_world and not self.fresh_npc:
                out.back_ms.append(1e3 * (at - self.up_at))
            self.acted_at, self.fresh_world, self.fresh_npc = at, False, False
        elif "settled" in line:
            self.settled = line["name"]
        self._stir()

    def _stir(self) -> None:
        self.changed.set()

    async def until(self, done: Callable[[], object]) -> bool:
        """Waits until `done()` is true; False if it does not become so, or a process ends by itself."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not done():
                    if self._ended():
                        return False
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True

    def _ended(self) -> bool:
        """Whether a process has ended that nobody killed."""
        return bool((self.npc and self.npc.gone.done()) or (self.harbour and self.harbour.ended))

    # The run

    async def live(self, base_url: str) -> None:
        """From the first start to the verdict."""
        self.base_url = base_url
        try:
            await self._start_world()
            await self._start_npc()
            if not await self.until(lambda: self.acted_at):
                raise product.ProductError(f"the NPC did not act: {self._last_words()}")
            while self.outcome.kills < self.options.kills and await self._kill():
                self.on_kill(self.outcome)
            whole = await self._settle()
        finally:
            await self._end()
        earlier = self.outcome.verdict.findings
        self.outcome.verdict = judge(self.world, self.mind, await self._disk())
        self.outcome.verdict.findings[:0] = earlier
        self.outcome.requests, self.outcome.asked = self.mind.requests, len(self.mind.asked)
        if whole and (late := [ms for ms in self.outcome.back_ms if ms > 1e3 * self.options.within_s]):
            text = f"{len(late)} times the NPC did not act within {self.options.within_s:g} s of the world being back: {max(late):.0f} ms"
            self.outcome.verdict.find("W3", text)

    async def _kill(self) -> bool:
        """One kill, after everybody is well again or, now and then, in the middle of getting up. False: they did not get well."""
        r, out = self.random, self.outcome
        kind = r.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        if out.kills + 2 > self.options.kills and kind == "both":
            kind = "world"
        if r.random() < HASTY and out.killed:
            out.hasty += 1
            await asyncio.sleep(r.uniform(0, HASTY_NPC_S if self.fresh_npc else HASTY_WORLD_S))
        else:
            if not await self.until(lambda: self.up_at and not self.fresh_world and not self.fresh_npc):
                self._unwell("did not act again")
                return False
            await asyncio.sleep(r.uniform(0, CALM_S))
        if self._ended():
            self._unwell("ended by itself")
            return False
        out.killed[kind] = out.killed.get(kind, 0) + 1
        victims: list[asyncio.subprocess.Process] = []
        if kind != "npc" and self.harbour:
            victims.append(self.harbour.process)
        if kind != "world" and self.npc:
            victims.append(self.npc.process)
        for victim in victims:
            victim.kill()
        if kind != "npc" and self.harbour:
            await self.harbour.gone
            self.harbour, self.fresh_world = None, False
            self.up_at = 0.0
            await self._start_world(wait=False)
        if kind != "world" and self.npc:
            await self.npc.gone
            await self._start_npc()
        return True

    def _unwell(self, what: str) -> None:
        who = "the world" if self.harbour and self.harbour.ended else "the NPC"
        self.outcome.verdict.find("W3", f"after {self.outcome.kills} kills {who} {what}: {self._last_words()}")

    def _last_words(self) -> str:
        if self.harbour and self.harbour.ended:
            return " ".join((self.folder / "world.log").read_text(encoding="utf-8", errors="replace")[-1_000:].split())[-400:]
        return self.npc.last_words() if self.npc else ""

    async def _start_world(self, *, wait: bool = True) -> None:
        self.lives += 1
        words = (str(self.port), str(self.folder / "world.db"), str(self.lives), NPC)
        with (self.folder / "world.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sim.kills.harbour", *words), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=log, limit=1 << 20,
            )  # fmt: skip
        self.harbour = _Harbour(process, self.printed)
        self.harbour.gone.add_done_callback(lambda _: self._stir())
        if wait and not await self.until(lambda: self.up_at):
            raise product.ProductError(f"the world did not start: {self._last_words()}")

    async def _start_npc(self) -> None:
        character = product.Character(
            name=NPC, home=self.folder / "home", description="You work at the harbour.", constitution=(RULE,), model="claude-haiku-5-5",
            window=WINDOW, persona=PERSONA,
        )  # fmt: skip
        self.npc_at, self.attached_at, self.fresh_npc = time.monotonic(), 0.0, True
        self.npc = await product.attach(character, world=f"ws://127.0.0.1:{self.port}", base_url=self.base_url)
        self.npc.gone.add_done_callback(lambda _: self._stir())

    async def _settle(self) -> bool:
        """The world tells its last line; it, and the end of every action, reach the NPC."""
        if not self.harbour or not await self.until(lambda: self.up_at and not self.fresh_world and not self.fresh_npc):
            self._unwell("did not act again")
            return False
        self.harbour.process.send_signal(signal.SIGUSR1)
        if not await self.until(lambda: self.settled):
            self._unwell("did not take in what was told")
            return False
        if not await self.until(lambda: self.settled in self.mind.seen):
            self._unwell("did not tell its model what it had heard last")
            return False
        # What is under way ends before the NPC is asked to: the last turn, and actions that take their time.
        until = time.monotonic() + PATIENCE_S
        while await self._untold() and time.monotonic() < until:  # noqa: ASYNC110 - another process's file tells nobody
            await asyncio.sleep(0.2)
        return True

    async def _untold(self) -> bool:
        """Whether the NPC has not written down the end of something that was done."""
        told = {data["action"] for _, _, data in await _journal(self.folder / "home", "outcome")}
        return any(name not in told for name, _, _ in self.world.acts)

    async def _end(self) -> None:
        if self.npc and not self.npc.gone.done() and (code := await self.npc.stop()) not in (0, _KILLED):
            self.outcome.verdict.find("W3", f"the NPC ended with status {code}: {self._last_words()}")
        if self.harbour:
            await self.harbour.stop()

    async def _disk(self) -> Disk:
        home = self.folder / "home"
        books = (await product.ledger(home)).books
        heard, intents, outcomes, events, lost = [], [], [], {}, 0
        for event, kind, data in await _journal(home, "observation", "intent", "outcome", "attached"):
            match kind:
                case "observation" if data.get("seq"):  # news of the runtime itself has no number
                    heard.append((int(data["seq"]), str(data.get("text"))))
                    events[int(data["seq"])] = event
                case "intent":
                    intents.append(str(data["action"]))
                case "outcome":
                    outcomes.append((str(data["action"]), str(data["state"])))
                case "attached":
                    lost += int(data.get("lost", 0))
        return Disk(
            heard=heard, intents=intents, outcomes=outcomes, events=events, lost=lost, merged=books.merged, omitted=books.omitted
        )


class _Harbour:
    """A process of the world; its lines are read to their end, also after its death."""

    def __init__(self, process: asyncio.subprocess.Process, printed: Callable[[Mapping[str, Any]], None]) -> None:
        self.process = process
        self.gone = asyncio.create_task(self._read(printed))

    @property
    def ended(self) -> bool:
        """Whether it has ended, and all that it printed was read."""
        return self.gone.done()

    async def _read(self, printed: Callable[[Mapping[str, Any]], None]) -> None:
        assert self.process.stdout is not None  # noqa: S101 - it was asked for
        async for line in self.process.stdout:
            printed(json.loads(line))
        await self.process.wait()

    async def stop(self) -> None:
        """Ends it in order."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.gone), PATIENCE_S)
        except TimeoutError:
            self.process.kill()
            await self.gone


async def _journal(home: Path, *kinds: str) -> list[tuple[int, str, Mapping[str, Any]]]:
    """Number, kind and data of events in the NPC's journal, oldest first, as `npc log` reads them from its disk.

    Raises:
        product.ProductError: it cannot be read.
    """
    words = (*product.COMMAND, "log", "--home", str(home), "--json", "--last", str(10**9), *(x for kind in kinds for x in ("--kind", kind)))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
    out, err = await process.communicate()
    if process.returncode:
        raise product.ProductError(f"npc log failed ({process.returncode}): {err.decode('utf-8', 'replace')[-300:]}")
    events = [json.loads(line) for line in out.splitlines()]
    return [(int(event["id"]), str(event["kind"]), event["data"]) for event in events]


def _free_port() -> int:
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise product.ProductError("no port of this machine is free for a world")
