"""How a desk of the proving ground is set: one model, a small window.

Invariant: the product's defaults but for the window, the purse (it is the hours that decide) and the steps of a turn.
"""

from __future__ import annotations

from runtime.core.budget import Budget
from runtime.core.layout import Shape
from runtime.core.session import Settings
from runtime.model.profiles import profile

MODEL = "claude-haiku-5-5"
WINDOW = 8_000


def settings(window: int) -> Settings:
    """The loop's settings in a window of so many tokens."""
    facts = profile(MODEL)
    shape = Shape(
        model=MODEL, tail_as_system=facts.system_in_messages, thinking_off=facts.thinking_off is not None, structured=facts.structured
    )
    budget = Budget(window=window, output=min(1_024, window // 8))
    return Settings(budget=budget, shape=shape, dollars_per_day=1_000.0, summary_tokens=600, steps_per_turn=10)
