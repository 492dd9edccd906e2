"""`npc sim soak`: NPCs for virtual weeks while everything breaks, or one failing life again from its script."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sim.floods import DAY
from sim.report.command import as_typed, check_outputs, keep_outputs
from sim.soak import catalogue
from sim.soak.script import Script, read

WIDTH = 120
SHOWN = 12
NAMES = ("Oda", "Bram", "Ilse", "Wren", "Tam", "Jory", "Mira", "Piet", "Lena", "Ruth")


def soak(
    npcs: Annotated[int, typer.Option(min=1, max=256, help="How many NPCs, each with its own life.")] = 2,
    days: Annotated[float, typer.Option(min=0.05, max=366, help="Virtual days of each life; a day is 48 turns.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Another seed is another life and other faults.")] = 7,
    window: Annotated[int, typer.Option(min=2_000, help="Tokens of the model's window.")] = 10_000,
    faults: Annotated[str, typer.Option(help="all, none, or domains (model, world, disk, process) and names with commas between.")] = "all",
    fault: Annotated[list[str] | None, typer.Option(help="NAME:RATE, the share of turns that it strikes; may be given often.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes at a time.")] = 2,
    shrink: Annotated[float, typer.Option(min=0, help="Seconds for making one failing life short; 0: not at all.")] = 120.0,
    out: Annotated[Path, typer.Option(help="Where the short scripts of failing lives go.")] = Path("soak-failures"),
    replay: Annotated[Path | None, typer.Option(help="Live one script again, instead of all else.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say which faults there are.")] = False,
    figures: Annotated[Path | None, typer.Option(help="Write all figures to this file, for npc sim compare.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Let NPCs live for virtual weeks while model, world, disk and process fail, and say what held.

    The product runs as it is (mind, body, journal on a disk, the websocket client, the model's client), in virtual time: a day takes
    seconds. Exit status 0 only if nothing was found; what was found is made short and can be lived again with --replay.

    Example: npc sim soak --npcs 20 --days 7 --seed 7
    """
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=WIDTH)
    if listing:
        console.print(_listed())
        return
    try:
        rates = catalogue.chosen(faults, fault or ())
        script = read(replay) if replay is not None else None
    except ValueError as error:
        console.print(str(error), style="bold red", markup=False, soft_wrap=True)
        raise typer.Exit(2) from error
    check_outputs(report, figures)
    scripts = [script] if script is not None else _scripts(npcs, days, seed, window, rates)
    if script is not None:
        rates, shrink = dict.fromkeys((s.fault for s in script.strikes), 0.0), 0.0
        npcs, days, seed, window = 1, round(len(script.turns) / DAY, 2), script.seed, script.window
    _run(
        scripts, rates, (npcs, days, seed, window, workers, shrink), out=out, keep=script is None, outputs=(report, figures),
        console=console, as_json=as_json,
    )  # fmt: skip


def _run(
    scripts: list[Script], rates: dict[str, float], asked: tuple[int, float, int, int, int, float], *, out: Path, keep: bool,
    outputs: tuple[Path | None, Path | None], console: Console, as_json: bool,
) -> None:  # fmt: skip
    from sim.soak.crew import Done, Orders, crew  # noqa: PLC0415 (the product is worth its start only when something runs)
    from sim.soak.report import Asked, Summary  # noqa: PLC0415
    from sim.soak.trial import Outcome  # noqa: PLC0415
    from sim.soak.view import View, verdict  # noqa: PLC0415

    npcs, days, seed, window, workers, shrink = asked
    report, figures = outputs
    orders = Orders(record=bool(report or figures), shrink_s=shrink, out=out, keep=keep)
    view = View(npcs=len(scripts), planned=sum(len(s.turns) for s in scripts))
    summary = Summary(asked=Asked(npcs=npcs, days=days, seed=seed, window=window, faults=rates, workers=workers), outcomes=[])
    began, outcomes, replays = time.monotonic(), list[Outcome](), list[str]()
    live = Live(view.screen(), console=console, refresh_per_second=2, transient=True) if console.is_terminal and not as_json else None
    if live:
        live.start()
    try:
        for told in crew(scripts, orders, workers=workers):
            view.take(told)
            if isinstance(told, Done):
                outcomes.append(told.outcome)
                replays += told.replays
            if live:
                live.update(view.screen())
            elif line := view.line(told):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print("Stopped; what follows is of the lives that were over.")
    finally:
        if live:
            live.stop()
    summary.outcomes = sorted(outcomes, key=lambda o: [s.npc for s in scripts].index(o.script.npc))
    summary.seconds, summary.replays = time.monotonic() - began, replays
    if report or figures:
        keep_outputs(lambda: summary.figures(command=as_typed(), now=datetime.now(UTC)), report, figures, console)
    if as_json:
        typer.echo(json.dumps(summary.as_json(), ensure_ascii=False))
    else:
        if rates:
            console.print(_fates(summary.faults()))
            console.print()
        verdict(summary.lines(), console)
        for npc, finding in summary.findings[:SHOWN]:
            where = f"turn {finding.turn}" if finding.turn >= 0 else "at the end"
            console.print(f"{npc}, {where}: {finding.rule}: {finding.sentence}", markup=False, highlight=False, soft_wrap=True)
        if (more := len(summary.findings) - SHOWN) > 0:
            console.print(f"… and {more} more findings; --json has all of them.")
        for path in replays:
            console.print(f"Live it again: npc sim soak --replay {path}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if summary.held and len(outcomes) == len(scripts) else 1)


def _scripts(npcs: int, days: float, seed: int, window: int, rates: dict[str, float]) -> list[Script]:
    turns = max(catalogue.FAIR + 1, round(days * DAY))
    plain = Script(npc="", seed=0, window=window, turns=tuple(range(turns)))
    return [
        replace(plain, npc=name_of(n), seed=seed + n, strikes=tuple(catalogue.plan(rates, turns=turns, seed=seed + n))) for n in range(npcs)
    ]


def name_of(number: int) -> str:
    """Of the so-many-th NPC."""
    name = NAMES[number % len(NAMES)]
    return name if number < len(NAMES) else f"{name}{number // len(NAMES) + 1}"


def _listed() -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for column in ("domain", "name", "what happens"):
        table.add_column(column)
    for name, kind in catalogue.CATALOGUE.items():
        table.add_row(kind.domain, name, kind.what)
    return table


def _fates(faults: dict[str, dict[str, object]]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for column in ("fault", "times", "touched", "turns lost after", "how it ended"):
        table.add_column(column, justify="right" if column in ("times", "touched", "turns lost after") else "left")
    for name, fate in faults.items():
        ended = fate["ended"]
        how = ", ".join(f"{how} {n}" for how, n in ended.items()) if isinstance(ended, dict) else ""
        table.add_row(name.replace("_", " "), str(fate["times"]), str(fate["touched"]), str(fate["turns_lost_after"]), escape(how))
    return table
