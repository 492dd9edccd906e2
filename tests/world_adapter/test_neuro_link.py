"""The Neuro API's pure half: what the NPC is told, what the game gets, and when. W1, W2, W4, C35."""

from __future__ import annotations

import json

from tests.world_adapter.neuro_games import ESCAPE, GAME, GUESS, TICTACTOE, Table, force, frame, offer, recording, result
from world_adapter.frames import ActState

NUMBER = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1, "maximum": 10}}, "required": ["number"]}


# ---------------------------------------------------------------- recorded games


def replayed(name: str) -> Table:
    """A recorded game, its actions sent when they were sent then; those that the adapter refuses get the recorded answers all the same."""
    table = Table()
    for row in recording(name):
        table.later(max(100.0 + row.t - table.now, 0.0))
        if row.note.startswith("connection "):
            table.connect()
        elif row.note.startswith("closed"):
            table.close()
        elif row.inward and not row.note:
            table.says(json.dumps(row.frame))
        elif row.command == "action":
            data = row.frame["data"]
            try:
                args = json.loads(data.get("data", "{}"))
            except ValueError:
                args = {}
            table.act(data["id"], data["name"], **args)
    return table


def test_tic_tac_toe_as_recorded() -> None:
    """W1: unregister, result, context, register and force within 5 ms leave the NPC with the right moves, told in order."""
    table = replayed(TICTACTOE)
    assert [(tag, name) for tag, name, _ in table.acts] == [("a1", "play_1_1"), ("a2", "play_2_1"), ("a3", "play_1_2")]
    assert all(each["data"]["data"] == "{}" for each in table.sent if each["command"] == "action")
    assert table.sent[0] == {
        "command": "startup", "data": {"session": {"sessionId": "s1", "characterId": "warden", "displayName": "The Warden"}},
    }  # fmt: skip
    assert [table.results[tag].text for tag in ("a1", "a2", "a3")] == [
        "Played an X at row 1 column 1", "Played an X at row 2 column 1", "Played an X at row 1 column 2",
    ]  # fmt: skip
    assert all(each.state is ActState.DONE for each in table.results.values())
    kinds = [(each.kind, each.to) for each in table.told]
    turn = [("force", "warden"), ("notice", None)]
    assert kinds == [("notice", None), ("notice", None), *turn, *turn, turn[0], ("notice", None), ("notice", "warden")]
    assert [each.data["choices"] for each in table.forces if each.data][1:] == [
        [f"play_{cell}" for cell in ("0_1", "0_2", "1_0", "1_2", "2_0", "2_1", "2_2")],
        [f"play_{cell}" for cell in ("0_2", "1_0", "1_2", "2_0", "2_2")],
    ]
    assert "It is your turn now." in table.forces[0].text
    assert "Neuro's Turn" in table.forces[0].text
    assert table.texts[-1] == "O wins!"
    assert table.offered == []
    assert table.worlds == ["Tic Tac Toe"]
    assert table.gone == ["The game has closed the link."]
    assert table.link.deadline is None


def test_a_game_that_comes_back_without_a_word_as_recorded() -> None:
    """W1, W3, W4: after the line broke it says neither startup nor its actions, and ignores being asked: the NPC acts on as before."""
    table = replayed(ESCAPE)
    assert table.worlds == ["Terminal Escape", "Terminal Escape"]
    assert table.offered == ["change_directory", "pwd", "open_file", "ls"]
    asked = [each["command"] for each in table.sent if each["command"] != "action"]
    assert asked == ["startup", "actions/reregister_all"]
    sent = {tag for tag, _, _ in table.acts}
    assert {"a16", "a19"} <= sent
    assert "a12" not in sent, "an action that the game never offered is not sent"
    assert table.results["a12"].error_code == "unknown_action"
    assert table.results["a16"].text == "The working directory has been changed to /"
    assert table.results["a19"].state is ActState.FAILED
    assert table.link.counters.stray == 2  # the recorded answers to what is not sent now
    assert any("heard nothing of this game for 5 seconds" in text for text in table.texts)
    assert any(each.to == "warden" and "awaken" in each.text for each in table.told)
    assert not table.forces


