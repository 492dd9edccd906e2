"""Arguments fitted to what a tool declares, from the values to a whole NPC (P13, P15, C2, C4, C5, C27, C28)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from npc.arguments import COMPLAINT, Fitted, Misfit, Wardrobe
from npc.schemas import schema_of
from npc.spelling import slip, suggestions
from npc.tools import Toolbox
from runtime.store.journal import Journal
from sim.messages_api import Reply
from sim.reading import Reading
from tests.core.examples import examples
from tests.npc.small_world import SAY, WALK, Oda, oda, words
from world_adapter.frames import ActionSpec, ActResult, ActState

GIVE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "item": {"type": "string", "minLength": 1},
        "amount": {"type": "integer", "minimum": 1, "maximum": 64},
        "how": {"enum": ["quick", "slow", "Very Slow"]},
        "price": {"type": "number"},
        "gift": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "at": {
            "type": "object", "additionalProperties": False, "required": ["x", "y"],
            "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
        },
        "slot": {"type": ["integer", "null"]},
        "who": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "required": ["item"],
}  # fmt: skip


def fit(arguments: Mapping[str, Any], schema: Mapping[str, Any] = GIVE, *, speaks: bool = False) -> Fitted | Misfit:
    return Wardrobe().fit("give", schema, arguments, speaks=speaks)


def fitted(arguments: Mapping[str, Any], schema: Mapping[str, Any] = GIVE) -> Mapping[str, Any]:
    found = fit(arguments, schema)
    assert isinstance(found, Fitted), found
    return found.arguments


def refused(arguments: Mapping[str, Any], schema: Mapping[str, Any] = GIVE) -> str:
    found = fit(arguments, schema)
    assert isinstance(found, Misfit), found
    assert len(found.why) <= COMPLAINT
    assert "\n" not in found.why
    return found.why


# ------------------------------------------------------------ values
@pytest.mark.parametrize(
    ("name", "sent", "means"),
    [
        ("amount", "5", 5), ("amount", 5.0, 5), ("amount", " 12 ", 12), ("amount", "5.0", 5),
        ("price", "2.5", 2.5), ("price", "3", 3), ("gift", "true", True), ("gift", "False", False),
        ("how", "QUICK", "quick"), ("how", " very   slow", "Very Slow"),
        ("tags", "new", ["new"]), ("tags", '["a", "b"]', ["a", "b"]), ("counts", ["1", 2.0], [1, 2]), ("counts", "7", [7]),
        ("at", '{"x": 1, "y": "2.5"}', {"x": 1, "y": 2.5}), ("at", {"x": 1, "y": 2, "z": 3}, {"x": 1, "y": 2}),
        ("slot", "4", 4), ("item", 12, "12"),
    ],
)  # fmt: skip
def test_what_can_only_mean_one_thing_is_made_to_fit(name: str, sent: object, means: object) -> None:
    """P13: a model that writes "5" for 5 is understood, and the change is named."""
    found = fit({"item": "bread", name: sent})
    assert isinstance(found, Fitted)
    assert json.dumps(found.arguments[name]) == json.dumps(means)
    assert [change.split(":")[0] for change in found.changes] == [name]
    assert found.notes == (), "what was only written otherwise is nothing to tell the model"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("amount", 5.7), ("amount", "abc"), ("amount", "5.7"), ("amount", True), ("amount", "0x10"), ("amount", "007"), ("amount", 65),
        ("amount", "٥"), ("amount", [5, 6]), ("price", "1e5"), ("price", "NaN"), ("gift", 1), ("gift", "yes"), ("how", "medium"),
        ("how", "s"), ("tags", '["torn'), ("counts", "1, 2"), ("counts", [1, None]), ("counts", [1, 2, 3, 4]),
        ("at", '{"x": 1, "x": 2, "y": 3}'),
        ("at", {"x": 1}), ("at", [1, 2]), ("item", ""), ("item", None), ("item", 1.5), ("item", {"name": "bread"}), ("who", 1.5),
    ],
)  # fmt: skip
def test_what_would_lose_something_or_be_a_guess_is_refused_by_name(name: str, sent: object) -> None:
    """P13, C28: no fraction is cut off, no word is taken for a number, nothing missing is made up."""
    assert f'"{name}"' in refused({"item": "bread", name: sent})


def test_a_complaint_says_what_was_expected_and_what_was_given() -> None:
    """P13: the model can do it right the next time."""
    assert refused({"item": "bread", "amount": "a few"}) == (
        'give: "amount" must be a whole number from 1 up to 64, not "a few"'
    )
    assert refused({"item": "bread", "how": "x" * 5_000}).startswith('give: "how" must be one of "quick", "slow", "Very Slow", not "xxx')
    assert "at y: field required" in refused({"item": "bread", "at": {"x": 1}})
    assert refused({"amount": 1, "thing": "bread"}) == 'give: it needs "item"; it has no "thing"'


@pytest.mark.parametrize("text", ["5", "true", " a  b ", "null", "[1]", '{"x": 1}', "É\u200b", "x" * 5_000])
def test_text_stays_as_it_was_written(text: str) -> None:
    """P13: what is free text is nobody's to tidy up, also where something else would be taken too."""
    assert fitted({"item": text, "who": text}) == {"item": text, "who": text}


