"""A world of a stranger's making: npc-world v1 in JSON with nothing of the product. It keeps every rule but those it is told to break."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

HEARTBEAT_S = 0.6
LOOK = {"name": "look", "description": "Look.", "schema": {"type": "object"}, "effect": "read"}
WATCH = {"name": "watch", "description": "Watch.", "schema": {"type": "object"}, "effect": "read", "kind": "ongoing"}
BURN = {"name": "burn", "description": "Burn it all down.", "schema": {"type": "object"}}


class StrangeWorld:
    """`flaws` are the names of the rules it breaks, as tests know them. `burnt` counts what nobody may ask for."""

    def __init__(self, flaws: Iterable[str] = (), *, observations: int = 4, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.flaws = set(flaws)
        self.heartbeat_s = heartbeat_s
        self.burnt = 0
        self.looked = 0
        self.told = [self._obs(seq) for seq in range(1, observations + 1)]
        self.acked = 0
        self.acts: dict[str, dict[str, Any]] = {}
        self.hellos = 0
        self.sitting: _Seat | None = None

    def _obs(self, seq: int) -> dict[str, Any]:
        return {"seq": seq, "t": 0.0, "kind": "notice", "text": f"thing {seq}", "from": {"id": "p", "name": "Bob", "kind": "player"}}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Serves; gives the URL."""
        async with serve(self._serve, "127.0.0.1", 0, subprotocols=["npc-world.v1.json"], ping_interval=None, close_timeout=0.5) as server:  # type: ignore[list-item]
            yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"

    async def _serve(self, ws: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await _Seat(self, ws).sit()


class _Seat:
    """One connection."""

    def __init__(self, world: StrangeWorld, ws: ServerConnection) -> None:
        self.world, self.ws = world, ws
        self.malformed = 0
        self.seated = False

    def has(self, flaw: str) -> bool:
        return flaw in self.world.flaws

    async def say(self, op: str, **fields: Any) -> None:
        await self.ws.send(json.dumps({"op": op, **fields}))

    async def sit(self) -> None:
        world = self.world
        world.hellos += 1
        if self.has("hello second"):
            await self.say("ping", n=1)
        epoch = "e1" if not self.has("new epoch") else f"e{world.hellos}"
        hello = {"world": "strange", "epoch": epoch, "heartbeat_s": world.heartbeat_s, "max_frame": 65_536, "limits": {}, "time": "noon"}
        if self.has("hello in words"):
            hello["max_frame"] = "a lot"
        await self.say("hello", **hello)
        silent = 0
        while True:
            try:
                async with asyncio.timeout(world.heartbeat_s):
                    message = await self.ws.recv()
            except TimeoutError:
                silent += 1
                if silent >= (1 if self.has("impatient") else 2) and not self.has("patient"):
                    await self.ws.close(1011, "silence")
                    return
                if not self.has("never pings"):
                    await self.say("ping", n=silent)
                continue
            silent = 0
            if not await self.heard(str(message)):
                return

    async def heard(self, message: str) -> bool:
        try:
            frame = json.loads(message)
            op = frame["op"]
            if not isinstance(op, str):
                raise TypeError
        except (ValueError, TypeError, KeyError):
            self.malformed += 1
            if self.malformed >= (3 if self.has("touchy") else 1 if self.has("very touchy") else 10) and not self.has("thick skin"):
                await self.ws.close(4002, "malformed")
                return False
            return True
        if op == "ping":
            await self.say("pong", n=frame["n"] + (1 if self.has("pong of another n") else 0))
        elif op == "attach":
            return await self.attached(frame)
        elif op == "ack":
            self.world.acked = max(self.world.acked, frame["seq"])
        elif op == "act":
            await self.act(frame["id"], frame["name"])
        elif op == "query":
            known = self.world.acts.get(frame["id"])
            unheard = {"id": frame["id"], "state": "failed" if self.has("query fails") else "unknown"}
            await self.say("act_result", **(known or unheard))
        elif op == "cancel":
            await self.cancel(frame["id"])
        elif self.has("unknown op closes"):
            await self.ws.close(1008, f"what is {op}?")
            return False
        return True

    async def attached(self, frame: dict[str, Any]) -> bool:
        world = self.world
        if frame["npc"] != "mira":
            await self.ws.close(1008 if self.has("unknown npc otherwise") else 4004, "unknown npc")
            return False
        former, world.sitting = world.sitting, self
        if former is not None and former is not self and not self.has("two minds"):
            await former.ws.close(4003, "replaced")
        resume = frame.get("resume") or {}
        resumed = resume.get("epoch") == "e1" or (bool(resume) and self.has("any epoch"))
        oldest = world.acked + 1
        asked = resume["seq"] + 1 if resumed else oldest
        if self.has("resume ignored") and resumed:
            asked = oldest
        begin = max(oldest, asked)
        lost = 0 if self.has("lost not counted") or not resumed else begin - asked
        await self.say("welcome", npc="mira", session="s1", resumed=resumed, next_seq=begin, lost=lost)
        listed = [LOOK, WATCH, BURN]
        if self.has("bad schema"):
            listed = [LOOK, {**WATCH, "schema": {"type": "object", "properties": {"at": {"type": "word"}}}}, BURN]
        await self.say("actions", version=1, actions=listed)
        again = not resumed and world.hellos > 1
        if not (again and self.has("forgets")) and not (resumed and self.has("resends nothing")):
            await self.tell([dict(obs) for obs in world.told if obs["seq"] >= begin])
        return True

    async def tell(self, items: list[dict[str, Any]]) -> None:
        if self.has("a gap") and len(items) > 1:
            del items[0]
        if self.has("words change"):
            items = [{**item, "text": f"{item['text']} ({self.world.hellos})"} for item in items]
        if self.has("prio in words"):
            items = [{**item, "prio": "high"} for item in items]
        if self.has("large frames"):
            items = [{**item, "text": "x" * 70_000} for item in items]
        if self.has("NaN"):
            items = [{**item, "t": float("nan")} for item in items]
        if items:
            await self.say("batch", items=items)

    async def act(self, action: str, name: str) -> None:
        world = self.world
        known = world.acts.get(action)
        if known is not None and not self.has("acts again"):
            await self.say("act_result", **known)
            return
        if name == "burn":
            world.burnt += 1
        if name == "watch":
            world.acts[action] = {"id": action, "state": "accepted"}
            await self.say("act_result", **world.acts[action])
            return
        if self.has("accepts all"):
            await self.say("act_result", id=action, state="accepted")
        world.looked += 1
        if name == "look":
            await self.final(action, "done", text=f"You see {world.looked} things.")
        elif self.has("does anything"):
            await self.final(action, "done")
        elif not self.has("ignores what it cannot do"):
            await self.final(action, "failed", error={"code": "unknown_action", "message": "no such action"})

    async def final(self, action: str, state: str, **fields: Any) -> None:
        self.world.acts[action] = {"id": action, "state": state, **fields}
        await self.say("act_result", **self.world.acts[action])
        if self.has("says it twice"):
            await self.say("act_result", **self.world.acts[action])

    async def cancel(self, action: str) -> None:
        known = self.world.acts.get(action)
        if known is not None and known["state"] == "accepted" and not self.has("cannot stop"):
            await self.final(action, "cancelled")
