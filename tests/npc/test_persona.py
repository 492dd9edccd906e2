"""The persona file: what it holds, and what a person is told when it holds something else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.errors import Misconfigured
from npc.persona import DEFAULT_MODEL, Persona, example_path, example_persona, load_persona, parse_persona

# Seven lines; what follows stands on line 8 or later. The description holds what looks like keys and sections.
BASE = '[character]\nname = "Oda"\ndescription = """\nidle_s = 1\n[wake]\nYou bake."""\n\n'


def refused(text: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        parse_persona(text, where="oda.toml")
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_example_ships_and_says_what_holds_by_default() -> None:
    """The commented example parses as it is, and its values are the defaults that it claims to show."""
    persona = parse_persona(example_persona())
    assert persona.warnings == ()
    assert persona.names == ("Maren", "warden", "gatekeeper")
    bare = parse_persona(BASE)
    for section in ("speech", "wake", "acting", "model", "budget", "memory", "compaction"):
        assert getattr(persona, section) == getattr(bare, section), section
    # The lines behind a # are right too.
    opened = "\n".join(line.removeprefix("# ") if " = " in line else line for line in example_persona().splitlines())
    assert parse_persona(opened).compaction.high == 0.7
    assert load_persona(example_path()).path == example_path()


def test_defaults() -> None:
    """C9, C33, P12: what holds when only a character is given."""
    persona = parse_persona(BASE)
    assert persona.character.description == "idle_s = 1\n[wake]\nYou bake."
    assert (persona.wake.idle_s, persona.wake.idle_max_s, persona.wake.gather_s) == (45, 900, 0.5)
    assert persona.model.model_dump() == {"id": DEFAULT_MODEL, "window": 32_000, "output_tokens": None, "base_url": None}
    assert (persona.budget.dollars_per_day, persona.budget.steps_per_turn, persona.budget.seconds_per_turn) == (1, 8, 120)
    assert (persona.speech.plain_text_is_speech, persona.speech.say_action) == (True, "say")
    assert (persona.memory.recall, persona.compaction.high, persona.compaction.summaries) == (True, None, "local")
    assert persona.names == ("Oda",)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("[wake]\nidle = 3", 'oda.toml, line 9: [wake] has no key "idle"; did you mean idle_s?'),
        ("[wake]\nIdle_S = 3", 'oda.toml, line 9: [wake] has no key "Idle_S"; did you mean idle_s?'),
        ("[wake]\nzzz = 3", 'oda.toml, line 9: [wake] has no key "zzz"; known here: deadline_s, digest_above, gather_s, idle_max_s,'),
        ("[modle]\nid = 'x'", 'oda.toml, line 8: there is no section or key "modle"; did you mean [model]?'),
        ("gather_s = 1", 'oda.toml, line 8: [character] has no key "gather_s"; gather_s belongs under [wake]'),
        ("window_ = 1", 'oda.toml, line 8: [character] has no key "window_"; did you mean window under [model]?'),
        ("wake = 3", 'oda.toml, line 8: [character] has no key "wake"; wake is a section of its own'),
        ("[model]\napi_key = 'sk-1'", 'oda.toml, line 9: [model] has no key "api_key", and secrets never stand in this file'),
        ("[wake]\nidle_s = 'soon'", 'oda.toml, line 9: [wake] idle_s must be a number, not "soon": for example idle_s = 45.0'),
        ("[wake]\nidle_s = nan", "oda.toml, line 9: [wake] idle_s must be a finite number, not nan"),
        ("[wake]\nidle_s = 0", "oda.toml, line 9: [wake] idle_s must be greater than or equal to 0.05, not 0"),
        ("[wake]\nidle_s = 50\nidle_max_s = 3", "oda.toml, line 8: [wake] idle_max_s (3) must not be less than idle_s (50)"),
        ("[model]\nwindow = 3.5", "oda.toml, line 9: [model] window must be a whole number, not 3.5: for example window = 32000"),
        ("[model]\nwindow = 999", "oda.toml, line 9: [model] window must be greater than or equal to 1000, not 999"),
        ("[model]\nid = 'two words'", "oda.toml, line 9: [model] id must be one plain word of letters"),
        ("[model]\nwindow = 1000\noutput_tokens = 600", "oda.toml, line 8: [model] output_tokens (600) must not be more than half"),
        ("[model]\nbase_url = 'ftp://x'", "oda.toml, line 9: [model] base_url must be an address such as https://api.anthropic.com"),
        ("[model]\nbase_url = 'https://u:p@x'", "oda.toml, line 9: [model] base_url must hold no user, password or query"),
        ("[memory]\nrecall = 1", "oda.toml, line 9: [memory] recall must be true or false, not 1: for example recall = true"),
        ("[budget]\nsteps_per_turn = true", "oda.toml, line 9: [budget] steps_per_turn must be a whole number, not true"),
        ("[budget]\ndollars_per_day = 1979-05-27", "oda.toml, line 9: [budget] dollars_per_day must be a number, not a date or time"),
        ("[compaction]\nhigh = 0.5", "oda.toml, line 8: [compaction] high and low go together"),
        ("[compaction]\nhigh = 0.5\nlow = 0.6", "oda.toml, line 8: [compaction] low (0.6) must be less than high (0.5)"),
        ("[compaction]\nhigh = 1\nlow = 0.6", "oda.toml, line 9: [compaction] high must be less than 1, not 1"),
        ("[compaction]\nsummaries = 'both'", "oda.toml, line 9: [compaction] summaries must be 'local' or 'model', not \"both\""),
        ("[speech]\nsay_action = ''", "oda.toml, line 9: [speech] say_action must be one plain word of letters"),
        ("[world]\naliases = 'x'", 'oda.toml, line 9: [world] aliases must be a list of texts such as ["one", "two"], not "x"'),
        ("[world]\naliases = ['x', 3]", 'oda.toml, line 9: [world] aliases must be a text in "quotes", not 3'),
        ("[wake]\nidle = 1\n[model]\nidd = 2", 'oda.toml, line 9: [wake] has no key "idle"; did you mean idle_s? (and 1 more)'),
        ("[wake]\non = ['blokced']", "oda.toml, line 9: [wake] on must be 'arrived', 'addressed', 'operator', 'blocked',"),
        ("[[wake.when]]\nkond = 'x'", 'oda.toml, line 9: [[wake.when]] has no key "kond"; did you mean kind?'),
        ("[[wake.when]]\nkind = 'x'\n[[wake.when]]\nequals = 1", "oda.toml, line 10: [[wake.when]] must say kind, field or prio_at_least:"),
        ("[[wake.when]]\nkind = 'x'\nat_least = 1", "oda.toml, line 8: [[wake.when]] says at_least and not what is compared: add"),
        ("[[wake.when]]\nprio_at_least = 11", "oda.toml, line 9: [[wake.when]] prio_at_least must be less than or equal to 9, not 11"),
        ("[acting]\nsame_goal_tries = 0", "oda.toml, line 9: [acting] same_goal_tries must be greater than or equal to 1, not 0"),
        ("[wake", "oda.toml, line 8: this is not TOML ("),
        ("x = 'open", "oda.toml, line 8: this is not TOML ("),
        ("x = " + "[" * 50_000, "oda.toml: this is nested too deep"),
        ("x = " + '"""', "oda.toml, line 8: this is not TOML ("),
    ],
)
def test_every_mistake_is_named_with_what_to_write_instead(lines: str, says: str) -> None:
    """One clear sentence with file and line, no traceback; a secret is never echoed."""
    said = refused(BASE + lines)
    assert said.startswith(says)
    assert "sk-1" not in said
    assert "u:p" not in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "oda.toml: the section [character] is missing: write [character] and under it its keys"),
        ('[character]\nname = "Oda"', 'oda.toml, line 1: [character] description is missing: for example description = "…"'),
        ('[character]\ndescription = "x"\nname = "a\\nb"', "oda.toml, line 3: [character] name must be one line"),
        ('[character]\ndescription = " "\nname = "a"', "oda.toml, line 2: [character] description must not be blank"),
        ('[character]\ndescription = "\\u0000"\nname = "a"', "oda.toml, line 2: [character] description must not hold control characters"),
        (f'[character]\ndescription = "x"\nname = "{"a" * 81}"', "oda.toml, line 3: [character] name must have at most 80 characters"),
        ('character = "Oda"', "oda.toml, line 1: [character] must be a section of its own, with its keys under it"),
        ('[[character]]\nname = "Oda"', "oda.toml, line 1: [character] must be a section of its own, with its keys under it"),
    ],
)
def test_a_character_is_needed_whole(text: str, says: str) -> None:
    assert refused(text).startswith(says)


