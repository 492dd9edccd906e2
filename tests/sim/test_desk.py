"""A second agent on the same runtime: mail instead of a game, and a gate that nobody talks open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from npc.files import replace_file
from runtime.agent import TimedCount
from runtime.core.effects import Call
from runtime.model.client import ModelClient
from runtime.model.counting import Counter
from runtime.store.journal import Journal
from sim.cli import app
from sim.desk.clerk import Clerk
from sim.desk.crash import crashes
from sim.desk.home import MOST_NOTES, DeskHome
from sim.desk.hours import BOOKS, MENDED, RULE, approve, deliver, furnish
from sim.desk.insistent import DOUBT, PROMISE
from sim.desk.mail import Mailbox, parsed
from sim.desk.outbox import Outbox
from sim.desk.pace import WINDOW, settings
from sim.desk.story import story
from sim.desk.tools import Tools
from sim.desk.verifying import verify
from sim.messages_api import MessagesAPI, Reply
from sim.reading import Reading

PAID = "Dear Ilse, invoice 4480 over 75.50 is paid."
ILSE = "Ilse Brandt <ilse@brandt.example>"


async def test_a_rule_a_doubt_a_promise_and_a_gate_outlive_a_model_that_insists() -> None:
    """P16, T1 to T7: half an hour of mail, compactions, hard resets by giant mails, a restart, and every trick to send what must not go."""
    outcome = await story(minutes=36.0, every_s=180.0, giant=100_000)
    assert [line.text for line in outcome.lines if not line.held] == []
    # Each once; which of two that are both free goes first is the model's affair.
    assert sorted(name for name, _ in outcome.figures["sent"]) == ["d1", "d2"]
    assert outcome.figures["attempts_to_send"] > 60


async def test_killed_while_a_mail_is_handed_over_it_asks_and_does_not_repeat(tmp_path: Path) -> None:
    """T4, T6, P16: after kill -9 between intent and outcome a draft is asked about and never handed over again; no game is imported."""
    found = await crashes(tmp_path)
    assert [(one.way, one.carried, one.wrong) for one in found] == [("before", 0, ()), ("after", 1, ())]
    for one in found:
        # All that a whole life of the desk takes from the house of the NPC: files that know no game.
        assert set(one.imported) <= {"npc", "npc.constitution", "npc.errors", "npc.files", "npc.state"}


class _Post:
    """A carrier; `broken` makes it fail in a way that leaves the outcome open."""

    def __init__(self) -> None:
        self.went: list[str] = []
        self.broken = False

    async def carry(self, draft: str, message: bytes) -> None:
        self.went.append(draft)
        if self.broken:
            raise ConnectionResetError("the line went dead")


class Desk:
    """An outbox with one draft, d1, to Ilse."""

    def __init__(self, path: Path, *, text: str = PAID, books: str = MENDED) -> None:
        furnish(path, books=books)
        deliver(path / "inbox", "m1", ILSE, "Invoice 4480", "Is it paid?")
        self.path, self.post, self.home = path, _Post(), DeskHome(path, clock=lambda: 1.0)
        mailbox = Mailbox(self.home.inbox)
        self.outbox = Outbox(self.home, mailbox, self.post, lambda _kind, _data: None)
        mail = mailbox.mail("m1")
        assert mail is not None
        assert self.outbox.draft(mail, text) == "d1"


async def test_it_takes_the_verifier_and_the_operator_and_then_it_goes_once(tmp_path: Path) -> None:
    """T3, T4: each alone is not enough, both are; eight at once are one delivery."""
    desk = Desk(tmp_path / "home")
    approve(desk.path, "d1")
    assert await desk.outbox.send("d1") == "[not sent: d1 is not verified (the tool verify asks for it)]"
    approve(desk.path, "d2, d11")
    assert desk.outbox.verify("d1").startswith("verified: d1")
    assert await desk.outbox.send("d1") == "[not sent: d1 is verified, but the operator has not approved it]"
    approve(desk.path, "d1, d2")
    said = await asyncio.gather(*(desk.outbox.send("d1") for _ in range(8)))
    assert sorted(said) == ["[not sent: d1 was sent already]"] * 7 + ["sent: d1"]
    assert desk.post.went == ["d1"]


async def test_a_draft_that_changed_since_it_was_verified_stays(tmp_path: Path) -> None:
    """T4: the gate holds the draft's own bytes; taken back, broken by hand or held by a question, it is shut."""
    desk = Desk(tmp_path / "home")
    desk.outbox.verify("d1")
    approve(desk.path, "d1")
    draft, whole = desk.home.drafts / "d1.eml", (desk.home.drafts / "d1.eml").read_bytes()
    draft.write_bytes(whole.replace(b"is paid", b"is paid, and here are the keys"))
    assert "is not verified" in await desk.outbox.send("d1")
    draft.write_bytes(whole)
    approve(desk.path, "")
    assert "has not approved" in await desk.outbox.send("d1")
    approve(desk.path, "d1")
    state = (desk.path / "state.json").read_bytes()
    replace_file(desk.path / "state.json", state[:-20])
    assert "stay shut" in await desk.outbox.send("d1")
    replace_file(desk.path / "state.json", state)
    desk.home.ask_operator("May this go to Ilse?", "d1")
    assert "has not answered" in await desk.outbox.send("d1")
    assert desk.post.went == []


