"""What an NPC's life has come to, in figures, read from its journal.

Invariant: a pure fold over events: the same log gives the same figures, whether the NPC is alive or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.store.events import Event
from runtime.store.journal import Journal

PAGE = 5_000
RUNGS = ("evict_tool_outputs", "compact", "trim", "shed_recall", "hard_reset", "give_up")
INBOX = ("delivered", "merged", "omitted")
#: Kinds of events that the figures are made of.
KINDS = frozenset(
    {
        "request", "answer", "failure", "rung", "turn", "wake", "alarm", "diary", "observation", "summary", "repair", "set aside", "yield",
        "woken from yield", "stale", "redelivered", "reset", "restart", "drained", "summary_answer", "aside", "attached",
    }
)  # fmt: skip


@dataclass(slots=True)
class Figures:
    """The fold. Sizes in tokens, times in milliseconds, money in dollars."""

    turns: int = 0
    turns_failed: int = 0
    run_failed: int = 0
    longest_failed_run: int = 0
    requests: int = 0
    answers: int = 0
    rejected: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    rungs: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0
    read_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    largest_estimate: int = 0
    policy_ms: list[float] = field(default_factory=list)
    inbox: Counter[str] = field(default_factory=Counter)
    own: int = 0
    notices: int = 0
    waiting: list[tuple[int, bool]] = field(default_factory=list)  # events in the inbox, and whether they are the runtime's own words
    taken: list[tuple[int, bool]] = field(default_factory=list)  # the same of those that left it
    drains: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)  # through which event, and the counts in order of `INBOX`
    world_lost: int = 0
    persisted: int = 0
    diary_entries: int = 0
    last_at: float = 0.0

    def take(self, event: Event) -> None:
        """One event."""
        data = event.data
        self.kinds[event.kind] += 1
        self.last_at = event.at
        match event.kind:
            case "request":
                self.requests += 1
                self.largest_estimate = max(self.largest_estimate, int(data.get("estimate", 0)))
                if "policy_ms" in data:
                    self.policy_ms.append(float(data["policy_ms"]))
            case "answer" | "summary_answer" | "aside":
                self.answers += event.kind == "answer"
                self._usage(data)
            case "failure":
                fault = str(data.get("fault"))
                self.failures[fault] += 1
                self.rejected += fault in ("too_long", "invalid", "output_limit")
                self._usage(data)
            case "rung":
                if not data.get("failed"):
                    self.rungs[str(data.get("rung"))] += 1
            case "turn":
                self.turns += 1
                if data.get("failed"):
                    self.turns_failed += 1
                    self.run_failed += 1
                    self.longest_failed_run = max(self.longest_failed_run, self.run_failed)
                else:
                    self.run_failed = 0
            case "observation":
                if data.get("self"):
                    self.own += 1
                else:
                    own_words = not data.get("seq")  # the runtime's, which no world sent
                    self.notices += own_words
                    self.waiting.append((event.id, own_words))
            case "attached":
                self.world_lost += int(data.get("lost") or 0)
            case "reset":
                self.persisted += data.get("how") != "memory"
            case "drained":
                self._drained(int(data.get("through", 0)), tuple(int(data.get(name, 0)) for name in INBOX))
            case "redelivered":
                self._redelivered(int(data.get("after", 0)))
            case "diary":
                self.diary_entries += "context-reset" in (data.get("tags") or ())
            case _:
                pass

    def _drained(self, through: int, counts: tuple[int, ...]) -> None:
        gone = [w for w in self.waiting if w[0] <= through]
        self.waiting = self.waiting[len(gone) :]
        self.taken += gone
        delivered, *others = counts
        counts = (delivered - sum(own_words for _, own_words in gone), *others)
        self.drains.append((through, counts))
        self.inbox.update(dict(zip(INBOX, counts, strict=True)))

    def _redelivered(self, after: int) -> None:
        """A crash came between a draining and the checkpoint of who drained: all that is told again, and counts when it is."""
        while self.drains and self.drains[-1][0] > after:
            self.inbox.subtract(dict(zip(INBOX, self.drains.pop()[1], strict=True)))
        self.waiting = [w for w in self.taken if w[0] > after] + self.waiting
        self.taken = [w for w in self.taken if w[0] <= after]

    def _usage(self, data: Mapping[str, Any]) -> None:
        read = int(data.get("read") or 0)
        self.input_tokens += int(data.get("input") or 0) + read + int(data.get("written") or 0)
        self.read_tokens += read
        self.output_tokens += int(data.get("output") or 0)
        self.dollars += float(data.get("dollars") or 0.0)

    def as_json(self) -> dict[str, Any]:
        """Plain values, ready for `--json`."""
        ordered = sorted(self.policy_ms)
        turns = max(1, self.turns)
        received = self.kinds["observation"] - self.own - self.notices
        waiting = sum(not own_words for _, own_words in self.waiting)
        missing = received - sum(self.inbox.values()) - waiting
        return {
            "turns": self.turns,
            "turns_failed": self.turns_failed,
            "longest_failed_run": self.longest_failed_run,
            "requests": self.requests,
            "requests_rejected": self.rejected,
            "refusals": self.failures["refused"],
            "failures": dict(self.failures),
            "rungs": {name: self.rungs[name] for name in RUNGS},
            "context_reset_diary_entries": self.diary_entries,
            "resets": self.kinds["reset"],
            "tokens_per_turn": round(self.input_tokens / turns),
            "cache_read_share": round(self.read_tokens / max(1, self.input_tokens), 4),
            "dollars": round(self.dollars, 6),
            "dollars_per_1000_turns": round(1_000 * self.dollars / turns, 4),
            "largest_estimate": self.largest_estimate,
            "policy_ms_p50": share(ordered, 0.50),
            "policy_ms_p99": share(ordered, 0.99),
            "policy_ms_first_tenth_p50": share(sorted(self.policy_ms[: max(1, len(ordered) // 10)]), 0.50),
            "policy_ms_last_tenth_p50": share(sorted(self.policy_ms[-max(1, len(ordered) // 10) :]), 0.50),
            "observations": {
                "received": received,
                **{n: self.inbox[n] for n in INBOX},
                "waiting": waiting,
                "lost": self.world_lost + max(0, missing),
                "own": self.own,
            },
            "sessions_persisted": self.persisted,
            "policy_ms": self.policy_ms,
            "summaries": self.kinds["summary"],
            "repairs": self.kinds["repair"],
            "set_aside": self.kinds["set aside"],
            "yields": self.kinds["yield"],
            "alarms": self.kinds["alarm"],
            "last_event_at": self.last_at,
        }


def share(ordered: list[float], q: float) -> float:
    """The q-quantile of sorted values; 0 for none."""
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * q))], 3) if ordered else 0.0


async def figures(journal: Journal, *, after: int = 0) -> Figures:
    """Fold a whole journal."""
    out = Figures()
    while page := await journal.events(after=after, kinds=KINDS, limit=PAGE):
        for event in page:
            out.take(event)
        after = page[-1].id
    return out
