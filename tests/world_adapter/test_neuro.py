"""The Neuro API's server side on real websockets, with the recorded games and with worse ones. W1 to W5."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.world_adapter.neuro_games import ESCAPE, GAME, GUESS, TICTACTOE, Game, Row, force, frame, offer, recording, result
from tests.world_adapter.peers import PATIENCE_S, RecordingSink
from world_adapter.errors import WorldRefused
from world_adapter.frames import ActResult, ActState
from world_adapter.neuro import NeuroWorld
from world_adapter.neuro_force import Patience

QUICK = Patience(greet_s=0.2, result_s=5.0, leave_s=0.3, leave_now_s=0.2)


class Parlour:
    """A world that listens on a free port, and the sink behind it."""

    def __init__(self, **how: Any) -> None:
        self.world = NeuroWorld("neuro+ws://127.0.0.1:0", npc="Warden", **{"patience": QUICK, **how})
        self.sink = RecordingSink()
        self.port = 0

    def act(self, tag: str, name: str, timeout_s: float = 8.0, **args: Any) -> asyncio.Task[ActResult]:
        return asyncio.create_task(self.world.act(id=tag, name=name, args=args, timeout_s=timeout_s))

    async def until_told(self, text: str) -> None:
        await self.sink.until(lambda: any(text in item.text for item in self.sink.items))

    async def until_offered(self, *names: str) -> None:
        await self.sink.until(lambda: self.sink.actions and self.sink.actions[-1] == list(names))


@asynccontextmanager
async def parlour(**how: Any) -> AsyncIterator[Parlour]:
    """Open for the length of a test; whatever `run` raised is raised."""
    opened = Parlour(**how)
    run = asyncio.create_task(opened.world.run(opened.sink, None))
    try:
        async with asyncio.timeout(PATIENCE_S):
            opened.port = await opened.world.listening()
        yield opened
    finally:
        await opened.world.close()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([run])
    await run


class Replay:
    """Plays the game's side of a recording on a real socket, and has the actions done that were done then."""

    def __init__(self, place: Parlour, name: str) -> None:
        self.rows = list(recording(name))
        self.tasks: dict[str, asyncio.Task[ActResult]] = {}
        self._place, self._sink = place, place.sink
        self._connections = self._forced = 0

    def said(self, command: str) -> list[Any]:
        """The data of the frames with this command that the game said."""
        return [row.frame.get("data") for row in self.rows if row.inward and row.command == command]

    @property
    def forces(self) -> int:
        """How many forces the NPC has been told of."""
        return sum(item.kind == "force" for item in self._sink.items)

    async def play(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            game: Game | None = None
            for row in self.rows:
                if row.note.startswith("connection "):
                    game = await self._connect(stack)
                elif game is not None and row.note.startswith("closed"):
                    await game.breaks()
                    await self._sink.until(lambda: len(self._sink.detached_why) == 1 + self._connections)
                    game = None
                elif game is not None and not row.note:
                    await self._step(game, row)

    async def _connect(self, stack: contextlib.AsyncExitStack) -> Game:
        game = await stack.enter_async_context(Game(self._place.port))
        self._connections += 1
        if self._connections > 1:
            await game.gets("actions/reregister_all")  # it says nothing by itself
            await self._sink.until(lambda: len(self._sink.attaches) == self._connections)
        return game

    async def _step(self, game: Game, row: Row) -> None:
        if row.inward:
            if row.command != "action/result" or row.frame["data"]["id"] in self.tasks:
                await game.says(json.dumps(row.frame))
            self._forced += row.command == "actions/force"
        elif row.command == "startup":
            assert (await game.gets("startup"))["data"]["session"]["characterId"] == "Warden"
        elif row.command == "action":
            await self._act(game, row.frame["data"])

    async def _act(self, game: Game, data: Mapping[str, Any]) -> None:
        tag, name = data["id"], data["name"]
        try:
            args = json.loads(data.get("data", "{}"))
        except ValueError:  # the recorder also tried what a model cannot do here
            args = {}
        await self._sink.until(lambda: self.forces == self._forced and self._sink.actions)
        if not any(name in listed for listed in self._sink.actions):
            assert (await self._place.world.act(id=tag, name=name, args=args, timeout_s=5)).error_code == "unknown_action"
            return
        await self._sink.until(lambda: name in self._sink.actions[-1])
        self.tasks[tag] = self._place.act(tag, name, **args)
        got = (await game.gets("action"))["data"]
        assert (got["id"], got["name"], json.loads(got["data"])) == (tag, name, args)


@pytest.mark.parametrize("name", [TICTACTOE, GUESS, ESCAPE])
async def test_recorded_games_on_a_real_socket(name: str) -> None:
    """W1, W3: each recorded game gets the actions that it got, and the NPC is told everything once, numbered without a gap."""
    async with parlour() as place:
        replay = Replay(place, name)
        await replay.play()
        results = {data["id"]: data for data in replay.said("action/result")}
        assert replay.tasks
        for tag, task in replay.tasks.items():
            answer = await asyncio.wait_for(task, PATIENCE_S)
            if tag in results:
                assert (answer.state is ActState.DONE, answer.text) == (results[tag]["success"], results[tag]["message"])
            else:
                assert answer.error_code == "link_lost"
        assert replay.forces == len(replay.said("actions/force"))
        contexts = [data["message"] for data in replay.said("context")]
        assert [item.text for item in place.sink.items if item.text in contexts] == contexts
        assert place.sink.seqs == list(range(1, len(place.sink.items) + 1))
        assert len(set(place.sink.epochs)) == 1
        assert all(item.t > 1_000_000_000 for item in place.sink.items)


async def test_a_game_that_goes_while_it_owes_a_result() -> None:
    """W1, C35: the outcome is unknown, at once, and nothing more is sent."""
    async with parlour() as place:
        async with Game(place.port) as game:
            await game.says(frame("startup"), offer("hit"))
            await place.until_offered("hit")
            act = place.act("a1", "hit")
            await game.gets("action")
        answer = await asyncio.wait_for(act, 2)
        assert (answer.state, answer.error_code) == (ActState.UNKNOWN, "link_lost")
        assert (await place.act("a2", "hit")).error_code == "not_attached"


async def test_a_late_result_is_news() -> None:
    """W1, C35: the first answer is "unknown"; the true end comes by `finished`."""
    async with parlour(patience=Patience(result_s=0.2)) as place, Game(place.port) as game:
        await game.says(frame("startup"), offer("hit"))
        await place.until_offered("hit")
        assert (await place.act("a1", "hit")).state is ActState.UNKNOWN
        await game.says(result("a1", "At last."))
        await place.sink.until(lambda: place.sink.results)
        assert [(each.id, each.text) for each in place.sink.results] == [("a1", "At last.")]


async def test_an_act_that_nobody_waits_for_any_more_ends_by_news() -> None:
    """C35: a cancelled caller harms nobody, and what became of it is told."""
    async with parlour() as place, Game(place.port) as game:
        await game.says(frame("startup"), offer("hit"))
        await place.until_offered("hit")
        act = place.act("a1", "hit")
        await game.gets("action")
        act.cancel()
        await asyncio.wait([act])
        await game.says(result("a1", "Hit."))
        await place.sink.until(lambda: place.sink.results)
        assert place.sink.results[0].text == "Hit."


async def test_another_game_stays_outside_while_one_is_played_and_gets_in_after_it() -> None:
    """W1: refused with a reason that a person can read; what is played is not disturbed."""
    async with parlour() as place:
        async with Game(place.port) as first:
            await first.says(frame("startup"), offer("hit"))
            await place.until_offered("hit")
            for opening in ([frame("startup", game="Chess")], []):
                async with Game(place.port) as second:
                    await second.says(*opening)
                    await second.until(lambda game=second: game.closed)  # type: ignore[misc]
                    assert second.closed == (1013, f"Warden already plays {GAME}")
            act = place.act("a1", "hit")
            await first.gets("action")
            await first.says(result("a1"))
            assert (await act).state is ActState.DONE
            assert len(place.sink.attaches) == 1
        async with Game(place.port) as second:
            await second.says(frame("startup", game="Chess"))
            await second.gets("startup")
            await place.sink.until(lambda: len(place.sink.attaches) == 2)
        assert [each["world"] for each in place.sink.attaches] == [GAME, "Chess"]


async def test_the_same_game_come_back_takes_the_place_of_its_older_link() -> None:
    """W3: a restart that left its old connection behind."""
    async with parlour() as place, Game(place.port) as first:
        await first.says(frame("startup"), offer("hit"))
        await place.until_offered("hit")
        async with Game(place.port) as second:
            await second.says(frame("startup"), offer("run"))
            await second.gets("startup")
            await first.until(lambda: first.closed)
            assert first.closed
            assert first.closed[0] == 1001
            await place.until_offered("run")
            assert len(place.sink.attaches) == 2


async def test_a_game_whose_line_is_dead_makes_room() -> None:
    """W3: half-open: it does not answer a ping, so even a game of another title gets in."""
    async with parlour(patience=replace(QUICK, still_there_s=0.3)) as place:
        with socket.create_connection(("127.0.0.1", place.port)) as dead:
            dead.sendall(
                b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await place.sink.until(lambda: place.sink.attaches)
            async with Game(place.port) as game:
                await game.says(frame("startup"))
                await game.gets("startup")
                await place.sink.until(lambda: len(place.sink.attaches) == 2)
                assert place.sink.attaches[-1]["world"] == GAME


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True), ("http://localhost:5173", True), ("http://127.0.0.1", True), ("file://", True), ("https://games.example", False),
        ("http://localhost.evil.example", False), ("null", False),
    ],
)  # fmt: skip
async def test_pages_of_other_sites_do_not_reach_the_npc(origin: str | None, allowed: bool) -> None:
    """C28: a browser on this machine would connect for any page that it shows."""
    async with parlour() as place:
        if allowed:
            async with Game(place.port, origin=origin) as game:
                await game.says(frame("startup"))
                await game.gets("startup")
        else:
            with pytest.raises(InvalidStatus) as refused:
                async with Game(place.port, origin=origin):
                    pass
            assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "url",
    [
        "neuro+ws://0.0.0.0:8000", "neuro+ws://192.0.2.7", "neuro+ws://[::]:1", "neuro+wss://127.0.0.1", "neuro+ws://u:p@127.0.0.1",
        "neuro+ws://127.0.0.1:99999", "neuro+ws://127.0.0.1/path", "neuro+ws://127.0.0.1?x=1", "ws://127.0.0.1", "neuro+ws://[",
    ],
)  # fmt: skip
def test_addresses_that_cannot_be_used(url: str) -> None:
    """W1, C28: one sentence with the way out, before anything listens."""
    with pytest.raises(WorldRefused, match=r"127\.0\.0\.1"):
        NeuroWorld(url, npc="Warden")


