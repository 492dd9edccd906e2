"""The soak's parts: virtual time, plans and scripts of faults, what becomes of a fault, and making a failing script short (S4, S5)."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
import pytest

from sim.floods import Flood
from sim.oracle import Finding, Judged, Oracle
from sim.soak import catalogue
from sim.soak.catalogue import CATALOGUE, Strike
from sim.soak.house import copied
from sim.soak.loop import Standstill, VirtualLoop
from sim.soak.network import MACHINE
from sim.soak.recovery import Recovery
from sim.soak.script import Script, numbers, read, spans
from sim.soak.shrink import family, reduced, shrink

T = TypeVar("T")
SCRIPT = Script(npc="Oda", seed=3, window=10_000, turns=tuple(range(20)))


def virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs it in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


# ------------------------------------------------------------ virtual time
def test_a_year_of_sleep_takes_no_time() -> None:
    """S1: nothing waits for a clock, and what is due comes in its order."""

    async def year() -> tuple[list[str], float]:
        heard: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_later(86_400, heard.append, "a day")
        loop.call_later(60, heard.append, "a minute")
        try:
            async with asyncio.timeout(3_600):
                await asyncio.Event().wait()
        except TimeoutError:
            heard.append("an hour")
        await asyncio.sleep(365 * 86_400)
        return heard, loop.time()

    began = time.monotonic()
    heard, virtual = virtually(year())
    assert heard == ["a minute", "an hour", "a day"]
    assert virtual > 365 * 86_400
    assert time.monotonic() - began < 5.0


def test_time_stands_still_while_a_thread_of_sqlite_works(tmp_path: Path) -> None:
    """S1: a disk, however slow, costs no virtual second; a time-out does not strike while it works."""

    async def query() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        async with aiosqlite.connect(tmp_path / "a.db") as database, asyncio.timeout(0.001):
            slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT count(*) FROM n"
            rows = list(await database.execute_fetchall(slow))
        return int(rows[0][0]), loop.time()

    count, virtual = virtually(query())
    assert count == 200_000
    assert virtual == 0.0


def test_a_life_in_circles_is_noticed() -> None:
    """P1: a loop that turns without time passing ends with a sentence and not never."""

    async def circles() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(Standstill, match="without any time passing"):
        virtually(circles())


class _Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.lost: list[Exception | None] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


def test_an_unplugged_machine_says_nothing_more_and_its_server_sees_a_reset() -> None:
    """C35: whoever is killed cannot say a last word, and cannot come back under its old name."""

    async def unplugged() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        there, here = _Heard(), _Heard()
        server = await loop.create_server(lambda: there, "127.0.0.1", 0)
        MACHINE.set("oda/1")
        transport, _ = await loop.create_connection(lambda: here, "127.0.0.1", server.port)
        transport.write(b"before")
        await asyncio.sleep(0.01)
        loop.network.unplug("oda/1")
        transport.write(b" after")
        there.transport.write(b"hello?")
        await asyncio.sleep(1.0)
        assert there.data == b"before"
        assert isinstance(there.lost[0], ConnectionResetError)
        assert here.data == b""
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(_Heard, "127.0.0.1", server.port)

    virtually(unplugged())


def test_a_killed_home_is_copied_with_what_its_log_holds(tmp_path: Path) -> None:
    """C35: a database copied in the middle of its life is whole, and knows all that was committed."""
    home = tmp_path / "home"
    home.mkdir()
    database = sqlite3.connect(home / "session.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE told(n)")
    database.executemany("INSERT INTO told VALUES (?)", [(n,) for n in range(500)])
    database.execute("BEGIN")
    database.execute("INSERT INTO told VALUES (-1)")
    copied(home, tmp_path / "copy")
    again = sqlite3.connect(tmp_path / "copy" / "session.db")
    assert again.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert again.execute("SELECT count(*), min(n) FROM told").fetchone() == (500, 0)
    again.close()
    database.close()


# ------------------------------------------------------------ plans and scripts
def test_a_plan_is_the_same_for_the_same_seed_and_strikes_as_often_as_it_says() -> None:
    """S5: by rate means as often, not perhaps; a fault of every kind, and some of them together."""
    rates = catalogue.chosen("all")
    plan = catalogue.plan(rates, turns=336, seed=5)
    assert plan == catalogue.plan(rates, turns=336, seed=5)
    assert plan != catalogue.plan(rates, turns=336, seed=6)
    times = {name: sum(s.fault == name for s in plan) for name in CATALOGUE}
    assert min(times.values()) >= 3
    turns = [s.turn for s in plan]
    assert len(set(turns)) < len(turns)
    assert min(turns) >= catalogue.FAIR
    for strike in plan:
        least, most = CATALOGUE[strike.fault].hits
        assert least <= strike.hits <= most


def test_faults_are_chosen_by_domain_by_name_and_by_rate() -> None:
    """S5: alone and combined."""
    assert set(catalogue.chosen("disk")) == {"disk_full", "locked", "damaged_page"}
    assert catalogue.chosen("none", ["kick:0.5"]) == {"kick": 0.5}
    assert "kick" not in catalogue.chosen("all", ["kick:0"])


@pytest.mark.parametrize(("faults", "single"), [("storms", ()), ("all", ["kick:often"]), ("all", ["kick:2"]), ("all", ["kicks"])])
def test_a_fault_that_there_is_not_is_refused_in_a_sentence(faults: str, single: Sequence[str]) -> None:
    """S5: a typing mistake is no plan without faults."""
    with pytest.raises(ValueError, match=r"no fault is called|rate of kick"):
        catalogue.chosen(faults, single)


def test_a_script_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    """S4: a script alone says what happens."""
    script = replace(SCRIPT, turns=(0, 1, 2, 7, 9, 10), strikes=tuple(catalogue.plan(catalogue.chosen("all"), turns=100, seed=1)), bug="x")
    path = tmp_path / "script.json"
    path.write_text(script.text(), encoding="utf-8")
    assert read(path) == script
    assert spans(script.turns) == "0-2,7,9-10"
    assert numbers("0-2,7,9-10") == script.turns


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no script"),
        ("[1]", "no script"),
        ('{"version": 9, "npc": "a", "seed": 1, "window": 9000, "turns": "1", "strikes": []}', "version 9"),
        ('{"version": 1, "npc": "a", "seed": 1, "window": 9000, "turns": "1", "strikes": [{"turn": 1, "fault": "rain"}]}', "rain"),
        ('{"version": 1, "npc": "a", "seed": 1, "window": 9000, "turns": "x", "strikes": []}', "0-47,50"),
    ],
)
def test_a_broken_script_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    """S4: no traceback for a mistake in a file."""
    path = tmp_path / "script.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says):
        read(path)


# ------------------------------------------------------------ what becomes of a fault
def test_a_fault_that_is_over_wants_a_good_turn_within_two() -> None:
    """P1: the turn under way may be lost, two more may; a third one is a finding."""
    recovery = Recovery()
    blow = recovery.begins(Strike(turn=1, fault="kick"), 10.0)
    blow.hits = 1
    recovery.ends(blow, 20.0)
    assert recovery.turn(began=5.0, good_at=None) == []
    assert recovery.turn(began=100.0, good_at=None) == []
    assert recovery.turn(began=200.0, good_at=None) == []
    assert recovery.turn(began=300.0, good_at=None) == [blow]
    assert recovery.longest == 3


def test_a_fault_is_not_blamed_for_a_turn_that_another_one_cost() -> None:
    """P1: while an outage goes on nobody can have a good turn."""
    recovery = Recovery()
    kick, outage = (recovery.begins(Strike(turn=1, fault=name), 10.0) for name in ("kick", "outage"))
    kick.hits = outage.hits = 1
    recovery.ends(kick, 20.0)
    for began in (5.0, 100.0, 200.0, 300.0, 400.0):
        assert recovery.turn(began=began, good_at=None) == []
    recovery.ends(outage, 450.0)
    assert recovery.turn(began=440.0, good_at=460.0) == []
    assert (kick.how, outage.how) == ("the next turn was good", "the same turn was good")
    assert recovery.longest == 0


# ------------------------------------------------------------ the oracle on the soak's part
def test_the_oracle_sees_what_was_done_twice_or_without_its_gate() -> None:
    """T4, C35: what the world carried out is held against what the model asked for, once for each."""
    oracle = Oracle(rule="", window=1, count=len)
    for _ in range(2):
        oracle.acted({"a1": 1, "a2": 2}, {"look": 3, "say": 9, "open": 1}, {"look": 2}, guarded="open")
    assert sorted(f.rule for f in oracle.findings) == ["C35", "C35", "T4"]


def test_between_two_turns_an_old_line_may_leave() -> None:
    """P7: what was answered is of the past; what was not may not go."""
    turn = Flood(seed=1, window=10_000).turn(0)
    gone = Judged(body={"tools": [{"name": "x"}], "messages": [{"role": "user", "content": "nothing"}]}, status=200, tokens=1)
    here = replace(gone, body={"tools": [{"name": "x"}], "messages": [{"role": "user", "content": "\n".join(x.text for x in turn.lines)}]})
    for rests, found in ((False, True), (True, False)):
        oracle = Oracle(rule="", window=10_000, count=len)
        oracle.begins(turn)
        oracle.request(here)
        if rests:
            oracle.ends()
            oracle.rests()
        oracle.request(gone)
        assert any(f.rule == "P7" for f in oracle.findings) is found


# ------------------------------------------------------------ making it short
def test_a_failing_script_becomes_as_short_as_its_fault() -> None:
    """S4: two strikes that fail together and the turn they need, whatever else was in it."""
    strikes = tuple(catalogue.plan(catalogue.chosen("all"), turns=200, seed=2))
    first, second = strikes[10], strikes[40]
    tried = 0

    def fails(script: Script) -> bool:
        nonlocal tried
        tried += 1
        near = [(s.turn, s.fault) for s in script.strikes]
        return (first.turn, first.fault) in near and (second.turn, second.fault) in near and 5 in script.turns

    found = shrink(replace(SCRIPT, turns=tuple(range(200)), strikes=strikes), fails, last_turn=-1, tries=400)
    assert {(s.turn, s.fault) for s in found.script.strikes} == {(first.turn, first.fault), (second.turn, second.fault)}
    assert set(found.script.turns) == {5, first.turn, second.turn}
    assert found.tries == tried


def test_shrinking_ends_when_its_tries_are_spent() -> None:
    """S4: bounded, and what was reached by then still fails."""
    strikes = tuple(Strike(turn=n, fault="kick") for n in range(20))
    wanted = strikes[3::5]
    found = shrink(
        replace(SCRIPT, strikes=strikes), lambda s: set(wanted) <= set(s.strikes), last_turn=-1, tries=12,
    )  # fmt: skip
    assert found.tries == 12
    assert set(wanted) <= set(found.script.strikes)


def test_reduced_leaves_nothing_out_that_is_needed_and_nothing_in_that_is_not() -> None:
    """S4: ddmin on plain numbers."""
    assert reduced(range(100), lambda part: {7, 50, 93} <= set(part)) == [7, 50, 93]
    assert reduced(range(100), lambda _: True) == []


def test_two_findings_are_of_one_kind_whatever_their_numbers() -> None:
    """S4: a shorter script fails in the same way, not with the same figures."""
    a = Finding(turn=3, rule="W3", sentence="17 observations were told, 12 received; 0 may have died with a world")
    b = Finding(turn=9, rule="W3", sentence="401 observations were told, 400 received; 2 may have died with a world")
    assert family(a) == family(b)
    assert family(a) != family(replace(b, rule="W2"))
