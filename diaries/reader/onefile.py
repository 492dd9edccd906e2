"""Diaries as one HTML file that can be given away: styles and script are in it, and it asks nobody for anything.

Invariant: the file's own policy allows no request and only the one style and the one script that are in it, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from diaries.reader import view
from diaries.reader.app import HERE, environment
from diaries.shelf import Day, Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """A volume as the template reads it; anchors are made its own, since several books stand in one file."""

    number: int
    volume: Volume

    @property
    def name(self) -> str:
        return self.volume.source.name

    @property
    def days(self) -> tuple[Day, ...]:
        return self.volume.days

    @property
    def notes(self) -> tuple[str, ...]:
        return self.volume.notes

    def views(self, day: Day) -> Iterator[view.EntryView]:
        for entry in day.entries:
            one = view.view_entry(self.volume, entry, behind=False)
            yield replace(one, anchor=f"v{self.number}-{one.anchor}")


def one_file(volumes: Sequence[Volume]) -> Iterator[str]:
    """The HTML of these diaries, in parts: a long life needs no more memory than a short one."""
    style = (HERE / "static" / "book.css").read_text(encoding="utf-8")
    script = (HERE / "static" / "onefile.js").read_text(encoding="utf-8")
    names = [volume.source.name for volume in volumes]
    title = f"The diary of {names[0]}" if len(names) == 1 else f"Diaries of {', '.join(names[:-1])} and {names[-1]}" if names else "Diaries"
    entries = [entry for volume in volumes for entry in volume.entries]
    days = sorted({entry.day for entry in entries})
    span = view.span_words(days[0], days[-1]) if days else ""
    template = environment().get_template("onefile.html")
    return template.generate(
        title=title,
        total=len(entries),
        span=span,
        volumes=[_Bound(number=number, volume=volume) for number, volume in enumerate(volumes, start=1)],
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