def test_addresses_that_can() -> None:
    """W1: the default is the one that games know; beyond this machine only on request."""
    assert NeuroWorld("neuro+ws://", npc="Warden").url == "neuro+ws://127.0.0.1:8000"
    assert NeuroWorld("neuro+ws://localhost:81/", npc="Warden").url == "neuro+ws://localhost:81"
    assert NeuroWorld("neuro+ws://[::1]", npc="Warden").url == "neuro+ws://[::1]:8000"
    assert NeuroWorld("neuro+ws://0.0.0.0:1", npc="Warden", allow_insecure=True).url == "neuro+ws://0.0.0.0:1"


async def test_a_port_that_is_taken_is_named_with_the_way_out() -> None:
    """W1."""
    async with parlour() as place:
        second = NeuroWorld(f"neuro+ws://127.0.0.1:{place.port}", npc="Maren")
        with pytest.raises(WorldRefused, match=rf"127\.0\.0\.1:{place.port} .*neuro\+ws://127\.0\.0\.1:PORT"):
            await second.run(RecordingSink(), None)


async def test_before_a_game_comes_the_npc_is_told_where_it_is_waited_for() -> None:
    """O4: whoever starts an NPC sees what to do next."""
    async with parlour() as place:
        await place.sink.until(lambda: place.sink.detached_why)
        assert place.sink.detached_why == [f"No game yet: waiting for one on ws://127.0.0.1:{place.port}."]
        assert place.sink.attaches == []


