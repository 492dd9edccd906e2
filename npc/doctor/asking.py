"""Whether the operator can be asked: the file of requests, the webhook and its secret, and what waits for him now.

Invariant: nothing is posted; the address is only connected to.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from urllib.parse import urlsplit

from npc.approvals import ownership
from npc.approvals.records import Records
from npc.approvals.signing import Secret
from npc.approvals.stored import Standing
from npc.doctor.finding import Finding, fine, told, warn
from npc.errors import Misconfigured, NpcError
from npc.files import reason
from npc.persona import Persona

#: Seconds to wait for the address of the webhook.
CONNECT_S = 3.0
CHECK = "approvals"


async def check_approvals(who: Persona | None, home: Path, *, offline: bool) -> list[Finding]:
    """All findings about approvals."""
    out = await asyncio.to_thread(_waiting, home)
    if who is None or who.approvals.webhook is None:
        return out
    try:
        Secret.from_environment()
    except Misconfigured as error:
        out.append(told(CHECK, str(error), code=3))
    return out if offline else [*out, *await _reached(who.approvals.webhook)]


def _waiting(home: Path) -> list[Finding]:
    if not (home / ownership.NAME).exists():
        return []
    try:
        now = time.time()
        waiting = [one.id for one in Records(home).all(live=True) if one.standing is Standing.OPEN and one.lapses_at > now]
    except NpcError as error:
        return [told(CHECK, str(error))]
    if waiting:
        return [warn(CHECK, f"{len(waiting)} requests wait for you ({', '.join(waiting[:8])})", "npc approvals list shows them")]
    return [fine(CHECK, "no request waits for you")]


async def _reached(url: str) -> list[Finding]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    where = f"{parts.hostname}:{port}"
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except (OSError, TimeoutError) as error:
        why = reason(error) if isinstance(error, OSError) and str(error) else "no answer"
        what = f"the webhook at {where} cannot be reached ({why})"
        return [warn(CHECK, what, "start it, or correct webhook in [approvals]: until then npc approvals is the only way to answer")]
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return [fine(CHECK, f"the webhook at {where} can be reached")]
