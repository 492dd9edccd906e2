"""The report of a run: figures as a file, and a page that opens anywhere (S3, C36)."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page
from typer.testing import CliRunner

from sim.cli import app
from sim.report import Report
from sim.report.buckets import SeriesGrid
from sim.report.collect import collect
from sim.report.figures import PARTS, Figures, Fill, read
from sim.report.page import page
from sim.run import Options
from tests.npc.test_diary_browser import _CONTRAST
from tests.sim.sample_figures import HOSTILE, sample

pytestmark = pytest.mark.timeout(300)  # a flood in processes of its own, on a machine that may be busy

DESK = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
WINDOW = 7_000
MAX_BYTES = 3_000_000
_SMALLEST = "Math.min(...[...document.querySelectorAll('svg.plot text')].map(t => t.getBoundingClientRect().height || 99))"


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A short flood in foul weather, as a user runs it: the folder of its two files, and what it printed."""
    folder = tmp_path_factory.mktemp("flooded")
    words = ("--turns", "12", "--window", str(WINDOW), "--seed", "3", "--model-faults", "overload:0.1", "--json")

    async def run() -> tuple[bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "npc", "sim", "flood", *words, "--report", "r.html", "--figures", "f.json"),
            cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(280):
            return await process.communicate()

    out, err = asyncio.run(run())
    assert b"Traceback" not in err, err.decode()
    return folder, json.loads(out)


@pytest.fixture(scope="module")
def figures(flooded: tuple[Path, dict[str, Any]]) -> Figures:
    return read(flooded[0] / "f.json")


def test_the_figures_say_what_the_run_printed(flooded: tuple[Path, dict[str, Any]], figures: Figures) -> None:
    """S3: one truth: the file's life adds up to the printed totals, each number seen where it came about."""
    printed, life = flooded[1], figures.lives[0]
    assert figures.summary == {k: v for k, v in printed.items() if k != "findings"}
    assert (life.turns, life.requests) == (12, printed["requests"])
    assert {r.name: r.ran for r in life.rungs if r.ran} == {k: v for k, v in printed["rungs"].items() if v}
    assert [r.entry_text != "" for r in life.resets] == [True] * printed["rungs"]["hard_reset"]
    assert life.dollars * 1_000 / 12 == pytest.approx(printed["dollars_per_1000_turns"], rel=0.001)
    measured = set(life.series)
    assert measured >= {"input_tokens", "dollars", "cache_share", "lag_ms", "turn_ms", "request_ms", "ladder_ms"}
    assert sys.platform != "linux" or {"cpu_ms", "rss_mb"} <= measured
    assert life.series["ladder_ms"].samples >= life.series["lag_ms"].samples == 12
    assert figures.command.startswith("npc") or "__main__" in figures.command
    assert str(flooded[0]) not in (flooded[0] / "f.json").read_text("utf-8"), "no path of this machine"


def test_the_window_is_shown_by_its_parts(figures: Figures) -> None:
    """C36, P2: every part of the context has its size, all of them together fit the window, and the ladder kept the high from staying."""
    fill = figures.lives[0].fill
    assert fill is not None
    assert list(fill.parts) == list(PARTS)
    for part in ("tools", "system", "observations", "own_words", "tool_results", "notebook", "tail"):
        assert max(fill.parts[part]) > 0, part
    assert all(low <= high <= WINDOW for low, high in zip(fill.low, fill.high, strict=True))
    assert len({*fill.parts["tools"]}) == 1, "the fixed part does not move"


def test_every_fault_has_an_end(figures: Figures) -> None:
    """S3, S5: what went wrong at the model's end is counted by kind, and each says how it ended."""
    life = figures.lives[0]
    assert {k.name for k in life.fault_kinds} & {"http_429", "http_500", "http_529"}
    for kind in life.fault_kinds:
        assert kind.times == sum(kind.ended.values()) == sum(kind.marks.times)
        assert all(how.startswith("good again") for how in kind.ended)
        assert kind.worst_turns <= 2
    assert len(life.faults) == sum(k.times for k in life.fault_kinds)


def test_folders_of_this_machine_stay_out_of_the_file() -> None:
    """S3: a file of figures can be shown to anybody: of paths only the file's name is kept."""
    told, keep = Path("/hidden/place/tavern.jsonl"), Path("/hidden/homes")
    options = Options(turns=1, window=4_000, recording=told, keep=keep, command=("/hidden/npc",))
    text = collect(Report(options, []), command="npc sim flood", now=datetime(2031, 5, 7, tzinfo=UTC)).model_dump_json()
    assert "tavern.jsonl" in text
    assert "hidden" not in text


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e9, 1e9)), min_size=1, max_size=400))
def test_buckets_hide_no_peak(values: list[tuple[float, float]]) -> None:
    """S3: however many values there are, few buckets hold all of them: the least and the most are there, and they stand where they were."""
    grid = SeriesGrid(most=16)
    for x, value in values:
        grid.add(x, value)
    series = grid.series(digits=12)
    assert series is not None
    assert len(series.x) <= 16
    assert series.samples == len(values)
    assert max(series.high) == pytest.approx(max(v for _, v in values))
    assert min(series.low) == pytest.approx(min(v for _, v in values))
    for x, value in values:
        n = max(n for n, at in enumerate(series.x) if at <= x)
        assert x < series.x[n] + series.width
        assert series.low[n] - 1e-6 <= value <= series.high[n] + 1e-6