def test_null_for_what_may_be_left_out_is_left_out() -> None:
    """P13: many models write every argument; where null is a value of its own it stays."""
    found = fit({"item": "bread", "amount": None, "slot": None})
    assert isinstance(found, Fitted)
    assert found.arguments == {"item": "bread", "slot": None}


# ------------------------------------------------------------ names
def test_what_is_not_declared_is_left_out_and_the_model_is_told() -> None:
    """P13: and only where others are declared; a world that declares nothing gets what was sent."""
    found = fit({"item": "bread", "colour": "red"})
    assert isinstance(found, Fitted)
    assert found.arguments == {"item": "bread"}
    assert found.notes == ('"colour" was left out, for give has no such argument',)
    for open_ in ({"type": "object"}, {"type": "object", "properties": {}}, {**GIVE, "additionalProperties": True}):
        assert fitted({"item": "bread", "colour": "red"}, open_) == {"item": "bread", "colour": "red"}


@pytest.mark.parametrize("name", ["itme", "Item", "ite", "items", "_item"])
def test_a_slip_of_the_pen_is_the_argument_that_was_meant(name: str) -> None:
    """P13: only where it is required and missing, and nothing else can be meant."""
    found = fit({name: "bread"})
    assert isinstance(found, Fitted) == slip(name, "item")
    if isinstance(found, Fitted):
        assert found.arguments == {"item": "bread"}
        assert "was taken for item" in found.notes[0]
    found = fit({"item": "fish", name: "bread"})
    assert isinstance(found, Fitted)
    assert found.arguments == {"item": "fish"}, "what is there is not written over"


def test_a_name_that_could_be_another_is_no_slip() -> None:
    """P13, C28: of two sides, slots or letters none is guessed."""
    sides = {"type": "object", "properties": {n: {"type": "integer"} for n in ("slot_1", "slot_2")}, "required": ["slot_1", "slot_2"]}
    assert refused({"slot_1": 1, "slot_3": 2}, sides) == 'give: it needs "slot_2"; it has no "slot_3"'
    assert not any(slip(one, other) for one, other in [("to", "too"), ("x", "y"), ("source", "target"), ("lift", "left")])
    assert slip("targt", "target")
    assert slip("tagret", "target")
    assert slip("targetName", "target_name")
    twice = {"type": "object", "properties": {"target": {}, "other": {}}, "required": ["target"]}
    assert "needs" in refused({"targt": 1, "tagret": 2}, twice)


def test_words_for_one_person_are_not_said_to_all() -> None:
    """P13, C28: a world whose speech is for everybody has no `to`; leaving it out would make a confidence public."""
    say = {"type": "object", "properties": {"text": {"type": "string", "maxLength": 5}}, "required": ["text"]}
    found = fit({"text": "the key is under the stone", "to": "Bob"}, say, speaks=True)
    assert isinstance(found, Misfit)
    assert "cannot be said to one person only" in found.why
    found = fit({"text": "longer than five letters", "to": "", "mood": "gay"}, say, speaks=True)
    assert isinstance(found, Fitted)
    assert found.arguments == {"text": "longer than five letters"}, "long words are said in parts, elsewhere"


