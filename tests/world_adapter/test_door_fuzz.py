"""The door under fire (W5): whatever bytes a world sends, through codec and link: nothing raises, blocks, grows, or comes out unclean."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.world_adapter.fuzz_door import Door
from world_adapter.codec import CODECS, JSON, MSGPACK, Codec

BOTH = pytest.mark.parametrize("codec", [MSGPACK, JSON], ids=["msgpack", "json"])

LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(st.characters(exclude_categories=()), max_size=30)
    | st.sampled_from(["speech", "obs", "batch", "mira", "x" * 3_000, "\x00", "operator"])
)  # fmt: skip
NAMES = st.sampled_from(
    ["op", "seq", "t", "kind", "text", "data", "key", "prio", "from", "to", "self", "wt", "items", "id", "name", "state", "error", "epoch",
     "world", "npc", "session", "next_seq", "lost", "actions", "schema", "value", "n", "code", "heartbeat_s", "max_frame"],
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=20)
OPS = st.sampled_from(
    ["hello", "welcome", "actions", "obs", "batch", "act_result", "act_progress", "gate", "rollback", "ping", "pong", "bye", "odd"]
)
FRAMES = st.builds(lambda op, fields: {**fields, "op": op}, OPS, st.dictionaries(NAMES, VALUES, max_size=9))
ITEMS = st.builds(
    lambda seq, fields: {"seq": seq, "t": 1.0, "kind": "speech", "text": "x", **fields}, st.integers(1, 12),
    st.dictionaries(NAMES, VALUES, max_size=4),
)  # fmt: skip
BATCHES = st.builds(lambda items: {"op": "batch", "items": items}, st.lists(ITEMS, max_size=6))


def packed(codec: Codec, raw: Any) -> bytes:
    if codec.text:
        return json.dumps(raw).encode("utf-8", "surrogatepass")
    try:
        found: bytes = msgpack.packb(raw, unicode_errors="surrogatepass")
    except (OverflowError, ValueError):
        found = b"\xc1"
    return found


@BOTH
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(FRAMES, BATCHES), max_size=6), st.binary(max_size=60), st.integers(0, 400), st.binary(max_size=4))
def test_no_frames_and_no_bytes_come_through_unclean(codec: Codec, frames: list[Any], raw: bytes, at: int, noise: bytes) -> None:
    """W5: whole, cut, and with bytes broken in the middle, in the middle of an attachment; numbers leave once and in order."""
    door = Door(codec)
    for one in [*(packed(codec, frame) for frame in frames), raw]:
        for sent in (one, one[:at] + noise + one[at + len(noise) :], one[:at]):
            door.take(sent)


SIZE = 1 << 20
ITEM = {"seq": 1, "t": 1.0, "kind": "speech", "text": "x"}
HEAVY: dict[str, tuple[Codec, bytes]] = {
    "many plain": (MSGPACK, msgpack.packb({"op": "batch", "items": [{**ITEM, "seq": n} for n in range(1, SIZE // 40)]})),
    "many plain, the last not": (
        MSGPACK, msgpack.packb({"op": "batch", "items": [*({**ITEM, "seq": n} for n in range(1, 20_000)), {**ITEM, "seq": "x"}]})
    ),
    "many ids": (
        JSON, json.dumps({"op": "batch", "items": [{**ITEM, "seq": n, "key": "k" * 100 + str(n)} for n in range(1, 5_000)]}).encode()
    ),
    "one text": (JSON, json.dumps({"op": "obs", **ITEM, "text": "\x00" * (SIZE // 8)}).encode()),
    "one name": (MSGPACK, msgpack.packb({"op": "obs", **ITEM, "from": {"id": "x" * SIZE, "name": "y" * SIZE, "kind": "player"}})),
    "data of data": (JSON, b'{"op":"obs","seq":1,"t":1.0,"kind":"item","text":"","data":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001),
    "lists in data": (
        MSGPACK,
        b"\x85\xa2op\xa3obs\xa3seq\x01\xa4kind\xa4item\xa4text\xa0\xa4data\x81\xa1a\xdd\x00\x0f\x00\x00" + b"\x90" * 983_040,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
def test_what_is_made_to_be_heavy_is_over_soon_and_leaves_little(name: str) -> None:
    """W5: up to a megabyte in one frame: a fraction of a second of the processor, and memory by the limit, not by the attacker."""
    codec, data = HEAVY[name]
    Door(codec).take(data)  # what is made once for all is made now
    door = Door(codec)
    before = time.process_time()
    door.take(data)
    assert time.process_time() - before < 0.5
    tracemalloc.start()
    try:
        door = Door(codec)
        door.take(data)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 40 * len(data)


def test_the_same_words_again_and_again_leave_nothing_behind() -> None:
    """W5: what is remembered of names and ids for speed is bounded, however many there are."""
    door = Door(MSGPACK)
    for round_ in range(40):
        items = [
            {**ITEM, "seq": n, "key": f"{round_}-{n}", "from": {"id": f"i{round_}-{n}", "name": f"n{n}", "kind": "npc"}}
            for n in range(1, 500)
        ]
        door.take(msgpack.packb({"op": "batch", "items": items}))
    from world_adapter import runs  # noqa: PLC0415 - only this test looks inside

    assert 0 < len(runs._known_ids) <= 8_192
    assert 0 < len(runs._known_sources) <= 8_192
    for info in (runs._kept_name.cache_info(), runs.speaker_of.cache_info()):
        assert info.maxsize is not None
        assert info.currsize <= info.maxsize <= 8_192


def test_both_codecs_are_under_fire() -> None:
    """W5: a codec that is added has to be added here."""
    assert set(CODECS.values()) == {MSGPACK, JSON}
