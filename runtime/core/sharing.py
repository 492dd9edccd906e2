"""Who gets how much when not everything fits.

Invariants: shares sum to at most the room; what is needed most stays whole first; a share is the whole size, or at least `least`
(all of the room where even that is less), or nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence


def shares(sizes: Sequence[int], order: Sequence[int], room: int, *, least: int) -> list[int]:
    """Tokens for each of `sizes`: all of it, a part of at least `least`, or 0 for what has to be left out.

    `order` lists the indexes, what is needed most first. In that order things stay whole as long as there is room. The first is never left
    out: whole if it fits at all, else it gets half of the room before the others. What cannot stay whole shares evenly what is left
    in the end.
    """
    given = [0] * len(sizes)
    left, cut = room, dict[int, int]()  # index: what it has for certain
    for n in order:
        if sizes[n] <= left:
            given[n] = sizes[n]
        elif not cut and left == room:
            cut[n] = max(1, min(room, max(least, room // 2)))
        elif left >= least:
            cut[n] = least
        left -= given[n] or cut.get(n, 0)
    while cut and left > 0:
        # The smallest missing part first, so that what it does not need goes to the others.
        n = min(cut, key=lambda k: sizes[k] - cut[k])
        more = min(sizes[n] - cut[n], left // len(cut))
        given[n] = cut.pop(n) + more
        left -= more
    for n, certain in cut.items():
        given[n] = certain
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
