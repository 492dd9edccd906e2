"""Both halves of the protocol wired core to core, without a socket (W3, S5): whatever the line and the processes do, each observation is
durable exactly once and in order, and each action is executed at most once. A world with a store comes back under the same epoch.
"""

from __future__ import annotations

import json
from collections import Counter, deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.world_adapter.kept_worlds import MemoryStore
from world_adapter.closing import Refused
from world_adapter.codec import JSON, MSGPACK
from world_adapter.effects import Attached, Deliver, Hangup, Result, Send
from world_adapter.frames import ActionSpec, ActResult, ActState, Resume
from world_adapter.host import Execute, Guest, Host
from world_adapter.keeping import Kept
from world_adapter.link import AgentLink, Patience

ACTIONS = (
    ActionSpec(name="say", description="", schema={"type": "object"}),
    ActionSpec(name="walk", description="", schema={"type": "object"}, kind="ongoing"),
)
PATIENT = Patience(gap_tries=10_000, unstored=6)


class TwoHalves(RuleBasedStateMachine):
    """An agent with a disk, a world, and a line between them that does its worst."""

    @initialize(text=st.booleans(), stored=st.booleans())
    def begin(self, text: bool, stored: bool) -> None:
        self.now = 0.0
        self.store = MemoryStore() if stored else None
        self.prompt = True  # whether that store's disk takes everything at once
        self.unconfirmed: Kept | None = None  # on the world's disk, and the world does not know it yet
        self.words: dict[str, dict[int, str]] = {}  # epoch: what was said under each number
        self.heard: dict[str, dict[int, str]] = {}
        self.sayings = 0
        self.codec = JSON if text else MSGPACK
        self.epochs = 0
        self.lives = 0
        self.told: dict[str, int] = {}  # epoch: how many observations there were
        self.disk: dict[str, list[int]] = {}  # epoch: numbers, in the order of their becoming durable
        self.executed: Counter[str] = Counter()
        self.executed_in: dict[str, str] = {}  # action: epoch
        self.unknown_in: dict[str, str] = {}  # action that a world said it never saw: epoch
        self.asked: list[str] = []  # ids that this life of the agent has sent
        self.results: dict[str, list[ActState]] = {}
        self.resume: Resume | None = None
        self.guest: Guest | None = None
        self.leftover: list[tuple[Guest, deque[bytes]]] = []  # connections that only the world still believes in
        self.new_world()
        self.new_agent()

    # Two processes

    def new_world(self) -> None:
        kept = self.store.load("w") if self.store else None
        if kept is None:
            self.epochs += 1
        self.epoch = kept.epoch if kept else f"e{self.epochs}"
        self.disk.setdefault(self.epoch, [])
        self.host = Host(
            world="w", epoch=self.epoch, authorise=lambda _npc, _token: True, actions=ACTIONS, heartbeat_s=30.0,
            stored=self.store is not None, kept=kept,
        )  # fmt: skip
        self.unconfirmed = None
        self.told[self.epoch] = self.host.newest("mira")
        said = self.words.setdefault(self.epoch, {})
        for seq in [seq for seq in said if seq > self.told[self.epoch]]:
            del said[seq]  # died before it was stored: nobody may have heard it
        self.running: list[str] = []
        for effect in self.host.unfinished():
            if self.executed[effect.act.id]:
                self.running.append(effect.act.id)  # the game goes on with it
            else:
                self.host.finish("mira", ActResult(id=effect.act.id, state=ActState.FAILED, error_code="interrupted"))

    @precondition(lambda self: self.store and self.prompt and self.link.attached)
    @rule(n=st.integers(0, 3))
    def the_disk_gets_slow(self, n: int) -> None:
        """Something happens, and somebody acts, while the world's disk takes nothing."""
        self.prompt = False
        self.happen(n, quickly=True)
        if self.link.attached:
            self.act("say")

    @precondition(lambda self: self.store and not self.unconfirmed)
    @rule()
    def the_world_writes(self) -> None:
        """The world's disk has what has changed until now; the world may die before it knows."""
        if self.store and not self.unconfirmed and (changes := self.host.changes()):
            self.store.write(changes)
            self.unconfirmed = changes

    @precondition(lambda self: self.unconfirmed)
    @rule()
    def the_world_has_written(self) -> None:
        self.confirm()
        self.carry_out()

    def confirm(self) -> None:
        if self.unconfirmed:
            self.host.stored(self.unconfirmed)
            self.unconfirmed = None

    def new_agent(self) -> None:
        self.lives += 1
        self.link = AgentLink(npc="mira", agent="test", resume=self.resume, patience=PATIENT)
        self.undurable: deque[Deliver] = deque()
        self.open = False
        self.to_agent: deque[bytes] = deque()
        self.to_world: deque[bytes] = deque()
        self.asked = []
        self.results = {}

    # The line

    @precondition(lambda self: not self.open)
    @rule(smoothly=st.sampled_from([True, True, True, False]))
    def connect(self, smoothly: bool = False) -> None:
        self.prompt = self.prompt or smoothly
        self.carry_out()
        self.guest = self.host.guest(self.codec, "", now=self.now)
        self.link.opened(self.codec, now=self.now)
        self.to_agent, self.to_world = deque(), deque()
        self.open = True
        self.carry_out()
        for _ in range(3 if smoothly else 0):
            self.flow()

    @precondition(lambda self: self.open)
    @rule()
    def flow(self) -> None:
        """Everything that is on its way arrives."""
        self.arrive_at_agent(len(self.to_agent))
        if self.open:
            self.arrive_at_world(len(self.to_world))

    @precondition(lambda self: self.open)
    @rule(world_notices=st.booleans())
    def cut(self, world_notices: bool) -> None:
        self.hang_up(1006, world_notices=world_notices)

    def hang_up(self, code: int, *, world_notices: bool = True) -> None:
        assert self.guest is not None
        self.open = False
        verdict = self.link.closed(code=code, reason="")
        assert not isinstance(verdict, Refused)
        if world_notices:
            self.guest.closed()
        else:
            self.leftover.append((self.guest, self.to_world))
        self.carry_out()

    @precondition(lambda self: self.open and self.to_agent)
    @rule(n=st.integers(1, 4))
    def arrive_at_agent(self, n: int) -> None:
        for _ in range(min(n, len(self.to_agent))):
            if self.open:
                self.link.received(self.to_agent.popleft(), now=self.now)
                self.carry_out()

    @precondition(lambda self: self.open and self.to_world)
    @rule(n=st.integers(1, 4))
    def arrive_at_world(self, n: int) -> None:
        for _ in range(min(n, len(self.to_world))):
            if self.open and self.guest is not None:
                self.guest.received(self.to_world.popleft(), now=self.now)
                self.carry_out()

    @precondition(lambda self: self.leftover)
    @rule()
    def arrive_late_at_world(self) -> None:
        """What a connection still held when its agent was long elsewhere."""
        guest, messages = self.leftover.pop()
        while messages:
            guest.received(messages.popleft(), now=self.now)
        guest.closed()
        self.carry_out()

    @precondition(lambda self: self.open and self.to_agent)
    @rule(at=st.integers(0, 5), how=st.sampled_from(["drop", "repeat", "swap", "truncate"]), cut=st.integers(0, 2_000))
    def spoil_to_agent(self, at: int, how: str, cut: int) -> None:
        self.spoil(self.to_agent, at, how, cut)

    @precondition(lambda self: self.open and self.to_world)
    @rule(at=st.integers(0, 5), how=st.sampled_from(["drop", "repeat", "swap", "truncate"]), cut=st.integers(0, 2_000))
    def spoil_to_world(self, at: int, how: str, cut: int) -> None:
        self.spoil(self.to_world, at, how, cut)

    def spoil(self, line: deque[bytes], at: int, how: str, cut: int) -> None:
        at %= len(line)
        if how == "drop":
            del line[at]
        elif how == "repeat":
            line.append(line[at])
        elif how == "swap":
            line[at], line[-1] = line[-1], line[at]
        else:
            line[at] = line[at][: cut % len(line[at])] if line[at] else b""  # at any byte

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0, 20.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.open and self.guest is not None:
            self.link.tick(now=self.now)
            self.guest.tick(now=self.now)
            self.carry_out()
        if seconds == 20.0:
            for action in self.asked:
                if all(state is ActState.ACCEPTED for state in self.results.get(action, ())):
                    self.link.query(action, now=self.now)  # as the shell does when its patience ends
            self.carry_out()

    # The lives at both ends

    @rule(n=st.integers(1, 5), quickly=st.booleans())
    def happen(self, n: int, quickly: bool = False) -> None:
        for _ in range(n):
            self.sayings += 1
            words = f"something, {self.sayings}"
            self.told[self.epoch] = seq = self.host.observe("mira", t=self.now, kind="notice", text=words)
            self.words[self.epoch][seq] = words
        self.carry_out()
        if quickly and self.open:
            self.flow()
            while self.undurable:
                self.become_durable()

    @precondition(lambda self: self.undurable)
    @rule()
    def become_durable(self) -> None:
        delivery = self.undurable.popleft()
        self.disk[delivery.epoch] += [o.seq for o in delivery.items]
        self.heard.setdefault(delivery.epoch, {}).update({o.seq: o.text for o in delivery.items})
        self.link.stored(delivery.items[-1].seq, delivery.epoch, now=self.now)
        self.resume = self.link.resume
        self.carry_out()

    @precondition(lambda self: self.link.attached)
    @rule(name=st.sampled_from(["say", "walk", "fly"]))
    def act(self, name: str) -> None:
        action = f"a{self.lives}-{len(self.asked)}"
        refused = self.link.act(id=action, name=name, args={}, now=self.now)
        assert refused is None
        self.asked.append(action)
        self.carry_out()

    @precondition(lambda self: self.running)
    @rule()
    def an_action_ends(self) -> None:
        self.host.finish("mira", ActResult(id=self.running.pop(), state=ActState.DONE))
        self.carry_out()

    @rule(luck=st.booleans())
    def kill_the_agent(self, luck: bool) -> None:
        """Nothing that was not durable survives; the world may not notice for a while."""
        if luck:
            return
        if self.open and self.guest is not None:
            self.leftover.append((self.guest, self.to_world))
        self.new_agent()

    @rule(luck=st.integers(0, 4))
    def kill_the_world(self, luck: int) -> None:
        if luck > (2 if self.store else 0):
            return
        if self.open:
            self.open = False
            self.link.closed(code=1006, reason="")
        self.leftover.clear()
        self.new_world()
        self.carry_out()

    # Effects

    def carry_out(self) -> None:
        hung: int | None = None
        if self.prompt:
            self.confirm()
            self.the_world_writes()
            self.confirm()
        for effect in self.link.effects():
            match effect:
                case Send():
                    self.to_world.append(effect.data)
                case Deliver():
                    self.undurable.append(effect)
                case Result():
                    self.results.setdefault(effect.result.id, []).append(effect.result.state)
                    if effect.result.state is ActState.UNKNOWN:
                        self.unknown_in[effect.result.id] = self.epoch
                case Attached():
                    assert effect.lost == 0
                case Hangup():
                    hung = effect.code
        for guest in self.host.awake():
            for wanted in guest.effects():
                match wanted:
                    case Execute():
                        self.executed[wanted.act.id] += 1
                        self.executed_in[wanted.act.id] = self.epoch
                        self.running.append(wanted.act.id)
                    case Hangup() if guest is self.guest and self.open:
                        hung = wanted.code
        if self.open and self.guest is not None:
            while (message := self.guest.next_message(now=self.now)) is not None:
                self.to_agent.append(message)
            if hung is not None:
                # 4003 reaches only a connection that its own agent has left; the one that is open is always the newest.
                self.hang_up(hung)

    def all_known(self) -> bool:
        return all(any(s is not ActState.ACCEPTED for s in self.results.get(action, ())) for action in self.asked)

    # What must hold

    @invariant()
    def each_observation_is_durable_once_and_in_order(self) -> None:
        for epoch, numbers in getattr(self, "disk", {}).items():
            assert numbers == list(range(1, len(numbers) + 1)), epoch

    @invariant()
    def nobody_heard_what_the_world_does_not_know(self) -> None:
        for epoch, heard in getattr(self, "heard", {}).items():
            assert heard.items() <= self.words[epoch].items()

    @invariant()
    def each_action_is_executed_at_most_once(self) -> None:
        assert all(count == 1 for count in getattr(self, "executed", {}).values())

    @invariant()
    def what_a_world_never_saw_it_never_does(self) -> None:
        for action, epoch in getattr(self, "unknown_in", {}).items():
            assert self.executed_in.get(action) != epoch, action

    @invariant()
    def each_action_ends_at_most_once(self) -> None:
        for states in getattr(self, "results", {}).values():
            assert sum(state is not ActState.ACCEPTED for state in states) <= 1

    def teardown(self) -> None:
        """Let the line be good again: everything arrives, and every action's end is known."""
        if not hasattr(self, "host"):
            return
        self.prompt = True
        for _ in range(200):
            self.wait(2.5)
            self.wait(20.0)
            if not self.open:
                self.connect()
            steps = 0
            while self.open and (self.to_agent or self.to_world or self.undurable or self.running):
                steps += 1
                assert steps < 1_000
                self.arrive_at_world(4) if self.to_world else None
                self.arrive_at_agent(4) if self.open and self.to_agent else None
                self.become_durable() if self.undurable else None
                self.an_action_ends() if self.running else None
            if self.open and len(self.disk[self.epoch]) == self.told[self.epoch] and self.link.attached and self.all_known():
                break
        assert self.disk[self.epoch] == list(range(1, self.told[self.epoch] + 1))
        assert self.all_known()
        for action in self.asked:
            if ActState.DONE in self.results[action]:
                assert self.executed[action] == 1
        self.each_observation_is_durable_once_and_in_order()
        self.nobody_heard_what_the_world_does_not_know()
        self.each_action_is_executed_at_most_once()
        self.what_a_world_never_saw_it_never_does()
        self.each_action_ends_at_most_once()
        assert self.host.acked("mira") == self.told[self.epoch]


TestTwoHalves = TwoHalves.TestCase
TestTwoHalves.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


def test_the_wire_is_readable() -> None:
    """W1: the JSON half is what SPEC.md shows."""
    host = Host(world="w", epoch="e", authorise=lambda _npc, _token: True)
    guest = host.guest(JSON, "", now=0.0)
    hello = json.loads(guest.next_message(now=0.0) or b"")
    assert hello == {
        "op": "hello", "world": "w", "epoch": "e", "heartbeat_s": 30.0, "max_frame": 1_048_576, "limits": {}, "time": "",
    }  # fmt: skip
