"""The clerk's tools.

Invariant: a tool takes the arguments that it declares, as texts, and nothing else; no tool writes a gate. `send` and `verify` only ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from runtime.core.effects import Call
from runtime.core.fence import fenced
from runtime.host import Result
from sim.desk.home import DeskHome
from sim.desk.mail import Mailbox
from sim.desk.outbox import Outbox

FOUND = 6
FOUND_CHARS = 160
LOG_ENTRIES = 4
GIST_CHARS = 220


def _tool(name: str, description: str, optional: tuple[str, ...] = (), **properties: str) -> Mapping[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": value} for key, value in properties.items()},
        "required": [key for key in properties if key not in optional],
    }
    return {"name": name, "description": description, "input_schema": schema}


TOOLS = (
    _tool("read_mail", "Read a mail.", mail="its name"),
    _tool("search_mail", "Find mails that hold all these words.", words="what to look for"),
    _tool("draft", "Write an answer as a file. A draft is never changed: write another one.", mail="which it answers", text="the answer"),
    _tool("verify", "Have a draft checked against the books. The check decides.", draft="its name"),
    _tool("send", "Send a draft, once it is verified and the operator has approved it.", draft="its name"),
    _tool("note", "Write a line into your notebook: a promise, a doubt, something unverified.", text="the line"),
    _tool("settle", "Take a note out that is kept or over.", text="the note, word for word"),
    _tool("task", "Say what you are at.", ("phase", "next_action"), phase="in a few words", next_action="what comes next"),
    _tool("ask_operator", "When not sure that something is allowed: stop it and ask.", ("draft",), question="what", draft="held meanwhile"),
    _tool("read_log", "Read the newest entries of your log.", ("words",), words="that an entry must hold"),
)
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {tool["name"]: tool["input_schema"] for tool in TOOLS}


class Tools:
    """For one desk. `longest` are the characters of a mail that are shown; `page` tells the operator."""

    def __init__(self, home: DeskHome, mailbox: Mailbox, outbox: Outbox, *, longest: int, page: Callable[[str], None]) -> None:
        self._home, self._mailbox, self._outbox, self._longest, self._page = home, mailbox, outbox, longest, page
        self._run: Mapping[str, Callable[..., Awaitable[Result]]] = {
            "read_mail": self._read_mail, "search_mail": self._search, "draft": self._draft, "verify": self._verify, "send": self._send,
            "note": self._note, "settle": self._settle, "task": self._task, "ask_operator": self._ask, "read_log": self._read_log,
        }  # fmt: skip

    async def run(self, call: Call) -> Result:
        """Run a call."""
        schema = _SCHEMAS.get(call.name)
        if schema is None:
            return Result(text=f"[not run: there is no tool {call.name[:40]!r}; there are {', '.join(sorted(_SCHEMAS))}]", error=True)
        known, given = schema["properties"], call.arguments
        wrong = [key for key in given if key not in known or not isinstance(given[key], str)]
        if call.invalid is not None or wrong or any(key not in given for key in schema["required"]):
            return Result(text=f"[not run: {call.name} takes {', '.join(known)}, as texts, and nothing else]", error=True)
        return await self._run[call.name](**given)

    async def _read_mail(self, mail: str) -> Result:
        found = await asyncio.to_thread(self._mailbox.mail, mail.strip())
        if found is None:
            return Result(text=f"INSUFFICIENT_EVIDENCE: there is no mail {mail[:40]!r}.", error=True)
        return Result(text=fenced(found.shown()[: self._longest], kind="mail", source=found.sender or "nobody"))

    async def _search(self, words: str) -> Result:
        found = await asyncio.to_thread(self._mailbox.search, words[:200], limit=FOUND)
        if not found:
            return Result(text="INSUFFICIENT_EVIDENCE: no mail holds that.")
        lines = [f"{m.name}, {m.sender}, {m.subject}: {' '.join(m.text.split())[:FOUND_CHARS]}" for m in found]
        return Result(text=fenced("\n".join(lines), kind="mails"))

    async def _draft(self, mail: str, text: str) -> Result:
        found = await asyncio.to_thread(self._mailbox.mail, mail.strip())
        if found is None:
            return Result(text=f"[not drafted: there is no mail {mail[:40]!r}]", error=True)
        name = await asyncio.to_thread(self._outbox.draft, found, text)
        if name.startswith("["):
            return Result(text=name, error=True)
        return Result(text=f"{name} waits in drafts/", gist=(f"I drafted {name}, an answer to {found.name}",))

    async def _verify(self, draft: str) -> Result:
        text = await asyncio.to_thread(self._outbox.verify, draft.strip().lower())
        return Result(text=text, error=text.startswith("["))

    async def _send(self, draft: str) -> Result:
        text = await self._outbox.send(draft.strip().lower())
        return Result(text=text, error=text.startswith("["), gist=() if text.startswith("[") else (f"I {text}",))

    async def _note(self, text: str) -> Result:
        line = " ".join(text.split())
        why = await asyncio.to_thread(self._home.note, line) if line else "there is nothing in it"
        return Result(text=f"[not noted: {why}]", error=True) if why else Result(text="noted", gist=(f"I noted: {line}"[:GIST_CHARS],))

    async def _settle(self, text: str) -> Result:
        gone = await asyncio.to_thread(self._home.settle, " ".join(text.split()))
        return Result(text="settled" if gone else "[there is no such note, word for word]", error=not gone)

    async def _task(self, phase: str = "", next_action: str = "") -> Result:
        await asyncio.to_thread(lambda: self._home.task(phase=phase, next_action=next_action))
        return Result(text="written")

    async def _ask(self, question: str, draft: str = "") -> Result:
        try:
            number, new = await asyncio.to_thread(self._home.ask_operator, " ".join(question.split()), draft.strip().lower())
        except ValueError as error:
            return Result(text=f"[not asked: {error}]", error=True)
        if new:
            self._page(f"question {number}: {question[:200]} (write your answer into state.json, under operator_questions)")
        return Result(text=f"asked, as {number}; go on with something else")

    async def _read_log(self, words: str = "") -> Result:
        text = await asyncio.to_thread(self._home.log_tail, LOG_ENTRIES)
        kept = [entry for entry in text.split("\n## ") if all(word in entry.casefold() for word in words.casefold().split())]
        return Result(text="\n## ".join(kept) or "INSUFFICIENT_EVIDENCE: no entry of the log holds that.")
