"""One command and its answer: which lines belong to it, and what they say became of it.

Invariant: an outcome is said once. Success is read from what only success brings (the echo of the words, the sight of the other room),
never from the absence of a complaint; a refusal in words that no table knows is a failure, with those words as its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from world_adapter.evennia_actions import Command, Expect
from world_adapter.evennia_text import Heard, Room, is_failure, is_under_way
from world_adapter.frames import ActState

_SPEECH = frozenset({"speech", "whisper", "emote"})
_HANDLED = re.compile(r"^You (?:pick|get|take|grab|lift|receive|give|hand|offer|pass)\b", re.IGNORECASE)
_STUMBLED = ("Traceback ", "An untrapped error")

_SILENCE = {
    Expect.SPOKEN: "The words did not come back: nobody may have heard them.",
    Expect.ARRIVED: "You are still where you were.",
    Expect.SEEN: "The world showed nothing.",
    Expect.CARRIED: "The world showed nothing.",
    Expect.HANDLED: "The world did not say that it worked.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a command. `room` is where the NPC stands, after a walk or a look around."""

    state: ActState
    text: str
    code: str | None = None
    room: Room | None = None


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One command on its way.

    Attributes:
        tag: the caller's id for it.
        command: what was sent.
        before: the room's name when it was sent, None where the server does not tell.
        end: number of the question behind it, whose answer closes it.
        lines: what came for it.
        verdict: what became of it, None while that is open.
        closed: the server has run it (a slow one may still be going on).
        lost: the server never ran it, or its answer never came.
        abandoned: nobody waits for it any more.
        settled: its consequences have been drawn.
    """

    tag: str
    command: Command
    before: str | None = None
    end: int = 0
    lines: list[Heard] = field(default_factory=list)
    verdict: Verdict | None = None
    closed: bool = False
    lost: bool = False
    abandoned: bool = False
    settled: bool = False

    @property
    def walks(self) -> bool:
        return self.command.expects is Expect.ARRIVED

    def take(self, heard: Heard) -> bool:
        """Offers a line. Until the close all that belongs is taken, after it only what decides."""
        if self.lost or not belongs(self.command, heard):
            return False
        lines = [*self.lines, heard]
        verdict = judge(self.command, lines)
        if self.closed:
            same_place = heard.room is not None and heard.room.name == self.before
            if self.verdict is not None or verdict is None or same_place:
                return False
        self.lines = lines
        self.verdict = verdict
        return True

    def close(self, place: str | None) -> None:
        """The server has run the command, and the character now stands in `place` (None where the server does not tell)."""
        self.closed = True
        if self.verdict is None and self.walks and place and self.before and place != self.before:
            self.verdict = Verdict(state=ActState.DONE, text=_text(self.lines) or f"You are now in {place}.", room=Room(name=place))

    def worth_waiting(self) -> bool:
        """Whether a walk has begun that will end by itself."""
        return self.walks and any(is_under_way(heard.text) for heard in self.lines)

    def conclude(self) -> Verdict:
        """The verdict when nothing more will come and no line decided."""
        text = _text(self.lines)
        if text and self.command.expects in {Expect.SEEN, Expect.CARRIED}:
            return Verdict(state=ActState.DONE, text=text)
        return Verdict(state=ActState.FAILED, text=text or _SILENCE[self.command.expects], code="no_effect")


def belongs(command: Command, heard: Heard) -> bool:
    """Whether a line that came while the command ran is an answer to it, and not the room going on around."""
    if heard.channel or heard.sort == "prompt":
        return False
    if heard.kind in _SPEECH:
        return command.expects is Expect.SPOKEN and (heard.own or _echoes(command, heard))
    if heard.sort == "look":
        return command.expects in {Expect.ARRIVED, Expect.SEEN}
    if heard.sort == "inventory":
        return command.expects is Expect.CARRIED
    return heard.own or heard.kind == "notice"


def _echoes(command: Command, heard: Heard) -> bool:
    """An echo that names no speaker whom we could read, as a game in another language sends."""
    return not heard.who and bool(command.words) and command.words in " ".join(heard.text.split())


def judge(command: Command, lines: Sequence[Heard]) -> Verdict | None:
    """What the lines say became of the command, None while they do not say."""
    proof = next((heard for heard in lines if _proves(command, heard)), None)
    if proof is not None:
        room = proof.room if command.expects is Expect.ARRIVED or command.of_room else None
        return Verdict(state=ActState.DONE, text=_text(lines), room=room)
    if any(is_failure(heard.text) for heard in lines):
        return Verdict(state=ActState.FAILED, text=_text(lines), code="refused")
    return None


def _proves(command: Command, heard: Heard) -> bool:
    match command.expects:
        case Expect.SPOKEN:
            return heard.kind in _SPEECH
        case Expect.ARRIVED | Expect.SEEN:
            return heard.sort == "look"
        case Expect.CARRIED:
            return heard.sort == "inventory"
        case Expect.HANDLED:
            return _HANDLED.match(heard.text) is not None and not is_failure(heard.text)


def _text(lines: Sequence[Heard]) -> str:
    # A traceback names files of somebody else's machine and helps no NPC.
    return "\n".join("The game stumbled over this command." if heard.text.startswith(_STUMBLED) else heard.text for heard in lines)
