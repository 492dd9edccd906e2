"""Signatures of thinking blocks: who wrote them, and after what.

Invariant: a signature is a pure function of the thinking and of what stood before it, so nothing has to be remembered to check it later.
It tells what changed: the thinking itself, the tools, the system prompt, or an earlier message.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from sim.api.prompt import contents

_PART = 6  # bytes of each of the four digests in a signature


class Breach(StrEnum):
    """What no longer agrees with a signature."""

    THINKING = "thinking"
    TOOLS = "tools"
    SYSTEM = "system"
    MESSAGES = "messages"


def sign(body: Mapping[str, Any], content: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answer's content with every thinking block signed for its place after the request."""
    fixed, before = _fixed(body), _Before(_earlier(body["messages"]))
    signed: list[dict[str, Any]] = []
    for block in content:
        if block.get("type") == "thinking":
            parts = (_digest([str(block.get("thinking", ""))]), *fixed, before.digest())
            signed.append({**block, "signature": base64.b64encode(b"".join(parts)).decode()})
        else:
            signed.append(dict(block))
        before.add("assistant", block)
    return signed


def breaches(body: Mapping[str, Any]) -> Iterator[tuple[int, int, Breach]]:
    """Message, block and reason of each thinking block whose signature does not hold here; one reason for each block."""
    if not any(block.get("type") == "thinking" for _, _, _, block in _earlier(body["messages"])):
        return
    fixed, before = _fixed(body), _Before(())
    for n, k, role, block in _earlier(body["messages"]):
        if block.get("type") == "thinking":
            expected = (_digest([block["thinking"]]), *fixed, before.digest())
            for reason, part, there in zip(Breach, expected, _parts(block["signature"]), strict=True):
                if part != there:
                    yield n, k, reason
                    break
        before.add(role, block)


class _Before:
    """A running digest of the conversation so far."""

    def __init__(self, blocks: Iterable[tuple[int, int, str, Mapping[str, Any]]]) -> None:
        self._hash = blake2b(digest_size=_PART)
        for _, _, role, block in blocks:
            self.add(role, block)

    def add(self, role: str, block: Mapping[str, Any]) -> None:
        self._hash.update(_digest([role, repr(_bare(block))]))

    def digest(self) -> bytes:
        return self._hash.copy().digest()


def _fixed(body: Mapping[str, Any]) -> tuple[bytes, bytes]:
    tools = [repr(_bare(tool)) for tool in body.get("tools") or ()]
    return _digest(tools), _digest([block["text"] for block in contents(body.get("system"))])


def _earlier(messages: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, int, str, Mapping[str, Any]]]:
    for n, message in enumerate(messages):
        for k, block in enumerate(contents(message["content"])):
            yield n, k, message["role"], block


def _bare(value: Any) -> Any:
    """A block without marks, empty fields and signatures, its keys in order: what must not have changed."""
    if isinstance(value, Mapping):
        return {key: _bare(value[key]) for key in sorted(value) if key not in {"cache_control", "signature"} and value[key] is not None}
    if isinstance(value, list | tuple):
        return [_bare(each) for each in value]
    return value


def _parts(signature: str) -> list[bytes]:
    try:
        raw = base64.b64decode(signature, validate=True)
    except ValueError:
        raw = b""
    raw = raw if len(raw) == 4 * _PART else bytes(4 * _PART)
    return [raw[at : at + _PART] for at in range(0, 4 * _PART, _PART)]


def _digest(texts: Iterable[str]) -> bytes:
    digest = blake2b(digest_size=_PART)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.digest()
