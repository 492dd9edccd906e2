"""The whole product on a real Evennia server: `npc attach` in a process of its own, its model a scripted stand-in, people at keyboards."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.lives import ended, start
from tests.real.evennia_game import EvenniaServer, ScriptedPlayer

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("evennia")]

PERSONA = """
[character]
name = "Maren"
description = "You run errands between the tavern and the yard."

[speech]
plain_text_is_speech = false

[wake]
idle_s = 3600.0
idle_max_s = 7200.0
"""


class Errand:
    """A model that walks where it is sent and greets there, by the tools that the world offered it."""

    def __init__(self) -> None:
        self.tools: set[str] = set()

    def reply(self, request: Mapping[str, Any]) -> Reply:
        reading = Reading(request)
        self.tools |= set(reading.tools)
        if "go to the yard" not in reading.news or not reading.tools:
            return Reply(content=[{"type": "text", "text": "(nothing to do)"}])
        match reading.round:
            case 0:
                return Reply(content=[{"type": "tool_use", "name": "move", "input": {"exit": "north"}}])
            case 1 if any("Carol" in result for result in reading.results):
                return Reply(content=[{"type": "tool_use", "name": "say", "input": {"text": "Carol, Bob sends me to greet you."}}])
            case _:
                return Reply(content=[{"type": "text", "text": "(done)"}])


async def test_npc_attach_lives_on_a_real_server(evennia_server: EvenniaServer, tmp_path: Path) -> None:
    """W1, W4, W6, C18: asked by name in one room it goes to another and speaks there; its password is in nothing that it wrote."""
    server, errand, home = evennia_server, Errand(), tmp_path / "home"
    persona = tmp_path / "maren.toml"
    persona.write_text(PERSONA, encoding="utf-8")
    password = server.people["Maren"].password
    async with MessagesAPI(errand, 12_000) as model, ScriptedPlayer(server, "Bob") as bob, ScriptedPlayer(server, "Carol") as carol:
        process = await start(
            *(server.url, "--persona", str(persona), "--home", str(home), "--base-url", model.base_url, "--window", "12000"),
            NPC_EVENNIA_USER="Maren", NPC_EVENNIA_PASSWORD=password,
        )  # fmt: skip
        assert process.stdout is not None
        said = asyncio.create_task(process.stdout.read())
        try:
            await bob.hears(lambda text: text == "Maren has entered the game.", within_s=90)
            await bob.do("say Maren, go to the yard and greet Carol, will you?")
            await bob.hears(lambda text: text == "Maren is leaving Tavern, heading for Yard.", within_s=60)
            await carol.hears(lambda text: text == 'Maren says, "Carol, Bob sends me to greet you."', within_s=60)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await bob.do("look")
    assert {"say", "whisper", "emote", "move", "look", "get", "give", "inventory"} <= errand.tools
    assert all(record.outcome == "answered" for record in model.records)
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written
    assert password.encode() not in b"".join([await said, *(path.read_bytes() for path in written)])


async def test_npc_attach_with_a_wrong_password_ends_with_one_sentence(evennia_server: EvenniaServer, tmp_path: Path) -> None:
    """W1: exit code 4, the server's reason, the way out, no traceback."""
    persona = tmp_path / "maren.toml"
    persona.write_text(PERSONA, encoding="utf-8")
    code, said = await ended(
        *(evennia_server.url, "--persona", str(persona), "--home", str(tmp_path / "home"), "--base-url", "http://127.0.0.1:9"),
        NPC_EVENNIA_USER="Maren", NPC_EVENNIA_PASSWORD="not the password",
    )  # fmt: skip
    assert code == 4
    assert "Username and/or password is incorrect" in " ".join(said.split())
    assert "NPC_EVENNIA_PASSWORD" in said
    assert "Traceback" not in said
    assert "not the password" not in said