def test_a_game_that_forces_for_ever_as_recorded() -> None:
    """W1, W2: each force is told once, each answered once, whatever their number, and nothing piles up."""
    table = replayed(GUESS)
    acts = table.acts
    assert len(acts) == 25
    assert len({tag for tag, _, _ in acts}) == 25
    assert acts[0] == ("a1", "guess_number", {"number": 6})
    forces = sum(row.command == "actions/force" for row in recording(GUESS))
    assert len(table.forces) == forces
    assert [each.data["force"] for each in table.forces if each.data] == list(range(1, forces + 1))
    assert table.results["a26"].error_code == "not_attached"  # asked for after the game had gone


# ---------------------------------------------------------------- words


def test_context_asks_for_an_answer_unless_it_is_silent() -> None:
    """W1: only what is plainly not silent is said to the NPC; an answer costs money."""
    table = Table.set()
    for silent in (True, False, None, 0, "false"):
        table.says(frame("context", message=f"It is {silent}.", silent=silent))
    told = {each.text: each.to for each in table.told if each.text.startswith("It is")}
    assert told == {"It is True.": None, "It is False.": "warden", "It is None.": None, "It is 0.": None, "It is false.": None}


def test_what_is_said_while_a_result_is_owed_comes_after_it_in_order() -> None:
    """W3: context, forces and notices wait for the result, and none is lost if it never comes."""
    table = Table.set("hit")
    table.act("a1", "hit")
    before = len(table.told)
    table.says(frame("context", message="one", silent=True), frame("context", message="two", silent=False), force("hit"))
    assert len(table.told) == before
    table.says(result("a1", "ouch"))
    told = [effect for effect in table.wanted if type(effect).__name__ in ("Result", "Deliver")][-4:]
    assert type(told[0]).__name__ == "Result"
    assert table.texts[-3:-1] == ["one", "two"]
    assert table.forces
    table.act("a2", "hit")
    table.says(frame("context", message="three", silent=True))
    table.later(25)
    assert table.results["a2"].state is ActState.UNKNOWN
    assert "three" in table.texts
    table.act("a3", "hit")
    table.says(frame("context", message="four", silent=True))
    table.close()
    assert "four" in table.texts


def test_a_flood_of_words_while_a_result_is_owed_stays_bounded() -> None:
    """W2: beyond a thousand memory counts for more than order, and still nothing is lost."""
    table = Table.set("hit")
    table.act("a1", "hit")
    for n in range(2_500):
        table.says(frame("context", message=f"line {n}", silent=True))
    assert sum(text.startswith("line") for text in table.texts) == 2_000
    table.says(result("a1"))
    assert [text for text in table.texts if text.startswith("line")] == [f"line {n}" for n in range(2_500)]


# ---------------------------------------------------------------- the list of actions


def test_startup_clears_duplicates_are_ignored_and_unregistering_what_is_not_there_is_harmless() -> None:
    """W4: as the game's specification has it; the list is told again only when it changed."""
    table = Table.set("hit", "run")
    lists = len([each for each in table.wanted if type(each).__name__ == "ActionsChanged"])
    table.says(offer("hit", schema=NUMBER), frame("actions/unregister", action_names=["jump", 7]))
    assert len([each for each in table.wanted if type(each).__name__ == "ActionsChanged"]) == lists
    assert table.link.actions.specs[0].schema == {"type": "object", "properties": {}}
    table.says(frame("actions/unregister", action_names=["run"]))
    assert table.offered == ["hit"]
    table.says(frame("startup"))
    assert table.offered == []


def test_after_a_broken_link_a_game_may_say_its_actions_anew() -> None:
    """W4: what it offers again replaces what was kept; what it takes back is gone."""
    table = Table.set("guess", "run")
    table.close()
    table.later(5)
    table.connect()
    table.later(2)
    assert table.sent[-1] == {"command": "actions/reregister_all"}
    assert table.offered == ["guess", "run"]
    table.says(offer("guess", schema=NUMBER), frame("actions/unregister", action_names=["run"]))
    (spec,) = table.link.actions.specs
    assert spec.schema == NUMBER


def test_another_game_on_the_next_connection_inherits_nothing() -> None:
    """W4, T13: its title tells."""
    table = Table.set("hit")
    table.says(force("hit"))
    table.close()
    table.connect()
    table.later(2)  # silent at first: it might be the same
    table.says(frame("context", game="Chess", message="White to move.", silent=True))
    assert table.worlds == [GAME, GAME, "Chess"]
    assert table.offered == []
    assert not table.waits()
    table.says(frame("context", game="Go", message="Black to move.", silent=True))
    assert table.worlds[-1] == "Chess", "a connection is of one game"


