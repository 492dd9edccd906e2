"""What the operator sees of a request, in a terminal and as JSON, and what the doctor and the status say. Rows: C30, C28, O2, O4."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from npc.approvals.card import card
from npc.approvals.records import Decision, Limits, Records
from npc.approvals.stored import MAX_FROZEN, Stored, digest_of, freeze, number_of
from npc.approvals.visible import WHOLE, arguments, folded, visible
from npc.cli import app
from npc.policy.asking import Request
from tests.npc.approving import ORACLE, cli, listed, request
from tests.npc.clinic import Clinic
from tests.npc.receiver import TEXT

HOSTILE = (
    "\x1b[2J\x1b]0;approved\x07\x1b[8m\r\n╰──╯ A1 approved"
    "\u202e\u2066\u200b\u200d\ufeff\u3164\u115f\u2800\U000e0041\x9b31m\u2028\ud800"
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def stored_of(request_: Request, *, now: float = 1_000.0) -> Stored:
    """A request as it would be kept."""
    frozen = freeze(request_, ORACLE, number=1, asked_at=now, lapses_at=now + 600)
    return Stored(number=1, frozen=frozen, digest=digest_of(frozen), asked_at=now, lapses_at=now + 600)


def printed(stored: Stored, *, width: int = 80, full: bool = False) -> str:
    """The card as a terminal of this width shows it."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(card(stored, now=1_060.0, full=full))
    return capture.get()


@given(st.text())
@settings(max_examples=100)
def test_nothing_that_is_not_seen_or_moves_the_line_is_left(text: str) -> None:
    """C30: for any text at all."""
    shown = visible(text)
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for c in shown)
    assert len(shown.splitlines()) <= 1


@given(st.text(), st.text())
def test_texts_that_differ_look_different(one: str, other: str) -> None:
    """C30: a character that hides is named, not left out."""
    if not {"‹", "⏎", "⇥", "␍"} & {*one, *other}:
        assert (visible(one) == visible(other)) == (one == other)


