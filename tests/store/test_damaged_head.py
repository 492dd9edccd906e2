"""A database whose head is garbage is a damaged one, whatever words SQLite finds for that."""

from __future__ import annotations

from pathlib import Path

from runtime.store.journal import Journal


async def test_a_journal_with_a_ruined_format_number_is_set_aside_and_the_npc_lives(tmp_path: Path) -> None:
    """C35, P1: SQLite calls it an unsupported format and no damage; an NPC that does not start for it would be lost for good."""
    path = tmp_path / "session.db"
    async with await Journal.open(path) as journal:
        journal.append("observation", {"text": "before"})
        await journal.commit()
    _ruin(path)
    async with await Journal.open(path) as journal:
        kinds = [event.kind for event in await journal.events()]
    assert "store-damaged" in kinds
    assert _aside(tmp_path)


def _aside(folder: Path) -> list[Path]:
    return list(folder.glob("session.db.damaged-*"))


def _ruin(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(44)  # the number of the schema's format
        file.write(b"\xff\xff\xff\xff")
