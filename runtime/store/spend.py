"""What a day cost, and an hour."""

from __future__ import annotations

from typing import NamedTuple


class Spend(NamedTuple):
    """Calls, tokens as the provider counted them, and dollars, added up. The order is that of the table's columns."""

    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    def plus(self, more: Spend) -> Spend:
        """Both together."""
        return Spend(
            calls=self.calls + more.calls,
            input_tokens=self.input_tokens + more.input_tokens,
            cache_read_tokens=self.cache_read_tokens + more.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + more.cache_write_tokens,
            output_tokens=self.output_tokens + more.output_tokens,
            dollars=self.dollars + more.dollars,
        )


class Hour(NamedTuple):
    """Steps, calls and dollars of one hour of UTC, added up. The order is that of the table's columns."""

    steps: int = 0
    calls: int = 0
    dollars: float = 0.0


#: Hours that are read when a journal is opened: what older ones cost is asked by nobody but by day.
HOURS_READ = 200
SCHEMA = "CREATE TABLE spend_hours(hour INTEGER PRIMARY KEY, steps INTEGER NOT NULL, calls INTEGER NOT NULL, dollars REAL NOT NULL);;"
#: What was counted by day only stands in the first hour of its day.
_FILL = """INSERT INTO spend_hours
    SELECT CAST(strftime('%s', day) AS INTEGER) / 3600, calls, calls, dollars FROM spend WHERE strftime('%s', day) IS NOT NULL;;"""
UPGRADE = f"{SCHEMA}{_FILL}"
ADD = "INSERT OR REPLACE INTO spend_hours VALUES (?, ?, ?, ?)"
READ = "SELECT hour, steps, calls, dollars FROM (SELECT * FROM spend_hours ORDER BY hour DESC LIMIT ?) ORDER BY hour"
