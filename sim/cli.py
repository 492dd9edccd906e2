"""`npc sim …`: the proving ground on the command line.

Invariant: `flood` exits with 0 only if the oracle found nothing, and with `--json` prints one object and nothing else on standard output.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sim import bench, product
from sim.brains import FloodBrain, VillagerBrain
from sim.conformance.command import conformance
from sim.desk.command import desk
from sim.faults import PRESETS, plan
from sim.floods import Line
from sim.messages_api import Brain, MessagesAPI, Record
from sim.report import Report
from sim.report.collect import collect
from sim.report.command import as_typed, check_outputs, compare, keep_outputs
from sim.run import Life, Options, run, script
from sim.scenarios import Played, ScenarioError, load
from sim.scenarios import recording as recordings
from sim.scenarios.stage import Paced, PacedRecording, PacedScenario, ScriptStage
from sim.soak.command import soak
from sim.stage import VillageStage
from sim.world import Told, Village
from world_adapter.server import Request

app = typer.Typer(no_args_is_help=True, help="The proving ground: a game world, a model stand-in, floods, measurements.")
app.add_typer(bench.app, name="bench")
app.command()(conformance)
app.command()(desk)
app.command()(soak)
app.command()(compare)


#: Tokens by which the monsters of a scenario are sized where nobody knows the NPC's window.
WORLD_WINDOW = 32_000
#: Columns of a report that goes to a file or a pipeline's log.
REPORT_WIDTH = 120


@app.callback()
def _quiet() -> None:
    """Log lines of the servers would break through progress bars and JSON."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


