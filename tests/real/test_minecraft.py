"""NPCs in a real Minecraft game by the bridge that we ship: nothing is a stand-in but the people, and in one test the model."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.lives import start
from tests.real.minecraft_game import TOKEN, Bridge, Game, Packages, bridged, playing
from world_adapter.client import WebsocketWorld
from world_adapter.codec import SUBPROTOCOL_JSON
from world_adapter.errors import WorldRefused
from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation, Resume

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.xdist_group("minecraft")]

WAIT_S = 40.0


class Listener:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[Observation] = []
        self.actions: dict[str, ActionSpec] = {}
        self.attachments: list[dict[str, Any]] = []
        self.ends: list[ActResult] = []
        self.hold: asyncio.Event | None = None
        self._news = asyncio.Condition()

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        self.heard += batch
        await self._tell()
        if self.hold is not None:
            await self.hold.wait()

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.actions = {each.name: each for each in actions}

    def attached(
        self, *, npc: str, world: str, epoch: str, resumed: bool, lost: int, limits: Limits, **more: Any,
    ) -> None:  # fmt: skip
        self.attachments.append({"npc": npc, "resumed": resumed, "lost": lost, "say_chars": limits.say_chars})

    def detached(self, *, why: str) -> None:
        pass

    def finished(self, result: ActResult) -> None:
        self.ends.append(result)
        self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def one(self, fits: Callable[[Observation], bool]) -> Observation:
        """The first observation that fits, once it is there."""
        await self.until(lambda: any(fits(each) for each in self.heard))
        return next(each for each in self.heard if fits(each))

    async def end_of(self, action: str) -> ActResult:
        """The final result of an action that was accepted."""
        await self.until(lambda: any(each.id == action for each in self.ends))
        return next(each for each in self.ends if each.id == action)

    async def until(self, true: Callable[[], bool]) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(true), WAIT_S)


@asynccontextmanager
async def living(url: str, name: str, resume: Resume | None = None) -> AsyncIterator[tuple[WebsocketWorld, Listener]]:
    """An attached NPC that stands in the game."""
    world, sink = WebsocketWorld(url, npc=name, token=TOKEN, attach_within_s=WAIT_S), Listener()
    run = asyncio.create_task(world.run(sink, resume))
    try:
        if resume is None:
            await sink.one(lambda o: o.kind == "scene")
        yield world, sink
    finally:
        await world.close()
        await run


class Doing:
    """Actions of one NPC, each under an id of its own."""

    def __init__(self, world: WebsocketWorld, name: str) -> None:
        self._world, self._name, self.last = world, name, ""
        self._count = 0

    async def __call__(self, action: str, **args: Any) -> ActResult:
        self._count += 1
        self.last = f"{self._name}-{self._count}"
        return await self._world.act(id=self.last, name=action, args=args, timeout_s=20)


def where(data: Mapping[str, Any] | None) -> tuple[float, float, float]:
    assert data is not None
    position = data.get("position", data)
    return position["x"], position["y"], position["z"]


async def test_an_npc_hears_speaks_walks_and_is_cut_off(minecraft: Packages, tmp_path: Path) -> None:
    """W1, W2, W3, W4, C29: chat both ways, arrival by the server's own position, a cancelled walk, a cut link, and a storm of movements."""
    async with playing(minecraft, tmp_path / "game") as game, bridged(minecraft, tmp_path / "bridge", game.port) as bridge:
        async with living(bridge.url, "Warden") as (world, sink):
            act = Doing(world, "w")
            assert sink.attachments == [{"npc": "Warden", "resumed": False, "lost": 0, "say_chars": 256}]
            assert sink.actions["walk_to"].kind == "ongoing"
            assert sink.actions["walk_to"].moves_body
            assert sink.actions["look_around"].effect == "read"
            assert sink.actions["attack"].effect == "write"
            await game.do("join", name="Bob")
            came = await sink.one(lambda o: o.kind == "presence")
            assert (came.text, came.key) == ("Bob has joined the game.", "presence:Bob")
            await _words(game, sink, act)
            await _walks(game, sink, act, world)
            await _body(game, sink, act)
            await _storm(game, sink)
            assert world.resume is not None
            resume = world.resume
        await _cut(game, bridge, list(sink.heard), resume)


