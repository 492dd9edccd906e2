"""The command line. Each command is one module; `sim` and `demo` come by entry point, since they stand above this package.

Invariants: a mistake of a person ends in one sentence and an exit code, never in a traceback; a command imports what it needs and no
more, so that reading a diary does not wait for the model's library.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import typer
from rich.console import Console

from npc.cli import approvals, attach, diary, doctor, log, replay, status
from npc.errors import NpcError

app = typer.Typer(
    name="npc",
    help="Keep a language-model character alive on a game server.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("attach", help=attach.HELP)(attach.attach)
app.command("doctor", help=doctor.HELP)(doctor.doctor)
app.command("status")(status.status)
app.command("log")(log.log)
app.command("replay")(replay.command)
app.add_typer(diary.app, name="diary")
app.add_typer(approvals.app, name="approvals")

OWN = frozenset({"approvals", "attach", "doctor", "status", "log", "replay", "diary"})


def add_plugins(wanted: str = "") -> None:
    """Add the commands of the packages above this one: the wanted one, or all where it is none of them."""
    entries = entry_points(group="npc.commands")
    for entry in [e for e in entries if e.name == wanted] or sorted(entries, key=lambda e: e.name):
        command = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


def main() -> None:
    """Run the command line of this process."""
    try:
        if not OWN & set(sys.argv[1:2]):
            add_plugins(*sys.argv[1:2])
        app()
    except NpcError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"npc: {error}", markup=False)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
