"""What must hold after a world and an NPC were killed again and again: pure, from what each side wrote down.

Invariant: nobody is believed about himself alone. What was told is what the world's processes printed, what was heard is what stands on the
NPC's disk, what was done is what the world did; the model's own requests say what reached it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sim.oracle import Finding
from sim.reading import Reading

_EVENT = re.compile(r"\bEvent (\d+\.\d+)\b")
_LEFT_OUT = re.compile(r"\[(\d+) observations left out, events (\d+) to (\d+)\]")
_NOT_NEWS = re.compile(r"<(recalled|notebook|record)\b.*?</\1>", re.DOTALL)
SHOWN = 5


@dataclass(slots=True, kw_only=True)
class World:
    """What the world's processes printed.

    Attributes:
        told: the name of what was told, by number. A number that a killed process had given and not stored, so that nobody ever heard
            it, is given again: the later one counts.
        keys: the merge key of those that are states, by name.
        acts: (id, name, n) of every action begun, in order.
        interrupted: ids that a later process found begun and not ended.
        epochs: in order of appearance.
    """

    told: dict[int, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    acts: list[tuple[str, str, Any]] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    epochs: list[str] = field(default_factory=list)

    def printed(self, line: Mapping[str, Any]) -> None:
        """One line."""
        if "told" in line:
            self.told[line["told"]] = line["name"]
            if "key" in line:
                self.keys[line["name"]] = line["key"]
        elif "act" in line:
            self.acts.append((line["act"], line["name"], line["n"]))
        elif "interrupted" in line:
            self.interrupted.append(line["interrupted"])
        elif "settled" in line:
            # What the last process but one had given and not stored, and this one had no time to give again.
            self.told = {seq: name for seq, name in self.told.items() if seq <= line["settled"]}
        elif "epoch" in line and line["epoch"] not in self.epochs:
            self.epochs.append(line["epoch"])


@dataclass(slots=True, kw_only=True)
class Mind:
    """What the model was sent, and what it asked for.

    Attributes:
        seen: names in any request.
        twice: names that stood twice as news in one request.
        left_out: notes of what did not fit a request: how many, and the first and last event between which they lie.
        asked: actions by number.
    """

    seen: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    left_out: set[tuple[int, int, int]] = field(default_factory=set)
    asked: dict[int, str] = field(default_factory=dict)
    requests: int = 0

    def sent(self, body: Mapping[str, Any]) -> None:
        """A request."""
        self.requests += 1
        said = _NOT_NEWS.sub("", Reading(body).said)
        names = Counter(_EVENT.findall(said))
        self.left_out.update((int(n), int(first), int(last)) for n, first, last in _LEFT_OUT.findall(said))
        self.seen.update(names)
        self.twice.update(name for name, times in names.items() if times > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What the NPC wrote down.

    Attributes:
        heard: (number, text) of each observation of the world, in the order of the journal.
        intents: ids of actions, in order.
        outcomes: (id, state), in order.
        events: of observations, by number: what the NPC itself calls them.
        lost: how many observations the world said it could not keep.
        merged, omitted: of the observations, as counted.
    """

    heard: Sequence[tuple[int, str]]
    intents: Sequence[str]
    outcomes: Sequence[tuple[str, str]]
    events: Mapping[int, int] = field(default_factory=dict)
    lost: int = 0
    merged: int = 0
    omitted: int = 0


@dataclass(slots=True, kw_only=True)
class Verdict:
    """Counts, and what did not hold."""

    told: int = 0
    heard: int = 0
    lost: int = 0
    doubled: int = 0
    disordered: int = 0
    left_out: int = 0
    unseen: int = 0
    merged: int = 0
    executed: int = 0
    repeated: int = 0
    interrupted: int = 0
    findings: list[Finding] = field(default_factory=list)

    def find(self, rule: str, sentence: str) -> None:
        """Something did not hold."""
        self.findings.append(Finding(turn=-1, rule=rule, sentence=sentence))


def judge(world: World, mind: Mind, disk: Disk) -> Verdict:
    """All of it together."""
    verdict = Verdict(told=len(world.told), heard=len(disk.heard), interrupted=len(world.interrupted))
    _observations(verdict, world, disk)
    _reached(verdict, world, mind, disk)
    _actions(verdict, world, mind, disk)
    if len(world.epochs) > 1:
        verdict.find("W3", f"the world came back under another epoch: {_some(world.epochs)}")
    return verdict


