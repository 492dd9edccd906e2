"""`npc diary list` and `npc diary show`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from diaries import CONTEXT_RESET
from diaries.entry import Entry
from diaries.shelf import Volume
from diaries.text import clean_line
from npc.cli.diary import printing
from npc.cli.diary.shelves import WIDEST, DayOption, HomeOption, Homes, JsonOption, NpcOption, TagOption, all_notes, wanted
from npc.errors import NpcError, Usage

LastOption = Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many, counted from the newest.")]


def list_entries(
    home: HomeOption = None,
    npc: NpcOption = "",
    tag: TagOption = "",
    day: DayOption = "",
    last: LastOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List the newest entries, the newest at the bottom."""
    homes, meant = Homes(home, npc), wanted(tag, day)
    volumes = homes.shelf.refresh()
    found = _newest([(volume, entry) for volume in volumes for entry in volume.entries if meant(entry)], last)
    if as_json:
        _check_readable(volumes)
        entries = [{"npc": volume.source.name, **entry.to_json()} for volume, entry in found]
        printing.as_json({"home": str(homes.path), "entries": entries, "notes": all_notes(volumes)})
        return
    console = Console(highlight=False)
    if found:
        rows = [(volume.source.name, entry) for volume, entry in found]
        console.print(printing.table(rows, console.width, names=len(volumes) > 1))
        volume, newest = found[-1]
        where = homes.by_key[volume.source.key]
        console.print(Text(f"Read one with: npc diary show {newest.id} --home {where}", style="dim"), soft_wrap=True)
    else:
        _check_readable(volumes)
        console.print(Text(_nothing(homes, filtered=bool(tag or day))), soft_wrap=True)
    printing.notes(all_notes(volumes))


def show_entry(
    entry_id: Annotated[str, typer.Argument(metavar="[ID]", help="The entry's id. Default: the newest entry.")] = "",
    home: HomeOption = None,
    npc: NpcOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show one entry whole."""
    homes = Homes(home, npc)
    volumes = homes.shelf.refresh()
    newest = _newest([(volume, entry) for volume in volumes for entry in volume.entries[-1:]], 1)
    found = newest
    if entry_id:
        found = [(volume, entry) for volume in volumes for entry in [volume.entry(entry_id)] if entry]
        if len(found) > 1:
            names = ", ".join(volume.source.name for volume, _ in found)
            raise Usage(f"{len(found)} diaries have {clean_line(entry_id, 60)} ({names}): say whose with --npc '{found[0][0].source.name}'")
        if not found:
            known = f"the newest is {newest[0][1].id}" if newest else "the diary is empty"
            raise NpcError(f"there is no entry {clean_line(entry_id, 60)}; {known}, and `npc diary list` shows them all")
    if not found:
        _check_readable(volumes)
    if as_json:
        entry = {"npc": found[0][0].source.name, **found[0][1].to_json()} if found else None
        printing.as_json({"home": str(homes.path), "entry": entry})
        return
    console = Console(highlight=False)
    if not found:
        console.print(Text(_nothing(homes, filtered=False)), soft_wrap=True)
        return
    volume, one = found[0]
    console.print(printing.page(one, name=volume.source.name if len(volumes) > 1 else ""), width=min(console.width, WIDEST))


def _newest(found: list[tuple[Volume, Entry]], last: int) -> list[tuple[Volume, Entry]]:
    """The newest of them. One diary keeps its own order; several are brought together by the time of writing."""
    if len({volume.source.key for volume, _ in found}) > 1:
        found = sorted(found, key=lambda pair: pair[1].at)
    return found[-last:]


def _check_readable(volumes: tuple[Volume, ...]) -> None:
    """Raises `NpcError` where a diary that was asked for alone cannot be read at all."""
    if len(volumes) == 1 and volumes[0].unreadable:
        raise NpcError(volumes[0].notes[0])


def _nothing(homes: Homes, *, filtered: bool) -> str:
    if filtered:
        return "No entry is like that; `npc diary list` without --tag and --day shows all there are."
    where = homes.path / "diary" if len(homes.by_key) == 1 and homes.path in homes.by_key.values() else homes.path
    return f"Nothing is written in {where} yet: an entry comes when the NPC has to let go of its context (tag {CONTEXT_RESET})."
