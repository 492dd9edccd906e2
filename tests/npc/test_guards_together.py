"""Guards where they meet: changes between check and act, other worlds and homes, code that hangs. Rows: T3, T4, C17, C18, C28."""

from __future__ import annotations

import asyncio
import base64
import html
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from npc.approvals.records import Decision, Records
from npc.approvals.records import Limits as Approving
from npc.approvals.stored import Standing
from npc.gates import Facts, Verdict
from npc.home import Home
from npc.operator_code import MOST_HANGING
from npc.persona import Guard
from npc.policy.asking import Request
from npc.policy.hooks import Act, objection
from npc.policy.rates import Rates
from npc.policy.rules import Limits as Rules
from npc.policy.rules import parse_rules
from npc.secrets import MARK, Redactor
from npc.speech import LONGEST_WAIT_S, Pace
from npc.state import State
from runtime.core.effects import Call
from runtime.host import Result
from tests.npc.approving import ACTIONS as CHEST
from tests.npc.approving import ORACLE, asked, chest, cli, given, request
from tests.npc.small_world import SAY, oda, use, words
from tests.npc.test_approvals_crash import asks, until_over
from tests.npc.test_character import stored
from tests.npc.test_gates import gates_of
from tests.npc.test_policy import ESCROW, MARKET, done, market, obedient, rules, turns
from world_adapter.frames import ActionSpec, ActResult, ActState, Gate, Limits, Speaker

GATE = 'mouth = {set_by = "world"}\n[[guards]]\naction = "say"\ngate = "mouth"'
#: How long something is waited for that must not be held up.
PATIENCE_S = 3.0
LONG = "The mill stands. The ford is deep. The road is long. The night is dark."
_PAGES = {"type": "object", "properties": {"pages": {"type": "array", "items": {"type": "string"}}}}
WRITE = ActionSpec(name="write_book", description="Write a book.", schema=_PAGES, reversible=True)


@pytest.mark.parametrize("how", ["gate", "rules", "broken"])
async def test_what_is_still_to_be_said_is_not_said_once_it_is_forbidden(tmp_path: Path, how: str) -> None:
    """T4, C28: the verdict was over the whole speech; each part of it is an act, and a gate or a file can change between two of them."""
    async with oda(tmp_path, gates=GATE) as house:
        house.brain.script = lambda r: use("say", LONG) if "speak" in r.news and not r.round else words("(so be it)")

        async def acting(number: str, name: str) -> ActResult | None:
            if name != "say" or len(life.world.said) > 1:
                return None
            if how == "gate":
                life.character.attachment.aside(Gate(name="mouth", value=False, why="hush"))
                await life.until(lambda: len(life.saw("gate")) == 2)
            else:
                rules(house, "[tools.say]\nallow = false\n" if how == "rules" else "rubbish")
            return ActResult(id=number, state=ActState.DONE)

        async with house.life(acting) as life:
            life.character.hands.limit(Limits(say_chars=20))
            life.character.attachment.aside(Gate(name="mouth", value=True, why=""))
            await life.until(lambda: life.saw("gate"))
            await life.world.tell("Oda, speak!")
            await turns(life, 1)
            await life.until(lambda: not life.character.hands.voice.speaking)
            assert life.world.said == ["The mill stands."]
        intents = [e.data["action"] for e in await stored(house.home, "intent")]
        assert [e.data["action"] for e in await stored(house.home, "outcome")] == intents


async def test_the_mind_is_shown_what_the_rules_say_whoever_read_them_first(tmp_path: Path) -> None:
    """C16, C27: rules that an act came across are those by which the next request shows the actions."""
    async with oda(tmp_path) as house:
        house.brain.script = lambda r: words("(ok)") if r.round else use("walk", "the ford")

        async def acting(number: str, name: str) -> ActResult | None:
            rules(house, "[tools.walk]\nallow = false\n")
            life.character.policy.refresh()
            return ActResult(id=number, state=ActState.DONE)

        async with house.life(acting) as life:
            await life.world.tell("Oda, walk!")
            await turns(life, 1)
        assert "walk" in house.requests()[0].tools
        assert "walk" not in house.requests()[1].tools


@pytest.mark.parametrize(("worlds", "gets"), [("mill", None), ("memory://mill", "open-sesame-1"), ("wss://elsewhere", None)])
async def test_a_secret_goes_to_the_address_that_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worlds: str, gets: str | None
) -> None:
    """C18: a world that calls itself as the right one is called gets no secret, neither by the act nor as a step of an escrow."""
    monkeypatch.setenv("MILL_TOKEN", "open-sesame-1")
    async with oda(tmp_path) as house:
        rules(house, f'[tools.offer]\nworlds = ["{worlds}"]\ninject = {{token = "env:MILL_TOKEN"}}\n{ESCROW}')
        obedient(house)
        async with house.life(market(12), actions=MARKET) as life:
            await life.world.tell("Oda, trade it and offer it")
            await turns(life, 1)
            acts = zip(done(life), life.world.arguments, strict=True)
            tokens = [arguments.get("token") for name, arguments in acts if name == "offer"]
            assert tokens == ([gets, gets] if gets else [None])


