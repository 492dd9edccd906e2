"""Text from outside, fenced and labelled: source, trust, event number.

Invariant: nothing inside a fence can close it, and a label is one line whatever the name of its source holds.
"""

from __future__ import annotations

import re

_CLOSING = re.compile(r"<(?=/?\s*(?:observation|recalled|notebook|record|diary|talk|so_far|system|context)\b)", re.IGNORECASE)
_UNSAFE = re.compile(r"[\s\"'<>=&]+")
LABEL_CHARS = 48


def label(value: str) -> str:
    """A value for use inside a label: one line, no quotes or brackets, at most 48 characters."""
    return _UNSAFE.sub(" ", value).strip()[:LABEL_CHARS] or "unknown"


def inside(text: str) -> str:
    """Text that can stand inside a fence: tags that look like ours are escaped, all else stays as it is."""
    return _CLOSING.sub("&lt;", text)


def fenced(text: str, *, tag: str = "observation", event: int = 0, **labels: str) -> str:
    """`text` behind a labelled fence."""
    head = "".join(f' {k}="{label(v)}"' for k, v in labels.items() if v)
    number = f' event="{event}"' if event else ""
    return f"<{tag}{number}{head}>\n{inside(text)}\n</{tag}>"
