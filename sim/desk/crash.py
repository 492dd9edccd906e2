"""The kill between intent and outcome: a life that dies with signal 9 while a mail is handed over, and the life after it.

    python -m sim.desk.crash FOLDER

lives in folders under FOLDER, each life in a process of its own. A first life dies `before` the carrier has done anything, or `after` it
has done it; what was found goes to standard output as one JSON list. Invariant: `judge` goes by the files alone, and by what the second
life's tools said.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from npc.files import extend_file, replace_file
from runtime.agent import TimedCount
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.store.journal import Journal
from sim.desk.clerk import Clerk
from sim.desk.home import DeskHome
from sim.desk.hours import MENDED, deliver, furnish
from sim.desk.pace import WINDOW, settings
from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading

LIFE_S = 60.0
WAYS = ("before", "after")
TOLD = "told.json"  # what a life saw
_FIRST = (
    (("draft", {"mail": "m1", "text": "Dear Ilse, invoice 4480 over 75.50 is paid."}),),
    (("verify", {"draft": "d1"}),),
    (("send", {"draft": "d1"}), ("send", {"draft": "d1"})),
)
_SECOND = (
    (("send", {"draft": "d1"}),),
    (("verify", {"draft": "d1"}), ("send", {"draft": "D1"})),
    (("settle", {"text": "Did d1 go out?"}), ("send", {"draft": " d1 "}), ("send", {"draft": "d1"})),
)


@dataclass(slots=True)
class _Wire:
    """A carrier whose deliveries are lines of a file; it may take its own process with it."""

    path: Path
    dies: str

    async def carry(self, draft: str, message: bytes) -> None:  # noqa: ARG002 (see `Carrier`)
        if self.dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        extend_file(self.path, f"{draft}\n".encode())
        if self.dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)


class _Script:
    """Says its calls one answer after the other; `over` is set when there are none left."""

    def __init__(self, rounds: Sequence[Sequence[tuple[str, Mapping[str, str]]]]) -> None:
        self._rounds = list(rounds)
        self.results: list[str] = []
        self.over = asyncio.Event()

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """See `sim.messages_api.Brain`."""
        self.results += Reading(request).results
        if not self._rounds:
            self.over.set()
            return Reply(content=[{"type": "text", "text": "Done."}])
        return Reply(content=[{"type": "tool_use", "name": name, "input": dict(given)} for name, given in self._rounds.pop(0)])


async def life(path: Path, how: str) -> Mapping[str, Any]:
    """One life, in real time; what its tools said, and what of the game side was imported by all of it."""
    home, brain = DeskHome(path, clock=time.time), _Script(_SECOND if how == "live" else _FIRST)
    async with MessagesAPI(brain, WINDOW, keep=1) as api, await Journal.open(home.database) as journal:
        client = ModelClient(api_key="stand-in", base_url=api.base_url)
        clerk = Clerk(
            home=home, journal=journal, model=client, carrier=_Wire(path / "wire", how), settings=settings(WINDOW),
            count=TimedCount(Counter.load().count),
        )  # fmt: skip
        living = asyncio.create_task(clerk.live())
        try:
            await asyncio.wait_for(brain.over.wait(), LIFE_S)
        finally:
            clerk.stop()
            await living
            await client.close()
    ours = sorted(name for name in sys.modules if name.split(".")[0] in ("npc", "world_adapter"))
    return {"results": brain.results, "imported": ours}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """What was found.

    Attributes:
        way: in which the first life was killed.
        carried: deliveries in both lives.
        refused: attempts of the second life that were refused.
        imported: what of `npc` and `world_adapter` a whole life of the desk imports.
        wrong: empty if all held.
    """

    way: str
    carried: int
    refused: int
    imported: tuple[str, ...]
    wrong: tuple[str, ...]


def crash(path: Path, way: str) -> Crash:
    """Kill a life in the way that is named, live on, and judge. Forks: for a process with one thread."""
    furnish(path, books=MENDED, approved="d1")
    deliver(path / "inbox", "m1", "Ilse Brandt <ilse@brandt.example>", "Invoice 4480", "Is it paid?")
    died = _process(path, way)
    carried = _carried(path)
    if code := _process(path, "live"):
        return Crash(way=way, carried=carried, refused=0, imported=(), wrong=(f"the second life ended with {code}",))
    return judge(path, way, died=died, carried=carried, second=json.loads((path / TOLD).read_text(encoding="utf-8")))


def judge(path: Path, way: str, *, died: int, carried: int, second: Mapping[str, Any]) -> Crash:
    """`died` is the first life's exit status, `carried` what it had delivered, `second` what the second one told."""
    refused = sum(text.startswith("[not sent: whether d1 went out is not known") for text in second["results"])
    asked = json.loads((path / "state.json").read_text(encoding="utf-8"))["operator_questions"]
    checks = {
        "the first life was not killed": died == -signal.SIGKILL,
        "the first delivery was not as it had to be": carried == (way == "after"),
        "it was sent again": _carried(path) == carried,
        "the intent is not where it was": (path / "sending" / "d1.eml").exists() and not (path / "sent" / "d1.eml").exists(),
        "the operator was not asked, once": [q["action"] for q in asked] == ["d1"] and not asked[0]["answer"],
        "an attempt of the second life was not refused": refused == sum(name == "send" for uses in _SECOND for name, _ in uses),
        "the game side was imported": not any(name.startswith("world_adapter") for name in second["imported"]),
    }
    wrong = tuple(what for what, held in checks.items() if not held)
    return Crash(way=way, carried=_carried(path), refused=refused, imported=tuple(second["imported"]), wrong=wrong)


def _carried(path: Path) -> int:
    wire = path / "wire"
    return len(wire.read_text(encoding="utf-8").splitlines()) if wire.exists() else 0


def _process(path: Path, how: str) -> int:
    """A life in a process of its own; its exit status, negative for a signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        replace_file(path / TOLD, json.dumps(asyncio.run(life(path, how))).encode())
        code = 0
    finally:
        os._exit(code)


async def crashes(folder: Path) -> tuple[Crash, ...]:
    """All ways, from a process that has threads and loops already. Raises OSError if it cannot be run."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "sim.desk.crash", str(folder), stdout=pipe, stderr=pipe)
    try:
        out, err = await asyncio.wait_for(process.communicate(), 2 * len(WAYS) * LIFE_S)
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode:
        raise OSError(f"the lives that are killed could not be lived: {err.decode(errors='replace')[-300:]}")
    return tuple(Crash(**{**found, "imported": tuple(found["imported"]), "wrong": tuple(found["wrong"])}) for found in json.loads(out))


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    print(json.dumps([asdict(crash(Path(sys.argv[1]) / f"killed-{way}", way)) for way in WAYS]))
