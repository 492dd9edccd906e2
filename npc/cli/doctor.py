"""`npc doctor`: say what is wrong before the NPC starts, and how to mend it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from npc.errors import Usage
from npc.home import find_home

if TYPE_CHECKING:
    from npc.doctor.finding import Report

HELP = """Say what is wrong before the NPC starts, each with its fix.

Looks at the persona, the rules, what is left of the window, the key, the model and its price, the home folder, its database, the disk \
and the clock; with a URL also at the world: it attaches as this NPC, hears what can be done, and leaves without taking anything in.

An NPC that lives from the same home is left alone. One that lives from another home would be replaced and end: leave the URL out then.

One tiny message is sent to the model (a fraction of a cent); --offline sends nothing anywhere.

Exit codes: 0 nothing is wrong (warnings allowed), 1 something is, 3 nothing fits into the window, 5 the key is refused.

Example: npc doctor --persona warden.toml --home ./warden ws://127.0.0.1:8765
"""

#: Terminal cells from where prose is hard to read.
WIDEST = 110
MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "error": ("ERROR", "bold red")}


def doctor(
    url: Annotated[str | None, typer.Argument(help="The world's address, as for npc attach.")] = None,
    persona: Annotated[Path | None, typer.Option(help="The persona file (TOML). Default: the one in the home.")] = None,
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, instead of the persona's.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Any endpoint that speaks the Messages API.")] = None,
    window: Annotated[int | None, typer.Option(help="Tokens that one model call may hold.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask neither the model's endpoint nor the world.")] = False,
    insecure: Annotated[bool, typer.Option(help="Allow ws:// outside this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what is wrong before the NPC starts."""
    if persona is None:
        if home is None:
            try:
                home = find_home(None).path
            except Usage as error:
                raise Usage(f"name a persona file with --persona FILE, or a home that holds one: {error}") from error
        persona = home / "persona.toml"
        if not os.path.lexists(persona):
            raise Usage(f"{home} holds no persona yet: name one with --persona FILE")
    from npc.doctor.examine import Asked, examine  # noqa: PLC0415 (the model's library takes seconds to import)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of few letters must not end the visit
    asked = Asked(
        persona=persona, home=home, url=url, model=model, base_url=base_url, window=window, offline=offline, insecure=insecure
    )
    with _quiet():
        report = asyncio.run(examine(asked))
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        _print(report, Console(highlight=False))
    raise typer.Exit(report.exit_code)


def _print(report: Report, console: Console) -> None:
    width = min(console.width, WIDEST)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), width=width)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for finding in report.findings:
        mark, style = MARKS[str(finding.level)]
        words = Text(finding.what)
        if finding.fix:
            words.append(f"\n→ {finding.fix}", style="bold" if finding.level != "ok" else "")
        table.add_row(Text(mark, style=style), Text(finding.check, style="cyan"), words)
    console.print(table)
    if report.parts:
        console.print()
        console.print(_window(report))
    console.print()
    console.print(_summary(report), width=width)


def _window(report: Report) -> Table:
    """What has to fit into the window, and what is left."""
    title = Text(f"A window of {report.window:,} tokens, estimated", style="bold")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column("part")
    table.add_column("tokens", justify="right")
    table.add_column("share", justify="right")
    for part in report.parts:
        last = part is report.parts[-1]
        style = "" if not last else "bold red" if part.tokens < 0 else "bold"
        share = f"{part.tokens / max(1, report.window):.0%}"
        table.add_row(Text(part.name, style=style), Text(f"{part.tokens:,}", style=style), Text(share, style=style))
    return table


def _summary(report: Report) -> Text:
    warnings = f"{report.warnings} warning{'s' if report.warnings != 1 else ''}"
    if report.errors:
        errors = f"{report.errors} error{'s' if report.errors != 1 else ''}"
        return Text(f"{errors}, {warnings}: mend the errors before npc attach", style="bold red")
    if report.warnings:
        return Text(f"no errors, {warnings}: the NPC can start", style="bold yellow")
    return Text("nothing is wrong: the NPC can start", style="bold green")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the parts of a life would log is told as findings."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
