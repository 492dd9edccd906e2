"""A manor with hundreds of actions, and errands that name none of them.

Invariants: the same number and seed give the same actions and errands; every errand is done by exactly one action; its words are those of
somebody who has never seen the list: about half of them share a verb with the description, the others only the thing.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from world_adapter.frames import ActionSpec, ActResult, ActState, Limits, Observation, Resume, Speaker
from world_adapter.world import Sink

NPC = "Oda"
BOB = Speaker(id="p1", name="Bob", kind="player")
SAY = ActionSpec(
    name="say",
    description="Say something aloud.",
    schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)

# Name, description, how somebody asks for it in its own words and in others.
_DEEDS = (
    ("gather", "Collect {} from where it is found and carry it into the yard.", "collect some {} from outside", "bring in {} for us"),
    (
        "store", "Put {} away on the shelves of the storehouse, safe from damp.",
        "put the {} on the shelves", "see that the {} is out of the wet",
    ),
    ("sell", "Offer {} on the market at a price and take coins for it.", "offer {} on the market", "turn the {} into money"),
    ("buy", "Purchase {} from a trader who passes, for coins.", "purchase {} from the trader", "get us {} from the pedlar"),
    ("weigh", "Find out on the big scales how heavy a load of {} is.", "put {} on the scales", "tell me how much the {} comes to"),
    ("clean", "Wash dirt and dust off {} with water from the well.", "wash the dust off the {}", "make the {} look decent again"),
    ("mend", "Repair what is broken about {} with the tools of the workshop.", "repair the broken {}", "set the {} right again"),
    (
        "count", "Make an inventory of all {} that the manor owns and write down the number.",
        "make an inventory of the {}", "how many {} have we",
    ),
    (
        "mark", "Brand {} with the sign of the manor, so that nobody disputes it.",
        "brand the {} with our sign", "let everyone see whose {} it is",
    ),
    ("wrap", "Pack {} in straw and sackcloth for a journey.", "pack the {} in straw", "ready the {} for the road"),
    ("guard", "Keep watch over {} through the night against thieves.", "keep watch over the {} tonight", "nobody may steal the {}"),
    (
        "lend", "Let a neighbour borrow {} until a day that both agree on.",
        "let the neighbour borrow {}", "the miller may have our {} for a while",
    ),
    ("inspect", "Examine the quality of {} closely and say what is wrong with it.", "examine the quality of the {}", "are the {} any good"),
    ("burn", "Destroy spoiled {} in the pit behind the stables. Cannot be undone.", "destroy the spoiled {}", "get rid of the rotten {}"),
    (
        "donate", "Give {} to the poor at the chapel door, for the good name of the manor.",
        "give {} to the poor", "let the chapel hand out {}",
    ),
)  # fmt: skip
_THINGS = (
    "ore", "grain", "timber", "cloth", "herbs", "fish", "honey", "clay", "leather", "glass", "wine", "cheese", "rope", "candles", "salt",
    "wool", "apples", "bricks", "nails", "feathers", "barrels", "saddles", "lanterns", "turnips", "plums", "charcoal", "hides", "linen",
    "onions", "pitch", "slates", "tallow", "walnuts", "baskets", "bells", "blankets", "boots", "brooms", "buckets", "chains",
)  # fmt: skip
_ARGUMENTS: Mapping[str, Any] = {
    "amount": {"type": "integer", "minimum": 1, "maximum": 99, "description": "how many loads"},
    "care": {"type": "string", "enum": ["quick", "usual", "thorough"], "description": "how carefully it is done"},
    "note": {"type": "string", "maxLength": 120, "description": "a word for the steward's book"},
}
MOST = len(_DEEDS) * len(_THINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What Bob asks for, what does it, and how a mind would look for it, one try after the other."""

    words: str
    action: str
    amount: int
    queries: tuple[str, ...]


def actions(number: int) -> list[ActionSpec]:
    """So many actions besides that for speaking: all deeds with one thing after the other."""
    pairs = itertools.islice(((deed, thing) for thing in _THINGS for deed in _DEEDS), number)
    schema = {"type": "object", "properties": dict(_ARGUMENTS), "required": ["amount"], "additionalProperties": False}
    return [ActionSpec(name=f"{deed[0]}_{thing}", description=deed[1].format(thing), schema=schema) for deed, thing in pairs]


def errands(number: int, *, actions: int, seed: int) -> list[Errand]:
    """So many errands for a manor with so many actions; an action comes back every now and then, as in any household."""
    rng = random.Random(seed)
    pairs = list(itertools.islice(((deed, thing) for thing in _THINGS for deed in _DEEDS), actions))
    out: list[Errand] = []
    done: list[tuple[tuple[str, str, str, str], str]] = []
    for _ in range(number):
        deed, thing = rng.choice(done) if done and rng.random() < 0.25 else rng.choice(pairs)
        done.append((deed, thing))
        plain, other = deed[2].format(thing), deed[3].format(thing)
        asked, again = (plain, other) if rng.random() < 0.5 else (other, plain)
        amount = rng.randint(2, 9)
        words = f"Oda, {asked}, {amount} loads of it, will you?"
        out.append(Errand(words=words, action=f"{deed[0]}_{thing}", amount=amount, queries=(asked, again, f"{deed[0]} {thing}")))
    return out


@dataclass(slots=True)
class Manor:
    """`World` without a link: told things are told at once, and every action is done at once, right or wrong."""

    offered: list[ActionSpec]
    url: str = "memory://manor"
    acts: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    attached: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: asyncio.Event = field(default_factory=asyncio.Event)
    _sink: Sink | None = None
    _seq: int = 0

    async def run(self, sink: Sink, resume: Resume | None) -> None:  # noqa: ARG002 (the seam gives it)
        """See `World.run`."""
        self._sink = sink
        sink.attached(npc=NPC, world="manor", epoch="e1", session="s1", resumed=False, lost=0, limits=Limits())
        sink.actions_changed(self.offered)
        self.attached.set()
        await self._closed.wait()

    async def tell(self, text: str, *, at: float) -> None:
        """Bob says something to her."""
        self._seq += 1
        seen = Observation(seq=self._seq, t=at, kind="speech", text=text, speaker=BOB, to=NPC)
        if self._sink is not None:  # it is attached before anybody speaks
            await self._sink.observed([seen], world="manor", epoch="e1")

    async def act(self, *, id: str, name: str, args: Mapping[str, Any], timeout_s: float) -> ActResult:  # noqa: A002, ARG002 - the seam's
        """See `World.act`."""
        self.acts.append((name, args))
        return ActResult(id=id, state=ActState.DONE, text=f"{name.replace('_', ' ')}: done.")

    async def query(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.query`: nothing is ever under way."""

    async def cancel(self, id: str) -> None:  # noqa: A002 - the protocol's own word
        """See `World.cancel`: nothing is ever under way."""

    async def close(self) -> None:
        """See `World.close`."""
        self._closed.set()
