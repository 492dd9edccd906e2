"""Of which parts a request's context is made, in the tokens of the stand-in's own count.

Invariant: read from the request as it was received; the parts add up to what the stand-in counted. A block is told by the fence that it
begins with, as the documentation of a request names them; a sender that fences nothing has observations where others have memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sim.api.prompt import Level, Unit, contents
from sim.report.figures import PARTS, Part

_AT: Mapping[Part, int] = {name: n for n, name in enumerate(PARTS)}
#: How a text of the user's begins, and which part it is.
_FENCES: tuple[tuple[str, Part], ...] = (
    ("<observation", "observations"),
    ("<recalled", "recalled"),
    ("<notebook", "notebook"),
    ("<record", "record"),
    ("[context reset", "record"),
    ("[standing rules]", "tail"),
    ("[budget]", "tail"),
)


def sizes(body: Mapping[str, Any], units: Sequence[Unit]) -> tuple[int, ...]:
    """Tokens of each part, in the order of `PARTS`.

    Args:
        body: of a request that was counted.
        units: its positions with their sizes.
    """
    out = [0] * len(PARTS)
    said = [_part(str(message.get("role")), block) for message in body.get("messages") or () for block in contents(message.get("content"))]
    at = 0
    for unit in units:
        match unit.level:
            case Level.TOOLS:
                out[_AT["tools"]] += unit.tokens
            case Level.SYSTEM:
                out[_AT["system"]] += unit.tokens
            case Level.MESSAGES:
                out[_AT[said[at] if at < len(said) else "observations"]] += unit.tokens
                at += 1
    return tuple(out)


def _part(role: str, block: Mapping[str, Any]) -> Part:
    if role == "system":
        return "tail"
    if role == "assistant":
        return "own_words"
    if block.get("type") == "tool_result":
        return "tool_results"
    text = str(block.get("text") or "")
    for begins, part in _FENCES:
        if text.startswith(begins):
            return part
    return "observations"
