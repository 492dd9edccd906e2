"""Approved acts over crashes, damage and two writers: never twice, never lost. Rows: C28, C29, T3."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from npc.approvals.records import Answered, Decision, Limits, Records
from npc.approvals.stored import LIVE, WAYS, Standing
from runtime.store.journal import Journal
from tests.npc.approving import ACTIONS, GIVE, ORACLE, asked, chest, cli, generous, given, request, said, standings, told
from tests.npc.small_world import Life, Oda
from tests.npc.test_character import stored
from world_adapter.frames import ActResult, ActState

DIES = """
import os, signal, sys
from pathlib import Path
from npc.approvals.records import Limits, Records
from npc.approvals.stored import Asker
from npc.policy.asking import Request
records = Records(Path(sys.argv[1]))
records.begin()
gift = Request(action="give_gold", arguments={"to": "Bob", "amount": 5}, world="memory://mill")
assert records.ask(gift, Asker(npc="Oda", identity="test"), Limits(), now=1000.0).new
os.kill(os.getpid(), signal.SIGKILL)
"""


async def asks(house: Oda) -> None:
    """One life, in which the model wants to give gold away."""
    house.brain.script = generous
    async with house.life(actions=ACTIONS) as life:
        await life.world.tell("Oda, give me some gold")
        await life.until(lambda: life.saw("approval") and life.saw("turn"))


async def operation_of(house: Oda) -> str:
    """Under which A1 would be begun."""
    async with await Journal.open(house.home / "session.db", read_only=True) as journal:
        return f"approved-A1-{await journal.load_checkpoint('identity')}"


async def until_over(life: Life) -> None:
    """Until the request is over and the mind was told."""
    await life.until(lambda: life.saw("approval over"))


def test_a_request_is_on_disk_before_anybody_hears_of_it(tmp_path: Path) -> None:
    """C28: kill -9 right after it was made."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    died = subprocess.run([sys.executable, "-c", DIES, str(home)], capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    [one] = Records(home).all()
    assert (one.id, one.standing, one.sound, one.request) == ("A1", Standing.OPEN, True, request())


async def test_what_was_approved_while_the_npc_was_down_is_done_when_it_lives_again(tmp_path: Path) -> None:
    """C29: once, also over the life after that."""
    async with chest(tmp_path) as house:
        await asks(house)
        assert cli(house, "approve", "A1").exit_code == 0
        async with house.life(actions=ACTIONS) as life:
            await until_over(life)
            assert given(life) == [{"to": "Bob", "amount": 5}]
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, how are you?")
            await life.until(lambda: "I hear you." in life.world.said)
            assert given(life) == []


async def test_a_crash_between_the_claim_and_the_intent_loses_nothing(tmp_path: Path) -> None:
    """C29: what was claimed and certainly not begun is done by the next life."""
    async with chest(tmp_path) as house:
        await asks(house)
        assert cli(house, "approve", "A1").exit_code == 0
        assert Records(house.home).claim(1, await operation_of(house), now=time.time())
        async with house.life(actions=ACTIONS) as life:
            await until_over(life)
            assert len(given(life)) == 1
        assert [e.data["id"] for e in await stored(house.home, "approval released")] == ["A1"]


@pytest.mark.parametrize("remembers", [True, False])
async def test_a_crash_after_the_intent_does_nothing_twice(tmp_path: Path, remembers: bool) -> None:
    """C29: the world is asked what became of it; if nobody knows, that is what the operator and the mind are told."""
    async with chest(tmp_path) as house:
        house.brain.script = generous
        sent = asyncio.Event()

        async def silence(id_: str, name: str) -> ActResult | None:
            if name == "give_gold":
                sent.set()
                await asyncio.Event().wait()
            return None

        async with house.life(silence, actions=ACTIONS) as life:
            await life.world.tell("Oda, give me some gold")
            await life.until(lambda: life.saw("approval") and life.saw("turn"))
            assert cli(house, "approve", "A1").exit_code == 0
            await asyncio.wait_for(sent.wait(), 10)
            number = next(id_ for id_, name, _ in life.world.acts if name == "give_gold")
        assert standings(house) == [Standing.ACTING]
        async with house.life(actions=ACTIONS, remembers=remembers) as life:
            await life.until(lambda: number in life.world.queries)
            if remembers:
                life.world.here.finished(ActResult(id=number, state=ActState.DONE, text="Bob thanks you."))
            await until_over(life)
            assert given(life) == []
        assert standings(house) == [Standing.DONE if remembers else Standing.UNKNOWN]


async def test_however_much_was_done_since_nothing_is_done_twice(tmp_path: Path) -> None:
    """C29: an intent far back in the journal is found behind its claim; what nobody can tell any more stays undone."""
    async with chest(tmp_path) as house:
        await asks(house)
        assert cli(house, "approve", "A1").exit_code == 0
        operation = await operation_of(house)
        assert Records(house.home).claim(1, operation, now=time.time())
        async with await Journal.open(house.home / "session.db") as journal:
            journal.append("approval begun", {"id": "A1", "operation": operation})
            journal.append("intent", {"action": "far-back", "call": operation, "name": "give_gold", "args": {"to": "Bob", "amount": 5}})
            for n in range(1_500):
                journal.append("intent", {"action": f"x{n}", "call": "", "name": "say", "args": {}})
                journal.append("outcome", {"action": f"x{n}", "state": "done", "text": ""})
        async with house.life(actions=ACTIONS) as life:
            await life.world.tell("Oda, how are you?")
            await life.until(lambda: "I hear you." in life.world.said)
            assert given(life) == []
        assert standings(house) == [Standing.ACTING]
        assert await stored(house.home, "approval released") == []


