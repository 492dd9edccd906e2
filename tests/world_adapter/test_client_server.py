"""Client against server over real sockets on loopback (W1 to W4, C35): both are the product's own."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.world_adapter.peers import PATIENCE_S, RecordingSink, Relay, running
from world_adapter.client import MAX_FLIGHTS, WebsocketWorld
from world_adapter.codec import CODECS
from world_adapter.errors import WorldRefused, WorldUnreachable
from world_adapter.frames import ActionSpec, ActProgress, ActResult, ActState, Gate, Limits, Resume, Rollback, Speaker
from world_adapter.link import Patience
from world_adapter.server import ActFailed, Request, WorldServer

SAY = ActionSpec(name="say", description="Say it.", schema={"type": "object"})
WALK = ActionSpec(name="walk", description="Go.", schema={"type": "object"}, kind="ongoing", moves_body=True)
CODEC = pytest.mark.parametrize("subprotocol", list(CODECS))


class Village:
    """What the game does with actions."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.arrive = asyncio.Event()

    async def on_act(self, request: Request) -> str | ActResult | None:
        self.asked.append(request)
        match request.args.get("how"):
            case "refuse":
                raise ActFailed("the door is locked", code="locked")
            case "crash":
                raise RuntimeError("a bug of the game's")
            case "quietly":
                return None
            case "fully":
                return ActResult(id="whatever", state=ActState.DONE, text="sold", data={"gold": 3})
        if request.name == "walk":
            request.progress("half way", 0.5)
            await self.arrive.wait()
            return "You are there."
        return f"You said {request.args.get('text')!r}."


@asynccontextmanager
async def village(**options: Any) -> AsyncIterator[tuple[WorldServer, Village, int]]:
    game = Village()
    async with WorldServer("village", on_act=game.on_act, actions=[SAY, WALK], **options) as server:
        yield server, game, await server.listen()


def client(port: int, **options: Any) -> WebsocketWorld:
    return WebsocketWorld(f"ws://127.0.0.1:{port}", npc=options.pop("npc", "mira"), **options)


@CODEC
async def test_an_npc_lives_in_a_world(subprotocol: str) -> None:
    """W1, W4: attach, hear, act, be refused, walk, be told of it, in both codecs."""
    asides: list[object] = []
    limits = Limits(say_chars=80, acts_per_s=4.0)
    async with village(limits=limits) as (server, game, port):
        server.observe("mira", "You wake up.", kind="scene")  # before anyone is there to hear it
        sink, world = RecordingSink(), client(port, subprotocols=[subprotocol], on_aside=asides.append)
        async with running(world, sink):
            await sink.until(lambda: sink.items)
            assert sink.attaches == [
                {
                    "npc": "mira", "world": "village", "epoch": server.epoch, "session": f"{server.epoch}/mira", "resumed": False,
                    "lost": 0, "limits": limits,
                },
            ]  # fmt: skip
            bob = Speaker(id="p1", name="Bob", kind="player")
            server.observe("mira", "Hello 👋\x00", kind="speech", speaker=bob, to="mira", data={"x": [1, 2.5]}, key="k", prio=8, wt="noon")
            await server.until_acked("mira")
            heard = sink.items[-1]
            assert (heard.seq, heard.text, heard.speaker, heard.to, heard.data) == (2, "Hello 👋␀", bob, "mira", {"x": [1, 2.5]})
            assert sink.actions == [["say", "walk"]]

            said = await world.act(id="a1", name="say", args={"text": "hi\ud800"}, timeout_s=5)
            assert (said.state, said.text) == (ActState.DONE, "You said 'hi�'.")
            locked = await world.act(id="a2", name="say", args={"how": "refuse"}, timeout_s=5)
            assert (locked.state, locked.error_code, locked.error_message) == (ActState.FAILED, "locked", "the door is locked")
            assert (await world.act(id="a3", name="say", args={"how": "crash"}, timeout_s=5)).error_code == "internal"
            assert (await world.act(id="a4", name="dance", args={}, timeout_s=5)).error_code == "unknown_action"
            assert (await world.act(id="a5", name="say", args={"how": "fully"}, timeout_s=5)).data == {"gold": 3}
            assert (await world.act(id="a6", name="say", args={"how": "quietly"}, timeout_s=5)).state is ActState.DONE

            walking = await world.act(id="w1", name="walk", args={"to": "inn"}, timeout_s=5)
            assert walking.state is ActState.ACCEPTED
            game.arrive.set()
            await sink.until(lambda: sink.results)
            assert sink.results == [ActResult(id="w1", state=ActState.DONE, text="You are there.")]
            game.arrive.clear()
            await world.act(id="w2", name="walk", args={}, timeout_s=5)
            await world.cancel("w2")
            await sink.until(lambda: len(sink.results) == 2)
            assert sink.results[1].state is ActState.CANCELLED

            server.set_actions([SAY], npc="mira")
            await sink.until(lambda: sink.actions[-1] == ["say"])
            server.gate("mira", "verified", value=True, why="quest log")
            epoch = server.rollback(since="day 1")
            server.observe("mira", "It never happened.")
            await sink.until(lambda: sink.epochs[-1] == epoch)
            assert sink.items[-1].seq == 1
            assert asides == [
                ActProgress(id="w1", text="half way", fraction=0.5),
                ActProgress(id="w2", text="half way", fraction=0.5),
                Gate(name="verified", value=True, why="quest log"),
                Rollback(epoch=epoch, since="day 1"),
            ]
            await server.until_acked("mira")
        assert world.counters.malformed == world.counters.lost == 0
        assert [request.id for request in game.asked] == ["a1", "a2", "a3", "a5", "a6", "w1", "w2"]


