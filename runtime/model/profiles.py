"""What is known about a model before the first call: sizes, and what its endpoint accepts.

Invariant: every id has a profile. One that is not in the table (a local server, a model younger than this file) gets the cautious one,
with which a valid request can be built for anything that speaks the Messages API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

#: How a model is kept from thinking: by saying so, by saying nothing, or not at all.
Thinking = Literal["disable", "omit", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Facts of one model. Sizes are tokens as the provider counts them.

    Attributes:
        model: the id that was asked for.
        known: whether the facts are of this model; otherwise they are the cautious ones.
        context: input and output together.
        max_output: the largest `max_tokens`.
        min_cacheable: a prefix shorter than this is silently not cached.
        system_in_messages: whether `role: "system"` may stand inside `messages`.
        thinking: how thinking is turned off; `always` means that it cannot be.
        forced_tool_choice: whether `tool_choice` may be `any` or `tool`.
        structured: whether an answer can be held to a JSON schema (`output_config.format`).
        tool_search: whether tools may be deferred and found by the provider's own search.
        dear_above: input tokens above which the whole request costs more, or None.
    """

    model: str
    known: bool = True
    context: int
    max_output: int
    min_cacheable: int
    system_in_messages: bool
    thinking: Thinking
    forced_tool_choice: bool
    dear_above: int | None = None
    structured: bool = False
    tool_search: bool = False

    @property
    def thinking_off(self) -> Mapping[str, str] | None:
        """The `thinking` parameter that turns it off, or None where none must be sent."""
        return {"type": "disabled"} if self.thinking == "disable" else None


def profile(model: str) -> Profile:
    """The profile of a model id; dated, routed and cloud forms of an id (`x-20260501`, `anthropic/x`, `us.anthropic.x-v1:0`) are known."""
    found = _ID.search(model.casefold())
    facts = _TABLE.get(found[1]) if found else None
    if facts is not None:
        return replace(facts, model=model)
    return replace(_UNKNOWN_CLAUDE if found else _UNKNOWN, model=model)


def known_models() -> tuple[str, ...]:
    """The ids that have a profile of their own."""
    return tuple(_TABLE)


# An id ends, or goes on with a date, a version of the cloud that offers it, or "latest". A further digit ("-7") is another model.
_ID = re.compile(r"(?:^|[./])(claude-[a-z]+-\d(?:-\d)?)(?:$|-\d{8}|-latest|-v\d|[@:])")


def _newest(
    *, thinking: Thinking, forced: bool, min_cacheable: int = 512, system_in_messages: bool = True, dear: int | None = None,
) -> Profile:  # fmt: skip
    return Profile(
        model="", context=1_000_000, max_output=128_000, min_cacheable=min_cacheable, system_in_messages=system_in_messages,
        thinking=thinking, forced_tool_choice=forced, dear_above=dear, structured=True, tool_search=True,
    )  # fmt: skip


# As documented in October 2026.
_TABLE: Mapping[str, Profile] = {
    "claude-fable-5-2": _newest(thinking="always", forced=False),
    "claude-fable-5-1": _newest(thinking="always", forced=False),
    "claude-fable-5": _newest(thinking="always", forced=True),
    "claude-opus-5-5": _newest(thinking="always", forced=False),
    "claude-opus-5": _newest(thinking="disable", forced=True),
    "claude-opus-4-8": _newest(min_cacheable=1024, thinking="omit", forced=True),
    "claude-opus-4-7": _newest(min_cacheable=2048, system_in_messages=False, thinking="omit", forced=True),
    "claude-opus-4-6": _newest(min_cacheable=4096, system_in_messages=False, thinking="omit", forced=True),
    "claude-sonnet-5-5": _newest(thinking="always", forced=False),
    "claude-sonnet-5": _newest(min_cacheable=1024, system_in_messages=False, thinking="disable", forced=True),
    "claude-sonnet-4-6": _newest(min_cacheable=1024, system_in_messages=False, thinking="omit", forced=True),
    "claude-haiku-5-5": _newest(thinking="disable", forced=True, dear=100_000),
    "claude-haiku-4-5": Profile(
        model="", context=200_000, max_output=64_000, min_cacheable=4096, system_in_messages=False, thinking="omit",
        forced_tool_choice=True, structured=True, tool_search=True,
    ),
}  # fmt: skip

# The smallest figures that any current Claude has.
_UNKNOWN_CLAUDE = Profile(
    model="", known=False, context=200_000, max_output=32_000, min_cacheable=4096, system_in_messages=False, thinking="omit",
    forced_tool_choice=False,
)  # fmt: skip

# What a model on a desk under someone's table can be trusted with; its true window is the operator's setting.
_UNKNOWN = Profile(
    model="", known=False, context=8192, max_output=2048, min_cacheable=4096, system_in_messages=False, thinking="omit",
    forced_tool_choice=False,
)  # fmt: skip