def test_a_force_that_names_what_was_never_registered_can_be_answered_all_the_same() -> None:
    """W4: after a crash of ours a game may go on without saying its actions again."""
    table = Table()
    table.connect()
    table.says(force("guess"))
    assert table.offered == ["guess"]
    assert table.forces
    table.act("a1", "guess", number=3)
    assert table.acts == [("a1", "guess", {"number": 3})]
    table.says(result("a1"), offer("guess", schema=NUMBER))
    assert table.link.actions.specs[0].schema == NUMBER


# ---------------------------------------------------------------- forces


def test_a_newer_force_replaces_the_one_before() -> None:
    """W1: the NPC is told that it does; an answer to the old one does not answer the new one."""
    table = Table.set("hit", "run")
    table.says(force("hit", query="Hit!"))
    table.later(1)
    table.says(force("run", query="Run!"))
    assert "replaces" in table.forces[-1].text
    assert "Run!" in table.forces[-1].text
    table.act("a1", "hit")
    table.says(result("a1"))
    assert table.waits()
    table.act("a2", "run")
    table.says(result("a2"))
    assert not table.waits()
    table.later(1_000)
    assert len(table.forces) == 2


def test_of_a_game_that_forces_faster_than_anybody_answers_the_newest_is_told() -> None:
    """W2, C9: a thousand forces in a second are told as four or five, and the last is among them."""
    table = Table.set("hit")
    for n in range(1_000):
        table.says(force("hit", query=f"Hit {n}!"))
        table.later(0.001)
    table.later(1)
    assert 4 <= len(table.forces) <= 6
    assert "Hit 999!" in table.forces[-1].text


def test_a_force_that_nobody_answers_is_told_again_a_few_times_and_no_more() -> None:
    """W1, C9: reminders are bounded, and an answer that comes after an hour is an answer."""
    table = Table.set("hit")
    table.says(force("hit", query="Hit it!", state="It is big."))
    table.later(3_600)
    assert len(table.forces) == 1 + table.patience.reminders
    assert all("Hit it!" in each.text and "hit" in each.text.splitlines()[-1] and each.to == "warden" for each in table.forces)
    assert ["It is big." in each.text for each in table.forces] == [True, False, False, False]
    table.act("a1", "hit")
    table.says(result("a1"))
    assert not table.waits()


def test_a_game_that_repeats_a_force_by_itself_is_heard_seldom_but_for_ever() -> None:
    """P1, C9: it must neither starve nor run up a bill."""
    table = Table.set("hit")
    for _ in range(3_600):
        table.says(force("hit"))
        table.later(1)
    assert 10 <= len(table.forces) <= 20


def test_a_refused_answer_is_retried_within_a_force_a_few_times_and_never_outside() -> None:
    """W1: the NPC is told what is still open, in the result and by a reminder, until it is hopeless."""
    table = Table.set("hit")
    table.act("a0", "hit")
    table.says(result("a0", "Missed.", success=False))
    assert table.results["a0"].text == "Missed."
    table.later(600)
    assert not table.forces
    table.says(force("hit"))
    for n in range(1, 4):
        table.act(f"a{n}", "hit")
        table.says(result(f"a{n}", "Missed.", success=False))
        assert table.results[f"a{n}"].state is ActState.FAILED
        assert ("still waits" in table.results[f"a{n}"].text) is (n < 3)
        table.later(20)
    assert "attempt 3" in table.results["a3"].text
    told = len(table.forces)
    assert told == 3
    table.later(3_600)
    assert len(table.forces) == told
    assert not table.waits()


def test_nothing_is_retried_once_the_actions_were_taken_back() -> None:
    """W1: the known deadlock. The force is over, whether an answer is under way or not."""
    table = Table.set("hit")
    table.says(force("hit"))
    table.act("a1", "hit")
    table.says(frame("actions/unregister", action_names=["hit"]), result("a1", "Too late.", success=False))
    assert table.results["a1"].text == "Too late."
    assert not table.waits()
    table.says(offer("hit"))
    table.later(3_600)
    assert len(table.forces) == 1
    table.says(force("hit"), frame("actions/unregister", action_names=["hit"]))
    assert table.texts[-1] == "The game no longer waits for that choice."
    table.act("a2", "hit")
    assert table.results["a2"].error_code == "unknown_action"
    table.later(3_600)
    assert len(table.forces) == 2