async def test_a_line_that_breaks_again_and_again_loses_and_doubles_nothing() -> None:
    """W3: cut in the middle of a flood; each observation once, in order, and acknowledged at the end."""
    async with village() as (server, _game, port), Relay(port).open() as relay:
        sink, world = RecordingSink(), client(relay.port)
        async with running(world, sink):
            for cut in range(4):
                for n in range(300):
                    server.observe("mira", f"{cut}/{n}")
                await sink.until_items(cut * 300 + 50)
                relay.cut()
            await server.until_acked("mira", 1_200)
            await sink.until(lambda: len(sink.attaches) > len(sink.detached_why))
            assert sink.seqs == list(range(1, 1_201))
            assert len(sink.attaches) == len(sink.detached_why) + 1 >= 4
            assert all(attach["resumed"] for attach in sink.attaches[1:])


async def test_a_new_life_goes_on_where_the_last_one_stopped() -> None:
    """W3, C34: resume from the durable watermark; what was acknowledged does not come again."""
    async with village() as (server, _game, port):
        first, world = RecordingSink(), client(port)
        for n in range(5):
            server.observe("mira", str(n))
        async with running(world, first):
            await server.until_acked("mira", 5)
            resume = world.resume
        assert resume is not None
        assert (resume.world, resume.epoch, resume.seq) == ("village", server.epoch, 5)
        assert resume.session == first.attaches[0]["session"] != ""
        server.observe("mira", "while you slept")
        second = RecordingSink()
        async with running(client(port), second, Resume(session="", epoch=server.epoch, seq=5, world="village")):
            await second.until(lambda: second.items)
        assert second.seqs == [6]
        assert second.attaches[0]["resumed"]


async def test_a_failing_disk_leaves_everything_unacknowledged() -> None:
    """W2: nothing is acked before `observed` returned; its exception ends the run; the next life hears it all."""
    async with village() as (server, _game, port):
        sink = RecordingSink()
        sink.fail_with = OSError("disk full")
        server.observe("mira", "one")
        with pytest.raises(OSError, match="disk full"):
            await client(port).run(sink, None)
        assert server.acked("mira") == 0
        second = RecordingSink()
        async with running(client(port), second):
            await server.until_acked("mira", 1)
        assert second.seqs == [1]


