"""Diaries as plain text that can be given away: Markdown for people, JSON Lines for programs.

Invariant: every entry is in it once, whole, in the order of writing; in Markdown its words render as words, in JSON Lines each line reads
back as an entry (and names whose it is, under `npc`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from diaries.shelf import Volume
from diaries.text import clean_line, markdown_line


def markdown(volumes: Sequence[Volume]) -> Iterator[str]:
    """A heading for each diary, below it one for each day, below that one for each entry."""
    for number, volume in enumerate(volumes):
        yield f"{chr(10) if number else ''}# The diary of {markdown_line(clean_line(volume.source.name, 200))}\n"
        for day in volume.days:
            yield f"\n## {markdown_line(day.name[:1].upper() + day.name[1:])}\n"
            for entry in day.entries:
                yield f"\n#{entry.to_markdown()}"


def json_lines(volumes: Sequence[Volume]) -> Iterator[str]:
    """One object a line, as in `Entry.to_json`, with the name of the NPC in front."""
    for volume in volumes:
        for entry in volume.entries:
            yield json.dumps({"npc": volume.source.name, **entry.to_json()}, ensure_ascii=False) + "\n"