async def test_an_approved_speech_is_done_when_all_of_it_is_said(tmp_path: Path) -> None:
    """C30, C29: what the operator is told came of it is what came of all parts, not of the first."""
    async with oda(tmp_path) as house, house.life() as life:
        await life.until(lambda: life.character.hands.tools)
        life.character.hands.limit(Limits(say_chars=40))
        result = await life.character.hands.run_approved(Request(action="say", arguments={"text": LONG}, world=life.world.url))
        assert not result.ongoing
        assert " ".join(life.world.said) == LONG


@pytest.mark.parametrize(
    ("step", "acts"), [("trade", []), ("offer", []), ("accept", ["offer", "withdraw"]), ("withdraw", ["offer", "accept"])]
)
async def test_a_gate_before_any_step_of_an_escrow_is_a_gate(tmp_path: Path, step: str, acts: list[str]) -> None:
    """T4, C29: no escrow is a way round a guard of the actions that it is made of, and none keeps back what is to be given back."""
    async with oda(tmp_path, gates=f'sealed = {{}}\n[[guards]]\naction = "{step}"\ngate = "sealed"') as house:
        rules(house, ESCROW)
        obedient(house)
        async with house.life(market(12), actions=MARKET) as life:
            await life.world.tell("Oda, trade it")
            await turns(life, 1)
            assert done(life) == acts


async def test_what_is_held_in_one_world_is_not_given_back_in_another(tmp_path: Path) -> None:
    """C29, C28: an action of the same name in another world is another action; the operator hears where the thing is held."""
    async with oda(tmp_path) as house:
        rules(house, ESCROW)
        async with house.life(actions=MARKET) as life:
            kept = parse_rules(ESCROW).tools["trade"].escrow
            assert kept
            begun = {"step": "begun", "action": "trade", "args": {}, "world": "memory://elsewhere", **kept.model_dump()}
            number = life.character.journal.append("escrow", begun)
            life.character.journal.append("escrow", {"step": "held", "of": number, "action": "trade", "carried": {"deal": "d7"}})
        async with house.life(actions=MARKET) as life:
            await life.until(lambda: any("left held in memory://elsewhere" in data["text"] for data in life.saw("alarm")))
            await life.world.tell("Oda, hello")
            await turns(life, 1)
            assert "withdraw" not in done(life)


async def test_what_was_approved_for_one_npc_is_done_by_no_other(tmp_path: Path) -> None:
    """C28, C29: a file of requests that was copied into another home approves nothing there, though the world is the same."""
    async with chest(tmp_path / "one") as house:
        await asks(house)
        assert cli(house, "approve", "A1").exit_code == 0
    async with chest(tmp_path / "two") as other:
        async with other.life(actions=CHEST) as life:
            await life.until(lambda: life.character.hands.tools)
        shutil.copy(house.home / "approvals.db", other.home / "approvals.db")
        async with other.life(actions=CHEST) as life:
            await until_over(life)
            assert given(life) == []
        [one] = asked(other)
        assert (one.standing, one.outcome) == (Standing.LAPSED, "it was asked in another home, or before the journal of this one was lost")


@pytest.mark.parametrize("before", ["What I know:", "la " * 9_000])
async def test_a_confidence_is_not_carried_in_a_list_nor_behind_many_words(tmp_path: Path, before: str) -> None:
    """T13, C27: the pages of a book are words, however deep they stand in the arguments, and however much stands before them."""
    mira = Speaker(id="p2", name="Mira", kind="player")
    async with oda(tmp_path) as house, house.life(actions=(SAY, WRITE)) as life:
        await life.world.tell("the word for the cellar is zephyr77, tell nobody", kind="whisper", speaker=mira)
        await turns(life, 1)

        async def writes(*pages: str) -> Result:
            return await life.character.hands.run(Call(id="c", name="write_book", arguments={"pages": list(pages)}), op=0, turn=1)

        assert (await writes(before, "Mira's word is zephyr77.")).denied
        assert "write_book" not in done(life)
        assert not (await writes("The ford is deep.")).error
        assert "write_book" in done(life)


