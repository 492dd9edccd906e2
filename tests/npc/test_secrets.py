"""Secrets reach the wire and nothing else. Rows: C18, C32."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import os
import signal
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from npc.errors import Misconfigured
from npc.gates import Facts, Verdict
from npc.sealed import SealedWorld
from npc.secrets import MARK, SHORTEST, CleanStream, Redactor, resolved
from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.lives import BOB, PATIENCE_S, Answering, start
from tests.npc.small_world import oda, words
from tests.npc.test_character import stored
from world_adapter.frames import ActionSpec, ActResult, ActState, Observation, Speaker
from world_adapter.runs import Run
from world_adapter.server import ActFailed, Request, WorldServer

#: One of each kind, and each with characters that are written differently in JSON, in addresses and in Python.
KEY = "sk-canary-KEY-0123456789abcdef"
WORLD = "canary.WORLD+token/with=signs"
TOOL = 'canary-TOOL"quoted\\slashed-7'
HOOK = "canary-WEBHOOK-0123456789abcdefghij"
ALL = {"key": KEY, "world": WORLD, "tool": TOOL, "hook": HOOK}
_WORDS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_LOCK = {"type": "object", "properties": {"text": {"type": "string"}, "token": {"type": "string"}}, "required": ["text", "token"]}
SAY = ActionSpec(name="say", description="Say something.", schema=_WORDS)
UNLOCK = ActionSpec(name="unlock", description="Unlock a door.", schema=_LOCK, reversible=True)
PERSONA = """
[character]
name = "Oda"
description = "You keep the mill."
[wake]
idle_s = 3600.0
idle_max_s = 7200.0
[gates.seal]
set_by = "tests.npc.test_secrets:leaky"
"""
POLICY = """
[tools.unlock]
inject = {token = "env:MILL_GATE_TOKEN"}
[worlds."%s"]
token = "file:%s"
"""
ROOT = Path(__file__).parents[2]


def leaky(_: Facts) -> Verdict:
    """A verifier whose exception carries a secret."""
    raise RuntimeError(f"cannot reach https://x/?key={os.environ['ANTHROPIC_API_KEY']}")


def forms(secret: str) -> list[bytes]:
    """Ways in which a secret could stand somewhere."""
    quoted = json.dumps(secret)[1:-1]
    return [
        secret.encode(), quoted.encode(), json.dumps(quoted)[1:-1].encode(), repr(secret)[1:-1].encode(),
        urllib.parse.quote(secret, safe="").encode(), base64.b64encode(secret.encode()).rstrip(b"="),
    ]  # fmt: skip


def found(data: bytes) -> list[str]:
    """Which secrets stand in some bytes."""
    return [name for name, secret in ALL.items() if any(form in data for form in forms(secret))]


class Echoes:
    """A world that tells every secret it can think of, in every way it has."""

    def __init__(self) -> None:
        self.arguments: list[Mapping[str, Any]] = []
        self.attached = asyncio.Event()
        spilt = " ".join(ALL.values())
        actions = [SAY, UNLOCK, ActionSpec(name="peek", description=f"Peek. {spilt}", schema=_WORDS, effect="read")]
        self.server = WorldServer("mill", on_act=self._act, actions=actions, token=WORLD, on_attach=lambda _: self.attached.set())

    async def _act(self, request: Request) -> ActResult | str:
        self.arguments.append(request.args)
        spilt = " ".join(ALL.values())
        if request.name == "peek":
            raise ActFailed(f"you used {spilt}", code=f"bad_{TOOL}")
        return ActResult(id=request.id, state=ActState.DONE, text=f"with {spilt}", data={"token": TOOL, "deep": [{TOOL: [WORLD]}]})

    def spill(self, text: str) -> None:
        """The world says something, with everything in it."""
        spilt = " ".join((*ALL.values(), *(base64.b64encode(s.encode()).decode() for s in ALL.values())))
        thief = Speaker(id=TOOL, name=KEY[:60], kind="player")
        self.server.observe("Oda", f"{text} {spilt}", kind="speech", speaker=thief, to="Oda", data={"why": WORLD, HOOK: [TOOL]})


class Repeats(Answering):
    """A model that repeats every secret, by every tool that it has."""

    def reply(self, request: Mapping[str, Any]) -> Reply:
        reading = Reading(request)
        spilt = " ".join(ALL.values())
        if not reading.tools:
            return Reply(content=[{"type": "text", "text": f"I was told {spilt}."}])
        if reading.round:
            return Reply(content=[{"type": "text", "text": f"(unverified: {spilt})"}])
        uses = [
            ("say", {"text": f"They are {spilt}"}), ("unlock", {"text": f"the door {TOOL}"}), ("peek", {"text": spilt}),
            ("npc_note", {"text": f"unverified {spilt}"}), ("npc_task", {"phase": KEY, "next_action": TOOL, "ask": HOOK}),
            ("npc_ask_operator", {"question": f"is it {spilt}?"}), ("npc_verify", {"gate": "seal"}),
        ]  # fmt: skip
        return Reply(content=[{"type": "text", "text": spilt}, *({"type": "tool_use", "name": n, "input": a} for n, a in uses)])


async def test_canaries_are_nowhere_but_on_the_wire(tmp_path: Path) -> None:
    """C18, C32: a whole life in which the world, the model and a fault of code repeat every secret; then everything written is searched."""
    home, brain, echoes = tmp_path / "home", Repeats(), Echoes()
    home.mkdir()
    persona, private = tmp_path / "oda.toml", tmp_path / "token"
    persona.write_text(PERSONA)
    private.write_text(WORLD + "\n")
    private.chmod(0o600)
    asked = asyncio.Semaphore(0)
    async with MessagesAPI(brain, 16_000, keep=1_000, on_request=lambda *_: asked.release()) as model, echoes.server as world:
        url = f"ws://127.0.0.1:{await world.listen('127.0.0.1', 0)}"
        (home / "policy.toml").write_text(POLICY % (url, private))
        process = await start(
            url, "--persona", str(persona), "--home", str(home), "--base-url", model.base_url, "--window", "16000", "--json",
            ANTHROPIC_API_KEY=KEY, MILL_GATE_TOKEN=TOOL, NPC_WEBHOOK_SECRET=HOOK, PYTHONPATH=str(ROOT),
        )  # fmt: skip
        try:
            async with asyncio.timeout(PATIENCE_S):
                await echoes.attached.wait()
                echoes.spill("Oda, what do you know?")
                for _ in range(2):  # the second step has seen what came of the first
                    await asked.acquire()
                echoes.spill("Oda, again:")
                await asked.acquire()
            process.send_signal(signal.SIGTERM)
            out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, out.decode()[-2_000:]
    assert {"text": f"the door {MARK}", "token": TOOL} in echoes.arguments  # it did reach the wire
    assert not found(out), out.decode()[-2_000:]
    assert MARK.encode() in out
    written = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert {path.name: found(data) for path, data in written.items() if found(data)} == {}
    assert {"session.db", "log.md", "state.json", "policy.toml"} <= {path.name for path in written}
    requests = json.dumps([record.body for record in model.records], ensure_ascii=False).encode()
    assert MARK.encode() in requests
    assert found(requests) == []
    said = [arguments["text"] for arguments in echoes.arguments]
    assert found(" ".join(said).encode()) == []


async def test_what_is_filled_in_is_neither_shown_to_the_model_nor_taken_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C18: the argument is not in the tool; what a model gives for it all the same does not leave."""
    monkeypatch.setenv("MILL_GATE_TOKEN", TOOL)
    async with oda(tmp_path) as house:
        house.home.mkdir()
        (house.home / "policy.toml").write_text('[tools.unlock]\ninject = {token = "env:MILL_GATE_TOKEN"}\n')
        house.redactor = Redactor()
        forged: list[dict[str, Any]] = [{"text": "a", "token": "my-own"}, {"text": "b"}]
        uses = [{"type": "tool_use", "name": "unlock", "input": given} for given in forged]
        house.brain.script = lambda r: words("(ok)") if r.round else Reply(content=uses)
        async with house.life(actions=(SAY, UNLOCK)) as life:
            await life.world.tell("Oda, unlock it")
            await life.until(lambda: life.saw("turn"))
            assert sorted(life.world.arguments, key=str) == [{"text": "a", "token": TOOL}, {"text": "b", "token": TOOL}]
        (tool,) = (t for t in house.requests()[0].body["tools"] if t["name"] == "unlock")
        assert (list(tool["input_schema"]["properties"]), tool["input_schema"]["required"]) == (["text"], ["text"])
        assert all("token" not in e.data["args"] for e in await stored(house.home, "intent"))