# ------------------------------------------------------------ what types do not say
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "uniqueItems": True}, [1, 2], [1, 1.0]),
        ({"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}, 9, 4),
        ({"not": {"const": "fire"}}, "water", "fire"),
        ({"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]+$"}, "door1", "door"),
        ({"type": "string", "pattern": "^[a-z]+$"}, "door", "Door"),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"type": "array", "contains": {"const": 1}}, [2, 1], [2]),
        ({"type": "number", "multipleOf": 0.5}, 1.5, 1.2),
        ({"$ref": "#/$defs/tree"}, {"kids": [{"kids": []}]}, {"kids": [{"kids": 5}]}),
    ],
)  # fmt: skip
def test_what_pydantic_has_no_word_for_holds_too(schema: Mapping[str, Any], good: object, bad: object) -> None:
    """P13: exclusive choices, conditions, dependencies, references to itself."""
    tree = {"tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}}
    whole = {"type": "object", "properties": {"it": schema}, "$defs": tree}
    assert fitted({"it": good}, whole) == {"it": good}
    assert "it" in refused({"it": bad}, whole)


_DOUBLED = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]} for n in range(40)} | {"a40": {"const": 1}}
_WIDE = {f"a{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/a{n + 1}"} for k in "abcd"}} for n in range(40)} | {"a40": {}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 5_000 + "b"),
        ({"type": "string", "pattern": "^(?=(a+)+$)a"}, "a" * 5_000 + "b"),
        ({"type": "string", "pattern": "(a{1,99}){1,99}{1,99}"}, "a" * 5_000),
        ({"type": "object", "patternProperties": {"^(a+)+$": {"type": "integer"}}, "additionalProperties": False}, {"a" * 60 + "b": 1}),
        ({"propertyNames": {"pattern": "^(?=(a+)+$)a"}}, {"a" * 60 + "b": 1}),
        ({"$ref": "#/$defs/a0"}, 2),
        ({"oneOf": [{"$ref": "#/$defs/a0"}, {"$ref": "#/$defs/a0"}]}, 2),
        ({"type": "array", "uniqueItems": True}, [[n] for n in range(4_000)]),
        ({"enum": list(range(50_000))}, 7),
        ({"type": "array", "items": {"anyOf": [{"type": "array"}] * 300}}, ["[" + "1," * 9_000 + "1]"] * 4),
    ],
)  # fmt: skip
def test_no_schema_keeps_an_npc_busy(schema: Mapping[str, Any], value: object) -> None:
    """C28: patterns that backtrack for ever, choices that double at each step, endless lists: an answer comes all the same."""
    for defs in (_DOUBLED, _WIDE):
        start = time.perf_counter()
        fit({"it": value}, {"type": "object", "properties": {"it": schema}, "$defs": defs})
        assert time.perf_counter() - start < 5


def test_what_is_too_large_or_no_json_is_refused() -> None:
    """C28: depth, number, length, and numbers that are none."""
    deep: Any = "x"
    for _ in range(2_000):
        deep = [deep]
    for sent in (deep, list(range(10_000)), "x" * 200_000, float("nan"), float("inf"), {"a": [float("-inf")]}, "[" * 3_000 + "]" * 3_000):
        found = fit({"it": sent}, {"type": "object", "properties": {"it": {}, "n": {"type": "array"}}, "required": ["it"]})
        assert isinstance(found, Misfit) or found.arguments == {"it": sent}
    assert "deeper" in refused({"tags": "x", "item": "y", "at": deep})


