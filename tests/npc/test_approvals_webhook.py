"""Requests posted to the operator's own server, and signed decisions that come back. Rows: C17, C28, C30, T3, O2."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from npc.approvals.listener import application
from npc.approvals.records import Limits, Records
from npc.approvals.signing import Secret
from npc.approvals.stored import Standing
from npc.approvals.webhook import Webhook
from npc.errors import Misconfigured
from tests.npc.approving import ACTIONS, ORACLE, asked, chest, generous, given, request, standings
from tests.npc.receiver import SECRET, TEXT, Answer, Came, Receiver, signed
from tests.npc.small_world import Life, Oda
from tests.npc.test_approvals_crash import home_with_request
from tests.npc.test_character import stored

STRANGER = Secret.of("another secret of enough letters")


def yes(came: Came, **more: Any) -> dict[str, Any]:
    """The decision to approve what came."""
    return {"decision": "approve", "id": came.data["id"], "digest": came.data["digest"], **more}


@asynccontextmanager
async def hooked(folder: Path, answers: Callable[[Came], Answer]) -> AsyncIterator[tuple[Oda, Receiver]]:
    """Oda's house with a webhook."""
    async with Receiver(answers) as receiver, chest(folder, approvals=f'webhook = "{receiver.url}"') as house:
        receiver._changed = house.changes.tell
        house.webhook_secret = SECRET
        house.brain.script = generous
        yield house, receiver


async def asks(life: Life) -> None:
    """The model wants to give gold away."""
    await life.world.tell("Oda, give me some gold")
    await life.until(lambda: life.saw("approval") and life.saw("turn"))


async def test_a_signed_yes_in_the_answer_is_carried_out_once(tmp_path: Path) -> None:
    """C17, C30: the receiver sees all that a person needs, signed; a server that fails first is asked again."""
    fails = [Answer(status=503), Answer(status=500)]

    def answers(came: Came) -> Answer:
        return fails.pop() if fails else signed(yes(came, because="he did earn it"), id_="m1", now=time.time())

    async with hooked(tmp_path, answers) as (house, receiver):
        async with house.life(actions=ACTIONS) as life:
            await asks(life)
            await life.until(lambda: life.saw("approval over"))
            assert given(life) == [{"to": "Bob", "amount": 5}]
            came = receiver.came[-1]
            assert SECRET.objection(came.headers, came.body, now=time.time()) == ""
            assert len({one.headers["webhook-id"] for one in receiver.came}) == 1
            assert (came.data["npc"], came.data["id"], came.data["shown"]) == ("Oda", "A1", {"amount": "5", "to": '"Bob"'})
            assert came.data["request"]["why"]
            assert any("some gold" in text for text in came.data["request"]["read"])
        assert standings(house) == [Standing.DONE]
        everything = b"".join(file.read_bytes() for file in house.home.rglob("*") if file.is_file())
        assert TEXT.encode() not in everything
        assert b"secret-secret" not in everything
        assert not any("whsec" in json.dumps(reading.body) for reading in house.requests())


BAD: dict[str, Callable[[Came], Answer]] = {
    "not signed": lambda came: Answer(body=json.dumps(yes(came)).encode()),
    "signed by a stranger": lambda came: signed(yes(came), id_="m1", now=time.time(), secret=STRANGER),
    "signed long ago": lambda came: signed(yes(came), id_="m1", now=time.time() - 3_600),
    "about another request": lambda came: signed({**yes(came), "id": "A2"}, id_="m1", now=time.time()),
    "about other words": lambda came: signed({**yes(came), "digest": "0" * 64}, id_="m1", now=time.time()),
    "our own words sent back": lambda came: Answer(body=came.body, headers={k: v for k, v in came.headers.items() if "webhook" in k}),
    "with more than a decision": lambda came: signed({**yes(came), "arguments": {"amount": 500}}, id_="m1", now=time.time()),
    "too long": lambda came: signed(yes(came, because="x" * 20_000), id_="m1", now=time.time()),
    "elsewhere": lambda came: Answer(status=307, headers={"location": "http://127.0.0.1:1/"}),
    "not there": lambda came: Answer(status=404),
}


@pytest.mark.parametrize("how", BAD)
async def test_an_answer_that_is_not_the_operators_is_no_decision(tmp_path: Path, how: str) -> None:
    """T3, C28: unsigned, foreign, stale, about something else, redirected; what is wrong is said, and it is not tried again."""
    [one] = home_with_request(tmp_path, now=time.time()).all()
    slow: list[str] = []
    async with Receiver(BAD[how]) as receiver:
        posted = await Webhook(receiver.url, SECRET).post(one, slow=slow.append)
        assert posted.decision is None
        assert posted.why
        assert len(receiver.came) == 1
    assert slow == []


async def test_what_only_looks_like_a_yes_does_nothing_and_is_told(tmp_path: Path) -> None:
    """T3, C28: the request goes on waiting, the operator is told, the NPC lives on."""
    async with hooked(tmp_path, BAD["not signed"]) as (house, receiver):
        async with house.life(actions=ACTIONS) as life:
            await asks(life)
            await life.until(lambda: any("the webhook at 127.0.0.1 and A1" in alarm["text"] for alarm in life.saw("alarm")))
            await life.world.tell("Oda, how are you?")
            await life.until(lambda: "I hear you." in life.world.said)
            assert given(life) == []
        assert standings(house) == [Standing.OPEN]
        assert len(receiver.came) == 1
        assert await stored(house.home, "approval answered") == []