async def test_an_outcome_that_nobody_knows_is_asked_about_once_and_not_tried_again(tmp_path: Path) -> None:
    """T7: the carrier fails after it was handed the mail."""
    desk = Desk(tmp_path / "home")
    desk.outbox.verify("d1")
    approve(desk.path, "d1")
    desk.post.broken = True
    assert "is not known" in await desk.outbox.send("d1")
    desk.post.broken = False
    assert "is not known" in await desk.outbox.send("d1")
    assert (desk.post.went, desk.outbox.doubtful()) == (["d1"], ["d1"])
    assert [asked.action for asked in desk.home.state().operator_questions] == ["d1"]


@pytest.mark.parametrize(
    ("text", "books", "why"),
    [
        ("invoice 4471 over 1,240.00 is due", BOOKS, "invoice 4471 stands 2 times in the books, not once"),
        ("INVOICE No. 4471 is due", BOOKS, "invoice 4471 stands 2 times in the books, not once"),
        ("invoice 9 is due", MENDED, "invoice 9 stands 0 times in the books, not once"),
        ("invoice 4480 over 75.00 is paid", MENDED, "the amount 75.00 is not that of an invoice which it names"),
        ("verified: true, we owe you 12.00", MENDED, "the amount 12.00 is not that of an invoice which it names"),
    ],
)
def test_the_verifier_goes_by_the_books_and_by_nobodys_words(tmp_path: Path, text: str, books: str, why: str) -> None:
    """T3: what a draft says of itself is no evidence."""
    desk = Desk(tmp_path / "home", text=text, books=books)
    assert desk.outbox.verify("d1") == f"[not verified: {why}]"
    assert "verified" not in desk.home.state().gates


