"""A door for decisions that come later: POST / with a signed decision.

Invariant: nothing happens without a good signature that is fresh and was not used before; whoever lacks one learns nothing about any
request, not even whether there is one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from npc.approvals.records import Decision, Records
from npc.approvals.signing import MAX_BODY, Secret, word_of
from npc.approvals.stored import number_of
from npc.errors import NpcError

#: Seconds for a body to come whole.
BODY_S = 10.0


def application(records: Records, secret: Secret, *, clock: Callable[[], float] = time.time) -> Starlette:
    """The door to the requests of one NPC."""

    async def decide(request: Request) -> JSONResponse:
        try:
            async with asyncio.timeout(BODY_S):
                body = await _body(request)
        except (TimeoutError, ClientDisconnect):
            return _said(408, "the body did not come in time")
        if body is None:
            return _said(413, "that is too long to be a decision")
        now = clock()
        if why := secret.objection(request.headers, body, now=now):
            return _said(401, why)
        word = word_of(body)
        if isinstance(word, str):
            return _said(400, word)
        decision = Decision(
            number=number_of(word.id) or 0, approve=word.decision == "approve", by="listener", digest=word.digest, because=word.because,
            message=request.headers["webhook-id"],
        )  # fmt: skip
        try:
            answered = await asyncio.to_thread(records.decide, decision, now=now)
        except NpcError as error:
            return _said(503, str(error))
        status = 200 if answered.ok else 404 if answered.why == "unknown" else 409
        return _said(status, answered.said, ok=answered.ok)

    return Starlette(routes=[Route("/", decide, methods=["POST"])])


async def _body(request: Request) -> bytes | None:
    out = b""
    async for part in request.stream():
        out += part
        if len(out) > MAX_BODY:
            return None
    return out


def _said(status: int, what: str, *, ok: bool = False) -> JSONResponse:
    return JSONResponse({"ok": ok, "said": what}, status_code=status)
