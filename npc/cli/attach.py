"""`npc attach`: bring one NPC to life on a world and keep it alive until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer
from rich.console import Console
from rich.control import strip_control_codes
from rich.table import Table

from npc.errors import Misconfigured, ModelRefusedUs, NpcError, WorldRefusedUs
from npc.persona import load_persona
from npc.secrets import CleanStream, Redactor

if TYPE_CHECKING:
    from npc.living import Ending

HELP = """Attach an NPC to a game server and keep it alive.

Secrets come from the environment or a file, never from the command line: ANTHROPIC_API_KEY (or ANTHROPIC_API_KEY_FILE) for the model,
NPC_WORLD_TOKEN (or NPC_WORLD_TOKEN_FILE) for the world, NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD (or NPC_EVENNIA_PASSWORD_FILE).

Example: npc attach ws://127.0.0.1:8765 --persona warden.toml --home ./warden
"""


def attach(
    url: Annotated[str, typer.Argument(help="ws:// or wss:// (the open protocol), evennia+ws://HOST:PORT, neuro+ws://HOST:PORT (listens)")],
    persona: Annotated[Path, typer.Option(help="The persona file (TOML).")],
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, instead of the persona's.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Any endpoint that speaks the Messages API.")] = None,
    window: Annotated[int | None, typer.Option(help="Tokens that one model call may hold.")] = None,
    insecure: Annotated[bool, typer.Option(help="Allow ws:// outside this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per event on standard output.")] = False,
) -> None:
    """Attach an NPC to a game server and keep it alive."""
    from npc.living import live  # noqa: PLC0415 (the model's library takes seconds to import, and no other command needs it)

    who = load_persona(persona).adjusted(model=model, window=window, base_url=base_url)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of few letters must not end a life
    watcher = _json_lines if as_json else _plain_lines(Console(highlight=False))
    redactor = Redactor()
    sys.stderr = CleanStream(sys.stderr, redactor)
    _quiet_logs(redactor)
    _finish(asyncio.run(live(url, who, home, insecure=insecure, watch=watcher, redactor=redactor)))


def _finish(end: Ending) -> None:
    if end.parts:
        table = Table("part", "tokens", title=f"What has to fit into a window of {end.window:,} tokens")
        table.columns[1].justify = "right"
        for name, tokens in end.parts:
            table.add_row(name, f"{tokens:,}")
        Console(stderr=True).print(table)
    errors: dict[int, type[NpcError]] = {3: Misconfigured, 4: WorldRefusedUs, 5: ModelRefusedUs}
    if end.code:
        raise errors.get(end.code, NpcError)(end.message)


def _json_lines(what: str, data: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more, or their disk is full
        sys.stdout.write(json.dumps({"event": what, **data}, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()


def _plain_lines(console: Console) -> Callable[[str, Mapping[str, Any]], None]:
    """What an operator reads in a terminal: short lines, nothing of the machinery but rungs and alarms."""

    def show(what: str, data: Mapping[str, Any]) -> None:
        line = _line(what, data)
        if line:
            with contextlib.suppress(OSError):
                if console.is_terminal:
                    console.print(line, markup=False, soft_wrap=True)
                else:  # a log: nothing to lay out, and many lines a second
                    console.file.write(f"{strip_control_codes(line)}\n")
                    console.file.flush()

    return show


def _line(what: str, data: Mapping[str, Any]) -> str:
    match what:
        case "heard":
            words = " ".join(str(data["text"]).split())
            words = words if len(words) <= 160 else words[:157] + "..."
            return f"  {data['speaker'] or data['kind']}: {words}"
        case "more heard":
            return f"  … and {data['count']:,} more"
        case "act":
            return f"> {data['action']} {json.dumps(data['args'], ensure_ascii=False)[:160]}"
        case "thought":
            return f"~ {' '.join(str(data['text']).split())[:160]}"
        case "rung":
            return f"# ladder: {data['rung']} {data.get('before', '')} -> {data.get('after', '')} tokens, {data.get('note', '')}"
        case "attached":
            return f"# attached to {data['world']} as {data['npc']}" + (" (resumed)" if data["resumed"] else "")
        case "approval":
            return f"? {data['id']} waits for you until {data['lapses']}: {data['action']}; see npc approvals list"
        case "approval over":
            return f"# {data['id']}: {data['standing']}. {data['outcome']}"
        case "detached" | "alarm" | "warning":
            return f"! {data.get('why') or data.get('text')}"
        case "reset":
            return f"# context reset: {data['reason']}; see npc diary list"
        case "yield":
            return "# the mind rests while the body acts"
        case "woken from yield":
            return f"# woken after {data['after_s']:.0f} s: {data['reason']}"
        case "goal refused" | "contradicted" | "policy refused" | "call refused":
            return f"! {data['action']}: {data['why']}"
        case "wide action":
            return f"! reaches wide: {data['action']} {json.dumps(data['args'], ensure_ascii=False, default=str)[:160]}"
        case "model failure":
            return f"! model: {data['message']}"
        case "waiting":
            return f"! waiting {data['seconds']} s for the model"
        case _:
            return ""


def _quiet_logs(redactor: Redactor) -> None:
    """Machine lines go to standard error, errors only: what concerns the operator is told by the watcher."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.set_exc_info,
            structlog.processors.format_exc_info,  # plain: the pretty ones show local variables, cut wherever it suits them
            redactor.processor,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
