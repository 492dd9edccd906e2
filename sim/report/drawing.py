"""A matplotlib figure as a piece of SVG for the middle of a page: no script, colours that follow the page, ids that clash with no others.

Invariant: the only module of the simulator that knows matplotlib's output. The same figure gives the same bytes. Texts stay texts; every
colour that a plot names in `INK` or `SHADES` is a variable of the page, so that one drawing serves a light page, a dark one and paper.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Stand-ins for the page's own colours.
INK, SOFT, RULE, GROUND = "#101112", "#505152", "#d0d1d2", "#fefdfc"
_PAGE: Mapping[str, str] = {INK: "--ink", SOFT: "--soft", RULE: "--rule", GROUND: "--ground"}
#: Okabe and Ito's colours, which people with any kind of colour vision tell apart, and three greys.
SHADES: Mapping[str, str] = {
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "yellow": "#f0e442",
    "blue": "#0072b2",
    "vermillion": "#d55e00",
    "purple": "#cc79a7",
    "slate": "#7a7b7c",
    "grey": "#a0a1a2",
    "stone": "#c8c9ca",
}
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "npc",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titley": 1.0,  # without it every tick is measured once more to see whether a title is in its way
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}


class NoPlotsError(Exception):
    """The plotting library is not installed. One sentence."""


@contextmanager
def canvas(width: float, height: float) -> Iterator[Canvas]:
    """An empty figure of so many inches, drawn in this house's manner inside the block.

    Raises:
        NoPlotsError: there is nothing to draw with.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 (an extra, and half a second that only a report is worth)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise NoPlotsError("The report's plots need matplotlib: pip install 'perpetual-npc[report]'.") from error
    with mpl.rc_context(rc=_RC):
        yield Figure(figsize=(width, height))


def ticks(axes: Axes, lines: Sequence[tuple[float, float, float]], shade: str) -> None:
    """Upright strokes (x, from, to) as one path: thousands of elements would make a page slow."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415 (as above)
    from matplotlib.path import Path  # noqa: PLC0415

    points = [point for x, low, high in lines for point in ((x, low), (x, high))]
    codes = [Path.MOVETO, Path.LINETO] * len(lines)
    if points:
        axes.add_patch(PathPatch(Path(points, codes), edgecolor=SHADES[shade], facecolor="none", linewidth=1.0, capstyle="butt"))


def as_svg(figure: Canvas, *, name: str, alt: str, linked: bool = False) -> str:
    """The drawing as one `<svg>` element.

    Args:
        figure: made by `canvas`, still inside its block.
        name: of letters, digits and dashes; no other drawing of the page may have it.
        alt: what there is to see, for those who do not see it.
        linked: some of its marks are links.
    """
    out = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # texts stay texts: the reader's browser has the fonts
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*; ", "", re.sub(r'font: ([\d.]+px) [^;"]*', r"font-size: \1", svg))
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d)\d+", r"\1", tag[0]), svg)
    used = set(re.findall(r"#([\w-]+)", svg))
    own = set(re.findall(r' id="([^"]+)"', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r"#([\w-]+)", lambda m: f"#{name}-{m[1]}" if m[1] in own else m[0], svg)
    for colour, variable in (*_PAGE.items(), *((value, f"--{shade}") for shade, value in SHADES.items())):
        svg = svg.replace(colour, f"var({variable})")
    role = "group" if linked else "img"
    head = f'<svg class="plot" role="{role}" aria-label="{html.escape(alt, quote=True)}"'
    return re.sub(r"\s*\n\s*", "\n", re.sub(r'<svg(?: width="[^"]*"| height="[^"]*")*', head, svg, count=1)).strip()
