"""`npc sim conformance` against our own server, against worlds that break one rule each, and on the command line (W1, W3)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from sim.cli import app
from sim.conformance import shapes
from sim.conformance.examination import Outcome, Patience, Plan, examine, sample
from sim.conformance.report import as_json
from sim.conformance.rules import RULES, Ledger, Verdict
from sim.conformance.stream import Stream
from tests.sim.strange_world import StrangeWorld
from tests.world_adapter.peers import RecordingSink, running
from world_adapter.client import WebsocketWorld
from world_adapter.codec import CODECS
from world_adapter.frames import ActionSpec, ActState
from world_adapter.server import Request, WorldServer

QUICK = Patience(reply_s=1.5, listen_s=0.3, settle_s=0.05, silence_s=10)
NO_SILENCE = Patience(reply_s=0.6, listen_s=0.3, settle_s=0.05, silence_s=0)
NOTHING = {"type": "object"}
ACTIONS = (
    ActionSpec(name="look", description="", schema=NOTHING, effect="read"),
    ActionSpec(name="watch", description="", schema=NOTHING, effect="read", kind="ongoing"),
    ActionSpec(name="burn", description="", schema=NOTHING),
)


def verdicts(outcome: Outcome, verdict: Verdict) -> set[str]:
    return {finding.rule.id for finding in outcome.findings if finding.verdict is verdict}


@asynccontextmanager
async def ours(*subprotocols: str, **options: Any) -> AsyncIterator[tuple[str, list[str]]]:
    """Our own server with a little world behind it, and the names of what was done in it."""
    done: list[str] = []

    async def on_act(request: Request) -> str:
        done.append(request.name)
        if request.name == "watch":
            await asyncio.sleep(60)
        return f"{len(done)} things were done"

    options = {"heartbeat_s": 0.6, "npcs": ["mira"], "actions": ACTIONS, **options}
    async with WorldServer("village", on_act=on_act, subprotocols=subprotocols or tuple(CODECS), **options) as server:
        port = await server.listen()
        for number in range(5):
            server.observe("mira", f"thing {number}")
        yield f"ws://127.0.0.1:{port}", done


@pytest.mark.parametrize("subprotocol", CODECS)
async def test_our_own_server_keeps_every_rule(subprotocol: str) -> None:
    """W1, W3: in both codecs, all rules hold but `bye`, for it closes nothing; each read action ran once, and no other ran."""
    async with ours(subprotocol, token="s3cret") as (url, done):
        outcome = await examine(Plan(url=url, npc="mira", token="s3cret", patience=QUICK))
    assert verdicts(outcome, Verdict.BROKEN) == set()
    assert verdicts(outcome, Verdict.UNSEEN) == {"bye"}
    assert outcome.held
    assert done == ["look", "watch"]
    assert outcome.subprotocol == subprotocol


async def test_a_stranger_that_keeps_the_rules_is_told_so() -> None:
    """W1, W3: a world that shares no code with ours; a token is asked for by nobody there."""
    world = StrangeWorld()
    async with world.open() as url:
        outcome = await examine(Plan(url=url, npc="mira", patience=QUICK))
    assert [f for f in outcome.findings if f.verdict is Verdict.BROKEN] == []
    assert verdicts(outcome, Verdict.UNSEEN) == {"bye", "token"}
    assert world.burnt == 0


SILENT_FLAWS = {"impatient", "patient", "never pings"}


@pytest.mark.parametrize(
    ("flaw", "rules"),
    [
        ("hello second", {"hello"}),
        ("hello in words", {"hello"}),
        ("new epoch", {"hello", "resume", "lost"}),
        ("pong of another n", {"ping", "unknown-op", "unknown-keys", "malformed-dropped", "replaced", "cancel"}),
        ("unknown op closes", {"unknown-op", "unknown-keys"}),
        ("very touchy", {"malformed-dropped"}),
        ("touchy", {"malformed-closed"}),
        ("thick skin", {"malformed-closed"}),
        ("unknown npc otherwise", {"unknown-npc"}),
        ("two minds", {"replaced"}),
        ("any epoch", {"other-epoch"}),
        ("resume ignored", {"resume"}),
        ("resends nothing", {"resend"}),
        ("forgets", {"kept"}),
        ("lost not counted", {"lost"}),
        ("a gap", {"numbering"}),
        ("words change", {"numbering"}),
        ("prio in words", {"observations"}),
        ("large frames", {"max-frame"}),
        ("NaN", {"encoding"}),
        ("bad schema", {"actions"}),
        ("acts again", {"act-once", "act-remembered"}),
        ("accepts all", {"accepted"}),
        ("does anything", {"act-answered"}),
        ("ignores what it cannot do", {"act-answered"}),
        ("says it twice", {"final-once"}),
        ("cannot stop", {"cancel", "accepted"}),
        ("query fails", {"query-unknown"}),
        ("impatient", {"silence-ends"}),
        ("patient", {"silence-ends"}),
        ("never pings", {"silence-asks"}),
    ],
)
async def test_each_rule_that_a_world_breaks_is_named(flaw: str, rules: Collection[str]) -> None:
    """W1, W3: one flaw at a time; its rule is called broken with a reason, and what the flaw does not touch is not."""
    world = StrangeWorld({flaw}, heartbeat_s=0.6 if flaw in SILENT_FLAWS else 5.0)
    async with world.open() as url:
        outcome = await examine(Plan(url=url, npc="mira", patience=QUICK if flaw in SILENT_FLAWS else NO_SILENCE))
    broken = {f.rule.id: f.why for f in outcome.findings if f.verdict is Verdict.BROKEN}
    assert set(rules) <= broken.keys(), broken
    if len(rules) == 1:
        assert broken.keys() <= {*rules, *ALSO.get(flaw, ())}, broken
    assert all(broken.values())
    assert not outcome.held
    assert world.burnt == 0


#: What cannot but be broken along with the flaw's own rule.
ALSO = {
    "resume ignored": {"lost"},
    "a gap": {"kept", "resend", "lost"},
    "resends nothing": {"lost"},
    "says it twice": {"act-once", "query-known"},
    "accepts all": {"cancel", "act-once", "act-answered"},
    "large frames": {"numbering"},
    "unknown op closes": {"actions"},
}


async def test_a_quiet_world_says_what_could_not_be_seen_and_why() -> None:
    """W3: no observation, no list of reads: nothing is broken, and each rule that needed one says so."""
    async with StrangeWorld(observations=0, heartbeat_s=40).open() as url:
        outcome = await examine(Plan(url=url, npc="mira", patience=NO_SILENCE))
    assert outcome.held
    unseen = {f.rule.id: f.why for f in outcome.findings if f.verdict is Verdict.UNSEEN}
    assert {"observations", "numbering", "kept", "resend", "lost", "silence-asks", "silence-ends"} <= unseen.keys()
    assert "--listen" in unseen["kept"]
    assert "heartbeat is 40 s" in unseen["silence-ends"]


async def test_a_write_action_is_asked_for_only_by_name() -> None:
    """W4: `--act burn` burns once, however often the id comes again."""
    world = StrangeWorld()
    async with world.open() as url:
        outcome = await examine(Plan(url=url, npc="mira", acts={"burn": {}}, patience=NO_SILENCE))
    assert world.burnt == 1
    assert list(outcome.tried) == ["look", "watch", "burn"]


@pytest.mark.parametrize(("npc", "reason"), [("nobody", "--npc"), ("mira", "NPC_WORLD_TOKEN")])
async def test_a_world_that_does_not_let_us_in_is_no_verdict(npc: str, reason: str) -> None:
    """W1: not attached is not examined; the sentence names the way out."""
    async with ours(token="s3cret") as (url, _):
        outcome = await examine(Plan(url=url, npc=npc, token="s3cret" if npc == "nobody" else None, patience=QUICK))
    assert reason in outcome.unreached
    assert not outcome.held


async def command(*arguments: str) -> Result:
    """The command in this process, on a thread with a loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, ["conformance", *arguments])


