"""The script of a case's world: who is there, what can be done, what comes of it, and what happens when.

Invariant: plain data; times are virtual seconds from the beginning, patterns are searched for without regard to case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import regex
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from npc.errors import Misconfigured

Scalar = str | int | float | bool
#: Virtual seconds of the longest life.
LONGEST_S = 7 * 86_400.0
#: How long one pattern may be looked for in one text, by the wall clock.
PATIENCE_S = 1.0
_HOW = regex.IGNORECASE | regex.DOTALL


def _compiles(pattern: str) -> str:
    try:
        regex.compile(pattern, _HOW)
    except regex.error as error:
        raise ValueError(f"is no regular expression ({error})") from error
    return pattern


Pattern = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_compiles)]
Patterns = Annotated[tuple[Pattern, ...], Field(strict=False)]
Words = Annotated[tuple[str, ...], Field(strict=False)]


def found(pattern: str, text: str) -> regex.Match[str] | None:
    """Where a pattern of a case stands in a text. Raises `Misconfigured` for one that takes too long to look for."""
    try:
        return regex.search(pattern, text, _HOW, timeout=PATIENCE_S)
    except TimeoutError as error:
        raise Misconfigured(f"the pattern /{pattern[:80]}/ takes more than {PATIENCE_S:g} s to look for: write a simpler one") from error


class Part(BaseModel):
    """A table of a case file. Types are meant, and what is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, populate_by_name=True)


class Tell(Part):
    """One thing that the NPC is told. `who` names a person of the case; what a person says is meant for the NPC unless `to` says whom."""

    text: str
    kind: str = ""
    who: Annotated[str, Field(alias="from")] = ""
    to: str | None = None
    prio: Annotated[int, Field(ge=0, le=9)] | None = None
    data: dict[str, Any] | None = None
    key: str | None = None
    time: str | None = None
    own: bool = False


class Crowd(Part):
    """Many lines at once that are meant for nobody in particular; `{n}` in the text is the number of the line."""

    count: Annotated[int, Field(ge=1, le=5_000)]
    text: str = "Voice {n} says: fresh bread, fresh bread!"
    kind: str = "notice"


class Operator(Part):
    """What the operator does: gate fields and an answer written into state.json, a new constitution, his word on a request that waits.

    `approve` or `deny` names the request as `npc approvals` does, `because` is his reason. His word must count, unless `told` says what he
    is told instead.
    """

    gates: dict[str, Scalar] = Field(default_factory=dict)
    answer: str = ""
    constitution: str = ""
    approve: Annotated[str, Field(pattern=r"^A[1-9][0-9]{0,8}$")] | None = None
    deny: Annotated[str, Field(pattern=r"^A[1-9][0-9]{0,8}$")] | None = None
    because: str = ""
    told: Pattern | None = None

    @model_validator(mode="after")
    def _decides_one_thing(self) -> Self:
        if self.approve and self.deny:
            raise ValueError("must not both approve and deny: write two events")
        if (self.because or self.told) and not (self.approve or self.deny):
            raise ValueError('says why, or what he is told, and not what is decided: add for example approve = "A1"')
        return self


