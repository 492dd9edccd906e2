"""The prompt cache: what of a request is read from it, what is written to it, for how long.

Invariant: `read + written + uncached` is the whole input, and nothing is read that an earlier answer did not write. No clock in here:
the time of a request comes in with it.

Entries are written at marks only. A lookup walks back from each mark, 20 positions at most with the mark's own among them. An entry
lives for its time to live from the start of the request that wrote or last read it, and is there once that request's answer began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.api.prompt import Prompt
from sim.api.usage import Usage

LOOK_BACK = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What the cache does for one request; `PromptCache.begin` makes its writes and refreshes real.

    Attributes:
        usage: the input, split; no output yet.
        at: when the request started, seconds.
        writes: digest of the prefix and its seconds to live, for each mark of sufficient length.
        refreshed: digests of entries that the read keeps alive.
    """

    usage: Usage
    at: float
    writes: tuple[tuple[bytes, int], ...] = ()
    refreshed: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _Entry:
    expires: float
    life: int


class PromptCache:
    """Entries of all models and workspaces; the root of a prompt's chain tells them apart.

    Args:
        most: entries; beyond it the dead ones go first, then those that were not used for longest.
    """

    __slots__ = ("_entries", "_most")

    def __init__(self, *, most: int = 50_000) -> None:
        self._entries: dict[bytes, _Entry] = {}  # in the order of their last use
        self._most = most

    def __len__(self) -> int:
        return len(self._entries)

    def look_up(self, prompt: Prompt, *, root: str, minimum: int, now: float) -> Lookup:
        """Split a request's input. Changes nothing.

        Args:
            prompt: the request.
            root: what separates caches: the model and the workspace.
            minimum: tokens of the shortest prefix that is cached.
            now: when the request started, seconds on any clock that does not go back.
        """
        sums, total = [], 0
        for unit in prompt.units:
            total += unit.tokens
            sums.append(total)
        marks = [at for at, unit in enumerate(prompt.units) if unit.mark and sums[at] >= minimum]
        if not marks:
            return Lookup(usage=Usage(input_tokens=total), at=now)
        chain = prompt.chain(root, {at for mark in marks for at in range(max(0, mark - LOOK_BACK + 1), mark + 1)})
        # The last mark whose walk meets an entry meets the longest one: earlier marks can only meet what lies before them.
        hit = next((at for mark in reversed(marks) if (at := self._back(chain, mark, now)) is not None), None)
        read = sums[hit] if hit is not None else 0
        hour = max((sums[at] for at in marks if prompt.units[at].mark > 300), default=0)
        hour, last = max(hour, read), max(sums[marks[-1]], read)
        kept = {at for at in marks if hit is not None and at <= hit} | ({hit} if hit is not None else set())
        return Lookup(
            usage=Usage(
                input_tokens=total - last,
                cache_read_tokens=read,
                cache_write_1h_tokens=hour - read,
                cache_write_5m_tokens=last - hour,
            ),
            at=now,
            writes=tuple((chain[at], prompt.units[at].mark) for at in marks if hit is None or at > hit),
            refreshed=tuple(chain[at] for at in sorted(kept)),
        )

    def begin(self, lookup: Lookup) -> None:
        """The answer to that request has begun: its writes exist from now on, and what it read lives on."""
        for digest in lookup.refreshed:
            if (entry := self._entries.pop(digest, None)) is not None:
                entry.expires = max(entry.expires, lookup.at + entry.life)
                self._entries[digest] = entry
        for digest, life in lookup.writes:
            self._entries.pop(digest, None)
            self._entries[digest] = _Entry(lookup.at + life, life)
        if len(self._entries) > self._most:
            self._entries = {key: entry for key, entry in self._entries.items() if entry.expires >= lookup.at}
            while len(self._entries) > self._most:
                del self._entries[next(iter(self._entries))]

    def _back(self, chain: Mapping[int, bytes], mark: int, now: float) -> int | None:
        for at in range(mark, max(-1, mark - LOOK_BACK), -1):
            entry = self._entries.get(chain[at])
            if entry is not None and entry.expires >= now:
                return at
        return None
