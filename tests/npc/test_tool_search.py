"""Worlds with hundreds of actions (C10, C13, C16, C20, W4): what is shown, what is found, and that finding never moves the prefix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.catalogue import Catalogue, Familiar, Search, search_of, unwrapped
from npc.persona import parse_persona
from npc.tools import Toolbox
from runtime.core import searches
from runtime.core.effects import Call
from runtime.core.messages import Kind, Message, make_block, text_block
from runtime.core.repair import mended, problems
from sim.messages_api import PROFILES, MessagesAPI, Reply
from sim.reading import Reading
from tests.npc.small_world import COUNT, SAY, WALK, Life, Oda, oda, use, words
from world_adapter.frames import ActionSpec

_AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer", "description": "how many loads"}}, "required": ["amount"]}
THINGS = ("ore", "grain", "timber", "cloth", "herbs", "fish", "honey", "clay", "leather", "glass")
DEEDS = {
    "gather": "Collect {} from outside.", "store": "Put {} away on the shelves.", "sell": "Offer {} on the market.",
    "weigh": "Find out on the scales how heavy {} is.", "mend": "Repair broken {}.", "guard": "Keep watch over {} at night.",
}  # fmt: skip
MANY = [
    ActionSpec(name=f"{deed}_{thing}", description=text.format(thing), schema=_AMOUNT) for deed, text in DEEDS.items() for thing in THINGS
]
WEIGH = "weigh_fish"


def search(way: Any = "own", **more: Any) -> Search:
    return Search(**({"way": way, "above": 40, "few": 16, "room": 3_000} | more))


def box(actions: Sequence[ActionSpec], **more: Any) -> Toolbox:
    return Toolbox(actions, first="say", count=COUNT, **more)


def find(words_: str) -> Reply:
    return Reply(content=[{"type": "tool_use", "name": "npc_find_tool", "input": {"words": words_}}])


def do(action: str, **arguments: Any) -> Reply:
    return Reply(content=[{"type": "tool_use", "name": "npc_do", "input": {"action": action, "arguments": arguments}}])


def look(query: str) -> dict[str, Any]:
    return {"type": "server_tool_use", "name": "tool_search_tool_bm25", "input": {"query": query}}


def weigh(amount: int = 3) -> dict[str, Any]:
    return {"type": "tool_use", "name": WEIGH, "input": {"amount": amount}}


def settled(life: Life, turns: int) -> bool:
    return len(life.saw("turn")) == turns


def bodies(house: Oda) -> list[Mapping[str, Any]]:
    return [reading.body for reading in house.requests()]


def served(body: Mapping[str, Any]) -> list[str]:
    """Types of the blocks of tool searches in a request, in order."""
    return [b["type"] for m in body["messages"] for b in m["content"] if b["type"] in (searches.USE, searches.RESULT)]


# ------------------------------------------------------------ what is shown
def test_below_the_threshold_nothing_changes() -> None:
    """C10, C13: a world of ordinary size is shown as before, byte for byte, whichever search there would be."""
    few = [SAY, WALK, *MANY[:14]]
    for way in ("own", "api"):
        assert json.dumps(box(few, search=search(way)).tools) == json.dumps(box(few).tools)
    assert box([SAY, WALK, *MANY[:38]], search=search(room=10**6)).catalogue is None


def test_too_many_or_too_large_is_looked_for() -> None:
    """C20: above a number, or above a share of the window; the action for speaking and what the operator names stay."""
    by_number = box([SAY, *MANY[:45]], search=search(room=10**6, always=("mend_ore", "not_there")))
    by_size = box([SAY, *MANY[:20]], search=search(room=500))
    for one in (by_number, by_size):
        names = [t["name"] for t in one.tools]
        assert {"say", "npc_find_tool", "npc_do", "npc_recall", "npc_stop"} <= set(names)
        assert len(names) < 10
    assert "mend_ore" not in by_number.catalogue.actions if by_number.catalogue else False
    assert len(by_number.actions) == 46, "what is not shown can be run all the same"


def test_our_own_search_shows_the_same_whatever_the_world_offers() -> None:
    """C10, C13: a world that changes its list moves no byte of the prefix."""
    one, two = box([SAY, *MANY], search=search()), box([SAY, *reversed(MANY[:50])], search=search())
    assert json.dumps(one.tools) == json.dumps(two.tools)


def test_the_providers_search_gets_all_tools_deferred_but_a_few() -> None:
    """C20: the search tool and at least one more are not deferred; no deferred tool has a cache mark; any order gives the same bytes."""
    one, two = box([SAY, *MANY], search=search("api")), box([*reversed(MANY), SAY], search=search("api"))
    assert json.dumps(one.tools) == json.dumps(two.tools)
    shown = {t["name"] for t in one.tools if not t.get("defer_loading")}
    assert {"say", "npc_recall", "tool_search_tool_bm25"} <= shown
    assert len([t for t in one.tools if t.get("defer_loading")]) == len(MANY)
    assert not any("cache_control" in t for t in one.tools)


def test_a_definition_that_would_flood_the_window_is_told_shorter_or_not_at_all() -> None:
    """C20, W4: what the provider puts into the conversation by itself is bounded like everything else, and what is left out is named."""
    long = {f"p{n}": {"type": "string", "description": "what it is all about " * 10} for n in range(60)}
    flood = replace(WALK, name="flood", schema={"type": "object", "properties": long})
    worse = replace(WALK, name="worse", schema={"type": "object", "properties": {f"{'p' * 60}{n}": {} for n in range(4_000)}})
    one = box([SAY, flood, worse, *MANY], search=search("api"))
    tools = {t["name"]: t for t in one.tools}
    assert set(tools["flood"]["input_schema"]["properties"]) == set(long)
    assert all(COUNT(json.dumps(tool)) < 1_600 for tool in tools.values())
    assert set(one.left_out) == {"worse"} - tools.keys()


def test_who_searches_follows_the_model_and_its_endpoint() -> None:
    """C20: the provider's own where it is there; ours for local servers and gateways, which refuse or drop what they do not know."""

    def way(model: str = "claude-haiku-5-5", base_url: str = "", chosen: str = "auto") -> str:
        url = f'base_url = "{base_url}"\n' if base_url else ""
        text = f'[character]\nname = "O"\ndescription = "x"\n[model]\nid = "{model}"\n{url}[tools]\nsearch = "{chosen}"\n'
        found = search_of(parse_persona(text), 32_000)
        return found.way if found else ""

    assert way() == way(base_url="https://api.anthropic.com") == way(base_url="http://127.0.0.1:1", chosen="api") == "api"
    assert way(model="qwen3:4b", base_url="http://127.0.0.1:1") == way(base_url="http://127.0.0.1:1") == way(chosen="own") == "own"
    assert way(chosen="off") == ""


