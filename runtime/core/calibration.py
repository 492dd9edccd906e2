"""The learned factor between our count and the provider's.

Invariant: up at once, down slowly, always within bounds; a figure is compared only with the raw size of the very request it was
measured on (a usage figure measured before an edit is worthless after it).
"""

from __future__ import annotations

from dataclasses import dataclass

START = 1.6  # today's Claude tokenizer makes 1.5 to 1.7 tokens of one cl100k token of English, code or JSON
LOWEST, HIGHEST = 0.5, 8.0
DOWN = 0.12  # share of the distance walked down per answer
HEADROOM = 1.01  # contents differ from request to request
BLIND_STEP = 1.08
SMALL = 256  # requests below this many raw tokens say too much, since overheads rule: they may lower the factor, never raise it


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`factor` turns raw tokens into the provider's; `learned` tells how many answers it rests on."""

    factor: float = START
    learned: int = 0

    def measured(self, raw: int, actual: int) -> Calibration:
        """An answer said that a request of `raw` tokens had `actual` input tokens."""
        if raw <= 0 or actual <= 0:
            return self
        seen = _bounded(actual / raw * HEADROOM)
        if seen >= self.factor and raw < SMALL:
            return self
        if seen >= self.factor:
            return Calibration(factor=seen, learned=self.learned + 1)
        # The first answers may walk faster: the start value is a guess about an unknown model.
        share = max(DOWN, 0.5 / (1 + self.learned))
        return Calibration(factor=self.factor - (self.factor - seen) * share, learned=self.learned + 1)

    def rejected(self, raw: int, actual: int | None) -> Calibration:
        """A request of `raw` tokens was too long; `actual` where the provider told its size.

        Where it did not, the factor goes up by a step: something was larger than we thought.
        """
        seen = _bounded(actual / raw * HEADROOM if actual and raw else self.factor * BLIND_STEP)
        return Calibration(factor=max(seen, self.factor), learned=self.learned + 1)

    def estimate(self, raw: int) -> int:
        """Raw tokens in the provider's."""
        return int(raw * self.factor) + 1


def _bounded(factor: float) -> float:
    return min(HIGHEST, max(LOWEST, factor))
