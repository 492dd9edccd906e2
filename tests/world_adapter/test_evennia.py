"""The Evennia adapter against a stand-in that answers as real servers were recorded to. The real one is in tests/real."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.world_adapter.evennia_stand_in import NAME, USER, StandIn
from world_adapter.errors import WorldRefused, WorldUnreachable
from world_adapter.evennia import EvenniaWorld
from world_adapter.evennia_actions import ACTIONS, LINE_CHARS, Refusal, plan, split_speech
from world_adapter.evennia_link import Patience
from world_adapter.evennia_text import Ears, html_to_text, mentions, read_room
from world_adapter.evennia_wire import FIRST_RECEIVE_LIMIT
from world_adapter.frames import KINDS, ActionSpec, ActResult, ActState, Limits, Observation
from world_adapter.outbox import MAX_WAITING

QUICK = Patience(screen_s=1.0, login_s=3.0, ask_s=0.1, settle_s=0.1, window_s=0.2, glance_s=0.02)
EARS = Ears(name="Warden", aliases=("Keeper",), people={"Old Tom"})
TAVERN = read_room("Tavern\nA smoky tavern.\nExits: north, old gate and moat, and up\nCharacters: Bob and Carol\nYou see: a rusty mug")


class Listener:
    """A sink that keeps everything it is told, and can be made to hang."""

    def __init__(self) -> None:
        self.heard: list[Observation] = []
        self.epochs: list[str] = []
        self.attachments: list[dict[str, Any]] = []
        self.actions: Sequence[ActionSpec] = ()
        self.gone: list[str] = []
        self.ends: list[ActResult] = []
        self.open = asyncio.Event()
        self.open.set()
        self._news = asyncio.Condition()

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        assert epoch == self.attachments[-1]["epoch"]
        assert world == self.attachments[-1]["world"]
        await self.open.wait()
        self.heard += batch
        self.epochs += [epoch] * len(batch)
        await self._tell()

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.actions = actions

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None:
        self.attachments.append(
            {"npc": npc, "world": world, "epoch": epoch, "session": session, "resumed": resumed, "lost": lost, "limits": limits}
        )
        self._soon()

    def detached(self, *, why: str) -> None:
        self.gone.append(why)
        self._soon()

    def finished(self, result: ActResult) -> None:
        self.ends.append(result)
        self._soon()

    def _soon(self) -> None:
        self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def until(self, ready: Callable[[], bool], within_s: float = 10) -> None:
        async with asyncio.timeout(within_s), self._news:
            await self._news.wait_for(ready)

    async def one(self, fits: Callable[[Observation], bool]) -> Observation:
        """The first observation that fits, once it is there."""
        await self.until(lambda: any(fits(each) for each in self.heard))
        return next(each for each in self.heard if fits(each))


def attaching(server: StandIn, **kwargs: Any) -> EvenniaWorld:
    return EvenniaWorld(server.url, **{"user": USER, "password": server.password, "names": ("Keeper",), "patience": QUICK, **kwargs})


@asynccontextmanager
async def living(server: StandIn) -> AsyncIterator[tuple[EvenniaWorld, Listener]]:
    """An NPC attached to the server, its arrival heard."""
    world, sink = attaching(server), Listener()
    run = asyncio.create_task(world.run(sink, None))
    try:
        await sink.one(lambda o: o.kind == "scene")
        yield world, sink
    finally:
        await world.close()
        await run


async def act(world: EvenniaWorld, name: str, timeout_s: float = 10, tag: str = "a1", **args: str) -> ActResult:
    return await world.act(id=tag, name=name, args=args, timeout_s=timeout_s)


# Text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ('<br><span class="color-014">Tavern</span><br>A bar.<br>', "Tavern\nA bar."),
        ("&lt;b&gt;&amp;amp; &quot;q&quot; &#x27;x&#39;", "<b>&amp; \"q\" 'x'"),
        ('see <a href="https://x.example/?a=1&amp;b=2" target="_blank">https://x.example</a> now', "see https://x.example now"),
        ("I <3 you, 2 < 3 &c; &nbsp;end", "I <3 you, 2 < 3 &c;  end"),
        ("a<br/><BR >b<p>c</p><script>alert(1)</script>d<style>x{}</style>", "a\n\nb\nc\nd"),
        ("a&#0;b&#xD800;c", "a\ufffdb\ufffdc"),
        ("你好<br>👩‍👩‍👧 ñ", "你好\n👩‍👩‍👧 ñ"),
        ("&#" + "9" * 5_000 + ";", "&#" + "9" * 5_000 + ";"),
    ],
)
def test_markup_becomes_the_words_a_browser_shows(markup: str, text: str) -> None:
    """W1, W5."""
    assert html_to_text(markup) == text


@pytest.mark.parametrize("piece", ["<a ", "<!--", "&#", "<div>", '<a b="', 'a says, "'])
def test_hostile_markup_takes_no_longer_than_its_length(piece: str) -> None:
    """W5: the standard library's parser needs minutes for the first of these."""
    started = time.monotonic()
    text = html_to_text(piece * (900_000 // len(piece)))
    for sort in ("", "say", "whisper", "pose", "look", "traverse"):
        EARS.hear(text, sort=sort)
    assert time.monotonic() - started < 5


@given(st.text(), st.sampled_from(["", "say", "whisper", "pose", "look", "traverse", "inventory", "help", "odd"]), st.booleans())
def test_any_line_is_heard_whole(line: str, sort: str, from_channel: bool) -> None:
    """W2, W5: whatever comes is heard with all its words, under a kind of the protocol, and never both own and addressed."""
    heard = EARS.hear(line, sort=sort, from_channel=from_channel)
    assert heard.text == line
    assert heard.kind in KINDS
    assert not (heard.own and heard.addressed)


@pytest.mark.parametrize(
    ("line", "sort", "kind", "who", "own", "addressed"),
    [
        ('Bob says, "Hello"', "say", "speech", "Bob", False, False),
        ('Bob says, "Warden, did you hear?"', "say", "speech", "Bob", False, True),
        ('Bob says, "the wardens are coming"', "say", "speech", "Bob", False, False),
        ('Bob says, "ask the KEEPER"', "say", "speech", "Bob", False, True),
        ('Old Tom(#12) says, "He said, "no" and left"', "say", "speech", "Old Tom", False, False),
        ('You say, "Warden is my name"', "say", "speech", "Warden", True, False),
        ('Carol whispers: "mug"', "whisper", "whisper", "Carol", False, True),
        ('You whisper to Bob, "I follow"', "whisper", "whisper", "Warden", True, False),
        ('Bob sagt: "Hallo Warden"', "say", "speech", "Bob", False, True),
        ("Bob krächzt etwas", "say", "speech", "", False, False),
        ("Bob draws a map in the mud.", "pose", "emote", "Bob", False, False),
        ("Old Tom's hat falls before Warden.", "pose", "emote", "Old Tom", False, True),
        ("Warden nods.", "pose", "emote", "Warden", True, False),
        ("Wardens march by.", "pose", "emote", "Wardens", False, False),
        ("Bob is leaving Tavern, heading for Yard.", "traverse", "presence", "Bob", False, False),
        ("Bob arrives to Tavern from Yard.", "traverse", "presence", "Bob", False, False),
        ("admin arrives to Tavern from Limbo.", "teleport", "presence", "admin", False, False),
        ("Carol has entered the game.", "", "presence", "Carol", False, False),
        ("Carol has left the game (quit).", "", "presence", "Carol", False, False),
        ("Bob drops a rusty mug.", "", "item", "Bob", False, False),
        ("Bob gives you a rusty mug.", "", "item", "Bob", False, True),
        ("You pick up a rusty mug.", "", "item", "Warden", True, False),
        ("Account Bob pages: come here", "", "whisper", "Bob", False, True),
        ('admin shouts "hear ye"', "", "speech", "admin", False, False),
        ("A bell tolls.", "", "notice", "", False, False),
        ("You are carrying:\n a rusty mug", "inventory", "item", "", False, False),
        ("Help for say", "help", "notice", "", False, False),
    ],
)
def test_a_line_is_heard_for_what_it_is(line: str, sort: str, kind: str, who: str, own: bool, addressed: bool) -> None:
    """W1, W6: speaker, kind, own echo and addressee, with the wording of the default commands."""
    heard = EARS.hear(line, sort=sort)
    assert (heard.kind, heard.who, heard.own, heard.addressed) == (kind, who, own, addressed)


def test_a_channel_is_heard_as_speech_that_came_from_afar() -> None:
    """W1."""
    heard = EARS.hear("[Public] Bob: is Warden here?", from_channel=True)
    assert (heard.kind, heard.who, heard.channel, heard.words, heard.addressed) == ("speech", "Bob", "Public", "is Warden here?", True)
    log = EARS.hear("[MudInfo] [2026-11-29(21:00)]: Bob connected", from_channel=True)
    assert (log.kind, log.who) == ("notice", "")


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [("hey warden!", "Warden", True), ("wardenship", "Warden", False), ("守卫你好吗", "守卫", True), ("", "Ann", False), ("x", "", False)],
)
def test_a_name_is_found_as_a_word(text: str, name: str, found: bool) -> None:
    """W6."""
    assert mentions(text, [name]) is found


def test_a_room_is_read_from_its_own_lines_and_not_from_its_description() -> None:
    """W1, W5: whoever may write a description cannot put an exit into it."""
    room = read_room("Cell(#7)\nA note says:\nExits: quit, py 1\nDark.\nExits: iron door(#9) and north\nYou see: a bed")
    assert room is not None
    assert (room.name, room.exits, room.things) == ("Cell", ("iron door", "north"), ("a bed",))
    assert room.leads("Iron Door")
    assert not room.leads("quit")


# Commands


def lines(name: str, **args: object) -> list[str] | str:
    planned = plan(name, args, TAVERN)
    return planned.code if isinstance(planned, Refusal) else [command.line for command in planned]


@pytest.mark.parametrize(
    ("name", "args", "sent"),
    [
        ("say", {"text": "Hello\nquit\r\n there"}, ["say Hello quit there"]),
        ("say", {"text": "50 | 50 |r"}, ["say 50 || 50 ||r"]),
        ("say", {"text": " \n "}, "bad_args"),
        ("say", {}, "bad_args"),
        ("whisper", {"to": "Bob = x, Carol", "text": "a = b"}, ["whisper Bob x Carol = a = b"]),
        ("whisper", {"to": "=", "text": "a"}, "bad_args"),
        ("emote", {"text": "shows {5} and $You() for $5"}, ["pose shows (5) and $ You() for $5"]),
        ("emote", {"text": "'s hat falls"}, ["pose's hat falls"]),
        ("emote", {"text": "x" * 5_000}, "too_long"),
        ("move", {"exit": "NORTH"}, ["NORTH"]),
        ("move", {"exit": "n"}, ["north"]),
        ("move", {"exit": "go to the north"}, ["north"]),
        ("move", {"exit": "old gate and moat"}, ["old gate and moat"]),
        ("move", {"exit": "quit"}, "no_exit"),
        ("move", {"exit": "py self.delete()"}, "no_exit"),
        ("move", {"exit": "moat\nquit"}, "no_exit"),
        ("look", {}, ["look"]),
        ("look", {"at": "here"}, ["look"]),
        ("look", {"at": "mug = x"}, ["look mug x"]),
        ("get", {"thing": "rusty\nmug"}, ["get rusty mug"]),
        ("give", {"thing": "mug = Carol", "to": "Bob"}, ["give mug Carol = Bob"]),
        ("inventory", {"junk": 1}, ["inventory"]),
        ("say", {"text": 17}, ["say 17"]),
        ("quit", {}, "unknown_action"),
    ],
)
def test_an_action_is_exactly_its_command(name: str, args: dict[str, object], sent: list[str] | str) -> None:
    """W4, W5: no argument can become another command, another addressee or markup."""
    assert lines(name, **args) == sent


def test_where_no_exit_is_shown_only_directions_can_be_tried() -> None:
    """W5."""
    for room in (None, read_room("Fog\nNothing to see.")):
        refused, tried = plan("move", {"exit": "quit"}, room), plan("move", {"exit": "Up"}, room)
        assert isinstance(refused, Refusal)
        assert not isinstance(tried, Refusal)
        assert [command.line for command in tried] == ["up"]


@given(st.text(alphabet=st.sampled_from("ab |.!?。\u2028 \n"), max_size=400), st.integers(min_value=5, max_value=50))
def test_speech_is_split_without_losing_a_sign(text: str, limit: int) -> None:
    """W6: every line within the limit, nothing but blanks lost, a doubled colour mark never torn."""
    whole = " ".join(text.split()).replace("|", "||")
    parts = split_speech(whole, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(whole.split())
    assert all(part.count("|") % 2 == 0 for part in parts)


def test_the_actions_have_schemas_that_a_model_can_fill() -> None:
    """W4."""
    assert [spec.name for spec in ACTIONS] == ["say", "whisper", "emote", "move", "look", "get", "give", "inventory"]
    for spec in ACTIONS:
        assert set(spec.schema["required"]) <= set(spec.schema["properties"])
        assert spec.moves_body == (spec.name == "move")


# Attaching


async def test_attaching_tells_who_we_are_where_and_what_can_be_done() -> None:
    """W1, W4: id, world, limits and actions, then the first sight; numbers begin at 1."""
    async with StandIn() as server, living(server) as (world, sink):
        (attachment,) = sink.attachments
        assert attachment["npc"] == NAME
        assert attachment["world"].startswith("standin@127.0.0.1:")
        assert attachment["limits"].say_chars == LINE_CHARS
        assert sink.actions == ACTIONS
        scene = sink.heard[0]
        assert (scene.seq, scene.kind, scene.own, scene.key) == (1, "scene", False, "scene")
        assert scene.data is not None
        assert (scene.data["room"], scene.data["exits"], scene.data["people"]) == ("Tavern", ["north"], ["Bob"])
        assert world.url == server.url
    assert sink.gone == ["We left the world."]


async def test_a_bad_login_is_refused_in_one_sentence_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    """W1, C18: final, with the server's reason and the way out; the password is nowhere, not even in debug logs."""
    caplog.set_level(logging.DEBUG)
    secret = "hunter2 hunter2"
    async with StandIn() as server:
        world = attaching(server, password=secret)
        with pytest.raises(WorldRefused) as refused:
            await world.run(Listener(), None)
    said = str(refused.value)
    assert "Username and/or password is incorrect" in said
    assert "NPC_EVENNIA_PASSWORD" in said
    assert "\n" not in said
    assert secret not in said + repr(world) + repr(vars(world)) + caplog.text


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("evennia+ws://bob:pw@127.0.0.1:4002", "NPC_EVENNIA_USER"),
        ("evennia+ws://game.example:4002", "in the clear"),
        ("evennia+ws://127.evil.example:4002", "in the clear"),
        ("evennia+ws://127.0.0.1:99999999", "HOST:PORT"),
        ("http://127.0.0.1", "HOST:PORT"),
    ],
)
def test_an_unusable_address_is_refused_with_the_way_out(url: str, reason: str) -> None:
    """W1, C18."""
    with pytest.raises(WorldRefused, match=reason):
        EvenniaWorld(url, user=USER, password="x")


