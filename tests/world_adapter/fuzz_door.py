"""One world's bytes at one link, for fuzzers: `Door` for hypothesis, and by itself for atheris.

    python tests/world_adapter/fuzz_door.py -runs=200000 -max_len=4096      # pip install atheris; coverage leads the bytes

Invariant: a fault is an exception or a failed assertion; everything else that a world sends is fine.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from world_adapter.codec import JSON, MSGPACK, Codec
from world_adapter.effects import Deliver
from world_adapter.frames import Batch, Hello, MalformedFrame, UnknownOp, Welcome
from world_adapter.link import AgentLink

_CONTROLS = {chr(c) for c in (*range(0x20), *range(0x7F, 0xA0))} - set("\t\n\r")


class Door:
    """A link that is attached over `codec` and takes whatever comes."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.link = AgentLink(npc="mira", agent="fuzz")
        self.now = 0.0
        self.next: dict[str, int] = {}
        self._attach()

    def _attach(self) -> None:
        self.link.opened(self.codec, now=self.now)
        self.link.heard(Hello(world="w", epoch="e"), now=self.now)
        self.link.heard(Welcome(npc="mira", session="s"), now=self.now)
        self.link.effects()

    def take(self, data: bytes) -> None:
        """One message of the world."""
        self.now += 1.0
        frame = self.codec.decode_world(data)
        if not isinstance(frame, MalformedFrame | UnknownOp) and not (isinstance(frame, Batch) and not frame.items):
            self.codec.encode(frame).decode("utf-8" if self.codec.text else "latin-1")
        self.link.heard(frame, now=self.now)
        for effect in self.link.effects():
            if isinstance(effect, Deliver):
                for o in effect.items:
                    assert o.seq >= self.next.get(effect.epoch, 0), "a number left twice"
                    self.next[effect.epoch] = o.seq + 1
                    for text in (o.text, o.kind, o.key or "", o.to or "", o.wt or "", o.speaker.name if o.speaker else ""):
                        assert _CONTROLS.isdisjoint(text), "a control character came through"
                        text.encode()
        if not self.link.attached:
            self.link.closed(code=1006, reason="")
            self._attach()


def main() -> None:
    """Fuzzes with atheris; arguments are libFuzzer's."""
    atheris = importlib.import_module("atheris")  # an optional tool
    atheris.instrument_all()

    def one(data: bytes) -> None:
        codec = JSON if data[:1] < b"\x80" else MSGPACK
        door = Door(codec)
        for part in data[1:].split(b"\xff\xff\xff"):
            door.take(part)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
