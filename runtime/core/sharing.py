"""Who gets how much when not everything fits.

Invariants: shares sum to at most the room; what is needed most stays whole first; a share is the whole size, or at least `least`
(all of the room where even that is less), or nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(sizes: Sequence[int], order: Sequence[int], room: int, *, least: int) -> list[int]:
    """Tokens for each of `sizes`: all of it, a part of at least `least`, or 0 for what has to be left out.

    `order` lists the indexes, what is needed most first; the first of them is never left out, and whole if it fits at all. What cannot
    stay whole shares the rest under one common ceiling, so that small things suffer last.
    """
    given = [0] * len(sizes)
    if not order:
        return given
    first, others = order[0], list(order[1:])
    if sizes[first] > room:
        given[first] = max(1, room)
        if room < least * 2:
            return given
        given[first] = least  # for the moment: a share of what the others leave is added
    else:
        given[first] = sizes[first]
    while others and given[first] + sum(min(sizes[n], least) for n in others) > room:
        others.pop()
    left = room - given[first] - sum(min(sizes[n], least) for n in others)
    cut = [first] if given[first] < sizes[first] else []
    for n in others:
        more = sizes[n] - min(sizes[n], least)
        if more <= left:
            given[n], left = sizes[n], left - more
        else:
            cut.append(n)
    ceiling = ceiling_for([sizes[n] for n in cut], left + least * len(cut), least=least)
    for n in cut:
        given[n] = min(sizes[n], ceiling)
    return given


def ceiling_for(sizes: Sequence[int], target: int, *, least: int) -> int:
    """The common ceiling under which `sizes` sum to at most `target`: small ones stay whole, large ones share what is left.

    Never below `least`, whatever the sum comes to.
    """
    left, ordered = target, sorted(sizes)
    for n, size in enumerate(ordered):
        share = left // (len(ordered) - n)
        if size > share:
            return max(least, share)
        left -= size
    return max(ordered, default=0)
