"""The stand-in for a model: rules that read the request, or recorded answers that are given again.

Invariant: a mind knows what stands in the request and nothing else, not what it did before and not what the case expects: what the product
loses on the way is lost for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from sim.evals.case import Mind, Rule, ToolUse
from sim.evals.script import found
from sim.messages_api import Reply
from sim.reading import Reading, block_text, blocks

NOTHING = "(nothing more to do)"
_FENCES = {what: re.compile(rf"<{what}\b[^>]*>(.*?)</{what}>", re.DOTALL) for what in ("notebook", "recalled", "record")}
_PLACE = re.compile(r"\{(\w+)\}")
READ = ("news", "rules", "notebook", "recalled", "results", "history")


class Sight:
    """A request, by what its parts are for."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.reading = Reading(request)
        self._system = request.get("system")

    @cached_property
    def rules(self) -> str:
        """The system part, without what stands in the conversation."""
        return "\n".join(block_text(b) for b in blocks(self._system))

    @cached_property
    def news(self) -> str:
        """What happened, of this turn."""
        return self.reading.news

    @cached_property
    def notebook(self) -> str:
        """The newest copy of the notebook, wherever it stands."""
        copies = _FENCES["notebook"].findall(self.reading.said)
        return str(copies[-1]) if copies else ""

    @cached_property
    def recalled(self) -> str:
        """Memories that came back by themselves with this turn."""
        return "\n".join(_FENCES["recalled"].findall(self.reading.opening_text))

    @cached_property
    def results(self) -> str:
        """What the last tools gave."""
        return "\n".join(self.reading.results)

    @cached_property
    def history(self) -> str:
        """The conversation before the news."""
        return self.reading.past


class RuledMind:
    """A mind by rules; see `sim.messages_api.Brain`."""

    def __init__(self, mind: Mind, *, say: str) -> None:
        self._mind, self._say = mind, say

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """The answer of the first rule that fits."""
        sight = Sight(request)
        if not sight.reading.tools:
            return Reply(content=[{"type": "text", "text": self._mind.page}])
        for rule in self._mind.rule:
            names = fits(rule, sight)
            if names is not None:
                return self._answer(rule, names)
        return Reply(content=[{"type": "text", "text": NOTHING}])

    def _answer(self, rule: Rule, names: Mapping[str, str]) -> Reply:
        if rule.refuses:
            return Reply(content=[], stop_reason="refusal")
        said = (ToolUse(name=self._say, args={"text": rule.say}),) if rule.say is not None else ()
        content = _content(rule.think, (*rule.call, *said), names)
        return Reply(content=content or [{"type": "text", "text": NOTHING}])


class PlayedMind:
    """A mind that gives recorded answers, in their order; afterwards it has nothing more to do."""

    def __init__(self, mind: Mind) -> None:
        self._mind, self._next = mind, 0

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """The next answer."""
        if not Reading(request).tools:
            return Reply(content=[{"type": "text", "text": self._mind.page}])
        answers = self._mind.answer
        if self._next >= len(answers):
            return Reply(content=[{"type": "text", "text": NOTHING}])
        played = answers[self._next]
        self._next += 1
        return Reply(content=_content(played.think, played.call, {}) or [{"type": "text", "text": NOTHING}])


def brain(mind: Mind, *, say: str) -> RuledMind | PlayedMind:
    """The stand-in for this mind; `say` is the action that speaks."""
    return PlayedMind(mind) if mind.answer else RuledMind(mind, say=say)


def fits(rule: Rule, sight: Sight) -> Mapping[str, str] | None:
    """The named groups of a rule's patterns if all of it fits, else None."""
    first = rule.results is None and rule.round is None
    if (first and sight.reading.round) or (rule.round is not None and sight.reading.round != rule.round):
        return None
    called = sight.reading.called
    if any(name not in called for name in rule.called) or any(name in called for name in rule.not_called):
        return None
    names: dict[str, str] = {}
    for what in READ:
        wanted, unwanted = getattr(rule, what), getattr(rule, f"no_{what}")
        if unwanted is not None and found(unwanted, getattr(sight, what)):
            return None
        if wanted is None:
            continue
        match = found(wanted, getattr(sight, what))
        if match is None:
            return None
        names |= {name: text for name, text in match.groupdict().items() if text is not None}
    return names


def _content(think: str, calls: tuple[ToolUse, ...], names: Mapping[str, str]) -> list[dict[str, Any]]:
    text = _filled(think, names)
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    return content + [{"type": "tool_use", "name": call.name, "input": _filled(call.args, names)} for call in calls]


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    """A value with the named groups in its texts."""
    if isinstance(value, str):
        return _PLACE.sub(lambda place: names.get(place[1], place[0]), value)
    if isinstance(value, dict):
        return {name: _filled(item, names) for name, item in value.items()}
    return [_filled(item, names) for item in value] if isinstance(value, list) else value
