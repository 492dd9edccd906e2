"""The agent's half without a socket: time as data, closes told apart, limits kept (W3, E04, E05, E10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from world_adapter.closing import Refused, Retry, backoff
from world_adapter.codec import JSON
from world_adapter.effects import ActionsChanged, Aside, Attached, Deliver, Detached, Effect, Hangup, Result, Send
from world_adapter.frames import ActState, Gate, Resume, Rollback
from world_adapter.link import AgentLink, Patience

PATIENCE = Patience(gap_s=2.0, gap_tries=2)


class Line:
    """A link with a world's side that speaks in keyword arguments, and a clock that a test moves."""

    def __init__(self, *, resume: Resume | None = None, patience: Patience = PATIENCE) -> None:
        self.link = AgentLink(npc="mira", agent="test/1", resume=resume, patience=patience)
        self.now = 100.0
        self.log: list[Effect] = []

    def connect(self, *, next_seq: int = 1, lost: int = 0, resumed: bool = False, welcome: bool = True, **hello: Any) -> dict[str, Any]:
        """Opens, greets; answers the attach."""
        self.link.opened(JSON, now=self.now)
        self.says("hello", **{"world": "w", "epoch": "e1", "heartbeat_s": 10, "max_frame": 4096, **hello})
        attach = self.sent()[-1]
        if welcome:
            self.says("welcome", npc="mira", session="s1", resumed=resumed, next_seq=next_seq, lost=lost)
        return attach

    def says(self, op: str, **fields: Any) -> None:
        self.link.received(json.dumps({"op": op, **fields}).encode(), now=self.now)
        self.take()

    def obs(self, *seqs: int) -> list[int]:
        """Sends these one by one; answers what was delivered."""
        before = len(self.log)
        for seq in seqs:
            self.says("obs", seq=seq, t=0, kind="notice", text=f"n{seq}")
        return [o.seq for effect in self.log[before:] if isinstance(effect, Deliver) for o in effect.items]

    def at(self, now: float) -> list[Effect]:
        """Lets the clock reach `now`, ticking at each deadline on the way; answers what came of it."""
        before = len(self.log)
        while (due := self.link.deadline) is not None and due <= now:
            self.now = max(self.now, due)
            self.link.tick(now=self.now)
            self.take()
        self.now = now
        return self.log[before:]

    def closed(self, code: int = 1006, reason: str = "", *, ours: bool = False) -> Retry | Refused:
        verdict = self.link.closed(code=code, reason=reason, ours=ours)
        self.take()
        return verdict

    def take(self) -> None:
        self.log += self.link.effects()

    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(effect.data) for effect in self.log if isinstance(effect, Send)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.log if isinstance(effect, kind)]


def test_the_first_words() -> None:
    """W1: hello, attach, welcome; what a world says between them is kept in order."""
    line = Line()
    attach = line.connect(welcome=False)
    assert attach == {"op": "attach", "npc": "mira", "agent": "test/1"}
    line.says("actions", version=1, actions=[{"name": "say", "description": "", "schema": {}}])
    line.obs(1, 2)
    assert not line.of(Attached)
    line.says("welcome", npc="mira-7", session="s", resumed=False, next_seq=1, lost=0)
    assert [type(effect) for effect in line.log[1:]] == [Attached, ActionsChanged, Deliver, Deliver]
    assert line.of(Attached)[0].npc == "mira-7"


def test_nothing_is_acknowledged_before_it_is_stored() -> None:
    """W2: the acks follow `stored`, and only for the epoch that the world is in."""
    line = Line()
    line.connect()
    line.obs(1, 2, 3)
    assert "ack" not in [frame["op"] for frame in line.sent()]
    line.link.stored(2, "e1", now=line.now)
    line.take()
    assert line.sent()[-1] == {"op": "ack", "seq": 2}
    line.says("rollback", epoch="e2", since="day 1")
    line.link.stored(3, "e1", now=line.now)
    line.take()
    assert line.sent()[-1] == {"op": "ack", "seq": 2}
    assert line.of(Aside) == [Aside(Rollback(epoch="e2", since="day 1"))]
    assert line.obs(1, 2) == [1, 2]
    assert line.log[-1] == Deliver(line.log[-1].items, "w", "e2")  # type: ignore[union-attr]


