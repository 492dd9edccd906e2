"""`npc demo`: an NPC living in the village, with a scripted stand-in as its model; no key, no network.

Invariant: the NPC is `npc attach` in a process of its own, as any user would start it; the demo only hosts the world and the stand-in,
and shows what the NPC says of itself. It always ends: after the time it was given, on Ctrl-C, or when the NPC is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import tempfile
import time
from pathlib import Path
from typing import Annotated

import structlog
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sim import product
from sim.brains import VillagerBrain
from sim.messages_api import MessagesAPI, Record
from sim.run import ATTACH_S, CONSTITUTION, DESCRIPTION, first
from sim.stage import VillageStage
from sim.view import PLAIN, Watched, closing, event_of, hints
from sim.world import Village

NPC = "Oda"
MODEL = "claude-haiku-5-5"
#: Small on purpose: within a minute the ladder has work to do.
WINDOW = 8_000
FRAMES_PER_S = 8
STATUS_EVERY_S = 10.0
#: The stand-in answers at once; an NPC that wakes at every footstep would be no pleasure to watch.
PERSONA = """[speech]
plain_text_is_speech = false

[wake]
idle_s = 8.0
gather_s = 1.0

[budget]
dollars_per_day = 100.0
"""


def demo(
    seconds: Annotated[float, typer.Option(min=3, help="How long to watch.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Another seed is another evening.")] = 3,
    window: Annotated[int, typer.Option(min=4_000, help="Tokens of the model's window; small, so that the ladder is seen.")] = WINDOW,
    home: Annotated[Path | None, typer.Option(help="Where the NPC lives; a new temporary folder if left out.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines instead of the live screen.")] = False,
) -> None:
    """Watch an NPC live in the built-in village. No key, no network.

    The model is a scripted stand-in, and it says so. Everything else is the product as it is: the process, the wire, the ladder, the diary.

    Example: npc demo --seconds 90
    """
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console = Console()
    where = home or Path(tempfile.mkdtemp(prefix="npc-demo-")) / NPC.lower()
    show = _Show(console, Watched(npc=NPC, window=window), seconds=seconds, live=console.is_terminal and not plain)
    try:
        status = asyncio.run(show.run(where, seed=seed))
    except product.ProductError as error:
        console.print(f"The demo could not be run. {error}", markup=False)
        raise typer.Exit(1) from error
    console.print(closing(show.watched, seconds=show.lasted))
    for line in hints(str(where)):
        console.print(line, soft_wrap=True, highlight=False)
    if status:
        console.print(f"The NPC's process ended with status {status}.", markup=False)
    raise typer.Exit(1 if status else 0)


class _Show:
    """One run of the demo on one console."""

    def __init__(self, console: Console, watched: Watched, *, seconds: float, live: bool) -> None:
        self.console, self.watched, self.seconds, self.live = console, watched, seconds, live
        self.lasted = 0.0
        self.stopped = asyncio.Event()
        self._began = 0.0

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.seconds - (time.monotonic() - self._began)

    async def run(self, home: Path, *, seed: int) -> int:
        """Hosts the village and the stand-in, runs the NPC, shows it; the exit status of the NPC's process."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self.stopped.set)
        village = Village(seed=seed)
        api = MessagesAPI(VillagerBrain(npc=NPC, seed=seed), self.watched.window, on_request=self._billed, keep=1)
        async with VillageStage(village) as stage, api:
            character = product.Character(
                name=NPC, home=home, description=DESCRIPTION.format(name=NPC), constitution=CONSTITUTION, model=MODEL,
                window=self.watched.window, persona=PERSONA,
            )  # fmt: skip
            process = await product.attach(character, world=stage.url, base_url=api.base_url, events=True)
            self.console.print(Text(PLAIN, style="bold"), soft_wrap=True)
            told = asyncio.create_task(self._listen(process))
            stop = asyncio.create_task(self.stopped.wait())
            tasks = [told, stop]
            try:
                await self._woken(stage, process, stop)
                self._began = time.monotonic()
                tasks.append(asyncio.create_task(self._screen(village) if self.live else self._lines(village)))
                await first(stop, process.gone, within_s=self.seconds)
                early = process.gone.done() and not stop.done()
            finally:
                self.lasted = time.monotonic() - self._began if self._began else 0.0
                status = await process.stop()
                for task in tasks[1:]:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        if early:
            raise product.ProductError(f"The NPC's process ended with status {status}: {process.last_words()}")
        return status

    async def _woken(self, stage: VillageStage, process: product.Attached, stop: asyncio.Task[object]) -> None:
        """Its time begins when it is there: a cold start reads a lot of code from the disk."""
        arrival = asyncio.create_task(stage.server.until_attached(NPC))
        with self.console.status(f"waking {NPC} …"):
            await first(arrival, process.gone, stop, within_s=ATTACH_S)
        arrival.cancel()
        if not stage.server.attached(NPC) and not stop.done():
            raise product.ProductError(f"{NPC} did not wake up: {process.last_words() or 'no word from its process'}")

    def _billed(self, record: Record) -> None:
        self.watched.bill(
            declined=record.stop_reason == "refusal",
            rejected=record.outcome == "refused",
            input_tokens=record.usage.total_input,
            cached=record.usage.cache_read_tokens,
            output=record.usage.output_tokens,
            dollars=record.dollars,
        )

    async def _listen(self, process: product.Attached) -> None:
        """Every event of the NPC, until its process closes the pipe."""
        out = process.process.stdout
        if out is None:
            return
        async for raw in out:
            event = event_of(raw)
            line = self.watched.event(event) if event is not None else None
            if line is not None and not self.live:
                self.console.print(line, soft_wrap=True, highlight=False)

    async def _screen(self, village: Village) -> None:
        with Live(console=self.console, screen=False, auto_refresh=False) as live:
            while True:
                self.watched.world_time = village.world_time
                # One row less than there is, so that the terminal never scrolls.
                width, height = self.console.size.width, self.console.size.height - 1
                view = self.watched.screen(width=width, height=height, left_s=self.left, model=MODEL)
                live.update(view, refresh=True)
                await asyncio.sleep(1 / FRAMES_PER_S)

    async def _lines(self, village: Village) -> None:
        while True:
            await asyncio.sleep(STATUS_EVERY_S)
            self.watched.world_time = village.world_time
            for line in (self.watched.bar(80), self.watched.ladder(), self.watched.purse(self.left)):
                self.console.print(Text.assemble("# ", line), soft_wrap=True)
