"""The model's end: key, id, price, and what its endpoint says to one tiny request.

Invariant: no finding holds a key or a part of one; each `check_` is a plain function of what was found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

from npc.doctor.finding import Finding, fine, told, warn, wrong
from npc.errors import Misconfigured
from npc.living import secret
from npc.persona import Persona
from runtime.core.values import Fault
from runtime.model.probe import Probe
from runtime.model.profiles import Profile

NAME = "ANTHROPIC_API_KEY"
_KEYS = re.compile(r"sk-ant-[A-Za-z0-9_-]{20,}")
_SHAPE = re.compile(r"[\x21-\x7e]+")
# A name that follows the newest: "-latest" and ":latest", and undated ids up to 4.5 (later ones are pinned by themselves).
_ALIAS = re.compile(r"(?:-|:)latest$|(?:^|[./])claude-(?:[a-z]+-4(?:-[0-5])?|3(?:-\d)?-[a-z]+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The key as it was found. `problem`: why its file cannot be read; `exposed`: the file, if others may read it."""

    value: str | None = None
    problem: str = ""
    exposed: Path | None = None


def key_of() -> Key:
    """From the environment, or from the file that it names."""
    try:
        value = secret(NAME)
    except Misconfigured as error:
        return Key(problem=str(error))
    named = os.environ.get(f"{NAME}_FILE")
    if named and not os.environ.get(NAME):
        path = Path(named)
        try:
            open_to_others = path.stat().st_mode & 0o077
        except OSError:
            open_to_others = 0
        return Key(value=value, exposed=path if open_to_others else None)
    return Key(value=value)


def is_providers(base_url: str) -> bool:
    """Whether an endpoint is the provider's own, which wants a key and money."""
    host = urlsplit(base_url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def check_key(key: Key, base_url: str) -> Finding:
    """Whether there is a key where one is needed, and whether it can be one."""
    needed = is_providers(base_url)
    if key.problem:
        return told("key", f"{key.problem}: name a readable file that holds the key alone")
    if not key.value:
        if needed:
            return wrong("key", f"there is no key for {base_url}", f"set {NAME}, or {NAME}_FILE to a file that holds it")
        return fine("key", f"none is set; {base_url} may want none")
    if not _SHAPE.fullmatch(key.value):
        what = "the key holds blanks, line ends or letters that no key has: it cannot even be sent"
        return wrong("key", what, f"set {NAME} to the key alone, without quotes and blanks", code=5)
    if needed and not _KEYS.fullmatch(key.value):
        return warn("key", "the key does not look like one of the provider's (sk-ant-…)", f"copy it again, whole, into {NAME}")
    if key.exposed:
        return warn("key", f"others on this machine may read {key.exposed}", f"chmod 600 {key.exposed}")
    return fine("key", "present")


def check_model(facts: Profile, *, known: Collection[str], providers: bool) -> Finding:
    """Whether the id is known, and pinned."""
    if _ALIAS.search(facts.model):
        what = f"{facts.model} is an alias: the model behind it changes one day, and the character with it"
        return warn("model", what, "write the id of one version under [model], with its date where it has one")
    if facts.known or not providers:
        return fine("model", facts.model if facts.known else f"{facts.model}, unknown here: it is used with cautious settings")
    near = get_close_matches(facts.model, known, n=1, cutoff=0.6)
    renew = "bring this program up to date"
    what = f"{facts.model} is unknown here: it would be used with cautious settings and without a price"
    return warn("model", what, f"did you mean {near[0]}? otherwise {renew}" if near else renew)


def check_future(found: Probe, model: str) -> list[Finding]:
    """What the endpoint tells of the model: whether it goes by another name, and whether it will be there next year."""
    out = []
    if found.name.startswith(model) and found.name != model:
        what = f"{model} is an alias of {found.name} today: the model behind it changes one day, and the character with it"
        out.append(warn("model", what, f'write id = "{found.name}" under [model]'))
    if found.lifecycle in ("deprecated", "retired"):
        what = f"{model} is {found.lifecycle} at {found.base_url}: one day it answers no more"
        out.append(warn("model", what, "move to a newer model while this one can still be compared with it"))
    return out


def check_address(who: Persona, base_url: str) -> list[Finding]:
    """Where the address of the endpoint comes from, if not from the persona."""
    if who.model.base_url is None and os.environ.get("ANTHROPIC_BASE_URL"):
        what = f"the model is asked at {base_url}, since ANTHROPIC_BASE_URL says so: in another shell it is asked elsewhere"
        return [warn("endpoint", what, "write base_url under [model], or unset ANTHROPIC_BASE_URL")]
    return []


def check_probe(found: Probe, model: str) -> list[Finding]:
    """What the endpoint said to the tiny request."""
    where, failure = found.base_url, found.failure
    if failure is None:
        cost = f", for ${found.dollars:.6f}" if found.dollars else ""
        return [fine("endpoint", f"{where} answered in {found.seconds:.1f} s{cost}")]
    said = failure.message
    match failure.fault:
        case Fault.CREDENTIAL:
            return [wrong("key", f"{where} refuses the key ({said})", f"make a new key at the provider and set {NAME}", code=5)]
        case Fault.PERMISSION:
            return [wrong("key", f"the key may not do this at {where} ({said})", f"allow it {model} at the provider, or use another key")]
        case Fault.BILLING:
            return [wrong("billing", f"{where} wants to be paid first ({said})", "add credit or raise the spend limit at the provider")]
        case Fault.MODEL if failure.status == 404 and "model" in said:
            return [wrong("model", f"{where} has no model {model} ({said})", "write an id that it has under [model], or give --model ID")]
        case Fault.MODEL:
            return [wrong("endpoint", f"{where} does not speak the Messages API ({said})", "correct base_url; it ends before /v1/messages")]
        case Fault.TRANSIENT if failure.status is None:
            return [wrong("endpoint", f"{where} cannot be reached ({said})", "start it, correct base_url, or look at the network")]
        case Fault.TRANSIENT:
            return [warn("endpoint", f"{where} has no time just now ({said})", "try again later: the NPC would wait, too")]
        case Fault.INVALID | Fault.TOO_LONG | Fault.OUTPUT_LIMIT | Fault.LOCAL:
            fix = "check that it speaks the Messages API, and its limits"
            return [wrong("endpoint", f"{where} does not take a plain request ({said})", fix)]
        case _:
            return [warn("endpoint", f"{where} answered, but not as asked ({said})", "try again; if it stays so, take another model")]