async def test_nobody_there_is_told_within_the_time_given() -> None:
    """W1: the operator who mistyped a port does not wait for ever."""
    async with StandIn() as server:
        world = attaching(server, attach_within_s=0.2)
    with pytest.raises(WorldUnreachable, match="No Evennia websocket answers"):
        async with asyncio.timeout(5):
            await world.run(Listener(), None)


async def test_a_portal_without_its_game_server_is_told_apart() -> None:
    """W1: the portal of a server that is down or reloading takes connections all the same."""
    async with StandIn() as server:
        server.up = False
        with pytest.raises(WorldUnreachable, match="its game server does not answer"):
            await attaching(server, attach_within_s=0.2).run(Listener(), None)


async def test_a_password_that_the_command_cannot_carry() -> None:
    """W1: quotation marks end a name in Evennia's `connect`; the login goes by its input function."""
    async with StandIn() as server:
        server.password = 'a "quoted" word'
        async with living(server) as (_, sink):
            assert len(sink.attachments) == 1


async def test_an_account_that_logs_in_outside_its_body() -> None:
    """W1: the body is taken by `ic`."""
    async with StandIn() as server:
        server.puppets = False
        async with living(server) as (_, sink):
            assert "ic" in server.commands
            assert sink.attachments[0]["npc"] == NAME


