"""Snapshots as JSON text, one at every step.

Invariant: read as JSON, a text is what `snapshot.dump` gives; what is the same object as in the text before is not written out anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import snapshot

if TYPE_CHECKING:
    from .session import Session

_T = TypeVar("_T")
_encoded = json.JSONEncoder(ensure_ascii=False).encode


class Writer:
    """Writes the snapshots of one session; holds the texts of what stood in the last one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}  # by identity: records, blocks and messages never change

    def text(self, session: Session) -> str:
        """The snapshot of now."""
        before, self._known = self._known, {}

        def written(what: _T, out: Callable[[_T], Any]) -> str:
            found = before.get(id(what))
            if found is None or found[0] is not what:
                found = what, _encoded(out(what))
            self._known[id(what)] = found
            return found[1]

        record = written(session.record, snapshot.record_out)
        block = written(session.record_block, snapshot.block_out) if session.record_block else "null"
        messages = ", ".join(written(message, snapshot.message_out) for message in session.messages)
        rest = _encoded(snapshot.outline(session))[:-1]
        return f'{rest}, "record": {record}, "record_block": {block}, "messages": [{messages}]}}'