async def _words(game: Game, sink: Listener, act: Doing) -> None:
    await game.do("say", name="Bob", text="Warden, <b>bring</b> the | key!")
    asked = await sink.one(lambda o: o.kind == "speech")
    assert asked.speaker is not None
    assert (asked.text, asked.to, asked.own) == ("Warden, <b>bring</b> the | key!", "Warden", False)
    assert (asked.speaker.name, asked.speaker.kind) == ("Bob", "player")

    said = await act("say", text='Yes: "now" {soon} | 你好')
    assert (said.state, said.data) == (ActState.DONE, {"echoed": True})
    assert await game.hears("Bob", lambda text: text.startswith("<Warden>")) == '<Warden> Yes: "now" {soon} | 你好'
    echo = await sink.one(lambda o: o.kind == "speech" and o.own)
    assert echo.speaker is not None
    assert echo.speaker.kind == "npc"

    for words, code in (("x" * 257, "bad_args"), ("/op Warden", "bad_args"), ("  \n /op Warden", "bad_args"), ("\n", "bad_args")):
        refused = await act("say", text=words)
        assert (refused.state, refused.error_code) == (ActState.FAILED, code)
    # This server has no whispering: what it answers is what the NPC learns.
    whispered = await act("whisper", to="Bob", text="psst")
    assert (whispered.error_code, whispered.error_message) == ("refused", "the server answered: Command not found")
    assert (await act("whisper", to="Bob /op Warden", text="psst")).error_code == "no_such_player"
    assert (await act("fly")).error_code == "unknown_action"
    assert not any("/op" in text for _, text in game.lines)


async def _walks(game: Game, sink: Listener, act: Doing, world: WebsocketWorld) -> None:
    await game.do("move", name="Warden", x=8.5, y=5, z=8.5)
    await sink.one(lambda o: o.kind == "moved" and o.key == "self" and not o.own and "moved to (8.5, 5, 8.5)" in o.text)

    assert (await act("walk_to", x=14, y=5, z=3)).state is ActState.ACCEPTED
    arrived = await sink.end_of(act.last)
    assert arrived.state is ActState.DONE
    truth = where(await game.do("where", name="Warden"))
    assert math.dist(truth, (14.5, 5, 3.5)) <= 2
    assert math.dist(truth, where(arrived.data)) <= 0.5

    assert (await act("walk_to", x=300, z=300)).state is ActState.ACCEPTED
    far = act.last
    underway = len(sink.heard)
    await sink.until(lambda: any(o.key == "self" and o.own for o in sink.heard[underway:]))
    await world.cancel(far)
    stopped = await sink.end_of(far)
    assert stopped.state is ActState.CANCELLED
    assert stopped.text.startswith("Stopped: cancelled. You are at (")

    # Two walks: the newer ends the older, and `stop` ends that.
    await act("walk_to", x=-300, z=-300)
    first = act.last
    await act("walk_to", x=300, z=-300)
    second = act.last
    assert (await sink.end_of(first)).state is ActState.CANCELLED
    assert (await act("stop")).text.startswith("You stop: you are at (")
    assert (await sink.end_of(second)).state is ActState.CANCELLED

    await act("walk_to", x=14, y=70, z=3)
    refused = await sink.end_of(act.last)
    assert (refused.state, refused.error_code) == (ActState.FAILED, "blocked")
    assert "you are at (" in (refused.error_message or "")
    assert [each.id for each in sink.ends] == list(dict.fromkeys(each.id for each in sink.ends))


