"""What the demo shows is what happened, at any size of terminal (O1)."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from sim.view import PLAIN, Watched, closing, event_of, fitting, hints

EVENTS: tuple[dict[str, Any], ...] = (
    {"event": "heard", "kind": "speech", "text": 'Тихон says to Oda: "привет!"', "speaker": "Тихон", "own": False},
    {"event": "wake", "reason": "news"},
    {"event": "request", "estimate": 5_400},
    {"event": "act", "action": "say", "args": {"text": "Добрый вечер, Тихон."}},
    {"event": "heard", "kind": "speech", "text": 'Oda says: "Добрый вечер, Тихон."', "speaker": "Oda", "own": True},
    {"event": "done", "action": "say", "state": "done", "text": "said"},
    {"event": "done", "action": "take", "state": "failed", "text": "No moon lies here."},
    {"event": "heard", "kind": "scene", "text": "A long annal. " * 400, "speaker": "", "own": False},
    {"event": "rung", "rung": "compact", "before": 5_400, "after": 1_200, "failed": False, "note": "9 turns"},
    {"event": "rung", "rung": "trim", "before": 1_200, "after": 1_200, "failed": True, "note": "nothing to trim"},
    {"event": "reset", "reason": "the provider rejects the conversation", "tokens": 900, "entry": "My mind was emptied today."},
    {"event": "rung", "rung": "hard_reset", "before": 900, "after": 100, "failed": False, "note": "session persisted (full)"},
    {"event": "turn", "ended": "done", "failed": False},
)


def _watched() -> tuple[Watched, str]:
    watched = Watched(npc="Oda", window=8_000)
    lines = [line.plain for line in map(watched.event, EVENTS) if line is not None]
    watched.bill(declined=False, rejected=False, input_tokens=4_000, cached=3_000, output=50, dollars=0.002)
    watched.bill(declined=True, rejected=False, input_tokens=1_000, cached=0, output=0, dollars=0.001)
    return watched, "\n".join(lines)


def _drawn(renderable: Any, width: int, height: int = 30) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(renderable)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_every_event_worth_telling_is_told_once() -> None:
    """O1: speech both ways, failures, rungs that freed something, resets with their diary entry; own echoes are not repeated."""
    watched, told = _watched()
    assert told.count("Добрый вечер") == 1
    assert "привет" in told
    assert "No moon lies here" in told
    assert "compact 5,400 → 1,200 tokens" in told
    assert "trim" not in told
    assert "My mind was emptied today" in told
    assert "(5,600 characters)" in told
    assert (watched.turns, watched.spoken, watched.rungs["hard_reset"], watched.requests, watched.declined) == (1, 1, 1, 2, 1)


@pytest.mark.parametrize(("width", "height"), [(40, 16), (100, 30), (220, 70)])
def test_the_screen_fits_the_terminal_and_says_that_the_model_is_a_stand_in(width: int, height: int) -> None:
    """O1: honest, and never wider or higher than what there is."""
    watched, _ = _watched()
    screen = _drawn(watched.screen(width=width, height=height, left_s=12.0, model="claude-haiku-5-5"), width, height).splitlines()
    assert len(screen) <= height
    if width >= 100:
        text = " ".join(screen)
        assert "scripted stand-in" in text
        assert "5,400 of 8,000 tokens" in text
        assert "hard reset 1" in text


def test_the_last_words_name_the_diary_and_the_cost() -> None:
    """O1: where to read on."""
    watched, _ = _watched()
    text = " ".join(_drawn(closing(watched, seconds=60.0), 140).split())
    assert any(line.plain.endswith("npc diary list --home '/some home'") for line in hints("/some home"))
    assert "$0.0030" in text
    assert "60% read from cache" in text
    assert "1 declined" in text
    assert "no network" in PLAIN


def test_lines_of_wide_letters_take_the_rows_they_take() -> None:
    """O1: Chinese is twice as wide; the newest line is always the last one shown."""
    watched, _ = _watched()
    for n in range(50):
        watched.event({"event": "heard", "kind": "speech", "text": f"{n} " + "今天的鱼特别新鲜" * 6, "own": False})
    shown = fitting(watched.village, 40, 10)
    assert shown[-1].plain.startswith("49 ")
    assert len(shown) == 3


@pytest.mark.parametrize("line", [b"", b"no json", b"[1]", b"\xff\xfe"])
def test_what_is_no_event_is_ignored(line: bytes) -> None:
    """O1: a stray line on the product's output ends nothing."""
    assert event_of(line) is None
