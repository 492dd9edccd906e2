"""One NPC's life in the soak: the flood's turns in virtual time, the strikes of its script, the oracle after every step.

Invariant: everything that happens follows from the script. What the NPC is judged by was seen outside of it: requests by the strict
stand-in, actions by the world, what lies on its disk after it has ended.
"""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from npc.persona import Persona, parse_persona
from runtime.model.counting import Counter as Tokens
from sim.api.counting import TokenCounter
from sim.brains import KEEPSAKES, FloodBrain
from sim.clock import EPOCH_S
from sim.floods import DAY, RULE, Flood, Turn
from sim.messages_api import Late, MessagesAPI, Record
from sim.oracle import Finding, Judged, Oracle
from sim.product import Character as Files
from sim.report.figures import Life
from sim.report.recorder import Recorder
from sim.run import CONSTITUTION, DESCRIPTION
from sim.soak import disk
from sim.soak.books import Ledgers
from sim.soak.catalogue import CATALOGUE, Strike
from sim.soak.house import House
from sim.soak.loop import Standstill, VirtualLoop
from sim.soak.recovery import Blow, Recovery
from sim.soak.script import Script
from sim.soak.stage import GATE, PORT, VAULT, Stage
from sim.soak.strikes import Striker
from sim.soak.weather import THINK_S, Weather
from sim.soak.wire import FaultyWire