async def test_leaving_says_so_to_the_game() -> None:
    """W1: graceful first; a game that has saved is left at once."""
    async with parlour() as place, Game(place.port) as game:
        await game.says(frame("startup"))
        await game.gets("startup")
        await place.world.close()
        assert (await game.gets("shutdown/graceful"))["data"] == {"wants_shutdown": True}
        await game.says(frame("context", message="Saving.", silent=True), frame("shutdown/ready"))
        await game.until(lambda: game.closed)
        assert game.closed == (1001, "the NPC leaves")
        assert "shutdown/immediate" not in [each["command"] for each in game.got]
        await place.until_told("Saving.")
        await place.sink.until(lambda: place.sink.detached_why[-1] == "We left the game.")


async def test_a_game_that_says_nothing_more_is_left_all_the_same() -> None:
    """W1: then it hears that we are gone."""
    async with parlour() as place, Game(place.port) as game:
        await game.says(frame("startup"))
        await game.gets("startup")
        await place.world.close()
        await game.gets("shutdown/immediate")
        await game.until(lambda: game.closed)


async def test_a_sink_that_fails_ends_the_life_with_its_exception() -> None:
    """W1: as the seam has it."""

    async def life() -> None:
        async with parlour() as place, Game(place.port) as game:
            place.sink.fail_with = OSError(28, "disk full")
            await game.says(frame("startup"))
            await game.until(lambda: game.closed)

    with pytest.raises(OSError, match="disk full"):
        await life()