def test_a_result_that_does_not_come_is_unknown_and_one_that_comes_late_is_news() -> None:
    """W1, C35: after 20 s; it counts as an answer that came to nothing, and a late one settles the force after all."""
    table = Table.set("hit")
    table.says(force("hit"))
    table.act("a1", "hit")
    table.later(19)
    assert "a1" not in table.results
    table.later(2)
    assert (table.results["a1"].state, table.results["a1"].error_code) == (ActState.UNKNOWN, "timeout")
    assert "still waits" in table.results["a1"].text
    assert len(table.acts) == 1, "nothing is repeated by itself"
    table.says(result("a1", "Hit after all."))
    assert table.results["a1"].state is ActState.DONE
    assert not table.waits()
    table.says(result("a1", "Hit after all."), result("nobody"))
    assert table.link.counters.stray == 2
    table.later(3_600)
    assert len(table.forces) == 1


def test_a_force_outlives_a_broken_link_but_not_a_restart_of_the_game() -> None:
    """W3: a game that comes back silently may still wait."""
    table = Table.set("hit")
    table.says(force("hit"))
    table.act("a1", "hit")
    table.close()
    assert table.results["a1"].error_code == "link_lost"
    table.later(3_600)
    told = len(table.forces)
    table.connect()
    table.later(60)
    assert len(table.forces) == told + 1
    table.act("a2", "hit")
    assert table.acts[-1][0] == "a2"
    table.says(frame("startup"))
    assert table.results["a2"].error_code == "restarted"
    assert not table.waits()


def test_a_state_that_is_only_for_the_choice_is_told_apart() -> None:
    """C10: whoever is behind reads only the newest of these."""
    table = Table.set("hit")
    table.says(force("hit", state="Board 1", ephemeral_context=True, priority="critical"))
    state, asked = table.told[-2:]
    assert (state.text, state.key, state.to) == ("Board 1", "force state", None)
    assert "Board 1" not in asked.text
    assert asked.prio == 9


# ---------------------------------------------------------------- actions


def test_several_actions_at_once_go_out_one_after_the_other() -> None:
    """W1: a game takes one at a time; what is taken back meanwhile is not sent."""
    table = Table.set("hit", "run", "eat")
    for tag, name in (("a1", "hit"), ("a2", "run"), ("a3", "eat")):
        table.act(tag, name)
    assert [tag for tag, _, _ in table.acts] == ["a1"]
    table.says(frame("actions/unregister", action_names=["run"]), result("a1"))
    assert table.results["a2"].error_code == "withdrawn"
    assert [tag for tag, _, _ in table.acts] == ["a1", "a3"]
    table.act("a4", "hit", timeout_s=5)
    table.later(6)
    assert table.results["a4"].error_code == "busy"
    table.act("a5", "hit")
    table.close()
    assert table.results["a5"].error_code == "not_attached"
    assert table.results["a3"].error_code == "link_lost"


def test_what_became_of_an_action_of_an_earlier_life_is_not_known() -> None:
    """C35: games keep no record."""
    table = Table.set()
    table.link.query("old-7")
    table.later(0)
    table.says()
    assert table.results["old-7"].state is ActState.UNKNOWN


# ---------------------------------------------------------------- ends


def test_leaving_asks_the_game_to_save_and_then_says_that_we_are_gone() -> None:
    """W1: graceful, then immediate, then the close; a game that is ready sooner is left sooner."""
    table = Table.set("hit")
    table.leave()
    table.later(10)
    assert [each["command"] for each in table.sent][-2:] == ["shutdown/graceful", "shutdown/immediate"]
    assert table.sent[-2]["data"] == {"wants_shutdown": True}
    assert table.hangups == [1001]
    table = Table.set("hit")
    table.leave()
    table.act("a1", "hit")
    assert table.results["a1"].error_code == "busy"
    table.says(frame("shutdown/ready"))
    assert table.hangups == [1001]
    assert table.sent[-1]["command"] == "shutdown/graceful"
