"""The operator of a case: what he writes into the home by hand, his word on what waits for him, and the checks that his policy names.

Invariants: he goes through the doors that an operator has, the files of the home and the records that `npc approvals` writes into; his
policy runs no code but the case's own checks, which are data, and reads no secret, so that anybody may run anybody's case.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence

from npc.approvals.records import Decision, Records
from npc.approvals.stored import number_of
from npc.errors import Misconfigured
from npc.home import Home
from npc.policy.hooks import HOOKS, Act, Hook
from npc.policy.rules import parse_rules
from sim.evals.script import Check, Operator, found


def policy_problem(text: str, checks: Sequence[Check]) -> str:
    """Why a case may not bring this policy file, one sentence, "" if it may."""
    try:
        rules = parse_rules(text)
    except Misconfigured as error:
        return str(error)
    known = {check.name for check in checks}
    if strange := sorted({*rules.functions} - known):
        return f"policy: {strange[0]} is no [[check]] of this case, and a case runs no other code"
    if rules.worlds or any(tool.inject for tool in rules.tools.values()):
        return "policy: a case reads no secrets, so leave out [worlds] and inject"
    return ""


@contextlib.contextmanager
def registered(checks: Sequence[Check]) -> Iterator[None]:
    """While a case runs, its policy finds its checks by their names."""
    before = dict(HOOKS.known)
    for check in checks:
        HOOKS.register(check.name, _hook(check))
    try:
        yield
    finally:
        HOOKS.known.clear()
        HOOKS.known.update(before)


def _hook(check: Check) -> Hook:
    def look(act: Act) -> str | None:
        asked = ((check.given, act.arguments), (check.held, act.held))
        fits = all(name in there and found(pattern, str(there[name])) for wanted, there in asked for name, pattern in wanted.items())
        return None if fits else check.says

    return look


def operate(home: Home, operator: Operator, *, now: float) -> str:
    """What the operator does; what he was told otherwise than the case says, "" where all went as it should."""
    if operator.constitution:
        home.constitution_path.write_text(operator.constitution, encoding="utf-8")
    state = json.loads(home.state_path.read_text(encoding="utf-8"))
    for name, value in operator.gates.items():
        state.setdefault("gates", {})[name] = value
    for asked in state.get("operator_questions", []):
        if operator.answer and not asked["answer"]:
            asked["answer"] = operator.answer
    home.state_path.write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    return _decides(home, operator, now=now)


def _decides(home: Home, operator: Operator, *, now: float) -> str:
    """His word on a request, as `npc approvals approve` and `deny` give it."""
    id_ = operator.approve or operator.deny
    if not id_:
        return ""
    decision = Decision(number=number_of(id_) or 0, approve=bool(operator.approve), by="cli", because=operator.because)
    answered = Records(home.path).decide(decision, now=now)
    if operator.told is None:
        return "" if answered.ok else f"the operator's word on {id_} does not count: {answered.said}"
    if answered.ok or not found(operator.told, answered.said):
        return f"the operator's word on {id_} was to be refused with /{operator.told}/, and he was told: {answered.said}"
    return ""