async def test_a_flood_behind_a_sink_that_hangs_is_counted() -> None:
    """W2: received = told + named as omitted."""
    async with parlour() as place, Game(place.port) as game:
        await game.says(frame("startup"), offer("hit"))
        await place.until_told("has started")
        place.sink.gate.clear()
        for n in range(7_000):
            await game.says(frame("context", message=f"line {n}", silent=True))
        await game.says(force("hit"))
        act = place.act("a1", "hit")
        await game.gets("action")
        await game.says(result("a1"))
        assert (await act).state is ActState.DONE
        place.sink.gate.set()
        await game.says(frame("context", message="the last", silent=True))
        await place.until_told("the last")
        told = [int(item.text.split()[1]) for item in place.sink.items if item.text.startswith("line ")]
        omitted = sum((item.data or {}).get("omitted", 0) for item in place.sink.items)
        assert told == sorted(told)
        assert len(told) + omitted == 7_000
        assert any(item.kind == "force" for item in place.sink.items)
        assert place.sink.seqs == list(range(1, len(place.sink.seqs) + 1))


@pytest.mark.parametrize(
    "message", ["{", b"\xff\xfe", "[" * 50_000, '{"command": 7}', "", '{"command":"actions/force","data":{"action_names":[{}]}}'],
)  # fmt: skip
async def test_hostile_frames_cost_themselves_and_nothing_else(message: str | bytes) -> None:
    """W5: the game goes on."""
    async with parlour() as place, Game(place.port) as game:
        await game.says(frame("startup"), message, offer("hit"))
        await place.until_offered("hit")
        assert place.world.counters.malformed == 1


async def test_a_frame_over_the_limit_ends_the_connection_and_not_the_life() -> None:
    """W5: 1009, and the game may come again."""
    async with parlour() as place:
        async with Game(place.port) as game:
            await game.says(frame("startup"))
            await game.gets("startup")
            with contextlib.suppress(Exception):  # the close may overtake the end of the sending
                await game.says("x" * 1_200_000)
            await game.until(lambda: game.closed)
            assert game.closed
            assert game.closed[0] == 1009
        async with Game(place.port) as game:
            await game.says(frame("startup"))
            await game.gets("startup")


async def test_the_verbs_that_games_do_not_have() -> None:
    """W1, C35: cancelling does nothing, and what became of an old action is not known."""
    async with parlour() as place:
        await place.world.cancel("a1")
        await place.world.query("old-3")
        await place.sink.until(lambda: place.sink.results)
        assert [(each.id, each.state) for each in place.sink.results] == [("old-3", ActState.UNKNOWN)]