async def test_a_crowd_of_observations_is_searched_too() -> None:
    """C32: many at once take a shorter way into the NPC, but not past the door."""
    seen: list[Any] = []

    class Sink:
        async def observed(self, batch: Any, *, world: str, epoch: str) -> None:
            seen.append(batch)

    class Crowd:
        url = "memory://crowd"

        async def run(self, sink: Any, resume: Any) -> None:
            lines = [Observation(seq=n, t=0.0, kind="speech", text=f"line {n}", speaker=BOB) for n in range(1, 200)]
            await sink.observed(Run.of(lines), world="w", epoch="e")
            lines[70] = Observation(seq=71, t=0.0, kind="speech", text=f"it is {TOOL}", speaker=BOB)
            lines[90] = Observation(seq=91, t=0.0, kind="item", text="x", data={"k": WORLD})
            await sink.observed(Run.of(lines), world="w", epoch="e")

    world: Any = SealedWorld(Crowd(), Redactor(*ALL.values()), injected=lambda _: {})  # type: ignore[arg-type]
    await world.run(Sink(), None)
    clean, cleaned = seen
    assert isinstance(clean, Run)
    assert (cleaned[70].text, cleaned[90].data, len(cleaned)) == (f"it is {MARK}", {"k": MARK}, 199)


