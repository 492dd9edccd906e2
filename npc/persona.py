"""The persona: who an NPC is and how it lives, from one TOML file.

Invariant: a `Persona` that exists is whole and within its limits; what it is made from has no key that was not understood. A file that does
not make one ends in `Misconfigured`, which names the file, the line where there is one, and what to write instead.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from npc.errors import Misconfigured
from npc.reflexes import Rules
from npc.toml import complaint, parse
from npc.wake import Predicate

#: The model an NPC runs on where its persona names none.
DEFAULT_MODEL = "claude-haiku-5-5"
#: Input above this costs five times as much on the default model, in tokens.
DEAR_INPUT = 100_000
#: The largest persona file, in bytes.
MAX_FILE = 1_000_000

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _words(text: str) -> str:
    """A text with words in it and without control characters: an endpoint refuses blank texts, a terminal obeys the others."""
    if _CONTROL.search(text):
        raise ValueError("must not hold control characters")
    if not text.strip():
        raise ValueError("must not be blank")
    return text.strip()


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text or "\t" in text:
        raise ValueError("must be one line")
    return text


def _endpoint(url: str) -> str:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or any(blank in url for blank in " \t\n"):
        raise ValueError("must be an address such as https://api.anthropic.com or http://127.0.0.1:8080")
    if parts.username or parts.password or parts.query:
        raise ValueError("must hold no user, password or query: secrets come from the environment")
    return url.rstrip("/")


Words = Annotated[str, AfterValidator(_words)]
Name = Annotated[str, Field(max_length=80), AfterValidator(_one_line), AfterValidator(_words)]


class _Section(BaseModel):
    """One table of the file. Types are meant: "45" is no number, 1 is not true."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Character(_Section):
    """Who it is: a `name` of one line and a `description` of any length that fits the window, in the second person or the third."""

    name: Name
    description: Annotated[Words, Field(max_length=60_000)]


class Speech(_Section):
    """Whether the model's plain text is spoken, the world's action for speaking, and the guard against talk in circles.

    `pair_rounds`: lines of another NPC with no person in between, before the talk is slowed and then rests for `pair_rest_s` seconds (0: no
    guard).
    """

    plain_text_is_speech: bool = True
    say_action: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = "say"
    pair_rounds: Annotated[int, Field(ge=0, le=1_000_000)] = 8
    pair_rest_s: Annotated[float, Field(ge=0.1, le=86_400)] = 600.0


WakeWord = Literal["arrived", "addressed", "operator", "blocked", "hurt", "nearby"]