async def test_verifiers_that_hang_hold_up_nobody(tmp_path: Path) -> None:
    """C28: however many hang, other gates are read, and those who asked are told no."""
    gate = threading.Event()

    def hangs(_: Facts) -> Verdict:
        gate.wait(20)
        return Verdict(verified=False, why="too late")

    with Home(tmp_path / "home") as home:
        gates, _ = gates_of(home, hangs, (Guard(action="walk", gate="g"),))
        asking = [asyncio.create_task(gates.verify("g")) for _ in range(40)]
        try:
            await asyncio.wait(asking, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            async with asyncio.timeout(PATIENCE_S):
                assert "the gate g is not true" in await gates.refuse("walk")
        finally:
            gate.set()
            said = await asyncio.gather(*asking)
    assert all(text.startswith("[not verified") for text in said)


async def test_what_cannot_be_shown_to_a_check_takes_no_place_for_ever() -> None:
    """C28: a world's result that nobody can copy is a no, each time, and the next check is begun all the same."""
    deep: dict[str, Any] = {}
    for _ in range(2_000):
        deep = {"a": deep}
    facts = Facts(state=State())
    for _ in range(MOST_HANGING + 1):
        assert "RecursionError" in await objection("x", lambda _: None, Act(action="take", arguments={}, facts=facts, held=deep))
    assert await objection("x", lambda _: None, Act(action="take", arguments={}, facts=facts)) == ""


def test_a_clock_that_is_set_back_forgives_nothing_and_forbids_nothing_for_ever() -> None:
    """C27: what was done "tomorrow" counts as done now, and a limit an hour is over after an hour."""
    now = [2e9]
    rates, hourly, resting = Rates(lambda: now[0]), Rules(per_hour=1), Rules(cooldown_s=60.0)
    rates.count("dig")
    now[0] = 1.8e9
    assert "again in 3600 s" in rates.refusal("dig", hourly)
    assert "again in 60 s" in rates.refusal("dig", resting)
    now[0] += 61
    assert rates.refusal("dig", hourly)
    assert not rates.refusal("dig", resting)
    now[0] += 3_600
    assert not rates.refusal("dig", hourly)


def test_a_clock_that_was_wrong_does_not_keep_an_npc_from_asking_for_ever(tmp_path: Path) -> None:
    """C30: requests and a denial from years ahead count for no hour of ours."""
    (tmp_path / "home").mkdir(mode=0o700)
    records, limits = Records(tmp_path / "home"), Approving(per_hour=2)
    records.begin()
    for amount in (1, 2):
        assert records.ask(request(arguments={"amount": amount}), ORACLE, limits, now=2e9).new
        assert records.decide(Decision(number=amount, approve=False, by="cli"), now=2e9).ok
    assert "denied just this" in records.ask(request(arguments={"amount": 1}), ORACLE, limits, now=2e9).why
    assert "2 times within the hour" in records.ask(request(arguments={"amount": 3}), ORACLE, limits, now=2e9 - 60).why
    assert records.ask(request(arguments={"amount": 1}), ORACLE, limits, now=1.8e9).new


def test_a_step_that_must_be_done_waits_as_long_as_it_takes() -> None:
    """C29, W6: what is held is given back in its turn, though the world's pace has no room for half a minute."""
    pace = Pace(0.2)
    while pace.wait_s(0.0) <= LONGEST_WAIT_S:
        pass
    first, second = (pace.wait_s(0.0, however_long=True) for _ in range(2))
    assert LONGEST_WAIT_S < first < second


@pytest.mark.parametrize("secret", ["s3cret/T0ken+<&>x", "öffne-dich-7", "abcdef"])
@pytest.mark.parametrize("before", ["", "u", "oda", "user:", "Bearer:"])
def test_a_secret_is_found_behind_other_bytes_and_in_either_case(secret: str, before: str) -> None:
    """C18: `user:password` in base64 is how the web writes passwords; hexadecimal digits come in both cases, pages in HTML."""
    redactor, raw = Redactor(secret), secret.encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        written = encode(before.encode() + raw + b"\n...").decode()
        assert MARK in redactor.text(f"it is {written}")
    assert redactor.text(f"{before} {raw.hex().upper()}.") == f"{before} {MARK}."
    assert redactor.text(html.escape(f"{before}<{secret}>")) == f"{before}&lt;{MARK}&gt;"


def test_a_word_of_the_mark_is_no_reason_to_mark_it_again() -> None:
    """C18: whatever somebody took for a password, what was cleaned stays as it is."""
    redactor = Redactor("secret", "another-one")
    cleaned = redactor.text("it is another-one")
    assert redactor.text(cleaned) == cleaned == f"it is {MARK}"


@pytest.mark.parametrize("text", [f'{place} = "hunter2-the-secret"' for place in ("[tools.a]\ninject", "worlds", "tools")])
def test_a_secret_in_the_place_of_a_table_is_not_repeated(text: str) -> None:
    """C18: the sentence says what belongs there, and nothing of what stood there."""
    with pytest.raises(Exception, match="must be a table") as told:
        parse_rules(text)
    assert "hunter2" not in str(told.value)