async def test_a_request_that_nobody_takes_is_given_up_when_it_lapses(tmp_path: Path) -> None:
    """C28: tried with growing waits, the operator hears of it early, and the end of the request is the end of the trying."""
    [one] = home_with_request(tmp_path, now=0.0).all()
    now = 0.0
    waits: list[float] = []
    slow: list[str] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    async with Receiver(lambda _: Answer(status=503)) as receiver:
        posted = await Webhook(receiver.url, SECRET, clock=lambda: now, sleep=sleep).post(one, slow=slow.append)
        assert (posted.taken, posted.why) == (False, "it answers with status 503")
        assert len(receiver.came) == len(waits) + 1
    assert slow == ["it answers with status 503"]
    assert now < one.lapses_at
    assert max(waits) > 10


# ------------------------------------------------------------ the listener


def message(body: Mapping[str, Any], *, id_: str = "m1", now: float | None = None, secret: Secret = SECRET) -> dict[str, Any]:
    """A signed POST for httpx."""
    answer = signed(body, id_=id_, now=time.time() if now is None else now, secret=secret)
    return {"content": answer.body, "headers": dict(answer.headers)}


async def test_the_listener_takes_signed_decisions_once_and_tells_strangers_nothing(tmp_path: Path) -> None:
    """T3, C28, O2."""
    home_with_request(tmp_path)
    records = Records(tmp_path)
    [one] = (r for r in records.all())
    assert records.ask(request(action="other"), ORACLE, Limits(), now=time.time()).new
    second = records.all()[-1]
    word = {"decision": "approve", "id": second.id, "digest": second.digest}
    transport = httpx2.ASGITransport(application(records, SECRET))
    async with httpx2.AsyncClient(transport=transport, base_url="http://listener") as client:
        unsigned = await client.post("/", json=word)
        foreign = await client.post("/", **message(word, secret=STRANGER))
        unknown = await client.post("/", **message({**word, "id": "A99"}, secret=STRANGER))
        assert (unsigned.status_code, foreign.status_code) == (401, 401)
        assert unknown.json() == foreign.json()
        assert (await client.post("/", **message(word, now=time.time() - 600))).status_code == 401
        assert (await client.post("/", **message(word, now=time.time() + 600))).status_code == 401
        tampered = message(word)
        tampered["content"] = tampered["content"].replace(b"approve", b"deny   ")
        assert (await client.post("/", **tampered)).status_code == 401
        assert (await client.post("/", **message({**word, "digest": "0" * 64}, id_="m2"))).status_code == 409
        assert (await client.post("/", **message({**word, "id": "A99"}, id_="m3"))).status_code == 404
        assert (await client.post("/", **message({**word, "decision": "yes"}, id_="m4"))).status_code == 400
        late = await client.post("/", **message({**word, "id": one.id, "digest": one.digest}, id_="m5"))
        assert (late.status_code, late.json()["said"].startswith("A1 has lapsed")) == (409, True)
        assert (await client.post("/", content=b"x" * 20_000)).status_code == 413
        assert (await client.get("/")).status_code == 405
        assert [r.standing for r in records.all()] == [Standing.LAPSED, Standing.OPEN]
        good = message(word, id_="m6")
        first, replayed = await client.post("/", **good), await client.post("/", **good)
        assert (first.status_code, replayed.status_code, replayed.json()["said"]) == (
            200, 409, "this message was used already: nothing was done",
        )  # fmt: skip
        again = await client.post("/", **message(word, id_="m7"))
        assert (again.status_code, "approved already" in again.json()["said"]) == (409, True)
    assert records.all()[-1].standing is Standing.APPROVED


def test_the_command_serves_on_this_machine_and_needs_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """O2: started as a person starts it, stopped by Ctrl-C."""
    records = home_with_request(tmp_path)
    assert records.ask(request(action="other"), ORACLE, Limits(), now=time.time()).new
    two = records.all()[-1]
    key = tmp_path / "key"
    key.write_text(TEXT)
    key.chmod(0o600)
    monkeypatch.setenv("NPC_WEBHOOK_SECRET_FILE", str(key))
    command = [sys.executable, "-m", "npc", "approvals", "serve", "--home", str(tmp_path), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            assert url.startswith("http://127.0.0.1:")
            answer = httpx2.post(url, **message({"decision": "deny", "id": two.id, "digest": two.digest}))
            assert (answer.status_code, answer.json()) == (200, {"ok": True, "said": "A2 is denied"})
        finally:
            process.send_signal(signal.SIGINT)
            _, trouble = process.communicate(timeout=60)
    assert (process.returncode, trouble) == (0, "")
    assert records.all()[-1].standing is Standing.DENIED


@pytest.mark.parametrize("text", ["", "short", "whsec_", "whsec_!!!", "whsec_c2hvcnQ="])
def test_a_secret_that_could_be_guessed_is_none(text: str) -> None:
    """C28."""
    with pytest.raises(Misconfigured, match="NPC_WEBHOOK_SECRET"):
        Secret.of(text)


def test_a_secret_shows_itself_nowhere() -> None:
    """C28: not in its own words, not as a value."""
    assert "secret" not in f"{SECRET!r}{SECRET}".lower().replace("secret()", "")
    assert Secret.of(TEXT) == SECRET


async def test_what_nobody_took_in_one_life_is_posted_by_the_next(tmp_path: Path) -> None:
    """C30: and what was taken is not posted again."""
    answers = [Answer(), Answer(status=404)]
    async with hooked(tmp_path, lambda _: answers.pop()) as (house, receiver):
        async with house.life(actions=ACTIONS) as life:
            await asks(life)
            await life.until(lambda: life.saw("approval posted"))
        async with house.life(actions=ACTIONS) as life:
            await life.until(lambda: life.saw("approval posted"))
        assert (len(receiver.came), asked(house)[0].posted) == (2, True)
