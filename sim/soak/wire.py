"""The wire between the world and the NPC, on which frames get lost, late, doubled, disordered, torn, or stuck for ever.

Invariant: only whole websocket messages of the world are touched, and only after the handshake; a wire without a strike carries everything
at once and in order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from sim.soak.network import Connection

#: Virtual seconds after which disordered frames are let go, even if no more of them come.
DISORDER_S = 1.0
#: Close codes of a world that throws somebody out and would take him again.
KICKS = (1001, 1011, 1012)
_DATA = (1, 2)  # opcodes
Hit = Callable[[bool], None]


@dataclass(slots=True)
class _Fault:
    name: str
    left: int
    seconds: float
    hit: Hit
    held: list[tuple[bytes, Connection]] = field(default_factory=list)


class FaultyWire:
    """See `network.Wire`. One for each world."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dice: random.Random) -> None:
        self._loop, self._dice = loop, dice
        self._faults: list[_Fault] = []
        self._newest: Connection | None = None

    def begin(self, name: str, *, hits: int, seconds: float, hit: Hit) -> None:
        """From now on the next frames are dropped, delayed, doubled or disordered; `hit` hears of each, and whether it was the last."""
        self._faults.append(_Fault(name, hits, seconds, hit))

    def clear(self) -> None:
        """What was not met is over; what is held arrives."""
        faults, self._faults = self._faults, []
        for fault in faults:
            self._let_go(fault)

    def half_open(self) -> bool:
        """From now on nothing comes through the connection that stands, and neither end is told. False if there is none."""
        if self._newest is None:
            return False
        self._newest.state["half open"] = True
        self._newest = None
        return True

    def kick(self) -> bool:
        """The connection ends: with a farewell, or just so."""
        connection, self._newest = self._newest, None
        if connection is None:
            return False
        if self._dice.random() < 0.5:
            connection.cut()
        else:
            connection.deliver(_frame(8, self._dice.choice(KICKS).to_bytes(2, "big") + b"come again"), down=True)
        return True

    def garbage(self, frames: int) -> bool:
        """So many frames that no codec understands."""
        if self._newest is None:
            return False
        for _ in range(frames):
            self._newest.deliver(_frame(2, _garbage(self._dice)), down=True)
        return True

    def carry(self, data: bytes, *, down: bool, connection: Connection) -> None:
        """See `network.Wire`."""
        state = connection.state
        if state.get("half open"):
            return
        if down and not state.get("shaken"):
            state["shaken"] = True
            self._newest = connection
            connection.deliver(data, down=down)
            return
        if not down or data[0] & 15 not in _DATA or not self._faults:
            connection.deliver(data, down=down)
            return
        self._strike(self._faults[0], data, connection)

    def _strike(self, fault: _Fault, data: bytes, connection: Connection) -> None:
        fault.left -= 1
        match fault.name:
            case "drop":
                pass
            case "duplicate":
                connection.deliver(data, down=True)
                connection.deliver(data, down=True)
            case "delay":
                self._loop.call_later(fault.seconds, lambda: self._late(data, connection))
            case _:
                if not fault.held:
                    self._loop.call_later(DISORDER_S, self._let_go, fault)
                fault.held.append((data, connection))
                if not fault.left:
                    self._let_go(fault)
        if not fault.left:
            self._faults.remove(fault)
        fault.hit(not fault.left)

    def _late(self, data: bytes, connection: Connection) -> None:
        if not connection.state.get("half open"):
            connection.deliver(data, down=True)

    def _let_go(self, fault: _Fault) -> None:
        held, fault.held = fault.held, []
        for data, connection in reversed(held):
            self._late(data, connection)


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    head = bytes([0x80 | opcode, size]) if size < 126 else bytes([0x80 | opcode, 126]) + size.to_bytes(2, "big")
    return head + payload


def _garbage(dice: random.Random) -> bytes:
    """Noise, half of something, or something well-formed that is no frame."""
    match dice.randrange(4):
        case 0:
            return dice.randbytes(dice.randint(1, 400))
        case 1:
            return b"\x82\xa2op\xa3obs\xa5items\x93"
        case 2:
            return b"\x91" * 200
        case _:
            return b"\x82\xa2op\xa3obs\xa5items\xc3"
