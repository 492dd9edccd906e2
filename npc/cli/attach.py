"""`npc attach`: bring one NPC to life on a world and keep it alive until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import structlog
import typer
from rich.console import Console
from rich.table import Table

from npc.character import Character, Watcher
from npc.context import Context
from npc.errors import Misconfigured, ModelRefusedUs, NpcError, Usage, WorldRefusedUs
from npc.home import Home, default_home
from npc.persona import Persona, load_persona
from npc.tools import Toolbox
from runtime.agent import TimedCount
from runtime.core import effects as fx
from runtime.core.budget import Budget, Part, misfit
from runtime.core.calibration import START
from runtime.core.layout import Shape
from runtime.core.session import Settings
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.profiles import Profile, profile
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter.client import WebsocketWorld
from world_adapter.errors import WorldError
from world_adapter.evennia import EvenniaWorld
from world_adapter.world import World

OUTPUT_TOKENS = 1_024
SUMMARY_TOKENS = 1_500
HELP = """Attach an NPC to a game server and keep it alive.

Secrets come from the environment or a file, never from the command line: ANTHROPIC_API_KEY (or ANTHROPIC_API_KEY_FILE) for the model,
NPC_WORLD_TOKEN (or NPC_WORLD_TOKEN_FILE) for the world, NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD (or NPC_EVENNIA_PASSWORD_FILE).

