"""`npc sim bench intake`: what an NPC can be told, against a loop that only receives and unpacks the same frames.

Invariant: the product's own path is measured, from a real socket through link and attachment to a journal on disk and back by
acknowledgements; the bare loop alternates with it in the same run, so that what else the machine does hits both. Worlds and model are
processes of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgpack
from rich.table import Table
from websockets.asyncio.client import connect

from npc.character import Character
from npc.home import Home
from npc.living import settings_of
from npc.persona import Persona, parse_persona
from runtime.agent import TimedCount
from runtime.core.effects import End
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.profiles import profile
from runtime.store.journal import Journal
from sim.crowd import SUBPROTOCOL
from world_adapter.client import WebsocketWorld

NPC = "Oda"
RATIO, LAG_MS, REPLY_MS = 0.5, 50.0, 50.0
#: Memory is flat if the second half of a flood adds no more than this, in megabytes.
GROWTH_MB = 16.0
_GRID_S = 0.005
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """One round of both: observations a second, and how many acknowledgements came for all of them."""

    bare: float
    durable: float
    acks: int

    @property
    def ratio(self) -> float:
        """What the product reaches of the bare loop."""
        return self.durable / self.bare


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """A flood with turns going on. Times in milliseconds, memory in megabytes.

    Attributes:
        told, stored, acked: observations that were sent, that stand in the journal, and up to which number they were acknowledged.
        lag: of the event loop, on a grid of 5 ms: p50, p99, the longest.
        reply: from the sending of a line for the NPC to the arrival of the request that holds it, without the time in which the model
            was still busy with the request before: p50, p99, the longest.
        lines, missed: such lines, and how many no request held.
        requests: to the model, meanwhile.
        memory: resident, at the half and at the end.
    """

    rate: float
    seconds: float
    told: int
    stored: int
    acked: int
    lag: tuple[float, float, float]
    reply: tuple[float, float, float]
    lines: int
    missed: int
    requests: int
    memory: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """All of it."""

    batch: int
    races: Sequence[Race] = ()
    flood: Flood | None = None
    missed_bounds: Sequence[str] = field(default_factory=tuple)

    @property
    def ratio(self) -> float:
        """The median of the rounds."""
        return statistics.median(race.ratio for race in self.races) if self.races else 0.0


def measure(
    *, rounds: int = 5, count: int = 200_000, batch: int = 100, seconds: float = 60.0, rate: float = 5_000.0, addressed: float = 2.0,
    folder: Path | None = None,
) -> Intake:
    """Measures, and says which bounds were missed. `rounds` or `seconds` of 0 leave a part out."""
    gc.collect()
    gc.freeze()
    count_tokens = TimedCount(Counter.load().count)
    races = [asyncio.run(_race(count, batch, folder, count_tokens)) for _ in range(rounds)]
    flood = asyncio.run(_flood(seconds, rate, addressed, folder, count_tokens)) if seconds else None
    found = Intake(batch=batch, races=races, flood=flood)
    return replace(found, missed_bounds=tuple(_missed(found)))


def _missed(found: Intake) -> list[str]:
    missed = [f"ratio {found.ratio:.2f} under {RATIO}"] if found.races and found.ratio < RATIO else []
    if flood := found.flood:
        if flood.stored != flood.told or flood.acked != flood.told:
            missed.append(f"{flood.told} told, {flood.stored} stored, acknowledged up to {flood.acked}")
        if flood.lag[1] > LAG_MS:
            missed.append(f"loop lag {flood.lag[1]:.1f} ms over {LAG_MS:.0f}")
        if flood.reply[1] > REPLY_MS:
            missed.append(f"line to request {flood.reply[1]:.1f} ms over {REPLY_MS:.0f}")
        if flood.missed:
            missed.append(f"{flood.missed} lines for the NPC in no request")
        if flood.memory[1] - flood.memory[0] > GROWTH_MB:
            missed.append(f"memory grew from {flood.memory[0]:.0f} to {flood.memory[1]:.0f} MB")
    return missed


# One round of both


async def _race(count: int, batch: int, folder: Path | None, tokens: TimedCount) -> Race:
    async with _process("told", str(count), str(batch)) as world:
        port = (await _line(world))["port"]
        async with connect(f"ws://127.0.0.1:{port}", subprotocols=[SUBPROTOCOL], compression=None, max_size=None, ping_interval=None) as ws:
            await ws.recv()
            await ws.send(msgpack.packb({"op": "attach", "npc": NPC, "agent": "bare"}))
            heard = 0
            while heard < count:
                frame = msgpack.unpackb(await ws.recv(decode=False))
                heard += len(frame.get("items", ()))
            await ws.send(msgpack.packb({"op": "ack", "seq": heard}))
            bare = await _line(world)
    async with _process("told", str(count), str(batch)) as world:
        port = (await _line(world))["port"]
        async with _life(f"ws://127.0.0.1:{port}", "http://127.0.0.1:9", folder, tokens, gather_s=3_600.0):
            durable = await _line(world)
    if durable["acked"] != count:
        raise RuntimeError(f"{durable['acked']} of {count} observations were acknowledged")
    return Race(bare=count / bare["seconds"], durable=count / durable["seconds"], acks=durable["acks"])


# A flood


async def _flood(seconds: float, rate: float, addressed: float, folder: Path | None, tokens: TimedCount) -> Flood:
    async with _process("model") as model, _process("paced", str(seconds), str(rate), str(addressed), NPC) as world:
        base_url = f"http://127.0.0.1:{(await _line(model))['port']}"
        url = f"ws://127.0.0.1:{(await _line(world))['port']}"
        async with _life(url, base_url, folder, tokens, gather_s=0.5) as journal:
            lags: list[float] = []
            ticker = asyncio.create_task(_tick(lags))
            half = asyncio.create_task(_resident_after(seconds / 2))
            done = await _line(world)
            memory = (await half, _resident())
            ticker.cancel()
            stored = 0
            after = 0
            while page := await journal.events(after=after, kinds=("observation",), limit=10_000):
                stored += sum(1 for event in page if event.data.get("seq"))
                after = page[-1].id
        if model.stdin is not None:
            model.stdin.close()
        seen = await _line(model)
    sent = {int(n): at for n, at in done["sent"].items()}
    came = {int(n): at for n, at in seen["came"].items()}
    waits = [(came[n] - at - _thinking(seen["busy"], at, came[n])) * 1e3 for n, at in sent.items() if n in came]
    return Flood(
        rate=rate, seconds=seconds, told=done["told"], stored=stored, acked=done["acked"], lag=_shares([x * 1e3 for x in lags]),
        reply=_shares(waits), lines=len(sent), missed=len(sent) - len(waits), requests=seen["requests"], memory=memory,
    )  # fmt: skip


def _thinking(busy: Sequence[tuple[float, float]], since: float, until: float) -> float:
    """How long of that time the model was thinking about something else: that wait is the model's own."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in busy)


