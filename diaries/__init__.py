"""Diaries: what an NPC tells about its own life, in its own words, for people and for itself.

`entry` is the thing written, `book` the folder that it is written in, `chronicle` the words found when the NPC has none. `shelf` keeps
several books as they are now, `search` finds words in them, `reader` and `export` give them to people. Nothing here knows the agent loop,
a game or an NPC's home.
"""

from diaries.book import Book, Listing, Written
from diaries.entry import CONTEXT_RESET, Author, Entry
from diaries.errors import DiaryError

__all__ = ["CONTEXT_RESET", "Author", "Book", "DiaryError", "Entry", "Listing", "Written"]