# ------------------------------------------------------------ whatever comes
_SCALARS = st.none() | st.booleans() | st.integers(-99, 99) | st.floats() | st.text(max_size=6) | st.sampled_from(
    ["5", "true", "A", " a", "[1]", '{"a": 1}', "object", "string", "integer", "#/$defs/a", "(a+)+$"]
)  # fmt: skip
_WORDS = [
    "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "pattern", "minLength",
    "minimum", "maximum", "exclusiveMinimum", "multipleOf", "additionalProperties", "patternProperties", "uniqueItems", "minItems",
    "a", "b",
]  # fmt: skip
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=5), max_leaves=20
)
_KINDS = st.sampled_from(["object", "string", "integer", "number", "boolean", "null", "array"])
_NUMBERS = st.integers(-5, 5) | st.floats(-5, 5)
_PATTERNS = st.sampled_from(["a", "^[a-z]*$", "(?=5)"])
_SOUND = st.recursive(
    st.fixed_dictionaries({"type": _KINDS})
    | st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "A ", "b", 1, 5, "5", True, None, 2.5]), min_size=1, max_size=4)})
    | st.fixed_dictionaries({"type": st.just("integer"), "minimum": _NUMBERS, "multipleOf": st.sampled_from([1, 2, 0.5])})
    | st.fixed_dictionaries({"type": st.just("number"), "exclusiveMaximum": _NUMBERS})
    | st.fixed_dictionaries({"type": st.just("string"), "minLength": st.integers(0, 3), "pattern": _PATTERNS})
    | st.fixed_dictionaries({"type": st.lists(_KINDS, min_size=1, max_size=3, unique=True)})
    | st.just({"$ref": "#/$defs/a"}) | st.just(True),
    lambda inner: st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner}, optional={"uniqueItems": st.booleans(), "maxItems": st.integers(0, 3)}
    )
    | st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)},
        optional={"required": st.lists(st.sampled_from("abc"), max_size=2, unique=True), "additionalProperties": st.booleans()},
    )
    | st.builds(lambda word, inner: {word: inner}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)  # fmt: skip
_TOOL = st.builds(
    lambda properties, required, more, a: {
        "type": "object", "properties": properties, "$defs": {"a": a}, **({"required": required} if required else {}),
        **({} if more is None else {"additionalProperties": more}),
    },
    st.dictionaries(st.sampled_from(["a", "b", "target"]), _SOUND, max_size=3),
    st.lists(st.sampled_from(["a", "b", "target"]), max_size=2, unique=True),
    st.none() | st.booleans() | _SOUND, _SOUND,
)  # fmt: skip
_SENT = st.dictionaries(st.sampled_from(["a", "b", "target", "targt", "Target", "c", "", "x y"]), _JSON, max_size=5)


