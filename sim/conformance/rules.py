"""The rules of npc-world v1 that can be seen from outside, and what was found out about each. Pure.

Invariant: a rule is broken once something broke it, whatever else held; it holds only if something showed that it does; otherwise it was
not seen, and the reason says what would have shown it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What is known of a rule."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `section` is its place in SPEC.md, `says` one sentence."""

    id: str
    section: int
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's verdict; `why` says what was seen, or what was missing."""

    rule: Rule
    verdict: Verdict
    why: str


RULES: tuple[Rule, ...] = tuple(
    Rule(id=name, section=section, says=says)
    for name, section, says in (
        ("subprotocol", 1, "picks one of the subprotocols that are offered"),
        ("encoding", 1, "every frame is one map with a text under op, in the frame type of its subprotocol"),
        ("token", 1, "a wrong token is refused with 4001"),
        ("ping", 7, "a ping is answered by a pong of the same n"),
        ("unknown-op", 1, "an op that it does not know is ignored"),
        ("unknown-keys", 1, "keys that it does not know are ignored"),
        ("malformed-dropped", 1, "a malformed frame is dropped and the next one read"),
        ("malformed-closed", 1, "ten malformed frames within a minute close with 4002, nine do not"),
        ("hello", 2, "hello is the first frame, whole, and the same world every time"),
        ("welcome", 2, "welcome answers the attach"),
        ("unknown-npc", 8, "an NPC that it does not know is refused with 4004"),
        ("frames", 3, "every frame has its fields in their types"),
        ("max-frame", 6, "no frame is larger than max_frame"),
        ("observations", 4, "observations have their fields in their types"),
        ("numbering", 6, "seq begins with next_seq and rises by one; a number never means two things"),
        ("kept", 6, "what was not acknowledged is kept over a broken connection"),
        ("resume", 6, "after a resume it goes on at seq + 1"),
        ("resend", 6, "after a resume it sends again what was not acknowledged"),
        ("lost", 6, "what it no longer has is counted in lost"),
        ("other-epoch", 6, "a resume of another epoch is not resumed"),
        ("actions", 5, "the list of actions is well-formed, each schema a JSON Schema of type object"),
        ("act-answered", 5, "every act gets a state, at last a final one, and nothing is done that is not on the list"),
        ("accepted", 5, "accepted is said of ongoing actions only, and a final state follows"),
        ("cancel", 5, "cancel ends an ongoing action"),
        ("final-once", 5, "a final state comes once, and again only when asked for"),
        ("act-once", 5, "an id that was used is not executed again: sending it again answers what is known"),
        ("act-remembered", 5, "an id is known over all connections"),
        ("query-known", 5, "query tells what became of an action"),
        ("query-unknown", 5, "query of an id that was never used answers unknown"),
        ("replaced", 6, "a newer attach of the same NPC closes the older with 4003"),
        ("bye", 3, "bye comes before an orderly close"),
        ("silence-asks", 7, "who hears nothing for a heartbeat asks with a ping"),
        ("silence-ends", 7, "after two heartbeats of silence the connection is torn down, not before"),
    )
)
_BY_ID: Mapping[str, Rule] = {rule.id: rule for rule in RULES}
MAX_REASONS = 3


class Ledger:
    """What was seen of each rule so far. All methods take a rule's id."""

    def __init__(self) -> None:
        self._broken: dict[str, list[str]] = {}
        self._held: dict[str, str] = {}
        self._unseen: dict[str, str] = {}

    def holds(self, rule: str, why: str = "") -> None:
        """Something showed that the rule holds."""
        self._held[_BY_ID[rule].id] = why or self._held.get(rule, "")

    def broken(self, rule: str, why: str) -> None:
        """Something broke it; the first few different reasons are kept."""
        reasons = self._broken.setdefault(_BY_ID[rule].id, [])
        if why not in reasons and len(reasons) < MAX_REASONS:
            reasons.append(why)

    def unseen(self, rule: str, why: str) -> None:
        """It could not be checked, for this reason; what was seen elsewhere still counts."""
        self._unseen[_BY_ID[rule].id] = why

    def check(self, rule: str, ok: bool, why: str, *, held: str = "") -> bool:
        """Holds or broken; answers which."""
        if ok:
            self.holds(rule, held)
        else:
            self.broken(rule, why)
        return ok

    def findings(self) -> Sequence[Finding]:
        """One finding per rule, in the order of RULES."""
        return [self._finding(rule) for rule in RULES]

    def _finding(self, rule: Rule) -> Finding:
        if reasons := self._broken.get(rule.id):
            return Finding(rule=rule, verdict=Verdict.BROKEN, why="; ".join(reasons))
        if rule.id in self._held:
            return Finding(rule=rule, verdict=Verdict.HOLDS, why=self._held[rule.id])
        return Finding(rule=rule, verdict=Verdict.UNSEEN, why=self._unseen.get(rule.id, "it did not come to that"))
