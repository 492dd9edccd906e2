"""What holds for every test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import structlog

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(autouse=True)
def _logs_as_they_come() -> Iterator[None]:
    """A command that a test runs in this process sets how loud logs are; the next test hears them again."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium. Skips where there is none, unless NPC_REQUIRE_REAL is set (as in CI)."""
    from playwright.sync_api import Error, sync_playwright  # noqa: PLC0415 - only those who open a page pay for it

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None and not os.environ.get("NPC_REQUIRE_REAL"):
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            if os.environ.get("NPC_REQUIRE_REAL"):
                raise
            pytest.skip(f"Chromium does not start here: {error.message.splitlines()[0]}")
        yield found
        found.close()