@given(st.dictionaries(st.sampled_from(_WORDS), _JSON, max_size=6), _SENT)
@examples(60)
def test_whatever_is_declared_and_whatever_is_sent_there_is_an_answer(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    """C28: no exception, and a sentence that is one."""
    found = fit(sent, schema)
    if isinstance(found, Misfit):
        assert found.why.strip()
        assert len(found.why) <= COMPLAINT
    else:
        assert all(isinstance(name, str) for name in found.arguments)


@given(_TOOL, _SENT)
@examples(60)
def test_what_is_sent_is_what_the_world_declared(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    """P13: by the judgement of another library; once fitted it fits as it is, and what fitted before was left alone."""
    assume(schema.get("additionalProperties") is not False or set(schema.get("required", ())) <= schema["properties"].keys())
    shown = schema_of(schema)
    judge = Draft202012Validator(shown)
    found = fit(sent, schema)
    try:
        fits = judge.is_valid(sent)
    except RecursionError:
        return
    if isinstance(found, Misfit):
        assert not fits or "finite" in found.why, found
        return
    if not found.unchecked:
        assert judge.is_valid(found.arguments)
    again = fit(found.arguments, schema)
    assert isinstance(again, Fitted)
    assert json.dumps(again.arguments) == json.dumps(found.arguments)
    assert again.changes == ()
    if fits:
        kept = {name: value for name, value in sent.items() if name in found.arguments}
        assert json.dumps(kept, sort_keys=True) == json.dumps(found.arguments, sort_keys=True)


# ------------------------------------------------------------ names of tools
def test_a_name_that_is_nearly_right_is_answered_with_what_was_meant() -> None:
    """P13: three at most, the likeliest first; nothing where nothing is alike."""
    names = ["walk_to", "talk", "give_item", "take_item", "open_gate", "npc_note"]
    assert suggestions("walkto", names)[0] == "walk_to"
    assert suggestions("GiveItem", names)[:1] == ("give_item",)
    assert suggestions("gate", names) == ("open_gate",)
    assert suggestions("zzz", names) == ()
    assert len(suggestions("item", names)) <= 3


def test_names_that_are_all_alike_keep_nobody_busy() -> None:
    """C28: two thousand names of one letter each, and a call of another."""
    start = time.perf_counter()
    assert len(suggestions("a" * 128, [f"{'a' * 60}{n}" for n in range(2_000)])) == 3
    assert time.perf_counter() - start < 3


@given(st.text(max_size=200), st.lists(st.text(max_size=90), max_size=20))
@examples(40)
def test_suggestions_are_names_that_there_are(name: str, names: list[str]) -> None:
    """C28: whatever is called."""
    assert set(suggestions(name, names)) <= set(names)
    for other in names:
        assert slip(name, other) == slip(other, name)


# ------------------------------------------------------------ a whole NPC
TRADE = ActionSpec(
    name="trade", description="Give somebody something.",
    schema={
        "type": "object", "required": ["item", "target"],
        "properties": {"item": {"type": "string"}, "target": {"type": "string"}, "amount": {"type": "integer", "maximum": 9}},
    },
)  # fmt: skip
TAKE = ActionSpec(
    name="take", description="Take something.", schema={"type": "object", "properties": {"item": {"type": "string"}}}, kind="ongoing",
)  # fmt: skip


def calls(*uses: tuple[str, object], stop: str | None = None) -> Reply:
    content = [{"type": "tool_use", "name": name, "input": given} for name, given in uses]
    return Reply(content=content, stop_reason=stop) if stop else Reply(content=content)


async def lived(house: Oda, *steps: Reply) -> tuple[list[Mapping[str, Any]], Reading]:
    """What the world was asked to do while Oda went through some steps of one turn, and the request after them."""
    left = list(steps)

    def script(_: Reading) -> Reply | None:
        return left.pop(0) if left else None

    house.brain.script = script
    async with house.life(actions=(SAY, WALK, TRADE, TAKE)) as life:
        await life.world.tell("Oda, trade with me!")
        await life.until(lambda: len(house.requests()) > len(steps))
        return [dict(given) for given in life.world.arguments], house.requests()[len(steps)]


async def stored(home: Path, kind: str) -> list[Mapping[str, Any]]:
    """What the log holds of one kind, once the life is over."""
    async with await Journal.open(home / "session.db", read_only=True) as journal:
        return [event.data for event in await journal.events(kinds=(kind,))]


async def test_what_was_repaired_is_sent_and_what_was_written_stays_in_the_history(tmp_path: Path) -> None:
    """P13, P15, C2: the intent holds what was sent, an event what was changed, the history what the model wrote."""
    async with oda(tmp_path) as house:
        wrote = {"item": "flour", "targt": "Bob", "amount": "3", "wrapped": True}
        sent, after = await lived(house, calls(("trade", wrote)))
        assert sent == [{"item": "flour", "target": "Bob", "amount": 3}]
        (use,) = [b for m in after.body["messages"] if m["role"] == "assistant" for b in m["content"] if b["type"] == "tool_use"]
        assert use["input"] == wrote
        assert '"wrapped" was left out' in after.results[0]
    (repaired,) = await stored(house.home, "arguments repaired")
    (intent,) = await stored(house.home, "intent")
    assert repaired["changes"] == ['"targt" became target', '"wrapped": left out', 'amount: "3" became 3']
    assert intent["args"] == sent[0]


async def test_what_does_not_fit_is_not_run_and_the_model_is_told_why(tmp_path: Path) -> None:
    """P13, C4, C27, C28: one result for each call, as an error, and the ones beside it are run."""
    async with oda(tmp_path) as house:
        steps = calls(
            ("trade", {"item": "flour", "target": "Bob", "amount": 12}), ("trade", {"item": "flour"}), ("traed", {}), ("npc_nte", {}),
            ("say", {"text": "So."}),
        )  # fmt: skip
        sent, after = await lived(house, steps)
        assert sent == [{"text": "So."}]
        told = after.results
        assert '"amount" must be a whole number up to 9, not 12' in told[0]
        assert 'it needs "target"' in told[1]
        assert "did you mean trade or take?" in told[2]
        assert "npc_note" in told[3]
    assert [data["name"] for data in await stored(house.home, "arguments refused")] == ["trade", "trade"]
    assert [data["suggested"][0] for data in await stored(house.home, "unknown tool")] == ["trade", "npc_note"]


async def test_the_runtimes_own_tools_are_fitted_too(tmp_path: Path) -> None:
    """P13: a number as text is the event that was meant, and what is missing is said."""
    async with oda(tmp_path) as house:
        _, after = await lived(house, calls(("npc_recall", {"event": "1"}), ("npc_note", {"texts": "Bob owes me flour"}), ("npc_note", {})))
        assert not after.results[0].startswith("[not run")
        assert "noted" in after.results[1]
        assert 'it needs "text"' in after.results[2]


async def test_a_word_about_what_was_left_out_comes_later_where_the_action_takes_time(tmp_path: Path) -> None:
    """P13: a long action has no result yet that could say so."""
    async with oda(tmp_path) as house:

        async def slowly(id: str, name: str) -> ActResult | None:  # noqa: A002 - the protocol's own word
            return ActResult(id=id, state=ActState.ACCEPTED) if name == "take" else None

        takes = calls(("take", {"item": "flour", "fast": True}))
        house.brain.script = lambda reading: takes if "take it" in reading.news and not reading.round else None
        async with house.life(slowly, actions=(SAY, TAKE)) as life:
            await life.world.tell("Oda, take it!")
            await life.until(lambda: life.saw("yield"))
            life.world.end(0, text="You have it.")
            await life.until(lambda: len(house.requests()) == 2)
            await life.world.tell("Oda, and now?")
            await life.until(lambda: len(house.requests()) == 3)
            assert life.world.arguments[0] == {"item": "flour"}
            assert any("fast" in r.news and "was left out" in r.news for r in house.requests())


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "stop_sequence"])
async def test_what_was_cut_off_or_declined_is_never_run(tmp_path: Path, stop: str) -> None:
    """P13, C1, C5: whatever whole calls an answer holds that was not finished, none is executed."""
    async with oda(tmp_path) as house:
        first = [calls(("trade", {"item": "flour", "target": "Bob"}), ("say", {"text": "Here."}), stop=stop)]
        house.brain.script = lambda _: first.pop() if first else words("(so)")
        async with house.life(actions=(SAY, TRADE)) as life:
            await life.world.tell("Oda, trade with me!")
            await life.until(lambda: life.saw("turn"))
            assert not first
            assert life.world.acts == []


