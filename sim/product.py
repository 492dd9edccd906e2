"""The product as its users run it: `npc attach` as a process of its own, and `npc status` for what it wrote down.

Invariant: this is the only module of the simulator that knows the product's command line and the names in its answers; nothing of the
product's code runs in our process. Figures about the process come from the operating system, not from the product.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.oracle import Books

RUNGS = ("evict_tool_outputs", "compact", "trim", "shed_recall", "hard_reset", "give_up")
#: What users call `npc`.
COMMAND = (sys.executable, "-m", "npc")
#: Seconds that an orderly end may take.
LEAVE_S = 30.0
#: Events of the product's log that are read at once.
LOG_PAGE = 5_000
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_MB = 1_000_000


class ProductError(Exception):
    """The product did not start, or cannot be asked. One sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Character:
    """Files and settings of one NPC, as a user would write them.

    Attributes:
        name: also its id in the world.
        home: its home folder.
        window: tokens.
        persona: further tables of the persona file, as TOML.
    """

    name: str
    home: Path
    description: str
    constitution: Sequence[str]
    model: str
    window: int
    persona: str = ""

    def settle(self) -> Path:
        """Writes the constitution, unless there is one, and the persona file; returns the latter."""
        self.home.mkdir(parents=True, exist_ok=True)
        rules = "\n".join(f"{n}. {rule}" for n, rule in enumerate(self.constitution, 1))
        constitution = self.home / "constitution.md"
        if not constitution.exists():
            constitution.write_text(f"# Constitution\n\n{rules}\n", encoding="utf-8")
        path = self.home / "given.persona.toml"
        # A JSON string is a TOML string as well.
        name, description = (json.dumps(text, ensure_ascii=False) for text in (self.name, self.description))
        path.write_text(f"[character]\nname = {name}\ndescription = {description}\n\n{self.persona}", encoding="utf-8")
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """What the operating system says of the process: seconds of CPU, megabytes resident now and at most so far."""

    cpu_s: float
    rss_mb: float
    peak_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What the product wrote down.

    Attributes:
        books: counts that the oracle checks.
        rungs: how often each rung of the ladder ran.
        policy_ms: the ladder's own time of each step, tokenizing included, oldest first.
    """

    books: Books
    rungs: Mapping[str, int]
    policy_ms: Sequence[float] = field(default_factory=tuple)


class Attached:
    """A running `npc attach`. Made by `attach`."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log
        self._gone = asyncio.create_task(process.wait())

    @property
    def gone(self) -> asyncio.Task[int]:
        """Done when the process has ended; its exit status."""
        return self._gone

    def meter(self) -> Meter | None:
        """The process's figures; None where the system does not tell them or the process has ended."""
        root = Path(f"/proc/{self.process.pid}")
        try:
            fields = (root / "stat").read_text().rpartition(")")[2].split()
            status = dict(line.split(":", 1) for line in (root / "status").read_text().splitlines() if line.startswith("Vm"))
            nanoseconds = sum(int((task / "schedstat").read_text().split()[0]) for task in (root / "task").iterdir())
        except (OSError, ValueError, IndexError):
            return None
        # The scheduler's own clock is exact; where it is switched off there are only ticks.
        cpu_s = nanoseconds / 1e9 or (int(fields[11]) + int(fields[12])) * _TICK_S
        kilobytes = {name: int(value.split()[0]) for name, value in status.items()}
        return Meter(cpu_s=cpu_s, rss_mb=kilobytes.get("VmRSS", 0) * 1024 / _MB, peak_mb=kilobytes.get("VmHWM", 0) * 1024 / _MB)

    async def stop(self) -> int:
        """Asks it to end (SIGTERM) and waits; a process that does not is killed. Returns the exit status."""
        if not self._gone.done():
            self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(asyncio.shield(self._gone), LEAVE_S)
        except TimeoutError:
            self.process.kill()
            return await self._gone

    def last_words(self) -> str:
        """The end of what it wrote, on one line."""
        if not self.log.exists():
            return ""
        return " ".join(self.log.read_text(encoding="utf-8", errors="replace")[-2_000:].split())[-400:]


async def attach(
    character: Character, *, world: str, base_url: str, events: bool = False, command: Sequence[str] = COMMAND
) -> Attached:
    """Starts `npc attach`. What it says goes to `process.log` in its home; with `events` JSON lines go to a pipe and complaints there."""
    persona = character.settle()
    words = [
        *(*command, "attach", world, "--persona", str(persona), "--home", str(character.home)),
        *("--model", character.model, "--base-url", base_url, "--window", str(character.window)),
        *(("--json",) if events else ()),
    ]
    log = character.home / "process.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if events else out,
            stderr=out,
            env=_environment(),
            limit=64 * 1024 * 1024,
        )
    return Attached(process, log)


