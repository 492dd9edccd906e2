"""Diaries to read in: a few days of a village, written as characters write, and as many entries more as a test needs.

Everything is made from a seed and a date, so two runs write the same bytes.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from diaries import CONTEXT_RESET, Book, Entry

#: Friday, 9 May 2031, 02:00 UTC: the midnight before day 11.
MORNING = 1_936_058_400.0
#: A world day takes twelve real hours.
WORLD_DAY = 12 * 3600.0
SET_BACK = "the world was set back to the evening of day 14"


@dataclass(frozen=True)
class Told:
    """One entry of the sample: world day, hour and minute, place, words, tags."""

    day: int
    clock: str
    place: str
    text: str
    tags: tuple[str, ...] = ()
    author: str = "agent"
    undone: bool = False


def _people() -> dict[str, tuple[str, tuple[Told, ...]]]:
    data = tomllib.loads((Path(__file__).parent / "village.toml").read_text(encoding="utf-8"))
    return {
        key: (person["name"], tuple(Told(**{**one, "tags": tuple(one.get("tags", ()))}) for one in person["entries"]))
        for key, person in data.items()
    }


PEOPLE = _people()


def entries(told: tuple[Told, ...]) -> Iterator[Entry]:
    """The entries of one character, with the events that each covers."""
    event = 1
    for number, one in enumerate(told):
        hours, minutes = map(int, one.clock.split(":"))
        last = event + 12 + (number * 7) % 29
        yield Entry(
            at=MORNING + (one.day - 11) * WORLD_DAY + (hours * 60 + minutes) * WORLD_DAY / 1440 + (number > 12) * 9 * 3600,
            text=one.text,
            author="runtime" if one.author == "runtime" else "agent",
            world_time=f"day {one.day}, {one.clock}",
            place=one.place,
            tags=one.tags,
            events=(event, last),
            epoch="spring-2" if one.day >= 15 and not one.undone else "spring-1",
        )
        event = last + 1


def write_village(root: Path) -> dict[str, Path]:
    """Homes of three characters under `root`, each with its diary; returns the folders by name."""
    homes = {}
    for key, (name, told) in PEOPLE.items():
        home = root / key
        homes[key] = home
        book = Book(home / "diary")
        written = [book.append(entry).entry for entry in entries(told)]
        undone = [entry.id for entry, one in zip(written, told, strict=True) if one.undone]
        if undone:
            book.mark_undone(undone, why=SET_BACK, at=MORNING + 5 * WORLD_DAY)
        (home / "persona.toml").write_text(f'[character]\nname = "{name}"\ndescription = "{name} of Harrowmere."\n', encoding="utf-8")
    return homes


def write_many(home: Path, number: int, *, seed: int = 7, per_day: int = 10) -> None:
    """A long life: `number` entries, written as the book writes them but without waiting for the disk after each."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "persona.toml").write_text('[character]\nname = "Maren"\ndescription = "Maren of Harrowmere."\n', encoding="utf-8")
    chance = random.Random(seed)
    told = (*PEOPLE["maren"][1], *PEOPLE["oda"][1])
    sentences = [sentence for one in told for sentence in one.text.replace("\n\n", " ").split(". ") if len(sentence) > 30]
    diary = home / "diary"
    diary.mkdir(exist_ok=True)
    counts: dict[str, int] = {}
    with (diary / "entries.jsonl").open("w", encoding="utf-8") as file:
        for index in range(number):
            day, place_in_day = divmod(index, per_day)
            reset = chance.random() < 0.04
            minute = 360 + place_in_day * (1020 // per_day)
            paragraphs = [". ".join(chance.sample(sentences, chance.randint(2, 5))).rstrip(".") + "." for _ in range(chance.randint(1, 3))]
            entry = Entry(
                at=MORNING + day * WORLD_DAY + minute * WORLD_DAY / 1440,
                text="\n\n".join(paragraphs),
                author="runtime" if reset else "agent",
                world_time=f"day {day + 1}, {minute // 60:02d}:{minute % 60:02d}",
                place=chance.choice(PEOPLE["maren"][1]).place,
                tags=(CONTEXT_RESET,) if reset else ("day-end",) if place_in_day == per_day - 1 else (),
                events=(index * 20 + 1, index * 20 + 20),
                epoch="spring-1",
            )
            counts[entry.day] = counts.get(entry.day, 0) + 1
            entry = replace(entry, id=f"{entry.day.replace('-', '')}-{counts[entry.day]}")
            file.write(json.dumps(entry.to_json(), ensure_ascii=False) + "\n")