async def test_somebody_else_with_the_same_login_is_final() -> None:
    """W1, W3: two of us would throw each other out for ever."""
    async with StandIn() as server:
        world, sink = attaching(server), Listener()
        run = asyncio.create_task(world.run(sink, None))
        await sink.until(lambda: bool(sink.attachments))
        await server.hang_up(1000, "Logged in from elsewhere. Disconnecting.")
        with pytest.raises(WorldRefused, match="elsewhere"):
            await run
        assert len(sink.gone) == 1
        assert server.logins == 1


async def test_a_broken_link_comes_back_as_a_new_epoch_and_the_gap_is_told() -> None:
    """W2, W3: kicked, we return; numbers begin again under another epoch; nothing pretends that nothing was missed."""
    async with StandIn() as server, living(server) as (_, sink):
        await server.tell('Bob says, "one"', "say")
        await sink.one(lambda o: o.text == 'Bob says, "one"')
        await server.hang_up(1000, "")
        await sink.until(lambda: len(sink.attachments) == 2)
        gap = await sink.one(lambda o: "heard nothing" in o.text)
        assert gap.kind == "notice"
        await sink.until(lambda: sum(o.kind == "scene" for o in sink.heard) == 2)
        first, second = (at["epoch"] for at in sink.attachments)
        assert first != second
        for epoch in (first, second):
            seqs = [o.seq for o, at in zip(sink.heard, sink.epochs, strict=True) if at == epoch]
            assert seqs == list(range(1, len(seqs) + 1))
        assert len(sink.gone) == 1


