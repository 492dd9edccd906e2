"""`npc diary export`: a diary to give away."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from diaries.export import json_lines, markdown
from diaries.shelf import Volume
from npc.cli.diary import printing
from npc.cli.diary.shelves import DayOption, HomeOption, Homes, JsonOption, NpcOption, TagOption, all_notes, only, wanted
from npc.errors import NpcError, Usage
from npc.files import reason, replace_file


class Format(StrEnum):
    """What a diary can be given away as."""

    MARKDOWN = "markdown"
    JSONL = "jsonl"
    HTML = "html"


FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Markdown, JSON Lines or one self-contained HTML file. Default: by the name of --output, or Markdown."),
]
OutputOption = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to. Default: standard output.")]

_ENDINGS = {".md": Format.MARKDOWN, ".markdown": Format.MARKDOWN, ".jsonl": Format.JSONL, ".html": Format.HTML, ".htm": Format.HTML}


def export(
    output: OutputOption = None,
    form: FormatOption = None,
    home: HomeOption = None,
    npc: NpcOption = "",
    tag: TagOption = "",
    day: DayOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write the diaries as Markdown, JSON Lines or one HTML file that asks nobody for anything."""
    if form is None:
        form = _ENDINGS.get(output.suffix.casefold(), Format.MARKDOWN) if output else Format.MARKDOWN
    if output is not None and output.is_dir():
        raise Usage(f"{output} is a folder: name a file in it, such as --output {output / 'diary.html'}")
    homes, meant = Homes(home, npc), wanted(tag, day)
    volumes = tuple(only(volume, meant) for volume in homes.shelf.refresh())
    if len(volumes) == 1 and volumes[0].unreadable:
        raise NpcError(volumes[0].notes[0])
    parts = {Format.MARKDOWN: markdown, Format.JSONL: json_lines, Format.HTML: _html}[form](volumes)
    entries = sum(len(volume.entries) for volume in volumes)
    told = {"format": str(form), "entries": entries, "notes": all_notes(volumes)}
    if output is None:
        if as_json:
            printing.as_json({**told, "text": "".join(parts)})
        else:
            sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # whatever the terminal: this is a file in the making
            for part in parts:
                sys.stdout.write(part)
            printing.notes(all_notes(volumes))
        return
    data = "".join(parts).encode()
    try:
        replace_file(output, data)
    except OSError as error:
        raise NpcError(f"{output} was not written ({reason(error)}): name another place with --output FILE") from error
    if as_json:
        printing.as_json({**told, "file": str(output), "bytes": len(data)})
    else:
        words = f"{entries:,} {'entry' if entries == 1 else 'entries'} in {output} ({len(data):,} bytes)"
        Console(highlight=False).print(Text(words), soft_wrap=True)
        printing.notes(all_notes(volumes))


def _html(volumes: Sequence[Volume]) -> Iterator[str]:
    from diaries.reader import one_file  # noqa: PLC0415 (the other forms need not wait for the templates)

    return one_file(volumes)