def test_a_dropped_line_resumes_from_the_disk_and_doubles_nothing() -> None:
    """W3: delivered but not yet stored is asked for again, and recognised when it comes."""
    line = Line()
    line.connect()
    line.obs(1, 2, 3)
    line.link.stored(2, "e1", now=line.now)
    assert isinstance(line.closed(), Retry)
    assert line.of(Detached)
    attach = line.connect(next_seq=3, resumed=True)
    assert attach["resume"] == {"session": "s1", "epoch": "e1", "seq": 2, "world": "w"}
    assert line.obs(3, 4) == [4]
    assert line.link.counters.duplicates == 1


def test_another_world_at_the_same_address_gets_no_numbers() -> None:
    """W3: the watermark is per world."""
    line = Line(resume=Resume(session="s", epoch="e1", seq=9, world="elsewhere"))
    assert "resume" not in line.connect()
    assert line.obs(1) == [1]


def test_a_gap_is_filled_by_a_replay_and_nothing_that_came_meanwhile_is_lost() -> None:
    """E10: 10, 13; while the replay is under way 14, 15; then 11, 12, 13."""
    line = Line(resume=Resume(session="s", epoch="e1", seq=9, world="w"))
    line.connect(next_seq=10, resumed=True)
    assert line.obs(10, 13) == [10]
    line.link.stored(10, "e1", now=line.now)
    line.take()
    assert not line.at(line.now + 1.9)
    [hangup] = line.at(line.now + 0.2)
    assert isinstance(hangup, Hangup)
    assert line.closed(1000) == Retry("observation 11 is missing; asking for a replay")
    assert line.connect(next_seq=11, resumed=True)["resume"]["seq"] == 10
    assert line.obs(14, 15) == []
    assert line.obs(11, 12, 13) == [11, 12, 13, 14, 15]
    assert line.link.counters.lost == 0
    line.at(line.now + 5)
    assert len(line.of(Hangup)) == 1


def test_a_number_that_never_comes_is_given_up_and_counted() -> None:
    """W3: after the replays have failed the NPC hears on, and is told how much is missing."""
    line = Line()
    line.connect()
    tries = 0
    while not (heard := line.obs(2, 3, 4)):
        line.at(line.now + 2.5)
        assert isinstance(line.closed(1000), Retry)
        tries += 1
        line.connect()
        if heard := [o.seq for o in line.log[-1].items] if isinstance(line.log[-1], Deliver) else []:
            break
    assert heard == [2, 3, 4]
    assert tries == PATIENCE.gap_tries + 1
    assert line.of(Attached)[-1].lost == 1
    assert line.link.counters.lost == 1


def test_a_quiet_world_is_asked_whether_it_lives() -> None:
    """E04: a world that never pings by itself is pinged, and its pong counts; silence for two heartbeats is death."""
    line = Line()
    line.connect(heartbeat_s=10)
    start = line.now
    assert [json.loads(e.data)["op"] for e in line.at(start + 10.0) if isinstance(e, Send)] == ["ping"]
    line.says("pong", n=1)
    assert [json.loads(e.data)["op"] for e in line.at(start + 29.9) if isinstance(e, Send)] == ["ping"]
    [death] = line.at(start + 30.1)
    assert death == Hangup(1001, "the world was silent for 20.0 s", dead=True)
    assert line.link.deadline is None
    assert isinstance(line.closed(), Retry)
    assert line.of(Detached) == [Detached("the world was silent for 20.0 s")]


def test_a_talkative_world_still_hears_from_us() -> None:
    """W3: the other side's rule too: however much it says, it gets a sign of life each heartbeat."""
    line = Line()
    line.connect(heartbeat_s=10)
    for second in range(1, 31):
        line.at(100.0 + second)
        line.says("gate", name="g", value=second)
    assert [frame["op"] for frame in line.sent()].count("ping") == 3
    assert line.of(Aside)[0] == Aside(Gate(name="g", value=1))


def test_a_world_that_does_not_greet_is_left() -> None:
    """E04: before the hello and before the welcome there is a limit as well."""
    for greet in (False, True):
        line = Line()
        line.link.opened(JSON, now=line.now)
        if greet:
            line.says("hello", world="w", epoch="e1", heartbeat_s=60)
        [hangup] = [effect for effect in line.at(line.now + 11) if isinstance(effect, Hangup)]
        assert ("welcome" if greet else "hello") in hangup.reason
        assert isinstance(line.closed(1000), Retry)
        assert not line.of(Detached)


