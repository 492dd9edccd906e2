"""What a person sees of a request: all that it takes to decide in seconds, and which of it is whose word.

Invariant: no word of a player, a world or the model reaches the terminal as it came; each goes through `visible`, and stands behind a label
that says whose it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from npc.approvals.stored import MEANING, SHOWN_DIGITS, Standing, Stored
from npc.approvals.visible import arguments, folded, visible
from npc.policy.asking import Request

#: The colour of the frame by standing; red is only what still can do harm.
_FRAME = {Standing.OPEN: "yellow", Standing.APPROVED: "green", Standing.ACTING: "green", Standing.DONE: "green"}


def card(stored: Stored, *, now: float, full: bool = False, home: Path | None = None) -> RenderableType:
    """One request as a panel. `full`: nothing is folded; `home` goes into the commands that answer it."""
    try:
        request = stored.request if stored.sound else None
    except ValueError:
        request = None
    if request is None:
        words = Text("Its words are not those that were stored: it cannot be approved.")
        return Panel(words, title=_title(stored, now), title_align="left", border_style="red")
    rows = Table.grid(padding=(0, 2), expand=True)
    rows.add_column(style="bold", no_wrap=True, width=6)
    rows.add_column(ratio=1, overflow="fold")
    rows.add_row("does", _does(request, full=full))
    rows.add_row("undo", _undo(request))
    rows.add_row("rule", Text(visible(request.rule) or "none is named"))
    rows.add_row("why", _quoted("the NPC's own words, checked by nobody", (request.why,) if request.why else (), full=full))
    rows.add_row("read", _quoted("just before, UNTRUSTED words of others", request.read, full=full))
    rows.add_row("seal", Text(_seal(stored, request), style="dim"))
    parts: list[RenderableType] = [rows]
    if stored.standing is Standing.OPEN and now < stored.lapses_at:
        where = f" --home {shlex.quote(str(home))}" if home else ""
        parts += [Text(), Text(f"npc approvals approve {stored.id}{where}", style="green"), Text(_deny(stored, where), style="red")]
    elif end := _end(stored):
        parts += [Text(), Text(end)]
    return Panel(Group(*parts), title=_title(stored, now), title_align="left", border_style=_FRAME.get(stored.standing, "dim"))


def as_json(stored: Stored) -> dict[str, Any]:
    """One request as plain values, for programs: the words as they are, beside what a person would see of the arguments."""
    words: Mapping[str, Any] = stored.words
    request = words.get("request")
    given = request.get("arguments") if isinstance(request, dict) else None
    return {
        "id": stored.id, "standing": str(stored.standing), "npc": stored.npc, "digest": stored.digest, "sound": stored.sound,
        "asked_at": stored.asked_at, "lapses_at": stored.lapses_at, "decided_at": stored.decided_at, "by": stored.by,
        "because": stored.because, "ended_at": stored.ended_at, "outcome": stored.outcome,
        "request": request if isinstance(request, dict) else None,
        "shown": dict(arguments(given, full=True)) if isinstance(given, dict) else {},
    }  # fmt: skip


def clock(at: float) -> str:
    """A time of day as the NPC and its operator are told it."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M} UTC"


def _title(stored: Stored, now: float) -> Text:
    title = Text(f" {stored.id} ", style="bold").append(f"{folded(stored.npc) or 'somebody'} asks", style="bold")
    if stored.standing is not Standing.OPEN:
        return title.append(f" · {MEANING[stored.standing]} ")
    left = stored.lapses_at - now
    if left <= 0:
        return title.append(" · lapsed ")
    minutes = f"{left / 60:,.0f} min" if left >= 90 else f"{left:.0f} s"
    return title.append(f" · lapses in {minutes}, at {clock(stored.lapses_at)} ")


def _does(request: Request, *, full: bool) -> RenderableType:
    action = Text(visible(request.action), style="bold cyan")
    if not request.arguments:
        return action.append("  (no arguments)", style="not bold default")
    return Group(action, *(_indented(f"{name} = {shown}") for name, shown in arguments(request.arguments, full=full)))


def _undo(request: Request) -> Text:
    if request.reversible:
        out = Text("can be undone", style="green")
    else:
        out = Text("CANNOT be undone" if request.reversible is False else "the world does not say that it can be undone", style="bold red")
    out.append(", ", style="default")
    if request.reach == "wide":
        return out.append("WIDE: it touches more than the NPC and its partner", style="bold red")
    return out.append("contained: it touches the NPC and its partner only", style="default")


def _quoted(label: str, texts: tuple[str, ...], *, full: bool) -> RenderableType:
    if not texts:
        return Text("nothing", style="dim")
    return Group(Text(f"({label})", style="dim italic"), *(_indented(folded(text, full=full)) for text in texts))


def _indented(text: str) -> RenderableType:
    """A text whose every line stands further in than our own words, and than the mark where it begins, however it is wrapped."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(Text("•", style="dim"), Text(text))
    return grid


def _seal(stored: Stored, request: Request) -> str:
    digits = stored.digest[:SHOWN_DIGITS]
    groups = " ".join(digits[n : n + 4] for n in range(0, len(digits), 4))
    return f"{groups} · turn {request.turn:,} · {visible(request.world)}"


def _deny(stored: Stored, where: str) -> str:
    return f'npc approvals deny {stored.id}{where} --because "…"'


def _end(stored: Stored) -> str:
    parts = []
    if stored.decided_at:
        because = f": {visible(stored.because)}" if stored.because else ""
        parts.append(f"{clock(stored.decided_at)} {'approved' if stored.agreed else 'denied'} by {visible(stored.by)}{because}.")
    if stored.outcome:
        at = f"{clock(stored.ended_at)} " if stored.ended_at else ""
        parts.append(f"{at}{folded(stored.outcome)}")
    return " ".join(parts)
