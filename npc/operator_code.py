"""The operator's own functions, hooks and verifiers: found by name, and called so that one that hangs or fails harms nobody else.

Invariants: each call has a thread of its own and no pool's, so that a function that never returns takes nobody's turn and keeps no process
from ending; of one kind only so many hang at once in the whole process; a place is given back however the call ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar, cast

from npc.errors import Misconfigured

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: How many of one kind may hang at once before none is begun any more.
MOST_HANGING = 8


@dataclass(slots=True)
class Functions(Generic[F]):
    """Plain functions by name. A file names one that code registered, or `package.module:function` of the operator's own code.

    For messages: `kind` is what such a function is called, `shape` what it takes and gives, `names` what may be written.
    """

    known: dict[str, F] = field(default_factory=dict)
    kind: ClassVar[str]
    shape: ClassVar[str]
    names: ClassVar[str]

    def register(self, name: str, function: F) -> F:
        """Make a function known under a name."""
        self.known[name] = function
        return function

    def find(self, name: str) -> F:
        """The function of a name. Raises `Misconfigured`."""
        if found := self.known.get(name):
            return found
        module, _, function = name.partition(":")
        if not function:
            raise Misconfigured(f"there is no {self.kind} {name!r}: write {self.names}")
        try:
            found = getattr(importlib.import_module(module), function)
        except Exception as error:  # the operator's own code: whatever it raises, it is told and not lived with
            why = f"{type(error).__name__}: {error}"
            raise Misconfigured(f"the {self.kind} {name} cannot be loaded ({why}): mend it or its name") from error
        if not callable(found) or inspect.iscoroutinefunction(found):
            raise Misconfigured(f"the {self.kind} {name} is no plain function that takes {self.shape}")
        return cast("F", found)


class BusyError(Exception):
    """So many calls hang already that none is begun any more."""


class OperatorCode:
    """Calls functions of one kind, whose `name` stands in their threads'."""

    def __init__(self, name: str, *, most: int = MOST_HANGING) -> None:
        self._name, self._most, self._places = name, most, threading.Semaphore(most)

    async def call(self, function: Callable[[T], object], given: T, *, name: str, seconds: float) -> object:
        """What a function gives.

        Raises:
            BusyError: it was not begun.
            TimeoutError: it took longer than so many seconds, and may go on.
            Exception: whatever it raises.
        """
        if not self._places.acquire(blocking=False):
            raise BusyError(f"{self._most} of them hang already")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()

        def told(result: object, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:  # what would end a process, a thread or an iteration ends nothing here
                plain = isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration))
                answer.set_exception(error if plain else RuntimeError(type(error).__name__))

        def run() -> None:
            result, failed = None, None
            try:
                result = function(given)
            except BaseException as error:  # noqa: BLE001 - the operator's own code on a thread of its own: whoever asked is told
                failed = error
            finally:
                self._places.release()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
                loop.call_soon_threadsafe(told, result, failed)

        thread = threading.Thread(target=run, name=f"{self._name} {name}", daemon=True)
        try:
            thread.start()
        except BaseException:
            self._places.release()
            raise
        return await asyncio.wait_for(answer, seconds)