# Hearing


async def test_whispers_and_the_own_name_are_addressed_to_us() -> None:
    """W1, W6: `to` is our own id, urgent; other talk is not."""
    async with StandIn() as server, living(server) as (_, sink):
        await server.tell('Bob says, "Keeper, a beer!"', "say")
        await server.tell('Bob whispers: "<span class="">psst</span>"', "whisper")
        await server.tell('Bob says, "nobody here"', "say")
        last = await sink.one(lambda o: "nobody" in o.text)
        named, whispered = sink.heard[-3:-1]
        assert (named.kind, named.to, whispered.kind, whispered.to, last.to) == ("speech", NAME, "whisper", NAME, None)
        assert named.speaker is not None
        assert (named.speaker.name, named.speaker.kind) == ("Bob", "player")
        assert named.prio > last.prio
        assert named.data == {"words": "Keeper, a beer!", "evennia": "say"}


async def test_being_moved_by_others_is_news() -> None:
    """W1: a room that we did not walk into."""
    async with StandIn() as server, living(server) as (_, sink):
        server.room = "Yard"
        await server.look()
        moved = await sink.one(lambda o: o.kind == "moved")
        assert not moved.own
        assert moved.text.startswith("Yard\nA muddy yard")


async def test_hostile_frames_and_texts_change_nothing() -> None:
    """W5: junk is counted and passed over, a megabyte and a half of talk arrives, control characters do not."""
    async with StandIn() as server, living(server) as (_, sink):
        for junk in ("", "nonsense", "[]", "[1,2,3]", "{}", '["text",[],{}]', '["text",[null],{}]', '["x"]', "[" * 50_000, b"\xff\x00"):
            await server.raw(junk)
        await server.tell(f'Bob says, "{"x" * 1_500_000} end"', "say")
        await server.tell('Bob says, "a\x00b\x1b[31m \ud800 <|endoftext|>"', "say")
        clean = await sink.one(lambda o: "endoftext" in o.text)
        assert clean.text == 'Bob says, "a␀b␛[31m � <|endoftext|>"'
        assert clean.text.encode()
        big = sink.heard[-2]
        assert "characters cut" in big.text
        assert len(big.text) > 900_000
        assert len(sink.attachments) == 1


