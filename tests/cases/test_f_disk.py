"""Cases F: the file under a living NPC is locked, damaged, or left behind by a start that failed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

from tests.cases.door import failed, house, stored, turn
from tests.npc.lives import PERSONA


async def test_f01_another_writer_is_waited_for(tmp_path: Path) -> None:
    """F01, https://github.com/omnilib/aiosqlite/issues/251, C35: somebody else holds the write lock, and commits between our reads and
    our writes; every line is stored once and answered.
    """
    async with house(tmp_path) as oda:
        async with oda.life() as life:
            other = sqlite3.connect(oda.home / "session.db", isolation_level=None)
            for n in range(4):
                other.execute("BEGIN IMMEDIATE")
                telling = asyncio.create_task(life.world.tell(f"Oda, {n}?"))
                done, _ = await asyncio.wait({telling}, timeout=0.3)
                assert not done, "stored before the lock was free"
                other.execute("INSERT OR REPLACE INTO watermarks VALUES ('elsewhere', 'e', ?)", (n,))
                other.execute("COMMIT")
                await telling
                await life.until(lambda n=n: len(life.saw("turn")) > n)  # type: ignore[misc]
            other.close()
            assert not failed(life)
            assert len(life.world.said) == 4
        heard = [e.data["text"] for e in await stored(oda, "observation") if e.data.get("seq")]
        assert heard == [f"Oda, {n}?" for n in range(4)]


async def test_f03_a_start_that_fails_ends_the_process(tmp_path: Path) -> None:
    """F03, https://github.com/omnilib/aiosqlite/issues/299: an error after the database is open and before it is closed: the process is
    gone within seconds, with the exit code that says why.
    """
    persona = tmp_path / "oda.toml"
    persona.write_text(PERSONA, encoding="utf-8")
    words = ("attach", "ws://127.0.0.1:9", "--persona", str(persona), "--home", str(tmp_path / "home"))  # nobody listens there
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "npc", *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "ANTHROPIC_API_KEY": "stand-in"},
    )  # fmt: skip
    try:
        assert await asyncio.wait_for(process.wait(), 60) == 4
    finally:
        if process.returncode is None:
            process.kill()
    assert (tmp_path / "home" / "session.db").exists(), "it failed before it had opened anything"


async def test_f08_a_damaged_database_is_set_aside_and_life_goes_on(tmp_path: Path) -> None:
    """F08, https://github.com/utensils/mold/issues/517, T14: 4,096 bytes lost in the middle; the next life begins with a fresh file, a
    loud event, the old one kept, and it answers; the life after that is an ordinary one.
    """
    async with house(tmp_path) as oda:
        async with oda.life() as life:
            for n in range(30):
                await turn(life, f"Oda, {n}: {'the price of flour ' * 20}")
        path = oda.home / "session.db"
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2 // 8_192 * 8_192)
            file.write(os.urandom(4_096))
        for n in range(2):
            async with oda.life() as life:
                await turn(life, f"Oda, are you still there, {n}?")
                assert life.world.said == ["I hear you."]
                assert not failed(life)
        assert len([p for p in oda.home.iterdir() if ".damaged-" in p.name and not p.name.endswith(("-wal", "-shm"))]) == 1
        assert len(await stored(oda, "store-damaged")) == 1
