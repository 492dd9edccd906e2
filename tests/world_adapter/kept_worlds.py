"""A world's store in memory, for tests: what any store must do with changes, in the plainest words."""

from __future__ import annotations

from dataclasses import replace

from world_adapter.keeping import Kept, KeptAct, KeptLife


class MemoryStore:
    """See `keeping.WorldStore`: what was kept outlives the worlds that kept it. `refuse` makes it fail like a full disk."""

    def __init__(self) -> None:
        self.kept: Kept | None = None
        self.refuse = False
        self.refused = 0

    def load(self, world: str) -> Kept | None:
        assert self.kept is None or self.kept.world == world
        return self.kept

    async def keep(self, changes: Kept) -> None:
        if self.refuse:
            self.refused += 1
            raise OSError("no room")
        self.write(changes)

    async def close(self) -> None:
        pass

    def write(self, changes: Kept) -> None:
        """What `keep` does, at once."""
        lives = {life.npc: life for life in self.kept.lives} if self.kept else {}
        for change in changes.lives:
            lives[change.npc] = merged(lives.get(change.npc), change)
        self.kept = Kept(world=changes.world, epoch=changes.epoch, lives=tuple(lives.values()))


def merged(old: KeptLife | None, change: KeptLife) -> KeptLife:
    """A life after a change."""
    told = {} if old is None or change.afresh else {o.seq: o for o in old.told}
    told |= {o.seq: o for o in change.told}
    acts: dict[str, KeptAct] = {a.id: a for a in old.acts} if old else {}
    acts |= {a.id: a for a in change.acts}
    gates = {} if old is None or change.afresh else {g.name: g for g in old.gates}
    gates |= {g.name: g for g in change.gates}
    return replace(
        change, told=tuple(o for seq, o in sorted(told.items()) if seq >= change.first), gates=tuple(gates.values()), forgotten=(),
        acts=tuple(a for a in acts.values() if a.id not in change.forgotten), afresh=False,
    )  # fmt: skip