async def test_doubled_ids_are_two_calls_with_two_results(tmp_path: Path) -> None:
    """P13, C3: a model that gives one id twice has each call run once, and each answered."""
    async with oda(tmp_path) as house:
        uses = [{"type": "tool_use", "id": "toolu_same", "name": "trade", "input": {"item": i, "target": "Bob"}} for i in ("flour", "bran")]
        sent, after = await lived(house, Reply(content=uses))
        assert [given["item"] for given in sent] == ["flour", "bran"]
        assert len(after.results) == 2


def test_one_fitting_takes_no_time_worth_speaking_of() -> None:
    """The median over a small schema; the bound leaves room for a busy machine."""
    wardrobe, times = Wardrobe(), []
    for _ in range(300):
        start = time.perf_counter()
        wardrobe.fit("give", GIVE, {"item": "bread", "amount": "5"})
        times.append(time.perf_counter() - start)
    assert sorted(times)[150] < 0.002


def test_a_world_that_declares_an_action_anew_is_taken_at_its_word() -> None:
    """P13: what is kept of a schema is that of the newest declaration."""
    wardrobe = Wardrobe()
    for kind, means in (("integer", 5), ("string", "5")):
        box = Toolbox([ActionSpec(name="do", description="", schema={"type": "object", "properties": {"n": {"type": kind}}})])
        found = wardrobe.fit("do", box.actions["do"].schema, {"n": "5"})
        assert isinstance(found, Fitted)
        assert found.arguments == {"n": means}
