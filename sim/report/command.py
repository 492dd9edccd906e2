"""`npc sim compare`, and what commands that make figures share: `--report` and `--figures`.

Invariant: what cannot be written is said before a run begins, where it can be known then, and never costs the run's own verdict.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sim.report.comparing import rendered
from sim.report.figures import Figures, FiguresError, read


def check_outputs(report: Path | None, figures: Path | None, *, option: str = "--report") -> None:
    """Finds out whether both files can be written, before hours have gone into what they hold.

    Raises:
        typer.BadParameter: one of them cannot.
    """
    if report is not None and importlib.util.find_spec("matplotlib") is None:
        raise typer.BadParameter("the plots need matplotlib: pip install 'perpetual-npc[report]'", param_hint=option)
    for path, hint in ((report, option), (figures, "--figures")):
        if path is None:
            continue
        if path.is_dir():
            raise typer.BadParameter(f"{path} is a folder; name a file", param_hint=hint)
        if not path.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {path.parent}", param_hint=hint)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise typer.BadParameter(f"{path} may not be written", param_hint=hint)


def keep_outputs(make: Callable[[], Figures], report: Path | None, figures: Path | None, console: Console) -> None:
    """Writes what was asked for and says where it is; a disk that has filled up meanwhile is one sentence."""
    made = make()
    try:
        if figures is not None:
            made.write(figures)
            console.print(f"Figures: {figures}", markup=False, highlight=False, soft_wrap=True)
        if report is not None:
            from sim.report.page import write  # noqa: PLC0415 (the page and its plots are worth their start only when they are wanted)

            write(made, report)
            console.print(f"Report: {report}", markup=False, highlight=False, soft_wrap=True)
    except OSError as error:
        console.print(f"{error.filename} could not be written: {error.strerror}.", style="bold red", markup=False, soft_wrap=True)


def as_typed() -> str:
    """The command line, as one would type it."""
    return shlex.join(["npc", *sys.argv[1:]])


def compare(
    before: Annotated[Path, typer.Argument(help="Figures of one run, from npc sim flood --figures.")],
    after: Annotated[Path, typer.Argument(help="Figures of another.")],
    page: Annotated[Path | None, typer.Option("--html", help="Write both runs as a page, their plots laid over one another.")] = None,
) -> None:
    """Put two runs side by side: what is better, what is worse, and by how much.

    Example: npc sim compare before.json after.json --html compared.html
    """
    console = Console(stderr=True)
    try:
        check_outputs(page, None, option="--html")
        first, second = read(before), read(after)
    except FiguresError as error:
        console.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(2) from error
    names = (before.stem, after.stem) if before.stem != after.stem else (str(before), str(after))
    out = Console()
    out.print(rendered(first, second, names=names))
    if page is not None:
        from sim.report.overlaid import page_of  # noqa: PLC0415 (as above)

        try:
            page.write_text(page_of(first, second, names=names), encoding="utf-8")
        except OSError as error:
            console.print(f"{page} could not be written: {error.strerror}.", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        out.print(f"Page: {page}", markup=False, highlight=False, soft_wrap=True)
