"""The plots of a life.

Invariant: pure in the figures. No plot tells things apart by colour alone: areas have hatches, lines dashes and names, rungs rows.
Where many values share a bucket the whole band from the least to the most is drawn, so that no peak is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sim.report.drawing import GROUND, INK, SHADES, SOFT, as_svg, canvas, ticks
from sim.report.figures import PARTS, Axis, Fill, Life, Marks, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Each part's shade and hatch, in the order in which they are stacked.
LOOKS: Mapping[str, tuple[str, str, str]] = {
    "tools": ("tools", "slate", ""),
    "system": ("rules, persona, constitution", "stone", "////"),
    "record": ("record of older turns", "purple", ""),
    "observations": ("observations", "sky", ""),
    "own_words": ("own words and calls", "orange", "++"),
    "tool_results": ("tool results", "green", "\\\\\\\\"),
    "recalled": ("recalled memories", "yellow", "||||"),
    "notebook": ("notebook", "vermillion", "----"),
    "tail": ("standing rules, meter", "grey", "xxxx"),
}
#: Each rung's name, the same where there is little room, and its shade.
RUNGS: Mapping[str, tuple[str, str, str]] = {
    "evict_tool_outputs": ("1 evict outputs", "1 evict", "green"),
    "compact": ("2 compact", "2 compact", "blue"),
    "trim": ("3 trim", "3 trim", "orange"),
    "shed_recall": ("4 shed recall", "4 shed", "purple"),
    "hard_reset": ("5 hard reset", "5 reset", "vermillion"),
}
#: Buckets that a narrow drawing has room for.
NARROW = 150
#: Inches: how wide the two drawings are, and what stands beside their axes. All of one width have the same, so that x is below x.
WIDE, SLIM = 10.4, 4.4
LEFT, SLIM_LEFT, RIGHT, TOP, BOTTOM, GAP = 1.15, 0.75, 0.22, 0.3, 0.45, 0.36
#: Inches of a letter beside a row, and of a legend above a panel.
LETTER, LEGEND = 0.075, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One figure of the page: `wide` for a screen and for paper, `narrow` for a phone."""

    name: str
    title: str
    caption: str
    wide: str
    narrow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One series in a panel."""

    name: str
    series: Series
    shade: str = "blue"
    dashes: str = "-"
    factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes with its own scale."""

    title: str
    tracks: Sequence[Track]
    log: bool = False
    most: float | None = None
    form: str = "{x:,.0f}"


