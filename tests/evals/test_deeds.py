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