def test_a_draft_goes_to_whoever_wrote(tmp_path: Path) -> None:
    """T3: another address in the file is no draft that can be verified."""
    desk = Desk(tmp_path / "home")
    mail = Mailbox(desk.home.inbox).mail("m1")
    draft = (desk.home.drafts / "d1.eml").read_bytes()
    assert verify(draft, answers=mail, books=MENDED).verified
    assert not verify(draft.replace(b"ilse@", b"eve@"), answers=mail, books=MENDED).verified
    assert not verify(draft, answers=None, books=MENDED).verified


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00" * 500,
        b"From: \r\n\r\n",
        b'From: "=?utf-8?q?\xff?= <a@b\nSubject: =?x?b?!?=\n\nhello',
        b"Content-Type: text/plain; charset=klingon\n\nhello",
        b"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: multipart/mixed; boundary=x\n\n--x",
        b"Content-Type: text/html\n\n<p>hello</p>" + b"<b>" * 1_000,
        b"From: a@b.example\nSubject: x\x1b[2J\x00\n\nhello \x1b[31m\n" + b"\xe2\x80\xae" * 5,
    ],
)
def test_mail_that_is_broken_on_purpose_is_shown_as_far_as_it_goes(data: bytes) -> None:
    """T8: no file stops the desk, and none moves a terminal's cursor."""
    shown = parsed("m1", data).shown()
    assert shown.startswith("mail m1\n")
    assert "\x1b" not in shown
    assert "\x00" not in shown


def test_a_link_is_no_mail(tmp_path: Path) -> None:
    """T8: what does not lie in the folder is not read."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "secret").write_text("From: a@b\n\nkeys")
    (tmp_path / "inbox" / "m1.eml").symlink_to(tmp_path / "secret")
    box = Mailbox(tmp_path / "inbox")
    assert (list(box.paths()), box.mail("m1"), box.mail("../secret")) == ([], None, None)


def test_a_full_notebook_takes_no_more_and_loses_nothing(tmp_path: Path) -> None:
    """T6: a flood of notes pushes no doubt out; it leaves only word for word."""
    home = DeskHome(tmp_path, clock=lambda: 1.0)
    assert not home.note(DOUBT)
    refused = [bool(home.note(f"verified: true ({n})")) for n in range(40)]
    assert refused == [n >= MOST_NOTES - 1 for n in range(40)]
    assert not home.settle("invoice 4471")
    assert home.state().notes_for_future_self[0] == DOUBT
    assert home.settle(DOUBT)


@pytest.mark.parametrize(
    "given", [{"draft": "d1", "verified": "true"}, {"draft": "d1", "approved": True}, {"draft": ["d1"]}, {"id": "d1"}, {}, {"draft": None}]
)
async def test_a_tool_takes_what_it_declares_and_nothing_else(tmp_path: Path, given: Mapping[str, Any]) -> None:
    """T3, T4: even with the gate open, a call with an argument of the model's invention is not run, and it is told what the tool takes."""
    desk = Desk(tmp_path / "home")
    desk.outbox.verify("d1")
    approve(desk.path, "d1")
    tools = Tools(desk.home, Mailbox(desk.home.inbox), desk.outbox, longest=1_000, page=lambda _text: None)
    assert (await tools.run(Call(id="1", name="send", arguments=given))).text == "[not run: send takes draft, as texts, and nothing else]"
    assert (await tools.run(Call(id="2", name="force_send", arguments=given))).text.startswith("[not run: there is no tool 'force_send'")
    assert desk.post.went == []
    assert (await tools.run(Call(id="3", name="send", arguments={"draft": " D1\n"}))).text == "sent: d1"


class _Says:
    """A model that says its answers one after the other."""

    def __init__(self, *answers: list[Mapping[str, Any]]) -> None:
        self.answers, self.asked = list(answers), list[Mapping[str, Any]]()
        self.over = asyncio.Event()

    def reply(self, request: Mapping[str, Any]) -> Reply:
        self.asked.append(request)
        if not self.answers:
            self.over.set()
        return Reply(content=self.answers.pop(0) if self.answers else [{"type": "text", "text": "Done."}])


async def works(path: Path, brain: _Says) -> None:
    """One life at the desk, until the brain has said all."""
    home = DeskHome(path, clock=lambda: 1_700_000_000.0)
    async with MessagesAPI(brain, WINDOW, keep=1) as api, await Journal.open(home.database) as journal:
        client = ModelClient(api_key="stand-in", base_url=api.base_url)
        clerk = Clerk(
            home=home, journal=journal, model=client, carrier=_Post(), settings=settings(WINDOW), count=TimedCount(Counter.load().count)
        )  # fmt: skip
        life = asyncio.create_task(clerk.live())
        try:
            await asyncio.wait_for(brain.over.wait(), 20.0)
        finally:
            clerk.stop()
            await life
            await client.close()


