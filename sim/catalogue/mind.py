"""A mind that understands an errand at once and knows an action when it sees it, and nothing of what it was not shown.

Invariant: it calls no action whose definition does not stand in the request: among the tools, behind a reference that the provider's search
has left in the conversation, or in the words that our own search has given back. What it cannot see it looks for, three times at most.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sim.api.prompt import contents, referred
from sim.catalogue.manor import Errand
from sim.messages_api import Reply
from sim.reading import Reading

_LIMIT = re.compile(r"a limit of (\d+) is enough")
_NAMED = re.compile(r"^- ([A-Za-z0-9_-]+)\(", re.MULTILINE)


class Housekeeper:
    """The model's stand-in. `looked` counts searches, `unseen` errands that it gave up."""

    def __init__(self, errands: Sequence[Errand]) -> None:
        self._by_words = {errand.words: errand for errand in errands}
        self.looked = 0
        self.unseen = 0

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """See `Brain`."""
        reading = Reading(request)
        said = ((reading.news.rfind(words), errand) for words, errand in self._by_words.items())
        newest = max(said, key=lambda pair: pair[0], default=None)
        if not reading.tools or newest is None or newest[0] < 0:
            return _words("The day went by at the manor.")
        errand = newest[1]
        turn = [block for role, content in reading.messages[reading.opening + 1 :] if role == "assistant" for block in content]
        if any(_does(block, errand.action) for block in turn):
            return _words("(done)")
        arguments = {"amount": errand.amount, "care": "usual"}
        offered = {tool["name"]: tool for tool in request.get("tools") or ()}
        if _shown(errand.action, offered, request):
            return _call(errand.action, arguments)
        if "npc_do" in offered and errand.action in _told(request):
            return _call("npc_do", {"action": errand.action, "arguments": arguments})
        looked = Counter(str(block.get("name")) for block in turn)
        tries = looked["npc_find_tool"] + looked["tool_search_tool_bm25"]
        if tries >= len(errand.queries) or not {"npc_find_tool", "tool_search_tool_bm25"} & offered.keys():
            self.unseen += 1
            return _words("(I know no way to do that)")
        self.looked += 1
        if "npc_find_tool" in offered:
            return _call("npc_find_tool", {"words": errand.queries[tries]})
        query: dict[str, Any] = {"query": errand.queries[tries]}
        if found := _LIMIT.search(reading.system):  # it does as it is told
            query["limit"] = int(found[1])
        return Reply(content=[{"type": "server_tool_use", "name": "tool_search_tool_bm25", "input": query}])


def _shown(action: str, offered: Mapping[str, Mapping[str, Any]], request: Mapping[str, Any]) -> bool:
    tool = offered.get(action)
    if tool is None:
        return False
    return not tool.get("defer_loading") or any(action in referred(b) for m in request["messages"] for b in contents(m["content"]))


def _told(request: Mapping[str, Any]) -> set[str]:
    """The actions that our own search has described, as far as its answers are still in the conversation."""
    results = (b for m in request["messages"] for b in contents(m["content"]) if b["type"] == "tool_result")
    return {name for block in results for part in contents(block.get("content")) for name in _NAMED.findall(str(part.get("text") or ""))}


def _does(block: Mapping[str, Any], action: str) -> bool:
    if block.get("type") != "tool_use":
        return False
    return bool(block["name"] == action or (block["name"] == "npc_do" and block["input"].get("action") == action))


def _call(name: str, arguments: Mapping[str, Any]) -> Reply:
    return Reply(content=[{"type": "tool_use", "name": name, "input": dict(arguments)}])


def _words(text: str) -> Reply:
    return Reply(content=[{"type": "text", "text": text}])
