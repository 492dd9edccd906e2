"""Scenarios by name or by file.

Invariant: what is loaded is whole: every scenario that a part names has been found and read, and none leads back to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from npc.errors import Misconfigured
from npc.toml import parse
from sim.scenarios.shapes import File, Phase

MAX_FILE_BYTES = 1_000_000
#: Scenarios inside of scenarios, and of those that are told at the same time.
DEEPEST, MOST_AT_ONCE = 8, 8
#: Full stops in a line: a key of very many parts costs the TOML reader their square in memory.
MOST_DOTS = 1_000


class ScenarioError(Exception):
    """There is no such scenario, or its file cannot be used. One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario, ready to be played.

    Attributes:
        name: as it was asked for.
        parts: for a scenario of others: of each part its turns and what is told in it at the same time; empty otherwise.
    """

    name: str
    file: File
    parts: tuple[tuple[int, tuple[Scenario, ...]], ...] = ()

    @property
    def turns(self) -> int:
        """Turns until it begins anew."""
        return sum(turns for turns, _ in self.parts) or sum(phase.turns for phase in self.file.phase)

    @property
    def undoes(self) -> bool:
        """Whether the world loads an older save in it."""
        return any(phase.undo for phase in self.file.phase) or any(one.undoes for _, together in self.parts for one in together)

    def at(self, number: int) -> list[tuple[Scenario, Phase, int]]:
        """What is told in turn `number`: scenarios and their phases, and how many turns of that phase have passed."""
        rounds, left = divmod(number, self.turns)
        for turns, together in self.parts:
            if left < turns:
                return [found for one in together for found in one.at(rounds * turns + left)]
            left -= turns
        for phase in self.file.phase:
            if left < phase.turns:
                return [(self, phase, left)]
            left -= phase.turns
        raise AssertionError("a turn lies outside of its scenario")


def names() -> list[str]:
    """The scenarios that ship with the simulator."""
    shipped = (entry.name for entry in files("sim.scenarios").joinpath("files").iterdir())
    return sorted(name.removesuffix(".toml") for name in shipped if name.endswith(".toml"))


def load(asked: str, *, beside: Path | None = None) -> tuple[Scenario, ...]:
    """The scenarios of such a text as `siege,spammer` or `mine.toml`, which are told at the same time.

    Args:
        asked: names and files, parted by commas.
        beside: the folder that files are named from; the working directory by default.

    Raises:
        ScenarioError: one of them is none.
    """
    return _load(asked, beside or Path(), ())


def _load(asked: str, beside: Path, outer: tuple[str, ...]) -> tuple[Scenario, ...]:
    wanted = [part.strip() for part in asked.split(",") if part.strip()]
    if not wanted:
        raise ScenarioError("no scenario is named")
    if len(wanted) > MOST_AT_ONCE:
        raise ScenarioError(f"at most {MOST_AT_ONCE} scenarios can be told at the same time, not {len(wanted)}")
    return tuple(_one(name, beside, outer) for name in wanted)


def _one(name: str, beside: Path, outer: tuple[str, ...]) -> Scenario:
    is_file = name.endswith(".toml") or "/" in name
    path = beside / name
    key = str(path.resolve()) if is_file else name
    if key in outer:
        raise ScenarioError(f"{name} leads back to itself")
    if len(outer) >= DEEPEST:
        raise ScenarioError(f"{name}: scenarios lie inside one another {DEEPEST} deep at most")
    file = _parsed(name, _text(path)) if is_file else _shipped(name)
    try:
        parts = tuple((part.turns, _load(part.scenario, path.parent if is_file else beside, (*outer, key))) for part in file.part)
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}" if is_file and not outer else str(error)) from error
    return Scenario(name=name, file=file, parts=parts)


def _shipped(name: str) -> File:
    if name not in names():
        raise ScenarioError(f"no scenario is called {name!r}; there are {_listed(names())}, and any file that ends in .toml")
    return _parsed(name, files("sim.scenarios").joinpath("files", f"{name}.toml").read_text("utf-8"))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ScenarioError(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB")
        return path.read_text("utf-8")
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path} is no text in UTF-8") from error


def _parsed(name: str, text: str) -> File:
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise ScenarioError(f"{name} has a line with more than {MOST_DOTS:,} full stops")
    try:
        return File.model_validate(parse(text, where=name))
    except Misconfigured as error:
        raise ScenarioError(str(error)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part + 1 if isinstance(part, int) else part) for part in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ")
        raise ScenarioError(f"{name}: {f'{where}: ' if where else ''}{said[:300]}") from error


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words)
