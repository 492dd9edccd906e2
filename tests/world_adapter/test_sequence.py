"""The order of a stream (W3, E10), and the window that the world keeps for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from world_adapter import sequence
from world_adapter.frames import Observation, Resume
from world_adapter.replay import MIN_KEEP, Replay, resumable
from world_adapter.sequence import Sequence as Stream


def obs(*seqs: int) -> list[Observation]:
    return [Observation(seq=seq, t=0.0, kind="notice", text=f"n{seq}") for seq in seqs]


def seqs(items: Iterable[Observation]) -> list[int]:
    return [item.seq for item in items]


@given(st.permutations(range(1, 13)), st.lists(st.integers(1, 12), max_size=8), st.integers(1, 5))
def test_any_order_with_any_repeats_leaves_in_order_once(order: Sequence[int], repeats: list[int], size: int) -> None:
    """W3: each number once, in order."""
    stream = Stream()
    stream.begin(1)
    arriving = [*order, *repeats]
    left: list[int] = []
    for start in range(0, len(arriving), size):
        left += seqs(stream.take(obs(*arriving[start : start + size])))
    assert left == list(range(1, 13))
    assert stream.lost == 0
    assert stream.duplicates == len(repeats)
    assert not stream.gap


def test_what_arrives_while_a_gap_is_filled_is_kept() -> None:
    """E10: 10, 13, then 14 and 15 while the replay is under way, then 11, 12, 13."""
    stream = Stream(next_seq=10, fresh=False)
    assert seqs(stream.take(obs(10, 13))) == [10]
    assert stream.gap
    stream.begin(11)
    assert seqs(stream.take(obs(14, 15))) == []
    assert seqs(stream.take(obs(11, 12, 13))) == [11, 12, 13, 14, 15]


def test_what_the_world_could_not_keep_is_passed_over_once_it_proves_gone() -> None:
    """W3: an announced start above ours counts as lost when the first observation confirms it."""
    stream = Stream(next_seq=5, fresh=False)
    stream.begin(9)
    assert seqs(stream.take(obs(9, 10))) == [9, 10]
    assert stream.lost == 4


def test_an_announcement_that_the_replay_belies_loses_nothing() -> None:
    """W3: some worlds announce the newest number and send the replay first."""
    stream = Stream(next_seq=5, fresh=False)
    stream.begin(9)
    assert seqs(stream.take(obs(5, 6, 7, 8, 9))) == [5, 6, 7, 8, 9]
    fresh = Stream()
    fresh.begin(9)
    assert seqs(fresh.take(obs(5, 6))) == [5, 6]
    assert stream.lost == fresh.lost == 0


def test_a_newcomer_begins_where_the_world_begins() -> None:
    """W3: a first attach does not wait for numbers that were never meant for it."""
    stream = Stream()
    stream.begin(501)
    assert seqs(stream.take(obs(501, 502))) == [501, 502]
    assert stream.lost == 0


def test_skipping_gives_up_the_missing_and_only_the_missing() -> None:
    """W3: a number that never comes does not make the NPC deaf for ever."""
    stream = Stream(next_seq=3, fresh=False)
    assert seqs(stream.take(obs(5, 7))) == []
    assert seqs(stream.skip()) == [5]
    assert stream.lost == 2
    assert seqs(stream.skip()) == [7]
    assert stream.lost == 3
    stream.pass_over()
    assert seqs(stream.take(obs(9))) == [9]
    assert stream.lost == 4


def test_what_waits_behind_a_gap_is_bounded() -> None:
    """W2: memory stays flat; what was dropped comes with the replay."""
    stream = Stream()
    stream.begin(1)
    limit = sequence.MAX_EARLY
    assert seqs(stream.take(obs(*range(2, limit + 10)))) == []
    assert stream.full
    stream.begin(1)
    assert seqs(stream.take(obs(*range(1, limit + 10)))) == list(range(1, limit + 10))


def replay(count: int, keep: int = MIN_KEEP) -> Replay:
    kept = Replay(keep=keep)
    for o in obs(*range(1, count + 1)):
        kept.add(o)
    return kept


def test_everything_is_kept_until_it_is_acknowledged() -> None:
    """W3: rule 2 of the protocol."""
    kept = replay(1_000)
    kept.ack(400)
    assert kept.begin(400) == (401, 0)
    assert seqs(kept.after(400, items=3, chars=10**6) or []) == [401, 402, 403]
    assert kept.begin(None) == (401, 0)
    assert kept.begin(100) == (401, 300)  # an agent whose disk went back in time
    kept.ack(10**9)
    assert kept.acked == 400


def test_what_left_the_window_is_counted() -> None:
    """W3: the promise is the last thousand; the rest is lost and said."""
    kept = replay(1_500)
    next_seq, lost = kept.begin(200)
    assert lost == next_seq - 201 > 0
    assert 1_500 - next_seq + 1 >= MIN_KEEP
    assert kept.after(200, items=1, chars=1) is None
    with pytest.raises(ValueError, match="promises"):
        Replay(keep=MIN_KEEP - 1)


def test_a_forgetful_world_goes_on_where_the_agent_is() -> None:
    """W3: restarted under its old epoch, what it has to say is not taken for old news."""
    kept = replay(2)
    assert kept.begin(50) == (51, 0)
    assert [(o.seq, o.text) for o in kept.after(50, items=9, chars=99) or []] == [(51, "n1"), (52, "n2")]


def test_batches_are_bounded_by_text_but_never_empty() -> None:
    """W3: one observation larger than the bound travels alone."""
    kept = replay(10)
    assert seqs(kept.after(0, items=10, chars=130) or []) == [1, 2]
    assert seqs(kept.after(0, items=10, chars=0) or []) == [1]


def test_only_the_same_stream_can_be_resumed() -> None:
    """W3: numbers of another epoch or world mean nothing here."""
    resume = Resume(session="s", epoch="e", seq=4, world="w")
    assert resumable(resume, world="w", epoch="e") == 4
    assert resumable(resume, world="w", epoch="f") is None
    assert resumable(resume, world="v", epoch="e") is None
    assert resumable(None, world="w", epoch="e") is None