def _observations(verdict: Verdict, world: World, disk: Disk) -> None:
    """On the NPC's disk stands what was told, each once, in order."""
    numbers = [seq for seq, _ in disk.heard]
    times = Counter(numbers)
    missing = sorted(world.told.keys() - times.keys())
    doubled = sorted(seq for seq, n in times.items() if n > 1)
    verdict.lost, verdict.doubled = len(missing) + disk.lost, len(doubled)
    if missing:
        verdict.find("W3", f"{len(missing)} observations were told and are not on the NPC's disk: {_some(missing)}")
    if disk.lost:
        verdict.find("W3", f"the world said that it had lost {disk.lost} observations")
    if doubled:
        verdict.find("W3", f"{len(doubled)} observations stand on the NPC's disk more than once: {_some(doubled)}")
    if foreign := sorted(times.keys() - world.told.keys()):
        verdict.find("W3", f"{len(foreign)} observations were heard that nobody told: {_some(foreign)}")
    verdict.disordered = sum(b <= a for a, b in pairwise(numbers))
    if verdict.disordered:
        verdict.find("W3", f"{verdict.disordered} times an observation stands behind one with a higher number")
    other = [seq for seq, text in disk.heard if seq in world.told and f"Event {world.told[seq]}" not in text]
    if other:
        verdict.find("W3", f"{len(other)} numbers stand for other words than were told: {_some(other)}")


def _reached(verdict: Verdict, world: World, mind: Mind, disk: Disk) -> None:
    """What was told reached the model, or gave way to newer news of the same thing, or was counted in a note."""
    newest: dict[str, int] = {}  # by key: the number of the newest that the model saw
    for seq, name in world.told.items():
        if name in mind.seen and (key := world.keys.get(name)):
            newest[key] = max(newest.get(key, 0), seq)
    for seq, name in world.told.items():
        if name in mind.seen:
            continue
        key = world.keys.get(name)
        if key and newest.get(key, 0) > seq:
            verdict.merged += 1
        elif any(first <= disk.events.get(seq, 0) <= last for _, first, last in mind.left_out):
            verdict.left_out += 1
        else:
            verdict.unseen += 1
    noted = sum(n for n, _, _ in mind.left_out)
    if verdict.unseen > disk.omitted:
        verdict.find("W2", f"{verdict.unseen} observations never reached the model, and {disk.omitted} were counted as omitted")
    # A state that a newer one of its kind has followed may have given way to it or to the lack of room: which, only the NPC knows.
    gone, counted = verdict.left_out + verdict.merged + verdict.unseen, noted + disk.merged + disk.omitted
    if gone > counted:
        text = f"{verdict.left_out} observations were left out of requests, {verdict.merged} gave way to newer ones"
        verdict.find("W2", f"{text}, {verdict.unseen} to others, and only {counted} were counted")
    if mind.twice:
        verdict.find("C34", f"{len(mind.twice)} observations stood in one request twice: {_some(sorted(mind.twice))}")


def _actions(verdict: Verdict, world: World, mind: Mind, disk: Disk) -> None:
    """Each id is begun at most once, each call of the model is carried out at most once, and what the NPC is told of it is true."""
    ids, numbers = Counter(name for name, _, _ in world.acts), Counter(n for _, _, n in world.acts)
    verdict.executed = len(world.acts)
    again = [name for name, times in ids.items() if times > 1]
    calls = [n for n, times in numbers.items() if times > 1]
    verdict.repeated = len(again) + len(calls)
    if again:
        verdict.find("C35", f"{len(again)} action ids were carried out more than once: {_some(again)}")
    if calls:
        verdict.find("C35", f"{len(calls)} calls of the model were carried out more than once: {_some(calls)}")
    if foreign := [n for _, name, n in world.acts if mind.asked.get(n) != name]:
        verdict.find("C35", f"{len(foreign)} actions were carried out that the model never asked for: {_some(foreign)}")
    if unplanned := sorted(ids.keys() - set(disk.intents)):
        verdict.find("C35", f"{len(unplanned)} actions were carried out whose intent was not stored: {_some(unplanned)}")
    last = dict(disk.outcomes)
    if untrue := [name for name, state in last.items() if state == "done" and name not in ids]:
        verdict.find("C29", f"{len(untrue)} actions were reported as done that the world never began: {_some(untrue)}")
    if denied := [name for name, state in last.items() if state == "unknown" and name in ids]:
        verdict.find("C29", f"{len(denied)} actions that the world had begun were unknown to it when it was asked: {_some(denied)}")
    if untold := [name for name in ids if name not in last]:
        verdict.find("C35", f"of {len(untold)} actions that were carried out nobody ever told the NPC the end: {_some(untold)}")


def _some(things: Iterable[object]) -> str:
    shown = list(things)
    return ", ".join(str(x) for x in shown[:SHOWN]) + (" …" if len(shown) > SHOWN else "")