def notebook(home: Path) -> list[str]:
    """The notes and open questions in a home's state, none where it cannot be read."""
    try:
        state = json.loads((home / "state.json").read_text(encoding="utf-8"))
        return [str(text) for text in (*state["notes_for_future_self"], *state["open_questions"])]
    except (OSError, ValueError, KeyError, TypeError):
        return []


async def ledger(home: Path, *, command: Sequence[str] = COMMAND) -> Ledger:
    """What `npc status` says of a home.

    Raises:
        ProductError: it cannot be asked, or says something else than it promises.
    """
    words = (*command, "status", "--home", str(home), "--json")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=_environment())
    out, err = await process.communicate()
    if process.returncode:
        raise ProductError(f"npc status failed ({process.returncode}): {err.decode('utf-8', 'replace')[-300:]}")
    try:
        return ledger_of(json.loads(out))
    except (ValueError, KeyError, TypeError) as error:
        raise ProductError(f"npc status says something unexpected: {error!r}") from error


async def log(
    home: Path, *, kinds: Sequence[str], page: int = LOG_PAGE, command: Sequence[str] = COMMAND
) -> AsyncIterator[list[dict[str, Any]]]:
    """The event log of a home, oldest first, in pages: only events of these kinds, each with `id`, `at`, `turn`, `kind` and `data`.

    Raises:
        ProductError: it cannot be asked, or says something else than it promises.
    """
    only = [word for kind in kinds for word in ("--kind", kind)]
    after = 1  # the log's first event is of its beginning; from 0 on the newest would come first
    while True:
        words = ("log", "--home", str(home), "--json", *only, "--last", str(page), "--after", str(after))
        found = await _lines(words, command)
        if found:
            yield found
        if len(found) < page:
            return
        try:
            after = max(after, int(found[-1]["id"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ProductError(f"npc log says something unexpected: {error!r}") from error


async def entries(home: Path, *, tag: str, command: Sequence[str] = COMMAND) -> list[dict[str, Any]]:
    """The diary's entries with a tag, as it exports them.

    Raises:
        ProductError: as `log`.
    """
    return await _lines(("diary", "export", "--home", str(home), "--format", "jsonl", "--tag", tag), command)


async def approvals(home: Path, *, command: Sequence[str] = COMMAND) -> list[dict[str, Any]]:
    """All requests to the operator, each with `id` and `standing` among others.

    Raises:
        ProductError: it cannot be asked, or says something else than it promises.
    """
    (found,) = await _lines(("approvals", "list", "--all", "--json", "--home", str(home)), command) or ({},)
    return [one for one in found.get("requests", ()) if isinstance(one, dict)]


async def _lines(words: Sequence[str], command: Sequence[str]) -> list[dict[str, Any]]:
    """One JSON object a line; lines that hold none are left out."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, *words, stdout=pipe, stderr=pipe, env=_environment())
    out, err = await process.communicate()
    if process.returncode:
        raise ProductError(f"npc {words[0]} failed ({process.returncode}): {err.decode('utf-8', 'replace')[-300:]}")
    try:
        read = [json.loads(line) for line in out.splitlines() if line.strip()]
    except ValueError as error:
        raise ProductError(f"npc {words[0]} says something unexpected: {error!r}") from error
    return [one for one in read if isinstance(one, dict)]


def ledger_of(status: Mapping[str, Any]) -> Ledger:
    """The books in what `npc status` says."""
    observations = status["observations"]
    rungs = {name: int(status["rungs"].get(name, 0)) for name in RUNGS}
    own, waiting = int(observations.get("own", 0)), int(observations.get("waiting", 0))
    books = Books(
        # The product counts own echoes apart, since no mind needs to be told of them.
        received=int(observations["received"]) + own,
        own=own,
        waiting=waiting,
        delivered=int(observations["delivered"]),
        merged=int(observations["merged"]),
        omitted=int(observations["omitted"]),
        lost=int(observations["lost"]),
        hard_resets=rungs["hard_reset"],
        give_ups=rungs["give_up"],
        resets_persisted=int(status["sessions_persisted"]),
        reset_entries=int(status["context_reset_diary_entries"]),
    )
    return Ledger(books=books, rungs=rungs, policy_ms=[float(x) for x in status.get("policy_ms") or ()])


def _environment() -> dict[str, str]:
    """Ours without anything that would send the product elsewhere; the key is a word, since the stand-in takes any."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC_", "NPC_")) and not k.lower().endswith("_proxy")}
    return {**kept, "ANTHROPIC_API_KEY": "stand-in", "PYTHONUNBUFFERED": "1", "OTEL_SDK_DISABLED": "true"}
