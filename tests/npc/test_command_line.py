"""The command line as a whole: a small command does not pay for the large ones."""

from __future__ import annotations

import subprocess
import sys

#: What takes seconds to import, or belongs to the proving ground.
HEAVY = {"anthropic", "tiktoken", "websockets", "matplotlib", "jsonschema", "starlette", "sim"}


def test_asking_for_the_state_of_an_npc_loads_no_model_and_no_world() -> None:
    """O1, O4: `npc status`, `npc log` and `npc approvals` are asked often and answer at once."""
    done = subprocess.run([sys.executable, "-c", "import sys, npc.cli; print(*sys.modules)"], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
