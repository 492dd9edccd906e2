"""Answers that arrive whole and are odd all the same.

Invariant: pure. What comes out is an answer that the real API could send: only such as a model, a truncation or a classifier makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sim.api.counting import TokenCounter
from sim.api.faults import OddAnswer
from sim.api.replies import Output, cut

UNKNOWN_TOOL = "open_a_door_in_the_air"
UNKNOWN_STOP = "lost_in_thought"
GARBAGE = '{"direction": north, "text": "wait for me'


def bend(output: Output, odd: OddAnswer, request: Mapping[str, Any], counter: TokenCounter) -> Output:
    """The answer that is sent in place of `output`."""
    match odd:
        case OddAnswer.REFUSAL:
            details = {"type": "refusal", "category": "general_harms", "explanation": "This request was declined by a safety classifier."}
            return replace(output, content=(), arguments={}, tokens=1, stop_reason="refusal", stop_details=details)
        case OddAnswer.EMPTY:
            return replace(output, content=(), arguments={}, tokens=2, stop_reason="end_turn")
        case OddAnswer.PAUSE_TURN:
            said = tuple(block for block in output.content if block["type"] == "text") or ({"type": "text", "text": "One moment."},)
            return replace(output, content=said, arguments={}, stop_reason="pause_turn")
        case OddAnswer.UNKNOWN_STOP:
            return replace(output, stop_reason=UNKNOWN_STOP)
        case OddAnswer.WINDOW_EXCEEDED:
            return replace(cut(output, output.tokens // 2, counter), stop_reason="model_context_window_exceeded")
        case _:
            return _tool_call(output, odd, request)


def _tool_call(output: Output, odd: OddAnswer, request: Mapping[str, Any]) -> Output:
    """Something is wrong with the last tool use; an answer without one gets one, if the request offers tools."""
    content = list(output.content)
    last = max((n for n, block in enumerate(content) if block["type"] == "tool_use"), default=None)
    if last is None:
        if not request.get("tools"):
            return output
        last = len(content)
        made_up = {"id": f"toolu_odd{len(request['messages']):08d}", "name": request["tools"][0]["name"], "input": {"text": "hm"}}
        content.append({"type": "tool_use", **made_up})
    use = content[last]
    arguments: dict[int, str] = {}
    stop = "tool_use"
    match odd:
        case OddAnswer.CUT_TOOL_CALL:
            whole = json.dumps(use["input"], ensure_ascii=False)
            arguments, stop = {last: whole[: max(1, len(whole) // 2)]}, "max_tokens"
            content = [*content[:last], {**use, "input": {}}]
        case OddAnswer.GARBAGE_ARGUMENTS:
            arguments = {last: GARBAGE}
        case OddAnswer.UNKNOWN_TOOL:
            content[last] = {**use, "name": UNKNOWN_TOOL}
        case OddAnswer.DOUBLED_IDS:
            content.append(dict(use))
        case OddAnswer.REUSED_ID:
            content[last] = {**use, "id": next(_used_ids(request), use["id"])}
    return replace(output, content=tuple(content), arguments=arguments, stop_reason=stop)


def _used_ids(request: Mapping[str, Any]) -> Iterator[str]:
    for message in request["messages"]:
        if not isinstance(message["content"], str):
            yield from (block["id"] for block in message["content"] if block["type"] == "tool_use")
