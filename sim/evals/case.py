"""A case as a file: a world's script, a persona and its rules, a stand-in mind, and what must have come of it.

Invariants: a case is plain data, whole or refused with one sentence that names its file and what to write instead; it holds no code, so
that anybody may run anybody's case. All times are virtual seconds, patterns are regular expressions that are searched for without regard to
case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from npc.errors import Misconfigured
from npc.persona import Persona
from npc.toml import parse
from sim.evals.operating import policy_problem
from sim.evals.script import LONGEST_S, Action, Check, Event, Part, Pattern, Patterns, Person, Scalar, Words, World

#: The largest case file in bytes, and how many cases a folder may hold.
MAX_FILE = 4_000_000
MAX_CASES = 1_000
#: Virtual seconds that go on after the last event.
AFTER_S = 30.0
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
#: Of a persona that says nothing else: tokens of its window, and seconds without news before it wakes by itself.
WINDOW = 12_000
QUIET_S = 86_400.0


class ToolUse(Part):
    """A tool that the stand-in mind calls. `{name}` in a text stands for a named group of the rule's patterns."""

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class Rule(Part):
    """When the mind reads all of this, it does that. The first rule that fits counts.

    What it reads: `news` of this turn, its `rules` (the system part), `notebook`, `recalled` memories, `results` of its last tools, the
    `history` before the news; each with a `no_` of its own. Without `results` or `round` a rule is for the first answer of a turn only.
    """

    news: Pattern | None = None
    rules: Pattern | None = None
    notebook: Pattern | None = None
    recalled: Pattern | None = None
    results: Pattern | None = None
    history: Pattern | None = None
    no_news: Pattern | None = None
    no_rules: Pattern | None = None
    no_notebook: Pattern | None = None
    no_recalled: Pattern | None = None
    no_results: Pattern | None = None
    no_history: Pattern | None = None
    called: Words = ()
    not_called: Words = ()
    round: Annotated[int, Field(ge=0)] | None = None
    say: str | None = None
    think: str = ""
    call: Annotated[tuple[ToolUse, ...], Field(strict=False)] = ()
    refuses: bool = False


class Played(Part):
    """One answer that was recorded, to be given again as it was: words, then tools."""

    think: str = ""
    call: Annotated[tuple[ToolUse, ...], Field(strict=False)] = ()


class Expect(Part):
    """What must have come of it. Lists of patterns: each must stand somewhere (`never_`: nowhere).

    Attributes:
        world: facts in the end.
        gates: in state.json in the end.
        called: tools, each at least once; `calls` exactly so often, `never_called` not at all; `called_with` with such arguments.
        acted: actions that the world was asked for, exactly so often; `acted_with` with just these arguments, by type and value.
        refused: tools whose call came back as an error, at least once each.
        order: tools that were called in this order, others between them or not.
        said, never_said: words aloud.
        state, never_state: by field of state.json.
        diary, never_diary, log: words in the diary and in log.md.
        shown, never_shown: words in the last request.
        events: kinds of events in the log, at least so often.
        style: rubrics that a judge looks at what was said with.
        steps, turns, dollars, repeats, failed_turns, resets: at most so many; `repeats` are calls with the same arguments and result.
        least_resets: at least so many.
    """

    world: dict[str, Scalar] = Field(default_factory=dict)
    gates: dict[str, Scalar] = Field(default_factory=dict)
    called: Words = ()
    never_called: Words = ()
    calls: dict[str, int] = Field(default_factory=dict)
    acted: dict[str, int] = Field(default_factory=dict)
    acted_with: Annotated[tuple[ToolUse, ...], Field(strict=False)] = ()
    called_with: Annotated[tuple[ToolUse, ...], Field(strict=False)] = ()
    refused: Words = ()
    order: Words = ()
    said: Patterns = ()
    never_said: Patterns = ()
    state: dict[str, Pattern] = Field(default_factory=dict)
    never_state: dict[str, Pattern] = Field(default_factory=dict)
    diary: Patterns = ()
    never_diary: Patterns = ()
    log: Patterns = ()
    shown: Patterns = ()
    never_shown: Patterns = ()
    events: dict[str, int] = Field(default_factory=dict)
    style: Words = ()
    steps: int | None = None
    turns: int | None = None
    dollars: float | None = None
    repeats: int | None = None
    failed_turns: int = 0
    resets: int | None = None
    least_resets: int = 0


class Mind(Part):
    """A stand-in for the model. `page` is what it writes into its diary; `expect` is asked for besides the case's own."""

    name: str = "mind"
    rule: Annotated[tuple[Rule, ...], Field(strict=False)] = ()
    answer: Annotated[tuple[Played, ...], Field(strict=False)] = ()
    page: str = "I stood my watch today, and it was an ordinary day."
    expect: Expect = Expect()


class Goal(Part):
    """What the NPC is at, told in its state; `done` says when it is reached, otherwise that is at the end."""

    text: str = ""
    done: Expect | None = None