async def test_the_command_line() -> None:
    """W1, W3: exit status 1 for a broken rule, 4 where nobody answers, 2 for a slip; no traceback for any of them."""
    quick = ("--npc", "mira", "--listen", "0.3", "--reply", "2", "--silence", "0")
    async with StrangeWorld({"thick skin"}).open() as strange:
        broken = await command(strange, *quick)
    away = await command("ws://127.0.0.1:9", *quick)
    slip = await command("ws://127.0.0.1:9", "--act", "burn nonsense")
    far = await command("ws://example.org:9")
    assert broken.exit_code == 1
    assert "after ten it stayed open" in broken.stdout
    assert (away.exit_code, "Nothing could be checked" in away.stdout) == (4, True)
    assert (slip.exit_code, "--act takes NAME" in slip.stderr) == (2, True)
    assert far.exit_code == 2


async def test_the_minimal_world_is_lived_in_and_keeps_the_rules() -> None:
    """W1, W3, W4: the example runs as a process of its own; an NPC hears a person and is heard; `npc sim conformance` finds nothing."""
    world = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "world_adapter.examples.minimal_world", "0", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert world.stdin is not None
    assert world.stdout is not None
    try:
        url = (await asyncio.wait_for(world.stdout.readline(), 30)).decode().split()[-1]
        sink, npc = RecordingSink(), WebsocketWorld(url, npc="mira")
        async with running(npc, sink):
            await sink.until(lambda: sink.items and sink.actions)
            assert sink.actions == [["say", "look", "doze"]]
            world.stdin.write(b"mira: is it warm?\n")
            await sink.until(lambda: any(o.to == "mira" for o in sink.items))
            assert sink.items[-1].text == "is it warm?"
            said = await npc.act(id="a1", name="say", args={"text": "warm enough"}, timeout_s=5)
            assert said.state is ActState.DONE
            await sink.until(lambda: sink.items[-1].own)
        assert (await asyncio.wait_for(world.stdout.readline(), 10)).decode() == "mira: warm enough\n"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "npc", "sim", "conformance", url, "--npc", "mira", "--listen", "0.5", "--silence", "0", "--json",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 90)
        report = json.loads(out)
        assert (process.returncode, report["world"], report["held"], len(report["rules"])) == (0, "minimal", True, len(RULES))
        assert report["actions_tried"] == ["look", "doze"]
        unseen = {rule["id"] for rule in report["rules"] if rule["verdict"] == "unseen"}
        assert unseen == {"bye", "token", "unknown-npc", "silence-asks", "silence-ends"}
    finally:
        world.stdin.close()  # the end of its input is the end of the world
        await asyncio.wait_for(world.wait(), 20)


