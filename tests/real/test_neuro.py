"""The whole product under games on the real `neuro-api` library: `npc attach neuro+ws://…` in its own process, a scripted model. W1."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.lives import ended, start
from tests.real import neuro_game

pytestmark = [pytest.mark.real, pytest.mark.timeout(400), pytest.mark.xdist_group("neuro")]

PERSONA = """
[character]
name = "Oda"
description = "You like to play."

[speech]
plain_text_is_speech = false

[wake]
idle_s = 3600.0
idle_max_s = 7200.0

[budget]
dollars_per_day = {dollars}
"""
_CHOICES = re.compile(r"exactly one of these tools: ([^\n<]+?)\.")


class Player:
    """A model that takes the first choice that it has, again if the game refuses it, and rests when there is none."""

    def __init__(self) -> None:
        self.asked: list[float] = []  # when, in seconds of a steady clock

    def reply(self, request: Mapping[str, Any]) -> Reply:
        self.asked.append(time.monotonic())
        reading = Reading(request)
        answered = reading.round > 0 and not any(result.startswith("[failed]") for result in reading.results)
        told = _CHOICES.findall(reading.news)
        choice = next((name for name in told[-1].split(", ") if name in reading.tools), None) if told else None
        if answered or choice is None or reading.round > 3:
            return Reply(content=[{"type": "text", "text": "(nothing to do)"}])
        args = {"number": 5} if choice == "guess" else {}
        return Reply(content=[{"type": "tool_use", "name": choice, "input": args}])


@pytest.fixture(scope="module")
def python() -> Path:
    """Skips where the library cannot be installed, unless NPC_REQUIRE_REAL is set (as in CI)."""
    try:
        return neuro_game.interpreter()
    except neuro_game.CannotInstallError as exc:
        if os.environ.get("NPC_REQUIRE_REAL"):
            raise
        pytest.skip(str(exc))


class Life:
    """One NPC at one port, over as many processes as a test starts."""

    def __init__(self, folder: Path, model: MessagesAPI, dollars: float) -> None:
        persona = folder / "oda.toml"
        persona.write_text(PERSONA.format(dollars=dollars), encoding="utf-8")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.home = folder / "home"
        self._words = (
            f"neuro+ws://127.0.0.1:{self.port}", "--persona", str(persona), "--home", str(self.home), "--base-url", model.base_url,
            "--window", "12000",
        )  # fmt: skip
        self.process: asyncio.subprocess.Process | None = None
        self._said: asyncio.Task[bytes] | None = None

    async def begin(self) -> None:
        self.process = await start(*self._words)
        assert self.process.stdout is not None
        self._said = asyncio.create_task(self.process.stdout.read())

    async def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and all that it printed."""
        assert self.process is not None
        assert self._said is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        code = await asyncio.wait_for(self.process.wait(), 60)
        return code, (await self._said).decode()

    async def also_begin(self) -> tuple[int, str]:
        """A second process at the same port, with a home of its own, which cannot be."""
        words = [str(self.home) + "-2" if word == str(self.home) else word for word in self._words]
        return await ended(*words)


@asynccontextmanager
async def life(folder: Path, player: Player, *, dollars: float = 5.0) -> AsyncIterator[tuple[Life, MessagesAPI]]:
    async with MessagesAPI(player, 12_000, keep=10_000) as model:
        npc = Life(folder, model, dollars)
        try:
            yield npc, model
        finally:
            if npc.process is not None:
                _, said = await npc.end(signal.SIGKILL)
                print(said)  # seen if the test fails


async def test_a_game_of_noughts_and_crosses(python: Path, tmp_path: Path) -> None:
    """W1, W4: forces, refused answers, actions taken back and registered anew: every move legal, a game to its end, a goodbye."""
    player = Player()
    async with life(tmp_path, player) as (npc, model):
        async with neuro_game.playing(python, "noughts", npc.port) as game:
            await game.tells("nobody there")  # a game may be there first
            await npc.begin()
            assert (await game.tells("welcomed"))["name"] == "Oda"
            over = await game.tells("over")
            code, said = await npc.end()
            assert code == 0, said
            assert (await game.tells("asked to save"))["wants_shutdown"] is True
            await game.tells("left")
            assert [line["code"] for line in game.all("left")] == [1001]
        assert game.all("illegal") == []
        assert game.all("noise") == []
        assert game.all("unknown command") == []
        moves = [line["name"] for line in game.all("action")]
        assert moves[1] == moves[2], "the refused move was tried again"
        assert over["cells"].count("X") >= 3
        assert all(line["data"] == "{}" for line in game.all("action"))
        assert "attached to Noughts and Crosses as Oda" in said
        assert f"waiting for one on ws://127.0.0.1:{npc.port}" in said
        assert "Traceback" not in said
        assert all(record.outcome == "answered" for record in model.records)


async def test_a_crash_in_the_middle_of_a_game(python: Path, tmp_path: Path) -> None:
    """W1, C35: kill -9 between two moves; the next life takes the game up when the game comes back."""
    async with life(tmp_path, Player()) as (npc, _), neuro_game.playing(python, "guess", npc.port) as game:
        await npc.begin()
        await game.tells("guess", 3)
        await npc.end(signal.SIGKILL)
        await game.tells("left")
        before = len(game.all("guess"))
        await npc.begin()
        await game.tells("welcomed", 2)
        await game.tells("guess", before + 3)
        code, said = await npc.end()
        assert code == 0, said


async def test_a_game_that_forces_for_ever_is_played_on_slowly_when_the_money_is_spent(python: Path, tmp_path: Path) -> None:
    """C9: it neither runs up a bill nor is it left waiting: from then on one turn a minute."""
    player = Player()
    async with life(tmp_path, player, dollars=0.008) as (npc, model):
        async with neuro_game.playing(python, "guess", npc.port) as game:
            await npc.begin()
            await game.until(lambda: _slow(player.asked), 240)
            code, said = await npc.end()
            assert code == 0, said
        slow_from = next(n for n in range(1, len(player.asked)) if player.asked[n] - player.asked[n - 1] > 50)
        assert len(player.asked) - slow_from <= 3, "one slow turn, and not a rush after it"
        assert len(game.all("guess")) >= 2
        assert all(record.outcome == "answered" for record in model.records)


def _slow(asked: list[float]) -> bool:
    """Whether a request came after a long silence."""
    return any(later - sooner > 50 for sooner, later in pairwise(asked))


async def test_two_npcs_at_one_port(tmp_path: Path) -> None:
    """W1: the second one says in one sentence what to do, with exit code 4."""
    async with life(tmp_path, Player()) as (npc, _):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", npc.port))
            taken.listen()
            code, said = await npc.also_begin()
        assert code == 4
        assert f"127.0.0.1:{npc.port}" in said
        assert "NEURO_SDK_WS_URL" in " ".join(said.split())
        assert "Traceback" not in said
