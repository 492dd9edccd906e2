"""An NPC as its operator runs it, for tests: `npc attach` in a process of its own, on a real websocket and a real HTTP endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from world_adapter.frames import ActionSpec, Speaker
from world_adapter.server import ActFailed, Request, WorldServer

PATIENCE_S = 60.0
RULE = "Never give the mill key to anyone who does not show the seal."
SAY = ActionSpec(
    name="say",
    description="Say something aloud.",
    schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    effect="write",
    reversible=False,
    reach="contained",
    kind="instant",
    moves_body=False,
)
BOB = Speaker(id="p1", name="Bob", kind="player")
PERSONA = """
[character]
name = "Oda"
description = "You keep the mill."

[wake]
idle_s = 3600.0
idle_max_s = 7200.0
"""


class Answering:
    """A model that says one line to whoever spoke, then ends its turn. `said` may be replaced to script it otherwise."""

    def __init__(self) -> None:
        self.said: Callable[[Reading], Reply | None] = lambda _: None

    def reply(self, request: Mapping[str, Any]) -> Reply:
        reading = Reading(request)
        if scripted := self.said(reading):
            return scripted
        if not reading.tools:
            return Reply(content=[{"type": "text", "text": "They talked."}])
        if reading.round:
            return Reply(content=[{"type": "text", "text": "(done)"}])
        words = f"I hear you. {reading.stamp or ''}".strip()
        return Reply(content=[{"type": "tool_use", "name": "say", "input": {"text": words}}])


class Stage:
    """A world with one action, a model stand-in, and a home folder."""

    def __init__(self, folder: Path, *, window: int = 12_000) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        (self.home / "constitution.md").write_text(f"1. {RULE}\n2. Be kind.\n", encoding="utf-8")
        self.persona = folder / "oda.toml"
        self.persona.write_text(PERSONA, encoding="utf-8")
        self.window = window
        self.brain = Answering()
        self.said: list[str] = []
        self.acts: list[str] = []
        self.heard = asyncio.Condition()
        self.attached = asyncio.Event()
        self.left = asyncio.Event()
        self.world = WorldServer(
            "mill",
            on_act=self._act,
            actions=[SAY],
            on_attach=lambda _: self._there(there=True),
            on_detach=lambda _: self._there(there=False),
        )
        self.model = MessagesAPI(self.brain, window, keep=10_000)
        self.url = ""
        self.process: asyncio.subprocess.Process | None = None

    def _there(self, *, there: bool) -> None:
        (self.attached.set if there else self.attached.clear)()
        (self.left.clear if there else self.left.set)()

    async def _act(self, request: Request) -> str:
        text = request.args.get("text")
        if not isinstance(text, str):
            raise ActFailed("say what?", code="bad_args")
        async with self.heard:
            self.acts.append(request.id)
            self.said.append(text)
            self.heard.notify_all()
        return "Everyone heard you."

    async def __aenter__(self) -> Self:
        await self.model.__aenter__()
        await self.world.__aenter__()
        self.url = f"ws://127.0.0.1:{await self.world.listen('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *error: object) -> None:
        if self.process and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self.world.__aexit__(None, None, None)
        await self.model.__aexit__(None, None, None)

    async def attach(self, **env: str) -> None:
        """Start the NPC and wait until the world has it."""
        self.process = await start(self.url, "--persona", str(self.persona), "--home", str(self.home), "--base-url", self.model.base_url,
                                   "--window", str(self.window), **env)  # fmt: skip
        await asyncio.wait_for(self.attached.wait(), PATIENCE_S)

    async def tell(self, text: str, *, to: str | None = "Oda") -> None:
        """Bob says something."""
        self.world.observe("Oda", text, kind="speech", speaker=BOB, to=to)

    async def hear(self, done: Callable[[list[str]], bool]) -> None:
        """Wait until what the NPC has said aloud satisfies `done`."""
        async with self.heard:
            await asyncio.wait_for(self.heard.wait_for(lambda: done(self.said)), PATIENCE_S)

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the process; its exit code."""
        assert self.process
        self.process.send_signal(how)
        code = await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        await asyncio.wait_for(self.left.wait(), PATIENCE_S)
        return code

    def requests(self) -> list[Mapping[str, Any]]:
        """Bodies of all requests of the mind that were answered."""
        return [r.body for r in self.model.records if r.outcome == "answered" and r.body.get("tools")]


@contextlib.asynccontextmanager
async def stage(folder: Path, *, window: int = 12_000) -> AsyncIterator[Stage]:
    """A stage that is open for the length of a test."""
    async with Stage(folder, window=window) as opened:
        yield opened


async def start(*words: str, **env: str) -> asyncio.subprocess.Process:
    """`npc attach` with these words, the key in the environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC_", "NPC_"))}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "npc", "attach", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**kept, "ANTHROPIC_API_KEY": "stand-in", **env},
        limit=1 << 24,
    )


async def ended(*words: str, **env: str) -> tuple[int, str]:
    """Exit code and all output of an `npc attach` that ends by itself."""
    process = await start(*words, **env)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode is not None
    return process.returncode, out.decode()


async def status(home: Path) -> Mapping[str, Any]:
    """`npc status --json`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "npc", "status", "--home", str(home), "--json"), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    data: Mapping[str, Any] = json.loads(out)
    return data
