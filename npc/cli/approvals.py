"""`npc approvals`: what an NPC may do only when its operator says so.

Invariant: the operator's word comes from here, in files that only he may write, or as a signed message (`serve`); from nowhere else. With
`--json` nothing but JSON goes to standard output.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from npc.approvals.card import as_json, card, clock
from npc.approvals.records import Answered, Decision, Records
from npc.approvals.stored import Standing, Stored, number_of
from npc.errors import NpcError, Usage
from npc.home import find_home

app = typer.Typer(
    help="See what an NPC asks you to allow, and allow or deny it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

#: The port of `npc approvals serve` unless another is named.
PORT = 8478

HomeOption = Annotated[Path | None, typer.Option("--home", metavar="DIR", help="The NPC's home folder.")]
HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on; by default only this machine.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Of the request, as A7.")]


@app.command("list", epilog="Example: npc approvals list --home ./warden")
def show(
    home: HomeOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what was decided or has lapsed.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Fold nothing, however long it is.")] = False,
    as_json_: JsonOption = False,
) -> None:
    """Show what waits for you: who asks, what exactly would be done, why, what it read before, and until when."""
    place = find_home(home)
    found = Records(place.path).all(live=not everything)
    now = time.time()
    if as_json_:
        _json({"home": str(place.path), "open": len(_waiting(found, now)), "requests": [as_json(one) for one in found]})
        return
    console = Console(highlight=False)
    for one in found:
        console.print(card(one, now=now, full=full, home=home))
    waiting = _waiting(found, now)
    if not waiting:
        older = "" if everything else "; --all shows what was decided"
        console.print(Text(f"Nothing waits for you{older}."))


@app.command("approve", epilog="Example: npc approvals approve A7 --home ./warden")
def approve(
    id_: IdArgument,
    home: HomeOption = None,
    digest: Annotated[str, typer.Option(help="Only if its seal begins with this: eight digits or more.")] = "",
    because: Annotated[str, typer.Option(metavar="TEXT", help="What you want to note down with it.")] = "",
    as_json_: JsonOption = False,
) -> None:
    """Allow one request: it is done once, just as it was shown, after everything else was checked again."""
    _decide(home, Decision(number=_number(id_), approve=True, by="cli", digest=digest, because=because), as_json_=as_json_)


@app.command("deny", epilog='Example: npc approvals deny A7 --because "not before the feast" --home ./warden')
def deny(
    id_: IdArgument,
    home: HomeOption = None,
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why; the NPC is told it.")] = "",
    as_json_: JsonOption = False,
) -> None:
    """Deny one request: it is not done, and the NPC is told so."""
    _decide(home, Decision(number=_number(id_), approve=False, by="cli", because=because), as_json_=as_json_)


@app.command("serve", epilog="Example: NPC_WEBHOOK_SECRET_FILE=~/.npc-webhook npc approvals serve --home ./warden --port 8478")
def serve(
    home: HomeOption = None,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port; 0 takes any that is free.")] = PORT,
    host: HostOption = "127.0.0.1",
    as_json_: JsonOption = False,
) -> None:
    """Take signed decisions by POST, until it is stopped. What is not signed, not fresh or was used already does nothing."""
    # Only this command waits for the web.
    import uvicorn  # noqa: PLC0415

    from npc.approvals.listener import application  # noqa: PLC0415
    from npc.approvals.signing import Secret  # noqa: PLC0415
    from npc.cli.diary.serving import listening_on  # noqa: PLC0415

    place = find_home(home)
    app_ = application(Records(place.path), Secret.from_environment())
    listening = listening_on(host, port)
    known = listening.getsockname()
    name = f"[{known[0]}]" if ":" in known[0] else known[0]
    url = f"http://{name}:{known[1]}/"
    config = uvicorn.Config(
        app_, log_level="error", access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=3, limit_concurrency=32
    )
    if as_json_:
        _json({"url": url, "home": str(place.path)})
    else:
        Console(highlight=False).print(Text(f"Signed decisions for {place.path} are taken at {url}; Ctrl-C ends it."), soft_wrap=True)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        return
    finally:
        listening.close()


def _decide(home: Path | None, decision: Decision, *, as_json_: bool) -> None:
    place = find_home(home)
    now = time.time()
    answered = Records(place.path).decide(decision, now=now)
    if as_json_:
        _json({"ok": answered.ok, "said": answered.said, "request": as_json(answered.stored) if answered.stored else None})
        if not answered.ok:
            raise typer.Exit(NpcError.exit_code)
        return
    if not answered.ok:
        raise NpcError(answered.said)
    console = Console(highlight=False)
    if answered.stored:
        console.print(card(answered.stored, now=now, home=home))
    console.print(Text(_next(answered)), soft_wrap=True)


def _next(answered: Answered) -> str:
    """What happens now, in a sentence."""
    if answered.stored is None or answered.stored.standing is not Standing.APPROVED:
        return f"{answered.said}; the NPC is told."
    until = clock(answered.stored.good_until)
    return f"{answered.said}: done within seconds if the NPC runs and its world is there, else as soon as they are, or not after {until}."


def _waiting(found: list[Stored], now: float) -> list[Stored]:
    return [one for one in found if one.standing is Standing.OPEN and one.lapses_at > now]


def _number(id_: str) -> int:
    number = number_of(id_)
    if number is None:
        raise Usage(f"{id_[:40]!r} is no id of a request: ids look like A7, see `npc approvals list`")
    return number


def _json(data: Any) -> None:
    # ASCII, so that no word in it can do anything to the terminal that it is printed to.
    typer.echo(json.dumps(data))
