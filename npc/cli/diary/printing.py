"""Entries in a terminal. All of them are plain text: no markup is read from what an NPC wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from diaries.entry import Entry
from diaries.search import Piece
from diaries.text import clean_line
from npc.cli.diary.shelves import WIDEST


def table(entries: Iterable[tuple[str, Entry]], width: int, *, names: bool) -> Table:
    """One line an entry; what does not fit the terminal is the end of the first words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    if names:
        table.add_column("who", no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column("id", style="cyan", no_wrap=True)
    table.add_column("UTC", style="dim", no_wrap=True)
    wide = width >= WIDEST
    if wide:
        table.add_column("where and when", no_wrap=True, overflow="ellipsis", max_width=34)
    table.add_column("tags", style="yellow", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("it says", no_wrap=True, overflow="ellipsis", ratio=1)
    for name, entry in entries:
        words = Text(clean_line(entry.text, 300), style=_style(entry))
        where = [Text(" · ".join(part for part in (entry.place, entry.world_time) if part))] if wide else []
        tags = " ".join([*(["(undone)"] if entry.undone else []), *entry.tags])
        table.add_row(*([Text(name)] if names else []), Text(entry.id), Text(f"{entry.day} {entry.clock[:5]}"), *where, Text(tags), words)
    return table


def page(entry: Entry, *, name: str = "") -> Group:
    """One entry whole."""
    heading = Text(" · ".join(part for part in (name, entry.place, entry.world_time) if part) or entry.day, style="bold")
    facts = [f"{entry.day} {entry.clock} UTC", entry.id, *entry.tags]
    if entry.events:
        facts.append(f"events {entry.events[0]} to {entry.events[1]}")
    if entry.author == "runtime":
        facts.append("written by the runtime")
    lines: list[Any] = ["", heading, Text(" · ".join(facts), style="dim")]
    if entry.undone:
        lines.append(Text(f"undone: {entry.undone}", style="red"))
    return Group(*lines, Padding(Text(entry.text, style="strike" if entry.undone else ""), (1, 0, 1, 2)))


def hit_text(pieces: Sequence[Piece], entry: Entry) -> Text:
    """A snippet with what was found in it."""
    text = Text(style="strike" if entry.undone else "")
    for piece in pieces:
        text.append(piece.text, style="bold black on yellow" if piece.hit else "")
    return text


def notes(sentences: Iterable[str]) -> None:
    """What could not be read, beside what is shown."""
    console = Console(stderr=True, highlight=False)
    for note in sentences:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)


def as_json(data: dict[str, Any], *, indent: int | None = 2) -> None:
    """One JSON object."""
    # ASCII on purpose: a pipe's encoding is anybody's guess, and every JSON reader knows the escapes.
    typer.echo(json.dumps(data, indent=indent))


def _style(entry: Entry) -> str:
    return "strike dim" if entry.undone else "italic" if entry.author == "runtime" else ""
