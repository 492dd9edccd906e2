"""`npc diary follow`: new entries as they come."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from diaries.entry import Entry
from diaries.shelf import Volume
from npc.cli.diary import printing
from npc.cli.diary.shelves import WIDEST, DayOption, HomeOption, Homes, JsonOption, NpcOption, TagOption, wanted

#: Seconds between two looks at the files; a look at one that did not change reads nothing.
LOOK_S = 0.5

LastOption = Annotated[int, typer.Option("--last", metavar="N", min=0, help="How many of those that are there already, to begin with.")]


def follow(
    home: HomeOption = None,
    npc: NpcOption = "",
    tag: TagOption = "",
    day: DayOption = "",
    last: LastOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Show entries as they are written, until Ctrl-C. With --json one object a line."""
    homes, meant = Homes(home, npc), wanted(tag, day)
    seen: dict[str, dict[str, str]] = {}
    told: set[str] = set()
    console = Console(highlight=False)
    first = True
    with _until_ctrl_c() as over:
        while not over.is_set():
            fresh = []
            volumes = homes.shelf.refresh()
            for volume in volumes:
                known = seen.setdefault(volume.source.key, {})
                fresh += [(volume, entry) for entry in volume.entries if known.get(entry.id) != entry.undone and meant(entry)]
                known.update({entry.id: entry.undone for entry in volume.entries})
                for note in volume.notes:
                    if note not in told:
                        told.add(note)
                        printing.notes([note])
            fresh.sort(key=lambda pair: pair[1].at)
            for volume, entry in (fresh[len(fresh) - last :] if last else []) if first else fresh:
                _tell(console, volume, entry, names=len(volumes) > 1, as_json=as_json)
            if first and not as_json and console.is_terminal:
                console.print(Text("Waiting for what comes. Ctrl-C ends it.", style="dim"))
            first = False
            over.wait(LOOK_S)


@contextlib.contextmanager
def _until_ctrl_c() -> Iterator[threading.Event]:
    """Set by Ctrl-C. An exception in the middle of something that swallows exceptions would be lost, and the command go on for ever."""
    over = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: over.set())
    try:
        yield over
    finally:
        signal.signal(signal.SIGINT, before)


def _tell(console: Console, volume: Volume, entry: Entry, *, names: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"npc": volume.source.name, **entry.to_json()}))
    else:
        console.print(printing.page(entry, name=volume.source.name if names else ""), width=min(console.width, WIDEST))