class Check(Part):
    """A function that the case's policy may name, as data: it says no unless the arguments (`given`) and what an escrow holds fit."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
    given: dict[str, Pattern] = Field(default_factory=dict)
    held: dict[str, Pattern] = Field(default_factory=dict)
    says: Annotated[str, Field(min_length=1, max_length=200)]


class Trigger(Part):
    """Something that must have happened: words said aloud, a tool called, an action ended, so many answers of the mind, another event."""

    said: Pattern | None = None
    called: str | None = None
    ended: str | None = None
    answers: Annotated[int, Field(ge=0)] | None = None
    event: str | None = None
    quiet: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError('must say what it waits for: for example after = { said = "good day" }')
        return self


Deed = Literal["crash", "restart", "reset", "outage", "recovery", "rollback", "detach", "attach"]


class Event(Part):
    """Something that happens, once: at a time, or so many seconds after something else.

    It tells one line (`text`) or several (`tells`), changes the world's facts, sets a gate as the world's own code, and does a `deed`:
    `crash` (the process is killed), `restart` (it ends in order and begins again), `reset` (the model rejects until the history is let go),
    `outage` and `recovery` of the model, `rollback` of the world to `since`, `detach` and `attach` of the link.
    """

    name: str = ""
    at: Annotated[float, Field(ge=0, le=LONGEST_S)] | None = None
    after: Trigger | None = None
    delay: Annotated[float, Field(ge=0, le=LONGEST_S)] = 0.0
    text: str | None = None
    kind: str = ""
    who: Annotated[str, Field(alias="from")] = ""
    to: str | None = None
    prio: Annotated[int, Field(ge=0, le=9)] | None = None
    data: dict[str, Any] | None = None
    time: str | None = None
    tells: Annotated[tuple[Tell, ...], Field(strict=False)] = ()
    crowd: Crowd | None = None
    sets: dict[str, Scalar] = Field(default_factory=dict)
    gates: dict[str, Scalar] = Field(default_factory=dict)
    operator: Operator | None = None
    deed: Annotated[Deed | None, Field(alias="do")] = None
    since: str = ""

    @model_validator(mode="after")
    def _has_a_time(self) -> Self:
        if (self.at is None) == (self.after is None):
            raise ValueError("must say either at (seconds) or after (what it waits for)")
        return self

    @property
    def told(self) -> tuple[Tell, ...]:
        """Everything that it tells, in order."""
        if self.text is None:
            return self.tells
        one = Tell(
            text=self.text, kind=self.kind, who=self.who, to=self.to, prio=self.prio, data=self.data, time=self.time,
        )  # fmt: skip
        return (one, *self.tells)


class Outcome(Part):
    """What comes of an action: the first of its outcomes that fits the facts (`when`) and the arguments (`given`).

    `data` goes with the result, `adds` counts facts up or down; `crash`: the world has done it, and the NPC's process is killed before it
    hears of it.
    """

    when: dict[str, Scalar] = Field(default_factory=dict)
    given: dict[str, Pattern] = Field(default_factory=dict)
    times: Annotated[int, Field(ge=1)] | None = None
    state: Literal["done", "failed"] = "done"
    text: str = "done"
    code: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    seconds: Annotated[float, Field(ge=0, le=LONGEST_S)] = 30.0
    place: str = ""
    sets: dict[str, Scalar] = Field(default_factory=dict)
    adds: dict[str, int] = Field(default_factory=dict)
    gates: dict[str, Scalar] = Field(default_factory=dict)
    tells: Annotated[tuple[Tell, ...], Field(strict=False)] = ()
    crash: bool = False


class Action(Part):
    """An action that the world declares. `arguments`: name to a JSON type or a list of words; a name with `?` may be left out.

    Unlike on the wire an action can be undone unless it says `reversible = false`: what a case is about is seldom its own guardrail.
    """

    name: str
    description: str = ""
    arguments: dict[str, str | list[str]] = Field(default_factory=dict)
    json_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    effect: Literal["read", "write"] = "write"
    reversible: bool = True
    reach: Literal["contained", "wide"] = "contained"
    kind: Literal["instant", "ongoing"] = "instant"
    moves_body: bool = False
    outcome: Annotated[tuple[Outcome, ...], Field(strict=False)] = ()

    @property
    def declared(self) -> Mapping[str, Any]:
        """The schema of its arguments."""
        if self.json_schema is not None:
            return self.json_schema
        properties = {
            name.removesuffix("?"): {"type": "string", "enum": kind} if isinstance(kind, list) else {"type": kind}
            for name, kind in self.arguments.items()
        }
        return {"type": "object", "properties": properties, "required": [name for name in self.arguments if not name.endswith("?")]}


class Person(Part):
    """Somebody of the world."""

    name: str
    kind: Literal["player", "npc", "operator", "world"] = "player"
    id: str = ""


class World(Part):
    """Where it happens: facts that actions change, and that are looked at in the end."""

    name: str = "valley"
    place: str = ""
    facts: dict[str, Scalar] = Field(default_factory=dict)