async def _body(game: Game, sink: Listener, act: Doing) -> None:
    await game.do("hurt", name="Warden", health=11)
    hurt = await sink.one(lambda o: o.kind == "hurt")
    assert (hurt.text, hurt.prio) == ("You are hurt: health 11 of 20.", 9)
    look = await act("look_around")
    assert look.data is not None
    assert (look.data["health"], look.data["players"]) == (11, ["Bob"])
    assert "Health 11 of 20" in look.text

    x, y, z = (math.floor(value) for value in where(await game.do("where", name="Warden")))
    assert (await act("dig", x=x + 1, y=y - 1, z=z)).state is ActState.ACCEPTED
    dug = await sink.end_of(act.last)
    assert dug.state is ActState.DONE, dug
    assert (await act("dig", x=x + 40, y=y - 1, z=z)).state is ActState.ACCEPTED
    assert (await sink.end_of(act.last)).error_code in {"too_far", "out_of_sight"}
    await act("place", item="stone", x=x + 1, y=y - 1, z=z)
    assert (await sink.end_of(act.last)).error_code == "no_such_item"
    assert (await act("inventory")).text.startswith("You carry ")


async def _storm(game: Game, sink: Listener) -> None:
    """Thirty creatures that move twenty times a second cost a few words, and every word of Bob's comes through."""
    before = len(sink.heard)
    storm = asyncio.create_task(game.do("storm", name="Warden", creatures=30, ms=3_000))
    for number in range(10):
        await game.do("say", name="Bob", text=f"line {number}")
    moved = (await storm)["moved"]
    await sink.one(lambda o: o.text == "line 9")
    heard = sink.heard[before:]
    assert [o.text for o in heard if o.kind == "speech" and o.text.startswith("line")] == [f"line {number}" for number in range(10)]
    places = [o for o in heard if (o.key or "").startswith("entity:")]
    assert moved > 500
    assert 0 < len(places) < moved / 3
    assert all(o.prio == 1 and o.kind == "moved" and not o.own for o in places)
    assert not any((o.data or {}).get("position") == {"x": 0, "y": 0, "z": 0} for o in places)


async def _cut(game: Game, bridge: Bridge, heard: list[Observation], resume: Resume) -> None:
    """Bob speaks while nobody listens, then into a link that is cut at every few words: each word once, in order, under one epoch."""
    for number in range(5):
        await game.do("say", name="Bob", text=f"alone {number}")
    await game.hears("Bob", lambda text: text == "<Bob> alone 4")
    for part in range(3):
        text = f"cut {part}"
        async with living(bridge.url, "Warden", replace(resume, seq=heard[-1].seq)) as (_, sink):
            await game.do("say", name="Bob", text=text)
            await sink.until(lambda text=text, sink=sink: any(o.text == text for o in sink.heard))  # type: ignore[misc]
            await game.do("say", name="Bob", text=f"gone {part}")
        assert sink.attachments == [{"npc": "Warden", "resumed": True, "lost": 0, "say_chars": 256}]
        heard += sink.heard
    async with living(bridge.url, "Warden", replace(resume, seq=heard[-1].seq)) as (_, sink):
        await game.do("say", name="Bob", text="the end")
        await sink.one(lambda o: o.text == "the end")
        heard += sink.heard
    assert [o.seq for o in heard] == list(range(1, len(heard) + 1))
    words = [o.text for o in heard if o.kind == "speech" and o.text.startswith(("alone", "cut", "gone"))]
    assert words == [f"alone {n}" for n in range(5)] + [f"{word} {n}" for n in range(3) for word in ("cut", "gone")]


