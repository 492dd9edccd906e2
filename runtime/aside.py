"""Small calls beside the loop: no tools, no history, one text back.

Invariant: a call that fails in any way gives a value that says why, and what it cost is told in every case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.core.layout import Shape
from runtime.core.values import Answer, Failure, Fault, Stop
from runtime.model.client import ModelClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What a small call gave: its text, or None and why there is none.

    `outcome` is what the model's client said of it, None where no call was made; `dollars` is what it cost.
    """

    text: str | None
    why: str = ""
    outcome: Answer | Failure | None = None

    @property
    def dollars(self) -> float:
        """What it cost."""
        return (self.outcome.dollars or 0.0) if self.outcome else 0.0

    @property
    def invalid(self) -> bool:
        """Whether the endpoint does not know such requests."""
        return isinstance(self.outcome, Failure) and self.outcome.fault is Fault.INVALID


async def ask(
    model: ModelClient, shape: Shape, *, system: str, text: str, max_tokens: int, schema: Mapping[str, Any] | None = None
) -> Aside:
    """Ask for a text; with `schema` for one of JSON that it describes. `max_tokens` are the provider's."""
    body: dict[str, Any] = {
        "model": shape.model,
        "max_tokens": max_tokens,
        "system": [{"type": "text", "text": system}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
    }
    if shape.thinking_off:
        body["thinking"] = {"type": "disabled"}
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    try:
        outcome: Answer | Failure = await model.call(body)
    except Exception as error:  # noqa: BLE001 (the client promises values; a broken promise must not take a task of the loop's with it)
        outcome = Failure(fault=Fault.LOCAL, message=repr(error)[:300])
    if isinstance(outcome, Failure):
        return Aside(text=None, why=outcome.message or str(outcome.fault), outcome=outcome)
    if outcome.stop is not Stop.END_TURN:
        return Aside(text=None, why=f"stopped by {outcome.stop}", outcome=outcome)
    return Aside(text="\n".join(str(b.get("text") or "") for b in outcome.content if b.get("type") == "text"), outcome=outcome)
