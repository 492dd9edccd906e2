"""A set-up that is sound, for the doctor to look at, and what can be made wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from npc.cli import app
from npc.home import Home
from npc.living import settings_of
from npc.manifest import Manifest
from npc.persona import load_persona
from runtime.core.session import Session
from runtime.model.counting import Counter
from runtime.model.profiles import profile
from runtime.store.journal import Journal
from sim.messages_api import MessagesAPI
from tests.npc.lives import SAY, Answering
from world_adapter.frames import ActionSpec
from world_adapter.server import Request, WorldServer

KEY = "sk-ant-" + "stand-in-" * 5
PERSONA = """
[character]
name = "Oda"
description = "You keep the mill by the river, and you have kept it for thirty winters."
"""
GIVE = ActionSpec(
    name="give", description="Give something away.",
    schema={"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run of `npc doctor` gave."""

    code: int
    out: str

    @property
    def data(self) -> Mapping[str, Any]:
        """Of a run with --json."""
        found: Mapping[str, Any] = json.loads(self.out)
        return found

    def of(self, check: str, level: str) -> str:
        """What was found of one kind, with the fixes; "" for nothing."""
        return "\n".join(f"{f['what']} -> {f['fix']}" for f in self.data["findings"] if (f["check"], f["level"]) == (check, level))

    @property
    def bad(self) -> list[tuple[str, str]]:
        """All findings that are not ok."""
        return [(f["check"], f["what"]) for f in self.data["findings"] if f["level"] != "ok"]


@dataclass(slots=True)
class Clinic:
    """One NPC's files, the options it is started with, and stand-ins for its world and its model where a test opens them."""

    folder: Path
    options: list[str] = field(default_factory=lambda: ["--offline"])
    env: dict[str, str | None] = field(default_factory=dict)
    url: str = ""

    def __post_init__(self) -> None:
        self.write(PERSONA)
        self.home.mkdir(exist_ok=True)

    @property
    def persona(self) -> Path:
        """Its file."""
        return self.folder / "oda.toml"

    @property
    def home(self) -> Path:
        """Its folder."""
        return self.folder / "home"

    def write(self, text: str) -> None:
        """Another persona."""
        self.persona.write_text(text, encoding="utf-8")

    def settle(self) -> None:
        """As at the end of a first life: every file is there."""
        home = Home(self.home)
        home.open(load_persona(self.persona))
        home.append_log("The first day is over.")
        home.close()

    async def live(self, *, turns: int = 1, at: float | None = None) -> None:
        """A life that is over: a journal with a checkpoint, and a manifest."""
        await asyncio.to_thread(self.settle)
        who = load_persona(self.persona)
        moment = time.time() if at is None else at
        async with await Journal.open(self.home / "session.db", clock=lambda: moment) as journal:
            for turn in range(1, turns + 1):
                journal.append("turn", {"ended": "done"}, turn=turn)
            session = Session(settings_of(who, profile(who.model.id)), Counter.load().count)
            journal.checkpoint("session", json.dumps({"session": session.snapshot(), "host": {}}))
            journal.checkpoint("identity", "abc")
        Manifest(npc="Oda", identity="abc", begun_at=1.0).write(self.home / "manifest.json")

    def sql(self, *statements: str) -> None:
        """Change the database by hand."""
        with contextlib.closing(sqlite3.connect(self.home / "session.db")) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def run(self, *options: str, as_json: bool = True, width: int = 100, persona: bool = True) -> Seen:
        """`npc doctor`, in this process. `persona`: whether its file is named."""
        clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith(("ANTHROPIC_", "NPC_"))}
        env = {**clean, "ANTHROPIC_API_KEY": KEY, "COLUMNS": str(width), "TERM": "dumb", **self.env}
        words = ["doctor", *(["--persona", str(self.persona)] if persona else []), "--home", str(self.home), *self.options, *options]
        words += [*([self.url] if self.url else []), *(["--json"] if as_json else [])]
        result = CliRunner(env=env).invoke(app, words, catch_exceptions=False)
        return Seen(code=result.exit_code, out=result.stdout)

    async def visit(self, *options: str) -> Seen:
        """The same, while this loop serves."""
        return await asyncio.wait_for(asyncio.to_thread(self.run, *options), 60)


@contextlib.asynccontextmanager
async def served(
    clinic: Clinic, *, actions: tuple[ActionSpec, ...] = (SAY, GIVE), window: int | None = None, **settings: Any
) -> AsyncIterator[tuple[WorldServer, MessagesAPI]]:
    """Open a world and a model for a clinic. `settings` go to the world."""

    async def act(request: Request) -> str:
        raise AssertionError(f"the doctor acted: {request.name}")

    async with MessagesAPI(Answering(), window) as model, WorldServer("mill", on_act=act, actions=actions, **settings) as world:
        clinic.options = ["--base-url", model.base_url]
        clinic.url = f"ws://127.0.0.1:{await world.listen('127.0.0.1', 0)}"
        yield world, model


@contextlib.asynccontextmanager
async def another_time(base_url: str, seconds: float) -> AsyncIterator[str]:
    """The endpoint at `base_url` with a clock that is so many seconds ahead."""
    host, port = base_url.removeprefix("http://").split(":")
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, dated: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                date = f"HTTP/1.1 200 OK\r\ndate: {formatdate(time.time() + seconds, usegmt=True)}\r\n".encode()
                writer.write(data.replace(b"HTTP/1.1 200 OK\r\n", date, 1) if dated else data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        for task in (pump(reader, back, dated=False), pump(there, writer, dated=True)):
            tasks.add(asyncio.create_task(task))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