# ------------------------------------------------------------ our own search
@pytest.mark.parametrize(
    ("asked", "action"),
    [
        ("how heavy is the fish", WEIGH), ("weighFish", WEIGH), ("weigh_fish", WEIGH), ("put honey on a shelf", "store_honey"),
        ("REPAIR the BROKEN glasses", "mend_glass"), ("watch the leather tonight", "guard_leather"),
    ],
)  # fmt: skip
def test_words_find_the_action(asked: str, action: str) -> None:
    """C20: by words of the description, by inflected ones, by the name in any spelling."""
    found = Catalogue({a.name: a for a in MANY}, COUNT).found(asked)
    assert found[0] == action
    assert len(found) <= 5


def test_any_script_finds_its_own() -> None:
    """C20: a world need not be English."""
    told = {"dig": "Зачерпнуть воду из колодца", "sing": "在夜里唱一首歌", "bake": "Brot im Ofen backen", "ride": "馬に乗る"}
    catalogue = Catalogue({n: ActionSpec(name=n, description=text, schema={"type": "object"}) for n, text in told.items()}, COUNT)
    assert [catalogue.found(asked)[0] for asked in ("воду", "唱歌一首", "brot", "馬に乗")] == ["dig", "sing", "bake", "ride"]


_ODD = {"type": "object", "properties": {f"p{n}": {"enum": ["x" * 500] * 50, "description": "y" * 900} for n in range(90)}, "required": 7}
WILD = Catalogue({f"a{n}": ActionSpec(name=f"a{n}", description="spin gold " * 300, schema=_ODD) for n in range(8)}, COUNT)