def test_logs_and_streams_hold_no_secret() -> None:
    """C32: a log line with an exception that carries a secret, and a traceback on the error stream."""
    redactor, out = Redactor(*ALL.values()), io.StringIO()
    stream = CleanStream(out, redactor)
    log = structlog.wrap_logger(
        structlog.PrintLogger(cast("TextIO", stream)), wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        processors=[structlog.processors.format_exc_info, redactor.processor, structlog.processors.JSONRenderer()],
    )  # fmt: skip
    try:
        raise ValueError(TOOL)
    except ValueError as error:
        log.exception("it failed", key=KEY, error=error, deep={"x": [WORLD]})
        print(f"Traceback: {error!r} {HOOK}", file=stream)
    assert not found(out.getvalue().encode())
    assert out.getvalue().count(MARK) >= 5


def test_where_secrets_may_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C18: the environment, or a file that nobody else may read; what is wrong is said without the secret."""
    monkeypatch.setenv("GATE_TOKEN", TOOL)
    path = tmp_path / "token"
    path.write_text(WORLD)
    path.chmod(0o600)
    assert resolved("env:GATE_TOKEN", use="x") == TOOL
    assert resolved(f"file:{path}", use="x") == WORLD
    path.chmod(0o640)
    with pytest.raises(Misconfigured, match="which others may read: chmod 600"):
        resolved(f"file:{path}", use="x")
    os.mkfifo(tmp_path / "pipe", 0o600)
    path.chmod(0o600)
    path.write_text("abc")
    for source, said in (
        ("env:NOT_THERE", "set NOT_THERE in the environment"), (f"file:{tmp_path}/none", "cannot be read"), (f"file:{path}", "less than 6"),
        (f"file:{tmp_path}/pipe", "others may read"), (f"file:{tmp_path}", "cannot be read"), ("file:\x00", "cannot be read"),
    ):  # fmt: skip
        with pytest.raises(Misconfigured, match=said):
            resolved(source, use="the gate")


@given(
    secret=st.text(min_size=SHORTEST, max_size=40).filter(str.strip), before=st.text(max_size=20), after=st.text(max_size=20),
)  # fmt: skip
def test_whatever_the_secret_is_it_is_found(secret: str, before: str, after: str) -> None:
    """C32: plain, as JSON, in an address, in base64; as a key, deep in a value; and what holds none stays the same object."""
    redactor = Redactor(secret)
    text = f"{before}{secret}{after}"
    for written in (text, json.dumps(text), json.dumps(text, ensure_ascii=False), json.dumps({"a": json.dumps(text, ensure_ascii=False)})):
        cleaned = redactor.text(written)
        assert secret not in cleaned
        assert json.dumps(secret)[1:-1] not in cleaned
    cleaned = redactor.value({"a": [{text: (text, 1)}]})
    assert secret not in str(next(iter(cleaned["a"][0].items())))
    other = {"a": ["\x00", 1, None, True, 2.5]}
    assert redactor.value(other) is other