def test_ten_malformed_frames_in_a_minute_close_the_link() -> None:
    """W5: 4002; nine do not, nor do ten in an hour."""
    line = Line()
    line.connect(heartbeat_s=600)
    for n in range(30):
        line.now = 100.0 + n * 60
        line.link.received(b"\xff", now=line.now)
    line.take()
    assert not line.of(Hangup)
    for _ in range(9):
        line.link.received(b"{}", now=line.now)
    line.take()
    assert [hangup.code for hangup in line.of(Hangup)] == [4002]
    assert line.link.counters.malformed == 39
    assert isinstance(line.closed(4002), Retry)


def test_unknown_ops_and_fields_change_nothing() -> None:
    """W1: a later version of the protocol is spoken to, not hung up on."""
    line = Line()
    line.connect(novelty=1)
    for _ in range(50):
        line.says("fireworks", colour="red")
    assert line.link.attached
    assert line.link.counters.unknown_ops == 50
    line.says("ping", n=77)
    assert line.sent()[-1] == {"op": "pong", "n": 77}


@pytest.mark.parametrize(
    ("code", "bye", "final"),
    [(4001, None, True), (4003, None, True), (4004, None, True), (1000, 4004, True), (1006, None, False), (1000, None, False),
     (1001, None, False), (1011, None, False), (1009, None, False), (4002, None, False), (4005, 4005, False), (4999, None, False)],
)  # fmt: skip
def test_which_closes_are_final(code: int, bye: int | None, final: bool) -> None:
    """W3: 4001, 4003 and 4004 end it, whether said by the close or by the bye before it; everything else is tried again."""
    line = Line()
    line.connect()
    if bye is not None:
        line.says("bye", code=bye, reason="so long", retry_after_s=7)
    verdict = line.closed(code, 'as\nit "is"')
    if final:
        assert isinstance(verdict, Refused)
        assert "\n" not in verdict.sentence
        assert verdict.code in {4001, 4003, 4004}
    else:
        assert isinstance(verdict, Retry)
        assert verdict.after_s == (7.0 if bye else 0.0)
    assert len(line.of(Detached)) == 1


def test_what_was_too_large_once_is_not_sent_again() -> None:
    """E05: a close with 1009 teaches the limit that the world did not tell; on the attach itself it is final."""
    line = Line()
    line.connect(max_frame=1 << 20)
    assert line.link.act(id="a1", name="say", args={"text": "x" * 5_000}, now=line.now) is None
    line.take()
    assert isinstance(line.closed(1009), Retry)
    line.connect(max_frame=1 << 20)
    assert line.sent()[-1] == {"op": "query", "id": "a1"}
    again = line.link.act(id="a2", name="say", args={"text": "x" * 5_000}, now=line.now)
    assert again is not None
    assert again.error_code == "too_large"
    assert line.link.act(id="a3", name="say", args={"text": "x" * 500}, now=line.now) is None

    refused = Line()
    refused.connect(welcome=False)
    assert isinstance(refused.closed(1009), Refused)


def test_an_unanswered_action_is_asked_about_and_never_repeated() -> None:
    """C35: after a reconnect a query, and its answer once."""
    line = Line()
    line.connect()
    line.link.act(id="a1", name="say", args={}, now=line.now)
    line.link.act(id="a2", name="walk", args={}, now=line.now)
    line.take()
    line.says("act_result", id="a2", state="accepted")
    line.closed()
    line.connect(resumed=True)
    assert [(f["op"], f["id"]) for f in line.sent() if "id" in f] == [("act", "a1"), ("act", "a2"), ("query", "a1"), ("query", "a2")]
    for _ in range(2):
        line.says("act_result", id="a1", state="unknown")
        line.says("act_result", id="a2", state="done", text="there")
    assert [(r.result.id, r.result.state) for r in line.of(Result)] == [
        ("a2", ActState.ACCEPTED), ("a1", ActState.UNKNOWN), ("a2", ActState.DONE),
    ]  # fmt: skip


def test_back_off_doubles_is_spread_and_ends_at_the_cap() -> None:
    """W3: no herd of NPCs hits a restarted world in step."""
    waits = [backoff(n, 1.0, base_s=0.2, cap_s=15.0) for n in range(12)]
    assert waits[:4] == [0.2, 0.4, 0.8, 1.6]
    assert waits[-1] == 15.0
    assert backoff(3, 0.0, base_s=0.2, cap_s=15.0) == 0.8
    assert backoff(10_000, 1.0, base_s=0.2, cap_s=15.0) == 15.0


@pytest.mark.parametrize("npc", ["", "a\nb", "x" * 200])
def test_an_id_that_cannot_travel_is_refused_at_once(npc: str) -> None:
    """W5: it would come back as another."""
    with pytest.raises(ValueError, match="id"):
        AgentLink(npc=npc, agent="x")