@settings(deadline=None, max_examples=30)
@given(st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=600), st.integers(), st.none(), st.lists(st.text())), max_size=3))
def test_whatever_is_asked_the_answer_is_bounded(given_: dict[str, Any]) -> None:
    """C20: a model may ask for anything in any shape."""
    for asked in (given_, {"words": "spin gold"}):
        answer = WILD.answer(asked)
        assert answer.text
        assert COUNT(answer.text) < 2_000


@pytest.mark.parametrize(
    "given_",
    [
        {"action": WEIGH, "arguments": {"amount": 2}}, {"action": WEIGH, "arguments": '{"amount": 2}'}, {"action": WEIGH, "amount": 2},
        {"name": WEIGH, "input": {"amount": 2}}, {"tool": f" {WEIGH} ", "args": {"amount": 2}},
    ],
)  # fmt: skip
def test_the_shapes_in_which_small_models_call_are_understood(given_: dict[str, Any]) -> None:
    """C20: arguments in a string, beside the name, or under another word are what they are meant to be."""
    assert unwrapped(Call(id="c", name="npc_do", arguments=given_)) == Call(id="c", name=WEIGH, arguments={"amount": 2})


def test_arguments_that_are_cut_off_are_not_guessed() -> None:
    """C20, P13: half a string of arguments is no call."""
    assert unwrapped(Call(id="c", name="npc_do", arguments={"action": WEIGH, "arguments": '{"amount": '})).invalid is not None


def finds_and_does(reading: Reading) -> Reply | None:
    if "heavy" not in reading.news:
        return None
    return [find("how heavy is the fish"), do(WEIGH, amount=3), words("(done)")][min(reading.round, 2)]


async def test_an_action_is_found_and_done_and_the_prefix_stays(tmp_path: Path) -> None:
    """C10, C13, C20: through the whole NPC; tools and system of all requests are the same bytes, also when the world's list changes."""
    async with oda(tmp_path, tools='search = "own"') as house, house.life(actions=[SAY, *MANY]) as life:
        house.brain.script = finds_and_does
        await life.world.tell("Oda, how heavy is the fish?")
        await life.until(lambda: settled(life, 1))
        assert [(name, args) for (_, name, _), args in zip(life.world.acts, life.world.arguments, strict=True)] == [(WEIGH, {"amount": 3})]
        result = next(text for reading in house.requests() for text in reading.results if WEIGH in text)
        assert "amount: integer (how many loads)" in result
        assert f'npc_do {{"action": "{WEIGH}", "arguments": {{"amount": 1}}}}' in result
        life.world.here.actions_changed([SAY, *MANY[:50]])
        await life.world.tell("Oda, are you there?")
        await life.until(lambda: settled(life, 2))
        assert len({json.dumps([body["tools"], body["system"]]) for body in bodies(house)}) == 1


async def test_a_found_action_passes_the_same_checks(tmp_path: Path) -> None:
    """C20, N: a gate that is shut is shut for `npc_do` too, and what is unknown is not run."""
    guards = f'[gates]\nscales_free = {{ set_by = "world" }}\n[[guards]]\naction = "{WEIGH}"\ngate = "scales_free"\n'
    async with oda(tmp_path, tools=f'search = "own"\n{guards}') as house, house.life(actions=[SAY, *MANY]) as life:
        steps = [do(WEIGH, amount=3), do("weigh_gold", amount=3), words("(done)")]
        house.brain.script = lambda reading: steps[min(reading.round, 2)]
        await life.world.tell("Oda, how heavy is the fish?")
        await life.until(lambda: settled(life, 1))
        assert not life.world.acts
        told = [text for reading in house.requests() for text in reading.results]
        assert [text[:8] for text in told] == ["[not don", "[not run"]
        assert "scales_free" in told[0]
        assert "weigh_" in told[1], "near names are named"


