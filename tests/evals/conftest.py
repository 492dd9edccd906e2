"""What the tests of the evals share: the command as its users type it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from typer.testing import CliRunner

from npc.errors import NpcError
from sim.evals.command import app


@dataclass(frozen=True)
class Typed:
    """What a command came to."""

    status: int
    out: str
    err: str

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """Its one JSON object."""
        found: Mapping[str, Any] = json.loads(self.out)
        return found

    @cached_property
    def words(self) -> str:
        """All that it printed, on one line and without frames."""
        return re.sub(r"[\s│╭╮╰╯─]+", " ", self.out + self.err)


def typed(*words: str) -> Typed:
    """`npc eval` with these words; a mistake ends as `npc.cli.main` ends it."""
    result = CliRunner().invoke(app, list(words), prog_name="npc eval")
    if isinstance(result.exception, NpcError):
        return Typed(result.exception.exit_code, result.stdout, f"npc: {result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Typed(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(name="npc_eval", scope="session")
def _npc_eval() -> Callable[..., Typed]:
    return typed