@given(st.dictionaries(st.text(max_size=20), json_values, max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_frozen_request_comes_back_as_it_was_and_its_card_stands_in_any_terminal(args: dict[str, Any]) -> None:
    """C30, C29: whatever the arguments are."""
    asked = request(arguments=args, why=HOSTILE, read=(HOSTILE, *args))
    one = stored_of(asked)
    assert one.sound
    assert json.dumps(one.request.to_json(), sort_keys=True) == json.dumps(asked.to_json(), sort_keys=True)
    text = printed(one)
    assert not any(unicodedata.category(c) in {"Cf", "Cs"} or (unicodedata.category(c) == "Cc" and c != "\n") for c in text)
    assert len(arguments(args, full=True)) == len(args)


@pytest.mark.parametrize("width", [80, 120])
def test_a_card_says_all_that_a_decision_takes(width: int) -> None:
    """C30: who, what, why, what it read, whether it can be undone, how far it reaches, which rule, until when, and the seal."""
    asked = request(
        arguments={"text": "la " * 500, "to": "Bob", "amount": "5", "times": 5}, why="He was kind.", reach="wide", reversible=False,
        read=("Bob (player): give me gold", "Ada (player): he lies"), rule="give_gold cannot be undone", turn=1_204,
    )  # fmt: skip
    one = stored_of(asked)
    text = printed(one, width=width)
    for part in ("A1 Oda asks", "lapses in 9 min, at 00:26 UTC", "give_gold", 'to = "Bob"', 'amount = "5"', "times = 5", "CANNOT be undone",
                 "WIDE", "give_gold cannot be undone", "He was kind.", "UNTRUSTED", "Bob (player): give me gold", "turn 1,204",
                 " ".join(one.digest[n : n + 4] for n in (0, 4, 8)), "npc approvals approve A1", "npc approvals deny A1"):  # fmt: skip
        assert part in text
    assert "of 1,500 characters are folded" in " ".join(text.replace("│", " ").split())
    assert len(text.splitlines()) < 35
    assert all(len(line) <= width for line in text.splitlines())
    assert "folded" not in printed(one, width=width, full=True)


def test_a_hostile_text_never_stands_where_our_own_words_stand() -> None:
    """C30: however it wraps, it is further in than any label, and cannot draw the end of the card."""
    text = "x" * 60 + " " + "A1 approved │ undo can be undone " * 10
    lines = printed(stored_of(request(arguments={"text": text}, why=text, read=(text,)))).splitlines()
    labels = [label for line in lines[1:-1] if (label := line[2:8].strip())]
    assert labels == ["does", "undo", "rule", "why", "read", "seal", "npc ap", "npc ap"]
    inner = [line for line in lines if "approved" in line and "npc approvals" not in line]
    assert inner
    assert all(line.startswith("│         ") for line in inner)


def test_what_nobody_can_read_or_hold_is_not_put_before_anybody(tmp_path: Path) -> None:
    """C28, C30: too long, or no JSON."""
    records = Records(tmp_path)
    tmp_path.chmod(0o700)
    records.begin()
    assert "too long" in records.ask(request(arguments={"text": "x" * MAX_FROZEN}), ORACLE, Limits(), now=1.0).why
    assert "no JSON" in records.ask(request(arguments={"n": float("nan")}), ORACLE, Limits(), now=1.0).why
    assert records.all() == []
    assert records.ask(request(arguments={"text": "\ud800\x00"}), ORACLE, Limits(), now=1.0).new
    assert records.all()[0].request.arguments == {"text": "\ud800\x00"}


def test_one_argument_never_looks_like_two() -> None:
    """C30: neither by its name nor by quotes in its text nor where it wraps."""
    args = {"amount = 5 to": 'Ada"  amount = 1', "to": 'Bob" ' + " " * 50 + 'amount = 1  to = "Ada'}
    lines = printed(stored_of(request(arguments=args))).splitlines()
    assert [line for line in lines if "•" in line and " = " in line] == [line for line in lines if " • " in line]
    assert len([line for line in lines if " • " in line]) == 2
    assert any('"amount = 5 to" = "Ada\\"  amount = 1"' in line for line in lines)


def test_folding_says_how_much_there_is() -> None:
    """C30."""
    assert folded("x" * WHOLE) == "x" * WHOLE
    assert "of 1,000,000 characters are folded" in folded("x" * 1_000_000)
    assert len(folded("\u202e" * 1_000_000)) < 4_000
    assert arguments({str(n): n for n in range(1_000)})[-1] == ("…", "960 of 1,000 arguments are folded")


@pytest.mark.parametrize(
    ("text", "number"),
    [("A7", 7), ("a7", 7), ("7", 7), (" A12 ", 12), ("A0", None), ("A", None), ("A7;", None), ("٧", None)],
)
def test_ids_as_people_type_them(text: str, number: int | None) -> None:
    """C30."""
    assert number_of(text) == number


def test_json_is_inert_in_a_terminal_and_bound_to_the_digest(tmp_path: Path) -> None:
    """O2: programs read the words as they are, a terminal shows ASCII; an answer may name the digest."""
    tmp_path.chmod(0o700)
    (tmp_path / "state.json").write_text("{}")
    records = Records(tmp_path)
    records.begin()
    assert records.ask(request(arguments={"text": HOSTILE}), ORACLE, Limits(), now=time.time()).new
    out = cli(tmp_path, "list", "--json").stdout
    assert out.isascii()
    assert "\x1b" not in out
    [one] = listed(tmp_path)["requests"]
    assert one["request"]["arguments"]["text"] == HOSTILE
    assert "‹U+202E›" in one["shown"]["text"]
    wrong = cli(tmp_path, "approve", "A1", "--digest", "00000000", "--json")
    assert (wrong.exit_code, json.loads(wrong.stdout)["ok"]) == (1, False)
    right = cli(tmp_path, "approve", "A1", "--digest", one["digest"][:8], "--json")
    assert (right.exit_code, json.loads(right.stdout)["request"]["standing"]) == (0, "approved")


async def test_the_doctor_and_the_status_say_what_waits_and_what_keeps_the_webhook_from_working(tmp_path: Path) -> None:
    """O4, O2."""
    clinic = Clinic(tmp_path)
    await clinic.live()
    records = Records(clinic.home)
    records.begin()
    assert records.ask(request(), ORACLE, Limits(), now=time.time()).new
    assert records.ask(request(action="other"), ORACLE, Limits(), now=time.time()).new
    records.decide(Decision(number=1, approve=False, by="cli"), now=time.time())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        clinic.write(clinic.persona.read_text() + f'[approvals]\nwebhook = "http://127.0.0.1:{port}/"\n')
        seen = await clinic.visit()
        assert "1 requests wait for you (A2)" in seen.of("approvals", "warn")
        assert "NPC_WEBHOOK_SECRET" in seen.of("approvals", "error")
        clinic.env["NPC_WEBHOOK_SECRET"] = TEXT
        clinic.write(clinic.persona.read_text() + f'[model]\nbase_url = "http://127.0.0.1:{port}"\n')
        clinic.options = []
        seen = await clinic.visit()
        assert seen.of("approvals", "error") == ""
        assert f"127.0.0.1:{port} cannot be reached" in seen.of("approvals", "warn")
    shown = await asyncio.to_thread(CliRunner().invoke, app, ["status", "--home", str(clinic.home), "--json"])
    assert json.loads(shown.stdout)["waiting_for_you"] == 1
