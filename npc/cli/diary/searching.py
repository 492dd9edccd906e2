"""`npc diary search`: full text, ranked."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from diaries.search import Piece, Term, snippet, terms_of
from diaries.shelf import Hit
from npc.cli.diary import printing
from npc.cli.diary.shelves import WIDEST, DayOption, HomeOption, Homes, JsonOption, NpcOption, TagOption, all_notes, wanted
from npc.errors import Usage

WordsArgument = Annotated[
    list[str],
    typer.Argument(metavar="WORDS", help='Found by their beginnings. Within one argument, "some words" as they stand, -word without it.'),
]
LastOption = Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many results at most.")]


def search(
    words: WordsArgument,
    home: HomeOption = None,
    npc: NpcOption = "",
    tag: TagOption = "",
    day: DayOption = "",
    last: LastOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Search the diaries, the best match first."""
    query = " ".join(words)
    terms = terms_of(query)
    if not any(term.wanted for term in terms):
        raise Usage("there is no word to search for: npc diary search stone")
    homes, meant = Homes(home, npc), wanted(tag, day)
    found = homes.shelf.search(terms, lambda hit: meant(hit.entry))
    volumes = homes.shelf.refresh()
    shown = found.hits[:last]
    if as_json:
        results = [_json(hit, terms) for hit in shown]
        printing.as_json({"query": query, "found": len(found.hits), "some": found.some, "results": results, "notes": all_notes(volumes)})
        return
    console = Console(highlight=False)
    width = min(console.width, WIDEST)
    if found.some:
        console.print(Text("No entry has all these words; these have some of them.", style="yellow"), soft_wrap=True)
    for hit in shown:
        entry = hit.entry
        name = hit.volume.source.name if len(volumes) > 1 else ""
        heading = Text(" · ".join(part for part in (name, entry.place, entry.world_time) if part) or entry.day, style="bold")
        facts = [entry.id, f"{entry.day} {entry.clock[:5]} UTC", *(["undone"] if entry.undone else []), *entry.tags]
        console.print(heading, Text("  " + " · ".join(facts), style="dim"), sep="", end="\n", width=width)
        console.print(Padding(printing.hit_text(snippet(entry.text, terms, width * 3), entry), (0, 0, 1, 2)), width=width)
    if not shown:
        console.print(Text("No entry has these words; words are found by their beginnings, so a shorter one finds more."), soft_wrap=True)
    elif len(found.hits) > len(shown):
        console.print(Text(f"{len(found.hits) - len(shown)} more: --last {len(found.hits)}", style="dim"), soft_wrap=True)
    printing.notes(all_notes(volumes))


def _json(hit: Hit, terms: tuple[Term, ...]) -> dict[str, Any]:
    pieces = snippet(hit.entry.text, terms)
    return {
        "npc": hit.volume.source.name,
        "entry": hit.entry.to_json(),
        "snippet": "".join(piece.text for piece in pieces),
        "hits": [list(span) for span in _spans(pieces)],
    }


def _spans(pieces: tuple[Piece, ...]) -> list[tuple[int, int]]:
    """Where in the snippet the hits stand, in characters."""
    spans, at = [], 0
    for piece in pieces:
        if piece.hit:
            spans.append((at, at + len(piece.text)))
        at += len(piece.text)
    return spans
