"""Which day of its world a diary entry belongs to, read from the world's own words for its time.

Invariant: pure and total. Only a text that plainly names a day gives one; `turn 357` or `late` give none, and the real day stands in.
"""

from __future__ import annotations

import re
from functools import lru_cache

from diaries.text import clean_line

#: Characters of the name of a day: it becomes the name of a file.
MAX_DAY = 60

# `day 13, 06:40`, `Day 13 of Frost`, `Tag 3`; a date; `第13天`.
_NUMBERED = re.compile(r"(?<!\w)(?P<word>day|tag|jour|d[ií]a|giorno|dzień|день)\s+(?P<number>\d{1,9})(?!\w)", re.IGNORECASE)
_DATE = re.compile(r"(?<!\d)\d{4,6}-\d{2}-\d{2}(?!\d)")
_CHINESE = re.compile(r"第\s*\d{1,9}\s*[天日]")
# What else names a clock names the day with the rest of its words: `3rd of Frost, 1042, 14:20`.
_CLOCK = re.compile(r"(?<!\d)\d{1,2}:\d{2}(?::\d{2})?\s*(?:[ap]\.?m\.?)?(?!\w)", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_EDGES = " \t,;:.–—-/|@·"
_JOIN = re.compile(r"\s+(?:at|um|à)$", re.IGNORECASE)


@lru_cache(maxsize=4096)
def world_day(world_time: str) -> str:
    """The day that a world's time names, as words for people (`day 13`), or "" if it names none."""
    if found := _DATE.search(world_time):
        return found.group()
    if found := _NUMBERED.search(world_time):
        return f"{found['word'].casefold()} {int(found['number'])}"
    if found := _CHINESE.search(world_time):
        return "".join(found.group().split())
    if found := _CLOCK.search(world_time):
        before, after = world_time[: found.start()].strip(_EDGES), world_time[found.end() :].strip(_EDGES)
        day = _JOIN.sub("", clean_line(f"{before} {after}", MAX_DAY)).strip(_EDGES)
        return day if re.search(r"\d", day) else ""
    return ""


def clock_of(world_time: str) -> str:
    """What a world's time says beside the day that it names: the clock in it, or the whole text where no day is named."""
    if not world_day(world_time):
        return world_time
    found = _CLOCK.search(world_time)
    return found.group().strip() if found else world_time


def file_name(day: str) -> str:
    """The name of the file of a day's page, without its ending: `day-13`."""
    return re.sub(r"[^\w-]+", "-", day.casefold()).strip("-") or "day"


def later(one: str, other: str) -> bool | None:
    """Whether a world's time is later than another of the same world, or None where the two words cannot be compared.

    Of a time that names no clock the end of its day is meant.
    """
    a, b = _moment(one), _moment(other)
    return None if a is None or b is None or a[0] != b[0] else a[1] > b[1]


def _moment(world_time: str) -> tuple[str, tuple[float, ...]] | None:
    """What a time counts by, and its numbers: only two that count by the same can be compared."""
    clock = _minutes(world_time)
    if found := _DATE.search(world_time):
        return "date", (*(int(part) for part in found.group().split("-")), clock)
    if found := _NUMBERED.search(world_time):
        return found["word"].casefold(), (int(found["number"]), clock)
    if found := _CHINESE.search(world_time):
        return "第", (int(re.sub(r"\D", "", found.group())), clock)
    if day := world_day(world_time):
        return f"= {day}", (0, clock)  # a day that we cannot count: only within it can clocks be compared
    if len(numbers := _NUMBER.findall(world_time)) == 1 and not _CLOCK.search(world_time):
        return clean_line(_NUMBER.sub("", world_time), MAX_DAY).casefold(), (float(numbers[0]),)  # `turn 357`
    return None


def _minutes(world_time: str) -> float:
    found = _CLOCK.search(world_time)
    if not found:
        return 24 * 60.0
    hours, minutes, *seconds = (int(part) for part in re.findall(r"\d+", found.group()))
    half = found.group().rstrip(". ").casefold().replace(".", "")
    if half.endswith(("am", "pm")):
        hours = hours % 12 + 12 * half.endswith("pm")
    return hours * 60.0 + minutes + (seconds[0] / 60.0 if seconds else 0.0)
