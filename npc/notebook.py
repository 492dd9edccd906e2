"""The NPC's own tools over its home: what it notes, is at, asks its operator, asks to be verified, and reads in its diary.

Invariants: these write the fields that a mind may write and no other, and a gate is beyond all of them; what they give back from the diary
is a quotation, fenced and bounded; no tool blocks the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diaries import DiaryError, Entry
from npc.gates import Gates
from npc.home import Home
from npc.state import Asked, State
from runtime.core.effects import Call
from runtime.core.fence import fenced
from runtime.core.messages import Count
from runtime.core.tokens import clip
from runtime.host import Result

#: The smallest number of diary entries that is read at a time, and the largest.
ENTRIES = 3
MOST_ENTRIES = 10
#: Raw tokens of all that one reading of the diary gives.
DIARY_TOKENS = 1_500
GIST_CHARS = 220


def _tool(name: str, description: str, required: Sequence[str] = (), **properties: str) -> Mapping[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {k: {"type": "string", "description": v} for k, v in properties.items()}}
    if required:
        schema["required"] = list(required)
    return {"name": name, "description": description, "input_schema": schema}


NOTE: Mapping[str, Any] = {
    "name": "npc_note",
    "description": "Write one line into your notebook for your future self: a promise, an open question, something unverified.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
TASK = _tool(
    "npc_task",
    "Write down what you are at; leave out what stays.",
    phase="where you stand",
    next_action="what comes next",
    ask="a new open question",
    answered="an open question that is settled, word for word",
    done="a note that is over, word for word",
)
ASK = _tool(
    "npc_ask_operator",
    "Not sure that something is allowed? Do not do it, and ask the people who run this world.",
    required=("question",),
    question="what you need to know",
    action="the tool that waits for the answer",
)
DIARY: Mapping[str, Any] = {
    "name": "npc_read_diary",
    "description": "Read your own diary: the newest entries, or those that hold some words.",
    "input_schema": {"type": "object", "properties": {"words": {"type": "string"}, "entries": {"type": "integer"}}},
}


#: Windows below this, in tokens, have better use for the room that the lesser tools take.
ROOMY = 8_000


def own_tools(gates: Sequence[str] = (), *, window: int) -> list[Mapping[str, Any]]:
    """The tools of an NPC with a window of so many tokens and verifiers for these gates."""
    return [NOTE, ASK, *((TASK, DIARY) if window >= ROOMY else ()), *([verify_tool(gates)] if gates else [])]


def verify_tool(gates: Sequence[str]) -> Mapping[str, Any]:
    """The tool that asks for a verification, for these gates."""
    return {
        "name": "npc_verify",
        "description": "Ask for a check of whether something is so. The check decides, by what the world shows.",
        "input_schema": {"type": "object", "properties": {"gate": {"type": "string", "enum": list(gates)}}, "required": ["gate"]},
    }


class Notebook:
    """The tools of one NPC with a `window` of tokens. `log` writes an event (kind and data), `page` tells the operator."""

    def __init__(
        self,
        *,
        home: Home,
        gates: Gates,
        count: Count,
        log: Callable[[str, Mapping[str, Any]], object],
        page: Callable[[str], None],
        window: int = ROOMY,
    ) -> None:
        self._window = window
        self._home, self._gates, self._count, self._log, self._page = home, gates, count, log, page
        self._tools = {"npc_note": self._note, "npc_task": self._task, "npc_ask_operator": self._ask, "npc_read_diary": self._read}
        if gates.askable:
            self._tools["npc_verify"] = self._verify

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """As the API takes them."""
        return own_tools(self._gates.askable, window=self._window)

    async def run(self, call: Call) -> Result | None:
        """Run a call of one of these tools; None for a tool of somebody else's."""
        tool = self._tools.get(call.name)
        return await tool(call.arguments) if tool else None

    async def _note(self, given: Mapping[str, Any]) -> Result:
        text = _words(given, "text")
        if not text:
            return Result(text="[not noted: text is missing]", error=True)
        await asyncio.to_thread(self._home.note, text)
        return Result(text="noted", gist=(f"I noted: {text}"[:GIST_CHARS],))

    async def _task(self, given: Mapping[str, Any]) -> Result:
        words = {name: _words(given, name) for name in ("phase", "next_action", "ask", "answered", "done")}
        if not any(words.values()):
            return Result(text="[nothing written: say at least one of phase, next_action, ask, answered, done]", error=True)
        state = await asyncio.to_thread(self._written, words)
        missing = [
            f"[there is no {what} {words[name]!r}; there are: {'; '.join(known) or 'none'}]"[:600]
            for name, what, known in (("answered", "open question", state.open_questions), ("done", "note", state.notes_for_future_self))
            if words[name] and words[name] not in known
        ]
        turned = {"phase": words["phase"]} if words["phase"] not in ("", state.phase) else {}
        if words["done"] in state.notes_for_future_self:
            turned["done"] = words["done"]
        if turned:
            self._log("task", turned)
        gist = tuple(f"I noted: {label}: {words[name]}"[:GIST_CHARS] for name, label in (("ask", "open question"),) if words[name])
        return Result(text="\n".join(["written", *missing]), error=bool(missing), gist=gist)

    def _written(self, words: Mapping[str, str]) -> State:
        """Change the state; returns what it was before."""
        before = self._home.state()
        questions = [q for q in before.open_questions if q != words["answered"]]
        notes = [n for n in before.notes_for_future_self if n != words["done"]]
        if words["ask"] and words["ask"] not in questions:
            questions.append(words["ask"])
        self._home.write_state(
            phase=words["phase"] or None,
            next_action=words["next_action"] or None,
            open_questions=questions if questions != list(before.open_questions) else None,
            notes_for_future_self=notes if notes != list(before.notes_for_future_self) else None,
        )
        return before

    async def _ask(self, given: Mapping[str, Any]) -> Result:
        question, action = _words(given, "question"), _words(given, "action")
        if not question:
            return Result(text="[not asked: question is missing]", error=True)
        try:
            asked = await asyncio.to_thread(self._home.ask_operator, question, action)
        except ValueError as error:
            return Result(text=f"[not asked: {error}; go on with something else]", error=True)
        self._log("asked operator", asked.to_json())
        self._page(f"question {asked.id}: {asked.question} (write your answer into state.json, under operator_questions)")
        held = f" {action} waits for the answer." if action else ""
        return Result(text=f"asked, as {asked.id}.{held} Do not do it meanwhile; go on with something else.", gist=(_asked_gist(asked),))

    async def _verify(self, given: Mapping[str, Any]) -> Result:
        text = await self._gates.verify(_words(given, "gate"))
        return Result(text=text, error=text.startswith("["))

    async def _read(self, given: Mapping[str, Any]) -> Result:
        wanted = given.get("entries")
        number = min(max(wanted, 1), MOST_ENTRIES) if type(wanted) is int else ENTRIES
        words = _words(given, "words").casefold().split()
        try:
            entries = (await asyncio.to_thread(self._home.diary.entries)).entries
        except DiaryError as error:
            return Result(text=f"[the diary cannot be read: {error}]", error=True)
        found = [e for e in entries if all(word in f"{e.text} {' '.join(e.tags)} {e.place}".casefold() for word in words)]
        if not found:
            return Result(text=f"INSUFFICIENT_EVIDENCE: {'nothing in your diary holds that' if words else 'your diary is empty yet'}.")
        return Result(text=quoted(found[-number:], tokens=DIARY_TOKENS, count=self._count))