async def test_our_password_is_scrubbed_should_the_server_say_it() -> None:
    """C18, C32."""
    async with StandIn() as server, living(server) as (_, sink):
        await server.tell(f"You tried to connect with {server.password}!")
        heard = await sink.one(lambda o: "You tried" in o.text)
        assert heard.text == "You tried to connect with […]!"


async def test_a_sink_that_hangs_costs_bounded_memory_and_a_counted_note() -> None:
    """W2: numbers stay gapless, states are merged, the addressed line survives, and what went is counted."""
    total = MAX_WAITING + 1_500
    async with StandIn() as server, living(server) as (world, sink):
        sink.open.clear()
        await server.tell('Bob says, "first"', "say")
        await server.tell('Bob says, "Warden, keep this"', "say")
        for number in range(total):
            await server.tell(f"noise {number}")
        # The server's answer to a command comes behind all of that.
        assert (await act(world, "look", timeout_s=30)).state is ActState.DONE
        sink.open.set()
        await sink.one(lambda o: o.text == f"noise {total - 1}")
        note = next(o for o in sink.heard if o.data and "omitted" in o.data)
        assert note.data is not None
        noises = sum(o.text.startswith("noise") for o in sink.heard)
        assert noises + int(note.data["omitted"]) == total
        assert str(note.data["omitted"]) in note.text
        assert any("keep this" in o.text for o in sink.heard)
        assert [o.seq for o in sink.heard] == list(range(1, len(sink.heard) + 1))