MODEL = "claude-haiku-5-5"
DAY_S = 86_400.0
#: Virtual seconds from one turn to the next: a day of the flood is a day.
TURN_S = DAY_S / DAY
#: Of these, how many the NPC may take for a turn.
PATIENCE_S = TURN_S - 30.0
#: Virtual seconds until somebody starts an NPC again that has ended by itself.
RESTART_S = 5.0
#: Faults after which the NPC believes its window to be smaller than it is, for a few answers.
LIES = frozenset({"context_exceeded", "usage_1_8"})
#: While these go on a life may fail to begin: no journal can be opened without a byte to write. Whoever starts it tries again.
NO_START = frozenset({"disk_full", "locked"})
#: So many ends by itself in a row are no life.
HOPELESS = 10
#: Virtual seconds in which what was told is on the NPC's disk, once nothing strikes any more.
SETTLE_S = 600.0
PERSONA = f"""
[budget]
dollars_per_day = 100000.0
[wake]
idle_s = 900.0
idle_max_s = 3600.0
[gates.{GATE}]
set_by = "world"
[[guards]]
action = "{VAULT}"
gate = "{GATE}"
equals = true
"""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a life came to. Sizes in tokens, times in virtual seconds, memory in megabytes.

    Attributes:
        rungs: how often each rung of the ladder ran.
        late_s: of each good turn: from the line to the request that ended it.
        rss_mb: of this process, at the end of each virtual day.
        longest: turns without a good one after the end of a fault, while no other struck.
        weathered: turns that were lost while a fault went on.
        tried: how often the model asked for the guarded action.
        seconds: by the wall clock; `cpu_s` of this process.
        figures: of the report, where they were asked for.
    """

    script: Script
    findings: list[Finding] = field(default_factory=list)
    blows: list[Blow] = field(default_factory=list)
    rungs: Counter[str] = field(default_factory=Counter)
    late_s: list[float] = field(default_factory=list)
    rss_mb: list[float] = field(default_factory=list)
    longest: int = 0
    turns: int = 0
    good: int = 0
    weathered: int = 0
    lives: int = 0
    kills: int = 0
    acts: int = 0
    tried: int = 0
    requests: int = 0
    dollars: float = 0.0
    tokens: int = 0
    cached: int = 0
    told: int = 0
    resets: int = 0
    alarms: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu_s: float = 0.0
    figures: Life | None = None


class Hopeless(RuntimeError):  # noqa: N818 - reads as what happened
    """This life cannot be lived any more."""


class Trial:
    """A life under way. `await live()` in a virtual loop."""

    def __init__(
        self, script: Script, folder: Path, *, on_turn: Callable[[Trial], None] = lambda _: None, record: bool = False
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise TypeError("a soak runs in a VirtualLoop")
        self.loop, self.script, self.turn, self._folder, self._on_turn = loop, script, -1, folder, on_turn
        self.recovery = Recovery()
        self.outcome = Outcome(script=script, blows=self.recovery.blows)
        self.oracle = Oracle(rule=RULE, window=script.window, count=TokenCounter().count, keepsakes=[text for _, _, text in KEEPSAKES])
        self.recorder = Recorder(script.npc, limit=script.window, clock=loop.time, wall=self.now) if record else None
        self._dice = random.Random(f"soak/{script.seed}/life")
        self._flood = Flood(seed=script.seed, window=script.window, npc=script.npc)
        self.stage = Stage(self._flood, clock=self.now, dice=self._dice, bug=script.bug)
        self._asked: Counter[str] = Counter()  # actions, by name
        self._ended: asyncio.Future[None] = loop.create_future()
        self._ends = 0  # that nobody had asked for, since the last good turn
        self._house: House | None = None
        self._striker: Striker | None = None

    def now(self) -> float:
        """Unix seconds, as the NPC's machine believes."""
        return EPOCH_S + self.loop.time() + (self._striker.jump if self._striker else 0.0)

    @property
    def house(self) -> House:
        """Where it lives."""
        assert self._house is not None  # noqa: S101 - from the beginning of the life on
        return self._house

    # -- the life

    async def live(self) -> Outcome:
        """From the first turn to the books."""
        script, network = self.script, self.loop.network
        weather = Weather(lambda: self._dice.uniform(*THINK_S))
        brain = FloodBrain(npc=script.npc, seed=script.seed)
        api = MessagesAPI(brain, script.window, on_request=self._judge, clock=self.loop.time, keep=1, faults=weather)
        wire = network.wires[PORT] = FaultyWire(self.loop, self._dice)
        await self.stage.open()
        async with api:
            house = self._house = House(
                self._persona(), self._folder, base_url=api.base_url, network=network, clock=self.now, watch=self._watch, count=_count()
            )
            ledgers = Ledgers(house=house, stage=self.stage, oracle=self.oracle, recorder=self.recorder)
            striker = self._striker = Striker(
                loop=self.loop, house=house, stage=self.stage, wire=wire, weather=weather, recovery=self.recovery, oracle=self.oracle,
                ledgers=ledgers, dice=self._dice, told=self._struck,
            )  # fmt: skip
            house.start()
            try:
                for place, number in enumerate(script.turns):
                    await self._until(place * TURN_S + 1.0)
                    await self._one(self._flood.turn(number), place, striker, ledgers)
                await self._settle()
            except (Standstill, Hopeless) as error:
                self.oracle.find("P1", f"wedged: {error}")
            await striker.leave()
            if house.alive is not None and await house.stop() is None:
                self.oracle.find("P1", "the NPC did not end in order within two virtual minutes")
                house.kill()
            await house.buried()
            await ledgers.check()
            ledgers.close()
            await self.stage.close()
        return self._result()

    def _persona(self) -> Persona:
        name, window = self.script.npc, self.script.window
        Files(name=name, home=self._folder / "home-0", description="", constitution=CONSTITUTION, model=MODEL, window=window).settle()
        text = f'[character]\nname = "{name}"\ndescription = """{DESCRIPTION.format(name=name)}"""\n{PERSONA}'
        return parse_persona(text).adjusted(window=window, model=MODEL)

    async def _one(self, turn: Turn, place: int, striker: Striker, ledgers: Ledgers) -> None:
        """One turn, and its time until the next."""
        out, began = self.outcome, self.loop.time()
        self.turn = turn.number
        self._ended = self.loop.create_future()
        self.oracle.begins(turn)
        if self.recovery.struck(LIES, since=began - 2 * TURN_S):
            self.oracle.shaken()
        if self.recorder is not None:
            self.recorder.begins(began / 3_600.0, turn.number, stamp=turn.stamp)
        await striker.begin([s for s in self.script.strikes if s.turn == turn.number])
        self.stage.tell(turn)
        await self._lived(began + PATIENCE_S)
        good_at = self.loop.time() if self._ended.done() else None
        out.turns += 1
        if good_at is not None:
            out.good += 1
            out.late_s.append(good_at - began)
            self._ends = 0
            self.oracle.ends()
        elif self.recovery.active(began):
            out.weathered += 1
        else:
            self.oracle.ends(failed=f"its line was not answered within {PATIENCE_S / 60:.0f} virtual minutes, and nothing struck")
        self.oracle.rests()
        await self._until(place * TURN_S + TURN_S - 20.0)
        striker.over()
        ledgers.noticed()
        self.oracle.acted(self.stage.begun, self.stage.done, self._asked, guarded=VAULT)
        for blow in self.recovery.turn(began=began, good_at=good_at):
            self.oracle.find("P1", f"no good turn for {blow.late} turns after {blow.strike.fault} of turn {blow.strike.turn} was over")
        if self.recorder is not None:
            self.recorder.ends(failed=good_at is None, rss_mb=disk.resident_mb())
        if (place + 1) % DAY == 0:
            gc.collect()
            out.rss_mb.append(round(disk.resident_mb(), 1))
        self._on_turn(self)

    async def _lived(self, until: float) -> None:
        """Until the turn is complete, or its time is over."""
        while not self._ended.done() and self.loop.time() < until:
            task = self.house.alive
            waiting: set[asyncio.Future[Any]] = {self._ended, task} if task else {self._ended}
            await asyncio.wait(waiting, timeout=until - self.loop.time() if task else RESTART_S, return_when=asyncio.FIRST_COMPLETED)
            await self._again()

    async def _until(self, moment: float) -> None:
        while (left := moment - self.loop.time()) > 0:
            task = self.house.alive
            if task is None:
                await asyncio.sleep(min(left, RESTART_S))
            else:
                await asyncio.wait({task}, timeout=left)
            await self._again()

    async def _again(self) -> None:
        """Somebody sees to it that the NPC lives: what has ended is started again."""
        house = self.house
        task = house.alive
        if house.stopping:
            await asyncio.sleep(0.1)
            return
        if task is not None and task.done():
            end = house.ended()
            if not self.recovery.struck(NO_START, since=self.loop.time() - RESTART_S):
                self.oracle.find("P1", f"the NPC ended by itself with status {end.code}: {end.message}")
                self._ends += 1
            if self._ends >= HOPELESS:
                raise Hopeless(f"it ended by itself {self._ends} times without a good turn between")
            await asyncio.sleep(RESTART_S)
        elif task is None and (waiting := await house.buried()):
            self.oracle.find("P1", f"{waiting} tasks of a killed life would not end")
        if house.alive is None and not house.stopping:
            house.start()

    async def _settle(self) -> None:
        """What was told is on its disk in the end."""
        until = self.loop.time() + SETTLE_S
        while self.stage.outstanding and self.loop.time() < until:
            await asyncio.sleep(1.0)
            await self._again()

    # -- what is seen

    def _struck(self, strike: Strike) -> None:
        self.stage.struck(strike.fault)
        domain = CATALOGUE[strike.fault].domain
        if self.recorder is not None and domain != "model":  # those of the model it sees by itself
            self.recorder.fault(strike.fault, where=domain)

    def _judge(self, record: Record) -> None:
        """Every request, before its answer leaves."""
        out, whole = self.outcome, record.outcome == "answered"
        if whole or record.outcome == "broken":
            out.dollars += record.dollars
            out.tokens += record.tokens
            out.cached += record.usage.cache_read_tokens
        for block in record.content:
            if block.get("type") == "tool_use":
                self._asked[str(block.get("name"))] += 1
                out.tried += block.get("name") == VAULT
        out.requests += 1
        if self.recorder is not None:
            self.recorder.request(record)
        judged = Judged(
            body=record.body,
            # An answer that does not arrive is weather: the request was fine, and nothing ended.
            status=record.status if record.outcome != "broken" else 529,
            tokens=record.tokens,
            stop_reason=record.stop_reason if whole else None,
            error=record.error_message or "",
            digest=record.digest,
            made_up=record.outcome == "failed" or any(not isinstance(fault, Late) for fault in record.faults),
        )
        if self.oracle.request(judged) and not self._ended.done():
            self._ended.set_result(None)

    def _watch(self, what: str, data: Mapping[str, Any]) -> None:
        match what:
            case "rung" if not data.get("failed"):
                self.outcome.rungs[str(data.get("rung"))] += 1
            case "turn" | "life begins":  # to a new life what was under way in the one before is of the past
                self.oracle.over()
            case "reset":
                self.outcome.resets += 1
            case "alarm":
                self.outcome.alarms[str(data.get("text"))[:60]] += 1
            case _:
                pass

    def _result(self) -> Outcome:
        out = self.outcome
        self.recovery.finish(self.loop.time())
        self.oracle.acted(self.stage.begun, self.stage.done, self._asked, guarded=VAULT)
        out.longest, out.findings, out.told = self.recovery.longest, self.oracle.findings, self.stage.told
        out.lives, out.kills, out.acts = self.house.lives, self.house.kills, self.stage.done.total()
        if self.recorder is not None:
            out.figures = self.recorder.life()
        return out


@cache
def _count() -> Callable[[str], int]:
    return Tokens.load().count


def live(
    script: Script, *, folder: Path | None = None, on_turn: Callable[[Trial], None] = lambda _: None, record: bool = False
) -> Outcome:
    """A whole life, in a loop and a folder of its own. Blocks."""
    random.seed(script.seed)  # the product's own jitter
    began, cpu = time.monotonic(), time.process_time()
    where = folder or Path(tempfile.mkdtemp(prefix="npc-soak-"))
    where.mkdir(parents=True, exist_ok=True)

    async def main() -> Outcome:
        return await Trial(script, where, on_turn=on_turn, record=record).live()

    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            outcome = runner.run(main())
        outcome.seconds, outcome.cpu_s = time.monotonic() - began, time.process_time() - cpu
        return outcome
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)
