"""From a persona, a home and an address to a living character: the parts are put together here, once.

Invariant: whatever ends it, the world is left, the journal written and the home's lock released.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from npc.approvals.signing import Secret
from npc.character import Character, Watcher
from npc.context import Context
from npc.errors import Misconfigured, Usage, WorldRefusedUs
from npc.home import Home, default_home
from npc.notebook import own_tools
from npc.persona import Persona
from npc.policy.file import PolicyFile
from npc.policy.rules import WorldSecrets
from npc.secrets import SHORTEST_KEY, Redactor, from_environment, resolved
from npc.tools import Toolbox
from runtime.agent import TimedCount
from runtime.core.budget import Budget, Part, misfit
from runtime.core.calibration import START
from runtime.core.layout import Shape
from runtime.core.session import Settings
from runtime.core.spending import Cheaper, Limits
from runtime.model import prices
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.profiles import Profile, profile
from runtime.store.errors import StoreError
from runtime.store.journal import Journal
from world_adapter.client import WebsocketWorld
from world_adapter.errors import WorldError
from world_adapter.evennia import EvenniaWorld
from world_adapter.frames import ActProgress, Gate, Rollback
from world_adapter.neuro import NeuroWorld
from world_adapter.world import World

OUTPUT_TOKENS = 1_024
#: An answer of fewer tokens says nothing.
LEAST_OUTPUT = 64
SUMMARY_TOKENS = 1_500

Aside = Callable[[Gate | Rollback | ActProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a life ended: the exit code, one sentence, and for rung 6 every part of the request with its size in tokens."""

    code: int
    message: str
    parts: tuple[tuple[str, int], ...] = ()
    window: int = 0


async def live(
    url: str, who: Persona, home_path: Path | None, *, insecure: bool, watch: Watcher, redactor: Redactor | None = None
) -> Ending:
    """Bring an NPC to life and stay until it ends. `redactor` learns every secret that is used.

    Raises:
        NpcError: it could not begin.
    """
    count = TimedCount(Counter.load().count)
    # What the imports made lives as long as the process: the collector need not walk it again in the middle of somebody's turn.
    gc.collect()
    gc.freeze()
    facts = profile(who.model.id)
    settings = settings_of(who, facts)
    redactor = redactor or Redactor()
    redactor.add(secret("ANTHROPIC_API_KEY"), shortest=SHORTEST_KEY)
    for name in ("NPC_WORLD_TOKEN", "NPC_EVENNIA_PASSWORD", "NPC_WEBHOOK_SECRET"):
        redactor.add(secret(name))
    home = Home(home_path or default_home(who.character.name))
    home.redact = redactor.text
    for warning in home.open(who):
        watch("warning", {"text": redactor.text(warning)})
    try:
        if ending := _misfit(home, who, settings, count):
            return ending
        # Before the journal is open: what is wrong with a secret or an address must leave nothing behind.
        signs = Secret.from_environment() if who.approvals.webhook else None
        client = ModelClient(api_key=secret("ANTHROPIC_API_KEY"), base_url=who.model.base_url)
        try:

            def aside(frame: Gate | Rollback | ActProgress) -> None:
                character.attachment.aside(redactor.fields(frame))

            rules = PolicyFile(home.policy_path, redactor=redactor).current.rules
            world = world_of(url, who, insecure=insecure, aside=aside, shown=rules.worlds.get(url), redactor=redactor)
            journal = await Journal.open(home.database_path, clock=time.time, memory_lines=who.memory.lines)
            character = Character(
                persona=who,
                home=home,
                journal=journal,
                model=client,
                world=world,
                settings=settings,
                count=count,
                watch=watch,
                cacheable=facts.min_cacheable,
                webhook_secret=signs,
                redactor=redactor,
            )
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, character.stop)
            try:
                end = await character.live()
            finally:
                lost = await _closed(journal)
            parts = tuple((p.name, p.tokens) for p in end.parts)
            message = "; ".join(text for text in (end.message, lost) if text)
            return Ending(code=end.code or bool(lost), message=message, parts=parts, window=settings.budget.window)
        except StoreError as error:
            raise Misconfigured(str(error)) from error
        finally:
            await client.close()
    finally:
        home.close()


async def _closed(journal: Journal) -> str:
    """Close the journal; what the disk did not take, in one sentence, or ""."""
    try:
        await journal.close()
    except StoreError as error:
        return f"the end of the journal could not be written: {error}"
    return ""


