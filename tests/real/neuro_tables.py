"""Two games on the `neuro-api` library, run by the Python of their own environment: `python neuro_tables.py NAME URL`. See `neuro_game.py`.

`noughts`: noughts and crosses against an opponent that takes the first free cell. One answer of every second turn is refused.
`guess`: guess a number, for ever: the next force follows each result at once, as many games do.

Each thing that happens is one line of JSON on standard output.
"""
# mypy: ignore-errors
# The library is not installed where types are checked.

from __future__ import annotations

import json
import sys
from typing import Any, ClassVar

import trio
from neuro_api.command import Action
from neuro_api.trio_ws import TrioNeuroAPI
from trio_websocket import ConnectionClosed, HandshakeError, open_websocket_url

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def tell(what: str, **data: object) -> None:
    print(json.dumps({"what": what, **data}), flush=True)


class Table(TrioNeuroAPI):
    """What both games have in common."""

    title = ""

    async def handle_startup_acknowledgement(self, startup_ack: Any) -> None:
        tell("welcomed", name=startup_ack.session.display_name)

    async def handle_graceful_shutdown_request(self, wants_shutdown: bool) -> None:
        tell("asked to save", wants_shutdown=wants_shutdown)
        await self.send_shutdown_ready()

    async def handle_unknown_command(self, command: str, data: Any) -> None:
        tell("unknown command", command=command)

    async def play(self) -> None:
        raise NotImplementedError


class Noughts(Table):
    """The NPC plays X."""

    title = "Noughts and Crosses"

    def __init__(self, connection: Any) -> None:
        super().__init__(self.title, connection)
        self.cells = ["_"] * 9
        self.turn = 0
        self.refused = 0

    async def play(self) -> None:
        await self.send_context("You play noughts and crosses. You are X.", silent=True)
        await self.ask()

    async def ask(self) -> None:
        self.turn += 1
        self.refused = 0
        names = [f"play_{n}" for n, cell in enumerate(self.cells) if cell == "_"]
        await self.register_actions([Action(name, f"Puts an X into cell {name[5:]}.") for name in names])
        await self.send_force_action(" ".join(self.cells), "It is your turn.", names)

    async def handle_action(self, action: Any) -> None:
        tell("action", name=action.name, data=action.data)
        cell = int(action.name.removeprefix("play_"))
        if action.name not in self.get_registered() or self.cells[cell] != "_":
            tell("illegal", name=action.name)
            await self.send_action_result(action.id_, False, "That cell is taken.")
            return
        if self.turn % 2 == 0 and not self.refused:
            self.refused += 1
            await self.send_action_result(action.id_, False, "Your hand slips. Try again.")
            return
        self.cells[cell] = "X"
        await self.unregister_actions(list(self.get_registered()))
        await self.send_action_result(action.id_, True, f"You have cell {cell}.")
        if not await self.over("X"):
            free = self.cells.index("_")
            self.cells[free] = "O"
            if not await self.over("O"):
                await self.send_context(f"O takes cell {free}.", silent=True)
                await self.ask()

    async def over(self, mark: str) -> bool:
        won = any(all(self.cells[n] == mark for n in line) for line in LINES)
        if won or "_" not in self.cells:
            await self.send_context(f"{mark} wins." if won else "A draw.", silent=False)
            tell("over", winner=mark if won else "", cells=self.cells)
            return True
        return False


class Guess(Table):
    """A number from 1 to 9, and a new one once it is found."""

    title = "Guess the Number"
    schema: ClassVar = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["number"]}

    def __init__(self, connection: Any) -> None:
        super().__init__(self.title, connection)
        self.number, self.guesses = 4, 0

    async def play(self) -> None:
        await self.register_actions([Action("guess", "Guesses the number.", self.schema)])
        await self.ask()

    async def ask(self) -> None:
        await self.send_force_action("", "Guess a number from 1 to 9.", ["guess"])

    async def handle_action(self, action: Any) -> None:
        self.guesses += 1
        number = json.loads(action.data)["number"]
        tell("guess", number=number, guesses=self.guesses)
        if number == self.number:
            self.number = (self.number * 7) % 9 + 1
            await self.send_action_result(action.id_, True, "Right! There is a new number.")
        else:
            await self.send_action_result(action.id_, True, "Higher." if number < self.number else "Lower.")
        await self.ask()


async def main(name: str, url: str) -> None:
    while True:
        try:
            async with open_websocket_url(url) as connection:
                game = {"noughts": Noughts, "guess": Guess}[name](connection)
                await game.send_startup_command()
                await game.play()
                while True:
                    await game.read_message()
        except ConnectionClosed as closed:
            tell("left", code=closed.reason.code if closed.reason else 1006)
        except (OSError, HandshakeError):
            tell("nobody there")
        await trio.sleep(0.5)


trio.run(main, sys.argv[1], sys.argv[2])