async def test_what_was_begun_in_a_life_whose_journal_is_gone_is_not_begun_again(tmp_path: Path) -> None:
    """C28, C29: when in doubt, not twice."""
    async with chest(tmp_path) as house:
        await asks(house)
        assert cli(house, "approve", "A1").exit_code == 0
        assert Records(house.home).claim(1, await operation_of(house), now=time.time())
        for file in house.home.glob("session.db*"):
            file.unlink()
        async with house.life(actions=ACTIONS) as life:
            await until_over(life)
            assert given(life) == []
        assert standings(house) == [Standing.UNKNOWN]


async def test_an_act_that_takes_long_is_over_when_the_world_says_so(tmp_path: Path) -> None:
    """C30: the operator sees that it is under way, the mind that it has begun, both how it ended."""
    slow = replace(GIVE, kind="ongoing")

    async def accepts(id_: str, name: str) -> ActResult | None:
        return ActResult(id=id_, state=ActState.ACCEPTED) if name == "give_gold" else None

    async with chest(tmp_path) as house:
        house.brain.script = generous
        async with house.life(accepts, actions=(*ACTIONS[:2], slow)) as life:
            await life.world.tell("Oda, give me some gold")
            await life.until(lambda: life.saw("approval") and life.saw("turn"))
            assert cli(house, "approve", "A1").exit_code == 0
            await life.until(lambda: "A1 (give_gold): it has begun" in told(house))
            assert standings(house) == [Standing.ACTING]
            number = next(id_ for id_, name, _ in life.world.acts if name == "give_gold")
            life.world.here.finished(ActResult(id=number, state=ActState.DONE, text="The chest is empty now."))
            await until_over(life)
            assert len(given(life)) == 1
        assert standings(house) == [Standing.DONE]


async def test_a_damaged_file_approves_nothing_and_numbers_go_on(tmp_path: Path) -> None:
    """C28: set aside, told; no old id ever means a new request."""
    async with chest(tmp_path) as house:
        await asks(house)
        assert cli(house, "approve", "A1").exit_code == 0
        (house.home / "approvals.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 9_000)
        house.brain.script = generous
        async with house.life(actions=ACTIONS) as life:
            await life.until(lambda: any("damaged" in alarm["text"] for alarm in life.saw("alarm")))
            await life.world.tell("Oda, give me some gold")
            await life.until(lambda: life.saw("approval"))
            assert [one.id for one in asked(house)] == ["A2"]
            assert "there is no request A1" in said(cli(house, "approve", "A1"))
            assert given(life) == []
        assert list(house.home.glob("approvals.db.damaged-*"))


def test_words_that_were_changed_after_they_were_frozen_are_never_approved(tmp_path: Path) -> None:
    """C30: an answer is bound to the digest of what was shown, before and after it was given."""
    import sqlite3  # noqa: PLC0415

    records = home_with_request(tmp_path)
    [one] = records.all()
    changed = one.frozen.replace('"amount": 5', '"amount": 500')
    other = records.decide(Decision(number=1, approve=True, by="cli", digest="0" * 12), now=2.0)
    assert (other.ok, other.why) == (False, "changed")
    assert records.decide(Decision(number=1, approve=True, by="cli", digest=one.digest[:12]), now=2.0).ok
    with sqlite3.connect(records.path) as database:
        database.execute("UPDATE requests SET frozen = ?", (changed,))
    database.close()
    assert records.claim(1, "op", now=3.0) is None
    assert [r.standing for r in records.all()] == [Standing.LAPSED]
    assert "not those that were stored" in cli(tmp_path, "list", "--all").stdout


def test_of_many_who_answer_at_once_one_counts(tmp_path: Path) -> None:
    """C28, T3: whichever comes first; all others are told, and an approval is claimed once."""
    records = home_with_request(tmp_path)

    def decide(n: int) -> Answered:
        return Records(tmp_path).decide(Decision(number=1, approve=n % 2 == 0, by="cli"), now=2.0)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(decide, range(16)))
        assert sum(answer.ok for answer in answers) == 1
        assert {answer.why for answer in answers if not answer.ok} == {"over"}
        claims = list(pool.map(lambda n: Records(tmp_path).claim(1, f"op{n}", now=3.0), range(8)))
    approved = answers.index(next(a for a in answers if a.ok)) % 2 == 0
    assert sum(claim is not None for claim in claims) == int(approved)
    [one] = records.all()
    assert one.standing is (Standing.ACTING if approved else Standing.DENIED)


def test_no_way_leads_out_of_an_end() -> None:
    """T3: only open requests can be approved, only approved ones begun."""
    assert {standing for standing in WAYS if WAYS[standing]} == LIVE
    assert [standing for standing in WAYS if Standing.ACTING in WAYS[standing]] == [Standing.APPROVED]
    assert {standing for standing in WAYS if Standing.APPROVED in WAYS[standing]} == {Standing.OPEN, Standing.ACTING}


def home_with_request(folder: Path, *, now: float = 1.0) -> Records:
    """A home with one open request."""
    folder.chmod(0o700)
    (folder / "state.json").write_text("{}")
    records = Records(folder)
    assert records.begin() == ""
    assert records.ask(request(), ORACLE, Limits(), now=now).new
    return records
