"""The operator's rules: `policy.toml` in the NPC's home, as values.

Invariant: `Rules` that exist were understood to the last key. A file that does not make them ends in `Misconfigured`, one sentence with the
line; no value that may be a secret is ever repeated in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_validator

from npc.errors import Misconfigured
from npc.toml import complaint, parse

Cause = Literal["operator", "player", "npc", "world", "self"]
Effect = Literal["read", "write"]
Reach = Literal["contained", "wide"]

_FUNCTION = r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$"
_SOURCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:.{1,1000}", re.DOTALL)


def _source(text: Any) -> str:
    # Before anything else looks at it: what pydantic says of a wrong value repeats it.
    if not isinstance(text, str) or not _SOURCE.fullmatch(text):
        raise ValueError('must say where the secret is, "env:NAME" or "file:/path/of/a/file": secrets never stand in this file')
    return text


ActionName = Annotated[str, Field(min_length=1, max_length=128)]
FunctionName = Annotated[str, Field(pattern=_FUNCTION, max_length=200)]
#: Where a secret is: `env:NAME`, or `file:PATH` of a file that nobody else may read.
Source = Annotated[str, BeforeValidator(_source)]
_Many = Annotated[int, Field(ge=0, le=10_000)]


class _Section(BaseModel):
    """One table of the file. Types are meant: "45" is no number, 1 is not true."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Limits(_Section):
    """How often an action may be done: at most so many within a minute, an hour, a day, and with `cooldown_s` seconds in between."""

    per_minute: _Many | None = None
    per_hour: _Many | None = None
    per_day: _Many | None = None
    cooldown_s: Annotated[float, Field(ge=0, le=604_800)] | None = None


class Escrow(_Section):
    """Three actions of the world in the place of one that cannot be undone.

    `hold` puts both sides' part aside, `release` makes it final, `revert` gives it back. In between the function `check` looks, and the
    gates and hooks look again. The field `carry` of what `hold` gave goes as an argument of that name to the other two.
    """

    hold: ActionName
    release: ActionName
    revert: ActionName
    check: FunctionName
    carry: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None

    @model_validator(mode="after")
    def _three(self) -> Self:
        if len({self.hold, self.release, self.revert}) < 3:
            raise ValueError("must name three different actions as hold, release and revert")
        return self


class Tool(Limits):
    """What holds for one action, in the place of what the world declares.

    `asked_by`: who may be behind it; all that moved the NPC in this turn must be among them. `worlds`: names or addresses of the worlds in
    which it may be done. `approval`: `grid` asks a person where it cannot be undone, `always` asks in any case, `never` asks nobody, so
    what would need a person is not done.
    """

    allow: bool = True
    effect: Effect | None = None
    reversible: bool | None = None
    reach: Reach | None = None
    worlds: Annotated[tuple[str, ...], Field(strict=False, max_length=64)] | None = None
    asked_by: Annotated[tuple[Cause, ...], Field(strict=False)] | None = None
    approval: Literal["grid", "always", "never"] = "grid"
    hooks: Annotated[tuple[FunctionName, ...], Field(strict=False, max_length=16)] = ()
    escrow: Escrow | None = None
    inject: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")], Source] = Field(default_factory=dict)


class Defaults(Limits):
    """What holds where the file says nothing else.

    `undeclared`: what becomes of a write of which nobody says whether it can be undone. `unlisted`: whether actions that the file does not
    name may be used at all. Each limit is that of every write that has none of its own; `hooks` look at every write, before its own.
    """

    undeclared: Literal["automatic", "approval", "never"] = "automatic"
    unlisted: Literal["allow", "deny"] = "allow"
    hooks: Annotated[tuple[FunctionName, ...], Field(strict=False, max_length=16)] = ()


class WorldSecrets(_Section):
    """How this NPC shows itself to one world, by its address: a token, or for Evennia a user and a password."""

    token: Source | None = None
    user: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    password: Source | None = None


class Rules(_Section):
    """A whole file. Build it with `parse_rules`."""

    defaults: Defaults = Defaults()
    tools: dict[ActionName, Tool] = Field(default_factory=dict)
    worlds: dict[Annotated[str, Field(min_length=1, max_length=2_000)], WorldSecrets] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _escrows_go_together(self) -> Self:
        steps: dict[str, str] = {}
        for name, tool in self.tools.items():
            for step in (tool.escrow.hold, tool.escrow.release, tool.escrow.revert) if tool.escrow else ():
                if step == name or (step in self.tools and self.tools[step].escrow):
                    raise ValueError(f"the escrow of {name} goes through {step}, which has an escrow itself: name plain actions")
                if steps.setdefault(step, name) != name:
                    raise ValueError(f"{step} is a step of the escrows of {steps[step]} and of {name}: an action can be a step of one only")
        return self

    @property
    def releases(self) -> Mapping[str, str]:
        """Actions that make a held thing final, and the action whose escrow they end: nobody calls them by themselves."""
        return {tool.escrow.release: name for name, tool in self.tools.items() if tool.escrow}

    @property
    def sources(self) -> Iterator[tuple[str, str]]:
        """Every place where a secret is to be found, with the words that name its use."""
        for name, tool in self.tools.items():
            yield from ((source, f"tools.{name}, inject {argument}") for argument, source in tool.inject.items())
        for url, world in self.worlds.items():
            yield from ((s, f"worlds.{url}") for s in (world.token, world.password) if s)

    @property
    def functions(self) -> Iterator[str]:
        """Every function that the file names."""
        yield from self.defaults.hooks
        for tool in self.tools.values():
            yield from tool.hooks
            if tool.escrow:
                yield tool.escrow.check


def parse_rules(text: str, *, where: str = "policy.toml") -> Rules:
    """The rules in a TOML text; `where` names its file in messages. Raises `Misconfigured`."""
    data = parse(text, where=where)
    # Tables that people name are looked at one by one, so that what is wrong in one is told by its name and line.
    for kind, model in (("tools", Tool), ("worlds", WorldSecrets)):
        tables = data.get(kind)
        if not isinstance(tables, dict):
            continue
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise Misconfigured(f"{where}: {kind}.{name} must be a table: write [{kind}.{name}] and under it its keys")
            if isinstance(table.get("escrow"), dict):
                _check(table["escrow"], Escrow, (kind, name, "escrow"), where, text)
            _check(table, model, (kind, name), where, text)
    try:
        return Rules.model_validate(data)
    except ValidationError as error:
        if any(detail["type"] == "value_error" and not detail["loc"] for detail in error.errors(include_url=False)):
            raise Misconfigured(f"{where}: {error.errors(include_url=False)[0].get('ctx', {}).get('error', 'makes no sense')}") from None
        raise Misconfigured(complaint(error, Rules, where, text)) from None


def _check(table: Mapping[str, Any], model: type[BaseModel], path: tuple[str, ...], where: str, text: str) -> None:
    """Raise `Misconfigured` for what is wrong in one table, by its full name."""
    alias = "table"
    whole = create_model("Whole", __config__=ConfigDict(strict=True), **{alias: (model, ...)})  # type: ignore[call-overload]
    try:
        whole.model_validate({alias: table})
    except ValidationError as error:
        name = ".".join(path)
        dots = r"\s*\.\s*".join(rf"[\"']?{re.escape(part)}[\"']?" for part in path)
        lines = re.sub(rf"(?m)^[ \t]*\[\s*{dots}\s*\]", f"[{alias}]", text)
        sentence = complaint(error, whole, where, lines).replace(f"[{alias}]", f"[{name}]")
        raise Misconfigured(sentence.removesuffix(": for example inject = {}")) from None
