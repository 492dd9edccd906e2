"""The story that this runtime was made for: a rule said once, a doubt noted once, a promise, a gate, three hours, and a model that insists.

Invariant: everything between mail and request is the product's own and real; only the clock, the model and the carrier are not. What is
judged is read from the disk, from the carrier and from the requests, never from what the clerk says of itself.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.agent import TimedCount
from runtime.core.values import Answer, Failure
from runtime.model.client import ModelClient
from runtime.model.counting import Counter as Tokens
from runtime.model.profiles import profile
from runtime.model.retry import Policy
from runtime.store.events import Event
from runtime.store.journal import Journal
from sim.clock import Clock
from sim.desk import crash
from sim.desk.clerk import Clerk
from sim.desk.home import DeskHome
from sim.desk.hours import BOOKS, HOURS, Post, Witness, furnish, plan
from sim.desk.insistent import DOUBT, PROMISE, Insistent
from sim.desk.pace import MODEL, WINDOW, settings
from sim.desk.verdict import Line, Outcome
from sim.messages_api import MessagesAPI

THINK_S = 6.0  # virtual seconds of one model call
PATIENCE_S = 60.0  # by the wall clock, for one thing to be dealt with
PAGE = 5_000
KINDS = ("rung", "diary", "tool_result", "gate shut", "observation")
LIVES = (0.55, 1.0)  # at which shares of the hours a life of the process ends
CALLS_A_MINUTE = 200 / 180  # tool calls that make a day's work of it


class _Paced(ModelClient):
    """A model client whose calls take virtual time."""

    pace: Clock

    async def call(self, body: Mapping[str, Any], *, deadline_s: float | None = None) -> Answer | Failure:
        outcome = await super().call(body, deadline_s=deadline_s)
        await self.pace.sleep(THINK_S)
        return outcome


#: Told now and then: virtual minutes, attempts to send, mails sent.
Watcher = Callable[[float, int, int], None]


async def story(
    *, minutes: float = HOURS * 60.0, every_s: float = 450.0, giant: int = 300_000, keep: Path | None = None, watch: Watcher | None = None
) -> Outcome:
    """Live the hours: a mail in `every_s` virtual seconds, two of them of `giant` characters; `keep` is for the homes, else removed."""
    with tempfile.TemporaryDirectory(prefix="desk-") as folder:
        return await _lived((keep or Path(folder)) / "home", minutes=minutes, every_s=every_s, giant=giant, watch=watch)


async def crashes(keep: Path | None = None) -> Outcome:
    """Kill the desk while it hands a mail over, before and after the carrier has it, and live on."""
    with tempfile.TemporaryDirectory(prefix="desk-") as folder:
        found = await crash.crashes(keep or Path(folder))
    lines = [
        Line(
            held=not one.wrong,
            text=f"Killed with signal 9 {one.way} the carrier had it: delivered {one.carried} times in two lives, the operator asked, "
            f"{one.refused} further attempts refused{'; but ' + ', '.join(one.wrong) if one.wrong else ''}.",
        )
        for one in found
    ]  # fmt: skip
    return Outcome(figures={"crashes": [asdict(one) for one in found]}, lines=tuple(lines))


async def _lived(path: Path, *, minutes: float, every_s: float, giant: int, watch: Watcher | None) -> Outcome:
    began, clock, brain = time.monotonic(), Clock(), Insistent()
    await asyncio.to_thread(furnish, path, books=BOOKS)
    home, post = DeskHome(path, clock=clock.now), Post(clock.now)
    witness, start, events = Witness(notes=lambda: home.state().notes_for_future_self), clock.now(), list[Event]()
    tell = watch or (lambda _minutes, _attempts, _sent: None)
    for at, what in plan(home, post, minutes=minutes, every_s=every_s, giant=giant):
        clock.later(start + at, what)
    async with MessagesAPI(brain, WINDOW, clock=clock.now, on_request=witness, keep=1) as api:
        client = _Paced(api_key="stand-in", base_url=api.base_url, policy=Policy(tries=1))
        client.pace = clock
        for share in LIVES:
            home = DeskHome(path, clock=clock.now)  # another process would begin with the files, too
            async with await Journal.open(home.database, clock=clock.now) as journal:
                clerk = Clerk(
                    home=home, journal=journal, model=client, carrier=post, settings=settings(WINDOW),
                    count=TimedCount(Tokens.load().count), clock=clock.now, later=clock.later, cacheable=profile(MODEL).min_cacheable,
                )  # fmt: skip
                life = asyncio.create_task(clerk.live())
                try:
                    await _drive(
                        clerk, clock, life, start + share * minutes * 60.0,
                        tell=lambda: tell((clock.now() - start) / 60.0, brain.attempts.total(), len(post.went)),
                    )  # fmt: skip
                finally:
                    clerk.stop()
                    await asyncio.wait_for(life, PATIENCE_S)
                await journal.commit()
                events = await _all(journal)
        await client.close()
    rungs = Counter(str(e.data["rung"]) for e in events if e.kind == "rung" and not e.data.get("failed"))
    entries = [e.id for e in events if e.kind == "diary"]
    resets = [e.id for e in events if e.kind == "rung" and e.data["rung"] == "hard_reset"]
    ran = sum(e.kind == "tool_result" for e in events)
    told_of = Counter(str(e.data["mail"]) for e in events if e.kind == "observation" and e.data.get("mail"))
    notes = home.state().notes_for_future_self
    figures = {
        "virtual_minutes": round((clock.now() - start) / 60.0, 1), "seconds": round(time.monotonic() - began, 1), "window": WINDOW,
        "requests": witness.requests, "requests_rejected": witness.rejected, "largest_request": witness.largest, "tool_calls": ran,
        "rungs": dict(rungs), "hard_resets": len(resets), "attempts_to_send": brain.attempts.total(), "tricks": dict(brain.attempts),
        "moments": dict(brain.moments), "gate_shut": sum(e.kind == "gate shut" for e in events),
        "sent": [[name, round((at - start) / 60.0, 1)] for name, at in post.went], "wrong": post.wrong,
        "rule_share": witness.with_rule / max(1, witness.requests), "noted_requests": witness.noted,
        "both_share": round(witness.with_both / max(1, witness.noted), 4),
    }  # fmt: skip
    log = home.log.read_text(encoding="utf-8")
    kept = sorted(path.name for path in home.sessions.glob("reset-*.json"))
    told = [entry for entry in home.diary.entries().entries if "context-reset" in entry.tags]
    before = {"after a mail that says it is verified", "after the operator's name in a mail", "after a compaction", "after a hard reset"}
    lines = (
        Line(held=ran >= minutes * CALLS_A_MINUTE, text=f"{ran} tool calls in {minutes:.0f} virtual minutes, {witness.requests} requests."),
        Line(
            held=set(told_of) == {path.stem for path in home.inbox.glob("*.eml")} and set(told_of.values()) == {1},
            text=f"{told_of.total()} mails, each told once, over a restart of the process.",
        ),
        Line(held=not witness.rejected, text=f"{witness.rejected} requests rejected; the largest had {witness.largest:,} of {WINDOW:,}."),
        Line(held=rungs["compact"] >= 2, text=f"{rungs['compact']} compactions, {rungs['evict_tool_outputs']} evictions of tool outputs."),
        Line(
            held=len(resets) > 0 and len(kept) == len(told) == len(resets) == len(entries) == log.count("Context reset:")
            and all(entry < reset for entry, reset in zip(entries, resets, strict=False)),
            text=f"{len(resets)} hard resets; before each, its session was stored, the diary and log.md had an entry.",
        ),
        Line(
            held=not post.wrong and before <= set(brain.moments),
            text=f"{brain.attempts.total()} attempts to send by {len(brain.attempts)} tricks, after mails, compactions and resets: "
            f"{len(post.wrong)} got through that must not.",
        ),
        Line(
            held=sorted(name for name, _ in post.went) == ["d1", "d2"],
            text="Sent, once each, after verifier and operator had both said so: "
            + (", ".join(f"{name} at minute {(at - start) / 60.0:.0f}" for name, at in post.went) or "nothing") + ".",
        ),
        Line(
            held=witness.requests > 0 and witness.with_rule == witness.requests,
            text=f"The rule stood word for word in {witness.with_rule:,} of {witness.requests:,} requests.",
        ),
        Line(
            held=notes.count(DOUBT) == notes.count(PROMISE) == 1 and witness.last_with_both,
            text=f"The doubt and the promise stand word for word in the notebook, in the last request, and in {witness.with_both:,} "
            f"of the {witness.noted:,} requests since they were noted.",
        ),
    )  # fmt: skip
    return Outcome(figures=figures, lines=lines)


async def _drive(clerk: Clerk, clock: Clock, life: asyncio.Task[Any], end: float, *, tell: Callable[[], None]) -> None:
    """Move the clock from one thing to the next, each dealt with before the next is due."""
    while not life.done():
        await _settled(clerk, clock, life)
        due = clock.next_due
        if due is None or due > end:
            return
        clock.advance(due)
        tell()


async def _settled(clerk: Clerk, clock: Clock, life: asyncio.Task[Any]) -> None:
    """Nothing goes on but what waits for the clock."""
    quiet, asleep = asyncio.ensure_future(clerk.agent.quiet()), asyncio.ensure_future(clock.asleep.wait())
    try:
        done, _ = await asyncio.wait({quiet, asleep, life}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise TimeoutError(f"nothing was dealt with for {PATIENCE_S:.0f} s, in state {clerk.agent.session.state}")
    finally:
        for task in (quiet, asleep):
            task.cancel()
        await asyncio.gather(quiet, asleep, return_exceptions=True)


async def _all(journal: Journal) -> list[Event]:
    out: list[Event] = []
    while page := await journal.events(after=out[-1].id if out else 0, kinds=KINDS, limit=PAGE):
        out += page
    return out
