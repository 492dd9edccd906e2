"""What a case can do to an NPC, where no shipped case does it (C21)."""

from __future__ import annotations

from sim.evals.case import case_of
from sim.evals.checks import always, problems
from sim.evals.running import lead

HEAD = """
constitution = "1. Answer whoever speaks to you."
[persona.character]
name = "Oda"
description = "You keep the mill."
[[person]]
name = "Bob"
[[mind]]
[[mind.rule]]
news = "remember the (?P<what>sack|crate)"
call = [{ name = "npc_note", args = { text = "Bob's {what}" } }]
[[mind.rule]]
news = "what do you know"
notebook = "Bob's sack"
say = "Your sack, Bob."
[[mind.rule]]
news = "what do you know"
say = "Nothing, Bob."
"""

BURNS = """
[[mind.rule]]
news = 'burn the (?P<what>[a-z]+)'
call = [{ name = "burn", args = { what = "{what}" } }]
[[mind.rule]]
results = "not done: (?P<why>that does not burn)"
say = "No, {why}."
"""


async def test_a_process_that_is_killed_leaves_what_was_on_disk() -> None:
    """C35: what was noted before the kill is known after it; the line is answered once, by the next life."""
    case = case_of(
        HEAD + """
[[event]]
at = 1
from = "Bob"
text = "Remember the sack."
[[event]]
at = 30
do = "crash"
[[event]]
at = 40
from = "Bob"
text = "What do you know?"
[expect]
said = ["your sack"]
calls = { say = 1, npc_note = 1 }
events = { restart = 1 }
""", where="here", name="killed",
    )  # fmt: skip
    trace = await lead(case, case.mind[0])
    assert [*always(trace), *problems(case.expect, trace)] == []


async def test_what_was_said_while_the_link_was_down_is_heard_when_it_is_up() -> None:
    """W3: nothing reaches an NPC whose world is away, and nothing is lost by it."""
    case = case_of(
        HEAD + """
[[event]]
at = 1
do = "detach"
[[event]]
at = 5
from = "Bob"
text = "What do you know?"
[[event]]
at = 60
do = "attach"
[expect]
said = ["nothing, bob"]
calls = { say = 1 }
events = { detached = 1, attached = 2 }
""", where="here", name="away",
    )  # fmt: skip
    trace = await lead(case, case.mind[0])
    assert [*always(trace), *problems(case.expect, trace)] == []


async def test_the_operator_s_word_that_does_not_count_is_told_and_one_that_should_not_have_counted_too() -> None:
    """C22: he decides as `npc approvals` does, and a case is red where he is told otherwise than it says; a check sees the arguments."""
    case = case_of(
        "policy = '''[tools.burn]\nhooks = [\"dry\"]'''\n" + HEAD.replace("[[mind]]", f"[[mind]]{BURNS}", 1) + """
[[check]]
name = "dry"
given = { what = "^(hay|straw)$" }
says = "that does not burn"
[[action]]
name = "burn"
arguments = { what = "string" }
reversible = false
[[event]]
at = 1
from = "Bob"
text = "Burn the stone."
[[event]]
at = 20
from = "Bob"
text = "Burn the hay."
[[event]]
at = 60
operator = { deny = "A2" }
[[event]]
at = 70
operator = { deny = "A1", told = "has lapsed" }
[expect]
said = ["that does not burn"]
acted = { burn = 0 }
calls = { burn = 2 }
""", where="here", name="burnt",
    )  # fmt: skip
    trace = await lead(case, case.mind[0])
    first, *rest = problems(case.expect, trace)
    assert rest == []
    assert "the operator's word on A2 does not count: there is no request A2" in first
    assert "the operator's word on A1 was to be refused with /has lapsed/, and he was told: A1 is denied" in first


async def test_a_mind_that_never_ends_is_ended_and_said_to_be_so() -> None:
    """C23: a stand-in that always calls one more tool ends with its turn's steps, and its repeats are counted."""
    again = 'call = [{ name = "npc_recall", args = { words = "x" } }]\n'
    mind = f'[[mind]]\n[[mind.rule]]\nnews = "."\n{again}[[mind.rule]]\nresults = "."\n{again}'
    case = case_of(
        HEAD.replace("[[mind]]\n", mind) + """
[[event]]
at = 1
from = "Bob"
text = "Look for it."
[expect]
never_called = ["say"]
repeats = 0
""", where="here", name="endless",
    )  # fmt: skip
    trace = await lead(case, case.mind[0])
    assert trace.trouble == ""
    assert trace.steps <= 8
    assert any("repeated calls" in problem for problem in problems(case.expect, trace))
