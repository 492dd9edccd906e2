"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_they_come() -> Iterator[None]:
    """A command that a test runs in this process sets how loud logs are; the next test hears them again."""
    yield
    structlog.reset_defaults()
