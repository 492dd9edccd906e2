"""A whole world for NPCs: one room, people who type, NPCs who hear them and answer. Needs nothing but websockets and msgpack.

`python -m world_adapter.examples.minimal_world 8765` opens it: type lines, or `NAME: line` to speak to one NPC.
`npc attach ws://127.0.0.1:8765 --persona mira.toml` elsewhere: an NPC moves in.
`npc sim conformance ws://127.0.0.1:8765 --npc mira` shows that the protocol is kept.
"""

import asyncio
import sys

from world_adapter.frames import ActionSpec, Speaker
from world_adapter.server import ActFailed, Request, WorldServer

# What an NPC can do here. The schema is JSON Schema; a model sees it as a tool. An action is `write` unless it says that it only reads.
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SAY = ActionSpec(name="say", description="Say something aloud.", schema=TEXT)
LOOK = ActionSpec(name="look", description="Look around.", schema={"type": "object"}, effect="read")
DOZE = ActionSpec(name="doze", description="Doze until something wakes you.", schema={"type": "object"}, effect="read", kind="ongoing")


async def main(port: int) -> None:
    here: set[str] = set()  # the NPCs whose minds are attached

    def tell(text: str, *, speaker: Speaker, to: str | None = None) -> None:
        for npc in here:  # `own`: an NPC's own words come back to it as such and start no turn
            server.observe(npc, text, kind="speech", speaker=speaker, to=to, own=speaker.id == npc)

    async def on_act(request: Request) -> str:
        """Runs once per action, in a task of its own. What it returns is told to the NPC; ActFailed is a failure in your words."""
        if request.name == "look":
            return f"A bare room. Here are: {', '.join(sorted(here))}."
        if request.name == "doze":
            await asyncio.sleep(600)  # if the NPC cancels it, this is cancelled
            return "You wake up by yourself."
        text = request.args.get("text")
        if not isinstance(text, str) or not text:
            raise ActFailed("Say what?", code="bad_args")
        print(f"{request.npc}: {text}", flush=True)
        tell(text, speaker=Speaker(id=request.npc, name=request.npc, kind="npc"))
        return "Everyone heard you."

    def arrived(npc: str) -> None:
        here.add(npc)
        server.observe(npc, "You stand in a bare room.", kind="scene", data={"room": "room"}, key="scene")

    async with WorldServer("minimal", on_act=on_act, actions=[SAY, LOOK, DOZE], on_attach=arrived, on_detach=here.discard) as server:
        print(f"listening on ws://127.0.0.1:{await server.listen('127.0.0.1', port)}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, colon, rest = line.strip().partition(":")
            text, to = (rest.strip(), name) if colon and name in here else (line.strip(), None)
            tell(text, speaker=Speaker(id="you", name="You", kind="player"), to=to)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8765))