def test_a_long_description_is_taken() -> None:
    """A character may be described at length; what does not fit the window is found at start-up, not here."""
    words = "You remember the war. " * 2_000
    assert parse_persona(f'[character]\nname = "Oda"\ndescription = "{words}"').character.description == words.strip()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("[model]\nwindow = 120_000", "lets the input grow beyond 100,000 tokens, where claude-haiku-5-5 costs five times as much"),
        ("[model]\nbase_url = 'http://llm.lan:8080/'", "base_url = http://llm.lan:8080 sends the key and all that is said unencrypted"),
    ],
)
def test_what_works_but_was_perhaps_not_meant_is_a_warning(lines: str, says: str) -> None:
    (warning,) = parse_persona(BASE + lines).warnings
    assert says in warning
    assert parse_persona(BASE + "[model]\nid = 'x-large'\nwindow = 120_000\nbase_url = 'http://127.0.0.1:1'").warnings == ()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (None, "there is no persona file "),
        (b'[character]\nname = "Oda"\n# \xff\n', ", line 3: this is not UTF-8 text; save the file as UTF-8"),
        (b"# " + b"x" * 1_000_001, "is larger than 1,000,000 bytes"),
        (b"\x00", ", line 1: this is not TOML ("),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, data: bytes | None, says: str) -> None:
    path = tmp_path / "oda.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(Misconfigured) as caught:
        load_persona(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_is_no_persona(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"cannot be read \(is a directory\)"):
        load_persona(tmp_path)


def test_files_from_other_systems_are_taken(tmp_path: Path) -> None:
    """A byte order mark and Windows line ends are no mistakes, and lines are still counted right."""
    path = tmp_path / "oda.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_persona(path).character.name == "Oda"
    path.write_bytes(BASE.replace("\n", "\r\n").encode() + b"[wake]\r\nidle = 3\r\n")
    with pytest.raises(Misconfigured, match="line 9"):
        load_persona(path)


def test_the_command_line_has_the_last_word() -> None:
    """What `--model`, `--window` and `--base-url` say is checked like the file, and the copy in the home says what was used."""
    persona = parse_persona(BASE + "[compaction]\nhigh = 0.7\nlow = 0.2")
    assert persona.adjusted() is persona
    assert persona.to_toml() == BASE + "[compaction]\nhigh = 0.7\nlow = 0.2"
    used = persona.adjusted(model="some/other:1", window=10_000, base_url="http://127.0.0.1:8080/")
    assert (used.model.id, used.model.window, used.model.base_url) == ("some/other:1", 10_000, "http://127.0.0.1:8080")
    assert parse_persona(used.to_toml()).model_dump() == used.model_dump()
    with pytest.raises(Misconfigured, match=r"^the command line: \[model\] window must be greater than or equal to 1000, not 10"):
        persona.adjusted(window=10)


letters = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=8)
lines = st.lists(letters | st.sampled_from(['"', '"""', "\\", "é", "🙂", "#", "'''", "[x]", "a = 1"]), max_size=12).map("".join)
names = lines.map(lambda line: f"x{line[:60]}")
texts = st.lists(lines | st.sampled_from(["\n", "\t", "\n[wake]\n"]), max_size=8).map("".join)


@settings(max_examples=60)
@given(names, texts, st.floats(0.05, 900), st.integers(1_000, 2_000_000), st.lists(names, max_size=3))
def test_what_was_used_can_be_used_again(name: str, description: str, idle: float, window: int, aliases: list[str]) -> None:
    """`to_toml` of any persona is a file that makes the same persona."""
    sections = {"character": {"name": name, "description": f"x{description}"}, "wake": {"idle_s": idle}, "world": {"aliases": aliases}}
    persona = Persona.model_validate(sections | {"model": {"window": window}})
    assert parse_persona(persona.to_toml()).model_dump() == persona.model_dump()
    assert tomllib.loads(persona.to_toml())["model"]["window"] == window
