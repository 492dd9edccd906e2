"""What the demo shows: the village, the NPC, its window, its ladder, its purse.

Invariant: `Watched` is plain state fed with the product's events and the stand-in's records; drawing it changes nothing, and the same
state serves the live screen and the plain lines.
"""

from __future__ import annotations

import json
import math
import shlex
import unicodedata
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

PLAIN = "The model is a scripted stand-in on this machine: no key, no network, no cost. Everything else is the product as it is."
RUNG_WORDS: Mapping[str, str] = {
    "evict_tool_outputs": "old tool results left the window, a stub remains",
    "compact": "old turns were condensed into a record",
    "trim": "the oldest exchanges left the window",
    "shed_recall": "recalled memories left the window",
    "hard_reset": "the window was emptied; the session and a diary entry were stored first",
    "give_up": "nothing fits any more",
}
_LONG = 160


@dataclass(slots=True, kw_only=True)
class Watched:
    """Everything that can be shown of one NPC. `window` is in tokens."""

    npc: str
    window: int
    filled: int = 0
    turns: int = 0
    spoken: int = 0
    requests: int = 0
    declined: int = 0
    rejected: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    world_time: str = ""
    rungs: Counter[str] = field(default_factory=Counter)
    village: deque[Text] = field(default_factory=lambda: deque(maxlen=60))
    mind: deque[Text] = field(default_factory=lambda: deque(maxlen=60))

    def event(self, data: Mapping[str, Any]) -> Text | None:
        """Takes in one event of the product; returns the line that tells it, if it is worth one."""
        match data.get("event"):
            case "heard" if data.get("own"):
                return None  # its own words were shown when it spoke
            case "heard":
                line = heard(data)
                self.village.append(line)
                return line
            case "act":
                return self._mind(self._act(str(data.get("action")), data.get("args") or {}))
            case "done" if data.get("state") not in ("done", "accepted", None):
                return self._mind(Text(f"  {data.get('action')}: {_short(data.get('text') or data['state'])}", style="yellow"))
            case "thought":
                return self._mind(Text(f"  {_short(data.get('text'))}", style="italic dim"))
            case "turn":
                self.turns += 1
            case "request":
                self.filled = int(data.get("estimate") or 0)
            case "rung" if not data.get("failed"):
                rung = str(data.get("rung"))
                self.rungs[rung] += 1
                sizes = f" {int(data['before']):,} → {int(data['after']):,} tokens" if data.get("before") and data.get("after") else ""
                style = "bold magenta" if rung == "hard_reset" else "cyan"
                return self._mind(Text(f"▼ {rung.replace('_', ' ')}{sizes}: {RUNG_WORDS.get(rung, '')}", style=style))
            case "set aside":
                return self._mind(Text("▼ the model declined: the newest item is set aside, unread", style="magenta"))
            case "reset":
                return self._mind(Text(f"✎ diary: {_short(data.get('entry'), 300)}", style="magenta"))
            case "alarm" | "warning":
                return self._mind(Text(f"! {_short(data.get('text'))}", style="bold yellow"))
            case "waiting":
                return self._mind(Text(f"! the model cannot be reached, trying again in {data.get('seconds')} s", style="yellow"))
            case _:
                return None
        return None

    def bill(self, *, declined: bool, rejected: bool, input_tokens: int, cached: int, output: int, dollars: float) -> None:
        """Takes in one request as the stand-in billed it."""
        self.requests += 1
        self.declined += declined
        self.rejected += rejected
        self.input_tokens += input_tokens
        self.cached_tokens += cached
        self.output_tokens += output
        self.dollars += dollars

    def _mind(self, line: Text) -> Text:
        self.mind.append(line)
        return line

    def _act(self, action: str, args: Mapping[str, Any]) -> Text:
        if action == "say":
            self.spoken += 1
            return Text.assemble((f"{self.npc}: ", "bold green"), (f"“{_short(args.get('text'))}”", "green"))
        if action == "emote":
            return Text(f"{self.npc} {_short(args.get('text'))}", style="green italic")
        words = ", ".join(_short(v, 60) for v in args.values()) if args else ""
        return Text(f"{self.npc} → {action.replace('_', ' ')} {words}", style="green")

    # -- drawing

    def bar(self, width: int) -> Text:
        """How full the window is."""
        share = min(1.0, self.filled / self.window)
        cells = max(10, width - 34)
        full = round(share * cells)
        style = "green" if share < 0.6 else "yellow" if share < 0.9 else "red"
        return Text.assemble("window ", ("█" * full, style), ("░" * (cells - full), "dim"), f" {self.filled:>6,} of {self.window:,} tokens")

    def ladder(self) -> Text:
        """How often each rung ran."""
        parts: list[tuple[str, str] | str] = ["ladder "]
        for rung in RUNG_WORDS:
            if rung != "give_up":
                parts += [(f" {rung.replace('_', ' ')} ", "dim"), (str(self.rungs[rung]), "bold" if self.rungs[rung] else "dim"), "  "]
        return Text.assemble(*parts)

    def purse(self, left_s: float) -> Text:
        """Tokens and dollars."""
        cached = self.cached_tokens / self.input_tokens if self.input_tokens else 0.0
        return Text(
            f"{self.turns} turns, {self.requests} model calls, {self.input_tokens:,} tokens in ({cached:.0%} from cache), "
            f"{self.output_tokens:,} out, would cost ${self.dollars:.4f}   {max(0, math.ceil(left_s))} s left",
            style="dim",
        )

    def screen(self, *, width: int, height: int, left_s: float, model: str) -> RenderableType:
        """The whole screen."""
        layout = Layout()
        layout.split_column(Layout(name="head", size=4), Layout(name="body"), Layout(name="foot", size=5))
        where = f"npc attach · {model} · Tarnwick, {self.world_time or 'a village under a pass'}"
        head = Text.assemble((PLAIN, "bold"), "\n", (where, "dim"))
        layout["head"].update(Panel(head, title="perpetual-npc", border_style="blue"))
        rows = max(3, height - 4 - 5 - 2)
        left, right = Layout(name="village"), Layout(name="mind")
        layout["body"].split_row(left, right)
        half = max(20, width // 2 - 4)
        left.update(Panel(Group(*fitting(self.village, half, rows)), title=f"what happens around {self.npc}", border_style="dim"))
        right.update(Panel(Group(*fitting(self.mind, half, rows)), title=f"what {self.npc} does", border_style="dim"))
        layout["foot"].update(Panel(Group(self.bar(width - 4), self.ladder(), self.purse(left_s)), border_style="dim"))
        return layout


def heard(data: Mapping[str, Any]) -> Text:
    """One observation as a line."""
    kind, text = str(data.get("kind")), str(data.get("text") or "")
    styles = {"speech": "white", "combat": "red", "hurt": "bold red", "scene": "blue", "time": "dim", "presence": "dim", "moved": "blue"}
    size = f" … ({len(text):,} characters)" if len(text) > 4 * _LONG else ""
    return Text(f"{_short(text, _LONG - len(size))}{size}", style=styles.get(kind, ""))


def fitting(lines: Sequence[Text], width: int, rows: int) -> list[Text]:
    """The newest lines that fit so many rows when they wrap at `width`."""
    chosen: list[Text] = []
    for line in reversed(lines):
        rows -= max(1, -(-_cells(line.plain) // width))
        if rows < 0:
            break
        chosen.append(line)
    return chosen[::-1]


def closing(watched: Watched, *, seconds: float) -> RenderableType:
    """What it came to."""
    table = Table.grid(padding=(0, 2))
    rungs = ", ".join(f"{rung.replace('_', ' ')} {n}" for rung, n in watched.rungs.items()) or "it was not needed"
    cached = watched.cached_tokens / watched.input_tokens if watched.input_tokens else 0.0
    rows = (
        ("lived", f"{seconds:.0f} seconds, {watched.turns} turns, {watched.spoken} lines spoken"),
        ("the ladder", rungs),
        ("model calls", f"{watched.requests} ({watched.declined} declined by the stand-in on purpose), {watched.rejected} rejected"),
        ("tokens", f"{watched.input_tokens:,} in ({cached:.0%} read from cache), {watched.output_tokens:,} out"),
        ("would have cost", f"${watched.dollars:.4f} at today's price of the model that the stand-in plays"),
    )
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(text))
    return Panel(table, title=f"{watched.npc} stopped in order and can be woken again", border_style="blue", expand=False)


def hints(home: str) -> list[Text]:
    """Where to read on, in lines that can be copied."""
    commands = (
        ("its diary", f"npc diary list --home {shlex.quote(home)}"),
        ("all of its life", f"npc log --home {shlex.quote(home)}"),
        ("a world and a model of your own", "npc attach ws://HOST:PORT --persona FILE   (with ANTHROPIC_API_KEY set)"),
    )
    return [Text.assemble((f"{name}: ", "bold"), command) for name, command in commands]


def event_of(line: bytes) -> Mapping[str, Any] | None:
    """One line of `npc attach --json`; None where it is none."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _short(value: object, longest: int = _LONG) -> str:
    text = " ".join(str(value or "").split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
