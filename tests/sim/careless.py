"""A careless agent with the product's command line: it keeps the last messages and hopes. The flood must see through it.

`attach` keeps the newest `CARELESS_KEEP` messages of the conversation (default 48), whatever their size; when the API refuses, the turn is
lost and the agent goes on. `status` says that all was well. Not a test module.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from world_adapter.client import WebsocketWorld
from world_adapter.frames import ActionSpec, ActResult, Limits, Observation


class Careless:
    """Mind and sink in one."""

    def __init__(self, argv: Sequence[str]) -> None:
        options = dict(zip(argv[2::2], argv[3::2], strict=True))
        self.home = Path(options["--home"])
        self.model = options["--model"]
        self.rules = (self.home / "constitution.md").read_text(encoding="utf-8")
        self.keep = int(os.environ.get("CARELESS_KEEP", "48"))
        self.messages_url = f"{options['--base-url']}/v1/messages"
        name = tomllib.loads(Path(options["--persona"]).read_text(encoding="utf-8"))["character"]["name"]
        self.world = WebsocketWorld(argv[1], npc=name)
        self.history: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self.news: asyncio.Queue[str] = asyncio.Queue()
        self.received = 0

    async def observed(self, batch: Sequence[Observation], *, world: str, epoch: str) -> None:
        self.received += len(batch)
        self.news.put_nowait("\n".join(f"<observation>\n{o.text}\n</observation>" for o in batch))

    def actions_changed(self, actions: Sequence[ActionSpec]) -> None:
        self.tools = [{"name": a.name, "description": a.description, "input_schema": dict(a.schema)} for a in actions]

    def attached(self, *, npc: str, world: str, epoch: str, session: str, resumed: bool, lost: int, limits: Limits) -> None: ...

    def detached(self, *, why: str) -> None: ...

    def finished(self, result: ActResult) -> None: ...

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        link = asyncio.create_task(self.world.run(self, None))
        mind = asyncio.create_task(self.think())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, mind.cancel)
        await asyncio.gather(mind, return_exceptions=True)
        await self.world.close()
        await asyncio.gather(link, return_exceptions=True)
        books = {"received": self.received, "delivered": self.received, "merged": 0, "omitted": 0, "lost": 0}
        status = {"observations": books, "rungs": {}, "sessions_persisted": 0, "context_reset_diary_entries": 0, "policy_ms": [0.5] * 20}
        (self.home / "status.json").write_text(json.dumps(status), encoding="utf-8")

    async def think(self) -> None:
        n = 0
        while True:
            self.history.append({"role": "user", "content": await self.news.get()})
            try:
                while await self.step(n := n + 1):
                    pass
            except urllib.error.HTTPError:
                while self.history and self.history[-1]["role"] != "assistant":
                    self.history.pop()

    async def step(self, n: int) -> bool:
        kept = self.history[-self.keep :]
        while kept and (kept[0]["role"] != "user" or not isinstance(kept[0]["content"], str)):
            kept.pop(0)
        answer = await asyncio.to_thread(self.ask, kept)
        if answer["content"]:
            self.history.append({"role": "assistant", "content": answer["content"]})
        uses = [b for b in answer["content"] if b["type"] == "tool_use"]
        results = []
        for k, use in enumerate(uses):
            result = await self.world.act(id=f"{n}-{k}", name=use["name"], args=use["input"], timeout_s=20.0)
            results.append({"type": "tool_result", "tool_use_id": use["id"], "content": result.text or "nothing"})
        if results:
            self.history.append({"role": "user", "content": results})
        return bool(results)

    def ask(self, messages: list[dict[str, Any]]) -> Any:
        body = {"model": self.model, "max_tokens": 1000, "system": self.rules, "messages": messages, "tools": self.tools}
        data = json.dumps({**body, "thinking": {"type": "disabled"}}).encode()
        headers = {"content-type": "application/json", "x-api-key": "any", "anthropic-version": "2026-10-21"}
        with urllib.request.urlopen(urllib.request.Request(self.messages_url, data, headers), timeout=30) as answer:
            return json.load(answer)


if __name__ == "__main__":
    if sys.argv[1] == "status":
        print((Path(sys.argv[3]) / "status.json").read_text(encoding="utf-8"))
    else:
        asyncio.run(Careless(sys.argv[1:]).live())