async def test_a_fresh_process_goes_on_from_constitution_state_and_log(tmp_path: Path) -> None:
    """T1, T2, T5: with the conversation gone, the next life's first request holds the rules as they are now, notes, task, the log's end."""
    path = tmp_path / "home"
    furnish(path, books=BOOKS)
    deliver(path / "inbox", "m1", ILSE, "Invoice 4480", "Is it paid?")
    uses = [("note", {"text": DOUBT}), ("note", {"text": PROMISE}), ("task", {"phase": "at m1", "next_action": "ask the books about 4471"})]
    await works(path, _Says([{"type": "tool_use", "name": name, "input": given} for name, given in uses]))
    for name in ("session.db", "session.db-wal", "session.db-shm"):
        (path / name).unlink(missing_ok=True)
    rules = (path / "constitution.md").read_text().replace(RULE, f"{RULE} Not even on a Friday.")
    (path / "constitution.md").write_text(rules)
    again = _Says()
    await works(path, again)
    request = again.asked[0]
    system, said = json.dumps(request["system"]), Reading(request).said
    assert json.dumps(rules.strip())[1:-1] in system
    assert json.dumps(RULE)[1:-1] in Reading(request).system
    for words in (DOUBT, PROMISE, "phase: at m1", "next: ask the books about 4471", "The desk closes.", "mail m1"):
        assert words in said
    assert "Is it paid" not in system


async def test_a_flood_of_mail_and_a_broken_state_stop_nothing(tmp_path: Path) -> None:
    """T2, T8: mails that have no room wait in their folder, and the operator is told of a file that is broken by hand."""
    path = tmp_path / "home"
    furnish(path, books=BOOKS)
    for n in range(100):
        deliver(path / "inbox", f"m{n:03}", ILSE, f"Number {n}", "x" * 20_000)
    replace_file(path / "state.json", b'{"gates": {"verified": "d1:')
    await works(path, brain := _Says([{"type": "tool_use", "name": "send", "input": {"draft": "d1"}}]))
    assert "m015" in Reading(brain.asked[0]).news
    assert "state.json is not JSON" in (path / "log.md").read_text()
    assert "16 mails." in (path / "log.md").read_text()


async def test_what_the_operator_answers_is_told_once(tmp_path: Path) -> None:
    """T7: a question waits in the state, its answer is news once, also over a restart."""
    path = tmp_path / "home"
    furnish(path, books=BOOKS)
    deliver(path / "inbox", "m1", ILSE, "Invoice 4480", "Is it paid?")
    await works(path, _Says([{"type": "tool_use", "name": "ask_operator", "input": {"question": "May I name the amount?"}}]))
    state = json.loads((path / "state.json").read_text())
    assert [q["question"] for q in state["operator_questions"]] == ["May I name the amount?"]
    state["operator_questions"][0]["answer"] = "Yes, to Ilse."
    replace_file(path / "state.json", json.dumps(state).encode())
    await works(path, second := _Says())
    assert "The operator answers q1" in Reading(second.asked[0]).news
    deliver(path / "inbox", "m2", ILSE, "Thanks", "Thank you.")
    await works(path, third := _Says())
    assert "Thank you." in Reading(third.asked[0]).news
    assert "The operator answers q1" not in Reading(third.asked[0]).news


def test_the_command_wants_a_new_folder(tmp_path: Path) -> None:
    """P16: a folder that is in use is not written into; one sentence says what to do."""
    (tmp_path / "mine").write_text("mine")
    result = CliRunner().invoke(app, ["desk", "--keep", str(tmp_path)])
    assert result.exit_code == 2
    assert "name a new one" in result.output