async def test_the_server_goes_down_and_the_bridge_is_not_fooled(minecraft: Packages, tmp_path: Path) -> None:
    """W1, W3, W5, C18: bad tokens, names, frames and second attaches; a kick; a Minecraft server that goes away and comes back."""
    async with playing(minecraft, tmp_path / "game") as game, bridged(minecraft, tmp_path / "bridge", game.port) as bridge:
        port = game.port
        await _strangers(bridge)
        async with living(bridge.url, "Maren") as (world, sink):
            act = Doing(world, "m")
            await game.do("kick", name="Maren", why="Go & rest")
            await sink.one(lambda o: o.kind == "notice" and "thrown out: Go & rest" in o.text)
            scenes = [o for o in sink.heard if o.kind == "scene"]
            await sink.until(lambda: sum(o.kind == "scene" for o in sink.heard) > len(scenes))
            assert (await act("walk_to", x=300, z=300)).state is ActState.ACCEPTED
            walk = act.last
            await game.do("crash")
            lost = await sink.end_of(walk)
            assert (lost.state, lost.error_code) == (ActState.FAILED, "not_in_game")
            refused = await act("say", text="Is anybody there?")
            assert (refused.state, refused.error_code) == (ActState.FAILED, "not_in_game")
            outages = [o for o in sink.heard if o.kind == "notice" and "out of the game" in o.text]
            assert len(outages) == 2  # one for the kick, one for the crash, however often it was tried
            seen = sum(o.kind == "scene" for o in sink.heard)
            async with playing(minecraft, tmp_path / "game", port=port):
                await sink.until(lambda: sum(o.kind == "scene" for o in sink.heard) > seen)
                assert (await act("say", text="There you are.")).data == {"echoed": True}
                await _second_attach(bridge, world)
            assert len(sink.attachments) == 1
        bridge.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(bridge.process.wait(), 10) == 0
        log = bridge.log.read_text()
        assert "fault" not in log
        assert TOKEN not in log


async def _second_attach(bridge: Bridge, world: WebsocketWorld) -> None:
    """Whoever attaches later is the mind; the older one is told with 4003."""
    async with await greeted(bridge, "Odo") as older, await greeted(bridge, "Odo") as newer:
        assert await code_of(older) == 4003
        await newer.send(json.dumps({"op": "query", "id": "never seen"}))
        assert await said(newer, "act_result") == {"op": "act_result", "id": "never seen", "state": "unknown"}
        act = {"op": "act", "id": "once", "name": "say", "args": {"text": "I say this once."}}
        for _ in range(3):
            await newer.send(json.dumps(act))
        assert (await said(newer, "act_result"))["state"] == "done"
        await newer.send(json.dumps({"op": "query", "id": "once"}))
        assert (await said(newer, "act_result"))["data"] == {"echoed": True}
    assert world.counters.attaches == 1


async def _strangers(bridge: Bridge) -> None:
    for token in (None, "wrong"):
        with pytest.raises(WorldRefused, match="token"):
            await WebsocketWorld(bridge.url, npc="Maren", token=token).run(Listener(), None)
    for name in ("no", "Old Tom", "seventeen_letters", "Jörg"):
        async with opened(bridge) as ws:
            await ws.send(json.dumps({"op": "attach", "npc": name}))
            assert await code_of(ws) == 4004, name
    async with opened(bridge) as ws:
        for _ in range(10):
            await ws.send("{")
        assert await code_of(ws) == 4002
    async with opened(bridge) as ws:
        await ws.send(json.dumps({"op": "attach", "npc": "x" * 300_000}))
        assert await code_of(ws) == 1009
    with pytest.raises(InvalidStatus, match="403"):
        await connect(bridge.url, subprotocols=[SUBPROTOCOL_JSON], origin="http://127.0.0.1", proxy=None)  # type: ignore[list-item, arg-type]
    with pytest.raises(InvalidStatus, match="400"):
        await connect(bridge.url, subprotocols=["chat"], proxy=None)  # type: ignore[list-item]


def opened(bridge: Bridge) -> connect:
    return connect(
        bridge.url, subprotocols=[SUBPROTOCOL_JSON], proxy=None, additional_headers={"Authorization": f"Bearer {TOKEN}"},  # type: ignore[list-item]
    )  # fmt: skip


async def greeted(bridge: Bridge, name: str) -> ClientConnection:
    """A bare connection that is attached and whose NPC stands in the game."""
    ws = await opened(bridge)
    await ws.send(json.dumps({"op": "attach", "npc": name}))
    await said(ws, "welcome")
    await said(ws, "obs", lambda frame: frame["kind"] == "scene")
    return ws


