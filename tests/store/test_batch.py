"""A batch that could not be written, and what was queued meanwhile, are one batch in the right order (row C35)."""

from __future__ import annotations

from runtime.store.batch import Batch
from runtime.store.spend import Spend


def batch(first: int, last: int, *, name: str) -> Batch:
    made = Batch()
    for id_ in range(first, last + 1):
        made.event(id_, 0.0, 0, "heard", "{}")
    made.checkpoint("session", (0.0, 0, name.encode()))
    made.watermark("world", (name, last))
    made.spend("today", Spend(last))
    made.memory(1, (1, last, 0.0, "Mira", name, "word", 1, 0))
    return made


def rows(made: Batch, table: str) -> list[object]:
    return [row for sql, rows in made.statements() if f" {table}(" in sql or f" {table} " in sql for row in rows]


def test_newer_things_come_after_or_in_the_place_of_older_ones() -> None:
    both = batch(1, 3, name="old").followed_by(batch(4, 6, name="new"))
    assert [row[0] for row in both.events] == [1, 2, 3, 4, 5, 6]
    assert rows(both, "checkpoints") == [("session", 0.0, 0, b"new")]
    assert rows(both, "watermarks") == [("world", "new", 6)]
    assert rows(both, "spend") == [("today", *Spend(6))]
    assert rows(both, "memories") == [(1, 6, 0.0, "Mira", "new", "word", 1, 0)]


def test_what_had_to_go_is_counted_over_all_of_them() -> None:
    old, new = batch(1, 9, name="old"), batch(10, 19, name="new")
    room = old.event_bytes // 9
    old.drop_events(4 * room)
    new.drop_events(5 * room)
    both = old.followed_by(new)
    assert both.dropped == (1, 14, 10)
    assert [row[0] for row in both.events] == [6, 7, 8, 9, 15, 16, 17, 18, 19]
    assert both.event_bytes == 9 * room


def test_the_newest_event_is_never_dropped() -> None:
    made = batch(1, 5, name="fat")
    made.drop_events(0)
    assert [row[0] for row in made.events] == [5]


def test_an_empty_batch_has_no_statements() -> None:
    assert Batch().statements() == []
