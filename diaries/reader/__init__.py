"""Diaries as pages that people like to read: `application` to serve them, `one_file` to give them away.

Invariant: whatever an entry, a name or an event says, it is shown as its own words. The pages fetch nothing from anywhere but their server,
hold no markup that was not written here, and work without scripts (which only bring what is new, and the events, into the page).
"""

from diaries.reader.app import application
from diaries.reader.behind import Behind, Happened, Look
from diaries.reader.onefile import one_file

__all__ = ["Behind", "Happened", "Look", "application", "one_file"]
