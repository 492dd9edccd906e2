"""Whose diaries a command is about: the NPC in a home, or all those in a folder of homes.

Invariant: a folder in which no NPC lives is one sentence with the way out; an NPC whose persona cannot be read goes by its folder's name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from diaries import CONTEXT_RESET
from diaries.entry import Entry
from diaries.shelf import Shelf, Source, Volume, volume_of
from diaries.text import clean_line
from npc.errors import Usage
from npc.home import Home, homes_root, slug

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", metavar="DIR", help="The NPC's home folder, or a folder of several homes. Default: all homes there are."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else.")]
NpcOption = Annotated[str, typer.Option("--npc", metavar="NAME", help="Only this NPC, by its name or its folder's.")]
TagOption = Annotated[str, typer.Option("--tag", help=f"Only entries with this tag, such as {CONTEXT_RESET}.")]
DayOption = Annotated[
    str, typer.Option("--day", metavar="DAY", help="Only entries of this day: a real one (2031-05-07, UTC) or the world's (day 13).")
]

#: Terminal cells from where prose is hard to read.
WIDEST = 100
_MAX_PERSONA = 1_000_000


class Homes:
    """The homes behind `--home`, looked for again and again: an NPC may move in while somebody reads. Raises `Usage` if there is none."""

    def __init__(self, given: Path | None, npc: str = "") -> None:
        self.path = given or homes_root()
        self._given, self._npc = given, npc.strip().casefold()
        self._names: dict[Path, tuple[int, str]] = {}
        self.by_key: dict[str, Path] = {}
        self.shelf = Shelf(self.sources)
        if not self._homes():
            raise Usage(self._nobody())
        if not self.sources():
            names = ", ".join(clean_line(self._name(home), 40) for home in self._homes()[:8])
            raise Usage(f"no NPC called {clean_line(npc, 60)} lives in {self.path}: there are {names}")

    def sources(self) -> list[Source]:
        """One source a home; keys and names are each home's own, also where two NPCs have one name."""
        found: list[Source] = []
        homes: dict[str, Path] = {}
        names: set[str] = set()
        for home in self._homes():
            name, folder = self._name(home), home.absolute().name
            if self._npc and self._npc not in (name.casefold(), folder.casefold()):
                continue
            key, number = slug(folder), 1
            while key in homes:
                number += 1
                key = f"{slug(folder)}-{number}"
            if name in names:
                name = f"{name} ({clean_line(folder, 40)})"
            names.add(name)
            homes[key] = home
            found.append(Source(key=key, name=name, folder=home / "diary"))
        self.by_key = homes
        return found

    def of(self, key: str) -> Path | None:
        """The home folder behind a key."""
        return self.by_key.get(key)

    def _homes(self) -> list[Path]:
        if Home(self.path).exists():
            return [self.path]
        try:
            return sorted(path for path in self.path.iterdir() if path.is_dir() and Home(path).exists())
        except OSError:
            return []

    def _name(self, home: Path) -> str:
        persona = home / "persona.toml"
        try:
            changed = persona.stat().st_mtime_ns
            if self._names.get(home, (0, ""))[0] != changed:
                with persona.open("rb") as file:
                    data = tomllib.loads(file.read(_MAX_PERSONA).decode())
                self._names[home] = (changed, clean_line(str(data["character"]["name"]), 80))
            return self._names[home][1] or home.absolute().name
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return clean_line(home.absolute().name, 80)

    def _nobody(self) -> str:
        if self._given is not None:
            return f"no NPC lives in {self._given}: name the folder that was given to `npc attach` as --home DIR, or one of such folders"
        return f"no NPC lives in {self.path} yet: start one with `npc attach`, or name its folder with --home DIR"


def check_day(day: str) -> str:
    """A day as entries know it. Raises `Usage` for what can be none."""
    words = clean_line(day, 60)
    if re.fullmatch(r"\d{1,7}", words, re.ASCII):
        return f"day {int(words)}"
    if words and not (_is_date(words) or (re.search(r"\d", words) and re.search(r"[^\dWw-]", words))):
        raise Usage(f"{words} is no day: write it as in --day {datetime.now(UTC):%Y-%m-%d}, or the world's as in --day 'day 13'")
    return words.casefold()


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def wanted(tag: str, day: str) -> Callable[[Entry], bool]:
    """Whether an entry is one of those that the options ask for."""
    day = check_day(day)
    tag = tag.strip().casefold()
    return lambda entry: (not tag or tag in entry.tags) and (not day or day in (entry.day, entry.page.casefold()))


def only(volume: Volume, meant: Callable[[Entry], bool]) -> Volume:
    """A volume with some of its entries."""
    return volume_of(volume.source, tuple(entry for entry in volume.entries if meant(entry)), volume.notes)


def all_notes(volumes: tuple[Volume, ...]) -> list[str]:
    """What could not be read, with whose it is where there are several."""
    return [note if len(volumes) == 1 else f"{volume.source.name}: {note}" for volume in volumes for note in volume.notes]