def test_a_file_that_cannot_be_written_is_said_before_the_run(tmp_path: Path) -> None:
    """S3: not after hours: one sentence, exit status 2."""
    for words in (("--report", str(tmp_path / "no" / "r.html")), ("--figures", str(tmp_path))):
        result = CliRunner().invoke(app, ["flood", "--turns", "2", *words])
        assert result.exit_code == 2
        assert "Traceback" not in result.output
        assert re.search(r"no folder|is a folder", " ".join(result.output.replace("│", " ").split()))


def test_the_page_is_one_small_file_that_runs_nothing(flooded: tuple[Path, dict[str, Any]]) -> None:
    """S3: self-contained, without script, under 3 MB; every plot has words for those who do not see it, every table a caption."""
    text = (flooded[0] / "r.html").read_text("utf-8")
    assert len(text.encode()) < MAX_BYTES
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert text.count("<caption>") == text.count("<table>") > 3
    plots = re.findall(r"<svg[^>]*>", text)
    assert len(plots) >= 10
    assert all(re.search(r'role="(img|group)" aria-label="[^"]{40,}"', plot) for plot in plots)
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids), "every link leads somewhere"


def test_a_run_of_many_lives_stays_small(figures: Figures) -> None:
    """S3: twenty long lives are a table of all and plots of those with most to see, in coarser steps, below 3 MB."""
    one = sample().lives[0].model_copy(update={"series": {}, "fault_kinds": ()})  # drawing them takes long, and they are small
    fill = Fill(
        limit=10_000, width=4, x=tuple(range(0, 2_400, 4)), low=(3_000,) * 600, requests=5_000,
        parts={part: tuple(100 + (n * 37 + k * 11) % 900 for k in range(600)) for n, part in enumerate(PARTS)},
    )  # fmt: skip
    lives = tuple(one.model_copy(update={"npc": f"Oda{n}", "fill": fill, "turns_failed": n % 7}) for n in range(20))
    text = page(figures.model_copy(update={"lives": lives}))
    assert len(text.encode()) < MAX_BYTES
    assert all(f"Oda{n}</th>" in text for n in range(20))
    assert "the plots below are of the 4 with most to see, 16 others have none" in text


@contextmanager
def opened(browser: Browser, path: Path, size: dict[str, int], scheme: str = "light") -> Iterator[Page]:
    """A page that fails the test if anything was written to its console, went wrong in it, or was asked of anyone."""
    context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    wrong: list[str] = []
    try:
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
        page.goto(path.as_uri())
        yield page
        assert wrong == []
    finally:
        context.close()


@pytest.mark.browser
@pytest.mark.real
@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light")])
def test_the_page_is_readable_at_a_desk_and_on_a_phone(
    browser: Browser, flooded: tuple[Path, dict[str, Any]], size: dict[str, int], scheme: str
) -> None:
    """S3: every plot is drawn, nothing sticks out at the side, words stand out from their ground, a phone gets drawings made for it."""
    with opened(browser, flooded[0] / "r.html", size, scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        boxes = [box for plot in page.locator("svg.plot").all() if (box := plot.bounding_box())]
        assert len(boxes) == 5, "window, cost, time, process, faults: each once"
        assert all(box["width"] > 0.85 * min(size["width"], 1_120) - 40 and box["height"] > 60 for box in boxes)
        small = page.evaluate(_SMALLEST)
        assert small >= 7, "the smallest words of a plot, in pixels"
        worst, element = page.evaluate(_CONTRAST)
        assert worst >= 4.5, element


@pytest.mark.browser
@pytest.mark.real
def test_hostile_words_stay_words_and_each_reset_leads_to_its_entry(browser: Browser, tmp_path: Path) -> None:
    """S3, C15: a diary entry, a reason and a sentence full of markup are text; R1 in the plot leads to its row, the row to its entry."""
    path = tmp_path / "hostile.html"
    path.write_text(page(sample(npc=HOSTILE[:150])), encoding="utf-8")
    with opened(browser, path, DESK) as shown:
        assert shown.title().startswith("Held")
        entry = shown.locator("article").first
        assert HOSTILE in entry.inner_text()
        assert shown.locator("script, img").count() == 0
        shown.locator("tbody a", has_text="day-0").click()
        assert shown.evaluate("location.hash") == f"#{entry.get_attribute('id')}"
        assert "R1" in entry.inner_text()
        assert len(shown.pdf(format="A4")) > 10_000
