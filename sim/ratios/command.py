"""`npc sim bench ratios`: the product's costs as ratios, held against a stored baseline."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

#: Columns of a table that goes to a file or a pipeline's log.
WIDTH = 130
BASELINE = Path(__file__).with_name("baseline.json")


def ratios(
    turns: Annotated[int, typer.Option(min=50, help="Turns of the flood.")] = 300,
    window: Annotated[int, typer.Option(min=4_000, help="Tokens of the model's window.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Another seed is another life.")] = 7,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds of the race against the bare loop; 0: none.")] = 2,
    baseline: Annotated[Path, typer.Option(help="Figures to hold against.", show_default=False)] = BASELINE,
    update: Annotated[bool, typer.Option("--update-baseline", help="Write these figures there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Costs as ratios: the ladder, a turn, bytes, dollars, start-up, intake, NPCs for a core; exit status 1 if one has become worse.

    Seconds say little about a shared machine; each figure is a quotient of two that were measured together.

    Example: npc sim bench ratios --turns 300
    """
    from sim import product  # noqa: PLC0415 - only this command needs them
    from sim.ratios.measure import measure  # noqa: PLC0415

    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=WIDTH)
    known = _known(baseline)
    progress = Progress(TextColumn("flood"), BarColumn(), MofNCompleteColumn(), console=console, disable=not console.is_terminal)
    try:
        with progress:
            task = progress.add_task("flood", total=turns)
            found = asyncio.run(
                measure(turns=turns, window=window, seed=seed, rounds=rounds, on_turn=lambda: progress.update(task, advance=1))
            )
    except product.ProductError as error:
        console.print(f"[bold red]Nothing was measured.[/] {error}")
        raise typer.Exit(1) from error
    worse = [one for one in found if one.name in known and one.worse(known[one.name])]
    if as_json:
        shown = [asdict(one) | {"baseline": known.get(one.name), "worse": one in worse} for one in found]
        typer.echo(json.dumps({"ratios": shown, "held": not worse}))
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for column in ("ratio", "now", "baseline", "limit", ""):
            table.add_column(column, justify="left" if column in ("ratio", "") else "right")
        for one in found:
            before = known.get(one.name)
            limit = None if before is None else before * one.tolerance if one.less_is_better else before / one.tolerance
            sign = "≤" if one.less_is_better else "≥"
            table.add_row(
                one.name, f"{one.value:.2f}", "–" if before is None else f"{before:.2f}", "–" if limit is None else f"{sign} {limit:.2f}",
                f"{'WORSE: ' if one in worse else ''}{one.what}", style="bold red" if one in worse else "",
            )  # fmt: skip
        console.print(table)
    if update:
        baseline.write_text(json.dumps({one.name: round(one.value, 3) for one in found}, indent=2) + "\n", encoding="utf-8")
        console.print(f"{baseline.name} is written.")
        raise typer.Exit(0)
    raise typer.Exit(1 if worse else 0)


def _known(path: Path) -> dict[str, float]:
    """The stored figures; none where there is no file yet.

    Raises:
        typer.BadParameter: it is no such file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in data.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise typer.BadParameter(f"{path} holds no figures ({error}): --update-baseline writes it anew", param_hint="--baseline") from error