async def test_a_world_that_was_restarted_is_found_again() -> None:
    """W3: same port, new epoch, numbers from 1, actions of the old life unknown."""
    game = Village()
    sink = RecordingSink()
    first = WorldServer("village", on_act=game.on_act, actions=[SAY, WALK])
    port = await first.listen()
    world = client(port)
    async with running(world, sink):
        first.observe("mira", "old")
        await first.until_acked("mira")
        assert (await world.act(id="w1", name="walk", args={}, timeout_s=5)).state is ActState.ACCEPTED
        await first.close(retry_after_s=0.0)
        async with WorldServer("village", on_act=game.on_act, actions=[SAY]) as second:
            assert await second.listen(port=port) == port
            second.observe("mira", "new")
            await second.until_acked("mira")
            assert [(o.seq, o.text) for o in sink.items] == [(1, "old"), (1, "new")]
            assert sink.epochs == [first.epoch, second.epoch]
            # The first world cancelled the walk when it went; had it died, the second would be asked and not know it.
            await sink.until(lambda: sink.results)
            assert sink.results[0].state in {ActState.CANCELLED, ActState.UNKNOWN}
            assert len(sink.detached_why) == 1


async def test_what_the_world_could_not_keep_is_said() -> None:
    """W2, W3: more than the replay window before anyone came: counted, never silent."""
    async with village(keep=1_000) as (server, _game, port):
        for n in range(1_500):
            server.observe("mira", str(n))
        sink = RecordingSink()
        async with running(client(port), sink):
            await server.until_acked("mira")
        assert sink.attaches[0]["lost"] == sink.seqs[0] - 1 > 0
        assert sink.seqs == list(range(sink.seqs[0], 1_501))


async def test_a_slow_disk_neither_stops_the_reading_nor_loses_anything() -> None:
    """W2, E02: while the sink holds everything up, heartbeats go on; what did not fit meanwhile is replayed."""
    async with village(heartbeat_s=0.1) as (server, _game, port):
        sink, world = RecordingSink(), client(port, patience=Patience(unstored=50))
        async with running(world, sink):
            sink.gate.clear()
            for n in range(500):
                server.observe("mira", str(n))
                if n % 10 == 0:
                    await asyncio.sleep(0)
            # Several times the silence that would be death, with an action answered in the middle of it.
            for n in range(4):
                assert (await world.act(id=f"a{n}", name="say", args={}, timeout_s=5)).state is ActState.DONE
                await asyncio.sleep(0.12)
            assert world.counters.attaches == 1
            assert world.counters.deferred > 0
            sink.gate.set()
            await server.until_acked("mira")
            assert sink.seqs == list(range(1, 501))


async def test_small_deliveries_travel_together_when_the_sink_is_slow() -> None:
    """W2: one durable write for many observations."""
    async with village() as (server, _game, port):
        sink, world = RecordingSink(), client(port)
        async with running(world, sink):
            await sink.until(lambda: sink.attaches)
            sink.gate.clear()
            for n in range(20):
                server.observe("mira", "x")
                # A result comes after what was told before it, so each observation has arrived, by itself.
                await world.act(id=f"a{n}", name="say", args={}, timeout_s=PATIENCE_S)
            sink.gate.set()
            await server.until_acked("mira")
            assert sum(sink.batches) == 20
            assert len(sink.batches) <= MAX_FLIGHTS + 2


async def test_who_may_attach() -> None:
    """W1, C18: 4001 without the right token, 4004 for an unknown NPC; each final, in one sentence, and the token in none of them."""
    async with village(token={"mira": "s3cret-m", "bob": "s3cret-b"}, npcs=["mira"]) as (server, _game, port):
        for npc, token, code in (("mira", None, 4001), ("mira", "s3cret-b", 4001), ("eve", "s3cret-m", 4001), ("bob", "s3cret-b", 4004)):
            with pytest.raises(WorldRefused) as refused:
                await client(port, npc=npc, token=token).run(RecordingSink(), None)
            assert refused.value.code == code
            assert "s3cret" not in str(refused.value)
            assert "\n" not in str(refused.value)
        sink = RecordingSink()
        async with running(client(port, token="s3cret-m"), sink):
            await server.until_attached("mira")


async def test_the_newest_attach_wins_and_the_older_stops() -> None:
    """W3: 4003 is final, or two processes would throw each other out for ever."""
    async with village() as (server, _game, port):
        first, second = RecordingSink(), RecordingSink()
        task = asyncio.create_task(client(port).run(first, None))
        await first.until(lambda: first.attaches)
        async with running(client(port), second):
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(WorldRefused) as refused:
                    await task
            assert refused.value.code == 4003
            assert len(first.detached_why) == 1
            server.observe("mira", "for the second")
            await server.until_acked("mira")
            assert second.seqs == [1]