async def _tick(lags: list[float]) -> None:
    """How late the loop is at each point of a grid."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        now = loop.time()
        while due <= now:
            lags.append(now - due)
            due += _GRID_S
        await asyncio.sleep(due - now)


def _shares(values: list[float]) -> tuple[float, float, float]:
    """Median, 99th percentile, maximum."""
    ordered = sorted(values) or [0.0]
    return (ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], ordered[-1])


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MB


async def _resident_after(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return _resident()


# Who lives, and who is beside it


@contextlib.asynccontextmanager
async def _life(url: str, base_url: str, folder: Path | None, tokens: TimedCount, *, gather_s: float) -> AsyncIterator[Journal]:
    """A character in this process, attached to `url`, with its home on disk."""
    with tempfile.TemporaryDirectory(dir=folder) as place, Home(Path(place) / "home") as home:
        text = f'[character]\nname = "{NPC}"\ndescription = "You keep the mill."\n'
        who: Persona = parse_persona(text).adjusted(window=12_000, base_url=base_url)
        facts = profile(who.model.id)
        client = ModelClient(api_key="stand-in", base_url=base_url)
        world = WebsocketWorld(url, npc=NPC)
        async with await Journal.open(home.database_path) as journal:
            character = Character(
                persona=who, home=home, journal=journal, model=client, world=world, count=tokens, cacheable=facts.min_cacheable,
                settings=replace(settings_of(who, facts), gather_s=gather_s, idle_s=3_600.0, idle_max_s=3_600.0),
            )  # fmt: skip
            life: asyncio.Task[End] = asyncio.create_task(character.live())
            try:
                yield journal
            finally:
                character.stop()
                await life
                await client.close()


@contextlib.asynccontextmanager
async def _process(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of `sim.crowd`; gone with the block."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sim.crowd", *words, stdin=pipe, stdout=pipe, limit=64 * 1024 * 1024,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        await process.wait()


async def _line(process: asyncio.subprocess.Process) -> Any:
    """The next line that it prints."""
    line = await process.stdout.readline() if process.stdout is not None else b""
    if not line:
        raise RuntimeError("a process of the measurement ended before its time")
    return json.loads(line)


def rendered(found: Intake) -> Table:
    """For a terminal."""
    table = Table("what", "found", "bound", title="Intake")
    for n, race in enumerate(found.races, 1):
        table.add_row(
            f"round {n}: bare loop, durable and acknowledged", f"{race.bare:,.0f} and {race.durable:,.0f} a second, {race.acks} acks",
            f"{race.ratio:.2f}",
        )  # fmt: skip
    if found.races:
        table.add_row(f"durable of bare, median, frames of {found.batch}", f"{found.ratio:.2f}", f"at least {RATIO}")
    if flood := found.flood:
        table.add_row("told, stored, acknowledged", f"{flood.told:,}, {flood.stored:,}, {flood.acked:,}", "all the same")
        table.add_row("loop lag, p50, p99, longest", _ms(flood.lag), f"p99 at most {LAG_MS:.0f} ms")
        table.add_row(f"line to request, p50, p99, longest ({flood.lines} lines)", _ms(flood.reply), f"p99 at most {REPLY_MS:.0f} ms")
        table.add_row("lines in no request; requests", f"{flood.missed}; {flood.requests}", "0")
        table.add_row("memory at the half, at the end", f"{flood.memory[0]:.0f}, {flood.memory[1]:.0f} MB", f"+{GROWTH_MB:.0f} MB")
    return table


def _ms(values: tuple[float, float, float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values) + " ms"
