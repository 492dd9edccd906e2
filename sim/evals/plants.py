"""The product broken on purpose, in ways that have names: whoever doubts that the cases would notice a fault can plant it and look.

Invariant: a plant changes one thing through the product's own parts and leaves the cases, the stand-in minds and the checks as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from npc.character import Character
from npc.constitution import Constitution, parse_constitution
from npc.context import Context
from npc.hearing import Heard
from npc.policy.grid import Say, Verdict
from npc.policy.policy import Policy
from runtime.core.events import Memory
from runtime.core.layout import Fixed
from sim.evals.running import Parts
from sim.evals.stage import Stage
from world_adapter.frames import ActionSpec, ActResult


class _Shortened(Context):
    """A prompt without the first rule."""

    def fixed(self, tools: Sequence[dict[str, Any]], version: int, constitution: Constitution) -> Fixed:
        return super().fixed(tools, version, parse_constitution("\n".join(constitution.rules[1:])))


class _Forgotten(Character):
    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.context = _Shortened(self.persona, self.count)


class _NothingComesBack(Character):
    async def _recall(self, heard: Sequence[Heard], *, turn: int) -> tuple[Memory, ...]:  # noqa: ARG002 - as the method that it stands for
        return ()


class _Certain(Character):
    def _note_once(self, words: str) -> None:
        super()._note_once(words.replace("Unverified: ", ""))


class _Unguarded(Character):
    def __init__(self, **parts: Any) -> None:
        super().__init__(**{**parts, "persona": parts["persona"].model_copy(update={"guards": ()})})


class _Lenient(Policy):
    """Everything is allowed, whatever it is and however often."""

    async def judge(self, spec: ActionSpec, arguments: Mapping[str, Any], *, turn: int, approved: bool = False) -> Verdict:  # noqa: ARG002 - as the method that it stands for
        return Verdict(say=Say.ALLOW)

    def begin(self, spec: ActionSpec) -> str:  # noqa: ARG002 - as above
        return ""


class _Permissive(Character):
    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.hands.policy = _Lenient(self.journal, clock=self.clock)


class _Wordy(Character):
    def __init__(self, **parts: Any) -> None:
        persona = parts["persona"]
        longer = persona.character.model_copy(update={"description": f"{persona.character.description} Be kind. " * 40})
        super().__init__(**{**parts, "persona": persona.model_copy(update={"character": longer})})


class _AnswersTwice(Stage):
    """Each result comes a second time."""

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the seam's
        result = await super().act(id=id, name=name, args=args, timeout_s=timeout_s)
        if result.final and self._sink is not None:
            asyncio.get_running_loop().call_soon(self._sink.finished, result)
        return result


class _ActsTwice(Stage):
    """Each action reaches the world twice, as if it had been sent again."""

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002 - the seam's
        await super().act(id=f"{id}-again", name=name, args=args, timeout_s=timeout_s)
        return await super().act(id=id, name=name, args=args, timeout_s=timeout_s)


PLANTS: Mapping[str, Parts] = {
    "forgotten-rule": Parts(character=_Forgotten),  # the first rule is not in the prompt
    "lost-memory": Parts(character=_NothingComesBack),  # what was told comes back no more
    "lost-doubt": Parts(character=_Certain),  # notes lose the mark of being unverified
    "open-gates": Parts(character=_Unguarded),  # guards are not kept
    "open-policy": Parts(character=_Permissive),  # whatever the mind calls is simply done
    "wordy-prompt": Parts(character=_Wordy),  # every request is dearer
    "answers-twice": Parts(stage=_AnswersTwice),  # a result comes twice
    "acts-twice": Parts(stage=_ActsTwice),  # an action is done twice
}
