"""What a life must have come to, held against what it came to.

Invariant: pure; every sentence names what was wanted and what there was instead, and no sentence means that it held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sim.evals.case import Expect, ToolUse
from sim.evals.script import found
from sim.evals.trace import Called, Trace

#: Characters of what there was instead, in a sentence.
SHOWN = 160


def problems(expect: Expect, trace: Trace) -> list[str]:
    """What did not hold, a sentence each."""
    out = [trace.trouble] if trace.trouble else []
    out += _values("the world's", expect.world, trace.facts)
    gates = trace.state.get("gates") or {}
    out += _values("gate", expect.gates, {name: gate.get("value") for name, gate in gates.items()}, missing=True)
    out += _tools(expect, trace)
    out += _words("said aloud", expect.said, expect.never_said, "\n".join(trace.said))
    out += _words("in the diary", expect.diary, expect.never_diary, trace.diary)
    out += _words("in log.md", expect.log, (), trace.log)
    out += _words("in the last request", expect.shown, expect.never_shown, trace.last_request, brief=True)
    for field, pattern in expect.state.items():
        out += _words(f"in state.json under {field}", (pattern,), (), _text(trace.state.get(field)))
    for field, pattern in expect.never_state.items():
        out += _words(f"in state.json under {field}", (), (pattern,), _text(trace.state.get(field)))
    for kind, times in expect.events.items():
        if trace.events.get(kind, 0) < times:
            out.append(f"the log holds {trace.events.get(kind, 0)} events of kind {kind!r}, not {times}")
    return out + list(_figures(expect, trace))


def always(trace: Trace) -> list[str]:
    """What holds for every case, whatever it expects."""
    out = []
    if trace.without_rule:
        out.append(f"{trace.without_rule} of {trace.requests} requests lacked the constitution")
    if trace.rejected:
        out.append(f"{trace.rejected} of {trace.requests} requests were refused as invalid: {'; '.join(trace.rejections)[:SHOWN]}")
    return out


def _values(whose: str, wanted: Mapping[str, Any], there: Mapping[str, Any], *, missing: bool = False) -> Iterable[str]:
    for name, value in wanted.items():
        if missing and value == "unset":
            if name in there:
                yield f"{whose} {name} is {there[name]!r} and should not be set"
        elif type(there.get(name)) is not type(value) or there.get(name) != value:
            yield f"{whose} {name} is {there.get(name)!r}, not {value!r}"


def _tools(expect: Expect, trace: Trace) -> Iterable[str]:
    times = Counter(call.name for call in trace.calls)
    for name in expect.called:
        if not times[name]:
            yield f"{name} was never called"
    for name in expect.never_called:
        if times[name]:
            yield f"{name} was called {_often(times[name])}, and never should be"
    for name, wanted in expect.calls.items():
        if times[name] != wanted:
            yield f"{name} was called {_often(times[name])}, {_wanted(wanted)}"
    acted = Counter(name for name, _ in trace.asked)
    for name, wanted in expect.acted.items():
        if acted[name] != wanted:
            yield f"the world was asked for {name} {_often(acted[name])}, {_wanted(wanted)}"
    for use in expect.called_with:
        if not any(_like(use, call) for call in trace.calls):
            yield f"{use.name} was never called with {_text(use.args)}"
    for use in expect.acted_with:
        asked = [args for name, args in trace.asked if name == use.name]
        if not any(_same(use.args, args) for args in asked):
            yield f"the world was never asked for {use.name} with {_text(use.args)} (there: {_cut(_text(asked))})"
    for name in expect.refused:
        if not any(call.name == name and call.error for call in trace.calls):
            yield f"no call of {name} was refused"
    names, at = [call.name for call in trace.calls], 0
    for name in expect.order:
        if name not in names[at:]:
            yield f"the order {', '.join(expect.order)} was not kept: {', '.join(names)[:SHOWN] or 'nothing was called'}"
            break
        at = names.index(name, at) + 1


def _like(use: ToolUse, call: Called) -> bool:
    return use.name == call.name and all(name in call.args and found(str(value), str(call.args[name])) for name, value in use.args.items())


def _same(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    return all(name in there and type(there[name]) is type(value) and there[name] == value for name, value in wanted.items())


def _words(where: str, wanted: Iterable[str], unwanted: Iterable[str], text: str, *, brief: bool = False) -> Iterable[str]:
    there = "" if brief else f" (there: {_cut(text) or 'nothing'})"
    for pattern in wanted:
        if not found(pattern, text):
            yield f"nothing {where} is like /{pattern}/{there}"
    for pattern in unwanted:
        if match := found(pattern, text):
            yield f"{_cut(match[0])!r} stands {where}, and never should"


def _figures(expect: Expect, trace: Trace) -> Iterable[str]:
    for name, most, there in (
        ("steps", expect.steps, trace.steps),
        ("turns", expect.turns, trace.turns),
        ("dollars", expect.dollars, trace.dollars),
        ("repeated calls", expect.repeats, trace.repeats),
        ("failed turns", expect.failed_turns, trace.failed_turns),
        ("hard resets", expect.resets, trace.resets),
    ):
        if most is not None and there > most:
            yield f"{there:.6g} {name}, and at most {most:.6g} are allowed"
    if trace.resets < expect.least_resets:
        yield f"{trace.resets} hard resets, and at least {expect.least_resets} were meant to happen"


def _often(times: int) -> str:
    return {0: "not at all", 1: "once"}.get(times, f"{times} times")


def _wanted(times: int) -> str:
    return f"not {_often(times)}" if times else "and never should be"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
