"""Names that were nearly right: tools and arguments as a model misspells them.

Invariants: pure, bounded in time whatever the names. A suggestion is only ever shown; what is taken for a slip of the pen is a change of
case or of separators, or one letter too many, too few or swapped with its neighbour, and never another letter or digit: `slot_3` is no slip
for `slot_2`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher
from heapq import nlargest
from itertools import islice

#: Suggestions that are shown, and names that are looked at for them.
SUGGESTED = 3
LOOKED_AT = 2_000
#: Names that are compared letter by letter.
COMPARED = 16
#: Characters of a name that are compared.
CHARS = 80
#: How much alike a suggestion is at least, from 0 to 1.
ALIKE = 0.6
#: Names shorter than this are too easily others: `to` and `too`, `x` and `y`.
SHORT = 4

_FILL = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")


def suggestions(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names, at most three, that may have been meant by `name`, the likeliest first."""
    known = {other[:CHARS].casefold(): other for other in islice(names, LOOKED_AT)}
    wanted = name[:CHARS].casefold()
    letters = Counter(wanted)
    # Comparing in order takes long for names of few letters, so only those are that have most letters in common.
    likely = nlargest(COMPARED, known, key=lambda other: _in_common(letters, other) / (len(wanted) + len(other) or 1))
    ratios = {other: SequenceMatcher(None, wanted, other).ratio() for other in likely}
    close = [other for other in sorted(ratios, key=lambda other: (-ratios[other], other)) if ratios[other] >= ALIKE][:SUGGESTED]
    # `go` for `go_to_place`: too short to be alike, and yet a part of it.
    within = [other for other in known if len(wanted) >= SHORT and wanted in other] if len(close) < SUGGESTED else []
    return tuple(known[other] for other in dict.fromkeys([*close, *sorted(within, key=len)]))[:SUGGESTED]


def _in_common(letters: Counter[str], other: str) -> int:
    return sum(min(number, letters[letter]) for letter, number in Counter(other).items())


def slip(given: str, meant: str) -> bool:
    """Whether `given` can only be `meant`, written carelessly."""
    if max(len(given), len(meant)) > CHARS:
        return False
    one, other = (_FILL.sub("", name).casefold() for name in (given, meant))
    if one == other:
        return bool(one)
    if min(len(one), len(other)) < SHORT or _DIGITS.findall(one) != _DIGITS.findall(other):
        return False
    if len(one) == len(other):
        return any(one[:n] + one[n + 1] + one[n] + one[n + 2 :] == other for n in range(len(one) - 1))
    long, short = (one, other) if len(one) > len(other) else (other, one)
    return len(long) == len(short) + 1 and any(long[:n] + long[n + 1 :] == short for n in range(len(long)))
