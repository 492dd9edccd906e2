"""Four seconds of a busy Minecraft game, as a bot saw it (a recording of mineflayer), in the NPC's inbox."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from world_adapter.frames import Observation, Speaker
from world_adapter.inbox import Bounds, Inbox, addressed_to

RECORDING = Path(__file__).parent / "minecraft_busy.jsonl"
ME = "npc_one"


def recorded() -> Iterator[Observation]:
    """The events one for one, as a bridge would send them that merges nothing: places by entity, chat as speech."""
    for seq, line in enumerate(RECORDING.read_text(encoding="utf-8").splitlines(), start=1):
        event = json.loads(line)
        if event["event"] == "chat":
            speaker = Speaker(id=event["from"], name=event["from"], kind="player")
            yield Observation(seq=seq, t=event["t"], kind="speech", text=event["text"], speaker=speaker, prio=8)
        else:
            key, at = f"entity:{event['id']}", tuple(event["at"])
            yield Observation(seq=seq, t=event["t"], kind="moved", text=str(at), key=key, data={"at": at}, prio=1)


def test_a_busy_game_leaves_every_word_and_one_place_each() -> None:
    """W2: after four seconds without a turn there wait all words and the newest place of each entity, and the account is right."""
    stream = list(recorded())
    inbox = Inbox(addressed=addressed_to(ME))
    for first in range(0, len(stream), 16):
        inbox.put(stream[first : first + 16])
    drained = inbox.drain()
    newest = {o.key: o for o in stream if o.key is not None}
    words = [o for o in stream if o.kind == "speech"]
    assert len(stream) > 20 * len(newest)
    assert len(words) > 1
    assert sorted(o.seq for o in drained.observations) == sorted([*(o.seq for o in words), *(o.seq for o in newest.values())])
    assert drained.merged == len(stream) - len(words) - len(newest)
    assert drained.note is None


def test_where_there_is_no_room_places_give_way_to_words() -> None:
    """W2: with room for no more than the words, it is places that go, and they are counted."""
    stream = list(recorded())
    words = [o for o in stream if o.kind == "speech"]
    inbox = Inbox(addressed=addressed_to(ME), bounds=Bounds(items=len(words)))
    inbox.put(stream)
    drained = inbox.drain()
    assert list(drained.observations) == words
    gone = drained.omitted["moved"]
    assert gone + drained.merged + len(words) == len(stream)
    assert drained.note == f"[{gone} observations omitted: {gone} moved]"
