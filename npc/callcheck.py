"""What is looked at before a call of any tool is run: is there such a tool, do its arguments fit, has it given the same often enough.

Invariants: whatever is changed or refused here leaves one event with its reason; what is refused is not run, and its result says so
(`denied`); the history keeps what the model wrote, what runs is what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from npc.arguments import KEPT, Misfit, Wardrobe
from npc.goals import Standing
from npc.repetition import Repetition
from npc.spelling import suggestions
from runtime.core.effects import Call
from runtime.host import Result

#: The longest that is logged of a name, and of all changes to one call together, in characters.
NAME_CHARS = 64
CHANGES = 20
#: The longest list of names in an error message, in characters.
NAMES_CHARS = 800
#: What a call without arguments that could be read is answered.
CUT_OFF = "the arguments were cut off or are no JSON object; call it again, shorter"

Log = Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A call that may be made, with arguments that fit, and what the model is told beside the result."""

    call: Call
    note: str = ""

    def told(self, result: Result) -> Result:
        """The result with that word, where it is there already."""
        if not self.note or result.ongoing:
            return result
        return replace(result, text=f"{result.text} {self.note}".strip())


class CallCheck:
    """For one NPC.

    `log` writes an event, `tell` is for whoever watches, `clock` gives unix seconds, `standing` is where the NPC is and how often it was
    spoken to.
    """

    def __init__(
        self, *, log: Log, tell: Log, clock: Callable[[], float], standing: Callable[[], Standing], repetition: Repetition
    ) -> None:  # fmt: skip
        self.repetition, self._tell = repetition, tell
        self._log, self._clock, self._standing = log, clock, standing
        self._stood: Standing | None = None
        self._wardrobe = Wardrobe()
        self._unchecked: set[str] = set()  # tools of which that was logged

    def cut_off(self, call: Call, *, turn: int) -> Result:
        """For a call whose arguments came torn."""
        self._log("arguments refused", {"name": call.name[:NAME_CHARS], "call": call.id, "why": "cut off, or no JSON object"}, turn=turn)
        return self._refused(call.name, CUT_OFF)

    def unknown(self, call: Call, shown: Sequence[str], *, among: Iterable[str] = (), turn: int) -> Result:
        """For a tool that there is not: what may have been meant, `among` those that have to be looked for too, or all that are `shown`."""
        meant = suggestions(call.name, (*shown, *among))
        self._log("unknown tool", {"name": call.name[:NAME_CHARS], "call": call.id, "suggested": list(meant)}, turn=turn)
        instead = f"did you mean {' or '.join(meant)}?" if meant else f"there are: {', '.join(shown)[:NAMES_CHARS]}"
        return self._refused(call.name, f"there is no tool {call.name[:NAME_CHARS]!r}; {instead}")

    def fitted(self, call: Call, schema: Mapping[str, Any], *, turn: int, speaks: bool = False) -> Checked | Result:
        """The call with arguments that fit what its tool declares, or why it is not run."""
        fit = self._wardrobe.fit(call.name, schema, call.arguments, speaks=speaks)
        who = {"name": call.name[:NAME_CHARS], "call": call.id}
        if isinstance(fit, Misfit):
            self._log("arguments refused", {**who, "why": fit.why}, turn=turn)
            return self._refused(call.name, fit.why)
        if fit.changes:
            self._log("arguments repaired", {**who, "changes": list(fit.changes[:CHANGES])}, turn=turn)
        if fit.unchecked and call.name not in self._unchecked and len(self._unchecked) < KEPT:
            self._unchecked.add(call.name)
            self._log("arguments unchecked", {**who, "why": "its schema says more than can be checked here; the world checks"}, turn=turn)
        note = f"[note: {'; '.join(fit.notes)[:400]}]" if fit.notes else ""
        return Checked(call=replace(call, arguments=fit.arguments) if fit.changes else call, note=note)

    def _refused(self, name: str, why: str) -> Result:
        self._tell("call refused", action=name[:NAME_CHARS], why=why)
        return Result(text=f"[not run: {why}]", error=True, denied=True)

    # ------------------------------------------------------------ loops
    def repeated(self, name: str, call: Call, *, turn: int) -> Result | None:
        """Why the call is not made once more, None if it may be. `name` is that of the tool or of its action."""
        self._look_about()
        why = self.repetition.refusal(name, call.arguments, now=self._clock())
        if not why:
            return None
        self._log("repetition refused", {"name": name[:NAME_CHARS], "call": call.id, "why": why}, turn=turn)
        return self._refused(name, why)

    @contextmanager
    def under_way(self, name: str, call: Call) -> Iterator[None]:
        """While the call is being made."""
        with self.repetition.under_way(name, call.arguments):
            yield

    def gave(self, name: str, arguments: Mapping[str, Any], result: Result, *, changes: bool) -> None:
        """What a call gave. `changes`: its tool may change something in the world."""
        self._look_about()
        self.repetition.gave(name, arguments, f"{result.error} {result.text}", result.text, now=self._clock(), changes=changes)

    def _look_about(self) -> None:
        """Elsewhere, or after somebody spoke to the NPC, the same may give something else."""
        now, before = self._standing(), self._stood
        self._stood = now
        if before and (before.words != now.words or (before.position and now.position and not before.position.same(now.position))):
            self.repetition.changed()
