"""Cutting texts to a number of tokens.

Invariant: a cut is named in the text, head and tail stay, and the result is never larger than asked for (down to the size of the
notice itself).
"""

from __future__ import annotations

from .messages import Count

HEAD_SHARE = 0.6
#: What every notice of a cut holds.
CUT = " characters cut here"


def notice_of(characters: int, event: int) -> str:
    """The words that stand where something was cut."""
    where = f"; event {event} has all of it" if event else ""
    return f"\n[... {characters:,}{CUT}{where} ...]\n"


def clip(text: str, tokens: int, count: Count, *, event: int = 0, size: int | None = None) -> str:
    """`text` in at most `tokens` raw tokens; itself when it fits.

    `size` is the text's own count where it is known, so that a huge text is not counted again.
    """
    size = count(text) if size is None else size
    if size <= tokens:
        return text
    # In proportion to the characters first; where the text is denser than on average, shrink until it fits.
    room = int(len(text) * max(0, tokens - 16) / max(1, size))
    while room > 16:
        head = int(room * HEAD_SHARE)
        tail = room - head
        out = text[:head] + notice_of(len(text) - room, event) + text[len(text) - tail :]
        if (now := count(out)) <= tokens:
            return out
        room = min(int(room * tokens / now * 0.97), room - 8)
    return notice_of(len(text), event).strip()
