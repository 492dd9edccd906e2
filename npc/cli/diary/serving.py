"""`npc diary serve`: the diaries as pages in a browser."""

from __future__ import annotations

import socket
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from npc.cli.diary import printing
from npc.cli.diary.shelves import HomeOption, Homes, JsonOption, NpcOption
from npc.errors import NpcError, Usage
from npc.files import reason

#: The port unless another is named.
PORT = 8477
LOOPBACK = ("127.0.0.1", "localhost", "::1")

PortOption = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port; 0 takes any that is free.")]
HostOption = Annotated[
    str,
    typer.Option("--host", metavar="ADDRESS", help="The address to listen on. Anything but loopback lets everybody who reaches it read."),
]


def serve(
    home: HomeOption = None, npc: NpcOption = "", port: PortOption = PORT, host: HostOption = LOOPBACK[0], as_json: JsonOption = False
) -> None:
    """Serve the diaries as pages to read: by NPC, by day, by tag, with search and what happened behind each entry."""
    # Only this command waits for the web.
    import uvicorn  # noqa: PLC0415

    from diaries.reader import application  # noqa: PLC0415
    from npc.cli.diary.behind import EventLogs  # noqa: PLC0415

    homes = Homes(home, npc)
    volumes = homes.shelf.refresh()
    listening = listening_on(host, port)
    known = listening.getsockname()
    name = f"[{known[0]}]" if ":" in known[0] else known[0]
    url = f"http://{name}:{known[1]}/"
    local = host in LOOPBACK
    logs = EventLogs(homes.of)
    app = application(homes.shelf, look=logs.look, hosts=LOOPBACK if local else None)
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=3)
    if as_json:
        printing.as_json({"url": url, "npcs": [volume.source.name for volume in volumes]}, indent=None)
    else:
        console = Console(highlight=False)
        names = ", ".join(volume.source.name for volume in volumes)
        what = f"The diary of {names} is" if len(volumes) == 1 else f"The diaries of {names} are"
        console.print(Text(f"{what} open at {url}"), soft_wrap=True)
        console.print(Text("Ctrl-C closes it.", style="dim"))
        if not local:
            printing.notes([f"everybody who reaches {host} can read this: there is no password"])
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        return
    finally:
        listening.close()


def listening_on(host: str, port: int) -> socket.socket:
    """A socket on this address; a port that is taken, or a host that is none, is a sentence."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise Usage(f"{host} is no address of this machine: leave out --host to serve this machine only") from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise NpcError(f"port {port} of {host} cannot be used ({reason(error)}): name another with --port N, or 0 for any") from error
    return listening
