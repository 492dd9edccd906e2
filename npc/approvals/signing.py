"""Signed messages between an NPC and whoever answers for its operator, as the Standard Webhooks specification has them.

The headers `webhook-id`, `webhook-timestamp` (seconds since 1970) and `webhook-signature` (`v1,` and base64 of HMAC-SHA256 over
`id.timestamp.body`; several, with blanks between, while a secret is changed) go with the body as it is.

Invariants: nothing is read from a body before its signature holds; a message is good for five minutes; no text here ever holds the secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npc.errors import Misconfigured
from npc.secrets import from_environment

#: The environment variable that holds the secret; with _FILE behind it, one that names its file.
VARIABLE = "NPC_WEBHOOK_SECRET"
#: How old or how far ahead of our clock a message may be, in seconds.
FRESH_S = 300.0
#: The shortest secret, in bytes, and the largest answer.
LEAST_SECRET = 24
MAX_BODY = 16_384
_MESSAGE_ID = re.compile(r"[A-Za-z0-9_.:/@#+=-]{1,128}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Secret:
    """What both sides know. Its bytes are in no text that anybody could print."""

    _key: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Secret:
        """The secret in a text: `whsec_` and base64, or the text itself. Raises `Misconfigured` for one that could be guessed."""
        text = text.strip()
        key = text.encode("utf-8", "surrogateescape")
        if text.startswith("whsec_"):
            try:
                key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
            except (binascii.Error, ValueError) as error:
                raise Misconfigured(f"{VARIABLE} begins with whsec_ and is no base64 after it: copy it again") from error
        if len(key) < LEAST_SECRET:
            raise Misconfigured(f"{VARIABLE} is shorter than {LEAST_SECRET} bytes: make a new one, for example with openssl rand -hex 32")
        return cls(key)

    @classmethod
    def from_environment(cls) -> Secret:
        """The secret of this process. Raises `Misconfigured` where there is none that will do."""
        text = from_environment(VARIABLE)
        if text is None:
            raise Misconfigured(f"there is no secret to sign with: set {VARIABLE}, or {VARIABLE}_FILE to the file that it is in")
        return cls.of(text)

    def headers(self, body: bytes, *, id_: str, now: float) -> dict[str, str]:
        """The headers that go with a body."""
        at = str(int(now))
        return {"webhook-id": id_, "webhook-timestamp": at, "webhook-signature": f"v1,{self._signature(id_, at, body)}"}

    def objection(self, headers: Mapping[str, str], body: bytes, *, now: float) -> str:
        """Why a message is not from who knows the secret, or not from now; "" if it is."""
        id_, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not _MESSAGE_ID.fullmatch(id_) or not _SECONDS.fullmatch(at):
            return "it is not signed"
        wanted = self._signature(id_, at, body).encode()
        given = headers.get("webhook-signature", "")[:2_000].split()
        # All of them are looked at, so that the time it takes tells nothing.
        good = [hmac.compare_digest(one.removeprefix("v1,").encode("utf-8", "replace"), wanted) for one in given if one.startswith("v1,")]
        if not any(good):
            return "its signature is wrong"
        return "" if abs(now - int(at)) <= FRESH_S else "it is older than five minutes, or its clock is wrong"

    def _signature(self, id_: str, at: str, body: bytes) -> str:
        return base64.b64encode(hmac.digest(self._key, f"{id_}.{at}.".encode() + body, hashlib.sha256)).decode()


class Word(BaseModel):
    """A decision as it travels."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    decision: Literal["approve", "deny"]
    id: str = Field(pattern=r"^A[1-9][0-9]{0,9}$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    because: str = Field(default="", max_length=500)


def word_of(body: bytes) -> Word | str:
    """The decision in a body, or what is wrong with it."""
    if len(body) > MAX_BODY:
        return "it is too long"
    try:
        return Word.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"it is no decision ({'.'.join(str(part) for part in first['loc'])[:80] or 'the body'}: {first['msg'][:200]})"