async def test_nobody_there_is_one_clear_sentence() -> None:
    """O1: an unreachable world is told from one that went away later."""
    async with village() as (_server, _game, port):
        pass
    with pytest.raises(WorldUnreachable, match=rf"No world answered at ws://127\.0\.0\.1:{port} within 0\.3 s"):
        await client(port, attach_within_s=0.3).run(RecordingSink(), None)


@pytest.mark.parametrize(
    "url",
    ["http://x", "ws://", "ws://[::1", "ws://u:pw@127.0.0.1:1", "ws://127.0.0.1:1/?token=abc", "ws://example.org:80", "ws://127.0.0.1:99999"],
)
def test_an_address_that_would_leak_or_cannot_work_is_refused(url: str) -> None:
    """C18: no token in a URL, no plain text off this machine."""
    with pytest.raises(WorldRefused) as refused:
        WebsocketWorld(url, npc="mira")
    assert "pw" not in str(refused.value)
    assert "abc" not in str(refused.value)


def test_plain_text_off_this_machine_needs_a_word() -> None:
    """C18: the override is explicit."""
    assert WebsocketWorld("ws://example.org:80", npc="mira", allow_insecure=True).url == "ws://example.org:80"
    assert WebsocketWorld("wss://example.org", npc="mira").url == "wss://example.org"
    assert WebsocketWorld("ws://localhost:1/x", npc="mira").url == "ws://localhost:1/x"


async def test_an_action_too_large_for_the_world_is_refused_here() -> None:
    """E05 (a): two megabytes of speech: an error result, the link stays up."""
    async with village(max_frame=1 << 20) as (server, game, port):
        sink, world = RecordingSink(), client(port)
        async with running(world, sink):
            await sink.until(lambda: sink.attaches)
            result = await world.act(id="a1", name="say", args={"text": "x" * 2_000_000}, timeout_s=5)
            assert (result.state, result.error_code) == (ActState.FAILED, "too_large")
            assert (await world.act(id="a2", name="say", args={}, timeout_s=5)).state is ActState.DONE
            assert not sink.detached_why
            assert server.attached("mira")
            assert len(game.asked) == 1


async def test_acting_without_a_link_fails_at_once() -> None:
    """C35: nothing was sent, and the result says so."""
    world = client(1)
    result = await world.act(id="a1", name="say", args={}, timeout_s=5)
    assert (result.state, result.error_code) == (ActState.FAILED, "not_attached")


async def test_an_action_is_not_sent_twice_under_one_id() -> None:
    """C35, C29: an id that is known is refused here, before and after its end."""
    async with village() as (_server, game, port):
        sink, world = RecordingSink(), client(port)
        async with running(world, sink):
            await sink.until(lambda: sink.attaches)
            await world.act(id="w1", name="walk", args={}, timeout_s=5)
            assert (await world.act(id="w1", name="walk", args={}, timeout_s=5)).error_code == "duplicate_id"
            game.arrive.set()
            await sink.until(lambda: sink.results)
            assert (await world.act(id="w1", name="walk", args={}, timeout_s=5)).error_code == "duplicate_id"
            assert len(game.asked) == 1


async def test_a_result_after_the_patience_ended_still_arrives() -> None:
    """P14, C35: unknown in time, true end by `finished`."""
    game = Village()

    async def slowly(request: Request) -> str:
        await game.arrive.wait()
        return f"{request.name} done"

    async with WorldServer("village", on_act=slowly, actions=[SAY]) as server:
        sink, world = RecordingSink(), client(await server.listen())
        async with running(world, sink):
            await sink.until(lambda: sink.attaches)
            result = await world.act(id="a1", name="say", args={}, timeout_s=0.05)
            assert (result.state, result.error_code) == (ActState.UNKNOWN, "timeout")
            game.arrive.set()
            await sink.until(lambda: sink.results)
            assert sink.results == [ActResult(id="a1", state=ActState.DONE, text="say done")]


