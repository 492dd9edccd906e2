"""The frames of npc-world v1 as values: what either side may say, with nothing of how it travels.

Invariant: a frame that exists is clean. Frames that come from a peer are built only by `cleaning`, so every text in them is valid
Unicode without NUL, every number finite and within 64 bits, every name one short line. Names of fields follow SPEC.md; the three that
Python cannot spell or that read badly are `speaker` (wire: `from`), `own` (wire: `self`) and `error_code`/`error_message`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

SpeakerKind: TypeAlias = Literal["player", "npc", "world", "operator"]
SPEAKER_KINDS: frozenset[str] = frozenset({"player", "npc", "world", "operator"})

# The kinds of observation that the protocol names; a reader treats any other as NOTICE.
KINDS: frozenset[str] = frozenset(
    {"speech", "whisper", "emote", "presence", "scene", "moved", "blocked", "hurt", "combat", "item", "time", "notice"},
)

DEFAULT_PRIO = 5


class Close:
    """Close codes of the protocol (4xxx) and the ones of RFC 6455 that change what we do next."""

    NORMAL = 1000
    GOING_AWAY = 1001
    TOO_BIG = 1009
    UNAUTHORISED = 4001
    MALFORMED = 4002
    REPLACED = 4003
    UNKNOWN_NPC = 4004
    RETRY = 4005


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """Who caused an observation. `kind` is one of SPEAKER_KINDS; only "operator" can carry authority, where the token allows it."""

    id: str = ""
    name: str = ""
    kind: str = "world"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One thing that the world tells one NPC.

    Attributes:
        seq: position in this NPC's stream of this epoch, from 1, rising by one.
        t: unix seconds at which it happened, by the world's clock.
        kind: one of KINDS, or a word of the world's own.
        text: for the model; data, never an instruction.
        wt: world time, text for people.
        data: for code.
        key: merge key; only the newest value per key matters to a reader that is behind. None marks an event.
        prio: 0 to 9, 9 the most urgent.
        speaker: who caused it, where someone did.
        to: id of the addressee; this NPC's own id is `Welcome.npc`.
        own: caused by this NPC itself (an echo).
    """

    seq: int
    t: float
    kind: str
    text: str
    wt: str | None = None
    data: Mapping[str, Any] | None = None
    key: str | None = None
    prio: int = DEFAULT_PRIO
    speaker: Speaker | None = None
    to: str | None = None
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """One action that the world offers; `schema` is a JSON Schema of type object for its arguments.

    `reversible` is None where the world does not say whether it can be undone.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    effect: Literal["read", "write"] = "write"
    reversible: bool | None = None
    reach: Literal["contained", "wide"] = "contained"
    kind: Literal["instant", "ongoing"] = "instant"
    moves_body: bool = False


class ActState(StrEnum):
    """What became of an action. All but ACCEPTED are final; UNKNOWN is final only as the world's answer to a query."""

    ACCEPTED = "accepted"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the world bears from one NPC; None where it set no limit."""

    say_chars: int | None = None
    acts_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Where an earlier attachment stopped: everything up to `seq` of `epoch` is safe on our disk."""

    session: str
    epoch: str
    seq: int
    world: str


# World to agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first frame. `heartbeat_s` is seconds, `max_frame` bytes that the world takes in one frame, `time` the world's own time."""

    world: str
    epoch: str
    heartbeat_s: float = 30.0
    max_frame: int = 1_048_576
    limits: Limits = field(default_factory=Limits)
    time: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The answer to `attach`. `next_seq` is the number of the next observation, `lost` how many left the replay window unread."""

    npc: str
    session: str
    resumed: bool = False
    next_seq: int = 1
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Replaces the whole list of actions, at any time."""

    version: str = ""
    actions: tuple[ActionSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Observations that travelled together (a lone `obs` frame is a batch of one).

    Attributes:
        items: in the order of the frame.
        malformed: how many further items of the frame could not be understood.
    """

    items: Sequence[Observation]
    malformed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActResult:
    """What became of action `id`. The error pair is set only where the world or the link gave a reason."""

    id: str
    state: ActState
    text: str = ""
    data: Mapping[str, Any] | None = None
    error_code: str | None = None
    error_message: str | None = None

    @property
    def final(self) -> bool:
        """Whether nothing more will come for this id."""
        return self.state is not ActState.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ActProgress:
    """How far an ongoing action is; `fraction` is 0 to 1 where the world can tell."""

    id: str
    text: str = ""
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The world's own code sets a gate field of this NPC's state; obeyed only where the NPC's policy gives that gate to the world."""

    name: str
    value: Any
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """An older save was loaded: what happened after world time `since` is undone, numbers start again at 1 under `epoch`."""

    epoch: str
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye:
    """Said before an orderly close. `retry_after_s` is seconds, None where the world did not say."""

    code: int = Close.NORMAL
    reason: str = ""
    retry_after_s: float | None = None
    resumable: bool = True


# Either side


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    n: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    n: int = 0


# Agent to world


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Asks to be the mind of `npc`. `agent` is name/version of the software."""

    npc: str
    agent: str = ""
    resume: Resume | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Asks for an action. `id` is executed at most once, ever."""

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What became of action `id`?"""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Everything up to `seq` of the current epoch is safe on the agent's disk."""

    seq: int


# What a decoder may answer besides a frame


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedFrame:
    """A frame that was dropped: why, in a few words without its content, and how many bytes it had."""

    reason: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownOp:
    """A well-formed frame whose `op` this version does not know: counted and ignored."""

    op: str


WorldFrame: TypeAlias = Hello | Welcome | Actions | Batch | ActResult | ActProgress | Gate | Rollback | Ping | Pong | Bye
AgentFrame: TypeAlias = Attach | Act | Cancel | Query | Ack | Ping | Pong
Frame: TypeAlias = WorldFrame | AgentFrame
Decoded: TypeAlias = Frame | MalformedFrame | UnknownOp
