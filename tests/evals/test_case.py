"""Case files as operators write them: whole, or refused with a sentence; and what a stand-in mind can know (C21, C22)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npc.errors import Misconfigured
from sim.evals.case import Mind, Rule, case_of, load, load_all
from sim.evals.mind import Sight, brain, fits
from sim.evals.script import found

WHOLE = """
constitution = "1. Be kind."
[persona.character]
name = "Oda"
description = "You keep the mill."
[[person]]
name = "Bob"
[[event]]
at = 1
from = "Bob"
text = "Good day."
[[mind]]
[[mind.rule]]
news = "good day"
say = "Good day, Bob."
[expect]
said = ["good day"]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('said = ["good day"]', "", "a case without an expectation cannot fail"),
        ('from = "Bob"', 'from = "Bop"', "nobody is called 'Bop'"),
        ("at = 1", "", "must say either at (seconds) or after"),
        ("at = 1", 'after = { event = "dawn" }', "no event is called 'dawn'"),
        ('news = "good day"', 'news = "good (day"', "is no regular expression"),
        ('news = "good day"', 'gnus = "good day"', "mind.0.rule.0.gnus"),
        ("at = 1", 'at = "soon"', "event.0.at"),
        ('name = "Oda"', "", "persona.character.name"),
        ("[expect]", "[expect", "this is not TOML"),
        ("at = 1", 'at = 1\noperator = { approve = "A1", deny = "A1" }', "must not both approve and deny"),
        ("at = 1", 'at = 1\noperator = { because = "no" }', "not what is decided"),
        ("constitution", 'policy = "[tools.say]\\nallow = 1"\nconstitution', "line 2"),
        ("constitution", 'policy = "[defaults]\\nhooks = [\'os:abort\']"\nconstitution', "os:abort is no [[check]] of this case"),
        ("constitution", 'policy = "[tools.say]\\ninject = {text = \'env:HOME\'}"\nconstitution', "a case reads no secrets"),
        ('constitution = "1. Be kind."', "", "constitution"),
        ("[[mind]]\n", "[[mind]]\n[[mind]]\n", "two minds have one name"),
        ('constitution = "1. Be kind."', 'name = "../away"\nconstitution = "1. Be kind."', "a case is named by small letters"),
    ],
)
def test_a_broken_case_is_one_sentence_with_its_file(old: str, new: str, said: str, tmp_path: Path) -> None:
    """C21: what is wrong, where, and in which file."""
    path = tmp_path / "mine.toml"
    path.write_text(WHOLE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(Misconfigured) as caught:
        load(path)
    assert said in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    """C21: not UTF-8, too large, not there, two of one name, a pattern that never ends: a sentence each, and no hang."""
    for name, data, said in (("latin.toml", b"name = '\xff'", "UTF-8"), ("large.toml", b"#" * 4_000_001, "larger than")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Misconfigured, match=said):
            load(tmp_path / name)
        (tmp_path / name).unlink()
    with pytest.raises(Misconfigured, match="cannot be read"):
        load(tmp_path / "none.toml")
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text('name = "same"\n' + WHOLE, encoding="utf-8")
    with pytest.raises(Misconfigured, match=r"two files of .* hold a case named same"):
        load_all(tmp_path)
    with pytest.raises(Misconfigured, match="takes more than"):
        found(r"(a|aa)+$", "a" * 60 + "b")


def _request(text: str, *, system: str = "", results: list[Any] | None = None) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    if results is not None:
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": str(r)} for r in results]},
        ]
    return {"system": [{"type": "text", "text": system}], "messages": messages, "tools": [{"name": "say", "input_schema": {}}]}


def test_a_mind_knows_only_what_stands_in_the_request() -> None:
    """C22: rules are read in the system part, memories and notes in their fences; news are none of these; groups fill its words."""
    kept = '<notebook>\n- promised Ilse\n</notebook>\n<recalled event="3">\nBob: called Nettle\n</recalled>'
    text = f"{kept}\n<observation>\nHello.\n</observation>"
    sight = Sight(_request(text, system="1. Shut the gate."))
    assert fits(Rule(news="hello", rules="shut the gate", notebook="promised ilse", say="x"), sight) == {}
    assert fits(Rule(recalled=r"called (?P<name>\w+)", say="{name}"), sight) == {"name": "Nettle"}
    for rule in (Rule(news="nettle"), Rule(news="promised"), Rule(rules="hello"), Rule(news="hello", no_rules="gate"), Rule(results=".")):
        assert fits(rule, sight) is None
    later = Sight(_request("Hello.", results=["a red door"]))
    assert fits(Rule(news="hello"), later) is None, "without results or round a rule is for the first answer of a turn"
    assert fits(Rule(results="red door", called=("look",)), later) == {}
    assert fits(Rule(results="red door", not_called=("look",)), later) is None


def test_a_mind_without_a_rule_that_fits_ends_its_turn() -> None:
    """C22: it says so in a thought, and an aside (a request without tools) gets its page."""
    mind = brain(Mind(page="A quiet day."), say="say")
    assert mind.reply(_request("Hello.")).content == [{"type": "text", "text": "(nothing more to do)"}]
    assert mind.reply({**_request("Write."), "tools": []}).content == [{"type": "text", "text": "A quiet day."}]


def test_a_case_of_ones_own_is_quiet_by_itself() -> None:
    """C21: nothing wakes the NPC that the case does not say, unless its persona says so; the window is small."""
    case = case_of(WHOLE, where="here", name="mine")
    assert (case.persona.wake.idle_s, case.persona.model.window) == (86_400.0, 12_000)
    own = case_of(f"{WHOLE}\n[persona.wake]\nidle_s = 60.0\n[persona.model]\nwindow = 9000\n", where="here", name="mine")
    assert (own.persona.wake.idle_s, own.persona.model.window) == (60.0, 9_000)
