"""`npc sim` and `npc demo` as their users run them: real processes, the real product (O1, S1, S3, P1)."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

NPC = (sys.executable, "-m", "npc")
PATIENCE_S = 90.0


async def _npc(*words: str, cwd: Path) -> tuple[int, str, str]:
    """Runs `npc …` to its end: status, standard output, standard error."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*NPC, *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, cwd=cwd)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def _names(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir()]


async def test_a_short_flood_holds_and_prints_one_object(tmp_path: Path) -> None:
    """P1, T1, S3: the product lives through twenty turns in a small window; `--json` is one object on standard output and nothing else."""
    status, out, err = await _npc("sim", "flood", "--turns", "20", "--window", "8000", "--seed", "7", "--json", cwd=tmp_path)
    figures = json.loads(out)
    assert figures["findings"] == [], err
    assert status == 0
    assert (figures["turns"], figures["turns_failed"], figures["over_window"], figures["requests_rejected"]) == (20, 0, 0, 0)
    assert figures["rule_present_share"] == 1.0
    assert figures["observations"]["lost"] == 0
    assert figures["policy_ms_p50"] > 0
    assert sum(figures["rungs"].values()) > 0, "a window of 8,000 tokens makes the ladder work"
    assert _names(tmp_path) == [], "nothing is left behind"


async def test_a_wrong_option_is_one_sentence_and_exit_status_2(tmp_path: Path) -> None:
    """S3: usage errors are no tracebacks."""
    status, out, err = await _npc("sim", "flood", "--model-faults", "rain", cwd=tmp_path)
    assert status == 2
    assert "no faults are called 'rain'" in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in out + err


async def test_the_demo_shows_a_living_npc_and_ends_by_itself(tmp_path: Path) -> None:
    """O1: no key, no network; says that the model is a stand-in; the NPC is spoken to and answers; the diary can be read afterwards."""
    home = tmp_path / "oda"
    status, out, err = await _npc("demo", "--seconds", "5", "--home", str(home), cwd=tmp_path)
    assert status == 0, err
    assert "scripted stand-in" in out
    assert re.search(r'\S+ says to Oda: "', out)
    assert "Oda: “" in out
    assert f"npc diary list --home {home}\n" in out
    assert (home / "session.db").exists()
    status, _, _ = await _npc("diary", "list", "--home", str(home), cwd=tmp_path)
    assert status == 0


async def test_the_village_and_the_stand_in_serve_until_they_are_told_to_stop(tmp_path: Path) -> None:
    """S1, S2: `npc sim world` and `npc sim model` say where they are, and end well on Ctrl-C."""
    for words, pattern in ((("world", "--port", "0"), r"ws://127\.0\.0\.1:\d+"), (("model", "--port", "0"), r"http://127\.0\.0\.1:\d+")):
        process = await asyncio.create_subprocess_exec(
            *NPC, "sim", *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = (await process.stdout.readline()).decode()
            assert re.search(pattern, line)
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