def quoted(entries: Sequence[Entry], *, tokens: int, count: Count) -> str:
    """Diary entries as the mind reads them, oldest first: each fenced, with when and where, in `tokens` raw tokens together."""
    each = max(40, tokens // max(1, len(entries)) - 30)
    parts = []
    for entry in entries:
        when = " ".join(part for part in (entry.world_time, entry.day) if part)
        labels = {"time": when, "place": entry.place, "undone": entry.undone, "by": entry.author}
        text = clip(entry.text, each, count)
        parts.append(fenced(text, tag="diary", event=entry.events[1] if entry.events else 0, **{k: v for k, v in labels.items() if v}))
    return "\n".join(parts)


def shown(state: State) -> str:
    """The state as the mind reads it at the opening of a turn, "" if there is nothing in it."""
    lines = [f"- phase: {state.phase}"] if state.phase else []
    lines += [f"- next: {state.next_action}"] if state.next_action else []
    lines += [f"- open question: {q}" for q in state.open_questions]
    for asked in state.operator_questions:
        answer = f"answered: {asked.answer}" if asked.answer else "no answer yet"
        lines.append(f"- you asked the operator ({asked.id}): {asked.question} ({answer})")
    lines += [f"- {note}" for note in state.notes_for_future_self]
    return "Your notebook:\n" + "\n".join(lines) if lines else ""


def _asked_gist(asked: Asked) -> str:
    return f"I noted: asked the operator ({asked.id}): {asked.question}"[:GIST_CHARS]


def _words(given: Mapping[str, Any], name: str) -> str:
    """A text argument on one line, "" where it is none."""
    value = given.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""
