"""The world's half without a socket (W3, C29, C35): what outlives connections, and which connection counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from world_adapter.codec import JSON, MSGPACK, Codec
from world_adapter.effects import Hangup
from world_adapter.frames import Act, ActionSpec, ActResult, ActState, Attach, Batch, Gate
from world_adapter.host import Execute, Guest, Host, Stop

ACTIONS = (
    ActionSpec(name="say", description="", schema={"type": "object"}),
    ActionSpec(name="walk", description="", schema={"type": "object"}, kind="ongoing"),
)


def make_host(**options: Any) -> Host:
    return Host(world="w", epoch="e1", authorise=lambda _npc, _token: True, actions=ACTIONS, heartbeat_s=10.0, **options)


def says(guest: Guest, op: str, *, now: float = 0.0, **fields: Any) -> None:
    guest.received(json.dumps({"op": op, **fields}).encode(), now=now)


def pulled(guest: Guest, *, now: float = 0.0) -> list[dict[str, Any]]:
    """Every message that the guest has for its agent now."""
    messages: list[dict[str, Any]] = []
    while (data := guest.next_message(now=now)) is not None:
        messages.append(json.loads(data))
    return messages


def attached(host: Host, npc: str = "mira", **resume: Any) -> Guest:
    guest = host.guest(JSON, "", now=0.0)
    says(guest, "attach", npc=npc, resume=resume or None)
    return guest


def ops(messages: list[dict[str, Any]]) -> list[str]:
    return [message["op"] for message in messages]


def test_the_welcome_comes_before_the_replay_and_results_after_what_led_to_them() -> None:
    """W1, W3: the order of frames is the order in which things were said."""
    host = make_host()
    host.observe("mira", t=0.0, kind="notice", text="before you came")
    guest = attached(host)
    says(guest, "act", id="a1", name="say", args={})
    host.observe("mira", t=0.0, kind="notice", text="the door creaks")
    host.finish("mira", ActResult(id="a1", state=ActState.DONE))
    host.observe("mira", t=0.0, kind="notice", text="and falls shut")
    messages = pulled(guest)
    assert ops(messages) == ["hello", "welcome", "actions", "batch", "act_result", "obs"]
    assert [item["seq"] for item in messages[3]["items"]] == [1, 2]


def test_what_is_on_an_older_connection_is_not_obeyed() -> None:
    """C35: a world that answered "unknown" on the new connection never does it because of the old one."""
    host = make_host()
    old = attached(host)
    new = attached(host)
    says(new, "query", id="a1")
    assert pulled(new)[-1] == {"op": "act_result", "id": "a1", "state": "unknown"}
    says(old, "act", id="a1", name="say", args={})
    assert not any(isinstance(effect, Execute) for effect in old.effects())
    says(new, "query", id="a1")
    assert pulled(new)[-1]["state"] == "unknown"


def test_a_late_attach_of_an_older_connection_does_not_throw_the_newer_out() -> None:
    """W3: newer means the newer connection, not the later frame."""
    host = make_host()
    old = host.guest(JSON, "", now=0.0)
    new = attached(host)
    says(old, "attach", npc="mira")
    assert Hangup(4003, "replaced by a newer attach") in old.effects()
    assert not any(isinstance(effect, Hangup) for effect in new.effects())
    old.closed()
    assert host.attached("mira")
    new.closed()
    assert not host.attached("mira")


def test_a_final_result_stands() -> None:
    """C29: the first end is the end, for whoever asks."""
    host = make_host()
    guest = attached(host)
    says(guest, "act", id="w1", name="walk", args={})
    assert host.finish("mira", ActResult(id="w1", state=ActState.DONE, text="there"))
    assert not host.finish("mira", ActResult(id="w1", state=ActState.CANCELLED))
    says(guest, "query", id="w1")
    results = [m for m in pulled(guest) if m["op"] == "act_result"]
    assert [(r["state"], r.get("text", "")) for r in results] == [("accepted", ""), ("done", "there"), ("done", "there")]


def test_cancel_reaches_the_game() -> None:
    """P14: the world is asked to stop; its own end follows."""
    host = make_host()
    guest = attached(host)
    says(guest, "act", id="w1", name="walk", args={"to": "inn"})
    says(guest, "cancel", id="w1")
    execute, stop = [effect for effect in guest.effects() if isinstance(effect, Execute | Stop)]
    assert isinstance(execute, Execute)
    assert (execute.act.args, execute.ongoing) == ({"to": "inn"}, True)
    assert stop == Stop("mira", "w1")


def test_a_rollback_starts_the_numbers_again_and_forgets_no_action() -> None:
    """D4, C29: the undone past is not replayed, and an id stays used."""
    host = make_host()
    guest = attached(host)
    pulled(guest)
    host.gate("mira", Gate(name="verified", value=True))
    host.observe("mira", t=0.0, kind="notice", text="undone")
    says(guest, "act", id="a1", name="say", args={})
    host.rollback("e2", "day 1")
    host.observe("mira", t=0.0, kind="notice", text="anew")
    messages = pulled(guest)
    assert ops(messages) == ["gate", "rollback", "obs"]
    assert (messages[-1]["seq"], messages[-1]["text"]) == (1, "anew")
    guest.effects()
    says(guest, "act", id="a1", name="say", args={})
    assert guest.effects() == []


def test_an_agent_that_reads_too_slowly_is_sent_away_to_resume() -> None:
    """W2: a slow agent costs no memory beyond the window, and learns what it missed."""
    host = make_host(keep=1_000)
    guest = attached(host)
    pulled(guest)
    for n in range(3_000):
        host.observe("mira", t=0.0, kind="notice", text=str(n))
    assert ops(pulled(guest)) == []
    assert any(isinstance(effect, Hangup) and effect.code == 4005 for effect in guest.effects())
    guest.closed()
    welcome = pulled(attached(host, session="s", epoch="e1", seq=0))[1]
    assert welcome["resumed"]
    assert welcome["lost"] == welcome["next_seq"] - 1 > 0


def test_silence_on_either_side_of_the_attach_ends_the_connection() -> None:
    """E04: an agent that never attaches, and one that stops answering."""
    host = make_host()
    idle = host.guest(JSON, "", now=0.0)
    idle.tick(now=idle.deadline or 0.0)
    assert [effect.code for effect in idle.effects() if isinstance(effect, Hangup)] == [1000]
    guest = attached(host)
    pulled(guest)
    guest.tick(now=10.0)
    assert ops(pulled(guest, now=10.0)) == ["ping"]
    guest.tick(now=20.0)
    assert [effect.dead for effect in guest.effects() if isinstance(effect, Hangup)] == [True]


@pytest.mark.parametrize("action", ["", "x" * 200, "a\nb", 7, None])
def test_an_id_that_would_come_back_changed_is_malformed(action: object) -> None:
    """W5: the sender could never recognise its result."""
    host = make_host()
    guest = attached(host)
    says(guest, "act", id=action, name="say", args={})
    assert guest.malformed == 1
    assert not any(isinstance(effect, Execute) for effect in guest.effects())


def stored(host: Host) -> None:
    """The store has everything that has changed until now."""
    changes = host.changes()
    assert changes is not None
    host.stored(changes)


def test_nothing_is_said_or_begun_before_it_is_stored() -> None:
    """W2, W3, C35: with a store the epoch, an observation, an action and its end wait for it, and signs of life for nothing."""
    host = make_host(stored=True)
    guest = host.guest(JSON, "", now=0.0)
    assert ops(pulled(guest)) == []
    stored(host)
    assert ops(pulled(guest)) == ["hello"]
    says(guest, "attach", npc="mira")
    assert ops(pulled(guest)) == ["welcome", "actions"]
    host.observe("mira", t=0.0, kind="notice", text="one")
    says(guest, "ping", n=1)
    assert ops(pulled(guest)) == ["pong"]
    stored(host)
    host.observe("mira", t=0.0, kind="notice", text="two")
    assert [m.get("text") for m in pulled(guest)] == ["one"], "what came after the store was asked waits for the next time"
    says(guest, "act", id="a1", name="say", args={})
    says(guest, "cancel", id="a1")
    assert not any(isinstance(effect, Execute | Stop) for effect in guest.effects())
    stored(host)
    assert [type(effect) for effect in guest.effects() if isinstance(effect, Execute | Stop)] == [Execute, Stop]
    assert [m.get("text") for m in pulled(guest)] == ["two"]
    host.finish("mira", ActResult(id="a1", state=ActState.DONE))
    assert ops(pulled(guest)) == []
    stored(host)
    assert ops(pulled(guest)) == ["act_result"]
    assert host.changes() is None


@pytest.mark.parametrize("codec", [JSON, MSGPACK])
def test_no_frame_of_the_worlds_is_larger_than_its_own_limit_and_every_number_arrives(codec: Codec) -> None:
    """W3: batches are split, a lone text is cut by name, data for code that nobody could take is left out."""
    host = make_host(max_frame=2_048)
    for n in range(40):
        host.observe("mira", t=0.0, kind="notice", text=f"{n} " + '"ü☃' * 90)
    host.observe("mira", t=0.0, kind="notice", text="first words " + "x" * 9_000 + " last words", data={"a": 1})
    host.observe("mira", t=0.0, kind="scene", text="The hall.", data={"map": "y" * 5_000})
    guest = host.guest(codec, "", now=0.0)
    guest.received(codec.encode(Attach(npc="mira")), now=0.0)
    guest.received(codec.encode(Act(id="a1", name="say")), now=0.0)
    host.finish("mira", ActResult(id="a1", state=ActState.DONE, text="z" * 9_000))
    frames: list[Any] = []
    while (data := guest.next_message(now=0.0)) is not None:
        assert len(data) <= 2_048
        frames.append(codec.decode_world(data))
    items = [item for frame in frames if isinstance(frame, Batch) for item in frame.items]
    assert [item.seq for item in items] == list(range(1, 43))
    assert items[40].text.startswith("first words ")
    assert items[40].text.endswith(" last words")
    assert "characters cut" in items[40].text
    assert items[40].data == {"a": 1}
    assert (items[41].text, items[41].data) == ("The hall.", None)
    [result] = [frame for frame in frames if isinstance(frame, ActResult)]
    assert result.state == "done"
    assert "characters cut" in result.text


def test_an_agent_that_asks_and_never_reads_is_let_go() -> None:
    """W3: what waits for one agent is bounded, whatever it asks for."""
    host = make_host()
    for op in ("query", "ping"):
        guest = attached(host)
        for n in range(20_000):
            says(guest, op, id=f"a{n}", n=n)
        assert any(isinstance(effect, Hangup) and effect.dead for effect in guest.effects())
        assert len(pulled(guest)) < 10_010
