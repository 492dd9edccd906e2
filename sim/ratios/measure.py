"""The ratios and how they are come by.

Invariant: each is a quotient of two things that were measured in the same run on the same machine, so that a slow machine moves both. What
they are held against is what anybody would have to do for the same turns, without the product.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from runtime.model.counting import Counter
from sim import product
from sim.api.profiles import PROFILES
from sim.floods import Flood
from sim.messages_api import MessagesAPI, Record
from sim.reading import Reading, block_text
from sim.run import TURN_S, Options, run
from sim.stage import FloodStage

MODEL = "claude-haiku-5-5"
#: What a program with these libraries imports before it has done anything.
IMPORTS = "import anthropic, websockets, pydantic, tiktoken, aiosqlite, msgpack, typer, structlog"
STARTS = 3
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure: less is better, or more; it may be worse than the baseline by the factor `tolerance`; `what` says what it is."""

    name: str
    value: float
    tolerance: float
    what: str
    less_is_better: bool = True

    def worse(self, baseline: float) -> bool:
        """Whether it is worse than a baseline by more than it may be."""
        return self.value > baseline * self.tolerance if self.less_is_better else self.value * self.tolerance < baseline


@dataclass(slots=True)
class _Requests:
    """All requests of a run, added up as they come."""

    tokens: Callable[[str], int]
    bytes: int = 0
    least_bytes: int = 0
    dollars: float = 0.0
    least_dollars: float = 0.0
    new_s: float = 0.0  # CPU seconds that counting each new text once takes
    whole_s: float = 0.0  # and counting whole requests, once for each turn
    _seen: set[int] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """One more."""
        reading = Reading(record.body)
        if not reading.tools or record.outcome != "answered":
            return
        whole, least = _size(record.body), _size({**record.body, "messages": _from(record.body, reading)})
        self.bytes += whole
        self.least_bytes += least
        self.dollars += record.dollars
        price = PROFILES[MODEL].price
        fixed = _size({"system": record.body.get("system"), "tools": record.body.get("tools")}) / whole * record.tokens
        rest = max(0.0, least / whole * record.tokens - fixed)
        inputs = price.input * (fixed * price.read_share + rest)
        self.least_dollars += (inputs + price.output * record.usage.output_tokens) / MILLION
        texts = [block_text(block) for _, content in reading.messages for block in content]
        new = [text for text in texts if hash(text) not in self._seen]
        self._seen.update(map(hash, new))
        self.new_s += _cpu(lambda: sum(map(self.tokens, new)))
        if not reading.round:
            self.whole_s += _cpu(lambda: self.tokens("\n".join(texts)))


def _from(body: Mapping[str, Any], reading: Reading) -> list[Any]:
    """The messages of the turn under way, tail included."""
    roles = [m for m in body["messages"] if m.get("role") != "system"]
    return [*roles[min(reading.opening, len(roles) - 1) :], *(m for m in body["messages"] if m.get("role") == "system")]


def _size(body: Mapping[str, Any]) -> int:
    return len(json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _cpu(do: Callable[[], object]) -> float:
    begun = time.process_time()
    do()
    return time.process_time() - begun


async def measure(*, turns: int, window: int, seed: int, rounds: int, on_turn: Callable[[], None] = lambda: None) -> list[Ratio]:
    """All ratios, by one flood, one race and a few starts.

    Raises:
        product.ProductError: the product did not start.
    """
    counter = Counter.load()
    requests = _Requests(tokens=counter.count)
    options = Options(turns=turns, window=window, seed=seed, model=MODEL, on_request=requests.add)
    (life,) = await run(options, on_turn=lambda _: on_turn())
    if life.ledger is None or not life.cpu_ms:
        raise product.ProductError("the flood left no figures: its findings are told by npc sim flood")
    ladder_s = sum(life.ledger.policy_ms) / 1e3
    cpu_s = fmean(life.cpu_ms) / 1e3
    return [
        Ratio(
            name="ladder", value=ladder_s / requests.new_s, tolerance=1.4,
            what="time of the ladder, all of it, over counting each new text once",
        ),
        Ratio(
            name="turn", value=cpu_s * turns / requests.whole_s, tolerance=1.4,
            what="CPU of a whole turn, over counting its request once",
        ),
        Ratio(
            name="npcs_per_core", value=TURN_S / cpu_s, tolerance=1.6, less_is_better=False,
            what=f"NPCs for one core, each with a turn every {TURN_S:g} s (of this machine)",
        ),
        Ratio(
            name="bytes", value=requests.bytes / requests.least_bytes, tolerance=1.15,
            what="bytes sent, over the smallest requests that hold the fixed part and the turn",
        ),
        Ratio(
            name="dollars", value=requests.dollars / requests.least_dollars, tolerance=1.15,
            what="dollars, over those smallest requests with the fixed part read from the cache",
        ),
        Ratio(name="start", value=await _starts(), tolerance=1.5, what="start to attached, over importing the same libraries"),
        *([await asyncio.to_thread(_intake, rounds)] if rounds else []),
    ]  # fmt: skip


def _intake(rounds: int) -> Ratio:
    from sim.intake import measure as race  # noqa: PLC0415 - it needs the whole product, which the rest here does not

    found = race(rounds=rounds, count=100_000, batch=100, seconds=0, rate=1_000.0, addressed=1.0, folder=None)
    return Ratio(
        name="intake", value=found.ratio, tolerance=1.4, less_is_better=False,
        what="observations on disk and acknowledged a second, over a bare loop",
    )  # fmt: skip


async def _starts() -> float:
    """Start of the product until the world has it, over the bare imports; the quickest of a few each."""
    ours, bare = [], []
    for n in range(STARTS):
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", IMPORTS)
        await process.wait()
        bare.append(time.monotonic() - begun)
        ours.append(await _start(n))
    return min(ours) / min(bare)


async def _start(n: int) -> float:
    class Silent:
        def reply(self, _request: Mapping[str, Any]) -> Any:
            raise AssertionError("nobody was told anything")

    name = f"Oda{n}"
    with tempfile.TemporaryDirectory(prefix="npc-start-") as folder:
        async with FloodStage({name: Flood(seed=1, window=10_000)}) as stage, MessagesAPI(Silent(), 10_000) as api:
            character = product.Character(
                name=name, home=Path(folder) / "home", description="You keep the inn.", constitution=["Be kind."], model=MODEL,
                window=10_000,
            )  # fmt: skip
            begun = time.monotonic()
            process = await product.attach(character, world=stage.url, base_url=api.base_url)
            try:
                await asyncio.wait_for(stage.server.until_attached(name), 60)
                return time.monotonic() - begun
            finally:
                await process.stop()
