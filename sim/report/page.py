"""One run as a page: a single HTML file that asks nobody for anything and runs no script.

Invariant: every word that is not ours (diary entries, names, sentences of errors) is escaped by the template; what is cut short or drawn in
buckets says so on the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sim.report import plots
from sim.report.drawing import SHADES
from sim.report.figures import Figures, Life

#: Lives with plots of their own; the others stand in the table of lives.
MOST_DRAWN = 4
#: Steps of a plot, of all lives together: a page stays small enough to be sent.
MOST_BUCKETS = 600
#: Rows of a table.
MOST_ROWS = 200
#: What the tiles at the top show: name in the summary, words, format.
TILES = (
    ("turns", "turns lived", ",d"),
    ("turns_failed", "turns failed", ",d"),
    ("requests_rejected", "requests rejected", ",d"),
    ("tokens_per_turn", "input tokens a turn", ",.0f"),
    ("cache_read_share", "read from cache", ".1%"),
    ("dollars_per_1000_turns", "dollars per 1,000 turns", ",.2f"),
    ("policy_ms_p50", "ladder, median ms", ",.2f"),
    ("peak_rss_mb", "peak MB resident", ",.0f"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A life on the page: where its links lead, and its plots."""

    key: str
    life: Life
    plots: Sequence[plots.Plot]


def page(figures: Figures) -> str:
    """The whole document.

    Raises:
        NoPlotsError: the plotting library is not installed.
    """
    lives = sorted(figures.lives, key=lambda life: (-life.turns_failed, -len(life.resets), -len(life.faults)))
    chosen = lives[:MOST_DRAWN]
    most = max(MOST_BUCKETS // max(len(chosen), 1), plots.NARROW)
    drawn = [
        _Drawn(key=f"life-{n}", life=life, plots=list(_plots(_thinned(life, most), figures, f"life-{n}")))
        for n, life in enumerate(chosen, 1)
    ]
    return environment().get_template("report.html").render(
        figures=figures,
        lives=lives,
        drawn=drawn,
        undrawn=max(0, len(lives) - MOST_DRAWN),
        tiles=[(words, format(value, form)) for name, words, form in TILES if (value := _figure(figures, name)) is not None],
        rungs=plots.RUNGS,
        most_rows=MOST_ROWS,
    )


def environment() -> Environment:
    """The templates, with what all of them use."""
    made = Environment(
        loader=PackageLoader("sim.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"moment": _moment, "number": _number}
    # `svg` is for drawings only: they hold no word that was not escaped when it was drawn.
    made.globals |= {"shades": SHADES, "svg": Markup}
    return made


def write(figures: Figures, path: Path) -> None:
    """The page as a file.

    Raises:
        NoPlotsError: the plotting library is not installed.
        OSError: it cannot be written.
    """
    path.write_text(page(figures), encoding="utf-8")


def _plots(life: Life, figures: Figures, key: str) -> Iterator[plots.Plot]:
    axis, s, span = figures.axis, life.series, span_of(life)

    def track(name: str, words: str, shade: str = "blue", dashes: str = "-") -> list[plots.Track]:
        return [plots.Track(name=words, series=s[name], shade=shade, dashes=dashes)] if name in s else []

    made = (
        plots.window(life, axis, name=key),
        plots.panels(
            "Tokens, cache and dollars",
            (
                plots.Panel(title="input tokens a turn", tracks=track("input_tokens", "input tokens", "blue")),
                plots.Panel(
                    title="read from the prompt cache, share of a request", tracks=track("cache_share", "read from cache", "green"),
                    most=1.0, form="{x:.0%}",
                ),
                plots.Panel(title="dollars a turn", tracks=track("dollars", "dollars", "vermillion"), form="${x:.4f}"),
            ),
            axis, span=span, name=f"{key}-cost",
        ),
        plots.panels(
            "Lag and latencies",
            (
                plots.Panel(
                    title="ms from the first line told (logarithmic)", log=True, form="{x:,g}",
                    tracks=[*track("turn_ms", "end of the turn", "blue"), *track("lag_ms", "request with the news", "orange", "--")],
                ),
                plots.Panel(
                    title="ms of a request (logarithmic)", log=True, form="{x:,g}",
                    tracks=[*track("request_ms", "waiting for its answer", "blue"), *track("ladder_ms", "the ladder", "orange", "--")],
                ),
            ),
            axis, span=span, name=f"{key}-time",
        ),
        plots.panels(
            "Memory and CPU of the NPC's process",
            (
                plots.Panel(title="MB resident", tracks=track("rss_mb", "memory", "purple")),
                plots.Panel(title="ms of CPU a turn", tracks=track("cpu_ms", "CPU", "green")),
            ),
            axis, span=span, name=f"{key}-process",
        ),
        plots.rows(
            "Faults", [(kind.name.replace("_", " "), kind.marks) for kind in life.fault_kinds[:40]], axis, span=span, name=f"{key}-faults",
            alt="Rows of marks: when each kind of fault came. " + "; ".join(f"{k.name} {k.times} times" for k in life.fault_kinds[:40]),
        ),
    )  # fmt: skip
    return (plot for plot in made if plot is not None)


def _thinned(life: Life, most: int) -> Life:
    """A life in as many steps as are to be drawn."""
    return life.model_copy(
        update={
            "fill": plots.coarser(life.fill, most) if life.fill else None,
            "series": {name: plots.thinner(series, most) for name, series in life.series.items()},
            "rungs": tuple(rung.model_copy(update={"marks": plots.fewer(rung.marks, 2 * most)}) for rung in life.rungs),
            "fault_kinds": tuple(kind.model_copy(update={"marks": plots.fewer(kind.marks, 2 * most)}) for kind in life.fault_kinds),
        }
    )


def span_of(life: Life) -> tuple[float, float]:
    """Where the life begins and ends in x."""
    grids = [*life.series.values(), *([life.fill] if life.fill else ()), *(kind.marks for kind in life.fault_kinds)]
    found = [(grid.x[0], grid.x[-1] + grid.width) for grid in grids if grid.x]
    return min((first for first, _ in found), default=0.0), max((last for _, last in found), default=1.0)


def _figure(figures: Figures, name: str) -> Any:
    value = figures.summary.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC" if 0 < at < 1e11 else ""


def _number(value: float | None, form: str = ",g") -> str:
    return "–" if value is None else format(value, form)
