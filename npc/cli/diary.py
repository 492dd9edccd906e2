"""`npc diary`: an NPC's diary in the terminal.

Reading only: the NPC may be writing at the same time. With `--json` one JSON object goes to standard output and nothing else does.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from diaries import CONTEXT_RESET, DiaryError, Entry, Listing
from diaries.text import clean_line
from npc.errors import NpcError, Usage
from npc.home import Home, find_home

app = typer.Typer(
    help="Read what an NPC wrote about its own life.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

HomeOption = Annotated[Path | None, typer.Option("--home", metavar="DIR", help="The NPC's home folder. Default: the only one there is.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
TagOption = Annotated[str, typer.Option("--tag", help=f"Only entries with this tag, such as {CONTEXT_RESET}.")]
DayOption = Annotated[str, typer.Option("--day", metavar="YYYY-MM-DD", help="Only entries of this day (UTC).")]
LastOption = Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many, counted from the newest.")]

#: Terminal cells from where prose is hard to read.
WIDEST = 100


@app.command("list", epilog="Example: npc diary list --home ./maren --tag context-reset --last 5")
def list_entries(
    home: HomeOption = None, tag: TagOption = "", day: DayOption = "", last: LastOption = 20, as_json: JsonOption = False
) -> None:
    """List the newest entries, the newest at the bottom."""
    place = find_home(home)
    listing = _entries(place, tag=tag, day=day, last=last)
    if as_json:
        _print_json({"home": str(place.path), "entries": [entry.to_json() for entry in listing.entries], "notes": list(listing.notes)})
        return
    console = Console(highlight=False)
    if listing.entries:
        console.print(_table(listing.entries, console.width))
        console.print(Text(f"Read one with: npc diary show {listing.entries[-1].id} --home {place.path}", style="dim"), soft_wrap=True)
    else:
        console.print(Text(_nothing(place, filtered=bool(tag or day))), soft_wrap=True)
    _print_notes(listing)


@app.command("show", epilog="Example: npc diary show 20310507-3 --home ./maren")
def show_entry(
    entry_id: Annotated[str, typer.Argument(metavar="[ID]", help="The entry's id. Default: the newest entry.")] = "",
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one entry whole."""
    place = find_home(home)
    listing = _entries(place, last=1)
    entry = _read(place, entry_id) if entry_id else next(iter(listing.entries), None)
    if entry is None and entry_id:
        known = f"the newest is {listing.entries[0].id}" if listing.entries else "the diary is empty"
        raise NpcError(f"there is no entry {clean_line(entry_id, 60)}; {known}, and `npc diary list` shows them all")
    if as_json:
        _print_json({"home": str(place.path), "entry": entry.to_json() if entry else None})
        return
    console = Console(highlight=False)
    if entry is None:
        console.print(Text(_nothing(place, filtered=False)), soft_wrap=True)
    else:
        console.print(_page(entry), width=min(console.width, WIDEST))


def _entries(home: Home, *, tag: str = "", day: str = "", last: int) -> Listing:
    if day and not _is_day(day):
        raise Usage(f"{clean_line(day, 40)} is no day: write it as in --day {datetime.now(UTC):%Y-%m-%d}")
    try:
        return home.diary.entries(tag=tag, day=day, last=last)
    except DiaryError as error:
        raise NpcError(str(error)) from error


def _read(home: Home, entry_id: str) -> Entry | None:
    try:
        return home.diary.read(entry_id)
    except DiaryError as error:
        raise NpcError(str(error)) from error


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _table(entries: tuple[Entry, ...], width: int) -> Table:
    """One line an entry; what does not fit the terminal is the end of the first words. All cells are plain text: no markup is read."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("id", style="cyan", no_wrap=True)
    table.add_column("UTC", style="dim", no_wrap=True)
    wide = width >= WIDEST
    if wide:
        table.add_column("where and when", no_wrap=True, overflow="ellipsis", max_width=34)
    table.add_column("tags", style="yellow", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("it says", no_wrap=True, overflow="ellipsis", ratio=1)
    for entry in entries:
        words = Text(clean_line(entry.text, 300), style="italic" if entry.author == "runtime" else "")
        where = [Text(" · ".join(part for part in (entry.place, entry.world_time) if part))] if wide else []
        table.add_row(Text(entry.id), Text(f"{entry.day} {entry.clock[:5]}"), *where, Text(" ".join(entry.tags)), words)
    return table


def _page(entry: Entry) -> Group:
    heading = Text(" · ".join(part for part in (entry.place, entry.world_time) if part) or entry.day, style="bold")
    facts = [f"{entry.day} {entry.clock} UTC", entry.id, *entry.tags]
    if entry.events:
        facts.append(f"events {entry.events[0]} to {entry.events[1]}")
    if entry.author == "runtime":
        facts.append("written by the runtime")
    return Group("", heading, Text(" · ".join(facts), style="dim"), Padding(Text(entry.text), (1, 0, 1, 2)))


def _nothing(home: Home, *, filtered: bool) -> str:
    if filtered:
        return "No entry is like that; `npc diary list` without --tag and --day shows all there are."
    return f"Nothing is written in {home.diary.folder} yet: an entry comes when the NPC has to let go of its context (tag {CONTEXT_RESET})."


def _print_notes(listing: Listing) -> None:
    console = Console(stderr=True, highlight=False)
    for note in listing.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)


def _print_json(data: dict[str, Any]) -> None:
    # ASCII on purpose: a pipe's encoding is anybody's guess, and every JSON reader knows the escapes.
    typer.echo(json.dumps(data, indent=2))