async def test_what_became_of_an_action_of_a_former_life_can_be_asked() -> None:
    """C35: after a crash the outcome is unknown until the world tells; asked before the link is up, answered after."""
    async with village() as (_server, game, port):
        first, world = RecordingSink(), client(port)
        async with running(world, first):
            await first.until(lambda: first.attaches)
            await world.act(id="a1", name="say", args={"text": "hi"}, timeout_s=5)
        sink, world = RecordingSink(), client(port)
        task = running(world, sink)
        async with task:
            await world.query("early")
            await sink.until(lambda: sink.attaches)
            await world.query("a1")
            await sink.until(lambda: len(sink.results) == 2)
        assert {(r.id, r.state) for r in sink.results} == {("early", ActState.UNKNOWN), ("a1", ActState.DONE)}
        assert len(game.asked) == 1


async def test_a_relay_that_swallows_everything_is_noticed_by_both_sides() -> None:
    """E04: silence for two heartbeats is death: one detach, a new connection, and nothing lost."""
    async with village(heartbeat_s=0.2) as (server, _game, port), Relay(port).open() as relay:
        sink, world = RecordingSink(), client(relay.port)
        loop = asyncio.get_running_loop()
        async with running(world, sink):
            await sink.until(lambda: sink.attaches)
            relay.freeze()
            frozen_at = loop.time()
            server.observe("mira", "into the void")
            await sink.until(lambda: len(sink.attaches) == 2)
            assert loop.time() - frozen_at < 2 * 0.2 + 1.0
            await server.until_acked("mira")
            assert sink.seqs == [1]
            assert len(sink.detached_why) == 1
            assert "silent" in sink.detached_why[0]


async def test_over_tls_with_a_certificate_that_is_checked(tmp_path: Path) -> None:
    """W1: wss:// with a trusted certificate; an untrusted one is refused in one sentence."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]  # fmt: skip
    if shutil.which("openssl") is None:
        pytest.skip("no openssl command to make a certificate with")
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(cert, key)
    game = Village()
    async with WorldServer("village", on_act=game.on_act) as server:
        url = f"wss://127.0.0.1:{await server.listen(ssl=inside)}"
        with pytest.raises(WorldRefused, match="certificate is not trusted"):
            await WebsocketWorld(url, npc="mira").run(RecordingSink(), None)
        sink = RecordingSink()
        async with running(WebsocketWorld(url, npc="mira", ssl=ssl.create_default_context(cafile=str(cert))), sink):
            server.observe("mira", "safely")
            await server.until_acked("mira")
        assert sink.seqs == [1]


async def test_a_cancelled_run_leaves_no_task_and_no_socket() -> None:
    """C35: cancellation goes through, and the world sees the agent go."""
    async with village() as (server, _game, port):
        gone = asyncio.Event()
        server._on_detach = lambda _npc: gone.set()
        sink, world = RecordingSink(), client(port)
        task = asyncio.create_task(world.run(sink, None))
        await sink.until(lambda: sink.attaches)
        waiting = asyncio.create_task(world.act(id="w1", name="walk", args={"how": "wait"}, timeout_s=60))
        await asyncio.wait([waiting])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()
        assert len(sink.detached_why) == 1
        names = {"world link", "world to sink", "world writer"}
        assert not [t for t in asyncio.all_tasks() if t.get_name() in names]


async def test_what_a_game_gets_wrong_costs_nobody_his_world() -> None:
    """W1, W3: a callback that raises, words that are none: the next ones are told all the same."""

    def forgetful(npc: str) -> None:
        raise KeyError(npc)

    async def counts(request: Request) -> Any:
        return 5 if request.name == "say" else ActResult(id="", state=ActState.DONE, text=None)  # type: ignore[arg-type]  # a game's slip

    acts = [SAY, replace(SAY, name="look")]
    async with WorldServer("slips", on_act=counts, actions=acts, on_attach=forgetful, on_detach=forgetful) as server:
        port = await server.listen()
        for words in (None, 7, "and so on"):
            server.observe("mira", words)  # type: ignore[arg-type]  # a game's slip
        sink, world = RecordingSink(), WebsocketWorld(f"ws://127.0.0.1:{port}", npc="mira")
        async with running(world, sink):
            await sink.until(lambda: len(sink.items) == 3)
            assert [o.text for o in sink.items] == ["", "7", "and so on"]
            said = await world.act(id="a1", name="say", args={"text": "how many?"}, timeout_s=5)
            assert (said.state, said.text) == (ActState.DONE, "5")
            assert (await world.act(id="a2", name="look", args={}, timeout_s=5)).state is ActState.DONE
