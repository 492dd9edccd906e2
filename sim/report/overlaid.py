"""Two runs as a page, their plots laid over one another.

Invariant: as `page`: escaped, without script. The first run is drawn solid, the second dashed.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.report import comparing, plots
from sim.report.figures import Figures, Fill, Life, Series
from sim.report.page import MOST_DRAWN, environment, span_of

#: Panels by figure: title, series, logarithmic, the form of its scale.
_PANELS = (
    ("Tokens, cache and dollars", (
        ("input tokens a turn", "input_tokens", False, "{x:,.0f}"),
        ("read from the prompt cache, share of a request", "cache_share", False, "{x:.0%}"),
        ("dollars a turn", "dollars", False, "${x:.4f}"),
    )),
    ("Lag and latencies", (
        ("ms to the end of the turn (logarithmic)", "turn_ms", True, "{x:,g}"),
        ("ms to the request with the news (logarithmic)", "lag_ms", True, "{x:,g}"),
        ("ms of the ladder (logarithmic)", "ladder_ms", True, "{x:,g}"),
    )),
    ("Memory and CPU of the NPC's process", (
        ("MB resident", "rss_mb", False, "{x:,.0f}"),
        ("ms of CPU a turn", "cpu_ms", False, "{x:,.0f}"),
    )),
)  # fmt: skip


#: Buckets of a curve that another one lies over.
MOST_BUCKETS = 250


def page_of(before: Figures, after: Figures, *, names: tuple[str, str]) -> str:
    """The whole document. Lives are paired in their order.

    Raises:
        NoPlotsError: the plotting library is not installed.
    """
    made = environment()
    made.filters |= {"shown": comparing.shown, "changed": comparing.changed}
    rows = comparing.rows(before, after)
    pairs = list(zip(before.lives, after.lives, strict=False))[:MOST_DRAWN]
    drawn = [(_both(a, b), list(_plots(a, b, before, names, f"pair-{n}"))) for n, (a, b) in enumerate(pairs)]
    return made.get_template("compare.html").render(
        before=before, after=after, names=names, rows=rows, verdict=comparing.verdict(rows), options=comparing.differing(before, after),
        drawn=drawn if before.axis == after.axis else [],
    )  # fmt: skip


def _both(a: Life, b: Life) -> str:
    return a.npc if a.npc == b.npc else f"{a.npc} and {b.npc}"


def _plots(a: Life, b: Life, figures: Figures, names: tuple[str, str], key: str) -> Iterator[plots.Plot]:
    spans = [span_of(life) for life in (a, b)]
    span = (min(first for first, _ in spans), max(last for _, last in spans))
    fills = [_fullest(life.fill) for life in (a, b) if life.fill]
    full = [plots.Panel(title="tokens in the window, the fullest request", tracks=_tracks(fills, names))] if len(fills) == 2 else []
    figure = plots.panels("What stands in the window", full, figures.axis, span=span, name=f"{key}-window")
    if figure is not None:
        yield figure
    for number, (title, wanted) in enumerate(_PANELS):
        panels = [
            plots.Panel(title=words, tracks=_tracks([a.series[name], b.series[name]], names), log=log, form=form)
            for words, name, log, form in wanted
            if name in a.series and name in b.series
        ]
        figure = plots.panels(title, panels, figures.axis, span=span, name=f"{key}-{number}")
        if figure is not None:
            yield figure


def _tracks(series: list[Series], names: tuple[str, str]) -> list[plots.Track]:
    # In buckets of one width, or the run with the finer ones would only look wilder.
    thin = [plots.thinner(each, MOST_BUCKETS) for each in series]
    thin = [plots.thinner(each, MOST_BUCKETS, wide=max(s.width for s in thin)) for each in thin]
    looks = (("blue", "-"), ("orange", "--"))
    return [plots.Track(name=n, series=s, shade=shade, dashes=dashes) for n, s, (shade, dashes) in zip(names, thin, looks, strict=True)]


def _fullest(fill: Fill) -> Series:
    high = tuple(float(v) for v in fill.high)
    ordered = sorted(high)
    return Series(
        unit="tokens", width=fill.width, x=fill.x, low=tuple(map(float, fill.low)), mean=high, high=high, samples=fill.requests,
        median=ordered[len(ordered) // 2], most_99=ordered[int(len(ordered) * 0.99)],
    )  # fmt: skip