def settings_of(who: Persona, facts: Profile) -> Settings:
    """The loop's settings of a persona on a model."""
    window = who.model.window
    output = min(who.model.output_tokens or min(OUTPUT_TOKENS, window // 8), facts.max_output)
    marks = {"high": who.compaction.high, "low": who.compaction.low}
    budget = Budget(window=window, output=output, **{k: v for k, v in marks.items() if v is not None})
    caps = who.budget
    cheaper = None
    if caps.saving_model and caps.saving_model != who.model.id:
        other = profile(caps.saving_model)
        if other.known and other.context < window:
            raise Misconfigured(
                f"saving_model = {caps.saving_model} takes {other.context:,} tokens and window is {window:,}: lower window, or name another"
            )
        cheaper = Cheaper(shape=_shape(other), output_per_step=_output_per_step(other.model, caps.dollars_per_step))
    return Settings(
        budget=budget,
        shape=_shape(facts),
        cheaper=cheaper,
        limits=Limits(
            seconds_per_step=caps.seconds_per_step,
            output_per_step=_output_per_step(who.model.id, caps.dollars_per_step),
            dollars_per_turn=caps.dollars_per_turn,
            steps_per_hour=caps.steps_per_hour,
            calls_per_hour=caps.calls_per_hour,
            dollars_per_hour=caps.dollars_per_hour,
            steps_per_day=caps.steps_per_day,
            soft_share=caps.soft_share,
            reserve_share=caps.reserve_share,
        ),
        slow_s=caps.slow_s,
        absent_s=who.reflexes.after_s,
        steps_per_turn=who.budget.steps_per_turn,
        seconds_per_turn=who.budget.seconds_per_turn,
        dollars_per_day=who.budget.dollars_per_day,
        idle_s=who.wake.idle_s,
        idle_max_s=who.wake.idle_max_s,
        gather_s=who.wake.gather_s,
        yield_s=who.wake.deadline_s,
        yields=who.wake.yields,
        summary_tokens=SUMMARY_TOKENS if who.compaction.summaries == "model" else 0,
    )


def _shape(facts: Profile) -> Shape:
    return Shape(
        model=facts.model, tail_as_system=facts.system_in_messages, thinking_off=facts.thinking_off is not None,
        structured=facts.structured,
    )  # fmt: skip


def _output_per_step(model: str, dollars: float | None) -> int | None:
    """How many tokens an answer may have for so many dollars, None for any number."""
    if dollars is None:
        return None
    price = prices.of_output(model, 1_000)
    if price is None:
        raise Misconfigured(f"no price is known for {model}, so dollars_per_step cannot be held: leave it out, or write output_tokens")
    tokens = int(1_000 * dollars / price) if price else None
    if tokens is not None and tokens < LEAST_OUTPUT:
        least = LEAST_OUTPUT * price / 1_000
        raise Misconfigured(f"dollars_per_step = {dollars:g} pays for {tokens} tokens of {model}: write at least {least:.2g}")
    return tokens


def _misfit(home: Home, who: Persona, settings: Settings, count: TimedCount) -> Ending | None:
    """Rung 6 is found before anything is connected, as far as it does not depend on the world's actions."""
    fixed = Context(who, count).fixed(Toolbox(own=own_tools(window=settings.budget.window)).tools, 0, home.constitution())
    sizes = tuple(Part(name=name, tokens=int(raw * START) + 1) for name, raw in fixed.sizes)
    parts = misfit(settings.budget, sizes)
    if parts is None:
        return None
    need = sum(p.tokens for p in parts)
    message = (
        f"nothing fits: the parts above need {need:,} tokens, the window has {settings.budget.window:,}: "
        f"shorten {home.constitution_path} or the persona, or give a larger --window"
    )
    return Ending(code=3, message=message, parts=tuple((p.name, p.tokens) for p in parts), window=settings.budget.window)


def world_of(
    url: str, who: Persona, *, insecure: bool, aside: Aside | None = None, shown: WorldSecrets | None = None,
    redactor: Redactor | None = None,
) -> World:  # fmt: skip
    """The adapter for an address; `aside` hears what a world says besides observations and results.

    `shown` is what the operator's rules say of how the NPC shows itself to this world, before what the environment says for all worlds.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise Usage("the address must hold no user or password: secrets come from the environment, see npc attach --help")
    name = who.world.npc or who.character.name
    shown = shown or WorldSecrets()
    token, password = (source and resolved(source, use=f"worlds.{url}") for source in (shown.token, shown.password))
    for known in (token, password):
        (redactor or Redactor()).add(known)
    try:
        return _adapter(url, parts.scheme, name, who, insecure=insecure, aside=aside, token=token, login=(shown.user, password))
    except WorldError as error:
        raise WorldRefusedUs(str(error)) from error


def _adapter(
    url: str, scheme: str, name: str, who: Persona, *, insecure: bool, aside: Aside | None, token: str | None,
    login: tuple[str | None, str | None],
) -> World:  # fmt: skip
    if scheme in ("ws", "wss"):
        return WebsocketWorld(url, npc=name, token=token or secret("NPC_WORLD_TOKEN"), allow_insecure=insecure, on_aside=aside)
    if scheme in ("evennia+ws", "evennia+wss"):
        user, password = login[0] or os.environ.get("NPC_EVENNIA_USER"), login[1] or secret("NPC_EVENNIA_PASSWORD")
        if not user or not password:
            raise Misconfigured("set NPC_EVENNIA_USER and NPC_EVENNIA_PASSWORD (or NPC_EVENNIA_PASSWORD_FILE) to log in to Evennia")
        return EvenniaWorld(url, user=user, password=password, names=who.names, allow_insecure=insecure)
    if scheme == "neuro+ws":
        return NeuroWorld(url, npc=name, allow_insecure=insecure)
    raise Usage(f"{url!r} is no address of a world: use ws://, wss://, evennia+ws:// or neuro+ws://")


def secret(name: str) -> str | None:
    """A secret from the environment, or from the file that NAME_FILE names.

    Raises:
        Misconfigured: the file cannot be read.
    """
    return from_environment(name)