class When(_Section):
    """One more condition that wakes a mind whose body acts: a kind of observation, a field of its data, its priority; see `npc.wake`."""

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")] | None = None
    field: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,4}$")] | None = None
    equals: Annotated[str, Field(max_length=200)] | float | bool | None = None
    at_least: float | None = None
    at_most: float | None = None
    prio_at_least: Annotated[int, Field(ge=0, le=9)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        compared = [name for name in ("equals", "at_least", "at_most") if getattr(self, name) is not None]
        if self.kind is None and self.field is None and self.prio_at_least is None:
            raise ValueError('must say kind, field or prio_at_least: for example kind = "combat"')
        if compared and self.field is None:
            raise ValueError(f'says {compared[0]} and not what is compared: add for example field = "target"')
        if "equals" in compared and len(compared) > 1:
            raise ValueError(f"must not say both equals and {compared[1]}: write two of them, or leave one out")
        if self.at_least is not None and self.at_most is not None and self.at_most < self.at_least:
            raise ValueError(f"at_most ({self.at_most:g}) must not be less than at_least ({self.at_least:g})")
        return self

    @property
    def predicate(self) -> Predicate:
        """The condition as it is held against observations."""
        return Predicate(**self.model_dump())


class Wake(_Section):
    """When it wakes.

    By itself, in seconds: after `idle_s` without news, backing off to `idle_max_s`; ambient news gather for `gather_s`. While its body
    acts (a long action runs) no model call is made: the end of the action, a line meant for it, the operator's word and `deadline_s` wake
    it, and what stands in `on` and `when` besides. More than `digest_above` observations are summed up then. `yields` false: it thinks on.
    """

    idle_s: Annotated[float, Field(ge=0.05, le=86_400)] = 45.0
    idle_max_s: Annotated[float, Field(ge=0.05, le=604_800)] = 900.0
    gather_s: Annotated[float, Field(ge=0, le=60)] = 0.5
    yields: bool = True
    deadline_s: Annotated[float, Field(ge=1, le=1_800)] = 120.0
    on: Annotated[tuple[WakeWord, ...], Field(strict=False)] = ("blocked", "hurt")
    digest_above: Annotated[int, Field(ge=0, le=500)] = 12
    when: Annotated[tuple[When, ...], Field(strict=False, max_length=32)] = ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """The conditions of `when`."""
        return tuple(when.predicate for when in self.when)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.idle_max_s < self.idle_s:
            raise ValueError(f"idle_max_s ({self.idle_max_s:g}) must not be less than idle_s ({self.idle_s:g})")
        return self


class Acting(_Section):
    """How often the same is tried.

    The same long or moving action may fail in vain `same_goal_tries` times, from one place and within `same_goal_window_s` seconds. Of
    `same_call_tries` calls in a row with the same arguments and the same result, within `same_call_window_s` seconds, the last is not made.
    """

    same_goal_tries: Annotated[int, Field(ge=1, le=100)] = 3
    same_goal_window_s: Annotated[float, Field(ge=1, le=86_400)] = 600.0
    same_call_tries: Annotated[int, Field(ge=2, le=1_000)] = 3
    same_call_window_s: Annotated[float, Field(ge=1, le=86_400)] = 60.0


class Model(_Section):
    """What it thinks with. `window` and `output_tokens` are tokens, `base_url` any endpoint that speaks the Messages API."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$")] = DEFAULT_MODEL
    window: Annotated[int, Field(ge=1_000, le=2_000_000)] = 32_000
    output_tokens: Annotated[int, Field(ge=16, le=200_000)] | None = None
    base_url: Annotated[str, Field(max_length=2_000), AfterValidator(_endpoint)] | None = None

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.output_tokens is not None and self.output_tokens > self.window // 2:
            raise ValueError(f"output_tokens ({self.output_tokens}) must not be more than half of the window ({self.window})")
        return self


Dollars = Annotated[float, Field(gt=0, le=100_000)]
Times = Annotated[int, Field(ge=1, le=10_000_000)]


class Budget(_Section):
    """Caps, those of None being no caps: what a step (one model call), a turn, an hour and a day may have; see docs/budgets.md.

    `dollars_per_day` 0: none may be spent. Beyond `soft_share` of an hour or a day it saves, with `saving_model` if one is named; the last
    `reserve_share` is kept for who addresses it, one answer every `slow_s` seconds.
    """

    dollars_per_day: Annotated[float, Field(ge=0, le=100_000)] = 1.0
    steps_per_turn: Annotated[int, Field(ge=1, le=200)] = 8
    seconds_per_turn: Annotated[float, Field(ge=1, le=3_600)] = 120.0
    seconds_per_step: Annotated[float, Field(ge=1, le=1_800)] | None = None
    dollars_per_step: Dollars | None = None
    dollars_per_turn: Dollars | None = None
    steps_per_hour: Times | None = None
    calls_per_hour: Times | None = None
    dollars_per_hour: Dollars | None = None
    steps_per_day: Times | None = None
    soft_share: Annotated[float, Field(gt=0, lt=1)] = 0.8
    reserve_share: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    slow_s: Annotated[float, Field(ge=1, le=3_600)] = 60.0
    saving_model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$")] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        rows = (
            ("dollars_per_step", "dollars_per_turn", "dollars_per_hour", "dollars_per_day"),
            ("steps_per_turn", "steps_per_hour", "steps_per_day"),
            ("steps_per_hour", "calls_per_hour"),
            ("seconds_per_step", "seconds_per_turn"),
        )
        for names in rows:
            caps = [(name, cap) for name in names if (cap := getattr(self, name)) is not None]
            for (small, less), (large, more) in pairwise(caps):
                # What nobody wrote is no mistake: a day of less than the usual eight steps is a day of that many.
                if less > more and small in self.model_fields_set:
                    raise ValueError(f"{small} ({less:g}) must not be more than {large} ({more:g})")
        if self.soft_share >= 1 - self.reserve_share:
            raise ValueError(
                f"soft_share ({self.soft_share:g}) must leave room below the reserve: less than {1 - self.reserve_share:g}, "
                f"for reserve_share is {self.reserve_share:g}"
            )
        return self


def _spoken(text: str) -> str:
    """Words with at most the name of who is spoken to left open, or none."""
    if "{" in text.replace("{name}", "") or "}" in text.replace("{name}", ""):
        raise ValueError("must hold no braces but {name}, for who it is said to")
    return _words(_one_line(text)) if text else ""


Spoken = Annotated[str, Field(max_length=300), AfterValidator(_spoken)]


class Reflexes(_Section):
    """What the body does while the mind is not asked: the money is nearly spent, or the model was away for `after_s` seconds.

    `greet` and `tired` are said ("" says nothing), {name} being who it is said to, to the same one again after so many seconds, and at
    most `per_minute` such lines in all. `flee` names the world's action with which it flees, with the arguments `flee_with`, when it is
    hurt and weak, or when one of `flee_when` holds. `stay`: it stops where it is.
    """

    on: bool = True
    after_s: Annotated[float, Field(ge=1, le=3_600)] = 30.0
    greet: Spoken = "Well met, {name}."
    greet_again_s: Annotated[float, Field(ge=1, le=2_592_000)] = 3_600.0
    tired: Spoken = "I am tired, {name}. Come back later."
    tired_again_s: Annotated[float, Field(ge=1, le=2_592_000)] = 1_800.0
    per_minute: Annotated[int, Field(ge=1, le=60)] = 6
    flee: Annotated[str, Field(max_length=128)] = ""
    flee_with: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=200)] | int | float | bool] = Field(
        default_factory=dict
    )
    flee_when: Annotated[tuple[When, ...], Field(strict=False, max_length=32)] = ()
    stay: bool = True

    @model_validator(mode="after")
    def _flees_somehow(self) -> Self:
        if not self.flee and (self.flee_with or self.flee_when):
            raise ValueError('says when or how to flee and not with which action of the world: add for example flee = "walk"')
        return self


class Tools(_Section):
    """How a long list of actions is dealt with: shown whole, or looked for.

    Above `search_above` actions, or where more than a few take over 15 % of the window, only the action for speaking and those in `always`
    are shown; the others are found by words. `search` says by whom: the provider's search (`api`, from 30 % of the window on), ours
    (`own`), by what the endpoint has (`auto`), or nobody, so that what has no room is left out (`off`).
    """

    search: Literal["auto", "api", "own", "off"] = "auto"
    search_above: Annotated[int, Field(ge=0, le=10_000)] = 40
    always: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=128)], ...], Field(strict=False, max_length=32)] = ()


class Memory(_Section):
    """What is remembered: `recall`, whether it comes back by itself when it fits, at most `max_lines` in a turn.

    Of all there is, `lines` are kept at most; what was not told to this NPC for `overheard_days` days at most (0: for ever).
    """

    recall: bool = True
    max_lines: Annotated[int, Field(ge=1, le=200)] = 8
    lines: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    overheard_days: Annotated[float, Field(ge=0, le=36_500)] = 30.0


class Compaction(_Section):
    """The marks of the ladder as shares of the usable window (None: the measured ones), and who condenses old history."""

    high: Annotated[float, Field(gt=0, lt=1)] | None = None
    low: Annotated[float, Field(gt=0, lt=1)] | None = None
    summaries: Literal["local", "model"] = "local"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.high is None) != (self.low is None):
            raise ValueError("high and low go together: write both, or neither for the measured marks")
        if self.high is not None and self.low is not None and self.low >= self.high:
            raise ValueError(f"low ({self.low:g}) must be less than high ({self.high:g})")
        return self


class Diary(_Section):
    """Who writes it: the character in small calls of its own (`agent`), or the runtime, for nothing.

    Besides ends of days, resets and the ends of its lives, at most `milestones_per_day` entries a day are about a gate that was set, a new
    phase or a promise kept.
    """

    written_by: Literal["agent", "runtime"] = "agent"
    milestones_per_day: Annotated[int, Field(ge=0, le=100)] = 4


class GateRule(_Section):
    """Who sets a gate field: `world`, `operator`, a verifier registered by name, or `package.module:function`."""

    set_by: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$", max_length=200)] = "operator"

    @property
    def verifier(self) -> bool:
        """Whether a plain function decides."""
        return self.set_by not in {"world", "operator"}


class Guard(_Section):
    """An action of the world that is refused unless a gate says just this."""

    action: Annotated[str, Field(min_length=1, max_length=128)]
    gate: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
    equals: str | int | bool = True


class Approvals(_Section):
    """How the operator is asked: a request lapses after `lapse_s` seconds, at most `most_open` wait, `per_hour` are made in an hour.

    `webhook` is an address that each of them is posted to, signed with the secret in NPC_WEBHOOK_SECRET; see docs/approvals.md.
    """

    lapse_s: Annotated[float, Field(ge=1, le=604_800)] = 1_800.0
    most_open: Annotated[int, Field(ge=1, le=200)] = 20
    per_hour: Annotated[int, Field(ge=1, le=1_000)] = 30
    webhook: Annotated[str, Field(max_length=2_000), AfterValidator(_endpoint)] | None = None


class WorldHints(_Section):
    """How the world and its people know this character: the id to attach under (None: its name), and what else it is called."""

    npc: Name | None = None
    aliases: Annotated[tuple[Name, ...], Field(strict=False, max_length=32)] = ()


class Persona(_Section):
    """A whole persona. Build one with `load_persona` or `parse_persona`."""

    character: Character
    speech: Speech = Speech()
    wake: Wake = Wake()
    acting: Acting = Acting()
    model: Model = Model()
    budget: Budget = Budget()
    reflexes: Reflexes = Reflexes()
    tools: Tools = Tools()
    memory: Memory = Memory()
    compaction: Compaction = Compaction()
    diary: Diary = Diary()
    approvals: Approvals = Approvals()
    world: WorldHints = WorldHints()
    gates: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")], GateRule] = Field(default_factory=dict)
    guards: Annotated[tuple[Guard, ...], Field(strict=False, max_length=64)] = ()

    _source: str | None = PrivateAttr(default=None)
    _path: Path | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path | None:
        """The file that it came from."""
        return self._path

    @property
    def names(self) -> tuple[str, ...]:
        """All that it answers to: its name first, then its aliases, each once."""
        return tuple(dict.fromkeys((self.character.name, *self.world.aliases)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What works but was perhaps not meant, one sentence each."""
        found = []
        if self.model.id.startswith(DEFAULT_MODEL) and self.model.window > DEAR_INPUT:
            found.append(
                f"window = {self.model.window} lets the input grow beyond {DEAR_INPUT:,} tokens, where {self.model.id} costs five times as "
                "much: window = 96000 stays under that"
            )
        url = urlsplit(self.model.base_url or "")
        if url.scheme == "http" and url.hostname not in {"localhost", "127.0.0.1", "::1"}:
            found.append(f"base_url = {self.model.base_url} sends the key and all that is said unencrypted: use https outside this machine")
        url = urlsplit(self.approvals.webhook or "")
        if url.scheme == "http" and url.hostname not in {"localhost", "127.0.0.1", "::1"}:
            found.append(f"webhook = {self.approvals.webhook} shows every request to all on the way: use https outside this machine")
        return tuple(found)

    def adjusted(self, *, model: str | None = None, window: int | None = None, base_url: str | None = None) -> Persona:
        """This persona with what the command line says instead. Raises `Misconfigured` if the two do not go together."""
        given = {name: value for name, value in (("id", model), ("window", window), ("base_url", base_url)) if value is not None}
        if not given:
            return self
        data = self.model_dump()
        data["model"] |= given
        try:
            adjusted = Persona.model_validate(data)
        except ValidationError as error:
            raise Misconfigured(complaint(error, Persona, "the command line")) from error
        adjusted._path = self._path  # noqa: SLF001 - another instance of this class
        return adjusted

    def to_toml(self) -> str:
        """The file as it was read, comments and all; after `adjusted`, every setting as it is now. `parse_persona` takes both."""
        if self._source is not None:
            return self._source
        return "# As used, with what the command line said.\n\n" + tomli_w.dumps(self.model_dump(exclude_none=True))


def parse_persona(text: str, *, where: str = "persona") -> Persona:
    """The persona in a TOML text; `where` names its file in messages. Raises `Misconfigured`."""
    try:
        persona = Persona.model_validate(parse(text, where=where))
    except ValidationError as error:
        raise Misconfigured(complaint(error, Persona, where, text)) from error
    persona._source = text  # noqa: SLF001 - this module's own class, which pydantic builds for it
    return persona


def load_persona(path: Path) -> Persona:
    """The persona in a file. Raises `Misconfigured` if it cannot be read or makes none."""
    example = f"an example to copy is {example_path()}"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError as error:
        raise Misconfigured(f"there is no persona file {path}: name one with --persona FILE; {example}") from error
    except (OSError, ValueError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        raise Misconfigured(f"the persona file {path} cannot be read ({why}): name a readable TOML file with --persona FILE") from error
    if len(data) > MAX_FILE:
        raise Misconfigured(f"the persona file {path} is larger than {MAX_FILE:,} bytes: {example}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Misconfigured(f"{path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from error
    persona = parse_persona(text, where=str(path))
    persona._path = path  # noqa: SLF001 - this module's own class, which pydantic builds for it
    return persona


def example_persona() -> str:
    """The commented example that ships with the product, as TOML."""
    return example_path().read_text(encoding="utf-8")


def example_path() -> Path:
    """Where that example lies."""
    return Path(__file__).parent / "examples" / "warden.toml"


def rules_of(persona: Persona) -> Rules:
    """The reflexes of a persona, as they are carried out."""
    said = persona.reflexes
    return Rules(
        greet=said.greet, greet_again_s=said.greet_again_s, tired=said.tired, tired_again_s=said.tired_again_s,
        per_minute=said.per_minute, flee=said.flee, flee_with=said.flee_with,
        flee_when=tuple(when.predicate for when in said.flee_when), stay=said.stay,
    )  # fmt: skip