async def test_a_game_with_the_drop_in_tells_the_room_as_data() -> None:
    """W1, W5: what prose cannot tell is known from data: exits for `move`, people for names; a change of it is one keyed scene."""
    async with StandIn() as server:
        server.sights = {"exits": ["north", "hole|in, the wall"], "people": ["<b>Old Tom</b>(#3)"], "things": ["rusty mug", 7, None]}
        async with living(server) as (world, sink):
            seen = await sink.one(lambda o: o.data is not None and o.data.get("evennia") == "npc_look")
            assert (seen.kind, seen.key, seen.own) == ("scene", "scene", False)
            assert seen.text == "Tavern\nExits: north, hole|in, the wall\nHere: Old Tom\nThings: rusty mug"
            looked = await act(world, "look")
            assert looked.text.startswith("Tavern\nA smoky tavern")  # the words are the game's
            assert looked.data is not None
            assert (looked.data["people"], looked.data["things"]) == (["Old Tom"], ["rusty mug"])
            server.sights = {**server.sights, "people": ["Old Tom", "Carol"]}
            await server.tell("Carol has entered the game.")
            changed = await sink.one(lambda o: o.kind == "scene" and o.text.endswith("Here: Old Tom, Carol\nThings: rusty mug"))
            assert changed.seq > seen.seq
            server.sights = {**server.sights, "exits": "not a list", "people": [], "things": []}
            walked = await act(world, "move", exit="north")
            assert walked.state is ActState.DONE
            assert walked.data is not None
            assert walked.data["room"] == "Yard"


async def test_a_message_beyond_our_limit_costs_itself_and_the_next_is_heard() -> None:
    """W3, W5: 1009 is no reason to meet the same end again: the link comes back and takes more."""
    async with StandIn() as server, living(server) as (_, sink):
        giant = f'Bob says, "{"x" * (FIRST_RECEIVE_LIMIT + 10)}"'
        await server.tell(giant, "say")
        await sink.until(lambda: len(sink.attachments) == 2)
        await server.tell(giant, "say")
        heard = await sink.one(lambda o: o.kind == "speech")
        assert "characters cut" in heard.text
        assert len(sink.attachments) == 2


# Acting


async def test_saying_gives_the_echo_as_result_and_as_own_observation() -> None:
    """W6: the echo is known as ours, so it can be kept from starting a turn; the room's talk does not get into the result."""
    async with StandIn() as server, living(server) as (world, sink):
        server.scripted["say Well | met"] = []
        server.scripted["say Well || met"] = [
            ('Bob says, "Well | met"', "say"),
            ('You say, "<span class="">Well | met</span>"', "say"),
            ("Carol has entered the game.", ""),
        ]
        result = await act(world, "say", text="Well | met")
        assert (result.id, result.state, result.text) == ("a1", ActState.DONE, 'You say, "Well | met"')
        await sink.one(lambda o: o.kind == "presence")
        bob, own, carol = sink.heard[-3:]
        assert [(o.own, o.speaker.name if o.speaker else "") for o in (bob, own, carol)] == [(False, "Bob"), (True, NAME), (False, "Carol")]
        assert own.speaker is not None
        assert (own.speaker.id, own.speaker.kind) == (NAME, "npc")


@pytest.mark.parametrize(
    ("name", "args", "command", "answer", "state", "text"),
    [
        ("get", {"thing": "moon"}, "get moon", [("Could not find &#x27;moon&#x27;.", "")], ActState.FAILED, "Could not find 'moon'."),
        ("get", {"thing": "anvil"}, "get anvil", [("The anvil sits too firmly.", "")], ActState.FAILED, "The anvil sits too firmly."),
        ("get", {"thing": "mug"}, "get mug", [("You pick up a mug.", "")], ActState.DONE, "You pick up a mug."),
        ("give", {"thing": "mug", "to": "Al"}, "give mug = Al", [("You give a mug to Al.", "")], ActState.DONE, "You give a mug to Al."),
        ("look", {"at": "Bob"}, "look Bob", [("Bob<br>A man.", "look")], ActState.DONE, "Bob\nA man."),
        ("look", {"at": "sky"}, "look sky", [("It is blue.", "")], ActState.DONE, "It is blue."),
        ("inventory", {}, "inventory", [("You are not carrying anything.", "inventory")], ActState.DONE, "You are not carrying anything."),
        ("emote", {"text": "bows."}, "pose bows.", [("Warden bows.", "pose")], ActState.DONE, "Warden bows."),
        (
            "emote", {"text": "bows."}, "pose bows.", [("Traceback (most recent call last):<br>  File x", "")], ActState.FAILED,
            "The game stumbled over this command.",
        ),
        ("say", {"text": "Hallo"}, "say Hallo", [("Du sagst: „Hallo“", "say")], ActState.DONE, "Du sagst: „Hallo“"),
        ("say", {"text": "psst"}, "say psst", [], ActState.FAILED, "The words did not come back: nobody may have heard them."),
        ("move", {"exit": "north"}, "north", [("You cannot go there.", "")], ActState.FAILED, "You cannot go there."),
        ("move", {"exit": "north"}, "north", [("The ice is too thin.", "")], ActState.FAILED, "The ice is too thin."),
    ],
)  # fmt: skip
async def test_what_the_game_answers_is_the_result(
    name: str, args: Mapping[str, Any], command: str, answer: list[tuple[str, str]], state: ActState, text: str,
) -> None:  # fmt: skip
    """W4: done only where success shows, the game's own words as text."""
    async with StandIn() as server, living(server) as (world, _):
        server.scripted[command] = answer
        result = await world.act(id="x", name=name, args=args, timeout_s=5)
        assert (result.state, result.text) == (state, text)
        assert server.commands[-1] == command


