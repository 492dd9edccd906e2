"""`npc diary`: the diaries of one NPC or of several, read by people.

Reading only: the NPC may be writing at the same time. With `--json` nothing but JSON goes to standard output.
"""

from __future__ import annotations

import typer

from npc.cli.diary import exporting, following, reading, searching, serving

app = typer.Typer(
    help="Read what an NPC wrote about its own life.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("list", epilog="Example: npc diary list --home ./maren --tag context-reset --last 5")(reading.list_entries)
app.command("show", epilog="Example: npc diary show 20310507-3 --home ./maren")(reading.show_entry)
app.command("search", epilog="Example: npc diary search '\"white stone\" -goose' --home ./maren --tag stones")(searching.search)
app.command("export", epilog="Example: npc diary export --format html --output maren.html --home ./maren")(exporting.export)
app.command("serve", epilog="Example: npc diary serve --home ./homes --port 8477")(serving.serve)
app.command("follow", epilog="Example: npc diary follow --home ./maren --last 3")(following.follow)

__all__ = ["app"]
