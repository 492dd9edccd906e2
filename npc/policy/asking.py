"""What a person is asked before an act that cannot be undone, and the seam to whoever asks.

Invariant: a request is frozen. Its arguments are a copy that the mind cannot reach any more, and what is done when it is granted is exactly
what it holds; it names what the mind read just before, as data, so that a person can see where the wish came from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Self

#: Characters of the mind's words beside the call, of one text that it read before, and how many such texts.
WHY_CHARS, READ_CHARS, READ = 600, 600, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One act that waits for a person.

    Attributes:
        action: its name as the world has it.
        arguments: JSON values as the mind gave them; a copy. Secrets that the operator's file fills in are not among them.
        why: the mind's own words beside the call, "" where it gave none.
        read: what it had read just before, the oldest first, each with its label of origin; at most `READ` of `READ_CHARS` characters.
        reversible: whether it can be undone; None where the world does not say.
        reach: whether it touches more than the NPC and its partner.
        rule: why a person is asked, one sentence that names the rule.
        turn: in which the mind called for it.
        op: the operation of that call.
        call: the id of that call.
        world: the address of the world that it is meant for; nothing granted for one world is done in another.
    """

    action: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    read: tuple[str, ...] = ()
    reversible: bool | None = None
    reach: Literal["contained", "wide"] = "contained"
    rule: str = ""
    turn: int = 0
    op: int = 0
    call: str = ""
    world: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", copy.deepcopy(dict(self.arguments)))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `from_json` takes it back."""
        return asdict(self) | {"arguments": copy.deepcopy(dict(self.arguments)), "read": list(self.read)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """A request that was stored. Raises ValueError where the data are none."""
        try:
            request = cls(**{**data, "read": tuple(data.get("read", ()))})
        except TypeError as error:
            raise ValueError(f"this is no stored request: {error}") from error
        texts = (request.action, request.why, request.rule, request.call, request.world, *request.read)
        if not all(isinstance(text, str) for text in texts) or not request.action:
            raise ValueError("this is no stored request: a text in it is none")
        return request


class Asks(Protocol):
    """Whoever puts requests before a person. What was granted is run later, through `Hands.run_approved`."""

    async def ask(self, request: Request) -> str:
        """Put it before a person without waiting for the answer; the sentence that the mind is told meanwhile. An exception is a no."""