@app.command()
def flood(
    turns: Annotated[int, typer.Option(min=1, help="Turns of each NPC's life.")] = 500,
    window: Annotated[int, typer.Option(min=2_000, help="Tokens of the model's window.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Another seed is another life.")] = 7,
    npcs: Annotated[int, typer.Option(min=1, max=32, help="How many NPCs, each in a process of its own.")] = 1,
    model: Annotated[str, typer.Option(help="Which model the stand-in plays: its prices, its tokenizer, its rules.")] = "claude-haiku-5-5",
    model_faults: Annotated[str, typer.Option(help=f"Bad weather, such as overload:0.02,oddities. Names: {', '.join(PRESETS)}.")] = "",
    persona: Annotated[Path | None, typer.Option(help='TOML tables to add to the persona, such as that of "compaction".')] = None,
    keep: Annotated[Path | None, typer.Option(help="A folder for homes and logs; otherwise they are removed.")] = None,
    patience: Annotated[float, typer.Option(min=1, help="Seconds after which a turn has failed.")] = 60.0,
    scenario: Annotated[str, typer.Option(help="Told instead of the flood: names or .toml files, parted by commas.")] = "",
    recording: Annotated[Path | None, typer.Option(help="Told instead of the flood: what a real server once told an agent.")] = None,
    speed: Annotated[float, typer.Option(help="Of a recording: a turn holds ten seconds of it at 1, a thousand at 100.")] = 1.0,
    report: Annotated[Path | None, typer.Option(help="Write a page with plots to this HTML file.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file; npc sim compare reads it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Run the product through a flood and say what held.

    The product runs as its users run it, `npc attach` in a process of its own, against a world and a strict model stand-in on loopback.
    No key and no network are needed. Exit status 0 only if nothing was found.

    Example: npc sim flood --turns 2000 --window 10000 --seed 7
    """
    try:
        plan(model_faults, seed=seed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--model-faults") from error
    check_outputs(report, figures)
    _one_of(scenario, recording)
    options = Options(
        turns=turns, window=window, seed=seed, npcs=npcs, model=model, faults=model_faults, patience_s=patience, keep=keep,
        persona=persona.read_text(encoding="utf-8") if persona else "", record=bool(report or figures),
        scenario=scenario, recording=recording, speed=speed,
    )  # fmt: skip
    try:
        script(options, "Oda", seed=seed)
    except ScenarioError as error:
        raise typer.BadParameter(str(error), param_hint="--recording" if recording else "--scenario") from error
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=REPORT_WIDTH)
    progress = Progress(
        TextColumn("flood"), BarColumn(), MofNCompleteColumn(), TextColumn("turns · {task.fields[news]}"), TimeRemainingColumn(),
        console=console, disable=as_json and not console.is_terminal,
    )  # fmt: skip
    try:
        with progress:
            task = progress.add_task("flood", total=turns * npcs, news="starting")
            lives = asyncio.run(run(options, on_turn=lambda life: progress.update(task, advance=1, news=_news(life))))
    except product.ProductError as error:
        console.print(f"[bold red]The flood could not be run.[/] {error}")
        raise typer.Exit(1) from error
    outcome = Report(options, lives)
    if as_json:
        typer.echo(json.dumps(outcome.as_json(), ensure_ascii=False))
    else:
        console.print(outcome.rendered())
    if options.record:
        keep_outputs(lambda: collect(outcome, command=as_typed(), now=datetime.now(UTC)), report, figures, console)
    raise typer.Exit(0 if outcome.held else 1)


def _news(life: Life) -> str:
    tally = life.oracle.tally
    found = len(life.oracle.findings)
    return f"{tally.turns_failed} failed, {tally.rejected} rejected, " + (f"{found} findings" if found else "nothing found")


@app.command()
def world(
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0 for any.")] = 8765,
    seed: Annotated[int, typer.Option()] = 1,
    pace: Annotated[float, typer.Option(help="Minutes of the village's day in one second.")] = 2.0,
    bustle: Annotated[float, typer.Option(help="How often something happens; 2 is twice as often.")] = 0.5,
    scenario: Annotated[str, typer.Option(help="Instead of the village: names or .toml files, parted by commas.")] = "",
    recording: Annotated[Path | None, typer.Option(help="Instead of the village: what a real server once told an agent.")] = None,
    speed: Annotated[float, typer.Option(min=0.1, max=100, help="Of a scenario or a recording.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per event.")] = False,
) -> None:
    """Serve the village, a scenario or a recording to any NPC that attaches.

    Example: npc sim world --port 8765, then: npc attach ws://127.0.0.1:8765 --persona warden.toml
    """
    _one_of(scenario, recording)
    console = Console()

    def show(npc: str, event: Told | Line | Request) -> None:
        if as_json:
            kind = "act" if isinstance(event, Request) else event.kind
            text = f"{event.name} {dict(event.args)}" if isinstance(event, Request) else event.text
            typer.echo(json.dumps({"event": kind, "npc": npc, "text": text}, ensure_ascii=False))
        elif isinstance(event, Request):
            console.print(f"> {npc}: {event.name} {dict(event.args)}", markup=False, style="bold")
        else:
            console.print(f"  {event.text[:200]}", markup=False, highlight=False)

    async def serve() -> None:
        if make is not None:
            async with ScriptStage(scenario or "recording", make, port=port, watch=show) as played:
                await _until_stopped("" if as_json else f"{scenario or recording} is at {played.url} (Ctrl-C ends it)")
            return
        village = Village(seed=seed, pace=pace, bustle=bustle)
        async with VillageStage(village, port=port, watch=lambda event: show(event.npc, event)) as stage:
            await _until_stopped("" if as_json else f"Tarnwick is at {stage.url} (Ctrl-C ends it)")

    try:
        make = _paced(scenario, recording, speed=speed, seed=seed)
    except ScenarioError as error:
        raise typer.BadParameter(str(error), param_hint="--recording" if recording else "--scenario") from error
    _serve(serve())


def _one_of(scenario: str, recording: Path | None) -> None:
    if scenario and recording is not None:
        raise typer.BadParameter("a scenario and a recording cannot be told at the same time", param_hint="--recording")


def _paced(scenario: str, recording: Path | None, *, speed: float, seed: int) -> Callable[[str], Paced] | None:
    """What makes the script of an NPC that attaches; None for the village.

    Raises:
        ScenarioError: it cannot be read.
    """
    if recording is not None:
        read = recordings.read(recording, speed=speed, seed=seed)
        return lambda npc: PacedRecording(replace(read, npc=npc))
    if scenario:
        scenarios = load(scenario)
        return lambda npc: PacedScenario(Played(scenarios=scenarios, seed=seed, window=WORLD_WINDOW, npc=npc), speed=speed)
    return None


@app.command("model")
def stand_in(
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0 for any.")] = 8766,
    window: Annotated[int | None, typer.Option(help="Tokens; each model's own if left out.")] = None,
    npc: Annotated[str, typer.Option(help="The name of the NPC that the stand-in plays.")] = "Oda",
    brain: Annotated[str, typer.Option(help="villager (answers people) or flood (tools, tools, tools).")] = "villager",
    model_faults: Annotated[str, typer.Option(help="As for flood.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per request.")] = False,
) -> None:
    """Serve the strict stand-in for the Messages API.

    Example: npc sim model --port 8766, then: npc attach ws://127.0.0.1:8765 --persona oda.toml --base-url http://127.0.0.1:8766
    """
    if brain not in ("villager", "flood"):
        raise typer.BadParameter("there are villager and flood", param_hint="--brain")
    mind: Brain = VillagerBrain(npc=npc) if brain == "villager" else FloodBrain(npc=npc)
    console = Console()

    def heard(record: Record) -> None:
        figures = {
            "number": record.number, "status": record.status, "stop_reason": record.stop_reason, "error": record.error_message,
            "input_tokens": record.tokens, "cache_read_tokens": record.usage.cache_read_tokens,
            "output_tokens": record.usage.output_tokens, "dollars": round(record.dollars, 8),
        }  # fmt: skip
        if as_json:
            typer.echo(json.dumps(figures, ensure_ascii=False))
        else:
            console.print(" ".join(f"{k}={v}" for k, v in figures.items() if v is not None), markup=False, highlight=False)

    async def serve() -> None:
        async with MessagesAPI(mind, window, faults=plan(model_faults, seed=0), on_request=heard, port=port) as api:
            await _until_stopped("" if as_json else f"The stand-in is at {api.base_url} and takes any key (Ctrl-C ends it)")

    _serve(serve())


async def _until_stopped(announcement: str) -> None:
    """Says where it is once it can be told to stop."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    if announcement:
        typer.echo(announcement)
    await stopped.wait()


def _serve(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except OSError as error:
        Console(stderr=True).print(f"The port cannot be had: {error.strerror or error}. Name another one with --port.", markup=False)
        raise typer.Exit(1) from error
