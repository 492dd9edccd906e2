"""The one thing that can go wrong with a diary, for whoever writes in it."""

from __future__ import annotations


class DiaryError(Exception):
    """An entry was not written (or is no entry). The message is one sentence with the way out; the diary is as it was before."""
