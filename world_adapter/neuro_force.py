"""One demand of a game: what is told of it, how often, and when it is given up. Pure.

Invariant: a force is told once, and again at most `Patience.reminders` times (more only if the game itself goes on asking, and then
seldom); the game's refusals of its answers are counted, and after `Patience.refusals` of them nobody is urged any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from world_adapter import cleaning
from world_adapter.frames import Observation, Speaker
from world_adapter.neuro_wire import ForceFrame, listed

FORCE = "force"  # the kind of its observations
MAX_SHOWN = 2_000  # characters of a demand that is told again


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what, in seconds, and how often to try.

    Attributes:
        greet_s: for a game that has connected to say something.
        result_s: for the result of an action; after that its outcome is unknown.
        pace_s: between two forces of which the first was not answered: of a game that forces faster only the newest is told.
        remind_s: until a force that nobody answered is told again, doubling each time.
        retry_s: until it is told again after an answer that the game refused.
        reminders: how often it is told again.
        refusals: how many refused answers end it.
        still_there_s: for the game that plays to answer a ping, when another one knocks.
        leave_s: for a game to save when we leave.
        leave_now_s: for the same, once it is told that we are gone.
    """

    greet_s: float = 1.0
    result_s: float = 20.0
    pace_s: float = 0.25
    remind_s: float = 30.0
    retry_s: float = 15.0
    reminders: int = 3
    refusals: int = 3
    still_there_s: float = 5.0
    leave_s: float = 1.5
    leave_now_s: float = 0.5


@dataclass(slots=True, kw_only=True)
class Force:
    """The demand under way.

    Attributes:
        number: counted from 1.
        frame: what the game said.
        replaces: an earlier one was not answered when this one came.
        tellings: how often the NPC was told.
        refusals: how many answers came to nothing.
        answered: an answer was sent.
        again_at: when it is told again, None before the first telling and when it is not told again.
    """

    number: int
    frame: ForceFrame
    replaces: bool = False
    tellings: int = 0
    refusals: int = 0
    answered: bool = False
    again_at: float | None = None

    def due(self, told_at: float | None, patience: Patience) -> float | None:
        """When to tell it; `told_at` is when a force, this or another, was told last. None for never."""
        if self.tellings or self.answered:
            return self.again_at
        return told_at + patience.pace_s if self.replaces and told_at is not None else 0.0

    def put_off(self, until: float) -> None:
        """Not before `until`, if it is to be told again at all."""
        if self.again_at is not None:
            self.again_at = max(self.again_at, until)

    def asked_again(self, told_at: float | None, patience: Patience) -> None:
        """The game said the same once more, and nothing has happened since. Told again as planned; after the last time, seldom."""
        if self.again_at is None and self.tellings > patience.reminders:
            self.again_at = (told_at or 0.0) + patience.remind_s * 2.0**patience.reminders

    def refused(self, now: float, patience: Patience) -> bool:
        """An answer came to nothing; whether the NPC is to try again."""
        self.refusals += 1
        if self.refusals >= patience.refusals:
            self.again_at = None
            return False
        self.again_at = now + patience.retry_s if self.tellings <= patience.reminders else None
        return True

    def told(self, choices: Sequence[str], *, npc: str, speaker: Speaker, now: float, patience: Patience) -> list[Observation]:
        """Counts a telling; the observations that make it, for whoever is called `npc`."""
        again = self.tellings > 0 or self.answered
        self.tellings += 1
        self.again_at = now + patience.remind_s * 2.0 ** (self.tellings - 1) if self.tellings <= patience.reminders else None
        parts = ["The game still waits for your answer:" if again else "The game asks you to act now:"]
        if self.replaces and not again:
            parts.append("(This replaces what it asked before.)")
        parts.append(cleaning.cut(self.frame.query, MAX_SHOWN) if again else self.frame.query)
        out: list[Observation] = []
        if self.frame.state and not again:
            if self.frame.ephemeral:
                # Only for this choice: whoever is behind needs no more than the newest.
                out.append(Observation(seq=0, t=0.0, kind="scene", text=self.frame.state, key="force state", prio=9, speaker=speaker))
            else:
                parts.append(self.frame.state)
        which = f"Answer by using exactly one of these tools: {listed(choices)}." if choices else "What it names could not be offered."
        parts.append(which)
        out.append(
            Observation(
                seq=0,
                t=0.0,
                kind=FORCE,
                text="\n".join(part for part in parts if part),
                data={"force": self.number, "telling": self.tellings, "choices": list(choices)},
                prio=self.frame.prio,
                speaker=speaker,
                to=npc,
            ),
        )
        return out
