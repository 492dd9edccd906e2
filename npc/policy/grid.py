"""The grid: what becomes of an act by what it can do. Reversible and contained: automatic. Wide: told. Irreversible: a person, or escrow.

Invariant: pure and total; a write that cannot be undone is never simply allowed. What the operator's file says of an action stands in the
place of what the world declares; where neither says anything, the file's default for undeclared writes decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from npc.policy.rules import Defaults, Tool
from world_adapter.frames import ActionSpec


class Say(StrEnum):
    """What may become of an act."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"
    ESCROW = "escrow"  # allowed, by way of an escrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one act. `why` is one sentence without a full stop, "" for a plain yes; `wide`: it is to be told to the operator."""

    say: Say
    why: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What holds for one action: the world's declaration with the operator's file over it.

    Attributes:
        action: its name.
        effect: `read` or `write`.
        reversible: None where neither the world nor the file says.
        reach: `contained` or `wide`.
        tool: the file's table of it.
        speech: whether it says something aloud or to somebody. Words can be followed by other words, so a world that declares them
            irreversible does not silence an NPC; the file can.
    """

    action: str
    effect: Literal["read", "write"]
    reversible: bool | None
    reach: Literal["contained", "wide"]
    tool: Tool
    speech: bool = False


def standing(spec: ActionSpec, tool: Tool | None, *, speech: bool = False) -> Standing:
    """What holds for a declared action."""
    rules = tool or Tool()
    declared = True if speech and spec.effect != "read" else spec.reversible
    # The careful reading of whatever a careless caller put there.
    effect = rules.effect or ("read" if spec.effect == "read" else "write")
    reach = rules.reach or ("contained" if spec.reach == "contained" else "wide")
    reversible = declared if rules.reversible is None else rules.reversible
    return Standing(
        action=spec.name, effect=effect, reach=reach, tool=rules, speech=speech,
        reversible=None if reversible is None else reversible is True,
    )  # fmt: skip


def decide(s: Standing, defaults: Defaults) -> Verdict:
    """What the grid says."""
    tool, wide = s.tool, s.reach != "contained"
    if not tool.allow:
        return Verdict(say=Say.DENY, why=f"the operator's rules do not allow {s.action}")
    undeclared = s.effect != "read" and s.reversible is None
    if undeclared and defaults.undeclared == "never":
        return Verdict(say=Say.DENY, why=f"nobody says whether {s.action} can be undone, and then it is not done here")
    final = s.effect != "read" and (s.reversible is False or (undeclared and defaults.undeclared == "approval"))
    if tool.approval == "always":
        return Verdict(say=Say.ASK, why=f"the operator wants to be asked before every {s.action}", wide=wide)
    if final and tool.escrow:
        return Verdict(say=Say.ESCROW, why=f"{s.action} cannot be undone and goes through {tool.escrow.hold}", wide=wide)
    if final and tool.approval == "never":
        return Verdict(say=Say.DENY, why=f"{s.action} cannot be undone, and nobody is asked about it")
    if final:
        what = "cannot be undone" if s.reversible is False else "may not be undone, for all that is known"
        return Verdict(say=Say.ASK, why=f"{s.action} {what}, so a person decides", wide=wide)
    if wide:
        return Verdict(say=Say.ALLOW, why=f"{s.action} touches more than you and whom you deal with", wide=True)
    return Verdict(say=Say.ALLOW)