async def test_arrival_is_the_sight_of_the_other_room() -> None:
    """W1, W4: the result holds the room, one short own observation says that we moved, and the next exit is judged by it."""
    async with StandIn() as server, living(server) as (world, sink):
        assert (await act(world, "move", exit="south")).error_code == "no_exit"
        result = await act(world, "move", exit="north")
        assert result.state is ActState.DONE
        assert result.text.startswith("Yard\nA muddy yard")
        assert result.data is not None
        assert result.data["room"] == "Yard"
        moved = await sink.one(lambda o: o.kind == "moved")
        assert (moved.own, moved.text) == (True, "You are now in Yard.")
        assert (await act(world, "move", exit="south")).state is ActState.DONE
        assert server.commands == ["north", "south"]


async def test_a_slow_walk_is_waited_for() -> None:
    """W4: "You start walking" is no arrival; the sight of the room is, seconds later, with the world going on meanwhile."""
    async with StandIn() as server, living(server) as (world, sink):
        server.scripted["north"] = [("You start walking north.", "")]
        walk = asyncio.create_task(act(world, "move", exit="north"))
        await server.until(lambda: "north" in server.commands)
        await server.tell('Bob says, "wait"', "say")
        await sink.one(lambda o: "wait" in o.text)
        assert (await act(world, "say", tag="a2", text="on my way")).state is ActState.DONE
        assert not walk.done()
        server.room = "Yard"
        await server.look()
        result = await walk
        assert (result.state, result.text.split("\n")[:2]) == (ActState.DONE, ["You start walking north.", "Yard"])
        assert (await sink.one(lambda o: o.kind == "moved")).own


async def test_an_outcome_that_comes_after_the_time_limit_is_told_later() -> None:
    """W4, C35: unknown first, never repeated, the truth by `finished`."""
    async with StandIn() as server, living(server) as (world, sink):
        server.scripted["north"] = [("You start walking north.", "")]
        result = await act(world, "move", timeout_s=0.5, tag="walk", exit="north")
        assert (result.state, result.error_code) == (ActState.UNKNOWN, "timeout")
        server.room = "Yard"
        await server.look()
        await sink.until(lambda: bool(sink.ends))
        assert (sink.ends[0].id, sink.ends[0].state) == ("walk", ActState.DONE)
        assert server.commands.count("north") == 1


async def test_a_reload_delays_an_act_and_sends_it_once() -> None:
    """W3: while the game server restarts behind its portal, commands would be lost; the act waits for it."""
    async with StandIn() as server, living(server) as (world, sink):
        server.up = False
        saying = asyncio.create_task(act(world, "say", text="hello"))
        await server.until(lambda: server.swallowed >= 6)  # it asks again and again, and holds the words back
        assert server.commands == []
        server.up = True
        assert (await saying).state is ActState.DONE
        assert server.commands == ["say hello"]
        assert len(sink.attachments) == 1


async def test_a_character_that_lost_its_body_logs_in_again() -> None:
    """W3: a server's reset logs everyone out and leaves the connections open; nothing would ever be heard again."""
    async with StandIn() as server, living(server) as (world, sink):
        server.in_body = False
        assert (await act(world, "say", text="hello")).error_code == "not_attached"
        await sink.until(lambda: len(sink.attachments) == 2)
        assert (await act(world, "say", text="hello")).state is ActState.DONE
        assert server.commands == ["say hello"]


async def test_the_loss_of_the_body_is_noticed_without_an_act() -> None:
    """W3: half-open in the game's sense, found by the watch."""
    async with StandIn() as server:
        world, sink = attaching(server, patience=Patience(ask_s=0.1, watch_s=0.1)), Listener()
        run = asyncio.create_task(world.run(sink, None))
        await sink.until(lambda: bool(sink.attachments))
        server.in_body = False
        await sink.until(lambda: len(sink.attachments) == 2)
        await world.close()
        await run