async def test_what_was_found_is_known_after_a_reset_in_a_later_life(tmp_path: Path) -> None:
    """C20, P11: the history is gone; the names come back with the notebook, so that nothing has to be looked for twice."""
    async with oda(tmp_path, tools='search = "own"') as house:
        house.brain.script = finds_and_does
        async with house.life(actions=[SAY, *MANY]) as life:
            await life.world.tell("Oda, how heavy is the fish?")
            await life.until(lambda: settled(life, 1))
        refusals = iter([Reply(content=[], stop_reason="refusal")] * 2)
        house.brain.script = lambda _: next(refusals, None)
        async with house.life(actions=[SAY, *MANY]) as life:
            await life.world.tell("Oda, something nobody may answer")
            await life.until(lambda: life.world.said)
        said = house.requests()[-1].said
        assert "[context reset:" in said
        assert f"found and used before (npc_do calls them): {WEIGH}(amount)" in said


def test_what_is_known_is_bounded_and_only_what_is_offered() -> None:
    """C20: a few names, whatever was used in a long life and whatever stands in a checkpoint."""
    familiar = Familiar()
    for action in MANY:
        familiar.used(action.name)
    assert len(familiar.dump()) == 12
    assert not familiar.told("own", {})
    familiar.load({"not": "a list"})
    assert familiar.dump() == []


# ------------------------------------------------------------ the provider's search
async def test_the_providers_search_stands_in_the_history_over_turns_and_lives(tmp_path: Path) -> None:
    """C2, C20: search and result go back as they came, in the next step, the next turn and the next life; nothing is rejected."""
    async with oda(tmp_path, tools='search = "api"') as house:

        def script(reading: Reading) -> Reply | None:
            turn = [b["type"] for role, content in reading.messages[reading.opening + 1 :] if role == "assistant" for b in content]
            if "tool_use" in turn:
                return words("(done)")
            known = any(WEIGH in searches.names_in(b) for m in reading.body["messages"] for b in m["content"])
            return Reply(content=[weigh() if known else look("how heavy is fish")])

        house.brain.script = script
        for _ in range(2):
            async with house.life(actions=[SAY, *MANY]) as life:
                await life.world.tell("Oda, how heavy is the fish?")
                await life.until(lambda: settled(life, 1))
                assert [name for _, name, _ in life.world.acts] == [WEIGH]
                assert not life.saw("model failure")
        sent = bodies(house)
        assert len(sent) == 4, "one answer searches and calls; the second life has to search no more"
        assert served(sent[0]) == []
        assert all(served(body) == [searches.USE, searches.RESULT] for body in sent[1:])
        assert len({json.dumps(body["tools"]) for body in sent}) == 1
        assert all("a limit of 3 is enough" in body["system"][0]["text"] for body in sent)
        parts = [b for body in sent[1:] for m in body["messages"] for b in m["content"] if b["type"] == searches.RESULT]
        assert all({k: v for k, v in part.items() if k != "cache_control"} == parts[0] for part in parts)


async def test_a_found_action_that_the_world_takes_back_breaks_nothing(tmp_path: Path) -> None:
    """C20, W4: a reference to a tool that is gone would have every request refused; it leaves the history before the next one."""
    async with oda(tmp_path, tools='search = "api"') as house, house.life(actions=[SAY, *MANY]) as life:
        house.brain.script = lambda r: None if "there" in r.news else (words("(done)") if r.round else Reply(content=[look("fish")]))
        await life.world.tell("Oda, look for fish")
        await life.until(lambda: settled(life, 1))
        left = []
        for turn, actions in ((2, MANY), (3, [a for a in MANY if not a.name.endswith("fish")]), (4, MANY[:3])):
            life.world.here.actions_changed([SAY, *actions])
            await life.world.tell("Oda, are you there?")
            await life.until(partial(settled, life, turn))
            left.append(served(bodies(house)[-1]))
        assert not life.saw("model failure")
        assert left == [[searches.USE, searches.RESULT]] * 2 + [[]], "where nothing is searched any more nothing of it is sent"
        assert life.world.said[-1] == "I hear you."


