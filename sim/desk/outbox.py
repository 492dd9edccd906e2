"""Drafts and their sending.

Invariants: where a draft's file lies is how far it is: `drafts/`, `sending/`, `sent/`. Moving it to `sending/`, durably, is the intent and
comes before it is handed over; one file can be moved once, so a draft is handed over once at most, whoever asks how often, and also by the
process after a crash: what lies in `sending/` then has an unknown outcome, is asked about, and never handed over again. The gate is read
from the disk inside `send`, after which nothing but the move is done before the handing over.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any, Protocol

from npc.files import replace_file, sync_folder
from npc.state import State
from sim.desk.home import DeskHome
from sim.desk.mail import Mail, Mailbox
from sim.desk.verifying import digest, verify

#: Drafts that may wait; characters of one.
MOST_DRAFTS = 64
DRAFT_CHARS = 8_000
_NAME = re.compile(r"d[1-9][0-9]{0,5}")


class Carrier(Protocol):
    """Takes mail away."""

    async def carry(self, draft: str, message: bytes) -> None:
        """Deliver a message. Raises OSError where it is not known whether it was."""


Log = Callable[[str, Mapping[str, Any]], object]


class Outbox:
    """The drafts of one desk. `log` writes an event (kind and data)."""

    def __init__(self, home: DeskHome, mailbox: Mailbox, carrier: Carrier, log: Log) -> None:
        self._home, self._mailbox, self._carrier, self._log = home, mailbox, carrier, log
        self._one = asyncio.Lock()

    def doubtful(self) -> list[str]:
        """Drafts that were handed over with an end that nobody knows."""
        return sorted(path.stem for path in self._home.sending.glob("*.eml"))

    def draft(self, mail: Mail, text: str) -> str:
        """Write an answer to `mail`; returns its name, or what is wrong in brackets. The address is the mail's sender's."""
        waiting = [path.stem for path in self._home.drafts.glob("*.eml")]
        if len(waiting) >= MOST_DRAFTS or not text.strip() or len(text) > DRAFT_CHARS or not mail.address:
            return f"[not drafted: it takes 1 to {DRAFT_CHARS} characters, a sender with an address, and fewer than {MOST_DRAFTS} drafts]"
        known = [*waiting, *(path.stem for folder in (self._home.sending, self._home.sent) for path in folder.glob("*.eml"))]
        name = f"d{1 + max((int(stem[1:]) for stem in known if _NAME.fullmatch(stem)), default=0)}"
        message = EmailMessage(policy=policy.SMTP)
        message["To"], message["Subject"] = mail.address, f"Re: {mail.subject}"
        message["X-Desk-Draft"], message["X-Desk-Answers"] = name, mail.name
        # The same bytes have the same id, so that whoever gets them twice can tell.
        message["Message-ID"] = f"<{name}.{digest(f'{mail.name}{text}'.encode())}@desk>"
        message.set_content(text)
        replace_file(self._home.drafts / f"{name}.eml", message.as_bytes())
        return name

    def verify(self, name: str) -> str:
        """Run the verifier on a draft and, if it says so, write the gate; what the model is told."""
        path = self._path(self._home.drafts, name)
        if path is None or not path.exists():
            return f"[not verified: there is no draft {name[:40]!r}]"
        data = path.read_bytes()
        try:
            books = self._home.books.read_text(encoding="utf-8")
            answers = self._mailbox.mail(str(BytesParser(policy=policy.default).parsebytes(data)["X-Desk-Answers"]))
            verdict = verify(data, answers=answers, books=books)
        except Exception as error:  # noqa: BLE001 (a draft or books that somebody broke by hand: whatever that raises means no)
            self._log("gate refused", {"draft": name, "why": repr(error)[:300]})
            return f"[not verified: {name} could not be checked ({type(error).__name__})]"
        if not verdict.verified:
            self._log("gate refused", {"draft": name, "why": verdict.why})
            return f"[not verified: {verdict.why}]"
        held = {known for known in _verified(self._home.state()) if (self._home.drafts / f"{known.partition(':')[0]}.eml").exists()}
        entries = sorted({known for known in held if known.partition(":")[0] != name} | {f"{name}:{digest(data)}"})
        self._home.write_verified(" ".join(entries), f"{name}: {verdict.why}")
        self._log("gate set", {"draft": name, "digest": digest(data), "why": verdict.why})
        return f"verified: {name}. {verdict.why}"

    async def send(self, name: str) -> str:
        """Send a draft if the gate lets it; what the model is told, in brackets if nothing was sent."""
        async with self._one:
            data = await asyncio.to_thread(self._intend, name)
            if isinstance(data, str):
                self._log("gate shut", {"draft": name[:40], "why": data})
                return f"[not sent: {data}]"
            self._log("intent", {"draft": name, "digest": digest(data)})
            try:
                await self._carrier.carry(name, data)
            except OSError as error:
                self._log("outcome", {"draft": name, "state": "unknown", "why": repr(error)[:200]})
                await asyncio.to_thread(self.ask_about, name)
                return f"[whether {name} was sent is not known: the operator is asked, it is not sent again]"
            await asyncio.to_thread(_move, self._home.sending / f"{name}.eml", self._home.sent)
            self._log("outcome", {"draft": name, "state": "sent"})
            return f"sent: {name}"

    def ask_about(self, name: str) -> None:
        """Ask the operator what became of a draft, once."""
        with contextlib.suppress(ValueError):  # too many questions wait already: the draft stays where it is, and is told of again
            self._home.ask_operator(f"Did {name} go out? It was handed over and nobody knows. It is not sent again by itself.", name)

    def _intend(self, name: str) -> bytes | str:
        """Move the draft to `sending/` if all is as it must be; its bytes, or why not."""
        path = self._path(self._home.drafts, name)
        if path is None:
            return f"{name[:40]!r} is no draft's name (they are d1, d2, ...)"
        if (self._home.sent / path.name).exists():
            return f"{name} was sent already"
        if (self._home.sending / path.name).exists():
            return f"whether {name} went out is not known and the operator is asked; it is not sent again"
        try:
            data = path.read_bytes()
        except OSError:
            return f"there is no draft {name}"
        if why := closed(self._home.state(), name, digest(data)):
            return why
        try:
            _move(path, self._home.sending)
        except OSError as error:
            return f"it could not be written down first ({error.strerror})"
        return data

    @staticmethod
    def _path(folder: Path, name: str) -> Path | None:
        return folder / f"{name}.eml" if _NAME.fullmatch(name) else None


def closed(state: State, name: str, seal: str) -> str:
    """Why the gate is shut for a draft with these bytes, "" if it is open."""
    if state.fallback:
        return "the gates cannot be read just now, so they stay shut"
    if held := next((asked.id for asked in state.operator_questions if asked.action in (name, "send") and not asked.answer), ""):
        return f"the operator was asked about it ({held}) and has not answered"
    if f"{name}:{seal}" not in _verified(state):
        return f"{name} is not verified (the tool verify asks for it)"
    approved = state.gates.get("approved")
    if approved is None or not isinstance(approved.value, str) or name not in approved.value.replace(",", " ").split():
        return f"{name} is verified, but the operator has not approved it"
    return ""


def _verified(state: State) -> list[str]:
    gate = state.gates.get("verified")
    return gate.value.split() if gate and isinstance(gate.value, str) else []


def _move(path: Path, folder: Path) -> None:
    path.rename(folder / path.name)
    sync_folder(folder)
    sync_folder(path.parent)
