"""What the policy makes of the world's actions, and what is wrong with the operator's file of rules.

Invariant: what is said here of an action is what a life would do: the same file, the same grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from npc.doctor.finding import Finding, fine, told, warn, wrong
from npc.errors import Misconfigured
from npc.hands import SAYING
from npc.home import Home
from npc.persona import Persona
from npc.policy.file import InForce, PolicyFile
from npc.policy.grid import Say, decide, standing
from npc.secrets import Redactor
from world_adapter.frames import ActionSpec

#: How many names are listed.
LISTED = 12


def read(home: Home) -> tuple[InForce | None, list[Finding]]:
    """The rules in force, None where a life could not begin with them. Blocks on the disk."""
    try:
        return PolicyFile(home.policy_path, redactor=Redactor()).current, []
    except Misconfigured as error:
        return None, [told("policy", str(error), code=3)]


def check(actions: Sequence[ActionSpec], who: Persona, force: InForce) -> list[Finding]:
    """What becomes of each action that the world has."""
    rules, names = force.rules, [action.name for action in actions]
    kinds: dict[str, list[str]] = {}
    unsaid = []
    for action in actions:
        s = standing(action, rules.tools.get(action.name), speech=action.name == who.speech.say_action or action.name in SAYING)
        verdict = decide(s, rules.defaults)
        hidden = action.name in rules.releases or (rules.defaults.unlisted == "deny" and action.name not in rules.tools)
        kind = {
            Say.DENY: "never done", Say.ASK: "done when you approve it", Say.ESCROW: "done by way of an escrow",
            Say.ALLOW: "done and told to you" if verdict.wide else "done by itself",
        }[verdict.say]  # fmt: skip
        kinds.setdefault("never done" if hidden else kind, []).append(action.name)
        if s.effect != "read" and s.reversible is None and verdict.say is Say.ALLOW:
            unsaid.append(action.name)
    out = [fine("policy", "; ".join(f"{kind}: {_list(found)}" for kind, found in sorted(kinds.items())) or "the world offers no actions")]
    if unsaid:
        out.append(fine("policy", f"nobody says whether these can be undone, so they are taken for ordinary: {_list(unsaid)}"))
    for name, tool in rules.tools.items():
        if name not in names:
            near = get_close_matches(name, names[:500], n=1, cutoff=0.6)
            fix = f"did you mean {near[0]}?" if near else f"the world has: {_list(names)}"
            out.append(warn("policy", f"[tools.{name}] is about an action that this world does not have", fix))
        steps = (tool.escrow.hold, tool.escrow.release, tool.escrow.revert) if tool.escrow else ()
        if name in names and (lacking := [step for step in steps if step not in names]):
            what = f"{name} goes through an escrow, and this world has no {_list(lacking)}"
            out.append(wrong("policy", what, "name actions that it has"))
    return out


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(name[:80] for name in names[:LISTED])
    return shown + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