async def test_a_paused_search_is_gone_on_with(tmp_path: Path) -> None:
    """C20: an answer that stops in the middle of its searches is sent back as it is, and what it found is used."""
    async with oda(tmp_path, tools='search = "api"') as house, house.life(actions=[SAY, *MANY]) as life:
        steps: Iterator[Reply] = iter(
            [Reply(content=[look("how heavy is fish")], stop_reason="pause_turn"), Reply(content=[weigh()]), words("(done)")]
        )
        house.brain.script = lambda _: next(steps, None)
        await life.world.tell("Oda, how heavy is the fish?")
        await life.until(lambda: settled(life, 1))
        assert [name for _, name, _ in life.world.acts] == [WEIGH]
        assert not life.saw("model failure")
        assert served(bodies(house)[-1]) == [searches.USE, searches.RESULT]


async def test_a_search_left_without_result_is_not_sent_back(tmp_path: Path) -> None:
    """C2, C20: asked for beside one of our own tools, the provider leaves it undone; sent back so, the request would be refused."""
    async with oda(tmp_path, tools='search = "api"') as house, house.life(actions=[SAY, *MANY]) as life:
        both = Reply(content=[look("fish"), *use("say", "Let me see.").content])
        house.brain.script = lambda reading: words("(done)") if reading.round else both
        await life.world.tell("Oda, how heavy is the fish?")
        await life.until(lambda: settled(life, 1))
        assert life.world.said == ["Let me see."]
        assert not life.saw("model failure")
        assert served(bodies(house)[-1]) == []


async def test_an_endpoint_without_the_search_gets_ours(tmp_path: Path) -> None:
    """C20: a gateway that refuses deferred tools costs one request, not the life."""
    async with oda(tmp_path, tools='search = "api"') as house:
        without = {name: replace(facts, tool_search=False) for name, facts in PROFILES.items()}
        async with MessagesAPI(house.brain, 12_000, profiles=without, on_request=house.changes.tell, keep=1_000) as model:
            house.model = model
            async with house.life(actions=[SAY, *MANY]) as life:
                await life.world.tell("Oda, are you there?")
                await life.until(lambda: settled(life, 1))
                assert life.world.said == ["I hear you."]
                assert len(life.saw("model failure")) == 1
                assert "npc_find_tool" in house.requests()[-1].tools
                assert any("tool search" in alarm["text"] for alarm in life.saw("alarm"))


# ------------------------------------------------------------ whole exchanges
_PART = st.sampled_from(["use1", "use2", "result1", "result2", "said", "thought", "call"])
_ROW = st.tuples(st.sampled_from(["user", "assistant"]), st.lists(_PART, min_size=1, max_size=4))


def block(part: str, n: int) -> Any:
    known: dict[str, dict[str, Any]] = {
        "use": {"type": searches.USE, "id": f"srvtoolu_{part[-1]}", "name": "tool_search_tool_bm25", "input": {"query": "q"}},
        "res": {
            "type": searches.RESULT, "tool_use_id": f"srvtoolu_{part[-1]}", "content": {"type": searches.FOUND, "tool_references": []},
        },
        "tho": {"type": "thinking", "thinking": "hm", "signature": "s"},
        "cal": {"type": "tool_use", "id": f"t{n}", "name": "say", "input": {}},
    }  # fmt: skip
    data = known.get(part[:3], {"type": "text", "text": part})
    kinds = {"use": Kind.SERVED, "res": Kind.SERVED, "tho": Kind.OTHER, "cal": Kind.TOOL_USE}
    return make_block(kinds.get(part[:3], Kind.SAID), data, len)


@given(st.lists(_ROW, max_size=8))
def test_mending_leaves_no_half_search(rows: list[tuple[Any, list[str]]]) -> None:
    """C2: whatever a cut, a crash or a strange endpoint left of the searches, what goes out holds them whole or not at all."""
    told = (text_block(Kind.OBSERVATION, "hi", len),)
    history = [
        Message(role, tuple(block(p, 10 * n + k) for k, p in enumerate(parts)) if role == "assistant" else told, n)
        for n, (role, parts) in enumerate(rows)
    ]
    mended_ = mended(history, len)
    merged: list[dict[str, Any]] = []
    for message in mended_:
        if not merged or merged[-1]["role"] != message.role:
            merged.append({"role": message.role, "content": []})
        merged[-1]["content"] += [dict(b.data) for b in message.blocks]
    assert not [p for p in problems(merged, prefill=True) if "search" in p]
    assert mended(mended_, len) == mended_
