"""The Messages endpoint without a socket: a request comes in with its time, an outcome goes out.

Invariant: no clock, no network, no waiting. The same requests at the same times give the same outcomes, records and bills. A request
that the real API refuses is refused here, whatever the brain would have made of it; a refused request costs nothing and leaves no trace
in the prompt cache.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sim.api import signatures
from sim.api.cache import Lookup, PromptCache
from sim.api.counting import TokenCounter, Tokenizer
from sim.api.decoding import TOO_DEEP
from sim.api.faults import Break, BrokenAnswer, Dialect, Fault, FaultPlan, HttpError, Inflated, Late, OddAnswer, TooLong
from sim.api.oddities import bend
from sim.api.profiles import PROFILES, ModelProfile, find
from sim.api.prompt import Prompt, Renderer, Unit, contents, speaker_digest
from sim.api.replies import Brain, Output, finish
from sim.api.searching import serve
from sim.api.usage import Usage
from sim.api.validation import VERSIONS, Refusal, too_long, validate

_NOTHING = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, by the request's headers. `key` is None if there was none."""

    key: str | None
    version: str | None = VERSIONS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request to `/v1/messages` and what became of it, as the oracle gets it.

    Attributes:
        number: of the request, counted from 1.
        at: when it came, seconds on the caller's clock.
        request_id: as the client sees it.
        model: as it was asked for.
        body: the parsed body; an empty mapping if it was no JSON object. Not to be changed.
        stream: whether a stream was asked for.
        tokens: input tokens; 0 where the request was refused before it was counted.
        window: of the model, in tokens.
        outcome: `answered`; `refused` for a request that breaks a rule; `failed` for an error that a fault made up; `broken` for an
            answer that does not arrive whole.
        status: of HTTP.
        error_type: of the error, if one was sent.
        error_message: of the error, if one was sent.
        stop_reason: of the answer, if there was one.
        content: of the answer.
        usage: as billed.
        dollars: as billed.
        faults: that were at work.
        digest: equal for two requests of which the model reads the same.
        units: the positions of the prompt with their sizes, in the order tools, system, messages; empty where it was not counted.
    """

    number: int
    at: float
    request_id: str
    model: str
    body: Mapping[str, Any]
    stream: bool
    tokens: int = 0
    window: int = 0
    outcome: str = "answered"
    status: int = 200
    error_type: str | None = None
    error_message: str | None = None
    stop_reason: str | None = None
    content: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = _NOTHING
    dollars: float = 0.0
    faults: tuple[Fault, ...] = ()
    digest: bytes = b""
    units: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An error is sent; `retry_after` and `delay` are seconds."""

    record: Record
    refusal: Refusal
    retry_after: float | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer is sent.

    Attributes:
        record: of the request.
        output: the answer, to be sent in events.
        message: the answer in one piece.
        broken: how it fails to arrive, if it does.
        lookup: what it does to the prompt cache once it begins.
        delay: seconds until it begins.
    """

    record: Record
    output: Output
    message: Mapping[str, Any]
    broken: BrokenAnswer | None = None
    lookup: Lookup | None = None
    delay: float = 0.0


Outcome = Refused | Answered


class Endpoint:
    """State of the model's end: the prompt cache, the plan of faults, the numbering.

    Args:
        brain: answers valid requests.
        window: overrides every model's context window, in tokens.
        profiles: the models that there are.
        faults: what goes wrong.
        plain: count in plain cl100k tokens, as a local model's server might.
        dialect: in whose words a prompt is too long.
        refused_keys: API keys that get 401.
        strict_roles: see `validate`.
    """

    def __init__(
        self,
        brain: Brain,
        *,
        window: int | None = None,
        profiles: Mapping[str, ModelProfile] = PROFILES,
        faults: FaultPlan | None = None,
        plain: bool = False,
        dialect: Dialect = Dialect.ANTHROPIC,
        refused_keys: Collection[str] = (),
        strict_roles: bool = False,
    ) -> None:
        self.faults = faults or FaultPlan()
        self.cache = PromptCache()
        self._brain = brain
        self._profiles = {name: profile if window is None else replace(profile, window=window) for name, profile in profiles.items()}
        self._plain = plain
        self._dialect = dialect
        self._refused_keys = frozenset(refused_keys)
        self._strict_roles = strict_roles
        self._renderers: dict[Tokenizer, Renderer] = {}
        self._number = 0
        self._asked = 0
        self._paused: dict[bytes, None] = {}  # answers that stopped with pause_turn: the only ones that may be sent back as the end

    def model(self, name: str) -> ModelProfile | Refusal:
        """A model's facts, the overridden window among them, or 404."""
        return find(self._profiles, name) or Refusal(status=404, error_type="not_found_error", message=f"model: {name}")

    def request_id(self) -> str:
        """A new one."""
        self._asked += 1
        return f"req_011sim{self._asked:018d}"

    def admit(self, caller: Caller) -> Refusal | None:
        """The refusal of a caller without a good key or without a known API version, or None."""
        if not caller.key:
            return Refusal(status=401, error_type="authentication_error", message="x-api-key header is required")
        if caller.key in self._refused_keys:
            return Refusal(status=401, error_type="authentication_error", message="invalid x-api-key")
        if caller.version is None:
            return Refusal(message="anthropic-version: header is required")
        if caller.version not in VERSIONS:
            return Refusal(message=f'anthropic-version: "{caller.version}" is not a valid version')
        return None

    def count(self, body: Any | Refusal, caller: Caller) -> int | Refusal:
        """The answer to a request to count tokens."""
        found = self._admitted(body, caller, counting=True)
        return found if isinstance(found, Refusal) else found[1].tokens

    def messages(self, body: Any | Refusal, caller: Caller, *, request_id: str, at: float) -> Outcome:
        """The answer to a request for a message.

        Args:
            body: the parsed JSON, or why it could not be parsed.
            caller: who asks.
            request_id: from `request_id()`.
            at: when the request came, seconds.
        """
        self._number += 1
        readable = body if isinstance(body, dict) else {}
        record = Record(
            number=self._number,
            at=at,
            request_id=request_id,
            model=str(readable.get("model") or ""),
            body=readable,
            stream=readable.get("stream") is True,
        )
        faults = {type(fault): fault for fault in self.faults.pick(self._number, readable, at)}
        record = replace(record, faults=tuple(faults.values()))
        late = faults.get(Late)
        outcome = self._answer(record, body, caller, faults)
        return replace(outcome, delay=late.seconds) if isinstance(late, Late) else outcome

    def begin(self, outcome: Answered) -> None:
        """The answer begins: what it wrote to the prompt cache can be read from now on."""
        if outcome.lookup is not None:
            self.cache.begin(outcome.lookup)

    def _answer(self, record: Record, body: Any, caller: Caller, faults: Mapping[type[Any], Fault]) -> Outcome:
        error = faults.get(HttpError)
        if isinstance(error, HttpError):
            made_up = Refusal(status=error.status, error_type=error.error_type, message=error.message, details=error.details)
            return _refused(record, made_up, "failed", error.retry_after)
        found = self._admitted(body, caller)
        if isinstance(found, Refusal):
            return _refused(record, found)
        profile, prompt = found
        inflated = faults.get(Inflated)
        inflation = inflated.factor if isinstance(inflated, Inflated) else 1.0
        prompt = prompt.scaled(inflation) if inflation != 1.0 else prompt
        root = f"{profile.model}\n{caller.key}"
        record = replace(record, tokens=prompt.tokens, window=profile.window, digest=prompt.digest, units=prompt.units)
        claimed = faults.get(TooLong)
        if isinstance(claimed, TooLong):
            said = claimed.tokens if claimed.tokens is not None else max(prompt.tokens, profile.window + 1)
            return _refused(record, _too_long_in(claimed.dialect, said, profile.window), "failed")
        if (long := too_long(prompt.tokens, body["max_tokens"], profile)) is not None:
            return _refused(record, _too_long_in(self._dialect, prompt.tokens, profile.window, long))
        lookup = self.cache.look_up(prompt, root=root, minimum=profile.min_cacheable, now=record.at)
        output, again = self._output(record, body, profile, faults)
        usage = lookup.usage.with_output(math.ceil(output.tokens * inflation))
        for resumed in again:  # after each search the model reads on, and what it reads is billed
            longer = self._renderer(profile).render(resumed, thinking=profile.thinking[0], effort=profile.effort).scaled(inflation).tokens
            usage = usage.and_again(longer, read=lookup.usage.total_input - lookup.usage.input_tokens)
            if longer > profile.window:
                output = replace(output, content=(), arguments={}, stop_reason="model_context_window_exceeded")
        message = output.message(message_id=f"msg_01sim{record.number:018d}", model=record.model, usage=usage.as_api())
        record = replace(record, stop_reason=output.stop_reason, content=output.content)
        broken = faults.get(BrokenAnswer)
        if not isinstance(broken, BrokenAnswer):
            broken = None
            if output.stop_reason == "pause_turn":
                self._pause(output)
        elif broken.how is Break.SILENT and not broken.after:  # it never begins: no bill, nothing written to the cache
            return Answered(record=replace(record, outcome="broken"), output=output, message=message, broken=broken)
        record = replace(record, outcome="broken" if broken else "answered", usage=usage, dollars=profile.price.dollars(usage))
        return Answered(record=record, output=output, message=message, broken=broken, lookup=lookup)

    def _admitted(self, body: Any, caller: Caller, *, counting: bool = False) -> tuple[ModelProfile, Prompt] | Refusal:
        """The model that is asked and what it gets to read, if the request may be answered."""
        if (stopped := self.admit(caller)) is not None:
            return stopped
        if isinstance(body, Refusal):
            return body
        name = body.get("model") if isinstance(body, dict) else None
        profile = self.model(name) if isinstance(name, str) else next(iter(self._profiles.values()))
        if isinstance(profile, Refusal):
            return profile
        try:
            refusal = validate(
                body,
                profile,
                version=caller.version or VERSIONS[-1],
                counting=counting,
                resumes=bool(self._paused) and self._resumes(body),
                strict_roles=self._strict_roles,
            )
            return refusal or (profile, self._renderer(profile).render(body, thinking=profile.thinking[0], effort=profile.effort))
        except RecursionError:
            return TOO_DEEP

    def _output(
        self, record: Record, body: Mapping[str, Any], profile: ModelProfile, faults: Mapping[type[Any], Fault]
    ) -> tuple[Output, tuple[Mapping[str, Any], ...]]:
        counter = self._renderer(profile).counter
        if body["max_tokens"] == 0:  # asked for nothing but to warm the cache
            return Output(content=(), stop_reason="max_tokens", tokens=0), ()
        served = serve(self._brain, body, serial=record.number)
        output = finish(
            served.reply,
            max_tokens=body["max_tokens"],
            room=profile.window - record.tokens,
            stop_sequences=body.get("stop_sequences") or (),
            counter=counter,
            serial=record.number,
        )
        odd = faults.get(OddAnswer)
        if isinstance(odd, OddAnswer):
            output = bend(output, odd, body, counter)
        if any(block["type"] == "thinking" for block in output.content):
            output = replace(output, content=tuple(signatures.sign(body, output.content)))
        return output, served.again

    def _renderer(self, profile: ModelProfile) -> Renderer:
        tokenizer: Tokenizer = "plain" if self._plain else profile.tokenizer
        if tokenizer not in self._renderers:
            self._renderers[tokenizer] = Renderer(TokenCounter(tokenizer))
        return self._renderers[tokenizer]

    def _pause(self, output: Output) -> None:
        self._paused[_spoken(output.content)] = None
        if len(self._paused) > 1000:
            del self._paused[next(iter(self._paused))]

    def _resumes(self, body: Any) -> bool:
        """Whether the request ends with a paused answer."""
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict) or messages[-1].get("role") != "assistant":
            return False
        try:
            return _spoken(contents(messages[-1]["content"])) in self._paused
        except (KeyError, TypeError, AttributeError):  # not well-formed: validation says how
            return False


def _spoken(content: Any) -> bytes:
    return b"".join(speaker_digest("assistant", block) for block in content)


def _refused(record: Record, refusal: Refusal, outcome: str = "refused", retry_after: float | None = None) -> Refused:
    record = replace(record, outcome=outcome, status=refusal.status, error_type=refusal.error_type, error_message=refusal.message)
    return Refused(record=record, refusal=refusal, retry_after=retry_after)


def _too_long_in(dialect: Dialect, tokens: int, window: int, usual: Refusal | None = None) -> Refusal:
    if dialect is Dialect.ANTHROPIC:
        return usual or Refusal(message=f"prompt is too long: {tokens} tokens > {window} maximum")
    return Refusal(
        error_type="exceed_context_size_error",
        message=f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try increasing it",
        details={"code": 400, "n_prompt_tokens": tokens, "n_ctx": window},
    )