async def test_an_act_during_a_long_outage_fails_unsent() -> None:
    """W3, C35."""
    async with StandIn() as server, living(server) as (world, _):
        server.up = False
        result = await act(world, "say", timeout_s=0.3, text="hello")
        server.up = True
        assert (result.state, result.error_code) == (ActState.FAILED, "not_attached")
        assert (await act(world, "look")).state is ActState.DONE
        assert server.commands == ["look"]


async def test_an_act_whose_answer_a_restart_swallowed_is_unknown_and_not_repeated() -> None:
    """C35: it may have been done, so nobody but the NPC may do it again."""
    async with StandIn() as server, living(server) as (world, _):
        server.deaf_after.add("get rusty mug")
        getting = asyncio.create_task(act(world, "get", thing="rusty mug"))
        await server.until(lambda: "get rusty mug" in server.commands)
        server.up = True
        result = await getting
        assert (result.state, result.error_code) == (ActState.UNKNOWN, "lost")
        assert server.commands == ["get rusty mug"]


async def test_a_look_that_a_restart_swallowed_is_taken_again() -> None:
    """C35: only what changes nothing may be done twice."""
    async with StandIn() as server, living(server) as (world, _):
        server.deaf_after.add("inventory")
        server.scripted["inventory"] = [("You are not carrying anything.", "inventory")]
        looking = asyncio.create_task(act(world, "inventory"))
        await server.until(lambda: "inventory" in server.commands)
        server.deaf_after.clear()
        server.up = True
        assert (await looking).state is ActState.DONE
        assert server.commands == ["inventory", "inventory"]


async def test_a_link_that_breaks_under_an_act_makes_it_unknown() -> None:
    """W3, C35."""
    async with StandIn() as server, living(server) as (world, sink):
        server.scripted["north"] = [("You start walking north.", "")]
        walk = asyncio.create_task(act(world, "move", exit="north"))
        await server.until(lambda: "north" in server.commands)
        await server.hang_up(1001)
        assert (await walk).state is ActState.UNKNOWN
        await sink.until(lambda: bool(sink.gone))
        assert (await act(world, "look")).error_code == "not_attached"


async def test_long_speech_goes_out_in_lines_that_the_game_takes() -> None:
    """W6: split at sentences, one result; beyond all patience it is refused unsent."""
    async with StandIn() as server, living(server) as (world, _):
        text = "This is one sentence of the story. " * 60
        result = await act(world, "say", text=text)
        assert result.state is ActState.DONE
        assert len(server.commands) == 3
        assert all(len(line) <= LINE_CHARS + 4 and line.endswith(".") for line in server.commands)
        assert (await act(world, "say", text=text * 20)).error_code == "too_long"
        assert len(server.commands) == 3


async def test_acts_are_paced_and_one_at_a_time() -> None:
    """W6: however many are asked for at once, they reach the server one by one, below its limit."""
    async with StandIn() as server, living(server) as (world, _):
        started = time.monotonic()
        results = await asyncio.gather(*(act(world, "say", tag=f"a{n}", text=f"line {n}") for n in range(4)))
        assert [result.text for result in results] == [f'You say, "line {n}"' for n in range(4)]
        assert time.monotonic() - started > 0.9
        assert server.commands == [f"say line {n}" for n in range(4)]


async def test_a_server_without_echo_is_listened_to_by_the_clock() -> None:
    """W1, W4: acts work without the correlating input, by what their answers look like."""
    async with StandIn() as server:
        server.has_echo = False
        async with living(server) as (world, sink):
            assert sink.attachments[0]["npc"] == NAME
            assert (await act(world, "say", text="hello")).text == 'You say, "hello"'
            assert (await act(world, "get", thing="moon")).state is ActState.FAILED
            assert (await act(world, "move", exit="north")).state is ActState.DONE
            assert (await act(world, "move", exit="south")).state is ActState.DONE


async def test_what_became_of_an_act_of_an_earlier_life_is_unknown_here() -> None:
    """C35: the game keeps no record, and says so rather than guess."""
    async with StandIn() as server, living(server) as (world, sink):
        await world.query("old")
        await world.cancel("old")
        await sink.until(lambda: bool(sink.ends))
        assert (sink.ends[0].id, sink.ends[0].state) == ("old", ActState.UNKNOWN)


async def test_a_sink_that_fails_ends_the_run_with_its_fault() -> None:
    """W2: what could not be stored is never taken for stored."""

    class Broken(Listener):
        async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
            raise OSError(28, "disk full")

    async with StandIn() as server:
        with pytest.raises(OSError, match="disk full"):
            async with asyncio.timeout(10):
                await attaching(server).run(Broken(), None)