def window(life: Life, axis: Axis, *, name: str) -> Plot | None:
    """What stands in the window over the life, and below it where each rung of the ladder ran."""
    fill = life.fill
    if fill is None or not fill.x:
        return None
    rungs = {r.name: r for r in life.rungs if r.ran}
    shown = [rung for rung in RUNGS if rung in rungs]
    resets = len(life.resets)
    ran = ", ".join(f"{RUNGS[rung][0][2:]} {rungs[rung].ran:,} times" for rung in shown) or "no rung of the ladder ran"
    most = max(fill.high)
    alt = f"Stacked areas: tokens in the window of {life.npc} over {fill.requests:,} requests, at most {most:,} of {fill.limit:,}; {ran}."

    def draw(kind: str, *, narrow: bool) -> str:
        width, chart, below = (SLIM, 2.9, 1.6) if narrow else (WIDE, 2.9, 0.85)
        tall = 0.22 * max(len(shown), 1)
        height = TOP + chart + 0.12 + tall + below
        with canvas(width, height) as figure:
            top = figure.add_axes(_place(width, height, bottom=below + tall + 0.12, tall=chart))
            foot = figure.add_axes(_place(width, height, bottom=below, tall=tall), sharex=top)
            coarse = coarser(fill, NARROW) if narrow else fill
            _stack(top, coarse)
            steps = _steps(coarse.x, coarse.width)
            top.step(steps.edges, steps.of(coarse.low), where="post", color=INK, linewidth=0.7, linestyle=":", label="emptiest request")
            top.axhline(fill.limit, color=INK, linewidth=1.0, linestyle=(0, (6, 2)))
            top.annotate(f"window {fill.limit:,}", (1.0, fill.limit), xycoords=("axes fraction", "data"), xytext=(-2, 2),
                         textcoords="offset points", fontsize=8, ha="right")  # fmt: skip
            top.set_ylim(0, fill.limit * 1.14)
            top.set_title("tokens in the window")
            top.yaxis.set_major_formatter("{x:,.0f}")
            top.tick_params(labelbottom=False)
            for n, reset in enumerate(life.resets, 1):
                top.axvline(reset.x, color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
                if resets <= 40 and not (narrow and resets > 12):
                    top.annotate(f"R{n}", (reset.x, 1.0), xycoords=("data", "axes fraction"), xytext=(1, -7), textcoords="offset points",
                                 fontsize=7.5, url=f"#reset-{name}-{n}")  # fmt: skip
            _rows(foot, [(RUNGS[rung][narrow], RUNGS[rung][2], rungs[rung].marks) for rung in shown], narrow=narrow)
            foot.set_xlim(fill.x[0], fill.x[-1] + fill.width)
            _feet(foot, axis)
            handles, labels = top.get_legend_handles_labels()
            figure.legend(handles, labels, loc="lower center", ncols=2 if narrow else 5, handlelength=2.2, columnspacing=1.4)
            return as_svg(figure, name=f"{name}-window-{kind}", alt=alt, linked=bool(resets))

    return Plot(
        name=f"{name}-window",
        title="What stands in the window",
        caption=f"{_buckets(fill.width, axis)}; the layers are the parts of the fullest request in it, the dotted line is the size of the "
        f"emptiest one. {fill.requests:,} requests. Below: every rung of the ladder that freed something ({ran}); "
        "the height of a mark is how often it ran in that bucket, compared with its busiest one. R1, R2, … are hard resets.",
        wide=draw("wide", narrow=False),
        narrow=draw("narrow", narrow=True),
    )


def panels(title: str, made: Iterable[Panel], axis: Axis, *, span: tuple[float, float], name: str) -> Plot | None:
    """Panels below one another: means as lines, from the least to the most as bands."""
    shown = [panel for panel in made if panel.tracks]
    if not shown:
        return None
    said = "; ".join(_told(panel) for panel in shown)

    def draw(kind: str, *, narrow: bool) -> str:
        width, tall = (SLIM, 1.4) if narrow else (WIDE, 1.3)
        heads = [GAP + (LEGEND if narrow and len(panel.tracks) > 1 else 0) for panel in shown]
        height = foot = sum(heads) + len(shown) * tall + BOTTOM
        with canvas(width, height) as figure:
            for n, (panel, head) in enumerate(zip(shown, heads, strict=True)):
                foot -= head + tall
                axes = figure.add_axes(_place(width, height, bottom=foot, tall=tall))
                _panel(axes, panel, narrow=narrow)
                if len(panel.tracks) > 1:
                    axes.legend(loc="upper left" if narrow else "upper right", ncols=len(panel.tracks), borderaxespad=0, handlelength=2.4,
                                bbox_to_anchor=(0.0 if narrow else 1.0, 1 + (head - 0.02) / tall), columnspacing=1.2)  # fmt: skip
                axes.set_xlim(span)
                axes.tick_params(labelbottom=n == len(shown) - 1)
            _feet(axes, axis)
            return as_svg(figure, name=f"{name}-{kind}", alt=f"{title}. {said}.")

    widths = {t.series.width for panel in shown for t in panel.tracks}
    return Plot(
        name=name,
        title=title,
        caption=f"{_buckets(max(widths), axis)}; lines are means, bands reach from the least to the most. Medians, and what 99 of 100 lie "
        f"below: {said}.",
        wide=draw("wide", narrow=False),
        narrow=draw("narrow", narrow=True),
    )


def rows(title: str, made: Sequence[tuple[str, Marks]], axis: Axis, *, span: tuple[float, float], name: str, alt: str) -> Plot | None:
    """What came about when, a row for each kind."""
    if not made:
        return None

    def draw(kind: str, *, narrow: bool) -> str:
        width, tall = SLIM if narrow else WIDE, 0.22 * len(made)
        height = 0.1 + tall + BOTTOM
        with canvas(width, height) as figure:
            left = max(SLIM_LEFT if narrow else LEFT, LETTER * max(len(label) for label, _ in made))
            axes = figure.add_axes(_place(width, height, bottom=BOTTOM, tall=tall, left=left))
            _rows(axes, [(label, "blue", marks) for label, marks in made], narrow=narrow)
            axes.set_xlim(span)
            _feet(axes, axis)
            return as_svg(figure, name=f"{name}-{kind}", alt=alt)

    return Plot(
        name=name, title=title, caption="One row a kind; the height of a mark is how often, compared with the row's busiest bucket.",
        wide=draw("wide", narrow=False), narrow=draw("narrow", narrow=True),
    )  # fmt: skip


def _place(width: float, height: float, *, bottom: float, tall: float, left: float = 0.0) -> tuple[float, float, float, float]:
    """Axes as shares of a figure, all in inches."""
    left = left or (LEFT if width == WIDE else SLIM_LEFT)
    return (left / width, bottom / height, (width - left - RIGHT) / width, tall / height)


def _stack(axes: Axes, fill: Fill) -> None:
    steps = _steps(fill.x, fill.width)
    base: Sequence[float] = [0.0] * len(fill.x)
    for part in PARTS:
        label, shade, hatch = LOOKS[part]
        top = [a + b for a, b in zip(base, fill.parts.get(part, (0,) * len(base)), strict=True)]
        axes.fill_between(steps.edges, steps.of(base), steps.of(top), step="post", facecolor=SHADES[shade], hatch=hatch, edgecolor=GROUND,
                          linewidth=0.2, label=label)  # fmt: skip
        base = top
    axes.margins(x=0)


def _panel(axes: Axes, panel: Panel, *, narrow: bool) -> None:
    for track in panel.tracks:
        series = thinner(track.series, NARROW) if narrow else track.series
        steps = _steps(series.x, series.width)
        low, mean, high = (steps.of(values, track.factor) for values in (series.low, series.mean, series.high))
        axes.fill_between(steps.edges, low, high, step="post", facecolor=SHADES[track.shade], alpha=0.28, linewidth=0)
        axes.step(steps.edges, mean, where="post", color=SHADES[track.shade], linestyle=track.dashes, linewidth=1.3, label=track.name)
    axes.set_title(panel.title)
    axes.margins(x=0)
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(lambda *_: "")  # between two tens it would write raw formulas
    else:
        axes.set_ylim(0, panel.most)
    axes.yaxis.set_major_formatter(panel.form)


def _rows(axes: Axes, made: Sequence[tuple[str, str, Marks]], *, narrow: bool) -> None:
    """A row of marks for each; the first on top."""
    for n, (_, shade, marks) in enumerate(made):
        shown = fewer(marks, 2 * NARROW) if narrow else marks
        most = max(shown.times, default=1)
        foot = -n - 0.45
        ticks(axes, [(at + shown.width / 2, foot, foot + 0.2 + 0.7 * t / most) for at, t in zip(shown.x, shown.times, strict=True)], shade)
    axes.set_yticks([-n for n in range(len(made))], [label for label, _, _ in made])
    axes.set_ylim(-len(made) + 0.4, 0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    if not made:
        axes.text(0.0, 0.5, "no rung of the ladder was needed", transform=axes.transAxes, color=SOFT)
        axes.set_yticks([])


@dataclass(frozen=True, slots=True)
class _Steps:
    """Where each bucket begins, and the last one's end; where buckets are missing nothing is drawn."""

    edges: list[float]
    order: list[int | None]  # which bucket begins at each edge

    def of(self, values: Sequence[float], factor: float = 1.0) -> list[float]:
        """A value for each edge; the end of a stretch repeats its last one, since steps are drawn to the right."""
        out = [math.nan if at is None else values[at] * factor for at in self.order]
        return [out[n - 1] if math.isnan(value) and n and not math.isnan(out[n - 1]) else value for n, value in enumerate(out)]


def _steps(x: Sequence[float], width: float) -> _Steps:
    edges: list[float] = []
    order: list[int | None] = []
    for n, at in enumerate(x):
        edges.append(at)
        order.append(n)
        if n + 1 == len(x) or x[n + 1] > at + 1.5 * width:
            edges += [at + width, at + width]
            order += [None, None]
    return _Steps(edges, order)


def _feet(axes: Axes, axis: Axis) -> None:
    """What x is."""
    axes.set_xlabel(f"{axis.name} ({axis.unit})" if axis.unit else axis.name)
    axes.xaxis.set_major_formatter("{x:,g}")


def _buckets(width: float, axis: Axis) -> str:
    if width == 1 and not axis.unit:
        return f"Each {axis.name} by itself"
    return f"Each step is {width:g} {axis.unit or axis.name + 's'}"


def _told(panel: Panel) -> str:
    title = f"{panel.title.removesuffix(' (logarithmic)')}: " if len(panel.tracks) > 1 else ""
    return title + ", ".join(f"{track.name} {_middle(track)}" for track in panel.tracks)


def _middle(track: Track) -> str:
    series = track.series
    unit = f" {series.unit}" if series.unit and series.unit != "share" else ""
    if series.median is None or series.most_99 is None:
        return "not measured"
    if series.unit == "share":
        return f"{series.median:.0%} and {series.most_99:.0%}"
    form = ",.5f" if series.unit == "dollars" else ",.1f" if series.median < 100 else ",.0f"
    return f"{series.median:{form}} and {series.most_99:{form}}{unit}"


def _groups(x: Sequence[float], width: float, most: int, wide: float = 0.0) -> tuple[float, dict[float, list[int]]]:
    """Buckets joined until there are few enough and each is wide enough: the new width, and which of the old ones each new one holds."""
    groups = {at: [n] for n, at in enumerate(x)}
    while len(groups) > most or width < wide:
        width *= 2
        groups = {}
        for n, at in enumerate(x):
            groups.setdefault(at // width * width, []).append(n)
    return width, groups


def thinner(series: Series, most: int, *, wide: float = 0.0) -> Series:
    """A series in at most so many buckets, each at least so wide; its percentiles stay those of all values."""
    width, groups = _groups(series.x, series.width, most, wide)
    return Series(
        unit=series.unit, width=width, x=tuple(groups), samples=series.samples, median=series.median, most_99=series.most_99,
        low=tuple(min(series.low[n] for n in held) for held in groups.values()),
        mean=tuple(sum(series.mean[n] for n in held) / len(held) for held in groups.values()),
        high=tuple(max(series.high[n] for n in held) for held in groups.values()),
    )  # fmt: skip


def coarser(fill: Fill, most: int) -> Fill:
    """What stood in the window in at most so many buckets."""
    width, groups = _groups(fill.x, fill.width, most)
    high = fill.high
    fullest = [max(held, key=high.__getitem__) for held in groups.values()]
    parts: dict[Any, tuple[int, ...]] = {part: tuple(values[n] for n in fullest) for part, values in fill.parts.items()}
    low = tuple(min(fill.low[n] for n in held) for held in groups.values())
    return Fill(limit=fill.limit, width=width, x=tuple(groups), low=low, parts=parts, requests=fill.requests)


def fewer(marks: Marks, most: int) -> Marks:
    """Marks in at most so many buckets."""
    width, groups = _groups(marks.x, marks.width, most)
    return Marks(width=width, x=tuple(groups), times=tuple(sum(marks.times[n] for n in held) for held in groups.values()))