async def said(ws: ClientConnection, op: str, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
    async with asyncio.timeout(WAIT_S):
        while True:
            frame: dict[str, Any] = json.loads(await ws.recv())
            for each in [frame, *({"op": "obs", **item} for item in frame.get("items", ()))]:
                if each["op"] == op and fits(each):
                    return each


async def code_of(ws: ClientConnection) -> int | None:
    """The code with which the bridge closes."""
    with pytest.raises(ConnectionClosed) as closed:
        await said(ws, "nothing of this name")
    return closed.value.rcvd.code if closed.value.rcvd else None


PERSONA = """
[character]
name = "Ilse"
description = "You watch over the meadow."

[speech]
plain_text_is_speech = false

[wake]
idle_s = 3600.0
idle_max_s = 7200.0
"""


class Watch:
    """A model that walks to a place when it is asked to come, and says so once it is there."""

    def __init__(self) -> None:
        self.tools: set[str] = set()

    def reply(self, request: Mapping[str, Any]) -> Reply:
        reading, told = Reading(request), str(request["messages"])
        self.tools |= set(reading.tools)
        if not reading.tools or "come here" not in told or "Here I am" in told:
            return Reply(content=[{"type": "text", "text": "(nothing to do)"}])
        if "You have arrived" in told:
            return Reply(content=[{"type": "tool_use", "name": "say", "input": {"text": "Here I am, Bob."}}])
        if "walk_to" not in told:
            return Reply(content=[{"type": "tool_use", "name": "walk_to", "input": {"x": 8, "z": 8}}])
        return Reply(content=[{"type": "text", "text": "(on the way)"}])


async def test_npc_attach_lives_in_a_real_minecraft_game(minecraft: Packages, tmp_path: Path) -> None:
    """W1, W4, W6, C18: `npc attach` in a process of its own hears a player, walks, and answers once it has arrived."""
    persona, home, watch = tmp_path / "ilse.toml", tmp_path / "home", Watch()
    persona.write_text(PERSONA, encoding="utf-8")
    async with (
        playing(minecraft, tmp_path / "game") as game,
        bridged(minecraft, tmp_path / "bridge", game.port) as bridge,
        MessagesAPI(watch, 12_000) as model,
    ):
        await game.do("join", name="Bob")
        process = await start(
            *(bridge.url, "--persona", str(persona), "--home", str(home), "--base-url", model.base_url, "--window", "12000"),
            NPC_WORLD_TOKEN=TOKEN,
        )  # fmt: skip
        assert process.stdout is not None
        output = asyncio.create_task(process.stdout.read())
        try:
            await game.hears("Bob", lambda text: text == "Ilse joined the game.")
            await game.do("say", name="Bob", text="Ilse, come here please!")
            await game.hears("Bob", lambda text: text == "<Ilse> Here I am, Bob.")
            x, _, z = where(await game.do("where", name="Ilse"))
            assert math.dist((x, z), (8.5, 8.5)) <= 2
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        written = b"".join([await output, *(path.read_bytes() for path in home.rglob("*") if path.is_file())])
    assert {"say", "whisper", "look_around", "walk_to", "follow", "stop", "attack", "dig", "place", "inventory"} <= watch.tools
    assert all(record.outcome == "answered" for record in model.records)
    assert TOKEN.encode() not in written


def test_the_pure_parts_of_the_bridge(minecraft: Packages) -> None:
    """W2, W3, W4, W5: its own tests, without any game."""
    done = subprocess.run(
        ["node", "--test", "test/"], cwd=minecraft.bridge, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "# fail 0" in done.stdout
    assert "# pass 0" not in done.stdout


def test_a_mistake_in_the_arguments_is_one_sentence(minecraft: Packages) -> None:
    """C18: what is wrong and what would be right; no secret is taken from the arguments."""
    for words, sentence in (
        (["--minecraft", "nonsense"], "--minecraft must be HOST:PORT"),
        (["--sight", "far"], "--sight must be a number from 0 to 256."),
        (["--token", "secret"], "Unknown option '--token'"),
    ):
        done = subprocess.run(
            ["node", minecraft.bridge / "main.js", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr.splitlines()[0]
        assert "    at " not in done.stderr
