"""The one module that knows the product's command line keeps what is the user's, and tells the truth about what it could not learn (S3)."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from sim import product


def _character(home: Path) -> product.Character:
    return product.Character(
        name='Oda "the Lantern" 🏮',
        home=home,
        description="Line one.\nLine two with \\ and \u201cquotes\u201d.",
        constitution=("First rule.", "Second rule."),
        model="claude-haiku-5-5",
        window=8_000,
        persona="[wake]\nidle_s = 8.0\n",
    )


def _script(folder: Path, text: str) -> tuple[str, str]:
    path = folder / "product.py"
    path.write_text(text, encoding="utf-8")
    return (sys.executable, str(path))


def test_the_files_of_a_character_say_what_was_meant(tmp_path: Path) -> None:
    """O1: any name and description survive the way through the file."""
    character = _character(tmp_path / "homes" / "oda")
    persona = tomllib.loads(character.settle().read_text(encoding="utf-8"))
    assert persona == {"character": {"name": character.name, "description": character.description}, "wake": {"idle_s": 8.0}}
    assert "1. First rule.\n2. Second rule." in (character.home / "constitution.md").read_text(encoding="utf-8")


def test_a_constitution_that_is_there_is_used_as_it_is(tmp_path: Path) -> None:
    """T1: what people wrote is never written over."""
    character = _character(tmp_path)
    (tmp_path / "constitution.md").write_text("Mine.", encoding="utf-8")
    character.settle()
    assert (tmp_path / "constitution.md").read_text(encoding="utf-8") == "Mine."


@pytest.mark.parametrize("says", ["no json", "{}", '{"observations": {"received": "many"}, "rungs": {}}'])
async def test_books_that_cannot_be_read_are_an_error_of_one_sentence(tmp_path: Path, says: str) -> None:
    """S3: what was not learned is not made up."""
    with pytest.raises(product.ProductError, match="unexpected"):
        await product.ledger(tmp_path, command=_script(tmp_path, f"print({says!r})"))


async def test_a_failing_status_is_told_with_its_last_words(tmp_path: Path) -> None:
    """S3."""
    with pytest.raises(product.ProductError, match="the disk is gone"):
        await product.ledger(tmp_path, command=_script(tmp_path, "raise SystemExit('the disk is gone')"))


async def test_no_key_and_no_proxy_of_ours_reaches_the_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """O1: a demo on a machine with a real key spends none of it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-real-and-dear")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://somewhere.example")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example")
    tell = "import os\nraise SystemExit(repr(sorted((k, v) for k, v in os.environ.items() if 'ANTHROPIC' in k or 'PROXY' in k)))"
    with pytest.raises(product.ProductError) as told:
        await product.ledger(tmp_path, command=_script(tmp_path, tell))
    assert "sk-real" not in str(told.value)
    assert ".example" not in str(told.value)
    assert "stand-in" in str(told.value)


async def test_a_process_is_measured_while_it_lives_and_stopped_when_asked(tmp_path: Path) -> None:
    """S3: CPU and memory by the operating system; SIGTERM is enough; its last words are kept."""
    patient = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "print('alive', flush=True)\n"
        "signal.sigwait({signal.SIGTERM})\n"
    )
    nowhere = "127.0.0.1:1"
    process = await product.attach(
        _character(tmp_path / "oda"),
        world=f"ws://{nowhere}",
        base_url=f"http://{nowhere}",
        events=True,
        command=_script(tmp_path, patient),
    )
    assert process.process.stdout is not None
    assert await process.process.stdout.readline() == b"alive\n"
    meter = process.meter()
    if sys.platform == "linux":
        assert meter is not None
        assert 1 < meter.rss_mb <= meter.peak_mb < 200
        assert meter.cpu_s > 0
    assert await process.stop() == 0
    assert process.meter() is None
