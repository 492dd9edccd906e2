"""Making text safe to keep and to show.

Invariant: what leaves `clean_text` or `clean_line` can be encoded as UTF-8, cannot move a terminal's cursor, and cannot pass for a second
line where one line is meant. Words are never changed, only characters that are no words. `markdown` text renders as exactly its words.
"""

from __future__ import annotations

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# A terminal obeys the C0 and C1 sets (escape sequences start there); a lone surrogate cannot be encoded.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# Everything that `str.splitlines` takes for the end of a line, so that no reader of our files sees more lines than we wrote.
_LINE_END = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Overrides turn a text round to its end; no prose needs them. The isolates that right-to-left prose does use stay in texts.
_OVERRIDES = re.compile("[\u202d\u202e]")
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean_text(text: str, limit: int) -> str:
    """A text of several lines without control characters but tabs, at most `limit` characters long (the head kept, the cut named)."""
    text = _LINE_END.sub("\n", text)
    text = _UNPRINTABLE.sub(REPLACEMENT, _OVERRIDES.sub("", text)).strip()
    if len(text) <= limit:
        return text
    note = f" […{len(text) - limit} more characters]"
    return text[: max(0, limit - len(note))].rstrip() + note


def clean_line(text: str, limit: int) -> str:
    """One line for a heading, a table or a name: white space is one space, at most `limit` characters (an ellipsis marks a cut)."""
    line = " ".join(_UNPRINTABLE.sub(REPLACEMENT, _DIRECTIONS.sub("", _LINE_END.sub(" ", text))).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


# Anywhere in a line: code, emphasis, links and images, HTML, tables, strike-through, entities. An underscore between two letters is safe.
_INLINE = re.compile(r"[\\`*\[\]<|~]|&(?=[#\w]+;)|(?<![^\W_])_|_(?![^\W_])")
# At the start of a line: headings and their underlines, quotes, lists, definition and table rows.
_BLOCK = re.compile(r"^(?=[#>+=:-])")
_NUMBERED = re.compile(r"^(\d{1,9})([.)])")


def markdown_line(line: str) -> str:
    """The Markdown of one line that renders as the line's own characters. Leading and trailing blanks go: they would be code or breaks."""
    line = _INLINE.sub(r"\\\g<0>", line.strip(" \t"))
    return _BLOCK.sub(r"\\", _NUMBERED.sub(r"\1\\\2", line))


def markdown_text(text: str) -> str:
    """The Markdown of a text: blank lines part paragraphs, line ends stay line ends."""
    paragraphs = [[markdown_line(line) for line in block.split("\n") if line.strip()] for block in re.split(r"\n[ \t]*\n", text)]
    return "\n\n".join("  \n".join(lines) for lines in paragraphs if lines)