def test_a_world_needs_nothing_of_ours_but_the_wire() -> None:
    """W1: a game that imports the server gets neither the runtime nor the NPC, the model's client or the proving ground."""
    code = "import sys, world_adapter.server; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout.split())
    assert "world_adapter" in loaded
    assert not loaded & {"runtime", "npc", "sim", "diaries", "anthropic", "pydantic", "structlog", "tiktoken", "aiosqlite", "typer", "rich"}


_KEYS = st.sampled_from(["type", "properties", "anyOf", "items", "required", "op", "seq", "from", "schema", "x"])
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_TREES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=5))


@given(_TREES)
def test_no_frame_is_too_strange_to_be_judged(raw: Any) -> None:
    """W5: whatever a world sends is judged and never raises."""
    assert isinstance(shapes.schema(raw), list)
    assert isinstance(shapes.observation(raw), list)
    assert isinstance(shapes.actions([raw, {"name": "a", "schema": raw}]), list)
    assert isinstance(sample(raw), dict)
    assert "\n" not in shapes.shown(raw)


def test_a_schema_of_any_size_is_judged_in_its_time() -> None:
    """W5: a schema that fans out, and one a thousand deep, cost no more than their limit."""
    wide: dict[str, Any] = {"type": "object", "properties": {f"p{n}": {"anyOf": [{}] * 50} for n in range(1_000)}}
    assert any("more than" in fault for fault in shapes.schema(wide))
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(900):
        deep = {"type": "array", "items": deep}
    assert shapes.schema(deep) == []
    assert as_json(Outcome(plan=Plan(url="ws://x", npc="n"), findings=(), unreached="no"))["held"] is False


async def test_a_world_that_floods_and_never_reads_is_let_go() -> None:
    """W3, W5: whoever examines a strange world gets an answer, and keeps his memory."""
    gone = asyncio.Event()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        protocol = ServerProtocol(subprotocols=[Subprotocol("npc-world.v1.json")])
        protocol.receive_data(await reader.readuntil(b"\r\n\r\n"))
        [request] = protocol.events_received()
        protocol.send_response(protocol.accept(request))  # type: ignore[arg-type]  # a request is what comes first
        protocol.send_text(b'{"op":"hello","world":"w","epoch":"e","heartbeat_s":30,"max_frame":1048576,"limits":{},"time":""}')
        try:
            while True:
                protocol.send_text(b'{"op":"ping","n":"' + b"x" * 200_000 + b'"}')
                for data in protocol.data_to_send():
                    writer.write(data)
                await writer.drain()
        except (ConnectionError, OSError):
            gone.set()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    async with server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        quick = Patience(reply_s=1.0, listen_s=0.2, settle_s=0.1, silence_s=0.0)
        outcome = await asyncio.wait_for(examine(Plan(url=url, npc="mira", patience=quick)), 30)
        assert outcome.unreached
        await asyncio.wait_for(gone.wait(), 10)


def test_twenty_thousand_numbers_are_judged_in_their_time() -> None:
    """W3: a busy world costs what its observations cost, and not their square."""
    ledger = Ledger()
    stream = Stream(ledger)
    stream.begin("e1", 1)
    began = time.process_time()
    for seq in range(1, 20_001):
        stream.take({"seq": seq, "t": 1.0, "kind": "notice", "text": "a crow"})
    assert time.process_time() - began < 10
    assert next(f.why for f in ledger.findings() if f.rule.id == "numbering") == "up to 20000"