class Marked(Part):
    """Of a case made from a log: whose words are in it, and what was told in confidence."""

    people: Words = ()
    confidences: Words = ()
    source: str = ""


class Case(Part):
    """A whole case. Get one with `load`.

    Attributes:
        seconds: virtual, that it lasts at least; by default until `AFTER_S` after its last event.
        think_s: virtual seconds of one model call.
        state: of state.json at the start.
        policy: the text of a policy file in its home; the functions that it names are the case's own `check`s.
    """

    name: str = ""
    about: str = ""
    tags: Words = ()
    seconds: Annotated[float, Field(ge=0, le=LONGEST_S)] = 0.0
    think_s: Annotated[float, Field(ge=0, le=600)] = 2.0
    constitution: str
    persona: Persona
    goal: Goal = Goal()
    state: dict[str, Any] = Field(default_factory=dict)
    policy: str = ""
    check: Annotated[tuple[Check, ...], Field(strict=False)] = ()
    world: World = World()
    person: Annotated[tuple[Person, ...], Field(strict=False)] = ()
    action: Annotated[tuple[Action, ...], Field(strict=False)] = ()
    event: Annotated[tuple[Event, ...], Field(strict=False)] = ()
    mind: Annotated[tuple[Mind, ...], Field(strict=False, min_length=1)]
    expect: Expect
    marked: Marked = Marked()

    @property
    def npc(self) -> str:
        """The NPC's name."""
        return self.persona.character.name

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if not self.expect.model_fields_set and any(not mind.expect.model_fields_set for mind in self.mind):
            raise ValueError("[expect] says nothing: a case without an expectation cannot fail")
        known = {person.name for person in self.person}
        told = [tell for event in self.event for tell in event.told]
        told += [tell for action in self.action for outcome in action.outcome for tell in outcome.tells]
        if strangers := sorted({tell.who for tell in told if tell.who} - known):
            raise ValueError(f"nobody is called {strangers[0]!r}: write [[person]] with this name, there are {_listed(known)}")
        if len({mind.name for mind in self.mind}) != len(self.mind):
            raise ValueError("two minds have one name: each [[mind]] needs a name of its own")
        if why := policy_problem(self.policy, self.check):
            raise ValueError(why)
        names = {event.name for event in self.event if event.name}
        for event in self.event:
            if event.after and event.after.event is not None and event.after.event not in names:
                raise ValueError(f"no event is called {event.after.event!r}: there are {_listed(names)}")
        return self


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def load(path: Path) -> Case:
    """The case in a file. Raises `Misconfigured`."""
    try:
        data = path.read_bytes()
        if len(data) > MAX_FILE:
            raise Misconfigured(f"{path} is larger than {MAX_FILE:,} bytes: a case is a short file")
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise Misconfigured(f"the case {path} cannot be read ({error.strerror or error}): name a readable TOML file") from error
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{path} is not UTF-8 text: save the file as UTF-8") from error
    return case_of(text, where=str(path), name=path.stem)


def case_of(text: str, *, where: str, name: str) -> Case:
    """The case in a TOML text; `where` names its file in messages, `name` is for a case that gives itself none. Raises `Misconfigured`."""
    tables = parse(text, where=where)
    tables.setdefault("name", name)
    persona = tables.get("persona")
    if isinstance(persona, dict):
        # Nothing is to happen by itself unless the case wants it to.
        wake = {"idle_s": QUIET_S, "idle_max_s": QUIET_S, **_table(persona.get("wake"))}
        tables["persona"] = {**persona, "wake": wake, "model": {"window": WINDOW, **_table(persona.get("model"))}}
    try:
        case = Case.model_validate(tables)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the case"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        why = first["msg"].removeprefix("Value error, ")
        raise Misconfigured(f"{where}: {place}: {why}{more}; docs/evals.md says what a case holds") from error
    if not NAME.fullmatch(case.name):
        raise Misconfigured(f"{where}: a case is named by small letters, digits, _ and -, not {case.name[:80]!r}")
    return case


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def shipped() -> Path:
    """The folder of the cases that ship with the product."""
    return Path(__file__).parent / "cases"


def load_all(folder: Path) -> list[Case]:
    """All cases of a folder, by name. Raises `Misconfigured`."""
    try:
        paths = sorted(folder.glob("*.toml"))
    except OSError as error:
        raise Misconfigured(f"the folder {folder} cannot be read ({error.strerror or error})") from error
    if not paths:
        raise Misconfigured(f"there is no case in {folder}: a case is a file NAME.toml, and {shipped()} has some to copy")
    if len(paths) > MAX_CASES:
        raise Misconfigured(f"{folder} holds {len(paths)} files: more than {MAX_CASES} cases are not run at once")
    cases = [load(path) for path in paths]
    names = [case.name for case in cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Misconfigured(f"two files of {folder} hold a case named {twice[0]}: give each its own name")
    return cases
