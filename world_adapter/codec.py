"""The two codecs of npc-world v1: bytes to frames and back, each websocket frame on its own.

Invariant: decoding keeps no state between frames and never raises, so one bad frame costs itself and nothing else; encoding never raises
either, what a codec cannot hold is cleaned as if a peer had sent it.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from world_adapter import cleaning, ops
from world_adapter.frames import Batch, Decoded, Frame, MalformedFrame
from world_adapter.runs import Run, plain_json, plain_msgpack

SUBPROTOCOL_MSGPACK = "npc-world.v1.msgpack"
SUBPROTOCOL_JSON = "npc-world.v1.json"

# Frames above this many bytes get the guards below: what a small one can do is over before anyone notices.
LARGE = 65_536
# A container costs a hundred times its byte on the wire. More of them than this in one frame are an attack, or as bad as one.
MAX_CONTAINERS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """One way to write frames.

    Attributes:
        subprotocol: its name in the handshake.
        text: whether it travels in text frames.
        dumps: a plain map to bytes; may raise.
        loads: bytes to whatever they hold; may raise.
        plain: bytes to the plain observations that they hold; None where they hold anything else, which is for `loads`.
    """

    subprotocol: str
    text: bool
    dumps: Callable[[Mapping[str, Any]], bytes]
    loads: Callable[[bytes], object]
    plain: Callable[[bytes], Run | None]

    def encode(self, frame: Frame) -> bytes:
        """The bytes of one frame, of any size: the limit is the link's to keep."""
        raw = ops.write(frame)
        try:
            return self.dumps(raw)
        except (ValueError, TypeError, OverflowError, RecursionError):
            # Lone surrogates, NaN, integers beyond 64 bits or foreign objects in values that a model or an author made.
            return self.dumps({key: cleaning.json_value(value) for key, value in raw.items()})

    def decode_world(self, data: bytes) -> Decoded:
        """A frame that a world sent."""
        run = self.plain(data)
        return self._decode(data, ops.FROM_WORLD) if run is None else Batch(items=run)

    def decode_agent(self, data: bytes) -> Decoded:
        """A frame that an agent sent."""
        return self._decode(data, ops.FROM_AGENT)

    def _decode(self, data: bytes, table: Mapping[str, ops.Reader]) -> Decoded:
        size = len(data)
        # With a million small objects in the making the collector would look at each of them again and again: five times the time.
        paused = size > LARGE and gc.isenabled()
        if paused:
            gc.disable()
        try:
            return ops.read(self.loads(data), table, size)
        except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
            return MalformedFrame(reason=f"undecodable ({type(error).__name__})", size=size)
        finally:
            if paused:
                gc.enable()


def _json_dumps(raw: Mapping[str, Any]) -> bytes:
    return json.dumps(raw, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode("utf-8")


def _json_loads(data: bytes) -> object:
    if len(data) > LARGE and data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise ValueError("too many containers")
    return json.loads(data.decode("utf-8", "replace"), parse_constant=_nothing, strict=False)  # raw control characters in a text are text


def _msgpack_dumps(raw: Mapping[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(raw, default=_plain)
    return packed


def _msgpack_loads(data: bytes) -> object:
    if len(data) <= LARGE:
        return msgpack.unpackb(data, strict_map_key=False, unicode_errors="replace", ext_hook=_no_extension)
    counter = _Counter()
    return msgpack.unpackb(
        data, strict_map_key=False, unicode_errors="replace", ext_hook=_no_extension, list_hook=counter.count, object_hook=counter.count,
    )


class _Counter:
    """Counts the containers of one frame and stops the unpacking when there are too many."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_CONTAINERS

    def count(self, container: object) -> object:
        self.left -= 1
        if self.left < 0:
            raise ValueError("too many containers")
        return container


def _plain(value: object) -> object:
    """What a codec asks for when it meets a type of its caller's: mappings and sequences as JSON, anything else as nothing."""
    return cleaning.json_value(value)


def _no_extension(_code: int, _data: bytes) -> None:
    return None


def _nothing(_constant: str) -> None:
    return None


MSGPACK = Codec(subprotocol=SUBPROTOCOL_MSGPACK, text=False, dumps=_msgpack_dumps, loads=_msgpack_loads, plain=plain_msgpack)
JSON = Codec(subprotocol=SUBPROTOCOL_JSON, text=True, dumps=_json_dumps, loads=_json_loads, plain=plain_json)

#: In order of preference.
CODECS: Mapping[str, Codec] = {codec.subprotocol: codec for codec in (MSGPACK, JSON)}
