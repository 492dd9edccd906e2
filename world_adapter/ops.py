"""The table of ops: how each frame is read from a plain map and written to one. Bytes are `codec`'s business, cleaning is `cleaning`'s.

Invariant: reading never raises and gives only clean frames; a map that cannot be understood becomes a MalformedFrame whose reason holds
none of its content. Writing leaves out what has its default, so reading what was written gives an equal frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from world_adapter import cleaning
from world_adapter.frames import (
    DEFAULT_PRIO,
    KINDS,
    SPEAKER_KINDS,
    Ack,
    Act,
    Actions,
    ActionSpec,
    ActProgress,
    ActResult,
    ActState,
    Attach,
    Batch,
    Bye,
    Cancel,
    Close,
    Decoded,
    Frame,
    Gate,
    Hello,
    Limits,
    MalformedFrame,
    Observation,
    Ping,
    Pong,
    Query,
    Resume,
    Rollback,
    Speaker,
    UnknownOp,
    Welcome,
)
from world_adapter.runs import Draft

Raw: TypeAlias = Mapping[str, Any]

MAX_ACTIONS = 512
MAX_BATCH = 65_536  # observations in one frame; more is malformed, not cut, so that the link notices the gap
MAX_DESCRIPTION = 8_192  # characters
_MIN_FRAME = 1_024  # bytes: every frame of ours but an action fits into this


# Observations: the hot path


def read_observation(raw: object) -> Observation | None:
    """One observation, None where it has no usable `seq`."""
    if type(raw) is not dict:
        return None
    get = raw.get
    seq, t, kind, text, wt, key, prio, to = get("seq"), get("t"), get("kind"), get("text"), get("wt"), get("key"), get("prio"), get("to")
    data, source = get("data"), get("from")
    if type(seq) is not int or not 0 < seq <= cleaning.INT_MAX:
        seq = cleaning.integer(seq, 0)
        if seq <= 0:
            return None
    draft: Any = Draft(
        seq,
        t if type(t) is float and 0.0 <= t < 1e300 else cleaning.number(t, 0.0),
        kind if type(kind) is str and kind in KINDS else cleaning.word(kind, "notice"),
        text if type(text) is str and len(text) < 4_096 and text.isascii() and text.isprintable() else cleaning.text(text),
        None if wt is None else cleaning.name(wt) or None,
        None if data is None else cleaning.mapping(data),
        None if key is None else cleaning.ident(key) or None,
        prio if type(prio) is int and 0 <= prio <= 9 else cleaning.integer(prio, DEFAULT_PRIO, 0, 9),
        None if source is None else _read_speaker(source),
        None if to is None else cleaning.ident(to) or None,
        get("self") is True,
    )
    draft.__class__ = Observation
    observation: Observation = draft
    return observation


def _read_speaker(raw: object) -> Speaker | None:
    if type(raw) is str:
        raw = {"name": raw}
    if type(raw) is not dict:
        return None
    kind = raw.get("kind")
    if type(kind) is not str or kind not in SPEAKER_KINDS:
        kind = "player"  # who does not say what he is gets the least trust
    return Speaker(id=cleaning.ident(raw.get("id")), name=cleaning.name(raw.get("name")), kind=kind)


def write_observation(o: Observation) -> dict[str, Any]:
    """The fields of one observation, without `op`."""
    raw: dict[str, Any] = {"seq": o.seq, "t": o.t, "kind": o.kind, "text": o.text}
    if o.wt is not None:
        raw["wt"] = o.wt
    if o.data is not None:
        raw["data"] = o.data
    if o.key is not None:
        raw["key"] = o.key
    if o.prio != DEFAULT_PRIO:
        raw["prio"] = o.prio
    if o.speaker is not None:
        raw["from"] = {"id": o.speaker.id, "name": o.speaker.name, "kind": o.speaker.kind}
    if o.to is not None:
        raw["to"] = o.to
    if o.own:
        raw["self"] = True
    return raw


def _read_obs(raw: Raw) -> Decoded:
    found = read_observation(raw)
    return MalformedFrame(reason="obs without a usable seq", size=0) if found is None else Batch(items=(found,))


def _read_batch(raw: Raw) -> Decoded:
    items = raw.get("items")
    if type(items) is not list or len(items) > MAX_BATCH:
        return MalformedFrame(reason="batch without a list of items, or with too many", size=0)
    found = tuple([o for o in map(read_observation, items) if o is not None])
    return Batch(items=found, malformed=len(items) - len(found))


def _write_batch(frame: Batch) -> dict[str, Any]:
    if len(frame.items) == 1:
        return {"op": "obs", **write_observation(frame.items[0])}
    return {"op": "batch", "items": [write_observation(o) for o in frame.items]}


# World to agent


def _read_hello(raw: Raw) -> Decoded:
    world, epoch = cleaning.ident(raw.get("world")), cleaning.ident(raw.get("epoch"))
    if not world or not epoch:
        return MalformedFrame(reason="hello without world or epoch", size=0)
    limits = raw.get("limits")
    limits = limits if type(limits) is dict else {}
    say = cleaning.integer(limits.get("say_chars"), 0)
    acts = cleaning.number(limits.get("acts_per_s"), 0.0)
    return Hello(
        world=world,
        epoch=epoch,
        # Under 50 ms a heartbeat is a flood; over ten minutes a dead link would go unnoticed for too long.
        heartbeat_s=cleaning.number(raw.get("heartbeat_s"), 30.0, 0.05, 600.0),
        max_frame=cleaning.integer(raw.get("max_frame"), 1_048_576, _MIN_FRAME),
        limits=Limits(say_chars=say if say > 0 else None, acts_per_s=acts if acts > 0 else None),
        time=cleaning.name(raw.get("time")),
    )


def _write_hello(f: Hello) -> dict[str, Any]:
    limits = {k: v for k, v in (("say_chars", f.limits.say_chars), ("acts_per_s", f.limits.acts_per_s)) if v is not None}
    return {
        "op": "hello", "world": f.world, "epoch": f.epoch, "heartbeat_s": f.heartbeat_s, "max_frame": f.max_frame, "limits": limits,
        "time": f.time,
    }


def _read_welcome(raw: Raw) -> Decoded:
    npc = cleaning.ident(raw.get("npc"))
    if not npc:
        return MalformedFrame(reason="welcome without npc", size=0)
    return Welcome(
        npc=npc,
        session=cleaning.ident(raw.get("session")),
        resumed=raw.get("resumed") is True,
        next_seq=cleaning.integer(raw.get("next_seq"), 1, 1),
        lost=cleaning.integer(raw.get("lost"), 0, 0),
    )


def _write_welcome(f: Welcome) -> dict[str, Any]:
    return {"op": "welcome", "npc": f.npc, "session": f.session, "resumed": f.resumed, "next_seq": f.next_seq, "lost": f.lost}


def _read_action(raw: object) -> ActionSpec | None:
    if type(raw) is not dict:
        return None
    name = cleaning.ident(raw.get("name"))
    if not name:
        return None
    schema = cleaning.mapping(raw.get("schema")) or {}
    if schema.get("type") != "object":
        schema = {**schema, "type": "object"}
    # A word that is missing means its default, a word that is not understood the more careful reading.
    return ActionSpec(
        name=name,
        description=cleaning.text(raw.get("description"), MAX_DESCRIPTION),
        schema=schema,
        effect="read" if raw.get("effect") == "read" else "write",
        reversible=None if raw.get("reversible") is None else raw["reversible"] is True,
        reach="contained" if raw.get("reach", "contained") == "contained" else "wide",
        kind="instant" if raw.get("kind", "instant") == "instant" else "ongoing",
        moves_body=raw.get("moves_body") is True,
    )


def _read_actions(raw: Raw) -> Decoded:
    listed = raw.get("actions")
    if type(listed) is not list:
        return MalformedFrame(reason="actions without a list", size=0)
    found: dict[str, ActionSpec] = {}
    for spec in map(_read_action, listed[:MAX_ACTIONS]):
        if spec is not None:
            found.setdefault(spec.name, spec)
    return Actions(version=cleaning.ident(raw.get("version")), actions=tuple(found.values()))


def _write_actions(f: Actions) -> dict[str, Any]:
    return {
        "op": "actions",
        "version": f.version,
        "actions": [
            {
                "name": a.name, "description": a.description, "schema": a.schema, "effect": a.effect, "reach": a.reach, "kind": a.kind,
                "moves_body": a.moves_body, **({} if a.reversible is None else {"reversible": a.reversible}),
            }
            for a in f.actions
        ],
    }  # fmt: skip


_STATES: Mapping[str, ActState] = {state.value: state for state in ActState}


def _read_act_result(raw: Raw) -> Decoded:
    action, state = cleaning.ident(raw.get("id")), raw.get("state")
    if not action or type(state) is not str or state not in _STATES:
        return MalformedFrame(reason="act_result without an id or a known state", size=0)
    error = raw.get("error")
    if type(error) is not dict:
        error = {} if error is None else {"message": error}
    return ActResult(
        id=action,
        state=_STATES[state],
        text=cleaning.text(raw.get("text")),
        data=cleaning.mapping(raw.get("data")),
        error_code=cleaning.word(error.get("code"), "") or None,
        error_message=cleaning.text(error.get("message"), MAX_DESCRIPTION) or None,
    )


def _write_act_result(f: ActResult) -> dict[str, Any]:
    raw: dict[str, Any] = {"op": "act_result", "id": f.id, "state": f.state.value}
    if f.text:
        raw["text"] = f.text
    if f.data is not None:
        raw["data"] = f.data
    if f.error_code is not None or f.error_message is not None:
        raw["error"] = {"code": f.error_code or "", "message": f.error_message or ""}
    return raw


def _read_act_progress(raw: Raw) -> Decoded:
    action = cleaning.ident(raw.get("id"))
    if not action:
        return MalformedFrame(reason="act_progress without id", size=0)
    return ActProgress(id=action, text=cleaning.text(raw.get("text")), fraction=cleaning.optional_number(raw.get("fraction"), 0.0, 1.0))


def _write_act_progress(f: ActProgress) -> dict[str, Any]:
    return {"op": "act_progress", "id": f.id, "text": f.text, **({} if f.fraction is None else {"fraction": f.fraction})}


def _read_gate(raw: Raw) -> Decoded:
    name = cleaning.ident(raw.get("name"))
    if not name:
        return MalformedFrame(reason="gate without name", size=0)
    return Gate(name=name, value=cleaning.json_value(raw.get("value")), why=cleaning.text(raw.get("why"), MAX_DESCRIPTION))


def _read_rollback(raw: Raw) -> Decoded:
    epoch = cleaning.ident(raw.get("epoch"))
    if not epoch:
        return MalformedFrame(reason="rollback without epoch", size=0)
    return Rollback(epoch=epoch, since=cleaning.name(raw.get("since")))


def _read_bye(raw: Raw) -> Decoded:
    return Bye(
        code=cleaning.integer(raw.get("code"), Close.NORMAL, 0, 9_999),
        reason=cleaning.name(raw.get("reason"), 200),
        retry_after_s=cleaning.optional_number(raw.get("retry_after_s"), 0.0, 86_400.0),
        resumable=raw.get("resumable") is not False,
    )


def _write_bye(f: Bye) -> dict[str, Any]:
    retry = {} if f.retry_after_s is None else {"retry_after_s": f.retry_after_s}
    return {"op": "bye", "code": f.code, "reason": f.reason, "resumable": f.resumable, **retry}


# Agent to world


def _read_attach(raw: Raw) -> Decoded:
    npc = cleaning.ident(raw.get("npc"))
    if not npc:
        return MalformedFrame(reason="attach without npc", size=0)
    resume, known = raw.get("resume"), None
    if type(resume) is dict and (epoch := cleaning.ident(resume.get("epoch"))):
        known = Resume(
            session=cleaning.ident(resume.get("session")), epoch=epoch, seq=cleaning.integer(resume.get("seq"), 0, 0),
            world=cleaning.ident(resume.get("world")),
        )
    return Attach(npc=npc, agent=cleaning.name(raw.get("agent")), resume=known)


def _write_attach(f: Attach) -> dict[str, Any]:
    raw: dict[str, Any] = {"op": "attach", "npc": f.npc, "agent": f.agent}
    if f.resume is not None:
        raw["resume"] = {"session": f.resume.session, "epoch": f.resume.epoch, "seq": f.resume.seq, "world": f.resume.world}
    return raw


def _read_act(raw: Raw) -> Decoded:
    action, name = raw.get("id"), cleaning.ident(raw.get("name"))
    # The id comes back in the result, so one that cleaning would change could never be recognised by its sender.
    if type(action) is not str or not action or cleaning.ident(action) != action or not name:
        return MalformedFrame(reason="act without a usable id or name", size=0)
    return Act(id=action, name=name, args=cleaning.mapping(raw.get("args")) or {})


def _read_cancel(raw: Raw) -> Decoded:
    action = cleaning.ident(raw.get("id"))
    return Cancel(id=action) if action else MalformedFrame(reason="cancel without id", size=0)


def _read_query(raw: Raw) -> Decoded:
    action = cleaning.ident(raw.get("id"))
    return Query(id=action) if action else MalformedFrame(reason="query without id", size=0)


def _read_ack(raw: Raw) -> Decoded:
    seq = cleaning.integer(raw.get("seq"), -1)
    return Ack(seq=seq) if seq >= 0 else MalformedFrame(reason="ack without seq", size=0)


def _read_ping(raw: Raw) -> Decoded:
    return Ping(n=cleaning.integer(raw.get("n"), 0))


def _read_pong(raw: Raw) -> Decoded:
    return Pong(n=cleaning.integer(raw.get("n"), 0))


Reader: TypeAlias = Callable[[Raw], Decoded]

FROM_WORLD: Mapping[str, Reader] = {
    "hello": _read_hello,
    "welcome": _read_welcome,
    "actions": _read_actions,
    "obs": _read_obs,
    "batch": _read_batch,
    "act_result": _read_act_result,
    "act_progress": _read_act_progress,
    "gate": _read_gate,
    "rollback": _read_rollback,
    "ping": _read_ping,
    "pong": _read_pong,
    "bye": _read_bye,
}

FROM_AGENT: Mapping[str, Reader] = {
    "attach": _read_attach,
    "act": _read_act,
    "cancel": _read_cancel,
    "query": _read_query,
    "ack": _read_ack,
    "ping": _read_ping,
    "pong": _read_pong,
}

_WRITERS: Mapping[type[Any], Callable[[Any], dict[str, Any]]] = {
    Hello: _write_hello,
    Welcome: _write_welcome,
    Actions: _write_actions,
    Batch: _write_batch,
    ActResult: _write_act_result,
    ActProgress: _write_act_progress,
    Gate: lambda f: {"op": "gate", "name": f.name, "value": f.value, "why": f.why},
    Rollback: lambda f: {"op": "rollback", "epoch": f.epoch, "since": f.since},
    Ping: lambda f: {"op": "ping", "n": f.n},
    Pong: lambda f: {"op": "pong", "n": f.n},
    Bye: _write_bye,
    Attach: _write_attach,
    Act: lambda f: {"op": "act", "id": f.id, "name": f.name, "args": f.args},
    Cancel: lambda f: {"op": "cancel", "id": f.id},
    Query: lambda f: {"op": "query", "id": f.id},
    Ack: lambda f: {"op": "ack", "seq": f.seq},
}


def read(raw: object, table: Mapping[str, Reader], size: int) -> Decoded:
    """The frame in `raw`, an undecoded frame of `size` bytes, by the ops of one direction."""
    if type(raw) is not dict:
        return MalformedFrame(reason="not a map", size=size)
    op = raw.get("op")
    if type(op) is not str:
        return MalformedFrame(reason="no op", size=size)
    reader = table.get(op)
    if reader is None:
        return UnknownOp(op=cleaning.word(op, "?"))
    frame = reader(raw)
    return MalformedFrame(reason=frame.reason, size=size) if isinstance(frame, MalformedFrame) else frame


def write(frame: Frame) -> dict[str, Any]:
    """The plain map of a frame. Values that only code made (`args`, `data`) are as given: the codec deals with what it cannot hold."""
    return _WRITERS[type(frame)](frame)
