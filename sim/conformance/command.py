"""`npc sim conformance`: a stranger's world, rule by rule.

Invariant: exit status 0 only if nothing was broken and something could be checked; 1 something is broken, 4 the world was not reached.
With `--json` standard output is one object and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer
from rich.console import Console

from npc.errors import Misconfigured
from sim.conformance.examination import Patience, Plan, examine
from sim.conformance.report import as_json, rendered
from world_adapter.client import WebsocketWorld
from world_adapter.errors import WorldError

REPORT_WIDTH = 130


def conformance(
    url: Annotated[str, typer.Argument(help="ws://HOST:PORT or wss://… of a world that speaks npc-world v1.")],
    npc: Annotated[
        str, typer.Option(help="Whom to attach as. Whoever plays it now is thrown out, and what it was told is acknowledged."),
    ] = "conformance",
    act: Annotated[
        list[str] | None, typer.Option(help="An action to try though it changes the world: NAME, or 'NAME {\"arg\": 1}'; more than once."),
    ] = None,
    listen: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for something to happen around the NPC.")] = 3.0,
    reply: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 10.0,
    silence: Annotated[float, typer.Option(min=0, help="Seconds to sit out two heartbeats; 0 leaves the heartbeat's rules out.")] = 75.0,
    insecure: Annotated[bool, typer.Option(help="Allow ws:// outside this machine.")] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Say, rule by rule, what of npc-world v1 a game server keeps.

    The token is read from NPC_WORLD_TOKEN or the file that NPC_WORLD_TOKEN_FILE names. Only actions that the world calls `read` are asked
    for, besides those named by --act. With a heartbeat of 30 s it takes a bit over a minute.

    Example: npc sim conformance ws://127.0.0.1:8765 --npc mira --act 'say {"text": "hello"}'
    """
    from npc.living import secret  # noqa: PLC0415 (it brings the whole product, which no other command of this group should wait for)

    console = Console(stderr=as_json_)
    try:
        plan = Plan(
            url=WebsocketWorld(url, npc=npc, allow_insecure=insecure).url, npc=npc, token=secret("NPC_WORLD_TOKEN"),
            acts=dict(_named(each) for each in act or ()), patience=Patience(reply_s=reply, listen_s=listen, silence_s=silence),
        )  # fmt: skip
    except (WorldError, Misconfigured, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    with console.status("") as status:
        outcome = asyncio.run(examine(plan, on_step=lambda step: status.update(f"looking at {step} …")))
    if as_json_:
        typer.echo(json.dumps(as_json(outcome), ensure_ascii=False))
    else:
        wide = console if console.is_terminal else Console(width=REPORT_WIDTH)
        wide.print(rendered(outcome))
    raise typer.Exit(4 if outcome.unreached else 0 if outcome.held else 1)


def _named(text: str) -> tuple[str, dict[str, Any]]:
    """NAME, or NAME with its arguments as JSON behind it."""
    name, _, rest = text.strip().partition(" ")
    try:
        args = json.loads(rest or "{}")
    except ValueError:
        args = None
    if not name or not isinstance(args, dict):
        raise ValueError(f"--act takes NAME or 'NAME {{…JSON…}}', not {text!r}")
    return name, args
