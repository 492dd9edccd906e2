"""Observations in the event log: written as they came, read back as they were.

Invariant: `from_journal(to_journal(o))` is `o`; what an older version wrote is read with defaults, never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from world_adapter.frames import Observation, Speaker


def to_journal(o: Observation) -> dict[str, Any]:
    """An observation as the data of an event."""
    data: dict[str, Any] = {"seq": o.seq, "t": o.t, "kind": o.kind, "text": o.text, "prio": o.prio}
    if o.speaker:
        data["from"] = {"id": o.speaker.id, "name": o.speaker.name, "kind": o.speaker.kind}
    optional = {"wt": o.wt, "data": o.data, "key": o.key, "to": o.to, "self": o.own or None}
    return data | {name: value for name, value in optional.items() if value is not None}


def from_journal(data: Mapping[str, Any]) -> Observation:
    """An observation from the data of an event."""
    source = data.get("from")
    return Observation(
        seq=int(data.get("seq", 0)),
        t=float(data.get("t", 0.0)),
        kind=str(data.get("kind", "notice")),
        text=str(data.get("text", "")),
        wt=data.get("wt"),
        data=data.get("data"),
        key=data.get("key"),
        prio=int(data.get("prio", 5)),
        speaker=_speaker(source) if isinstance(source, Mapping) else None,
        to=data.get("to"),
        own=bool(data.get("self", False)),
    )


def _speaker(data: Mapping[str, Any]) -> Speaker:
    return Speaker(id=str(data.get("id", "")), name=str(data.get("name", "")), kind=data.get("kind", "world"))