Example: npc attach ws://127.0.0.1:8765 --persona warden.toml --home ./warden
"""


def attach(
    url: Annotated[str, typer.Argument(help="ws:// or wss:// (the open protocol), evennia+ws://HOST:PORT")],
    persona: Annotated[Path, typer.Option(help="The persona file (TOML).")],
    home: Annotated[Path | None, typer.Option(help="The NPC's home folder.")] = None,
    model: Annotated[str | None, typer.Option(help="The model, instead of the persona's.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Any endpoint that speaks the Messages API.")] = None,
    window: Annotated[int | None, typer.Option(help="Tokens that one model call may hold.")] = None,
    insecure: Annotated[bool, typer.Option(help="Allow ws:// outside this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per event on standard output.")] = False,
) -> None:
    """See HELP."""
    who = load_persona(persona).adjusted(model=model, window=window, base_url=base_url)
    watcher = _json_lines if as_json else _plain_lines(Console(highlight=False))
    _quiet_logs()
    end = asyncio.run(_live(url, who, home, insecure=insecure, watch=watcher))
    _finish(end)


attach.__doc__ = HELP


async def _live(url: str, who: Persona, home_path: Path | None, *, insecure: bool, watch: Watcher) -> fx.End:
    count = TimedCount(Counter.load().count)
    facts = profile(who.model.id)
    settings = settings_of(who, facts)
    home = Home(home_path or default_home(who.character.name))
    for warning in home.open(who):
        watch("warning", {"text": warning})
    try:
        _check_room(home, who, settings, count)
        try:
            journal = await Journal.open(home.database_path, clock=time.time)
        except StoreError as error:
            raise Misconfigured(str(error)) from error
        client = ModelClient(api_key=secret("ANTHROPIC_API_KEY"), base_url=who.model.base_url)
        try:
            character = Character(
                persona=who,
                home=home,
                journal=journal,
                model=client,
                world=world_of(url, who, insecure=insecure),
                settings=settings,
                count=count,
                watch=watch,
                cacheable=facts.min_cacheable,
            )
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, character.stop)
            return await character.live()
        finally:
            await client.close()
            await journal.close()
    finally:
        home.close()


def settings_of(who: Persona, facts: Profile) -> Settings:
    """The loop's settings of a persona on a model."""
    window = who.model.window
    output = min(who.model.output_tokens or min(OUTPUT_TOKENS, window // 8), facts.max_output)
    marks = {"high": who.compaction.high, "low": who.compaction.low}
    budget = Budget(window=window, output=output, **{k: v for k, v in marks.items() if v is not None})
    return Settings(
        budget=budget,
        shape=Shape(
            model=who.model.id, tail_as_system=facts.system_in_messages, thinking_off=facts.thinking_off is not None
        ),
        steps_per_turn=who.budget.steps_per_turn,
        seconds_per_turn=who.budget.seconds_per_turn,
        dollars_per_day=who.budget.dollars_per_day,
        idle_s=who.wake.idle_s,
        idle_max_s=who.wake.idle_max_s,
        gather_s=who.wake.gather_s,
        summary_tokens=SUMMARY_TOKENS if who.compaction.summaries == "model" else 0,
    )


def _check_room(home: Home, who: Persona, settings: Settings, count: TimedCount) -> None:
    """Rung 6 is found before anything is connected, as far as it does not depend on the world's actions."""
    fixed = Context(who, count).fixed(Toolbox().tools, 0, home.constitution())
    sizes = tuple(Part(name=name, tokens=int(raw * START) + 1) for name, raw in fixed.sizes)
    if parts := misfit(settings.budget, sizes):
        show_parts(parts, settings.budget.window)
        need = sum(p.tokens for p in parts)
        raise Misconfigured(
            f"nothing fits: the parts above need {need:,} tokens, the window has {settings.budget.window:,}: "
            f"shorten {home.constitution_path} or the persona, or give a larger --window"
        )


def show_parts(parts: tuple[Part, ...], window: int) -> None:
    """The table of rung 6."""
    table = Table("part", "tokens", title=f"What has to fit into a window of {window:,} tokens")
    table.columns[1].justify = "right"
    for part in parts:
        table.add_row(part.name, f"{part.tokens:,}")
    Console(stderr=True).print(table)


def world_of(url: str, who: Persona, *, insecure: bool) -> World:
    """The adapter for an address."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise Usage("the address must hold no user or password: secrets come from the environment, see npc attach --help")
    name = who.world.npc or who.character.name
    try:
        return _adapter(url, parts.scheme, name, who, insecure=insecure)
    except WorldError as error:
        raise WorldRefusedUs(str(error)) from error


def _adapter(url: str, scheme: str, name: str, who: Persona, *, insecure: bool) -> World:
    if scheme in ("ws", "wss"):
        return WebsocketWorld(url, npc=name, token=secret("NPC_WORLD_TOKEN"), allow_plain=insecure)
    if scheme in ("evennia+ws", "evennia+wss"):
        user, password = os.environ.get("NPC_EVENNIA_USER"), secret("NPC_EVENNIA_PASSWORD")
        if not user or not password:
            raise Misconfigured("set NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD (or NPC_EVENNIA_PASSWORD_FILE) to log in to Evennia")
        return EvenniaWorld(url, user=user, password=password, names=who.names, allow_insecure=insecure)
    raise Usage(f"{url!r} is no address of a world: use ws://, wss:// or evennia+ws://")


def secret(name: str) -> str | None:
    """A secret from the environment, or from the file that NAME_FILE names.

    Raises:
        Misconfigured: the file cannot be read.
    """
    if value := os.environ.get(name):
        return value
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{name}_FILE names {path}, which cannot be read ({type(error).__name__})") from error
    return None


def _finish(end: fx.End) -> None:
    if end.parts:
        show_parts(end.parts, 0)
    errors: dict[int, type[NpcError]] = {3: Misconfigured, 4: WorldRefusedUs, 5: ModelRefusedUs}
    if end.code:
        raise errors.get(end.code, NpcError)(end.message)


def _json_lines(what: str, data: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"event": what, **data}, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()


def _plain_lines(console: Console) -> Callable[[str, Mapping[str, Any]], None]:
    """What an operator reads in a terminal: short lines, nothing of the machinery but rungs and alarms."""

    def show(what: str, data: Mapping[str, Any]) -> None:
        line = _line(what, data)
        if line:
            console.print(line, markup=False, soft_wrap=True)

    return show


def _line(what: str, data: Mapping[str, Any]) -> str:
    match what:
        case "heard":
            words = " ".join(str(data["text"]).split())
            words = words if len(words) <= 160 else words[:157] + "..."
            return f"  {data['speaker'] or data['kind']}: {words}"
        case "act":
            return f"> {data['action']} {json.dumps(data['args'], ensure_ascii=False)[:160]}"
        case "thought":
            return f"~ {' '.join(str(data['text']).split())[:160]}"
        case "rung":
            return f"# ladder: {data['rung']} {data.get('before', '')} -> {data.get('after', '')} tokens, {data.get('note', '')}"
        case "attached":
            return f"# attached to {data['world']} as {data['npc']}" + (" (resumed)" if data["resumed"] else "")
        case "detached" | "alarm" | "warning":
            return f"! {data.get('why') or data.get('text')}"
        case "reset":
            return f"# context reset: {data['reason']}; see npc diary list"
        case "model failure":
            return f"! model: {data['message']}"
        case "waiting":
            return f"! waiting {data['seconds']} s for the model"
        case _:
            return ""


def _quiet_logs() -> None:
    """Machine lines go to standard error, from warnings up."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
