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


def file_name(day: str) -> str:
    """The name of the file of a day's page, without its ending: `day-13`."""
    return re.sub(r"[^\w-]+", "-", day.casefold()).strip("-") or "day"
